// When a BufferedEngine lets writes in: I6.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/buffered_engine_test_base.h"
#include "testing/affinity.h"
#include "testing/resource_limit.h"

namespace lamella {
namespace {

using BufferedAdmissionTest = BufferedEngineTest;

// A flush copies what writers were let in with; compaction copies no more than is left beside that,
// and what it was promised writers leave it.
TEST_F(BufferedAdmissionTest, FlushesAndCompactionHaveRoomOfTheirOwn) {  // I6
  options_.pool_bytes_max = 100 * kChunkBytesMin;
  Start();
  const std::string value(1000, 'x');
  uint64_t written = 0;
  for (; written < 20 * kChunkBytesMin; written += value.size())
    ASSERT_TRUE(Put("key", value).ok());
  const uint64_t room =
      (pool_->chunks_available(0) - pool_->chunks_kept_for_index(0)) * kChunkBytesMin;
  {
    MemTableEngine::CompactionRoom compaction(engine_.get());
    EXPECT_FALSE(compaction.Reserve(room - written));  // copies take more than records do
    EXPECT_TRUE(compaction.Reserve(room - 2 * written));
    EXPECT_FALSE(compaction.Reserve(written));
    Status s;
    uint64_t more = 0;
    for (; s.ok(); more += value.size()) s = Put("key", value);
    EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
    EXPECT_LT(more, written);
  }
  EXPECT_TRUE(Put("key", value).ok());
}

// Of a record longer than a chunk the copy needs chunks side by side, and so did the record: of the
// rows that are left one is not enough for both. Nobody else is held up by that.
TEST_F(BufferedAdmissionTest, ARecordIsLetInOnlyWhereItsCopyFindsItsRow) {  // I6
  options_.pool_bytes_max = 100 * kChunkBytesMin;
  Start();
  Persister persister(pool_->gate(), WriteCause::kFlush);
  const std::vector<ChunkRef> chunks = ClaimAll(&persister);
  ASSERT_GT(chunks.size(), 80u);
  const std::string large(kChunkBytesMin, 'x');
  // Many that are free, and rows of two among them.
  for (size_t i = 0; i < 60; i += 2) pool_->Free(chunks[i], &persister);
  for (size_t i = 1; i < 3; i += 2) pool_->Free(chunks[i], &persister);
  EXPECT_TRUE(Put("key", "unflushed").ok());
  EXPECT_TRUE(Put("key", large).IsNoSpace());
  EXPECT_TRUE(Put("key", "small").ok());
  for (size_t i = 3; i < 60; i += 2) pool_->Free(chunks[i], &persister);
  EXPECT_TRUE(Put("key", large).ok());
  EXPECT_TRUE(Put("key", "small").ok());
}

// Chunks that are free are none of those rows: the pool grows for them, once it may again,
// and before a record is let in.
TEST_F(BufferedAdmissionTest, RowsForCopiesAreMadeBeforeARecordIsLetIn) {  // I6
  const std::string large(kChunkBytesMin, 'x');
  options_.pool_bytes_max = 400 * kChunkBytesMin;
  for (const bool was_full : {true, false}) {
    Start();
    EXPECT_TRUE(Put("key", "unflushed").ok());
    Persister persister(pool_->gate(), WriteCause::kFlush);
    std::vector<ChunkRef> chunks;
    ChunkRef chunk;
    while (chunks.size() < 100 || pool_->free_chunks() > 0) {
      ASSERT_TRUE(pool_
                      ->Claim(0, kIndexRegion, 0, 1000 + chunks.size(), 1, Claimant::kIndex,
                              &persister, &chunk)
                      .ok());
      chunks.push_back(chunk);
    }
    {
      const testing::ResourceLimit full(RLIMIT_FSIZE, pool_->pool_bytes());
      if (was_full) {
        EXPECT_TRUE(pool_->Claim(0, kIndexRegion, 0, 1, 1, Claimant::kIndex, &persister, &chunk)
                        .IsNoSpace());
      }
      for (size_t i = 0; i < 80; i += 2) pool_->Free(chunks[i], &persister);
      pool_->Free(chunks[1], &persister);  // a row for the record, and none for its copy
      EXPECT_TRUE(Put("key", large).IsNoSpace());
      EXPECT_TRUE(Put("key", "small").ok()) << "nobody needs rows";
    }
    EXPECT_TRUE(Put("key", large).ok());
  }
}

// Two large writes at once: what the first one's log has yet to claim is not there for the second.
TEST_F(BufferedAdmissionTest, WhatTheLogHasYetToClaimIsPromisedToNobody) {  // I6
  options_.hook = &claims_;
  options_.pool_bytes_max = 150 * kChunkBytesMin;
  Start();
  constexpr uint64_t kRecords = 2500;
  ASSERT_TRUE(pool_->GrowUntilFree(1, pool_->chunks_available(0)).ok());  // fences of growing
  const std::string value(1000, 'x');
  const auto write = [&] {  // 40 chunks, and 43 of copies
    const std::vector<WriteOperation> batch(kRecords, {RecordKind::kPut, "key", value});
    return engine_->Write(batch);
  };
  claims_.Arm();
  std::future<Status> first = std::async(std::launch::async, write);
  claims_.AwaitStopped(1);  // let in, and claiming
  std::future<Status> second = std::async(std::launch::async, write);
  // It is let in within that time, or refused, and asks the first one's shard, for which it waits.
  for (int ms = 0; ms < 200 && engine_->PublishedSequence() < kRecords; ms++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  claims_.Release();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().IsNoSpace());
  MemTableEngine::CompactionRoom room(engine_.get());
  EXPECT_TRUE(room.Reserve(0)) << "a flush will not find what it was promised";
}

// Beside a flush that claims what was kept for it, and gives it back.
TEST_F(BufferedAdmissionTest, TheRowThatAFlushNeedsIsKeptWhileItClaims) {  // I6
  constexpr int kAsked = 400'000;
  options_.pool_bytes_max = 100 * kChunkBytesMin;
  Start();
  ASSERT_TRUE(Put("key", std::string(kChunkBytesMin, 'x')).ok());
  engine_->Seal();
  Persister persister(pool_->gate(), WriteCause::kFlush);
  const std::vector<ChunkRef> chunks = ClaimAll(&persister);
  for (size_t i = 0; i < 60; i += 2) pool_->Free(chunks[i], &persister);  // none beside another
  std::atomic<bool> done{false};
  std::thread flush([&] {
    const auto sealed = engine_->oldest_sealed();
    const auto bytes = static_cast<int64_t>(sealed->copy_bytes());
    while (!done.load()) {
      MemTableEngine::FlushRoom room(engine_.get(), *sealed);
      room.Claimed(bytes);
      room.Claimed(-bytes);
      room.Claimed(bytes);
    }
  });
  int refused = 0;
  for (int i = 0; i < kAsked; i++) {
    MemTableEngine::CompactionRoom room(engine_.get());
    refused += room.Reserve(1) ? 0 : 1;
  }
  done.store(true);
  flush.join();
  EXPECT_EQ(refused, kAsked) << "there are no two chunks side by side";
}

// Once a chunk is claimed for a copy it is not free, and it is not kept for that copy, too.
TEST_F(BufferedAdmissionTest, WhatAJobHasClaimedIsNotKeptForItTwice) {  // I6
  options_.pool_bytes_max = 100 * kChunkBytesMin;
  Start();
  Persister persister(pool_->gate(), WriteCause::kFlush);
  constexpr auto kChunk = static_cast<int64_t>(kChunkBytesMin);
  uint64_t ordinal = 1000;
  const auto claim = [&](uint64_t chunks) {
    ChunkRef chunk;
    for (uint64_t i = 0; i < chunks; i++) {
      const Status s =
          pool_->Claim(0, kIndexRegion, 0, ordinal++, 1, Claimant::kReclaim, &persister, &chunk);
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
  };
  const auto left = [&] {  // of all that is free what is kept for nothing, in chunks
    for (uint64_t chunks = 100; chunks > 0; chunks--) {
      MemTableEngine::CompactionRoom room(engine_.get());
      if (room.Reserve(chunks * kChunkBytesMin)) return chunks;
    }
    return uint64_t{0};
  };
  const uint64_t empty = left();
  const uint64_t available = pool_->chunks_available(0);
  {
    MemTableEngine::CompactionRoom room(engine_.get());
    ASSERT_TRUE(room.Reserve(10 * kChunkBytesMin));
    EXPECT_EQ(left(), empty - 10);
    claim(4);
    room.Claimed(4 * kChunk);
    EXPECT_EQ(left(), empty - 10);
    claim(8);  // more than was kept
    room.Claimed(8 * kChunk);
    EXPECT_EQ(left(), empty - 12);
    room.Claimed(-9 * kChunk);  // which are not free yet
    EXPECT_EQ(left(), empty - 12 - 7);
    room.Claimed(9 * kChunk);
  }
  EXPECT_EQ(left(), empty - 12);
  testing::RunOn(
      static_cast<uint32_t>(sched_getcpu()));  // several shards fill a MemTable's log sooner
  const std::string value(1000, 'x');
  for (uint64_t written = 0; written < 10 * kChunkBytesMin; written += value.size())
    ASSERT_TRUE(Put("key", value).ok());
  testing::RunAnywhere();
  engine_->Seal();
  const auto sealed = engine_->oldest_sealed();
  ASSERT_GT(sealed->copy_bytes(), 2 * kChunkBytesMin);
  const uint64_t before = left();
  {
    MemTableEngine::FlushRoom room(engine_.get(), *sealed);
    claim(2);
    room.Claimed(2 * kChunk);
    EXPECT_EQ(left(), before);
  }
  EXPECT_EQ(left(), before - 2) << "a flush that failed copies all of it again";
  {
    MemTableEngine::FlushRoom room(engine_.get(), *sealed);
    claim(4);  // more than was kept
    room.Claimed(4 * kChunk);
    engine_->Flushed(0);
  }
  while (engine_->tables_sealed() > 0) engine_->Flushed(0);
  EXPECT_EQ(left(), empty - (available - pool_->chunks_available(0))) << "nothing is kept";
}

}  // namespace
}  // namespace lamella
