#include "engine/list_heads.h"

#include <gtest/gtest.h>

#include "pool/pool_test_base.h"
#include "testing/says.h"

namespace lamella {
namespace {

constexpr auto kHeads = ChunkKind::kEngineFirst;

class ListHeadsTest : public PoolTest {
 protected:
  ListHeadsTest() { Create(); }
  uint64_t ChunksOfHeads() const {
    uint64_t count = 0;
    pool_->ForEachChunk([&](const ChunkRef& chunk) { count += chunk.kind == kHeads ? 1 : 0; });
    return count;
  }
};

TEST_F(ListHeadsTest, AreThoseOfAnEmptyList) {
  PmPtr heads;
  ASSERT_TRUE(ClaimHeads(pool_.get(), kHeads, &*persister_, &heads).ok());
  EXPECT_TRUE(CheckHeads(*pool_, heads, 1).ok());
  const PmSkipList list(pool_.get(), pool_->At<SkipListHeads>(heads), false);
  EXPECT_FALSE(list.First());
}

TEST_F(ListHeadsTest, WhatCannotBeHeadsIsDamage) {
  for (const PmPtr heads : {PmPtr(3, 0), PmPtr(0, uint64_t{1} << 40)}) {
    const Status s = CheckHeads(*pool_, heads, 1);
    EXPECT_TRUE(s.IsCorruption());
    EXPECT_TRUE(testing::Says(s, "repair")) << s.ToString();
  }
  PmPtr heads;
  ASSERT_TRUE(ClaimHeads(pool_.get(), kHeads, &*persister_, &heads).ok());
  EXPECT_TRUE(CheckHeads(*pool_, heads, pool_->part_count() + 1).IsCorruption()) << "lanes";
}

TEST_F(ListHeadsTest, ThoseOfAnotherListAreDamage) {
  PmPtr first;
  PmPtr second;
  ASSERT_TRUE(ClaimHeads(pool_.get(), kHeads, &*persister_, &first, 7).ok());
  ASSERT_TRUE(ClaimHeads(pool_.get(), kHeads, &*persister_, &second, 8).ok());
  EXPECT_TRUE(CheckHeadsOf(*pool_, first, 7).ok());
  EXPECT_TRUE(CheckHeadsOf(*pool_, second, 8).ok());
  const Status s = CheckHeadsOf(*pool_, second, 7);
  EXPECT_TRUE(s.IsCorruption());
  EXPECT_TRUE(testing::Says(s, "repair")) << s.ToString();
}

TEST_F(ListHeadsTest, StraysGoAndTheOwnedStay) {
  PmPtr first;
  PmPtr second;
  ASSERT_TRUE(ClaimHeads(pool_.get(), kHeads, &*persister_, &first).ok());
  ASSERT_TRUE(ClaimHeads(pool_.get(), kHeads, &*persister_, &second).ok());
  FreeStrayHeads(pool_.get(), kHeads, {&second, 1}, &*persister_);
  ASSERT_EQ(ChunksOfHeads(), 1u);
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    EXPECT_TRUE(chunk.kind != kHeads || pool_->ChunkStart(chunk) == second);
  });
  FreeStrayHeads(pool_.get(), kHeads, {}, &*persister_);
  EXPECT_EQ(ChunksOfHeads(), 0u);
}

}  // namespace
}  // namespace lamella
