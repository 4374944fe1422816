#include "log/gather.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "log/log_test_base.h"
#include "testing/superblock_marks.h"

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
  PmPtr Put(uint64_t sequence, uint32_t batch_remaining = 0, uint32_t part = 0,
            uint64_t published = 0) {
    return Add({.tag = MakeTag(sequence, RecordKind::kPut),
                .key = "key",
                .value = "value",
                .batch_remaining = batch_remaining,
                .published = published},
               part);
  }
  std::vector<uint64_t> Kept() {
    gathered_ = GatherRecords(pool_.get(), basis_);
    std::vector<uint64_t> sequences;
    for (const LogEntry& entry : gathered_.kept) sequences.push_back(TagSequence(entry.tag));
    return sequences;
  }

  std::vector<uint64_t> KeptAndNoted() {
    std::vector<uint64_t> sequences = Kept();
    NoteReach(*pool_, gathered_.reach);
    return sequences;
  }

  /// As a power cut does, on lines.
  void ForgetHint(const ChunkRef& chunk) {
    pool_->Descriptor(chunk.part, chunk.index)->whole_bytes.store(0);
  }
  void ForgetHints() {
    pool_->ForEachChunk([this](const ChunkRef& chunk) {
      if (chunk.kind == ChunkKind::kLog) ForgetHint(chunk);
    });
  }

  /// Every line has come to the medium, the hints' too.
  void CutPower() {
    appenders_.clear();
    Close();
    testing::MarkAnotherBoot(options_.part_paths[0]);
    Open();
    ASSERT_FALSE(pool_->state().same_boot);
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

TEST_F(GatherTest, WhatIsLostIsReportedUntilItIsNoted) {
  Put(1);
  const PmPtr damaged = Put(2);
  Flip(damaged, 8 * sizeof(RecordHeader) + 3);
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(Kept(), Sequences{1});
    EXPECT_EQ(gathered_.lost, 1u);
  }
  NoteReach(*pool_, gathered_.reach);
  EXPECT_EQ(Kept(), Sequences{1});
  EXPECT_EQ(gathered_.lost, 0u);
}

// It may have been one, or the write that a cut took.
TEST_F(GatherTest, WhatIsGuessedOfAChunkWithNothingLeftIsReportedUntilItIsNoted) {
  basis_.flushed_sequence = 1;
  basis_.boundary = {{2, 0}};
  Flip(Put(1), 8 * sizeof(RecordHeader) + 3);
  ForgetHint(appenders_[0]->open_chunk());
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(Kept(), Sequences{});
    EXPECT_EQ(gathered_.lost, 1u);
    EXPECT_EQ(gathered_.lost_to_damage, 0u);
  }
  NoteReach(*pool_, gathered_.reach);
  EXPECT_EQ(Kept(), Sequences{});
  EXPECT_EQ(gathered_.lost, 0u);
}

// A power cut took what the chunk said of itself; the session after it was killed.
TEST_F(GatherTest, DamageInAChunkOfBeforeAPowerCutTakesNoOtherRecord) {
  for (const uint64_t damaged : {2, 4}) {  // 5 is the last of its shard
    SCOPED_TRACE(damaged);
    CreateParts(2);
    for (uint64_t sequence = 1; sequence <= 5; sequence++) {
      const PmPtr place = Put(sequence);
      if (sequence == damaged) Flip(place, 8 * sizeof(RecordHeader) + 3);
    }
    ForgetHint(appenders_[0]->open_chunk());
    Put(6, 0, 1, 5);
    Sequences others = {1, 2, 3, 4, 5, 6};
    std::erase(others, damaged);
    for (const uint64_t flushed : {0, 6}) {  // also of a log that a flush does not copy
      basis_.flushed_sequence = flushed;
      EXPECT_EQ(Kept(), others);
      EXPECT_EQ(gathered_.lost, 1u);
      EXPECT_EQ(gathered_.lost_to_damage, 1u);
      EXPECT_TRUE(gathered_.dropped.empty());
    }
  }
}

// Its numbers were void until a flush had all that follows them.
TEST_F(GatherTest, ATearOfAnEarlierSessionIsNoLossOnceWhatFollowsItIsCopied) {
  Put(10);
  const ChunkRef chunk = appenders_[0]->open_chunk();
  const uint64_t whole = WholeBytes(*pool_, chunk);
  Flip(Put(11, 2), 8 * sizeof(RecordHeader) + 3);
  Put(12, 1);
  Put(13);
  SetWholeBytes(*pool_, chunk, whole);
  appenders_[0]->CloseChunk();
  Put(14);
  basis_.flush_copies = true;
  basis_.flushed_sequence = 14;
  basis_.boundary = {{chunk.ordinal + 1, 0}};
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(KeptAndNoted(), Sequences{});
    EXPECT_EQ(gathered_.lost, 0u);
    EXPECT_EQ(gathered_.lost_to_damage, 0u);
  }
}

