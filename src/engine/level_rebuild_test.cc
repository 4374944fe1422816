#include "engine/level_rebuild.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/skiplist_check.h"
#include "index/index_test_base.h"

namespace lamella {
namespace {

/// Records in logs, and what a rebuilding makes of them. Of gc only the arenas are used.
class LevelRebuildTest : public IndexTest {
 protected:
  static constexpr auto kLevelHeads = ChunkKind::kEngineFirst;
  static constexpr auto kArena =
      static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 1);

  LevelRebuildTest() { Start(1); }
  ~LevelRebuildTest() override { gc_.reset(); }

  void Start(uint32_t parts) {
    gc_.reset();
    CreateParts(parts);
    frees_.emplace(pool_.get());
    dead_.emplace(pool_.get());
    gc_.emplace(pool_.get(), nullptr, &*dead_, &*frees_, nullptr, 2.0);
    gc_->Start(kArena, 0, 1);
    tree_.emplace(pool_.get());
  }
  PmPtr Write(const std::string& key, uint64_t sequence, RecordKind kind = RecordKind::kPut,
              uint32_t height = 1, uint32_t part = 0) {
    const std::string value = kind == RecordKind::kPut ? Concat("value", sequence) : "";
    return Add({.tag = MakeTag(sequence, kind), .key = key, .value = value, .height = height},
               part);
  }
  LogEntry EntryOf(PmPtr place) const { return {.tag = At(place)->tag(), .place = place}; }
  Status Enter(const std::vector<LogEntry>& kept) {
    return EnterRebuilt(pool_.get(), kept, &*gc_, &*dead_, &*persister_, &*tree_);
  }
  /// The places in the tree, in key order.
  std::vector<PmPtr> Entered() const {
    std::vector<PmPtr> places;
    HeadTree::Iterator at(&*tree_);
    for (at.SeekToFirst(); at.Valid(); at.Next()) places.push_back(at.entry().place());
    return places;
  }
  static GatherBasis Basis(uint64_t flushed_sequence, const std::vector<SequenceGap>& gaps) {
    GatherBasis basis;
    basis.flushed_sequence = flushed_sequence;
    basis.gaps = gaps;
    basis.records_of = [](const ChunkRef& chunk) {
      if (chunk.kind == ChunkKind::kLog) return RecordsOf::kLog;
      return chunk.kind == kArena ? RecordsOf::kGarbageCollection : RecordsOf::kNone;
    };
    return basis;
  }
  Status Rebuild(RebuiltLevel* rebuilt, const GatherBasis& basis) {
    for (auto& appender : appenders_) appender->CloseChunk();
    *rebuilt = RebuiltLevel();
    return RebuildLevel(pool_.get(), basis, true, kLevelHeads, pool_->part_count() > 1, &*gc_,
                        &*dead_, &*persister_, rebuilt);
  }
  Status Rebuild(RebuiltLevel* rebuilt, uint64_t flushed_sequence = 0,
                 const std::vector<SequenceGap>& gaps = {}) {
    return Rebuild(rebuilt, Basis(flushed_sequence, gaps));
  }
  /// The rebuilt list is whole and holds what the model does.
  void ExpectLevel(const RebuiltLevel& rebuilt, const std::map<std::string, std::string>& model) {
    const PmSkipList list(pool_.get(), pool_->At<SkipListHeads>(rebuilt.heads),
                          pool_->part_count() > 1);
    CheckReport report;
    CheckSkipList(*pool_, list,
                  {.name = "level", .elements_max = 10'000, .obsolete_is_damage = true}, &report);
    EXPECT_TRUE(report.clean()) << report.problems.front();
    std::map<std::string, std::string> found;
    uint64_t bytes = 0;
    for (PmPtr at = list.First(); at; at = list.Next(at, 0, 0)) {
      ASSERT_FALSE(at.damaged());
      found[std::string(At(at)->key())] = std::string(At(at)->value());
      bytes += At(at)->key().size() + At(at)->value().size();
    }
    EXPECT_EQ(found, model);
    EXPECT_EQ(rebuilt.linked.count, model.size());
    EXPECT_EQ(rebuilt.linked.live_bytes, bytes);
  }

  std::optional<PendingFrees> frees_;
  std::optional<DeadBytes> dead_;
  std::optional<Evacuation> gc_;
  std::optional<HeadTree> tree_;
};

TEST_F(LevelRebuildTest, OneCopyOfEachVersionIsEntered) {
  const PmPtr original = Write("a", 1);
  const PmPtr copy = Write("a", 1);
  const PmPtr marked = Write("b", 2);
  const PmPtr unmarked = Write("b", 2);
  At(marked)->MarkObsolete(&*persister_);
  const PmPtr obsolete = Write("c", 3);
  At(obsolete)->MarkObsolete(&*persister_);
  ASSERT_TRUE(Enter({EntryOf(original), EntryOf(copy), EntryOf(marked), EntryOf(unmarked),
                     EntryOf(obsolete)})
                  .ok());
  const std::vector<PmPtr> entered = Entered();
  ASSERT_EQ(entered.size(), 2u);
  EXPECT_TRUE(entered[0] == original || entered[0] == copy);
  EXPECT_EQ(entered[1], unmarked);
  EXPECT_NE(At(original)->obsolete(), At(copy)->obsolete()) << "the other one must not come back";
  EXPECT_EQ(dead_->fresh(), At(copy)->bytes() + At(marked)->bytes() + At(obsolete)->bytes());
}

TEST_F(LevelRebuildTest, ARecordWithoutRoomForLinksIsCopied) {
  const PmPtr bare = Write("bare", 1, RecordKind::kPut, 0);
  const PmPtr original = Write("copied", 2, RecordKind::kPut, 0);
  const PmPtr linked = Write("copied", 2);
  ASSERT_TRUE(Enter({EntryOf(bare), EntryOf(original), EntryOf(linked)}).ok());
  const std::vector<PmPtr> entered = Entered();
  ASSERT_EQ(entered.size(), 2u);
  EXPECT_NE(entered[0], bare);
  EXPECT_GT(At(entered[0])->height(), 0u);
  EXPECT_EQ(At(entered[0])->tag(), At(bare)->tag());
  EXPECT_EQ(At(entered[0])->key(), "bare");
  EXPECT_EQ(At(entered[0])->value(), "value1");
  ChunkRef chunk;
  ASSERT_TRUE(OwningChunk(*pool_, entered[0], &chunk));
  EXPECT_EQ(chunk.kind, kArena);
  EXPECT_EQ(entered[1], linked) << "it has links already";
  EXPECT_EQ(gc_->arena(0)->open_chunk().kind, ChunkKind::kFree) << "the arenas are left sealed";
}

TEST_F(LevelRebuildTest, WithoutSpaceForACopyItSaysSo) {
  options_.pool_bytes_max = 24 * kChunkBytesMin;
  Start(1);
  const PmPtr bare = Write("bare", 1, RecordKind::kPut, 0);
  ChunkRef taken;
  while (Claim(&taken, 1, Claimant::kIndex).ok()) {
  }
  EXPECT_TRUE(Enter({EntryOf(bare)}).IsNoSpace());
}

TEST_F(LevelRebuildTest, TheNewestOfEachKeyIsLinkedUnlessItIsADelete) {
  const PmPtr old = Write("a", 1);
  const PmPtr newest = Write("a", 2);
  const PmPtr hidden = Write("b", 3);
  const PmPtr deleted = Write("b", 4, RecordKind::kDelete);
  ASSERT_TRUE(Enter({EntryOf(old), EntryOf(newest), EntryOf(hidden), EntryOf(deleted)}).ok());
  const TestList made(pool_.get(), false);
  const LinkedRecords linked = LinkRebuilt(*tree_, made.list, &*dead_, &*persister_);
  EXPECT_EQ(made.list.First(), newest);
  EXPECT_FALSE(made.list.Next(newest, 0, 0));
  EXPECT_EQ(linked.count, 1u);
  EXPECT_EQ(linked.live_bytes, std::string("avalue2").size());
  EXPECT_TRUE(At(old)->obsolete());
  EXPECT_TRUE(At(hidden)->obsolete());
  EXPECT_FALSE(At(deleted)->obsolete()) << "until what it hides is durably marked";
  EXPECT_EQ(dead_->fresh(), At(old)->bytes() + At(hidden)->bytes() + At(deleted)->bytes());
}

TEST_F(LevelRebuildTest, RecordsAreTheTruthAndMayBeRebuiltFromAgain) {
  for (const uint32_t parts : {1u, 3u}) {
    SCOPED_TRACE(parts);
    Start(parts);
    Random random(7 + parts);
    std::map<std::string, std::string> model;
    uint64_t sequence = 0;
    for (int i = 0; i < 2000; i++) {
      const std::string key = Concat("key", random.Uniform(500));
      const RecordKind kind = random.OneIn(4) ? RecordKind::kDelete : RecordKind::kPut;
      const uint32_t height = random.OneIn(3) ? 0 : RandomHeight(&random);
      Write(key, ++sequence, kind, height, static_cast<uint32_t>(random.Uniform(parts)));
      if (kind == RecordKind::kPut) {
        model[key] = Concat("value", sequence);
      } else {
        model.erase(key);
      }
    }
    RebuiltLevel rebuilt;
    for (int round = 0; round < 2; round++) {  // a crash before a state names the first
      const Status s = Rebuild(&rebuilt);
      ASSERT_TRUE(s.ok()) << s.ToString();
      ExpectLevel(rebuilt, model);
      EXPECT_EQ(rebuilt.records_lost, 0u);
      EXPECT_EQ(rebuilt.sequence_last, sequence);
      EXPECT_EQ(rebuilt.sequence_seen, sequence);
      ASSERT_EQ(rebuilt.log_end.size(), parts);
    }
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind == ChunkKind::kLog) {
        EXPECT_LT(chunk.ordinal, rebuilt.log_end[chunk.owner].ordinal);
      }
    });
  }
}

