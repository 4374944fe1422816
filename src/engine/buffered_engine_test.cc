#include "engine/buffered_engine.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/mutex.h"
#include "engine/buffered_engine_test_base.h"

namespace lamella {
namespace {

// A table of the MemTable makes older versions obsolete, and no reader may begin after that who
// does not see the newer.
TEST_F(BufferedEngineTest, WhatASealedMemTableHoldsIsPublished) {  // I2
  options_.hook = &fences_;
  Start();
  ASSERT_TRUE(Put("key", "old").ok());
  const std::string slow(2 * StopsAFence::kBytes, '2');
  std::thread first([&] { EXPECT_TRUE(Put("slow", slow).ok()); });
  fences_.AwaitStopped(1);
  std::thread second([&] { EXPECT_TRUE(Put("key", "new").ok()); });  // waits for number 2
  while (engine_->entries() < 2) std::this_thread::yield();
  EXPECT_EQ(engine_->PublishedSequence(), 1u);
  std::thread sealer([&] {
    const uint64_t last = engine_->Seal();
    EXPECT_EQ(last, 3u);
    EXPECT_EQ(engine_->PublishedSequence(), last) << "whoever of them runs next";
  });
  fences_.Release();
  for (std::thread* thread : {&first, &second, &sealer}) thread->join();
  EXPECT_EQ(Get("key"), "new");
  EXPECT_EQ(Get("slow"), slow);
}

// It has the tables that it began with, and with them what is replaced meanwhile. (A delete was
// told that the pool is full while a flush held what reclaiming had freed.)
TEST_F(BufferedEngineTest, WhatIsReclaimedIsFreeOnceTheFlushUnderWayHasEnded) {
  ASSERT_TRUE(Put("key", "value").ok());
  engine_->Seal();
  engine_->holds_flush_ = true;
  std::thread flusher([&] { EXPECT_TRUE(engine_->FlushOne().ok()); });
  engine_->held_.get_future().wait();
  engine_->Flushed(0);
  EXPECT_EQ(engine_->tables_sealed(), 0u);
  std::future<bool> reclaimed =
      std::async(std::launch::async, [&] { return engine_->AwaitFlushes(); });
  EXPECT_EQ(reclaimed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  engine_->released_.set_value();
  flusher.join();
  EXPECT_TRUE(reclaimed.get());
}

// It may be many jobs, as of a level 0 that is large.
TEST_F(BufferedEngineTest, WhatIsBeingReclaimedIsAwaitedAsLongAsJobsEnd) {
  ASSERT_TRUE(Put("key", "value").ok());
  auto reclaimed = std::async(std::launch::async, [&] { return engine_->AwaitFlushes(); });
  for (int i = 0; i < 7; i++) {
    ASSERT_EQ(reclaimed.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
    engine_->EndJob();
  }
  ASSERT_TRUE(engine_->FlushOne().ok());
  EXPECT_TRUE(reclaimed.get());
}

// Copying takes as long as the value is large, and its thread may lose the processor meanwhile:
// nobody waits for either.
TEST_F(BufferedEngineTest, NobodyWaitsForAnothersCopy) {
  options_.hook = &copies_;
  Start();
  const std::string large(3 * kChunkBytesMin, 'x');
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; i++) {  // as many as there are shards
    writers.emplace_back([&, i] {
      const std::string key = "large" + std::to_string(i);
      const std::string key_too = key + " too";
      const std::vector<WriteOperation> batch{{RecordKind::kPut, key, large},
                                              {RecordKind::kPut, key_too, large}};
      EXPECT_TRUE((i == 0 ? engine_->Write(batch) : Put(key, large)).ok());
    });
  }
  copies_.AwaitStopped(3);
  std::atomic<bool> done{false};
  std::thread others([&] {
    for (int i = 0; i < 200; i++) {
      const std::string key = "small" + std::to_string(i % 50);
      EXPECT_TRUE(Put(key, std::to_string(i)).ok());
      EXPECT_EQ(Get(key), std::to_string(i));  // published
      if (i % 50 == 25) engine_->Seal();
    }
    const std::vector<WriteOperation> batch{{RecordKind::kPut, "a", "1"},
                                            {RecordKind::kDelete, "small0", ""}};
    EXPECT_TRUE(engine_->Write(batch).ok());
    EXPECT_EQ(engine_->Seal(), 202u);
    done.store(true);
  });
  for (int ms = 0; ms < 20'000 && !done.load(); ms++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(done.load()) << "they wait for a copy";
  EXPECT_EQ(Get("large1"), "(not found)");
  copies_.Release();
  others.join();
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(engine_->PublishedSequence(), 206u);
  EXPECT_EQ(Get("small0"), "(not found)");
  EXPECT_EQ(Get("small49"), "199");
  for (const char* key : {"large0", "large0 too", "large1", "large2"})
    EXPECT_TRUE(Get(key) == large) << key;
  // What was being copied when the MemTable was sealed is after the seal, whole.
  const LogContents contents = engine_->UnsealedLog();
  ASSERT_EQ(contents.entries.size(), 4u);
  EXPECT_EQ(contents.sequence_last, 206u);
  EXPECT_EQ(engine_->Seal(), 206u);
  EXPECT_TRUE(engine_->UnsealedLog().entries.empty());
}

TEST_F(BufferedEngineTest, AMemTableThatNobodyCanSwitchStopsAtTwiceItsSize) {  // I7
  constexpr uint64_t kRecords = 12000;
  engine_->holds_ = true;
  std::thread background([this] { engine_->SetReadDebt(0); });
  engine_->held_.get_future().wait();
  std::atomic<uint64_t> written{0};
  std::thread writer([&] {
    while (written < kRecords) {
      EXPECT_TRUE(Put(Concat("key", 1000000 + written.load()), "value").ok());
      written++;
    }
  });
  while (written == 0) std::this_thread::yield();
  uint64_t before = 0;
  do {  // until it stands still
    before = written;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  } while (written != before && written < kRecords);
  EXPECT_LT(before, kRecords);
  engine_->released_.set_value();
  background.join();
  writer.join();
  EXPECT_EQ(written, kRecords);
  EXPECT_GT(engine_->tables_sealed(), 2u);
  // its memory comes in pieces of about its size
  EXPECT_LE(engine_->largest_sealed_bytes(), 4 * MemTableEngine::kMemTableBytes);
}

TEST_F(BufferedEngineTest, KeysOfOneHeadAreLearnedFromAndToldApart) {
  const auto key_of = [](uint64_t i) { return std::string(30, 'k') + std::to_string(100'000 + i); };
  uint64_t keys = 0;
  while (engine_->tables_sealed() == 0) ASSERT_TRUE(Put(key_of(keys++ * 7919 % 90'000), "v").ok());
  EXPECT_LT(keys, 1500u) << "of a table of about 50 leaves: early";
  EXPECT_EQ(engine_->active_tree().prefixes(), nullptr);
  ASSERT_TRUE(engine_->FlushOne().ok());
  ASSERT_NE(engine_->prefixes(), nullptr);
  ASSERT_TRUE(Put(key_of(keys++ * 7919 % 90'000), "v").ok());
  engine_->Seal();
  EXPECT_EQ(engine_->active_tree().prefixes(), engine_->prefixes());
  while (engine_->tables_sealed() < 3) ASSERT_TRUE(Put(key_of(keys++ * 7919 % 90'000), "v").ok());
  for (uint64_t i = 0; i < keys; i++) ASSERT_EQ(Get(key_of(i * 7919 % 90'000)), "v") << i;
  EXPECT_EQ(Get(key_of(90'001)), "(not found)");
}

TEST_F(BufferedEngineTest, KeysOfManyHeadsAreNotLearnedFrom) {
  for (uint64_t i = 0; engine_->tables_sealed() == 0; i++)
    ASSERT_TRUE(Put(std::to_string(i * 7919 % 90'000) + std::string(30, 'k'), "v").ok());
  ASSERT_TRUE(engine_->FlushOne().ok());
  EXPECT_EQ(engine_->prefixes(), nullptr);
}

// Compaction that has no room ends no wait for it: the writer is to come to the pool's end.
TEST_F(BufferedEngineTest, AWriterDoesNotWaitForACompactionThatHasNoRoom) {
  engine_->SetReadDebt(2);
  ASSERT_EQ(engine_->WriteDelayNs(), kStopWriting);
  const std::future<void> writer = std::async(std::launch::async, [&] { engine_->AwaitWriting(); });
  EXPECT_EQ(writer.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  engine_->SetStarved(true);
  writer.wait();
  EXPECT_NE(engine_->WriteDelayNs(), kStopWriting);
  engine_->SetReadDebt(3);
  EXPECT_NE(engine_->WriteDelayNs(), kStopWriting);
  EXPECT_GT(engine_->WriteDelayNs(), 0u);
  engine_->SetStarved(false);
  EXPECT_EQ(engine_->WriteDelayNs(), kStopWriting);
  for (uint64_t i = 0; engine_->tables_sealed() < 16; i++) {  // memory has its end all the same
    engine_->SetReadDebt(0);
    ASSERT_TRUE(Put(std::to_string(i), "v").ok());
  }
  engine_->SetStarved(true);
  EXPECT_EQ(engine_->WriteDelayNs(), kStopWriting);
}

// Each change that lets a stopped writer go on tells it so, and no other ends the wait.
TEST_F(BufferedEngineTest, AStoppedWriterIsToldOfEachChange) {
  constexpr std::chrono::milliseconds kWhile{20};
  const auto is_stopped = [&] { return engine_->WriteDelayNs() == kStopWriting; };
  const auto wait = [&] {
    return std::async(std::launch::async, [&] { engine_->AwaitWriting(); });
  };
  const auto expect_waiting = [&](const std::future<void>& writer) {
    EXPECT_EQ(writer.wait_for(kWhile), std::future_status::timeout);
  };
  for (uint64_t i = 0; !is_stopped(); i++) ASSERT_TRUE(Put(std::to_string(i), "v").ok());
  {
    SCOPED_TRACE("flushes, the first of them not enough");
    const std::future<void> writer = wait();
    engine_->Flushed(1 << 20);
    expect_waiting(writer);
    engine_->Flushed(0);
    writer.wait();
    EXPECT_FALSE(is_stopped());
  }
  {
    SCOPED_TRACE("compactions");
    engine_->Compacted(1 << 20);
    ASSERT_TRUE(is_stopped());
    const std::future<void> writer = wait();
    engine_->Compacted(1 << 19);
    expect_waiting(writer);
    engine_->Compacted(0);
    writer.wait();
    EXPECT_FALSE(is_stopped());
  }
  {
    SCOPED_TRACE("an error");
    engine_->Compacted(1 << 20);
    const std::future<void> writer = wait();
    expect_waiting(writer);
    engine_->SetBackgroundError(Status::IOError("a test's"));
    writer.wait();
    EXPECT_TRUE(is_stopped());
  }
  {
    SCOPED_TRACE("a resume, and what is done after it");
    engine_->ClearBackgroundError();
    const std::future<void> writer = wait();
    expect_waiting(writer);
    engine_->Compacted(0);
    writer.wait();
  }
  wait().wait();  // nothing to wait for
}

// Beside errors of the background and those who resume, in turns and all at once.
TEST_F(BufferedEngineTest, AWriteBesideAResumeIsDoneOrRefused) {  // ErrorLatch I1
  constexpr uint64_t kOfEach = 20'000;
  constexpr uint64_t kTriesMax = 20'000'000;
  std::atomic<bool> done{false};
  const Status error = Status::IOError("a test's");
  std::thread background([&] {
    while (!done.load()) engine_->SetBackgroundError(error);
  });
  std::thread resumes([&] {
    while (!done.load()) engine_->ClearBackgroundError();
  });
  uint64_t written = 0;
  uint64_t refused = 0;
  uint64_t neither = 0;
  for (uint64_t i = 0; i < kTriesMax && std::min(written, refused) < kOfEach; i++) {
    const Status s = Put("key", std::to_string(i));
    const bool is_there = engine_->PublishedSequence() == written + 1;
    if (s.ok() && is_there) {
      written++;
    } else if (s.IsReadOnly() && !is_there) {
      refused++;
    } else {
      neither++;
    }
  }
  done.store(true);
  background.join();
  resumes.join();
  EXPECT_EQ(neither, 0u) << "of " << written << " written and " << refused << " refused";
  EXPECT_GE(std::min(written, refused), kOfEach);
  // whichever of them came last
  const Status s = Put("key", "last");
  EXPECT_EQ(s.ok(), engine_->PublishedSequence() == written + 1) << s.ToString();
  engine_->ClearBackgroundError();
  EXPECT_TRUE(Put("key", "resumed").ok());
  EXPECT_EQ(Get("key"), "resumed");
}

TEST_F(BufferedEngineTest, WaitingForRoomIsAStall) {
  options_.pool_bytes_max = 24 * kChunkBytesMin;
  Start();
  const std::string value(1000, 'x');
  Status s;
  while (s.ok()) s = Put("key", value);
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  EXPECT_EQ(engine_->reclaims_, 3);
  Stats stats;
  engine_->AddStats(&stats);
  EXPECT_EQ(stats.stall_count, 3u);
  EXPECT_GE(stats.stall_ns, 9'000'000u);
  EXPECT_GE(stats.stall_ns_max, 3'000'000u);
  EXPECT_LT(stats.stall_ns_max, stats.stall_ns);
}

}  // namespace
}  // namespace lamella