// Of what it found no record needs to say that it was published.
TEST_F(GatherTest, WhatAnEarlierRecoveryFoundIsNotDropped) {
  CreateParts(3);
  basis_.flushed_sequence = 7;
  const PmPtr damaged = Put(8, 0, 0, 7);
  Put(9, 0, 1, 7);
  Put(10, 0, 2, 7);
  ForgetHints();
  Flip(damaged, 8 * sizeof(RecordHeader) + 3);
  EXPECT_EQ(Kept(), Sequences{}) << "it may never have been there";
  EXPECT_GE(gathered_.lost, 2u);
  EXPECT_EQ(gathered_.lost_to_damage, 0u);
  basis_.gaps = {{11, 12}};
  EXPECT_EQ(Kept(), (Sequences{9, 10}));
  EXPECT_EQ(gathered_.lost, 1u);
  EXPECT_EQ(gathered_.lost_to_damage, 1u);
}

// A power cut left an older one.
TEST_F(GatherTest, AHintThatSaysLessThanThereIsHidesNoLoss) {
  Put(1);
  const ChunkRef chunk = appenders_[0]->open_chunk();
  const uint64_t whole = WholeBytes(*pool_, chunk);
  Put(2);
  Flip(Put(3), 8 * sizeof(RecordHeader) + 3);
  basis_.flushed_sequence = 3;
  basis_.boundary = {{chunk.ordinal + 1, 0}};
  SetWholeBytes(*pool_, chunk, whole);
  CutPower();
  EXPECT_EQ(Kept(), (Sequences{1, 2}));
  EXPECT_EQ(gathered_.lost, 1u);
  EXPECT_EQ(gathered_.lost_to_damage, 0u);
}

TEST_F(GatherTest, OfABatchWhoseBeginningAPowerCutTookNothingIsKept) {
  CreateParts(2);
  Put(1);
  const PmPtr torn = Put(2, 2, 0, 1);
  Put(3, 1, 0, 1);
  Put(4, 0, 0, 1);
  ForgetHints();
  EXPECT_EQ(Kept(), (Sequences{1, 2, 3, 4}));
  Flip(torn, 8 * sizeof(RecordHeader) + 3);
  EXPECT_EQ(Kept(), Sequences{1});
  EXPECT_EQ(gathered_.dropped.size(), 2u);
  EXPECT_EQ(gathered_.sequence_seen, 4u) << "its numbers are not to be given again";
  Put(5, 0, 1, 1);  // beside it, in another shard
  ForgetHints();
  EXPECT_EQ(Kept(), Sequences{1});
  Put(6, 0, 0, 1);  // after it, in its shard: it was damaged since
  ForgetHints();
  EXPECT_EQ(Kept(), (Sequences{1, 3, 4, 5, 6}));
  EXPECT_GE(gathered_.lost, 1u);
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
  ForgetHints();
  EXPECT_EQ(Kept(), Sequences{1});
  EXPECT_EQ(gathered_.lost, 0u);
  EXPECT_EQ(gathered_.sequence_seen, 3u) << "its numbers are not to be given again";
}

// Two shards: the one's write was cut, the other's was drawn later and is whole, though nobody was
// told of it.
TEST_F(GatherTest, ABatchThatWasCutIsNotKeptBeforeWhatIsWhole) {
  CreateParts(2);
  Put(1, 0, 0, 0);
  for (uint32_t i = 0; i < 3; i++) Put(2 + i, 4 - i, 0, 1);  // 5 and 6 were not written
  Put(7, 1, 1, 1);
  Put(8, 0, 1, 1);
  ForgetHints();
  EXPECT_EQ(Kept(), Sequences{1}) << "as a recovery has it";
  EXPECT_EQ(gathered_.lost, 0u);
  Put(9, 0, 1, 8);
  EXPECT_EQ(Kept(), (Sequences{1, 2, 3, 4, 7, 8, 9})) << "it was acknowledged: damage took its end";
  EXPECT_EQ(gathered_.lost, 2u);
}

