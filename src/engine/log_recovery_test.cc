#include "engine/log_recovery.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "log/log_test_base.h"

namespace lamella {
namespace {

class LogRecoveryTest : public RecordsTest {
 protected:
  // The least that a MemTable is given.
  static constexpr uint64_t kEntriesMin = 256;

  LogRecoveryTest() {
    CreateParts(1);
    contents_.next_ordinal = {7, 9};
    sorting_.boundary = {{3, 64}, {4, 128}};
  }
  void Put(uint64_t sequence, uint32_t batch_remaining = 0) {
    const uint64_t tag = MakeTag(sequence, RecordKind::kPut);
    const std::string key = "key" + std::to_string(sequence * 7919 % 1000);
    const PmPtr place =
        Add({.tag = tag, .key = key, .value = "v", .batch_remaining = batch_remaining});
    contents_.entries.push_back({tag, place, batch_remaining});
  }
  auto Sort() { return SortLog(pool_.get(), contents_, sorting_); }

  LogContents contents_;
  LogSorting sorting_;
};

TEST_F(LogRecoveryTest, AnEmptyLogMakesNoMemTable) { EXPECT_TRUE(Sort().empty()); }

TEST_F(LogRecoveryTest, EveryRecordIsInOneMemTableAndTheOldestIsFirst) {
  for (uint64_t sequence = 1; sequence <= 3 * kEntriesMin + 1; sequence++) Put(sequence);
  const auto memtables = Sort();
  ASSERT_EQ(memtables.size(), 4u);
  uint64_t last = 0;
  for (size_t i = 0; i < memtables.size(); i++) {
    EXPECT_EQ(memtables[i]->id(), i + 1);
    EXPECT_EQ(memtables[i]->last_sequence(), last + memtables[i]->count());
    last = memtables[i]->last_sequence();
    const bool is_last = i + 1 == memtables.size();
    EXPECT_EQ(memtables[i]->sealed(),
              is_last ? (std::vector<LogPosition>{{7, 0}, {9, 0}}) : sorting_.boundary);
    EXPECT_EQ(memtables[i]->copy_bytes(), 0u) << "nothing is copied";
  }
  EXPECT_EQ(last, contents_.entries.size());
  for (const LogEntry& entry : contents_.entries) {
    const auto& memtable = memtables[(TagSequence(entry.tag) - 1) / kEntriesMin];
    HeadTree::Entry found;
    ASSERT_TRUE(memtable->Get({At(entry.place)->key(), entry.tag}, &found));
    EXPECT_EQ(found.place(), entry.place);
  }
}

TEST_F(LogRecoveryTest, ABatchStaysTogether) {
  for (uint64_t sequence = 1; sequence < kEntriesMin; sequence++) Put(sequence);
  for (uint32_t left = 10; left-- > 0;) Put(kEntriesMin + 9 - left, left);
  Put(kEntriesMin + 10);
  const auto memtables = Sort();
  ASSERT_EQ(memtables.size(), 2u);
  EXPECT_EQ(memtables[0]->count(), kEntriesMin + 9);
  EXPECT_EQ(memtables[1]->count(), 1u);
}

TEST_F(LogRecoveryTest, WhatTheirFlushMayCopyIsCounted) {
  for (uint64_t sequence = 1; sequence <= 5; sequence++) Put(sequence);
  sorting_.copy_bytes_max = [](const Record& record) { return 2 * record.bytes(); };
  const auto memtables = Sort();
  ASSERT_EQ(memtables.size(), 1u);
  EXPECT_GT(memtables[0]->log_bytes(), 0u);
  EXPECT_EQ(memtables[0]->copy_bytes(), 2 * memtables[0]->log_bytes());
}

TEST_F(LogRecoveryTest, AStaleMarkIsCleared) {
  Put(1);
  Put(2);
  appenders_[0]->Seal();
  Record* const stale = At(contents_.entries[1].place);
  stale->MarkObsolete(&*persister_);
  ClearStaleMarks(*pool_, contents_.entries, &*persister_);
  EXPECT_FALSE(stale->obsolete());
}

class FlushedForSureTest : public LogRecoveryTest {
 protected:
  /// Of a log with records from `first` to `last`.
  uint64_t Flushed(uint64_t in_tables) const { return FlushedForSure(*pool_, in_tables); }
  void PutAll(uint64_t first, uint64_t last) {
    for (uint64_t sequence = first; sequence <= last; sequence++) Put(sequence);
  }
  void Damage(size_t entry) { Flip(contents_.entries[entry].place, 8 * sizeof(RecordHeader) + 3); }
};

TEST_F(FlushedForSureTest, WhatTheLogHasWithoutAHoleIsTakenFromIt) {
  PutAll(4, 10);
  EXPECT_EQ(Flushed(8), 3u);
  EXPECT_EQ(Flushed(2), 2u) << "tables have less";
}

TEST_F(FlushedForSureTest, AHoleEndsIt) {
  PutAll(1, 4);
  PutAll(6, 10);
  EXPECT_EQ(Flushed(8), 5u);
}

TEST_F(FlushedForSureTest, ADamagedRecordIsNoHole) {
  PutAll(1, 10);
  for (const size_t damaged : {4, 5, 9}) {
    Damage(damaged);
    EXPECT_EQ(Flushed(8), 0u);
  }
}

TEST_F(FlushedForSureTest, DamageStandsForWhatWasThereAlone) {
  PutAll(1, 4);
  PutAll(6, 10);  // 5 is in tables, and its chunk was freed
  Damage(6);      // of number 8
  EXPECT_EQ(Flushed(9), 5u);
}

}  // namespace
}  // namespace lamella
