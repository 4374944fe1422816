// ListDB's flushes and checkpoints: a MemTable becomes a table, and later durable as one.
#include <string>

#include <gtest/gtest.h>

#include "engine/listdb/listdb_test_base.h"

namespace lamella {
namespace {

/// Tables stay in L0.
class ListDbFlushTest : public ListDbTest {
 protected:
  ListDbFlushTest() { db_options_.listdb.zipper_compaction = false; }

  uint64_t LogChunks() const {
    uint64_t chunks = 0;
    pool_->ForEachChunk(
        [&](const ChunkRef& chunk) { chunks += chunk.kind == ChunkKind::kLog ? 1 : 0; });
    return chunks;
  }
  bool HasTree() const {
    return engine_->Describe().find("order cached in DRAM") != std::string::npos;
  }
};

TEST_F(ListDbFlushTest, AMemTableBecomesATableOfL0) {
  CreateStore();
  PutKeys(0, 10);
  EXPECT_EQ(TablesInL0(), 0u);
  Flush();
  EXPECT_EQ(TablesInL0(), 1u);
  EXPECT_EQ(EngineStats().levels.at(0).records, 10u);
  EXPECT_EQ(EngineStats().flushed_records, 10u);
  ExpectKeys(10);
  EXPECT_EQ(AnsweredBy("MemTable"), 0u);
  Flush();
  EXPECT_EQ(TablesInL0(), 1u) << "there was nothing to flush";
}

TEST_F(ListDbFlushTest, TheNewerTableIsAskedFirst) {
  CreateStore();
  for (const char byte : {'x', 'y', 'z'}) {
    ASSERT_TRUE(Put(5, byte).ok());
    Flush();
    ExpectKey(5, byte);
  }
  EXPECT_EQ(TablesInL0(), 3u);
  Crash();
  ExpectKey(5, 'z');
}

TEST_F(ListDbFlushTest, WhatIsNotCheckpointedIsSortedAgainFromTheLog) {
  db_options_.listdb.checkpoint_group_tables = 2;
  CreateStore();
  PutKeys(0, 10);
  Flush();
  Run(JobClass::kNormal);
  EXPECT_EQ(EngineStats().checkpoints, 0u) << "half a group";
  Crash();
  EXPECT_EQ(TablesInL0(), 0u);
  EXPECT_EQ(EngineStats().recovered_records, 10u);
  ExpectKeys(10);
}

TEST_F(ListDbFlushTest, AGroupIsCheckpointedAsOne) {
  db_options_.listdb.checkpoint_group_tables = 2;
  CreateStore();
  for (uint64_t table = 0; table < 2; table++) {
    PutKeys(table * 10, table * 10 + 10);
    Flush();
  }
  EXPECT_TRUE(RunUntil("checkpoint"));
  EXPECT_EQ(EngineStats().checkpoints, 1u);
  EXPECT_FALSE(RunUntil("checkpoint"));
  Crash();
  EXPECT_EQ(TablesInL0(), 2u);
  EXPECT_EQ(EngineStats().recovered_records, 0u);
  ExpectKeys(20);
}

TEST_F(ListDbFlushTest, APlainLogIsFreeOnceItsCopiesAreCheckpointed) {
  db_options_.listdb.unified_log = false;
  CreateStore();
  PutKeys(0, 200);
  const uint64_t before = LogChunks();
  Flush();
  EXPECT_EQ(LogChunks(), before) << "a crash would need it";
  Run(JobClass::kNormal);
  pool_->CollectDeferred();
  EXPECT_LE(LogChunks(), db_options_.log_shards) << "those that are being filled";
  ExpectKeys(200);
  Crash();
  EXPECT_EQ(EngineStats().recovered_records, 0u);
  ExpectKeys(200);
}

TEST_F(ListDbFlushTest, ATableKeepsItsTreeWhereAnOptionSaysSo) {
  CreateStore();
  PutKeys(0, 10);
  Flush();
  EXPECT_TRUE(HasTree());
  Crash();
  db_options_.listdb.l0_in_dram = false;
  Crash();
  Flush();
  EXPECT_EQ(TablesInL0(), 1u);
  EXPECT_FALSE(HasTree());
  ExpectKeys(10);
}

}  // namespace
}  // namespace lamella
