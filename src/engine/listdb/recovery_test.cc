// What ListDB's recovery makes of what a crash left.
#include <gtest/gtest.h>

#include "engine/listdb/listdb_test_base.h"

namespace lamella {
namespace {

using ListDbRecoveryTest = ListDbTest;

// What flushes copied and a crash cut off from its tables is copied again: in a pool that has room
// for the records and one copy of each, not for two, and before any other job had a turn.
TEST_F(ListDbRecoveryTest, CopiesThatACrashCutOffMakeRoomForTheNext) {
  options_.pool_bytes_max = 12 << 20;
  db_options_.listdb.unified_log = false;
  db_options_.listdb.checkpoint_group_tables = 64;
  CreateStore();
  const uint64_t keys = options_.pool_bytes_max * 38 / 100 / kValueBytes;
  for (uint64_t i = 0; i < keys; i++) {
    const Status s = Put(i);
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
    Run(JobClass::kUrgent);
  }
  for (int crash = 0; crash < 3; crash++) {
    Crash();
    if (HasFatalFailure()) return;
    Run(JobClass::kUrgent);
    if (HasFatalFailure()) return;
    ExpectKeys(keys);
  }
  Run(JobClass::kNormal);
  ExpectKeys(keys);
}

// A store of which a crash cut off copies and left tables unmerged: all of it is read before
// anything of it is changed.
TEST_F(ListDbRecoveryTest, LoadingChangesNothingAndReadsAll) {
  constexpr uint64_t kKeys = 200;
  db_options_.listdb.unified_log = false;
  db_options_.listdb.checkpoint_group_tables = 4;
  CreateStore();
  for (uint64_t i = 0; i < kKeys; i++) {
    ASSERT_TRUE(Put(i).ok());
    Run(JobClass::kUrgent);
    if (i == kKeys / 2) Run(JobClass::kNormal);
  }
  engine_.reset();
  Open();
  const std::string before = ReadWhole(path());
  LoadEngine();
  ExpectKeys(kKeys);
  uint64_t records = 0;
  {
    const EpochPin pin(pool_->holders());
    const auto all = engine_->NewIterator(true);
    for (all->SeekToFirst(); all->Valid(); all->Next()) records++;
  }
  EXPECT_GE(records, kKeys);
  EXPECT_TRUE(ReadWhole(path()) == before) << "loading changed the pool";
  Mend();
  EXPECT_FALSE(ReadWhole(path()) == before) << "there was nothing to mend: the test is void";
  ExpectKeys(kKeys);
  Run(JobClass::kNormal);
  ExpectKeys(kKeys);
}

}  // namespace
}  // namespace lamella
