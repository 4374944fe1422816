// Claims, frees, growth and limits. Opening and damage are in pool_open_test.cc, crashes in
// pool_crash_test.cc.
#include "pool/pool.h"

#include <sys/mount.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "pool/pool_test_base.h"
#include "testing/resource_limit.h"
#include "testing/small_file_system.h"

namespace lamella {
namespace {

TEST_F(PoolTest, AClaimedChunkIsDescribedAsAsked) {
  Create();
  const ChunkRef chunk = MustClaim();
  EXPECT_EQ(chunk.index, 3u);  // after superblock, table and mirror
  ChunkRef found;
  ASSERT_TRUE(pool_->Describe(0, chunk.index, &found));
  EXPECT_EQ(found.kind, ChunkKind::kLog);
  EXPECT_EQ(found.owner, 5u);
  EXPECT_EQ(found.ordinal, 42u);
  EXPECT_EQ(found.run_chunks, 1u);
  EXPECT_EQ(found.epoch, chunk.epoch);
  EXPECT_NE(found.epoch, 0u);
  EXPECT_FALSE(pool_->Describe(0, 0, &found));
  EXPECT_FALSE(pool_->Describe(0, 1, &found));
  EXPECT_FALSE(pool_->Describe(0, 2, &found));
  EXPECT_FALSE(pool_->Describe(0, 4, &found));
  EXPECT_FALSE(pool_->Describe(0, 100000, &found));
  EXPECT_FALSE(pool_->Describe(7, 2, &found));
}

TEST_F(PoolTest, AddressesAndPointersGoBothWays) {
  Create();
  const ChunkRef chunk = MustClaim();
  char* address = pool_->ChunkAddress(chunk) + 100;
  const PmPtr p = pool_->PointerTo(0, address);
  EXPECT_EQ(pool_->Address(p), address);
  EXPECT_EQ(pool_->ChunkIndex(p), chunk.index);
  EXPECT_EQ(pool_->ChunkStart(chunk).offset(), chunk.index * kChunkBytesMin);
  EXPECT_EQ(pool_->DescriptorOf(p), pool_->Descriptor(0, chunk.index));
  EXPECT_TRUE(pool_->Contains(p, 10));
  EXPECT_TRUE(pool_->Contains(PmPtr(0, pool_->pool_bytes()), 0));
  EXPECT_FALSE(pool_->Contains(PmPtr(0, pool_->pool_bytes()), 1));
  EXPECT_FALSE(pool_->Contains(PmPtr(0, 8), ~uint64_t{0}));
  EXPECT_FALSE(pool_->Contains(PmPtr(1, 8), 1));
}

TEST_F(PoolTest, AnEpochGoesUpAtEachClaim) {  // I3
  Create();
  uint32_t last = 0;
  for (int i = 0; i < 10; i++) {
    const ChunkRef chunk = MustClaim();
    ASSERT_EQ(chunk.index, 3u);
    ASSERT_GT(chunk.epoch, last);
    last = chunk.epoch;
    pool_->Free(chunk, &*persister_);
    if (i == 5) Open();
  }
}

TEST_F(PoolTest, TwoPoolsStartAtDifferentEpochs) {
  std::set<uint32_t> epochs;
  for (int i = 0; i < 8; i++) {
    Create();
    epochs.insert(MustClaim().epoch);
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
  EXPECT_GT(epochs.size(), 6u);
}

TEST_F(PoolTest, AClaimOfOneChunkIsTwoFencesAndAFreeIsOne) {
  Create();
  const uint64_t before = persister_->counters().fences;
  const ChunkRef chunk = MustClaim();
  EXPECT_EQ(persister_->counters().fences - before, 2u);
  pool_->Free(chunk, &*persister_);
  EXPECT_EQ(persister_->counters().fences - before, 3u);
}

TEST_F(PoolTest, ARunIsAdjacentAndFreedWhole) {
  Create();
  const ChunkRef one = MustClaim();
  const ChunkRef run = MustClaim(3);
  EXPECT_EQ(run.index, one.index + 1);
  const ChunkRef after = MustClaim();
  EXPECT_EQ(after.index, run.index + 3);
  EXPECT_EQ(Owned(), (std::vector<std::string>{"0:3+1", "0:4+3", "0:7+1"}));
  const uint64_t free_before = pool_->free_chunks();
  pool_->Free(run, &*persister_);
  EXPECT_EQ(pool_->free_chunks(), free_before + 3);
  EXPECT_EQ(Owned(), (std::vector<std::string>{"0:3+1", "0:7+1"}));
  EXPECT_EQ(MustClaim().index, run.index);
}

TEST_F(PoolTest, ClaimsSurviveReopening) {
  Create();
  const ChunkRef one = MustClaim();
  const ChunkRef run = MustClaim(4);
  std::memset(pool_->ChunkAddress(run), 'r', 4 * kChunkBytesMin);
  const uint64_t free_before = pool_->free_chunks();
  const uint64_t used_before = pool_->used_bytes();
  EXPECT_EQ(used_before, 5 * kChunkBytesMin);
  Open();
  EXPECT_EQ(Owned(), (std::vector<std::string>{"0:3+1", "0:4+4"}));
  EXPECT_EQ(pool_->free_chunks(), free_before);
  EXPECT_EQ(pool_->used_bytes(), used_before);
  ChunkRef found;
  ASSERT_TRUE(pool_->Describe(0, one.index, &found));
  EXPECT_EQ(found.epoch, one.epoch);
  EXPECT_EQ(pool_->ChunkAddress(run)[4 * kChunkBytesMin - 1], 'r');
}

TEST_F(PoolTest, GrowthKeepsTheBaseAddressAndPassesGroups) {
  Create();
  const char* const base = pool_->Address(PmPtr(0, 0));
  std::set<uint32_t> taken;
  for (int i = 0; i < 1100; i++) ASSERT_TRUE(taken.insert(MustClaim().index).second);
  EXPECT_EQ(pool_->Address(PmPtr(0, 0)), base);
  for (uint32_t table : {0u, 1u, 2u, 1024u, 1055u, 1056u, 1087u})
    EXPECT_FALSE(taken.contains(table));
  EXPECT_TRUE(taken.contains(1023) && taken.contains(1088));
  EXPECT_GT(pool_->chunk_count(0), 1100u);
  EXPECT_EQ(pool_->pool_bytes(), pool_->chunk_count(0) * kChunkBytesMin);
  EXPECT_EQ(pool_->used_bytes(), 1100 * kChunkBytesMin);
  const uint64_t free_before = pool_->free_chunks();
  Open();
  EXPECT_EQ(Owned().size(), 1100u);
  EXPECT_EQ(pool_->free_chunks(), free_before);
}

TEST_F(PoolTest, ARunThatAGroupsEndWouldCutLiesInTheNextGroup) {
  Create();
  const ChunkRef first = MustClaim(1000);
  EXPECT_EQ(first.index, 3u);
  const ChunkRef second = MustClaim(100);
  EXPECT_EQ(second.index, 1088u);  // 1003 to 1102 would lie over table and mirror in 1024 to 1087
  EXPECT_EQ(MustClaim().index, 1003u);
  Open();
  EXPECT_EQ(Owned().size(), 3u);
  ChunkRef chunk;
  const Status s = Claim(&chunk, pool_->run_chunks_max() + 1);
  EXPECT_TRUE(s.IsInvalidArgument() && Says(s, "adjacent")) << s.ToString();
}

// Every chunk is a table's, or has a descriptor of its own within its group's table.
TEST_F(PoolTest, GroupsLieSideBySide) {
  for (uint32_t shift = 16; shift <= 30; shift++) {
    EXPECT_GE(uint64_t{RunChunksMax(shift)} << shift, (1ull << 30) + (1 << 20)) << shift;
    uint64_t from = 0;
    uint32_t claimable = 0;
    for (int i = 0; i < 4 && from <= ~uint32_t{0}; i++) {
      const ChunkGroup group = GroupOf(shift, static_cast<uint32_t>(from));
      EXPECT_EQ(group.first, from);
      const auto last = static_cast<uint32_t>(std::min<uint64_t>(group.end() - 1, ~uint32_t{0}));
      EXPECT_EQ(GroupOf(shift, last).first, group.first);
      EXPECT_EQ(DescriptorOffset(shift, group.first), uint64_t{group.table} << shift);
      EXPECT_LE(DescriptorOffset(shift, last) + sizeof(ChunkDescriptor),
                uint64_t{group.mirror()} << shift);
      EXPECT_EQ(MirrorOffset(shift, group.first), uint64_t{group.mirror()} << shift);
      EXPECT_LE(MirrorOffset(shift, last) + sizeof(ChunkDescriptor),
                uint64_t{group.claimable()} << shift);
      EXPECT_TRUE(IsTableChunk(shift, group.first) && IsTableChunk(shift, group.claimable() - 1));
      EXPECT_FALSE(IsTableChunk(shift, group.claimable()) || IsTableChunk(shift, last));
      if (i > 0) {
        EXPECT_EQ(UsableChunks(shift, group.first + 1), group.first);
        EXPECT_EQ(UsableChunks(shift, group.claimable()), group.first);
        EXPECT_EQ(UsableChunks(shift, group.claimable() + 1), group.claimable() + 1);
        EXPECT_EQ(RunStart(shift, from - 1, 2), group.claimable());
      }
      claimable += last - group.claimable() + 1;
      EXPECT_EQ(ClaimableChunks(shift, last), claimable - 1);
      from = group.end();
    }
  }
}

TEST_F(PoolTest, TheLimitIsNoSpaceWithAReserve) {
  options_.pool_bytes_max = 20 * kChunkBytesMin;
  Create();
  EXPECT_EQ(pool_->chunks_available(), 17u);
  std::vector<ChunkRef> chunks;
  ChunkRef chunk;
  Status s;
  while ((s = Claim(&chunk)).ok()) chunks.push_back(chunk);
  EXPECT_TRUE(s.IsNoSpace() && Says(s, "pool_bytes_max") && Says(s, options_.part_paths[0]))
      << s.ToString();
  EXPECT_EQ(chunks.size(), 11u);  // 20, less superblock, table, mirror and the reserve of six
  EXPECT_EQ(pool_->chunks_available(), 6u);
  for (int i = 0; i < 4; i++) EXPECT_TRUE(Claim(&chunk, 1, Claimant::kReclaim).ok());
  EXPECT_TRUE(Claim(&chunk, 1, Claimant::kReclaim).IsNoSpace());
  for (int i = 0; i < 2; i++) EXPECT_TRUE(Claim(&chunk, 1, Claimant::kIndex).ok());
  EXPECT_TRUE(Claim(&chunk, 1, Claimant::kIndex).IsNoSpace());
  EXPECT_EQ(std::filesystem::file_size(options_.part_paths[0]), 20 * kChunkBytesMin);
  for (int i = 0; i < 7; i++) pool_->Free(chunks[static_cast<size_t>(i)], &*persister_);
  EXPECT_TRUE(Claim(&chunk).ok());
  EXPECT_TRUE(Claim(&chunk).IsNoSpace());
}

// Tables of groups that are yet to come are none of it.
TEST_F(PoolTest, WhatIsAvailableCanBeClaimed) {
  for (const uint64_t chunks : {20, 1024, 1088, 1089, 1300}) {
    options_.pool_bytes_max = chunks * kChunkBytesMin;
    Create();
    const uint64_t available = pool_->chunks_available();
    uint64_t claimed = 0;
    for (ChunkRef chunk; Claim(&chunk, 1, Claimant::kIndex).ok();) claimed++;
    EXPECT_EQ(claimed, available) << chunks;
    EXPECT_EQ(pool_->chunks_available(), 0u) << chunks;
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

TEST_F(PoolTest, WhatIsAvailableInRowsCanBeClaimedInRows) {
  constexpr uint32_t kRun = 40;
  options_.pool_bytes_max = 1300 * kChunkBytesMin;
  for (const int before : {0, 950, 990, 1000}) {  // there is a row before the tables, or none
    Create();
    for (int i = 0; i < before; i++) MustClaim();
    EXPECT_GE(pool_->chunks_available_in_rows(0, kRun, kRun), kRun) << before;
    const uint64_t available = pool_->chunks_available_in_rows(0, kRun, 5000);
    uint64_t claimed = 0;
    for (ChunkRef chunk; Claim(&chunk, kRun, Claimant::kIndex).ok();) claimed += kRun;
    EXPECT_EQ(claimed, available) << before;
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

TEST_F(PoolTest, ALoweredLimitKeepsWhatIsThere) {
  Create();
  for (int i = 0; i < 40; i++) MustClaim();
  options_.pool_bytes_max = 16 * kChunkBytesMin;
  Open();
  EXPECT_EQ(Owned().size(), 40u);
  ChunkRef chunk;
  Status s;
  while ((s = Claim(&chunk)).ok()) continue;
  EXPECT_TRUE(s.IsNoSpace());
}

TEST_F(PoolTest, AFullFileSystemIsNoSpaceAndKeepsAReserve) {
  const std::string mounted = dir_.Sub("small");
  std::filesystem::create_directory(mounted);
  if (mount("tmpfs", mounted.c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "mounting a file system needs root";
  }
  options_.part_paths = {mounted + "/pool.0"};
  Create();
  std::vector<ChunkRef> chunks;
  ChunkRef chunk;
  Status s;
  while ((s = Claim(&chunk)).ok()) {
    std::memset(pool_->ChunkAddress(chunk), 'x', kChunkBytesMin);  // every byte is really there
    chunks.push_back(chunk);
  }
  EXPECT_TRUE(s.IsNoSpace() && Says(s, options_.part_paths[0])) << s.ToString();
  EXPECT_EQ(chunks.size(), 64u - 3 - kReserveExtentsMin)
      << s.ToString() << " " << pool_->chunk_count(0) << " " << pool_->free_chunks();
  EXPECT_FALSE(pool_->NeedsProvision() && pool_->Provision().ok() && pool_->NeedsProvision());
  EXPECT_TRUE(Claim(&chunk, 1, Claimant::kReclaim).ok());
  EXPECT_TRUE(Claim(&chunk, 1, Claimant::kReclaim).ok());
  EXPECT_EQ(pool_->ChunkAddress(chunks.back())[kChunkBytesMin - 1], 'x');
  const size_t owned = Owned().size();
  Open();
  EXPECT_EQ(Owned().size(), owned);
  Close();
  umount2(mounted.c_str(), MNT_DETACH);
}

TEST_F(PoolTest, ProvisionGrowsAndWarmsAheadOfClaims) {
  Create();
  for (int i = 0; i < 500; i++) MustClaim();
  EXPECT_TRUE(pool_->NeedsProvision());
  ASSERT_TRUE(pool_->Provision().ok());
  EXPECT_FALSE(pool_->NeedsProvision());
  const uint32_t extent = pool_->extent_chunks(0);
  EXPECT_GE(extent, 4u);
  const uint64_t bytes_before = pool_->pool_bytes();
  ChunkRef chunk;
  for (int i = 0; i < 8; i++) {
    ASSERT_TRUE(pool_
                    ->ClaimExtent(0, ChunkKind::kLog, 1, 1, 1, extent, Claimant::kWriter,
                                  &*persister_, &chunk)
                    .ok());
    EXPECT_EQ(chunk.run_chunks, extent);
  }
  EXPECT_EQ(pool_->pool_bytes(), bytes_before);
  EXPECT_TRUE(pool_->NeedsProvision());
}

TEST_F(PoolTest, ProvisionStopsAtTheLimit) {
  options_.pool_bytes_max = 30 * kChunkBytesMin;
  Create();
  for (int i = 0; i < 20; i++) MustClaim();
  EXPECT_TRUE(pool_->Provision().ok());
  EXPECT_EQ(pool_->chunk_count(0), 30u);
  EXPECT_FALSE(pool_->NeedsProvision());
  EXPECT_TRUE(pool_->Provision().ok());
}

// What a store of little data costs: its file is a megabyte, and extents, reserve and what is ready
// grow with it.
TEST_F(PoolTest, ExtentsGrowWithThePart) {
  Create();
  EXPECT_EQ(pool_->extent_chunks(0), 1u);
  EXPECT_LE(pool_->pool_bytes(), 13 * kChunkBytesMin);
  MustClaim();
  ASSERT_TRUE(pool_->Provision().ok());
  EXPECT_LE(pool_->pool_bytes(), 1u << 20);
  uint32_t last = 1;
  while (pool_->pool_bytes() < 256u << 20) {
    const uint32_t extent = pool_->extent_chunks(0);
    EXPECT_TRUE(extent == last || extent == 2 * last);
    EXPECT_LE(extent * 64, pool_->chunk_count(0) + 63);
    last = extent;
    ChunkRef chunk;
    ASSERT_TRUE(pool_
                    ->ClaimExtent(0, ChunkKind::kLog, 1, 1, 1, extent, Claimant::kWriter,
                                  &*persister_, &chunk)
                    .ok());
    EXPECT_EQ(chunk.run_chunks, extent);
    ASSERT_TRUE(pool_->Provision().ok());
    constexpr uint64_t kMirrors = 33 * kChunkBytesMin;
    EXPECT_LE(pool_->pool_bytes(),
              pool_->used_bytes() + pool_->used_bytes() / 2 + (1 << 20) + kMirrors);
  }
  EXPECT_EQ(last * kChunkBytesMin, kExtentBytesMax);
}

TEST_F(PoolTest, HundredsOfPoolsAreOpenAtOnce) {
  std::vector<std::unique_ptr<Pool>> pools(300);
  for (size_t i = 0; i < pools.size(); i++) {
    options_.part_paths = {dir_.Sub("pool" + std::to_string(i))};
    const Status s = Pool::Create(options_, &pools[i]);
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
    EXPECT_LT(pools[i]->pool_bytes(), 1u << 20);
  }
  for (const auto& pool : pools) {
    Persister persister(pool->gate(), WriteCause::kLog);
    ChunkRef chunk;
    ASSERT_TRUE(
        pool->Claim(0, ChunkKind::kLog, 5, 42, 20, Claimant::kWriter, &persister, &chunk).ok());
  }
}

// Where no row is as long as an extent, and the part is full or mostly holes, the holes serve.
TEST_F(PoolTest, HolesAreUsedBeforeAnythingIsRefused) {
  options_.pool_bytes_max = 600 * kChunkBytesMin;
  Create();
  std::vector<ChunkRef> chunks;
  ChunkRef chunk;
  while (Claim(&chunk, 1, Claimant::kIndex).ok()) chunks.push_back(chunk);
  for (size_t i = 0; i < chunks.size(); i += 2) pool_->Free(chunks[i], &*persister_);
  const uint32_t extent = pool_->extent_chunks(0);
  ASSERT_GE(extent, 8u);
  ASSERT_TRUE(pool_
                  ->ClaimExtent(0, ChunkKind::kLog, 1, 1, 1, extent, Claimant::kWriter,
                                &*persister_, &chunk)
                  .ok());
  EXPECT_EQ(chunk.run_chunks, 1u);
  EXPECT_TRUE(Claim(&chunk, 2).IsNoSpace());
  const uint64_t free = pool_->free_chunks();
  uint64_t claimed = 0;
  Status s;
  while ((s = Claim(&chunk)).ok()) claimed++;
  EXPECT_TRUE(s.IsNoSpace());
  EXPECT_EQ(claimed, free - kReserveExtentsMin * extent);
}

// The longest value fits into a store of the smallest chunks.
TEST_F(PoolTest, ARunMayHoldTheLongestValue) {
  Create();
  MustClaim();
  const uint32_t run = (1u << 30) / kChunkBytesMin + 1;
  EXPECT_GE(pool_->run_chunks_max(), run);
  if (dir_.path().starts_with("/dev/shm")) {
    const ChunkRef chunk = MustClaim(run);
    EXPECT_EQ(chunk.index, 1024u + 64);  // after the second group's table and mirror
    Open();
    EXPECT_EQ(Owned(), (std::vector<std::string>{"0:3+1", "0:1088+" + std::to_string(run)}));
  }
}

TEST_F(PoolTest, ADeferredFreeWaitsForReadersAndHolders) {  // I2
  Create();
  const ChunkRef chunk = MustClaim();
  const uint64_t reader = pool_->readers()->Pin();
  pool_->FreeDeferred(chunk);
  EXPECT_EQ(pool_->CollectDeferred(), 1u);
  EXPECT_NE(MustClaim().index, chunk.index);
  const uint64_t holder = pool_->holders()->Pin();  // the reader keeps its value
  pool_->readers()->Unpin(reader);
  EXPECT_EQ(pool_->CollectDeferred(), 1u);
  EXPECT_NE(MustClaim().index, chunk.index);
  EXPECT_EQ(Owned().size(), 3u);
  pool_->holders()->Unpin(holder);
  EXPECT_EQ(pool_->CollectDeferred(), 0u);
  EXPECT_EQ(MustClaim().index, chunk.index);
}

TEST_F(PoolTest, SomebodyIsToldOfADeferredFreeUntilACollectBegins) {  // I8
  Create();
  int told = 0;
  pool_->OnDeferred([&] { told++; });
  pool_->FreeDeferred(MustClaim());
  pool_->FreeDeferred(MustClaim());
  EXPECT_EQ(told, 1);
  EXPECT_EQ(pool_->CollectDeferred(), 0u);
  pool_->FreeDeferred(MustClaim());
  EXPECT_EQ(told, 2);
  EXPECT_EQ(pool_->AwaitDeferred(), 0u);
  pool_->OnDeferred(nullptr);
  pool_->FreeDeferred(MustClaim());
  EXPECT_EQ(told, 2);
}

TEST_F(PoolTest, ClosingRunsDeferredFrees) {
  Create();
  pool_->FreeDeferred(MustClaim(3));
  MustClaim();
  Open();
  EXPECT_EQ(Owned(), std::vector<std::string>{"0:6+1"});
}

TEST_F(PoolTest, TwoPartsHaveTheirOwnChunks) {
  options_.part_paths.push_back(dir_.Sub("pool.1"));
  Create();
  ChunkRef chunk;
  ASSERT_TRUE(Claim(&chunk, 1, Claimant::kWriter, 0).ok());
  ASSERT_TRUE(Claim(&chunk, 2, Claimant::kWriter, 1).ok());
  EXPECT_EQ(chunk.part, 1u);
  *pool_->ChunkAddress(chunk) = 'p';
  EXPECT_EQ(pool_->PointerTo(1, pool_->ChunkAddress(chunk)).part(), 1u);
  EXPECT_EQ(Owned(), (std::vector<std::string>{"0:3+1", "1:3+2"}));
  Open();
  EXPECT_EQ(pool_->part_count(), 2u);
  EXPECT_EQ(Owned(), (std::vector<std::string>{"0:3+1", "1:3+2"}));
  EXPECT_EQ(*pool_->ChunkAddress(chunk), 'p');
}

TEST_F(PoolTest, TwoPartsShareTheLimitEvenly) {
  options_.part_paths.push_back(dir_.Sub("pool.1"));
  options_.pool_bytes_max = 40 * kChunkBytesMin;
  Create();
  ChunkRef chunk;
  for (uint32_t part = 0; part < 2; part++) {
    int claimed = 0;
    while (Claim(&chunk, 1, Claimant::kWriter, part).ok()) claimed++;
    EXPECT_EQ(claimed, 11);  // 20, less superblock, table, mirror and the reserve of six
  }
}

TEST_F(PoolTest, ConcurrentClaimsAndFreesShareNoChunk) {
  Create();
  constexpr int kThreads = 4;
  std::vector<std::atomic<int>> owners(4096);
  std::atomic<bool> good{true};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      Persister persister(pool_->gate(), WriteCause::kLog);
      std::vector<ChunkRef> mine;
      for (uint32_t i = 0; i < 1500; i++) {
        ChunkRef chunk;
        const uint32_t run = i % 7 == 0 ? 3 : 1;
        if (!pool_
                 ->Claim(0, ChunkKind::kLog, static_cast<uint32_t>(t), i, run, Claimant::kWriter,
                         &persister, &chunk)
                 .ok()) {
          good = false;
          return;
        }
        for (uint32_t k = 0; k < run; k++) {
          if (owners[chunk.index + k].fetch_add(1) != 0) good = false;
        }
        mine.push_back(chunk);
        if (mine.size() < 30) continue;
        const ChunkRef old = mine.front();
        mine.erase(mine.begin());
        for (uint32_t k = 0; k < old.run_chunks; k++) owners[old.index + k].fetch_sub(1);
        if (i % 2 == 0) {
          pool_->Free(old, &persister);
        } else {
          pool_->FreeDeferred(old);
        }
        if (i % 32 == 0) pool_->CollectDeferred();
      }
    });
  }
  std::thread background([&] {
    for (int i = 0; i < 50; i++) {
      if (pool_->NeedsProvision() && !pool_->Provision().ok()) good = false;
      pool_->ForEachChunk([](const ChunkRef&) {});
    }
  });
  for (std::thread& thread : threads) thread.join();
  background.join();
  EXPECT_TRUE(good.load());
  pool_->CollectDeferred();
  const std::vector<std::string> owned = Owned();
  Open();
  EXPECT_EQ(Owned(), owned);
}

TEST_F(PoolTest, WhatWasSyncedIsNotedOnPagesAndNoFlippedBitChangesIt) {  // S4
  Create();
  pool_->NoteSynced(7);
  EXPECT_EQ(pool_->SyncedThrough(), 0u) << "this medium loses nothing";
  Close();
  options_.medium = MediumKind::kPage;
  Open();
  EXPECT_EQ(pool_->SyncedThrough(), 0u);
  for (const uint64_t sequence : {7, 5}) pool_->NoteSynced(sequence);
  EXPECT_EQ(pool_->SyncedThrough(), 7u);
  Open();
  EXPECT_EQ(pool_->SyncedThrough(), 7u);
  Close();
  const std::string bytes = ReadWhole(path());
  for (size_t bit = 0; bit < 64; bit++) {
    std::string flipped = bytes;
    flipped[kSyncedOffset + bit / 8] ^= static_cast<char>(1 << bit % 8);
    WriteWhole(path(), flipped);
    Open();
    EXPECT_EQ(pool_->SyncedThrough(), 0u) << bit;
    Close();
  }
}

// Its file system has 16 MiB.
class PoolOnSmallFileSystem : public PoolTest {
 protected:
  void SetUp() override {
    if (!small_.mounted()) GTEST_SKIP() << "mounting is not permitted";
    options_.part_paths = {dir_.Sub("small/pool.0")};
  }
  ~PoolOnSmallFileSystem() override { Close(); }

  const testing::SmallFileSystem small_{dir_.Sub("small"), "size=16m"};
};

// What others leave it is told by what they took: not only by growth that fails, at the end.
TEST_F(PoolOnSmallFileSystem, WhatItsFileSystemHasNoRoomForIsNotAvailable) {
  Create();
  const uint64_t before = pool_->chunks_available();
  EXPECT_LE(before, (16u << 20) / kChunkBytesMin);
  EXPECT_GT(before, (12u << 20) / kChunkBytesMin);
  WriteWhole(dir_.Sub("small/other"), std::string(15 << 20, 'o'));
  MustClaim();
  EXPECT_LE(pool_->chunks_available(), (1u << 20) / kChunkBytesMin);
  ASSERT_TRUE(pool_->MarkClean().ok());
  Open();
  EXPECT_LE(pool_->chunks_available(), (1u << 20) / kChunkBytesMin) << "of one that is just open";
  EXPECT_GE(pool_->chunks_available(), pool_->free_chunks());
}

TEST_F(PoolOnSmallFileSystem, NorAreRowsBeyondWhatItHas) {
  constexpr uint32_t kRun = 16;
  Create();
  std::vector<ChunkRef> claimed;
  for (int i = 0; i < 80; i++) claimed.push_back(MustClaim());
  EXPECT_GE(pool_->chunks_available_in_rows(0, kRun, 1000), kRun) << "the control";
  for (size_t i = 0; i < claimed.size(); i += 2) pool_->Free(claimed[i], &*persister_);
  const uint64_t room = (16 << 20) - pool_->pool_bytes();
  WriteWhole(dir_.Sub("small/other"), std::string(room - kChunkBytesMin, 'o'));
  MustClaim();
  EXPECT_GT(pool_->chunks_available(), kRun) << "holes of one chunk";
  EXPECT_LT(pool_->chunks_available_in_rows(0, kRun, 1000), kRun);
}

// The last row is longer than what the file system has room for.
TEST_F(PoolOnSmallFileSystem, ARowAtTheEndCountsWholeHoweverLittleThePartMayGrow) {
  constexpr uint32_t kRun = 8;
  Create();
  std::vector<ChunkRef> claimed;
  for (int i = 0; i < 80; i++) claimed.push_back(MustClaim());
  WriteWhole(dir_.Sub("small/other"),
             std::string((16 << 20) - pool_->pool_bytes() - 10 * kChunkBytesMin, 'o'));
  for (int i = 0; i < 40; i++) {
    pool_->Free(claimed.back(), &*persister_);
    claimed.pop_back();
  }
  MustClaim();
  EXPECT_GE(pool_->chunks_available_in_rows(0, kRun, 1000), 40u);
  EXPECT_LE(pool_->chunks_available_in_rows(0, kRun, 1000), pool_->chunks_available());
}

TEST_F(PoolOnSmallFileSystem, PartsOnOneFileSystemShareItsRoom) {
  for (const int other : {0, 1}) {  // one of three elsewhere, too
    options_.part_paths = {dir_.Sub("small/pool.0"), dir_.Sub("small/pool.1"),
                           dir_.Sub(other == 0 ? "small/pool.2" : "pool.2")};
    Create();
    const uint64_t on_it = pool_->chunks_available(0) + pool_->chunks_available(1) +
                           (other == 0 ? pool_->chunks_available(2) : 0);
    EXPECT_LE(on_it, (16u << 20) / kChunkBytesMin);
    EXPECT_GT(on_it, (12u << 20) / kChunkBytesMin);
    if (other == 1) {
      EXPECT_GT(pool_->chunks_available(2), (12u << 20) / kChunkBytesMin);
    }
    ASSERT_TRUE(pool_->MarkClean().ok());
    Open();
    EXPECT_LE(pool_->chunks_available(0), (8u << 20) / kChunkBytesMin) << "and once it is open";
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

TEST_F(PoolTest, WhatTheProcessMayNotWriteIsNotAvailable) {
  Create();
  EXPECT_TRUE(pool_->MayStayBelowLimit());
  const testing::ResourceLimit limit(RLIMIT_FSIZE, pool_->pool_bytes() + 4 * kChunkBytesMin);
  MustClaim();
  EXPECT_LE(pool_->chunks_available(), pool_->free_chunks() + 4);
}

TEST_F(PoolTest, PartsOfALargeFileSystemReachTheirLimit) {
  options_.part_paths.push_back(dir_.Sub("pool.1"));
  options_.pool_bytes_max = 128 * kChunkBytesMin;
  Create();
  EXPECT_FALSE(pool_->MayStayBelowLimit());
}

TEST_F(PoolTest, TheLargestLimitIsNone) {
  options_.pool_bytes_max = ~uint64_t{0};
  Create();
  const uint64_t made_with = pool_->pool_bytes();
  while (pool_->pool_bytes() < 8 * made_with && !HasFailure()) MustClaim();
}

TEST_F(PoolTest, ALimitIsReachedWhereTheFileSystemHasRoomForIt) {
  options_.pool_bytes_max = 64 * kChunkBytesMin;
  Create();
  EXPECT_FALSE(pool_->MayStayBelowLimit());
  const testing::ResourceLimit limit(RLIMIT_FSIZE, pool_->pool_bytes() + 4 * kChunkBytesMin);
  MustClaim();
  EXPECT_TRUE(pool_->MayStayBelowLimit());
}

}  // namespace
}  // namespace lamella