// Nobody was told of what follows it either.
TEST_F(LevelRebuildTest, APartOfABatchThatWasCutIsNotBackWithTheNextRebuilding) {
  Start(2);
  Write("a", 1);
  const uint64_t whole = WholeBytes(*pool_, appenders_[0]->open_chunk());
  for (const uint32_t i : {0, 1}) {  // of three
    Add({.tag = MakeTag(2 + i, RecordKind::kPut),
         .key = i == 0 ? "b" : "c",
         .value = "cut",
         .height = 1,
         .batch_remaining = 2 - i,
         .published = 1});
  }
  SetWholeBytes(*pool_, appenders_[0]->open_chunk(), whole);
  const PmPtr beyond = Write("d", 5, RecordKind::kPut, 1, 1);
  RebuiltLevel rebuilt;
  std::vector<SequenceGap> gaps;
  for (const uint64_t flushed_sequence : {0, 1}) {
    ASSERT_TRUE(Rebuild(&rebuilt, flushed_sequence, gaps).ok());
    ExpectLevel(rebuilt, {{"a", "value1"}});
    EXPECT_EQ(rebuilt.records_lost, 0u);
    EXPECT_EQ(rebuilt.sequence_last, 1u);
    EXPECT_EQ(rebuilt.sequence_seen, 5u);
    EXPECT_TRUE(At(beyond)->obsolete()) << "of what is left out no other rebuilding may think more";
    gaps = {{2, 5}};
  }
}

