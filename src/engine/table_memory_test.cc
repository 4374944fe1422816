#include "engine/table_memory.h"

#include <gtest/gtest.h>

#include "index/index_test_base.h"

namespace lamella {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class TableMemoryTest : public IndexTest {
 protected:
  TableMemoryTest() {
    CreateParts(1);
    options_of_store_.memory_budget_bytes = 16 * kMiB;
  }
  /// A table with a tree of so many records.
  std::shared_ptr<const PmTable> Table(uint64_t records) {
    auto table = std::make_shared<PmTable>();
    auto tree = std::make_shared<HeadTree>(pool_.get());
    for (uint64_t i = 0; i < records; i++) {
      const PmPtr place = Add(Concat("key", 100'000 + i), i + 1);
      tree->Insert(At(place)->key(), At(place)->tag(), place, 1);
    }
    table->state.count = records;
    table->tree = std::move(tree);
    return table;
  }

  Options options_of_store_;
  MemoryBudget budget_{16 * kMiB};
  MemoryAccount account_{&budget_};
};

TEST_F(TableMemoryTest, CachesLeaveTheRestButNeverAllOfIt) {
  EXPECT_EQ(ShareOfBudget(1000, 0.25), 250u);
  EXPECT_EQ(ShareOfBudget(1000, 7), 900u);
  EXPECT_EQ(ShareOfBudget(1000, -1), 0u);
  const TableMemory half(options_of_store_, 8 * kMiB, &account_);
  EXPECT_EQ(half.memtable_bytes(), kMiB) << "an eighth of what is left";
  const TableMemory none(options_of_store_, 16 * kMiB, &account_);
  EXPECT_EQ(none.memtable_bytes(), 2 * kMiB / 8) << "an eighth of the budget is always theirs";
  options_of_store_.memtable_bytes = 3 * kMiB;
  EXPECT_EQ(TableMemory(options_of_store_, 0, &account_).memtable_bytes(), 3 * kMiB);
}

// Who wants no MemTable ever to be switched says so by a large number; a store that may not have
// one of that size stops its writers.
TEST_F(TableMemoryTest, AMemTableMayBeOfAnySize) {
  for (const int shift : {40, 60, 61, 62, 63}) {
    for (const uint64_t bytes : {uint64_t{1} << shift, (uint64_t{1} << shift) - 1, UINT64_MAX}) {
      options_of_store_.memtable_bytes = bytes;
      const TableMemory memory(options_of_store_, 0, &account_);
      EXPECT_GE(memory.BufferedBytesMax(0) / 4, memory.memtable_bytes()) << bytes;
      EXPECT_GE(memory.memtable_bytes(), uint64_t{1} << 39);
    }
  }
}

TEST_F(TableMemoryTest, WhatCachesHaveNotTakenYetTablesMayHave) {
  const TableMemory memory(options_of_store_, 8 * kMiB, &account_);
  EXPECT_EQ(memory.BufferedBytesMax(0), 16 * kMiB);
  EXPECT_EQ(memory.BufferedBytesMax(5 * kMiB), 11 * kMiB);
  EXPECT_EQ(memory.BufferedBytesMax(20 * kMiB), 8 * kMiB);
  MemoryAccount other(&budget_);  // another store draws on it
  EXPECT_EQ(memory.BufferedBytesMax(0), 8 * kMiB);
}

TEST_F(TableMemoryTest, TheNewestTablesGoWithoutTheirTree) {
  options_of_store_.memory_budget_bytes = kMiB / 2;
  options_of_store_.memtable_bytes = 64 << 10;
  const TableMemory memory(options_of_store_, 0, &account_);
  PmTables tables;
  while (TreeBytes(tables) < 2 * kMiB) tables.insert(tables.begin(), Table(2'000));
  memory.TrimTrees(&tables, 0);
  EXPECT_LE(TreeBytes(tables), memory.BytesMax(0));
  EXPECT_GT(TreeBytes(tables), memory.BytesMax(0) / 2);
  EXPECT_EQ(tables.front()->tree, nullptr);
  EXPECT_NE(tables.back()->tree, nullptr);
  EXPECT_GT(TreeBytesOfAll(tables), 3 * TreeBytes(tables) / 2);
}

}  // namespace
}  // namespace lamella
