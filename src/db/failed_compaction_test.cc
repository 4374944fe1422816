// A CompactRange that fails: what it met is an error of the store, not of the call alone; but where
// the store was resumed meanwhile.

#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
#include "testing/file_system_over.h"
#include "testing/held_up_file.h"
#include "testing/random_data.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

/// The next sync of the pool fails, once it is armed.
class FailsASync final : public OsHook {
 public:
  int Before(OsCall call, const std::string&) override {
    return call == OsCall::kSyncMap && armed.exchange(false) ? EIO : 0;
  }
  size_t Allowed(OsCall, size_t n) override { return n; }
  std::atomic<bool> armed{false};
};

class FailedCompaction : public ::testing::TestWithParam<EngineLayout> {};

TEST_P(FailedCompaction, MakesTheStoreReadOnly) {
  const TempDir dir;
  Options options;
  options.memory_budget_bytes = 4 << 20;
  options.medium = MediumKind::kPage;
  GetParam().ApplyTo(&options);
  FailsASync hook;
  DbImpl db(options, dir.Sub("store"), DbSeams{.inline_jobs = true, .os = &hook});
  ASSERT_TRUE(db.Init().ok());
  for (uint64_t i = 0; i < 2000; i++)
    ASSERT_TRUE(db.Put({}, Concat("key", i % 700), MakeValue(i, 100)).ok());
  ASSERT_TRUE(db.Flush().ok());
  ASSERT_TRUE(db.Put({}, "key", "newer").ok());
  ASSERT_TRUE(db.Flush().ok());
  hook.armed = true;
  const Status s = db.CompactRange({}, {});
  ASSERT_FALSE(hook.armed.load()) << "it synced nothing";
  // the latter of the flush that it begins with
  EXPECT_TRUE(s.IsIOError() || s.IsReadOnly()) << s.ToString();
  EXPECT_TRUE(db.Put({}, "key", "refused").IsReadOnly());
  std::string value;
  EXPECT_TRUE(db.Get({}, "key", &value).ok() && value == "newer");
}

// It began before the Resume, whose fault that was to end (Scheduler I1). (It made the store
// read-only again; ConcurrentFaults found it.)
TEST(FailedCompactionOfBefore, IsNoErrorAfterAResume) {
  for (const bool is_resumed : {true, false}) {
    const TempDir dir;
    HeldUpFile files;
    Options options;
    options.engine = EngineKind::kLightKv;
    DbImpl db(options, dir.Sub("store"), DbSeams{.files = &files});
    ASSERT_TRUE(db.Init().ok());
    ASSERT_TRUE(db.Put({}, "key", "value").ok());
    ASSERT_TRUE(db.Flush().ok());
    files.fails_next.store(true);
    std::future<Status> compaction =
        std::async(std::launch::async, [&db] { return db.CompactRange({}, {}); });
    files.is_held.get_future().wait();
    EXPECT_TRUE(!is_resumed || db.Resume().ok());
    files.may_fail.set_value();
    EXPECT_TRUE(compaction.get().IsIOError());
    EXPECT_EQ(db.Put({}, "key", "newer").ok(), is_resumed);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FailedCompaction, ::testing::ValuesIn(EngineLayouts()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
