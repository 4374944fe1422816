#include "engine/orphans.h"

#include <array>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "engine/pm_level_test_base.h"

namespace lamella {
namespace {

/// The arenas as a crash left them: nothing is open.
class OrphansTest : public PmLevelTestBase {
 protected:
  static constexpr auto kArena =
      static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 1);
  static constexpr ArenaOwners kOwners{.kind = kArena, .flush = 0, .gc = 1};

  OrphansTest() {
    for (const uint32_t owner : {kOwners.flush, kOwners.gc}) {
      arenas_[owner] =
          std::make_unique<RecordAppender>(pool_.get(), 0, kArena, owner, 1, WriteCause::kGc);
    }
  }
  ~OrphansTest() override {
    for (auto& arena : arenas_) arena.reset();
  }

  PmPtr Copy(uint32_t owner, const std::string& key, uint64_t sequence) {
    RecordAppender* const arena = arenas_[owner].get();
    const PmPtr place = Append(
        arena,
        {.tag = MakeTag(sequence, RecordKind::kPut), .key = key, .value = "value", .height = 1});
    arena->Commit();
    return place;
  }
  PmPtr CopyOf(PmPtr original) {
    return Copy(kOwners.gc, std::string(At(original)->key()), At(original)->sequence());
  }
  /// The record becomes an element of the level where it lies.
  void LinkInLevel(PmPtr place) {
    for (auto& arena : arenas_) arena->Seal();
    table_[{std::string(At(place)->key()), At(place)->tag()}] = place;
    Merge();
  }
  void Mark(uint64_t flushed_sequence) {
    const Status s = MarkOrphans(pool_.get(), kOwners, flushed_sequence, &*level_, &*dead_);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  bool IsMarked(PmPtr place) const { return At(place)->obsolete(); }
  bool IsOwned(const ChunkRef& chunk) const {
    ChunkRef now;
    return pool_->Describe(chunk.part, chunk.index, &now) && now.epoch == chunk.epoch;
  }

  std::array<std::unique_ptr<RecordAppender>, 2> arenas_;  // by owner
};

TEST_F(OrphansTest, OfGcAreTheCopiesThatTheLevelDoesNotLeadTo) {
  const PmPtr original = Write("a");
  Merge();
  const PmPtr lost = CopyOf(original);
  const PmPtr linked = Copy(kOwners.gc, "b", ++sequence_);
  LinkInLevel(linked);
  Mark(sequence_);
  EXPECT_TRUE(IsMarked(lost));
  EXPECT_FALSE(IsMarked(linked));
  EXPECT_FALSE(IsMarked(original));
  EXPECT_EQ(dead_->fresh(), At(lost)->bytes());
  EXPECT_EQ(Find("a"), "value");
  EXPECT_EQ(Find("b"), "value");
  Mark(sequence_);
  EXPECT_EQ(dead_->fresh(), At(lost)->bytes()) << "counted once, however often it is looked for";
}

TEST_F(OrphansTest, OfAFlushAreTheCopiesThatNoCheckpointNames) {
  const PmPtr flushed = Copy(kOwners.flush, "a", 1);
  const PmPtr cut_off = Copy(kOwners.flush, "b", 2);
  const ChunkRef chunk = arenas_[kOwners.flush]->open_chunk();
  Mark(1);
  EXPECT_FALSE(IsMarked(flushed));
  EXPECT_TRUE(IsMarked(cut_off));
  EXPECT_TRUE(IsOwned(chunk));
  EXPECT_EQ(dead_->fresh(), At(cut_off)->bytes());
}

TEST_F(OrphansTest, AChunkOfNothingElseIsFreeAtOnce) {
  Copy(kOwners.flush, "a", 1);
  const ChunkRef older = arenas_[kOwners.flush]->open_chunk();
  arenas_[kOwners.flush]->CloseChunk();
  Copy(kOwners.flush, "b", 2);
  Copy(kOwners.flush, "c", 3);
  const ChunkRef newer = arenas_[kOwners.flush]->open_chunk();
  Mark(1);
  EXPECT_TRUE(IsOwned(older));
  EXPECT_FALSE(IsOwned(newer));
}

TEST_F(OrphansTest, AChunkWithDamageStays) {
  const PmPtr damaged = Copy(kOwners.flush, "damaged", 1);
  const PmPtr after = Copy(kOwners.flush, "after", 2);
  const ChunkRef chunk = arenas_[kOwners.flush]->open_chunk();
  Flip(damaged, 8 * (sizeof(RecordHeader) + sizeof(uint64_t)) + 3);  // the key, after a link
  Mark(0);
  EXPECT_TRUE(IsMarked(after));
  EXPECT_TRUE(IsOwned(chunk)) << "it may hold what is nowhere else";
}

TEST_F(OrphansTest, OthersChunksAreLeftAlone) {
  const PmPtr logged = Write("logged");
  Mark(0);
  EXPECT_FALSE(IsMarked(logged));
  EXPECT_EQ(dead_->fresh(), 0u);
}

}  // namespace
}  // namespace lamella
