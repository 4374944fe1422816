#include "engine/flush_arena.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "index/index_test_base.h"
#include "memtable/record_walk.h"

namespace lamella {
namespace {

class FlushArenaTest : public IndexTest {
 protected:
  static constexpr auto kArena = static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst));
  static constexpr uint64_t kFirstOrdinal = 7;

  FlushArenaTest() {
    CreateParts(1);
    dead_.emplace(pool_.get());
    lookup_cache_.emplace(1 << 16, pool_->readers(), HashesOfRecords(pool_.get()));
    arena_.emplace(pool_.get(), &*dead_, &*lookup_cache_);
    arena_->Start(kArena, 0, kFirstOrdinal);
    Random random(5);
    elements_ = RandomElements(&random, testing::KeyShape::kMixed, 1'000, 400);
    memtable_.emplace(pool_.get(), 1);
    for (const auto& [key, place] : elements_)
      memtable_->Add(key.user_key, key.tag, place, nullptr);
  }
  ~FlushArenaTest() override {
    arena_->Close();
    arena_.reset();
    memtable_.reset();
    lookup_cache_.reset();
  }
  std::vector<PmPtr> Copy() {
    HeadTree copied(pool_.get());
    const Status s = arena_->Copy(*memtable_, &copied);
    EXPECT_TRUE(s.ok()) << s.ToString();
    std::vector<PmPtr> places;
    for (RecordWalk at(pool_.get(), &copied); at.Valid(); at.Next())
      places.push_back(at.entry().place());
    return places;
  }

  Elements elements_;
  std::optional<DeadBytes> dead_;
  std::optional<LookupCache> lookup_cache_;
  std::optional<MemTable> memtable_;
  std::optional<FlushArena> arena_;
};

TEST_F(FlushArenaTest, CopiesAreTheSameRecordsWithRoomForLinks) {
  EXPECT_EQ(arena_->Begin(), kFirstOrdinal);
  const std::vector<PmPtr> copies = Copy();
  ASSERT_EQ(copies.size(), elements_.size());
  size_t i = 0;
  for (const auto& [key, place] : elements_) {
    const Record* const copy = At(copies[i++]);
    EXPECT_EQ(copy->key(), key.user_key);
    EXPECT_EQ(copy->tag(), key.tag);
    EXPECT_EQ(copy->value(), At(place)->value());
    EXPECT_GT(copy->height(), 0u);
  }
}

TEST_F(FlushArenaTest, WhatAFlushFillsIsItsUntilItEnds) {  // I1
  uint64_t floor = kFirstOrdinal;
  for (int flush = 0; floor < kFirstOrdinal + 3; flush++) {
    ASSERT_LT(flush, 200);
    EXPECT_EQ(arena_->Begin(), floor) << "it goes on in the chunk that is open";
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;
    for (const PmPtr copy : Copy()) {
      ChunkRef chunk;
      ASSERT_TRUE(OwningChunk(*pool_, copy, &chunk));
      lowest = std::min(lowest, chunk.ordinal);
      highest = std::max(highest, chunk.ordinal);
    }
    EXPECT_GE(lowest, floor);
    EXPECT_EQ(arena_->floor(), floor);
    arena_->End();
    floor = highest;
    EXPECT_EQ(arena_->floor(), floor);
  }
}

TEST_F(FlushArenaTest, WhatAFailedFlushCopiedIsDead) {
  arena_->Begin();
  const std::vector<PmPtr> copies = Copy();
  uint64_t bytes = 0;
  for (const PmPtr copy : copies) {
    const Record* const record = At(copy);
    lookup_cache_->Put(Hash64(record->key()), copy);
    bytes += record->bytes();
  }
  arena_->Drop(&*persister_);
  EXPECT_EQ(dead_->fresh(), bytes);
  for (const PmPtr copy : copies) {
    const Record* const record = At(copy);
    EXPECT_TRUE(record->obsolete());
    std::array<PmPtr, LookupCache::kWays> found;
    const uint32_t count = lookup_cache_->Find(Hash64(record->key()), &found);
    for (uint32_t i = 0; i < count; i++) EXPECT_NE(found[i].word, copy.word);
  }
  arena_->Begin();
  EXPECT_EQ(Copy().size(), copies.size()) << "the next try copies all of it again";
}

TEST_F(FlushArenaTest, AFlushThatFailsBeforeItBeginsLeavesTheLastOnesCopies) {
  arena_->Begin();
  const std::vector<PmPtr> copies = Copy();
  arena_->End();
  arena_->Drop(&*persister_);
  for (const PmPtr copy : copies) ASSERT_FALSE(At(copy)->obsolete());
  EXPECT_EQ(dead_->fresh(), 0u);
}

}  // namespace
}  // namespace lamella
