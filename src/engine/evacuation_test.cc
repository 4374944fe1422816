#include "engine/evacuation.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "engine/level_space_test_base.h"
#include "engine/orphans.h"
#include "testing/cut_medium.h"

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
  EXPECT_EQ(gc()->released(), 0u);
  Settle();
  progress = true;
  while (progress) ASSERT_TRUE(Collect(GcGoal::kAll, &progress).ok());
  EXPECT_EQ(level_->count(), 0u);
  EXPECT_EQ(RecordChunks(), 0u);
  EXPECT_GT(gc()->released(), 0u);
}

/// Evacuations that are cut.
class EvacuationCutTest : public EvacuationTest {
 protected:
  EvacuationCutTest() { options_.hook = &medium_; }
  ~EvacuationCutTest() override { End(); }

  void End() {
    medium_.Stop();
    EndSpace();
    EndLevel();
    appenders_.clear();
    Close();  // the hook outlives the pool
  }
  /// A level with what lives, what newer versions replaced, and, unmarked as yet, versions that a
  /// snapshot kept until now, of keys that are deleted or have a newer one.
  void Start() {
    End();
    StartLevel();
    StartSpace();
    model_.clear();
    for (int i = 0; i < kKeys; i++) Write(Key(i), RecordKind::kPut, model_[Key(i)] = Value(i, 1));
    Merge();
    const uint64_t snapshot = snapshots_.Take([this] { return sequence_; });
    for (int i = 0; i < kKeys; i++) {
      if (i % 3 == 0) {
        Write(Key(i), RecordKind::kDelete);
        model_.erase(Key(i));
      } else if (i % 3 == 1) {
        Write(Key(i), RecordKind::kPut, model_[Key(i)] = Value(i, 2));
      }
    }
    Merge();
    for (int i = 0; i < kKeys; i++) {  // dead bytes
      if (i % 3 == 1) Write(Key(i), RecordKind::kPut, model_[Key(i)] = Value(i, 3));
    }
    Merge();
    appenders_[0]->CloseChunk();
    Settle();
    snapshots_.Release(snapshot);
  }
  /// What an open does after a crash.
  void Reopen() {
    OpenLevel();
    const Status s = MarkOrphans(pool_.get(), {.kind = kCopies, .flush = 7, .gc = 0}, sequence_,
                                 &*level_, &*dead_);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  void CollectAll() {
    for (bool progress = true; progress;) ASSERT_TRUE(Collect(GcGoal::kAll, &progress).ok());
  }
  /// What a rebuilding would find: the newest record of each key that is not hidden.
  std::map<std::string, std::string> Rebuilt() const {
    std::map<std::string, const Record*> newest;
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (!HasRecords(chunk)) return;
      ForEachRecord(
          *pool_, chunk, 0,
          [&](const Record* record, PmPtr) {
            const Record*& now = newest[std::string(record->key())];
            if (!record->hidden() && (now == nullptr || now->tag() < record->tag())) now = record;
          },
          [](PmPtr, PmPtr) {});
    });
    std::map<std::string, std::string> rebuilt;
    for (const auto& [key, record] : newest) {
      if (record != nullptr && record->kind() == RecordKind::kPut) rebuilt[key] = record->value();
    }
    return rebuilt;
  }
  std::map<std::string, std::string> Listed() const {
    std::map<std::string, std::string> listed;
    const PmSkipList& list = *level_->list();
    for (PmPtr at = list.First(); at; at = list.Next(at, 0, 0)) {
      const bool is_put = At(at)->kind() == RecordKind::kPut;
      const auto [entry, is_first] = listed.try_emplace(std::string(At(at)->key()), "");
      if (is_first && is_put) entry->second = At(at)->value();
    }
    std::erase_if(listed, [](const auto& entry) { return entry.second.empty(); });
    return listed;
  }
  /// No older version waits for its delete to be gone.
  void ExpectUnlinkedIsHidden() const {
    const PmSkipList& list = *level_->list();
    std::set<uint64_t> linked;
    for (PmPtr at = list.First(); at; at = list.Next(at, 0, 0)) linked.insert(at.word);
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (!HasRecords(chunk)) return;
      ForEachRecord(
          *pool_, chunk, 0,
          [&](const Record* record, PmPtr place) {
            EXPECT_TRUE(record->hidden() || record->kind() == RecordKind::kDelete ||
                        linked.contains(place.word))
                << record->key() << " " << record->sequence();
          },
          [](PmPtr, PmPtr) {});
    });
  }
  void ExpectModel() {
    EXPECT_EQ(Rebuilt(), model_);
    EXPECT_EQ(Listed(), model_);
  }

  static constexpr int kKeys = 30;
  static std::string Key(int i) { return Concat("key", 100 + i); }
  static std::string Value(int i, int version) {
    return Concat(version, ".", i, std::string(1200, 'v'));
  }

  CutMedium medium_;
};

// And after what an open does, cut short or not.
TEST_F(EvacuationCutTest, CutAtEveryFenceARebuildingFindsWhatTheListHas) {
  uint64_t fences = 0;
  for (uint64_t fence = 1; fence <= fences + 1; fence++) {
    for (uint64_t seed = 0; seed < 8; seed++) {  // 0: the process is killed
      SCOPED_TRACE(Concat("fence ", fence, " seed ", seed));
      Random random(seed);
      ASSERT_NO_FATAL_FAILURE(Start());
      medium_.Watch(*pool_);
      medium_.CutAt(fence);
      try {
        ASSERT_NO_FATAL_FAILURE(CollectAll());
        fences = std::max(fences, medium_.fences());
      } catch (const Crash&) {
        fences = std::max(fences, fence);
      }
      medium_.CutAt(0);
      if (seed != 0) medium_.LosePower(&random);
      ExpectModel();
      ASSERT_NO_FATAL_FAILURE(Reopen());
      if (seed != 0) medium_.LosePower(&random);
      ExpectModel();
      ASSERT_NO_FATAL_FAILURE(Reopen());
      ExpectModel();
      ExpectUnlinkedIsHidden();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(fences, 20u) << "the control";
}

}  // namespace
}  // namespace lamella
