#include "log/gather.h"

#include <vector>

#include <gtest/gtest.h>

#include "log/log_test_base.h"

namespace lamella {
namespace {

class GatherTest : public RecordsTest {
 protected:
  GatherTest() {
    CreateParts(1);
    basis_.records_of = [](const ChunkRef& chunk) {
      return chunk.kind == ChunkKind::kLog ? RecordsOf::kLog : RecordsOf::kNone;
    };
  }
  PmPtr Put(uint64_t sequence, uint32_t batch_remaining = 0) {
    return Add({.tag = MakeTag(sequence, RecordKind::kPut),
                .key = "key",
                .value = "value",
                .batch_remaining = batch_remaining});
  }
  std::vector<uint64_t> Kept() {
    gathered_ = GatherRecords(pool_.get(), basis_);
    std::vector<uint64_t> sequences;
    for (const LogEntry& entry : gathered_.kept) sequences.push_back(TagSequence(entry.tag));
    return sequences;
  }

  using Sequences = std::vector<uint64_t>;
  GatherBasis basis_;
  Gathered gathered_;
};

TEST_F(GatherTest, EveryRecordIsFoundInTheOrderOfItsNumber) {
  for (const uint64_t sequence : {3, 1, 2}) Put(sequence);
  EXPECT_EQ(Kept(), (Sequences{1, 2, 3}));
  EXPECT_EQ(gathered_.sequence_seen, 3u);
  EXPECT_EQ(gathered_.lost, 0u);
}

TEST_F(GatherTest, ChunksWithoutRecordsAreNotRead) {
  Put(1);
  basis_.records_of = [](const ChunkRef&) { return RecordsOf::kNone; };
  EXPECT_EQ(Kept(), Sequences{});
}

TEST_F(GatherTest, ADamagedRecordIsLostAndNoOther) {
  Put(1);
  const PmPtr damaged = Put(2);
  Put(3);
  Flip(damaged, 8 * sizeof(RecordHeader) + 3);
  EXPECT_EQ(Kept(), (Sequences{1, 3}));
  EXPECT_EQ(gathered_.lost, 1u);
}

TEST_F(GatherTest, OfABatchThatLacksItsEndNothingIsKept) {
  Put(1);
  Put(2, 2);
  Put(3, 1);
  EXPECT_EQ(Kept(), Sequences{1});
  EXPECT_EQ(gathered_.lost, 2u) << "they were durable: damage took the end";
}

TEST_F(GatherTest, ABatchThatWasCutIsNoLoss) {
  Put(1);
  Put(2, 2);
  Put(3, 1);
  pool_->ForEachChunk([this](const ChunkRef& chunk) {
    if (chunk.kind == ChunkKind::kLog) SetWholeBytes(*pool_, chunk, 0);
  });
  EXPECT_EQ(Kept(), Sequences{1});
  EXPECT_EQ(gathered_.lost, 0u);
  EXPECT_EQ(gathered_.sequence_seen, 3u) << "its numbers are not to be given again";
}

TEST_F(GatherTest, ABatchThatLacksItsEndAndWasFlushedIsKept) {
  Put(1, 1);  // 2 was dropped since
  basis_.flushed_sequence = 2;
  basis_.gaps = {{2, 2}};
  EXPECT_EQ(Kept(), Sequences{1});
}

TEST_F(GatherTest, NumbersDeclaredVoidDoNotCount) {
  for (const uint64_t sequence : {1, 2, 3}) Put(sequence);
  basis_.gaps = {{2, 2}};
  EXPECT_EQ(Kept(), (Sequences{1, 3}));
}

TEST_F(GatherTest, AfterAPowerCutTheLongestRunCountsBeyondWhatWasSynced) {
  for (const uint64_t sequence : {1, 3, 4, 5, 7}) Put(sequence);
  basis_.power_cut = true;
  basis_.synced_sequence = 3;
  EXPECT_EQ(Kept(), (Sequences{1, 3, 4, 5})) << "2 was dropped before the sync, 6 never came";
  basis_.gaps = {{6, 6}};
  EXPECT_EQ(Kept(), (Sequences{1, 3, 4, 5, 7})) << "6 never was";
}

TEST_F(GatherTest, AfterAPowerCutTheRunEndsWithAWholeBatch) {
  Put(1);
  Put(2, 1);
  Put(4);
  basis_.power_cut = true;
  EXPECT_EQ(Kept(), Sequences{1});
}

TEST_F(GatherTest, OfAFlushedRecordTheCopyCounts) {
  Put(1);
  Put(2);
  basis_.flush_copies = true;
  basis_.flushed_sequence = 1;
  EXPECT_EQ(Kept(), Sequences{2});
}

}  // namespace
}  // namespace lamella
