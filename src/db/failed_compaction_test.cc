// A CompactRange whose sync fails: what it met is an error of the store, not of the call alone.

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
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

INSTANTIATE_TEST_SUITE_P(All, FailedCompaction, ::testing::ValuesIn(EngineLayouts()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
