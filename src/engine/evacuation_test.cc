#include "engine/evacuation.h"

#include <gtest/gtest.h>

#include "engine/level_space_test_base.h"

namespace lamella {
namespace {

class EvacuationTest : public LevelSpaceTestBase {
 protected:
  Status Collect(GcGoal goal, bool* progress) {
    Status s = gc()->Collect(goal, progress);
    for (int i = 0; i < 8; i++) pool_->CollectDeferred();
    return s;
  }
  Evacuation* gc() { return space_->gc(); }
};

TEST_F(EvacuationTest, WhatLivesIsMovedAndTheRestIsFree) {
  Fill();
  const uint64_t before = RecordChunks();
  bool progress = true;
  int passes = 0;
  while (progress) {
    ASSERT_TRUE(Collect(GcGoal::kAll, &progress).ok());
    ASSERT_LT(passes++, 100) << "I2";
    ExpectAll();
  }
  EXPECT_LT(RecordChunks(), before * 2 / 3);
  EXPECT_GT(gc()->bytes_relocated(), 0u);
  EXPECT_EQ(gc()->runs(), static_cast<uint64_t>(passes));
  EXPECT_FALSE(dead_->any_unreclaimed());
  EXPECT_EQ(reserved_, 0u) << "what was kept for copies is given back";
}

TEST_F(EvacuationTest, TheTargetIsEnough) {
  Fill();
  bool progress = true;
  while (progress) ASSERT_TRUE(Collect(GcGoal::kTarget, &progress).ok());
  ExpectAll();
  uint64_t bytes = 0;  // of chunks that are filled
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    const ChunkDescriptor* const descriptor = pool_->Descriptor(chunk.part, chunk.index);
    if (HasRecords(chunk) && descriptor->used_bytes.load() != 0 && !frees_->Contains(chunk))
      bytes += chunk.run_chunks * pool_->chunk_bytes();
  });
  EXPECT_LE(bytes, 2 * level_->live_bytes() + 4 * pool_->chunk_bytes());
  EXPECT_EQ(dead_->fresh(), 0u);
}

TEST_F(EvacuationTest, WithoutRoomForCopiesAllStays) {
  Fill();
  has_room_ = false;
  const uint64_t before = RecordChunks();
  bool progress = true;
  ASSERT_TRUE(Collect(GcGoal::kAll, &progress).ok()) << "a full pool is no error";
  EXPECT_FALSE(progress);
  EXPECT_EQ(RecordChunks(), before);
  EXPECT_EQ(gc()->bytes_relocated(), 0u);
  ExpectAll();
}

TEST_F(EvacuationTest, AChunkWithDamageStaysAsItIs) {  // I3
  Fill();
  PmPtr victim = level_->list()->First();
  ChunkRef chunk;
  ASSERT_TRUE(OwningChunk(*pool_, victim, &chunk));
  const uint64_t value_at = At(victim)->bytes() - 8;
  Flip(victim, 8 * value_at);
  const uint32_t epoch = chunk.epoch;
  bool progress = true;
  while (progress) ASSERT_TRUE(Collect(GcGoal::kAll, &progress).ok());
  ChunkRef now;
  ASSERT_TRUE(pool_->Describe(chunk.part, chunk.index, &now));
  EXPECT_EQ(now.epoch, epoch) << "freed";
  EXPECT_TRUE(gc()->IsHeldBack(chunk));
  EXPECT_EQ(level_->list()->First(), victim) << "moved, with a fresh checksum";
  Flip(victim, 8 * value_at);
  ExpectAll();
}

TEST_F(EvacuationTest, AChunkWaitsForTheReaderThatADeleteInItWaitsFor) {
  Fill();
  for (const auto& [key, value] : model_) Write(key, RecordKind::kDelete);
  model_.clear();
  Merge();
  appenders_[0]->CloseChunk();
  bool progress = true;
  while (progress) ASSERT_TRUE(Collect(GcGoal::kAll, &progress).ok());
  EXPECT_GT(level_->count(), 0u) << "somebody may see their table apart";
  Settle();
  progress = true;
  while (progress) ASSERT_TRUE(Collect(GcGoal::kAll, &progress).ok());
  EXPECT_EQ(level_->count(), 0u);
  EXPECT_EQ(RecordChunks(), 0u);
}

}  // namespace
}  // namespace lamella
