// A pool that gives space back: when, how much, what of a crash in between, and that epochs never
// repeat.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "pool/pool_part.h"
#include "pool/pool_test_base.h"
#include "testing/fault_file_system.h"
#include "testing/simulator.h"

namespace lamella {
namespace {

constexpr uint32_t kFirstGroup = ChunksPerTableChunk(16);

class PoolShrink : public PoolTest {
 protected:
  uint64_t FileBytes() const {
    struct stat file{};
    EXPECT_EQ(::stat(path().c_str(), &file), 0);
    return static_cast<uint64_t>(file.st_size);
  }
  uint32_t FileChunks() const { return static_cast<uint32_t>(FileBytes() / kChunkBytesMin); }

  std::vector<ChunkRef> Fill(uint32_t chunks) {
    std::vector<ChunkRef> claimed;
    while (claimed.size() < chunks) claimed.push_back(MustClaim());
    return claimed;
  }
  void FreeAll(const std::vector<ChunkRef>& chunks) {
    for (const ChunkRef& chunk : chunks) pool_->Free(chunk, &*persister_);
  }
  void MustGiveBack() {
    ASSERT_TRUE(pool_->CanGiveBack());
    const Status s = pool_->GiveBack();
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_FALSE(pool_->CanGiveBack());
  }
  void ExpectSound() {
    std::vector<std::string> problems;
    pool_->Check(&problems);
    EXPECT_EQ(problems, std::vector<std::string>{});
    EXPECT_EQ(pool_->pool_bytes(), FileBytes());
    EXPECT_EQ(pool_->free_chunks() + pool_->used_bytes() / pool_->chunk_bytes(),
              ClaimableChunks(16, pool_->chunk_count(0)));
  }
  // Every chunk is claimed at an epoch that it never had.
  void ExpectFreshEpochs(const std::vector<ChunkRef>& claimed) {
    for (const ChunkRef& chunk : claimed) {
      uint32_t& highest = epochs_[chunk.index];
      if (chunk.epoch <= highest) repeated_++;
      highest = std::max(highest, chunk.epoch);
    }
  }

