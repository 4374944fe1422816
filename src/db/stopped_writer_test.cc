// Who waits for background work is told of what it waits for: a word that is not given, and the
// test hangs. A Get that does not end holds back what makes tables of MemTables, or merges those,
// so that DRAM is filled until writers are stopped.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
#include "testing/engines/traits.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

class StoppedWriterTest : public ::testing::TestWithParam<EngineKind> {
 protected:
  StoppedWriterTest() {
    Options options;
    options.engine = GetParam();
    options.memory_budget_bytes = 1 << 20;
    options.memtable_bytes = 64 << 10;
    db_ = std::make_unique<DbImpl>(options, dir_.Sub("store"));
    const Status s = db_->Init();
    EXPECT_TRUE(s.ok()) << s.ToString();
    get_ = db_->pool()->readers()->Pin();
  }
  ~StoppedWriterTest() override {
    EndGet();
    if (writer_.joinable()) writer_.join();
  }

  void EndGet() {
    if (get_is_under_way_) db_->pool()->readers()->Unpin(get_);
    get_is_under_way_ = false;
  }
  bool IsStopped() const { return db_->engine()->WriteDelayNs() == kStopWriting; }
  Status Put(uint64_t i) { return db_->Put({}, Concat("key", i), "value"); }
  /// A thread that writes until a write was stopped and is over. The one under way when writers
  /// are told to stop may have begun before that, so the last is one begun after it.
  void WriteUntilStopped() {
    writer_ = std::thread([this] {
      bool is_last = false;
      for (uint64_t i = 0; written_.ok() && !is_last; i++) {
        is_last = was_stopped_.load();
        written_ = Put(i);
      }
      is_done_.set_value();
    });
    while (!IsStopped()) ASSERT_FALSE(IsDoneWithin(std::chrono::milliseconds(1)));
    was_stopped_.store(true);
    ASSERT_FALSE(IsDoneWithin(std::chrono::milliseconds(30)));
    ASSERT_TRUE(IsStopped());
  }
  bool IsDoneWithin(std::chrono::milliseconds time) {
    return done_.wait_for(time) == std::future_status::ready;
  }
  testing::TempDir dir_;
  std::unique_ptr<DbImpl> db_;
  uint64_t get_ = 0;
  bool get_is_under_way_ = true;
  std::atomic<bool> was_stopped_{false};
  std::promise<void> is_done_;
  std::future<void> done_ = is_done_.get_future();
  Status written_;  // what the last write was answered
  std::thread writer_;
};

INSTANTIATE_TEST_SUITE_P(All, StoppedWriterTest, ::testing::ValuesIn(testing::BuiltEngines()),
                         [](const auto& engine) { return testing::TestNameOf(engine.param); });

TEST_P(StoppedWriterTest, GoesOnWithWhatAGetHeldBack) {
  WriteUntilStopped();
  EndGet();
  done_.wait();
  EXPECT_TRUE(written_.ok()) << written_.ToString();
  EXPECT_FALSE(IsStopped());
}

TEST_P(StoppedWriterTest, IsToldOfAnError) {
  WriteUntilStopped();
  db_->engine()->SetBackgroundError(Status::IOError("a test's"));
  done_.wait();
  EXPECT_TRUE(written_.IsReadOnly()) << written_.ToString();
  EXPECT_TRUE(IsStopped());
  ASSERT_TRUE(db_->Resume().ok());
  EndGet();
  EXPECT_TRUE(Put(0).ok()) << "the merges go on";
}

// Whether it heard of the error before Resume or not.
TEST_P(StoppedWriterTest, GoesOnAfterAResume) {
  WriteUntilStopped();
  db_->engine()->SetBackgroundError(Status::IOError("a test's"));
  ASSERT_TRUE(db_->Resume().ok());
  EndGet();
  done_.wait();
  EXPECT_TRUE(written_.ok() || written_.IsReadOnly()) << written_.ToString();
  EXPECT_TRUE(Put(0).ok());
}

TEST_P(StoppedWriterTest, AStoreIsIdleOnlyOnceWhatAGetHeldBackIsDone) {
  ASSERT_TRUE(Put(0).ok());
  auto idle = std::async(std::launch::async, [this] {
    const Status s = db_->Flush();
    return s.ok() ? db_->WaitForIdle() : s;
  });
  EXPECT_EQ(idle.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  EndGet();
  EXPECT_TRUE(idle.get().ok());
  EXPECT_EQ(db_->GetStats().levels.back().records, 1u) << "it is where it is to stay";
}

// Writers wait for a merge once megabytes do: then there is to be one, however many tables a design
// is told to leave unmerged, and however little space has to be given back.
class UnwantedMergesTest : public ::testing::TestWithParam<EngineKind> {};
INSTANTIATE_TEST_SUITE_P(All, UnwantedMergesTest, ::testing::ValuesIn(testing::BuiltEngines()),
                         [](const auto& engine) { return testing::TestNameOf(engine.param); });

TEST_P(UnwantedMergesTest, StopNoWriterForGood) {
  const testing::TempDir dir;
  Options options;
  options.engine = GetParam();
  options.space_target = 100;
  testing::Apply(testing::TraitsOf(GetParam()).keeps_tables, &options);
  DbImpl db(options, dir.Sub("store"));
  ASSERT_TRUE(db.Init().ok());
  auto writing = std::async(std::launch::async, [&db] {
    constexpr int kKeys = 1000;
    const std::string value(4000, 'x');
    Status s;
    for (int i = 0; s.ok() && i < 12 * kKeys; i++) s = db.Put({}, Concat("key", i % kKeys), value);
    return s;
  });
  constexpr std::chrono::minutes kForGood{5};
  if (writing.wait_for(kForGood) == std::future_status::timeout)
    db.engine()->SetBackgroundError(Status::IOError("it waits for nothing"));
  const Status s = writing.get();
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_TRUE(db.WaitForIdle().ok());
  EXPECT_NE(db.engine()->WriteDelayNs(), kStopWriting);
}

}  // namespace
}  // namespace lamella
