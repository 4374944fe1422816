// The file system of a store's files is full, and then not any more: what was acknowledged is there
// all along, and nothing that was refused; what somebody holds shows what it did; the store can be
// closed, killed and opened whatever is full; and once there is room writes go on.

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
#include "testing/expect_clean.h"
#include "testing/held_reads.h"
#include "testing/random_data.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

class FullFileSystem : public ::testing::TestWithParam<EngineLayout> {
 protected:
  static constexpr uint64_t kKeys = 300;

  FullFileSystem() {
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 6 << 20;
    options_.medium = random_.OneIn(2) ? MediumKind::kPage : MediumKind::kCacheLine;
    options_.log_shards = 2;
    options_.background_threads = 2;
    GetParam().ApplyTo(&options_);
  }
  Status Open() {
    db_ = std::make_unique<DbImpl>(options_, dir_.Sub("store"), DbSeams{.files = files_.get()});
    return db_->Init();
  }
  static std::string Key(uint64_t i) { return Concat("key", 10000 + i); }
  // What a write may answer while files are full.
  static bool IsOfFullFiles(const Status& s) {
    return s.IsNoSpace() ||
           (s.IsReadOnly() && s.message().find("NoSpace") != std::string_view::npos);
  }
  Status Put(uint64_t i) {
    const std::string value = MakeValue(++values_, 1 + random_.Uniform(8000));
    const Status s = db_->Put({}, Key(i), value);
    if (s.ok()) acknowledged_[Key(i)] = value;
    return s;
  }
  Status Delete(uint64_t i) {
    const Status s = db_->Delete({}, Key(i));
    if (s.ok()) acknowledged_.erase(Key(i));
    return s;
  }
  void ExpectAcknowledged(const char* when) {
    HeldReads::State found;
    const auto it = db_->NewIterator({});
    for (it->SeekToFirst(); it->Valid(); it->Next()) found.emplace(it->key(), it->value());
    ASSERT_TRUE(it->status().ok()) << when << ": " << it->status().ToString();
    ASSERT_TRUE(found == acknowledged_) << when;
    for (uint64_t i = 0; i < next_; i++) {
      std::string value;
      const Status s = db_->Get({}, Key(i), &value);
      const auto at = acknowledged_.find(Key(i));
      const bool is_right =
          at == acknowledged_.end() ? s.IsNotFound() : s.ok() && value == at->second;
      ASSERT_TRUE(is_right) << when << ": " << Key(i) << ": " << s.ToString();
    }
    ASSERT_EQ(held_.Look(&random_), "") << when;
  }
  // Puts new keys, and some anew, until one is refused, or the last is.
  void FillUp() {
    const uint64_t most = next_ + 3 * options_.pool_bytes_max / 4000;
    Status s;
    while (s.ok() && next_ < most)
      s = random_.OneIn(4) ? Put(random_.Uniform(next_)) : Put(next_++);
    ASSERT_TRUE(s.ok() || IsOfFullFiles(s)) << s.ToString();
    was_refused_ |= !s.ok();
  }

  Random random_{MixBits(TestSeed())};
  TempDir dir_;
  FullFiles hook_{{kTableFileSuffix, kValueFileSuffix}};
  const std::unique_ptr<FileSystem> files_ = FileSystem::PosixOver(&hook_);
  Options options_;
  std::unique_ptr<DbImpl> db_;
  HeldReads held_;
  HeldReads::State acknowledged_;
  uint64_t values_ = 0;
  uint64_t next_ = 0;  // key
  bool was_refused_ = false;
};

TEST_P(FullFileSystem, TakesNothingAndWritesGoOnOnceThereIsRoom) {
  ASSERT_TRUE(Open().ok());
  while (next_ < kKeys) ASSERT_TRUE(Put(next_++).ok());
  ASSERT_TRUE(db_->Flush().ok());
  hook_.full.store(true);
  for (int round = 0; round < 2; round++) {
    held_.Take(db_.get(), acknowledged_, &random_);
    for (uint64_t i = round; i < kKeys; i += 3) {
      const Status s = Delete(i);
      ASSERT_TRUE(s.ok() || IsOfFullFiles(s)) << s.ToString();
    }
    ASSERT_NO_FATAL_FAILURE(FillUp());
    ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged("full"));
    if (random_.OneIn(2)) {
      held_.LetGo();
      if (random_.OneIn(2)) (void)db_->Close().ok();
      db_->Abandon();
      db_.reset();
      const Status s = Open();
      ASSERT_TRUE(s.ok()) << s.ToString();
      ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged("opened again"));
    }
  }
  EXPECT_TRUE(was_refused_) << "there was room for all";
  hook_.full.store(false);
  if (random_.OneIn(2)) held_.LetGo();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  ASSERT_TRUE(db_->Resume().ok());
  held_.LetGo();
  for (uint64_t i = 0; i < kKeys; i++) {
    const Status s = Put(next_++);
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
  }
  for (uint64_t i = 0; i < next_; i += 2) ASSERT_TRUE(Delete(i).ok());
  Status s = db_->CompactRange({}, {});
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged("once there is room"));
  s = db_->Close();
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged("closed and opened"));
  ASSERT_NO_FATAL_FAILURE(ExpectClean(db_.get()));
  db_.reset();  // before the file system
}

INSTANTIATE_TEST_SUITE_P(All, FullFileSystem, ::testing::ValuesIn(EngineLayoutsWithFiles()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
