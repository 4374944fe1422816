#include "engine/dead_bytes.h"

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "log/log_test_base.h"

namespace lamella {
namespace {

class DeadBytesTest : public RecordsTest {
 protected:
  DeadBytesTest() {
    CreateParts(1);
    dead_.emplace(pool_.get());
  }
  uint64_t DeadIn(PmPtr place) const {
    ChunkRef chunk;
    EXPECT_TRUE(OwningChunk(*pool_, place, &chunk));
    return pool_->Descriptor(chunk.part, chunk.index)->dead_bytes.load();
  }

  std::optional<DeadBytes> dead_;
};

TEST_F(DeadBytesTest, CountInTheChunkOfTheRecordAndInAll) {
  const PmPtr first = Add("first", 1);
  const PmPtr beside = Add("beside", 2);
  appenders_[0]->CloseChunk();
  const PmPtr other = Add("other", 3);
  dead_->Count(first);
  dead_->Count(beside, 10);
  EXPECT_EQ(DeadIn(first), At(first)->bytes() + 10);
  EXPECT_EQ(DeadIn(other), 0u);
  dead_->Count(other);
  EXPECT_EQ(DeadIn(other), At(other)->bytes());
  EXPECT_EQ(dead_->fresh(), At(first)->bytes() + 10 + At(other)->bytes());
}

TEST_F(DeadBytesTest, OfARunCountInItsFirstChunk) {
  const std::string value(3 * kChunkBytesMin, 'v');
  const PmPtr large =
      Add({.tag = MakeTag(1, RecordKind::kPut), .key = "key", .value = value, .height = 1});
  dead_->Count(large);
  EXPECT_EQ(DeadIn(large), At(large)->bytes());
  EXPECT_GT(DeadIn(large), value.size());
}

TEST_F(DeadBytesTest, WhatNobodyOwnsIsNotCounted) {
  const ChunkRef chunk = MustClaim();
  const PmPtr place = pool_->ChunkStart(chunk);
  pool_->Free(chunk, &*persister_);
  dead_->Count(place, 100);
  EXPECT_EQ(dead_->fresh(), 0u);
  EXPECT_FALSE(dead_->any_unreclaimed());
}

TEST_F(DeadBytesTest, WhatAPassLookedAtIsNotFreshButMayBeReclaimed) {
  EXPECT_FALSE(dead_->any_unreclaimed());
  const PmPtr place = Add("key", 1);
  dead_->Count(place);
  dead_->ForgetFresh();
  EXPECT_EQ(dead_->fresh(), 0u);
  EXPECT_TRUE(dead_->any_unreclaimed());
  EXPECT_EQ(DeadIn(place), At(place)->bytes());
  dead_->NoteAllReclaimed();
  EXPECT_FALSE(dead_->any_unreclaimed());
  dead_->NoteUnreclaimed();
  EXPECT_TRUE(dead_->any_unreclaimed());
}

TEST_F(DeadBytesTest, ConcurrentCountsAllCount) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kEach = 5000;
  const PmPtr place = Add("key", 1);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; t++) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kEach; i++) dead_->Count(place, 3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(DeadIn(place), kThreads * kEach * 3);
  EXPECT_EQ(dead_->fresh(), kThreads * kEach * 3);
}

}  // namespace
}  // namespace lamella