// A power cut leaves any part of a write that was not fenced, its end without its middle, too.
TEST_F(GatherTest, OfABatchThatWasCutInItsMiddleTheEndIsNotKeptEither) {
  Put(1);
  Put(2, 3);
  const PmPtr torn = Put(3, 2);
  Put(4, 1);
  Put(5);
  ForgetHints();
  EXPECT_EQ(Kept(), (Sequences{1, 2, 3, 4, 5}));
  ForgetHints();
  Flip(torn, 8 * sizeof(RecordHeader) + 3);
  EXPECT_EQ(Kept(), Sequences{1});
  EXPECT_EQ(gathered_.sequence_seen, 5u) << "its numbers are not to be given again";
}

// Nor need the copy that a kill cut have begun at its start.
TEST_F(GatherTest, OfABatchThatWasCutAtItsBeginningNothingIsKept) {
  Put(1);
  const uint64_t whole = WholeBytes(*pool_, appenders_[0]->open_chunk());
  const PmPtr torn = Put(2, 2);
  Put(3, 1);
  Put(4);
  SetWholeBytes(*pool_, appenders_[0]->open_chunk(), whole);
  EXPECT_EQ(Kept(), (Sequences{1, 2, 3, 4}));
  SetWholeBytes(*pool_, appenders_[0]->open_chunk(), whole);
  Flip(torn, 8 * sizeof(RecordHeader) + 3);
  for (int again = 0; again < 2; again++) {
    EXPECT_EQ(KeptAndNoted(), Sequences{1});
    EXPECT_EQ(gathered_.dropped.size(), 2u);
    EXPECT_EQ(gathered_.lost, 0u);
  }
}

// A copy of some hundred bytes may be made from its end: what a kill left of the first copy is not
// whole, and those after it are. (The repair after the next one counted it as lost.)
TEST_F(GatherTest, ACopyThatWasCutIsNoLossHoweverOftenItIsLookedAt) {
  Put(1);
  const uint64_t whole = WholeBytes(*pool_, appenders_[0]->open_chunk());
  const PmPtr torn = Put(2);
  Put(3);
  Flip(torn, 8 * sizeof(RecordHeader) + 3);
  for (const RecordsOf what : {RecordsOf::kGarbageCollection, RecordsOf::kFlush}) {
    SetWholeBytes(*pool_, appenders_[0]->open_chunk(), whole);
    basis_.records_of = [what](const ChunkRef& chunk) {
      return chunk.kind == ChunkKind::kLog ? what : RecordsOf::kNone;
    };
    for (int again = 0; again < 3; again++) {
      EXPECT_EQ(KeptAndNoted(), (Sequences{1, 3}));
      EXPECT_EQ(gathered_.lost, 0u) << again;
      EXPECT_EQ(WholeBytes(*pool_, appenders_[0]->open_chunk()), whole);
    }
    const uint64_t at = torn.offset() - pool_->ChunkStart(appenders_[0]->open_chunk()).offset();
    SetWholeBytes(*pool_, appenders_[0]->open_chunk(), at + 1);
    Kept();
    EXPECT_EQ(gathered_.lost, 1u) << "the control: it was whole once";
  }
}