  std::map<uint32_t, uint32_t> epochs_;  // the highest that a chunk had
  int repeated_ = 0;
};

TEST_F(PoolShrink, AnEmptiedPoolIsShortWhileOpenAndAfter) {
  for (uint32_t chunks : {100u, 1000u, 3000u}) {
    Create();
    ASSERT_TRUE(pool_->MarkOpen().ok());
    const std::vector<ChunkRef> kept = Fill(5);
    const std::vector<ChunkRef> claimed = Fill(chunks);
    EXPECT_FALSE(pool_->CanGiveBack());
    FreeAll(claimed);
    MustGiveBack();
    ExpectSound();
    EXPECT_LT(FileChunks(), 32u);
    for (int round = 0; round < 2; round++) {
      FreeAll(Fill(chunks));  // it can be filled again
      MustGiveBack();
      ExpectSound();
    }
    Fill(chunks);
    ASSERT_TRUE(pool_->MarkClean().ok());
    Open();
    ExpectSound();
    EXPECT_EQ(Owned().size(), 5 + chunks);
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

TEST_F(PoolShrink, ACloseGivesBackAllButWhatTheNextSessionNeeds) {
  Create();
  Fill(40);
  FreeAll(Fill(25));
  const uint32_t before = FileChunks();
  EXPECT_FALSE(pool_->CanGiveBack()) << "so little is for a close alone";
  ASSERT_TRUE(pool_->MarkClean().ok());
  ExpectSound();
  const uint32_t closed = FileChunks();
  EXPECT_LT(closed, before);
  Open();
  ExpectSound();
  EXPECT_EQ(Owned().size(), 40u);
  Fill(1);
  ASSERT_TRUE(pool_->Provision().ok());
  const uint32_t grown = FileChunks();
  ASSERT_TRUE(pool_->MarkClean().ok());
  EXPECT_EQ(FileChunks(), grown) << "one step of growth does not go back and forth";
}

TEST_F(PoolShrink, ACloseLeavesWhatItIsTold) {
  uint32_t free_before = 0;
  for (const uint32_t left : {0u, 20u, 45u, 1000u}) {
    Create();
    Fill(40);
    FreeAll(Fill(60));
    const uint64_t most = pool_->free_chunks();
    pool_->LeaveAtClose(left);
    ASSERT_TRUE(pool_->MarkClean().ok());
    ExpectSound();
    const uint64_t free = pool_->free_chunks();
    EXPECT_GE(free, std::min<uint64_t>(left, most));
    EXPECT_GE(free, free_before) << left;
    EXPECT_TRUE(left != 0 || free < 20) << "of itself it leaves " << free;
    EXPECT_TRUE(left != 1000 || free == most) << free;
    free_before = static_cast<uint32_t>(free);
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

TEST_F(PoolShrink, WhatWasPromisedIsNotGivenBack) {
  std::atomic<uint64_t> promised = 0;
  for (const uint64_t chunks : {0, 30, 100, 1'000'000}) {
    Create();
    Fill(20);
    FreeAll(Fill(200));
    const uint64_t before = pool_->free_chunks();
    promised.store(chunks * pool_->chunk_bytes());
    pool_->LeavePromised(&promised);
    ASSERT_TRUE(pool_->GiveBack().ok());
    const uint64_t left = pool_->free_chunks();
    EXPECT_GE(left, std::min(chunks, before));
    EXPECT_EQ(left < 25, chunks == 0) << left;
    EXPECT_EQ(left < before, chunks <= 100) << left << " of " << before;
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

TEST_F(PoolShrink, WhatIsLeftIsEnoughNotToGrowAtOnce) {
  for (uint32_t used : {0u, 1u, 7u, 30u, 60u, 130u, 500u, 1100u, 2500u}) {
    Create();
    Fill(used);
    FreeAll(Fill(std::max(64u, used * 3 / 2)));
    ASSERT_TRUE(pool_->Provision().ok());
    MustGiveBack();
    const uint32_t chunks = FileChunks();
    ASSERT_TRUE(pool_->Provision().ok());
    EXPECT_EQ(FileChunks(), chunks) << used;
    EXPECT_LE(ClaimableChunks(16, chunks), used * 8 / 5 + 32) << used;  // tables come on top
    EXPECT_FALSE(pool_->CanGiveBack()) << used;
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

TEST_F(PoolShrink, OnlyTheEndIsGivenBack) {
  Create();
  const std::vector<ChunkRef> claimed = Fill(300);
  const auto highest =
      *std::max_element(claimed.begin(), claimed.end(),
                        [](const auto& a, const auto& b) { return a.index < b.index; });
  for (const ChunkRef& chunk : claimed) {
    if (chunk.index != highest.index) pool_->Free(chunk, &*persister_);
  }
  const uint32_t chunks = FileChunks();
  EXPECT_FALSE(pool_->CanGiveBack());
  EXPECT_FALSE(pool_->IsInTheWay(highest)) << "nobody asked";
  EXPECT_TRUE(pool_->IsHeldUp());
  EXPECT_TRUE(pool_->IsInTheWay(highest));
  EXPECT_FALSE(pool_->IsInTheWay(claimed[0]));
  ASSERT_TRUE(pool_->GiveBack().ok());
  EXPECT_EQ(FileChunks(), chunks);
  pool_->Free(highest, &*persister_);
  MustGiveBack();
  ExpectSound();
  EXPECT_EQ(FileChunks(), kInitialChunks) << "what a new pool has";
}

// A group goes with its table, or the file ends within it; never within a table.
TEST_F(PoolShrink, AGroupGoesWithItsTable) {
  Create();
  std::vector<ChunkRef> claimed = Fill(kFirstGroup + 700);
  for (uint32_t keep : {kFirstGroup + 20, kFirstGroup - 2, kFirstGroup - 40}) {
    while (claimed.size() > keep) {
      pool_->Free(claimed.back(), &*persister_);
      claimed.pop_back();
    }
    ASSERT_TRUE(pool_->MarkClean().ok());
    ExpectSound();
    EXPECT_EQ(UsableChunks(16, FileChunks()), FileChunks());
    Open();
    ExpectSound();
    EXPECT_EQ(Owned().size(), keep);
  }
}

// I3, I6. Each life of the pool passes the first group, so that tables are given back with all that
// they knew.
TEST_F(PoolShrink, EpochsNeverRepeat) {
  for (const bool control : {false, true}) {
    epochs_.clear();
    repeated_ = 0;
    Create();
    for (int life = 0; life < 3; life++) {
      // later lives are shorter: their epochs would be lower ones
      for (int claims = 0; claims < 3 - life; claims++) {
        const std::vector<ChunkRef> claimed = Fill(kFirstGroup + 100);
        ExpectFreshEpochs(claimed);
        FreeAll(claimed);
      }
      uint32_t floor = 0;
      Close();
      Edit(0, [&](Superblock* s) { floor = s->epoch_floor; });
      Open();
      MustGiveBack();
      if (life == 1) Open();
      if (!control) continue;
      Close();
      Edit(0, [&](Superblock* s) { s->epoch_floor = floor; });
      Open();
    }
    if (control) {
      EXPECT_GT(repeated_, 0) << "the floor is not what keeps epochs apart";
    } else {
      EXPECT_EQ(repeated_, 0);
    }
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

// The same with the power cut off in between, on pages: then the file may be as long as it was, and
// hold what it held.
TEST_F(PoolShrink, EpochsNeverRepeatAfterPowerCuts) {
  for (uint64_t seed = 0; seed < 3; seed++) {
    Random random(seed);
    testing::FaultFileSystem files(dir_.path(), true);
    options_.os = &files;
    options_.medium = MediumKind::kPage;
    epochs_.clear();
    Create();
    ASSERT_TRUE(pool_->MarkOpen().ok());
    for (int life = 0; life < 3; life++) {
      const std::vector<ChunkRef> claimed = Fill(kFirstGroup + 40);
      ExpectFreshEpochs(claimed);
      FreeAll(claimed);
      MustGiveBack();
      const std::vector<ChunkRef> again = Fill(random.OneIn(2) ? 20 : kFirstGroup + 20);
      ExpectFreshEpochs(again);
      if (random.OneIn(2)) {
        ASSERT_TRUE(pool_->Sync().ok());
      }
      Close();
      files.PowerCut(&random);
      Open();
      EXPECT_TRUE(pool_->state().pages_lost);
      std::vector<ChunkRef> left;
      pool_->ForEachChunk([&](const ChunkRef& chunk) { left.push_back(chunk); });
      FreeAll(left);
    }
    EXPECT_EQ(repeated_, 0) << seed;
    Close();
    options_.os = nullptr;
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

// Region I6.
TEST_F(PoolShrink, WhoStillLooksThereReadsNothing) {
  Create();
  const std::vector<ChunkRef> claimed = Fill(kFirstGroup + 50);
  const ChunkRef last = claimed.back();
  const char* const bytes = pool_->ChunkAddress(last);
  const ChunkDescriptor* const descriptor = pool_->Descriptor(0, last.index);
  persister_->Copy(pool_->ChunkAddress(last), "bytes", 5);
  FreeAll(claimed);
  MustGiveBack();
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(descriptor->state.load(), 0u);
  ChunkRef found;
  EXPECT_FALSE(pool_->Describe(0, last.index, &found));
  EXPECT_FALSE(pool_->Contains(pool_->ChunkStart(last), 1));
  ChunkRef again;
  while (again.index != last.index) again = MustClaim();
  EXPECT_EQ(bytes[0], 0) << "what is grown over is zeros";
  persister_->Copy(pool_->ChunkAddress(last), "bytes", 5);
  EXPECT_EQ(bytes[0], 'b');
}

TEST_F(PoolShrink, AFileThatCannotBeShortenedStaysAsItIs) {
  testing::FaultFileSystem faults(dir_.path(), false);
  options_.os = &faults;
  Create();
  std::vector<ChunkRef> claimed = Fill(200);
  const uint64_t bytes = FileBytes();
  for (const OsCall call : {OsCall::kTruncate, OsCall::kMap}) {
    for (const bool persistent : {false, true}) {
      SCOPED_TRACE(testing::OsCallName(call));
      FreeAll(claimed);
      ASSERT_TRUE(pool_->CanGiveBack());
      faults.Arm({.nth = 1, .persistent = persistent, .error = EIO, .only = call});
      EXPECT_TRUE(pool_->GiveBack().ok());
      faults.Disarm();
      EXPECT_GE(faults.seen(call), 1u);
      EXPECT_FALSE(pool_->CanGiveBack()) << "it is not tried again and again";
      EXPECT_EQ(FileBytes(), bytes);
      std::vector<std::string> problems;
      pool_->Check(&problems);
      EXPECT_EQ(problems, std::vector<std::string>{});
      claimed = Fill(200);
      EXPECT_EQ(FileBytes(), bytes);
      Open();  // it may be tried again
      EXPECT_EQ(Owned().size(), 200u);
    }
  }
  FreeAll(claimed);
  MustGiveBack();
  ExpectSound();
}

TEST_F(PoolShrink, AFailedSyncKeepsTheFile) {
  testing::FaultFileSystem faults(dir_.path(), false);
  options_.os = &faults;
  options_.medium = MediumKind::kPage;
  for (uint64_t nth = 1; nth <= 3; nth++) {
    Create();
    FreeAll(Fill(200));
    const uint64_t bytes = FileBytes();
    const uint64_t free = pool_->free_chunks();
    faults.Arm({.nth = nth, .error = EIO, .only = OsCall::kSyncMap});
    EXPECT_TRUE(pool_->GiveBack().IsIOError()) << nth;
    faults.Disarm();
    EXPECT_EQ(FileBytes(), bytes);
    EXPECT_EQ(pool_->free_chunks(), free);
    Open();
    ExpectSound();
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

// The crash table of GiveBackEnd: what owns chunks still does, all others can be claimed, and none
// at an epoch that it had.
TEST_F(PoolShrink, ACutAnywhereLeavesThePart) {
  using testing::CrashMode;
  for (const CrashMode mode : {CrashMode::kAdr, CrashMode::kStrict, CrashMode::kEadr,
                               CrashMode::kPage, CrashMode::kKill}) {
    SCOPED_TRACE(testing::CrashModeName(mode));
    epochs_.clear();
    options_.medium = mode == CrashMode::kPage   ? MediumKind::kPage
                      : mode == CrashMode::kEadr ? MediumKind::kByte
                                                 : MediumKind::kCacheLine;
    PoolOptions replica = options_;
    replica.hook = nullptr;
    replica.part_paths = {dir_.Sub("replica.0")};
    std::vector<std::string> expected;
    std::set<uint32_t> sizes;
    const auto look = [&]() -> std::string {
      std::unique_ptr<Pool> pool;
      Status s = Pool::Open(replica, &pool);
      if (s.ok()) s = pool->Mend();
      if (!s.ok()) return s.ToString();
      sizes.insert(pool->chunk_count(0));
      std::vector<std::string> owned;
      uint32_t chunks = 0;
      pool->ForEachChunk([&](const ChunkRef& c) {
        owned.push_back(std::to_string(c.index));
        chunks += c.run_chunks;
      });
      std::ranges::sort(owned);
      if (!std::ranges::includes(owned, expected)) return "a chunk lost its owner";
      if (pool->free_chunks() + chunks != ClaimableChunks(16, pool->chunk_count(0)))
        return "a chunk is nobody's";
      Persister persister(pool->gate(), WriteCause::kLog);
      for (int i = 0; i < 70; i++) {
        ChunkRef chunk;
        s = pool->Claim(0, ChunkKind::kLog, 1, 1, 1, Claimant::kReclaim, &persister, &chunk);
        if (!s.ok()) return s.ToString();
        const auto had = epochs_.find(chunk.index);
        if (had != epochs_.end() && chunk.epoch <= had->second) return "an epoch repeats";
      }
      return "";
    };
    testing::Simulator simulator({.mode = mode,
                                  .exhaustive_max = 16,
                                  .singles_max = 4,
                                  .pairs_max = 2,
                                  .random_max = 2,
                                  .cut_share = 2},
                                 replica.part_paths, look);
    options_.hook = &simulator;
    Create();
    ASSERT_TRUE(pool_->MarkOpen().ok());
    const std::vector<ChunkRef> kept = Fill(3);
    ExpectFreshEpochs(kept);
    for (const ChunkRef& chunk : kept) expected.push_back(std::to_string(chunk.index));
    std::ranges::sort(expected);
    simulator.Start();
    simulator.Stop();
    for (int life = 0; life < 2; life++) {
      const std::vector<ChunkRef> claimed = Fill(60);
      ExpectFreshEpochs(claimed);
      FreeAll(claimed);
      ASSERT_TRUE(pool_->Sync().ok());
      simulator.Resume();
      MustGiveBack();
      for (int i = 0; i < 2; i++) ExpectFreshEpochs({MustClaim(), MustClaim(30)});
      simulator.Cut();
      simulator.Stop();
      std::vector<ChunkRef> left;
      pool_->ForEachChunk([&](const ChunkRef& c) {
        if (std::ranges::find(expected, std::to_string(c.index)) == expected.end())
          left.push_back(c);
      });
      FreeAll(left);
    }
    simulator.Resume();
    ASSERT_TRUE(pool_->MarkClean().ok());
    simulator.Cut();
    EXPECT_EQ(simulator.failure(), "");
    EXPECT_GT(simulator.states(), 10u);
    EXPECT_GE(sizes.size(), 2u);
    EXPECT_TRUE(sizes.contains(FileChunks())) << "no cut after the file was shortened";
    Close();
    options_.hook = nullptr;
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

// Growing and giving back move chunks from what may be added to what is free, and back.
TEST_F(PoolShrink, WhatIsAvailableIsTheSameAllTheTime) {
  constexpr uint64_t kChunks = 512;
  options_.pool_bytes_max = kChunks * options_.chunk_bytes;
  Create();
  const uint64_t available = pool_->chunks_available();
  EXPECT_GT(available, kChunks / 2);
  std::atomic<bool> stop{false};
  std::thread looks([&] {
    while (!stop.load()) ASSERT_EQ(pool_->chunks_available(), available);
  });
  for (int i = 0; i < 100; i++) {
    EXPECT_TRUE(pool_->GrowUntilFree(1, available).ok());
    EXPECT_TRUE(pool_->GiveBack().ok());
  }
  EXPECT_LT(pool_->pool_bytes(), options_.pool_bytes_max / 2) << "nothing was given back";
  stop.store(true);
  looks.join();
}

// Claims, frees, growth and giving back beside each other, and readers that follow what is gone.
TEST_F(PoolShrink, ClaimsAndReadersRunConcurrently) {
  Create();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> given_back{0};
  const auto give_back = [&] {
    const uint64_t before = pool_->pool_bytes();
    ASSERT_TRUE(pool_->GiveBack().ok());
    if (pool_->pool_bytes() < before) given_back.fetch_add(1);
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 2; t++) {
    threads.emplace_back([&, t] {
      Persister persister(pool_->gate(), WriteCause::kLog);
      std::vector<ChunkRef> mine;
      for (int round = 0; round < 40 || (given_back.load() < 3 && round < 20'000); round++) {
        for (int i = 0; i < (t == 0 ? 60 : 5); i++) {
          ChunkRef chunk;
          ASSERT_TRUE(pool_
                          ->Claim(0, ChunkKind::kLog, t, 1, 1 + i % 3, Claimant::kWriter,
                                  &persister, &chunk)
                          .ok());
          std::memset(pool_->ChunkAddress(chunk), static_cast<int>(t + 1), 64);
          mine.push_back(chunk);
        }
        for (const ChunkRef& chunk : mine) {
          ASSERT_EQ(*pool_->ChunkAddress(chunk), static_cast<char>(t + 1));
          pool_->FreeDeferred(chunk);
        }
        mine.clear();
        pool_->CollectDeferred();
        give_back();
      }
    });
  }
  threads.emplace_back([&] {
    while (!stop.load()) ASSERT_TRUE(pool_->Provision().ok());
  });
  threads.emplace_back([&] {
    while (!stop.load()) give_back();
  });
  threads.emplace_back([&] {
    while (!stop.load()) {
      const EpochPin pin(pool_->readers());
      pool_->ForEachChunk(
          [&](const ChunkRef& c) { (void)pool_->Contains(pool_->ChunkStart(c), c.run_chunks); });
    }
  });
  threads[0].join();
  threads[1].join();
  stop.store(true);
  for (size_t i = 2; i < threads.size(); i++) threads[i].join();
  pool_->CollectDeferred();
  EXPECT_GT(given_back.load(), 0u);
  (void)pool_->GiveBack().ok();
  ExpectSound();
  EXPECT_EQ(Owned().size(), 0u);
}

}  // namespace
}  // namespace lamella
