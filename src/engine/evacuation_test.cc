#include "engine/evacuation.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/pm_level_test_base.h"
#include "engine/skiplist_check.h"

namespace lamella {
namespace {

constexpr ChunkKind kCopies = static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 1);

class EvacuationTest : public PmLevelTestBase, public EvacuationOwner {
 protected:
  EvacuationTest() {
    frees_.emplace(pool_.get());
    gc_.emplace(pool_.get(), &*level_, &*dead_, &*frees_, this, 2.0);
    gc_->Start(kCopies, 0, 1);
  }
  ~EvacuationTest() override {
    gc_.reset();
    frees_.reset();
  }

  std::function<Standing(const Filled&)> Standings() const override {
    return [](const Filled& filled) {
      return HasRecords(filled.chunk) ? Standing::kMerged : Standing::kUnmerged;
    };
  }
  std::vector<SequenceGap> VoidSequences() const override { return {}; }
  bool IsLinkedInto(const std::vector<DamagedPlace>& places) const override {
    return !places.empty() && LeadsInto(*level_->list(), places);
  }
  std::unique_ptr<CopyRoom> NewCopyRoom() override {
    struct Room final : CopyRoom {
      explicit Room(EvacuationTest* of) : test(of) {}
      ~Room() override { test->reserved_ = 0; }
      bool Reserve(uint64_t bytes) override {
        test->reserved_ += bytes;
        return test->has_room_;
      }
      EvacuationTest* const test;
    };
    return std::make_unique<Room>(this);
  }
  Status SyncAll() override { return sync_; }

  static bool HasRecords(const ChunkRef& chunk) {
    return chunk.kind == ChunkKind::kLog || chunk.kind == kCopies;
  }
  uint64_t RecordChunks() const {
    uint64_t chunks = 0;
    pool_->ForEachChunk([&](const ChunkRef& chunk) { chunks += HasRecords(chunk) ? 1 : 0; });
    return chunks;
  }
  /// Tables of overwrites: about half of what is written is dead.
  void Fill() {
    for (int table = 0; table < 4; table++) {
      for (int i = 0; i < 500; i++) {
        const std::string key = Concat("key", random_.Uniform(600));
        model_[key] = Concat(table, ".", i, std::string(200, 'v'));
        Write(key, RecordKind::kPut, model_[key]);
      }
      Merge();
    }
    appenders_[0]->CloseChunk();
    Settle();
  }
  void ExpectAll() {
    for (const auto& [key, value] : model_) ASSERT_EQ(Find(key), value) << key;
    CheckReport report;
    CheckSkipList(*pool_, *level_->list(),
                  {.name = "level", .elements_max = 4'000, .obsolete_is_damage = true}, &report);
    EXPECT_TRUE(report.clean()) << report.problems.front();
    EXPECT_EQ(report.records, model_.size());
  }
  Status Collect(GcGoal goal, bool* progress) {
    Status s = gc_->Collect(goal, progress);
    for (int i = 0; i < 8; i++) pool_->CollectDeferred();
    return s;
  }

  std::map<std::string, std::string> model_;
  std::optional<PendingFrees> frees_;
  std::optional<Evacuation> gc_;
  bool has_room_ = true;
  uint64_t reserved_ = 0;
  Status sync_;
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
  EXPECT_GT(gc_->bytes_relocated(), 0u);
  EXPECT_EQ(gc_->runs(), static_cast<uint64_t>(passes));
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
  EXPECT_EQ(gc_->bytes_relocated(), 0u);
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
  EXPECT_TRUE(gc_->IsHeldBack(chunk));
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