// The first write of a chunk, which never said anything of itself.
TEST_F(GatherTest, ABatchThatWasCutWhereItsChunkBeginsIsNoLoss) {
  CreateParts(2);
  Put(1, 0, 1);
  const PmPtr torn = Put(2, 3, 0);
  Put(3, 2, 0);
  Put(4, 1, 0);
  const PmPtr cut = Put(5, 0, 0);
  ForgetHint(appenders_[0]->open_chunk());
  Flip(torn, 8 * sizeof(RecordHeader) + 3);
  Flip(cut, 8 * sizeof(RecordHeader) + 3);
  EXPECT_EQ(Kept(), Sequences{1});
  EXPECT_EQ(gathered_.dropped.size(), 2u);
  EXPECT_EQ(gathered_.lost, 0u);
  basis_.flushed_sequence = 5;
  for (const bool is_void : {true, false}) {  // a log that a flush copies forgets what was
    basis_.gaps.clear();
    if (is_void) basis_.gaps = {{2, 5}};
    basis_.flush_copies = !is_void;
    EXPECT_EQ(Kept(), is_void ? Sequences{1} : Sequences{});
    EXPECT_EQ(gathered_.lost, 0u) << is_void;
  }
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

TEST_F(GatherTest, ARecordThatIsNotWholeIsLostAndNoOther) {
  for (const uint64_t sequence : {1, 2, 3, 4}) Put(sequence);
  std::set<uint64_t> torn;
  basis_.is_whole = [&](const Record& record) { return !torn.contains(record.sequence()); };
  EXPECT_EQ(Kept(), (Sequences{1, 2, 3, 4}));
  torn = {2};
  EXPECT_EQ(Kept(), (Sequences{1, 3, 4}));
  EXPECT_EQ(gathered_.lost, 1u);
  torn = {2, 4};
  EXPECT_EQ(Kept(), (Sequences{1, 3}));
  EXPECT_EQ(gathered_.lost, 2u);
  EXPECT_EQ(gathered_.sequence_seen, 4u) << "its number is not to be given again";
  basis_.gaps = {{2, 2}};
  EXPECT_EQ(Kept(), (Sequences{1, 3})) << "2 never was";
}

TEST_F(GatherTest, ABatchWhoseEndIsNotWholeIsNotKept) {
  Put(1);
  Put(2, 1);
  Put(3);
  basis_.is_whole = [](const Record& record) { return record.sequence() != 3; };
  ForgetHints();
  EXPECT_EQ(Kept(), Sequences{1});
}

TEST_F(GatherTest, OfAFlushedRecordTheCopyCounts) {
  Put(1);
  Put(2);
  basis_.flush_copies = true;
  basis_.flushed_sequence = 1;
  EXPECT_EQ(Kept(), Sequences{2});
}

// A chunk that was used before, whose descriptor lost what it said of itself.
TEST_F(GatherTest, WhatAnEarlierLifeOfALogChunkLeftIsNoLoss) {
  for (uint64_t sequence = 1; sequence <= 20; sequence++) Put(sequence);
  const ChunkRef chunk = appenders_[0]->open_chunk();
  appenders_[0]->CloseChunk();
  Persister persister(pool_->gate(), WriteCause::kLog);
  pool_->Free(chunk, &persister);
  Put(21);
  ASSERT_EQ(appenders_[0]->open_chunk().index, chunk.index) << "it is to be used again";
  const auto lost = [&] {
    ForgetHint(appenders_[0]->open_chunk());
    EXPECT_EQ(Kept(), basis_.catalog_lost || !basis_.flush_copies || basis_.flushed_sequence < 21
                          ? Sequences{21}
                          : Sequences{});
    return gathered_.lost;
  };
  basis_.flushed_sequence = 20;
  EXPECT_EQ(lost(), 0u) << "all numbers are there";
  basis_.flushed_sequence = 21;
  EXPECT_EQ(lost(), 1u) << "the control: where numbers may be missing it may have been a record";
  basis_.flush_copies = true;
  EXPECT_EQ(lost(), 0u) << "what was flushed counts by its copy";
  basis_.catalog_lost = true;
  basis_.flushed_sequence = 0;
  EXPECT_EQ(lost(), 1u);
}

// Shards and arenas claim chunks ahead, and a killed process leaves them.
TEST_F(GatherTest, AChunkThatWasClaimedAheadLacksNothing) {
  CreateParts(2);
  for (uint64_t sequence = 1; sequence <= 20; sequence++) Put(sequence);
  Put(21, 0, 1);
  const ChunkRef chunk = appenders_[0]->open_chunk();
  appenders_[0]->CloseChunk();
  Persister persister(pool_->gate(), WriteCause::kLog);
  pool_->Free(chunk, &persister);
  ASSERT_TRUE(appenders_[0]->Prepare(64, Claimant::kWriter).ok());
  basis_.flushed_sequence = 20;
  for (const RecordsOf what : {RecordsOf::kLog, RecordsOf::kGarbageCollection}) {
    uint64_t looked_at = 0;
    basis_.records_of = [&](const ChunkRef& at) {
      if (at.kind != ChunkKind::kLog) return RecordsOf::kNone;
      if (at.part == 1) return RecordsOf::kLog;
      EXPECT_EQ(at.index, chunk.index) << "it is to be used again";
      looked_at++;
      return what;
    };
    EXPECT_EQ(Kept(), Sequences{21});
    EXPECT_GT(looked_at, 0u);
    EXPECT_EQ(gathered_.lost, 0u);
  }
}

TEST_F(GatherTest, ALostNumberThatOthersSayWasPublishedCounts) {
  CreateParts(2);
  Put(1);
  const PmPtr damaged = Put(2);
  Put(3, 0, 1, 2);
  ForgetHints();
  Flip(damaged, 8 * sizeof(RecordHeader) + 3);
  EXPECT_EQ(Kept(), (Sequences{1, 3}));
  EXPECT_EQ(gathered_.lost, 1u);
}

}  // namespace
}  // namespace lamella
