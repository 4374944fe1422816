// ListDB's merges of L0 into L1, one job after the other.
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "engine/listdb/listdb_test_base.h"
#include "log/record.h"

namespace lamella {
namespace {

class ListDbMergeTest : public ListDbTest {
 protected:
  /// The name of the next job, which is run.
  std::string RunNext() {
    const std::optional<Job> job = PickJob(JobClass::kNormal);
    if (!job) return "";
    const Status s = job->run();
    EXPECT_TRUE(s.ok()) << s.ToString();
    return job->name;
  }
};

TEST_F(ListDbMergeTest, TheOldestTableIsMergedFirst) {  // I1
  CreateStore();
  for (uint64_t table = 0; table < 3; table++) {
    ASSERT_TRUE(Put(100, static_cast<char>('x' + table)).ok());
    PutKeys(table * 10, table * 10 + 10);
    Flush();
  }
  for (uint64_t merged = 1; merged <= 3; merged++) {
    ASSERT_TRUE(RunUntil("merge"));
    EXPECT_EQ(TablesInL0(), 3 - merged);
    EXPECT_EQ(RecordsInL1(), merged * 10 + 1) << "one of the key that all have";
    ExpectKey(100, 'z');
    ExpectKeys(30);
  }
  EXPECT_FALSE(RunUntil("merge"));
}

TEST_F(ListDbMergeTest, ATableIsDurableBeforeItIsMerged) {  // I2
  db_options_.listdb.checkpoint_group_tables = 8;
  CreateStore();
  PutKeys(0, 10);
  Flush();
  EXPECT_EQ(RunNext(), "checkpoint");
  EXPECT_EQ(RunNext(), "merge");
  Crash();
  EXPECT_EQ(EngineStats().recovered_records, 0u);
  EXPECT_EQ(TablesInL0(), 0u);
  EXPECT_EQ(RecordsInL1(), 10u);
  ExpectKeys(10);
}

TEST_F(ListDbMergeTest, AGetThatBeganBeforeHoldsItBack) {  // I3
  CreateStore();
  PutKeys(0, 10);
  {
    const EpochPin get(pool_->readers());
    Flush();
    EXPECT_FALSE(RunUntil("merge"));
    EXPECT_EQ(TablesInL0(), 1u);
  }
  EXPECT_TRUE(RunUntil("merge"));
  EXPECT_EQ(TablesInL0(), 0u);
}

TEST_F(ListDbMergeTest, WhatASnapshotNeedsStaysUntilItIsReleased) {
  CreateStore();
  ASSERT_TRUE(Put(5, 'a').ok());
  const uint64_t snapshot = snapshots_.Take([this] { return engine_->PublishedSequence(); });
  for (const char byte : {'b', 'c'}) {
    ASSERT_TRUE(Put(5, byte).ok());
    Flush();
    Run(JobClass::kNormal);
  }
  EXPECT_EQ(RecordsInL1(), 2u);
  ExpectKey(5, 'a', snapshot);
  ExpectKey(5, 'c');
  snapshots_.Release(snapshot);
  WithFlushes([this] { return engine_->CompactRange({}, {}); });
  EXPECT_EQ(RecordsInL1(), 1u);
  ExpectKey(5, 'c');
}

// The table leads on into L1 from where it stopped: what is taken out there meanwhile, and where
// gc puts what it leads to, it is not told.
TEST_F(ListDbMergeTest, OneThatFailedIsDoneBeforeAnythingIsTakenOut) {
  constexpr uint64_t kKeys = 4000;  // more than are linked at once
  db_options_.memtable_bytes = 1 << 20;
  CreateStore();
  const auto put_all = [&](std::string_view value) {
    for (uint64_t i = 0; i < kKeys; i++) {
      const std::string key = Key(i);
      const WriteOperation put{RecordKind::kPut, key, value};
      ASSERT_TRUE(engine_->Write({&put, 1}).ok());
    }
    Flush();
  };
  const auto find = [&](uint64_t i) {
    EpochPin pin(pool_->readers());
    return engine_->Get(Key(i), engine_->PublishedSequence(), true, &pin);
  };
  put_all("old");
  ASSERT_TRUE(RunUntil("merge"));
  PmWord* const link = pool_->At<Record>(find(1).place)->link(0);
  put_all("new");
  ASSERT_EQ(TablesInL0(), 1u);
  link->fetch_xor(1 << 4);
  std::optional<Job> job;
  Status s;
  while (s.ok()) {
    job = PickJob(JobClass::kNormal);
    ASSERT_TRUE(job.has_value());
    s = job->run();
  }
  EXPECT_TRUE(s.IsCorruption()) << s.ToString();
  EXPECT_EQ(std::string(job->name), "merge");
  link->fetch_xor(1 << 4);
  EXPECT_EQ(RunNext(), "merge");
  EXPECT_EQ(TablesInL0(), 0u);
  EXPECT_EQ(RecordsInL1(), kKeys);
  Run(JobClass::kNormal);
  for (uint64_t i = 0; i < kKeys; i++) ASSERT_EQ(find(i).value, "new") << i;
}

TEST_F(ListDbMergeTest, CompactRangeMergesWhatThereIsAndDropsDeletes) {
  CreateStore();
  PutKeys(0, 20);
  Flush();
  for (uint64_t i = 0; i < 10; i++) ASSERT_TRUE(Delete(i).ok());
  WithFlushes([this] { return engine_->CompactRange({}, {}); });
  EXPECT_EQ(TablesInL0(), 0u);
  EXPECT_EQ(RecordsInL1(), 10u);
  for (uint64_t i = 10; i < 20; i++) ExpectKey(i, static_cast<char>('a' + i % 26));
}

}  // namespace
}  // namespace lamella