// Where no catalog tells, what another shard has says that a later write was whole.
TEST_F(LevelRebuildTest, WhatFollowsATearIsNoLossOfTheNextRebuildingEither) {
  Start(2);
  Write("a", 1);
  const uint64_t whole = WholeBytes(*pool_, appenders_[0]->open_chunk());
  const PmPtr torn = Write("b", 2);
  const PmPtr after_tear = Write("c", 3);
  Flip(torn, 8 * (sizeof(RecordHeader) + sizeof(uint64_t)) + 3);
  SetWholeBytes(*pool_, appenders_[0]->open_chunk(), whole);
  Write("d", 4, RecordKind::kPut, 1, 1);
  const std::map<std::string, std::string> model = {{"a", "value1"}, {"d", "value4"}};
  RebuiltLevel rebuilt;
  GatherBasis basis = Basis(0, {});
  basis.catalog_lost = true;
  ASSERT_TRUE(Rebuild(&rebuilt, basis).ok());
  ExpectLevel(rebuilt, model);
  EXPECT_EQ(rebuilt.records_lost, 0u);
  EXPECT_TRUE(At(after_tear)->obsolete());
  NoteReach(*pool_, rebuilt.reach);
  std::vector<SequenceGap> gaps;
  EXPECT_EQ(DeclareVoid(rebuilt, 0, &gaps), 4u);
  EXPECT_EQ(gaps, (std::vector<SequenceGap>{{3, 3}}));
  for (const bool is_void : {true, false}) {  // the second is the control
    ASSERT_TRUE(Rebuild(&rebuilt, 4, is_void ? gaps : std::vector<SequenceGap>()).ok());
    ExpectLevel(rebuilt, model);
    EXPECT_EQ(rebuilt.records_lost, is_void ? 0u : 1u);
  }
}

TEST_F(LevelRebuildTest, NumbersThatAreVoidAscend) {
  RebuiltLevel rebuilt;
  rebuilt.sequence_last = 20;
  rebuilt.sequence_seen = 30;
  rebuilt.dropped = {{3, 4}, {12, 12}};
  std::vector<SequenceGap> gaps = {{5, 6}, {15, 16}};
  EXPECT_EQ(DeclareVoid(rebuilt, 25, &gaps), 30u);
  EXPECT_EQ(gaps, (std::vector<SequenceGap>{{3, 4}, {5, 6}, {12, 12}, {15, 16}, {21, 30}}));
}

TEST_F(LevelRebuildTest, WhatDoesNotValidateIsLostAndCounted) {
  Write("a", 1);
  const PmPtr damaged = Write("b", 2);
  Write("c", 3);
  Flip(damaged, 8 * (sizeof(RecordHeader) + sizeof(uint64_t)) + 3);  // the key, after a link
  RebuiltLevel rebuilt;
  ASSERT_TRUE(Rebuild(&rebuilt).ok());
  ExpectLevel(rebuilt, {{"a", "value1"}, {"c", "value3"}});
  EXPECT_EQ(rebuilt.records_lost, 1u);
}

}  // namespace
}  // namespace lamella
