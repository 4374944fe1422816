// Stores with several log shards, and with another number of them than before.

#include <sched.h>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
#include "testing/random_data.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

class ShardCount : public ::testing::TestWithParam<EngineLayout> {
 protected:
  ShardCount() {
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.pool_bytes_max = 16 << 20;
    GetParam().ApplyTo(&options_);
    Apply(TraitsOf(GetParam().engine).keeps_tables, &options_);
    CPU_ZERO(&before_);
    sched_getaffinity(0, sizeof(before_), &before_);
  }
  ~ShardCount() override { sched_setaffinity(0, sizeof(before_), &before_); }

  // Has this thread write to shard `odd` of two. False where there is no such CPU.
  bool RunOnCpu(int odd) const {
    for (int cpu = odd; cpu < CPU_SETSIZE; cpu += 2) {
      if (!CPU_ISSET(cpu, &before_)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      return sched_setaffinity(0, sizeof(one), &one) == 0;
    }
    return false;
  }
  std::unique_ptr<DbImpl> Open(uint32_t shards) {
    options_.log_shards = shards;
    auto db = std::make_unique<DbImpl>(options_, dir_.Sub("store"), DbSeams{nullptr, true});
    const Status s = db->Init();
    EXPECT_TRUE(s.ok()) << s.ToString();
    return db;
  }
  static std::string Key(uint64_t i) { return MakeKey(KeyShape::kCommonPrefix, i); }

  Options options_;
  TempDir dir_;
  cpu_set_t before_;
};
INSTANTIATE_TEST_SUITE_P(All, ShardCount, ::testing::ValuesIn(EngineLayouts()),
                         [](const auto& param) { return param.param.name; });

// A shard that was out of use, and whose chunks were all collected, began again at ordinal 1; what
// it wrote lay before the position up to which its log was known to be merged, and gc took it for
// dead.
TEST_P(ShardCount, AShardThatComesBackIsNotTakenForMerged) {
  if (!RunOnCpu(0) || !RunOnCpu(1)) GTEST_SKIP() << "needs CPUs of an even and of an odd number";
  auto db = Open(2);
  for (uint64_t i = 0; i < 100; i++) ASSERT_TRUE(db->Put({}, Key(i), MakeValue(i, 1000)).ok());
  ASSERT_TRUE(db->CompactRange({}, {}).ok());
  for (uint64_t i = 0; i < 100; i++) ASSERT_TRUE(db->Delete({}, Key(i)).ok());
  ASSERT_TRUE(db->Close().ok());
  ASSERT_TRUE(RunOnCpu(0));
  db = Open(2);
  ASSERT_TRUE(db->Put({}, Key(0), "").ok());
  ASSERT_TRUE(db->CompactRange({}, {}).ok());
  ASSERT_TRUE(db->Close().ok());
  ASSERT_TRUE(RunOnCpu(1));
  uint64_t key = 1000;
  const auto write_some = [&](uint32_t shards) {
    db = Open(shards);
    for (int i = 0; i < 5; i++, ++key) ASSERT_TRUE(db->Put({}, Key(key), MakeValue(key, 100)).ok());
    ASSERT_TRUE(db->Close().ok());
  };
  write_some(1);
  // chunks that each session leaves nearly empty set gc to work
  for (int i = 0; i < 12; i++) write_some(2);
  db = Open(2);
  ASSERT_TRUE(db->WaitForIdle().ok());
  for (uint64_t i = 1000; i < key; i++) {
    std::string value;
    const Status s = db->Get({}, Key(i), &value);
    ASSERT_TRUE(s.ok() && value == MakeValue(i, 100)) << "key " << i << ": " << s.ToString();
  }
  ASSERT_TRUE(db->CompactRange({}, {}).ok());
  CheckReport report;
  ASSERT_TRUE(db->engine()->Check(&report).ok());
  EXPECT_TRUE(report.clean()) << report.problems[0];
  EXPECT_EQ(report.records, key - 1000 + 1);
  ASSERT_TRUE(db->Close().ok());
}

// A plain log's chunk goes when all of it was copied. The put was still in an open chunk of one
// shard when the delete was gone from the other's and from L1.
TEST_P(ShardCount, ARepairDoesNotBringBackWhatAnotherShardDeleted) {
  if (!RunOnCpu(0) || !RunOnCpu(1)) GTEST_SKIP() << "needs CPUs of an even and of an odd number";
  auto db = Open(2);
  ASSERT_TRUE(RunOnCpu(0));
  ASSERT_TRUE(db->Put({}, Key(0), "deleted").ok());
  ASSERT_TRUE(RunOnCpu(1));
  ASSERT_TRUE(db->Delete({}, Key(0)).ok());
  for (uint64_t i = 1; i < 200; i++) ASSERT_TRUE(db->Put({}, Key(i), MakeValue(i, 1000)).ok());
  ASSERT_TRUE(db->CompactRange({}, {}).ok());
  ASSERT_TRUE(db->WaitForIdle().ok());
  ASSERT_TRUE(db->Close().ok());
  RepairReport report;
  ASSERT_TRUE(RepairDB(dir_.Sub("store"), options_, &report).ok());
  EXPECT_EQ(report.records_kept, 199u);
  db = Open(2);
  std::string value;
  EXPECT_TRUE(db->Get({}, Key(0), &value).IsNotFound()) << value;
  ASSERT_TRUE(db->Close().ok());
}

}  // namespace
}  // namespace lamella::testing
