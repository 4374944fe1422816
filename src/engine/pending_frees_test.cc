#include "engine/pending_frees.h"

#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "log/log_test_base.h"

namespace lamella {
namespace {

class PendingFreesTest : public RecordsTest {
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

// A large write copies without the shard's lock, and closes the chunk before: as soon as that says
// so, a flush may free it, and another write there. TSan sees what closing it did before that.
TEST_F(PendingFreesTest, TheNextLifeOfALogsChunkComesAfterAllThatClosingItDid) {
  PendingFrees frees(pool_.get());
  const auto closing = NewAppender();
  const PmPtr last =
      Append(closing.get(), {.tag = MakeTag(1, RecordKind::kPut), .key = "key", .value = "value"});
  closing->Commit();
  const ChunkRef chunk = closing->open_chunk();
  std::thread other([&] {
    while (IsOwned(chunk)) {
      frees.FreeLogBefore({{chunk.ordinal, kChunkBytesMin}});  // it ends before, once closed
      pool_->CollectDeferred();
    }
    const auto next = NewAppender();
    Append(next.get(), {.tag = MakeTag(2, RecordKind::kPut),
                        .key = "key",
                        .value = std::string(kChunkBytesMin / 2, 'x')});
    next->Commit();
    EXPECT_EQ(next->open_chunk().index, pool_->ChunkIndex(last));
  });
  closing->CloseChunk();
  other.join();
}

}  // namespace
}  // namespace lamella
