#include "engine/pending_frees.h"

#include <gtest/gtest.h>

#include "pool/pool_test_base.h"

namespace lamella {
namespace {

class PendingFreesTest : public PoolTest {
 protected:
  PendingFreesTest() { Create(); }
  bool IsOwned(const ChunkRef& chunk) const {
    ChunkRef now;
    return pool_->Describe(chunk.part, chunk.index, &now) && now.epoch == chunk.epoch;
  }
};

TEST_F(PendingFreesTest, AChunkStaysUntilItsReadersAreGoneAndGoesOnce) {
  PendingFrees frees(pool_.get());
  const ChunkRef chunk = MustClaim();
  const ChunkRef other = MustClaim();
  {
    const EpochPin reader(pool_->readers());
    frees.Free(chunk);
    frees.Free(chunk);
    pool_->CollectDeferred();
    EXPECT_TRUE(IsOwned(chunk));
    EXPECT_TRUE(frees.Contains(chunk));
    EXPECT_FALSE(frees.Contains(other));
  }
  EXPECT_EQ(pool_->CollectDeferred(), 0u);
  EXPECT_FALSE(IsOwned(chunk));
  EXPECT_TRUE(IsOwned(other));
}

TEST_F(PendingFreesTest, AChunkThatWasClaimedAgainIsAnother) {
  PendingFrees frees(pool_.get());
  const ChunkRef chunk = MustClaim();
  frees.Free(chunk);
  pool_->CollectDeferred();
  ChunkRef again = MustClaim();
  while (ChunkKey(again) != ChunkKey(chunk)) again = MustClaim();
  EXPECT_FALSE(frees.Contains(again));
  frees.Free(again);
  pool_->CollectDeferred();
  EXPECT_FALSE(IsOwned(again));
}

// As one thread's look through the pool, which is held up while others free the chunk twice.
TEST_F(PendingFreesTest, AChunkOfAnEarlierLifeIsNotFreedAgain) {
  PendingFrees frees(pool_.get());
  const ChunkRef first = MustClaim();
  frees.Free(first);
  pool_->CollectDeferred();
  const ChunkRef second = MustClaim();
  ASSERT_EQ(ChunkKey(second), ChunkKey(first));
  frees.Free(second);
  pool_->CollectDeferred();
  frees.Free(first);
  pool_->CollectDeferred();
  const ChunkRef third = MustClaim();
  ASSERT_EQ(ChunkKey(third), ChunkKey(first));
  frees.Free(first);
  frees.Free(second);
  pool_->CollectDeferred();
  EXPECT_TRUE(IsOwned(third));
}

}  // namespace
}  // namespace lamella
