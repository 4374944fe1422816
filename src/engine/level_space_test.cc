#include "engine/level_space.h"

#include <gtest/gtest.h>

#include "engine/level_space_test_base.h"

namespace lamella {
namespace {

class LevelSpaceTest : public LevelSpaceTestBase {
 protected:
  SpacePicture Picture() { return space_->Picture(sequence_); }
  /// What a store's jobs do until there is nothing to do.
  std::string DoAll() {
    std::string done;
    for (PickedSpaceJob picked = PickSpaceJob(Picture()); picked.job != SpaceJob::kNone;
         picked = PickSpaceJob(Picture())) {
      const LevelSpace::Work work = space_->Begin(picked, sequence_);
      EXPECT_TRUE(space_->had_turn());
      space_->NoteMerge();
      EXPECT_FALSE(space_->had_turn());
      const Status s = work.run();
      EXPECT_TRUE(s.ok()) << s.ToString();
      for (int i = 0; i < 8; i++) pool_->CollectDeferred();
      if (!done.ends_with(work.name)) done += Concat(done.empty() ? "" : ", ", work.name);
    }
    return done;
  }
  void LoseCounts() {
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      pool_->Descriptor(chunk.part, chunk.index)->dead_bytes.store(0);
    });
  }
};

TEST_F(LevelSpaceTest, WhatAnOpenLostIsCountedAndThenCollected) {
  Fill();
  const uint64_t before = RecordChunks();
  LoseCounts();
  dead_->ForgetFresh();
  space_->Prepare(true, true);
  EXPECT_TRUE(space_->is_uncounted());
  EXPECT_TRUE(space_->HasWork());
  space_->Reclaim();
  EXPECT_EQ(DoAll(), "recount, gc");
  EXPECT_EQ(notes_, 1) << "the state of record is told";
  EXPECT_FALSE(space_->is_uncounted());
  EXPECT_FALSE(space_->HasWork());
  EXPECT_LT(RecordChunks(), before);
  ExpectAll();
}

TEST_F(LevelSpaceTest, AFullPoolIsCollectedUntilNothingIsLeft) {
  Fill();
  EXPECT_TRUE(space_->MayFreeMore(0));
  space_->Reclaim();
  EXPECT_TRUE(Picture().pool_is_full);
  EXPECT_TRUE(space_->HasWork());
  EXPECT_EQ(DoAll(), "gc");
  EXPECT_FALSE(space_->HasWork());
  EXPECT_FALSE(space_->MayFreeMore(0));
  ExpectAll();
}

// An iterator held the room, say, and nobody writes what would have it look again. (A large put was
// refused for good.)
TEST_F(LevelSpaceTest, WhatHadNoRoomForItsCopiesIsTriedAgainWithMore) {
  EndSpace();
  options_.pool_bytes_max = 8 << 20;
  StartLevel();
  StartSpace();
  Fill();
  Persister persister(pool_->gate(), WriteCause::kGc);
  std::vector<ChunkRef> held;
  constexpr auto kHeld = static_cast<ChunkKind>(60);
  for (ChunkRef chunk;
       pool_->Claim(0, kHeld, 0, held.size(), 1, Claimant::kWriter, &persister, &chunk).ok();)
    held.push_back(chunk);
  has_room_ = false;
  space_->Reclaim();
  EXPECT_EQ(DoAll(), "gc");
  EXPECT_FALSE(space_->MayFreeMore(0)) << "as long as there is no more room";
  for (const ChunkRef& chunk : held) pool_->Free(chunk, &persister);
  EXPECT_TRUE(space_->MayFreeMore(0));
  has_room_ = true;
  const uint64_t before = RecordChunks();
  space_->Reclaim();
  EXPECT_EQ(DoAll(), "gc");
  EXPECT_LT(RecordChunks(), before);
  EXPECT_FALSE(space_->MayFreeMore(0));
  ExpectAll();
}

TEST_F(LevelSpaceTest, AFullPoolIsCollectedWhileSnapshotsComeAndGo) {
  Write("kept", RecordKind::kPut, "older");
  const uint64_t held = snapshots_.Take([this] { return sequence_; });
  Fill();
  Write("kept", RecordKind::kPut, model_["kept"] = "newer");
  Merge();
  snapshots_.Release(held);
  space_->Reclaim();
  int sweeps = 0;
  for (int job = 0; job < 20 && space_->HasWork(); job++) {
    const LevelSpace::Work work = space_->Begin(PickSpaceJob(Picture()), sequence_);
    snapshots_.Release(snapshots_.Take([this] { return sequence_; }));
    sweeps += std::string_view(work.name) == "sweep" ? 1 : 0;
    ASSERT_TRUE(work.run().ok());
    for (int i = 0; i < 8; i++) pool_->CollectDeferred();
  }
  EXPECT_GT(sweeps, 1) << "each release asks for one";
  EXPECT_FALSE(space_->HasWork());
  ExpectAll();
}

TEST_F(LevelSpaceTest, ACompactionOfAllDoesAll) {
  Fill();
  LoseCounts();
  space_->Prepare(true, false);
  ASSERT_TRUE(space_->Compact("a", "b").ok());
  EXPECT_TRUE(space_->is_uncounted()) << "a range is no reason to count all";
  ASSERT_TRUE(space_->Compact({}, {}).ok());
  EXPECT_FALSE(space_->is_uncounted());
  EXPECT_EQ(notes_, 0) << "the state of record never said that counts were missing";
  EXPECT_FALSE(space_->MayFreeMore(0));
  ExpectAll();
}

}  // namespace
}  // namespace lamella
