#include "index/lookup_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/random.h"

namespace lamella {
namespace {

constexpr uint64_t kBucketBytes = 64;

std::vector<PmPtr> Find(const LookupCache& cache, uint64_t hash) {
  std::array<PmPtr, LookupCache::kWays> places;
  const uint32_t n = cache.Find(hash, &places);
  return {places.begin(), places.begin() + n};
}
PmPtr Place(uint64_t n) { return PmPtr(static_cast<uint32_t>(n % kPoolPartsMax), 64 * (n + 1)); }

/// A cache over records that are no more than their hashes.
class TestCache {
 public:
  explicit TestCache(uint64_t bytes_max, MemoryAccount* memory = nullptr)
      : cache_(
            bytes_max, &readers_,
            [this](std::span<const PmPtr> places, uint64_t* hashes) {
              const MutexLock lock(&mu_);
              for (size_t i = 0; i < places.size(); i++) hashes[i] = hash_of_[places[i].word];
            },
            memory) {}
  /// Makes the record; the cache hears nothing of it.
  void Write(uint64_t hash, PmPtr place) {
    const MutexLock lock(&mu_);
    hash_of_[place.word] = hash;
  }
  void Put(uint64_t hash, PmPtr place) {
    Write(hash, place);
    cache_.Put(hash, place);
  }
  bool PutFound(uint64_t hash, PmPtr place, uint64_t generation) {
    Write(hash, place);
    return cache_.PutFound(hash, place, generation);
  }
  void Replace(uint64_t hash, PmPtr from, PmPtr to) {
    Write(hash, to);
    cache_.Replace(hash, from, to);
  }
  LookupCache* operator->() { return &cache_; }
  LookupCache& operator*() { return cache_; }
  EpochDomain* readers() { return &readers_; }

 private:
  EpochDomain readers_;
  Mutex mu_;
  std::map<uint64_t, uint64_t> hash_of_ LAMELLA_GUARDED_BY(mu_);  // place to hash
  LookupCache cache_;
};

TEST(LookupCache, WithoutMemoryHoldsNothing) {
  for (const uint64_t bytes : {uint64_t{0}, kBucketBytes - 1}) {
    TestCache cache(bytes);
    EXPECT_FALSE(cache->enabled());
    EXPECT_EQ(cache->memory_bytes(), 0u);
    cache.Put(1, Place(1));
    cache.PutFound(2, Place(2), cache->generation());
    cache->Remove(1, Place(1));
    cache.Replace(1, Place(1), Place(2));
    cache->Prefetch(1);
    EXPECT_TRUE(Find(*cache, 1).empty());
  }
}

TEST(LookupCache, TakesAPowerOfTwoOfItsMemory) {
  EXPECT_EQ(TestCache(kBucketBytes)->bytes_max(), kBucketBytes);
  EXPECT_EQ(TestCache(1000 * kBucketBytes)->bytes_max(), 512 * kBucketBytes);
  EXPECT_EQ(TestCache(1 << 20)->bytes_max(), 1u << 20);
}

TEST(LookupCache, GrowsWithWhatItHoldsUpToItsShare) {
  TestCache cache(1 << 20);
  EXPECT_EQ(cache->memory_bytes(), 0u);
  constexpr uint64_t kSlotBytes = kBucketBytes / LookupCache::kWays;
  for (uint64_t n = 1; n <= 100000; n++) {
    cache.Put(Hash64(std::to_string(n)), Place(n));
    // Half full at least, but for the first bucket of each of up to 16 stripes, and one that is
    // just ahead of the others.
    ASSERT_LE(cache->memory_bytes(),
              std::min<uint64_t>(1 << 20, 16 * kBucketBytes + 5 * n * kSlotBytes))
        << n;
    if (n == 1) {
      EXPECT_EQ(cache->memory_bytes(), kBucketBytes);
    }
  }
  EXPECT_EQ(cache->memory_bytes(), 1u << 20);
}

TEST(LookupCache, GrowingLosesNextToNothing) {
  TestCache cache(8 << 20);
  constexpr uint64_t kKeys = 100000;
  for (uint64_t n = 0; n < kKeys; n++) cache.Put(Hash64(std::to_string(n)), Place(n));
  uint64_t found = 0;
  for (uint64_t n = 0; n < kKeys; n++) {
    const auto places = Find(*cache, Hash64(std::to_string(n)));
    found += static_cast<uint64_t>(std::count(places.begin(), places.end(), Place(n)));
  }
  EXPECT_GE(found, kKeys * 95 / 100);  // few buckets get more than they hold
}

TEST(LookupCache, WhatReadersFillGrowsInTheBackground) {
  TestCache cache(1 << 20);
  bool due = false;
  uint64_t n = 0;
  for (; !due && n < 1000; n++)
    due = cache.PutFound(Hash64(std::to_string(n)), Place(n), cache->generation());
  ASSERT_TRUE(due);
  EXPECT_TRUE(cache->GrowthDue());
  EXPECT_EQ(cache->memory_bytes(), 0u) << "no reader pays for it";
  for (; n < 5000; n++) {
    if (cache.PutFound(Hash64(std::to_string(n)), Place(n), cache->generation())) cache->Grow();
    if (cache->GrowthDue()) cache->Grow();
  }
  EXPECT_GE(cache->memory_bytes(), 32u << 10);
}

TEST(LookupCache, ShrinkingKeepsTheNewest) {
  TestCache cache(1 << 20);
  for (uint64_t n = 0; n < 20000; n++) cache.Put(Hash64(std::to_string(n)), Place(n));
  uint64_t bytes = cache->memory_bytes();
  while (bytes > 0) {
    cache->Shrink();
    EXPECT_LE(cache->memory_bytes(), bytes / 2);
    bytes = cache->memory_bytes();
    uint64_t held = 0;
    for (uint64_t n = 0; n < 20000; n++) {
      const auto places = Find(*cache, Hash64(std::to_string(n)));
      held += static_cast<uint64_t>(std::count(places.begin(), places.end(), Place(n)));
    }
    if (bytes > 0) {
      EXPECT_GE(held, std::min<uint64_t>(15000, bytes / 8 / 2)) << bytes;
    } else {
      EXPECT_EQ(held, 0u);
    }
  }
  cache.Put(1, Place(1));
  EXPECT_EQ(Find(*cache, 1).size(), 1u) << "it grows again";
}

TEST(LookupCache, TakesNoMoreThanTheBudgetHas) {
  MemoryBudget budget(64 << 10);
  const MemoryAccount another(&budget);
  MemoryAccount memory(&budget);
  {
    TestCache cache(1 << 20, &memory);
    for (uint64_t n = 0; n < 50000; n++) {
      cache.Put(Hash64(std::to_string(n)), Place(n));
      if (n % 64 == 0) cache.readers()->Collect();
      ASSERT_LE(budget.used(), budget.bytes_max());
    }
    EXPECT_GE(cache->memory_bytes(), 16u << 10);
    EXPECT_EQ(Find(*cache, Hash64("49999")).size(), 1u);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(LookupCache, AReaderKeepsTheArrayThatItFound) {  // I4
  MemoryBudget budget(1 << 20);
  MemoryAccount memory(&budget);
  TestCache cache(1 << 20, &memory);
  cache.Put(1, Place(1));
  const uint64_t token = cache.readers()->Pin();
  for (uint64_t n = 2; n < 1000; n++) cache.Put(Hash64(std::to_string(n)), Place(n));
  cache.readers()->Collect();
  EXPECT_GT(memory.held(), cache->memory_bytes()) << "what it may look at";
  cache.readers()->Unpin(token);
  cache.readers()->Collect();
  EXPECT_EQ(memory.held(), cache->memory_bytes());
}

TEST(LookupCache, ADamagedRecordIsForgottenWhenItGrows) {
  TestCache cache(1 << 20);
  for (uint64_t n = 0; n < 200; n++) cache.Put(Hash64(std::to_string(n)), Place(n));
  // as if the key could not be read any more
  for (uint64_t n = 0; n < 200; n++) cache.Write(0, Place(n));
  for (uint64_t n = 1000; n < 3000; n++) cache.Put(Hash64(std::to_string(n)), Place(n));
  for (uint64_t n = 0; n < 200; n++) {
    for (const PmPtr at : Find(*cache, Hash64(std::to_string(n)))) EXPECT_NE(at, Place(n));
  }
}

TEST(LookupCache, FindsWhatWasPutAtAnyPlaceOfAnyPart) {
  TestCache cache(1 << 20);
  for (const PmPtr place : {PmPtr(0, 64), PmPtr(15, 64), PmPtr(7, PmPtr::kOffsetMask)}) {
    const uint64_t hash = Hash64(std::to_string(place.word));
    cache.Put(hash, place);
    EXPECT_EQ(Find(*cache, hash), std::vector<PmPtr>{place});
    EXPECT_TRUE(Find(*cache, ~hash).empty());
  }
}

TEST(LookupCache, ANewerPlaceTakesTheOlderOnesSlot) {  // I2
  TestCache cache(1 << 16);
  for (uint64_t n = 0; n < 100; n++) {
    cache.Put(42, Place(n));
    EXPECT_EQ(Find(*cache, 42), std::vector<PmPtr>{Place(n)});
  }
}

TEST(LookupCache, TheOldestOfABucketGoesFirst) {
  TestCache cache(kBucketBytes);  // one bucket: eight ways
  const auto hash = [](uint64_t n) { return n << 52; };
  for (uint64_t n = 1; n <= 20; n++) {
    cache.Put(hash(n), Place(n));
    for (uint64_t old = 1; old <= n; old++) {
      EXPECT_EQ(Find(*cache, hash(old)).size(), n - old < LookupCache::kWays ? 1u : 0u)
          << old << " after " << n;
    }
  }
}

TEST(LookupCache, RemoveForgetsThatPlaceAndNoOther) {  // I3
  TestCache cache(1 << 16);
  cache.Put(1, Place(1));
  cache.Put(2, Place(2));
  cache->Remove(1, Place(9));
  EXPECT_EQ(Find(*cache, 1).size(), 1u) << "it is another record";
  cache->Remove(1, Place(1));
  EXPECT_TRUE(Find(*cache, 1).empty());
  EXPECT_EQ(Find(*cache, 2), std::vector<PmPtr>{Place(2)});
}

TEST(LookupCache, ReplaceSwapsAPlaceThatIsThere) {
  TestCache cache(1 << 16);
  cache.Put(1, Place(1));
  cache.Replace(1, Place(5), Place(6));
  EXPECT_EQ(Find(*cache, 1), std::vector<PmPtr>{Place(1)});
  cache.Replace(1, Place(1), Place(6));
  EXPECT_EQ(Find(*cache, 1), std::vector<PmPtr>{Place(6)});
  cache.Replace(2, Place(1), Place(6));
  EXPECT_TRUE(Find(*cache, 2).empty()) << "what is not cached stays so";
}

TEST(LookupCache, AReadersFindIsRefusedOnceTheGenerationMoved) {  // I2, I3
  TestCache cache(1 << 16);
  cache->Grow();
  const uint64_t before = cache->generation();
  cache.PutFound(1, Place(1), before);
  EXPECT_EQ(Find(*cache, 1), std::vector<PmPtr>{Place(1)});
  cache->AdvanceGeneration();
  EXPECT_NE(cache->generation(), before);
  cache.PutFound(1, Place(2), before);
  cache.PutFound(3, Place(3), before);
  EXPECT_EQ(Find(*cache, 1), std::vector<PmPtr>{Place(1)});
  EXPECT_TRUE(Find(*cache, 3).empty());
  cache.PutFound(3, Place(3), cache->generation());
  EXPECT_EQ(Find(*cache, 3), std::vector<PmPtr>{Place(3)});
}

TEST(LookupCache, HoldsNothingButTheLastPlaceOfAKey) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    TestCache cache(kBucketBytes << random.Uniform(8));
    std::map<uint64_t, PmPtr> last;
    std::map<uint64_t, uint64_t> owner;  // place to hash
    uint64_t found = 0;
    for (uint64_t i = 0; i < 20000; i++) {
      const uint64_t hash = Hash64(std::to_string(random.Uniform(2000)));
      const PmPtr place = Place(i);
      owner[place.word] = hash;
      if (cache->GrowthDue() && random.OneIn(8)) cache->Grow();
      if (random.OneIn(500)) cache->Shrink();
      if (random.OneIn(100)) cache.readers()->Collect();
      switch (random.Uniform(5)) {
        case 0:
          if (last.contains(hash)) cache->Remove(hash, last[hash]);
          last.erase(hash);
          break;
        case 1:
          if (last.contains(hash)) {
            cache.Replace(hash, last[hash], place);
            last[hash] = place;
          }
          break;
        case 2:
          cache.PutFound(hash, place, cache->generation());
          last[hash] = place;
          break;
        default:
          cache.Put(hash, place);
          last[hash] = place;
      }
      const uint64_t probe = Hash64(std::to_string(random.Uniform(2000)));
      for (const PmPtr at : Find(*cache, probe)) {
        // another key of the same hash bits: the caller compares keys (I1)
        if (owner[at.word] != probe) continue;
        ASSERT_TRUE(last.contains(probe) && last[probe] == at) << "step " << i;
        found++;
      }
    }
    EXPECT_GT(found, 0u);
  }
}

// Flush puts ever newer versions of keys in, readers put in what they found: what the cache holds
// of a key is its newest version or nothing, once that one is in. As in an engine, a version can be
// found by readers before the generation moves and it enters. Small caches, so that keys share
// buckets and push each other out.
TEST(LookupCache, ConcurrentReadersNeverBringAnOlderVersionBack) {
  for (const uint64_t buckets : {uint64_t{1}, uint64_t{4}, uint64_t{64}, uint64_t{4096}}) {
    EpochDomain epochs;
    constexpr uint64_t kKeys = 24;
    constexpr uint64_t kRounds = 3000;
    std::array<uint64_t, kKeys> hashes;
    for (uint64_t k = 0; k < kKeys; k++) hashes[k] = Hash64(std::to_string(k));
    std::array<std::atomic<uint64_t>, kKeys> newest{};  // version; its place says key and version
    const auto place_of = [](uint64_t key, uint64_t version) {
      return PmPtr(0, (version * kKeys + key + 1) * 8);
    };
    LookupCache cache(buckets * kBucketBytes, &epochs,
                      [&](std::span<const PmPtr> places, uint64_t* of) {
                        for (size_t i = 0; i < places.size(); i++)
                          of[i] = hashes[(places[i].offset() / 8 - 1) % kKeys];
                      });
    std::atomic<bool> stop{false};
    std::vector<std::thread> readers;
    for (uint64_t t = 0; t < 3; t++) {
      readers.emplace_back([&, t] {
        Random random(t);
        while (!stop.load(std::memory_order_relaxed)) {
          const uint64_t key = random.Uniform(kKeys);
          const EpochPin pin(&epochs);
          const bool cached = !Find(cache, hashes[key]).empty();
          const uint64_t generation = cache.generation();
          const uint64_t version = newest[key].load(std::memory_order_acquire);  // the search
          if (version != 0 && (!cached || random.OneIn(2)))
            cache.PutFound(hashes[key], place_of(key, version), generation);
        }
      });
    }
    uint64_t stale = 0;
    uint64_t held = 0;
    Random random(7);
    for (uint64_t round = 1; round <= kRounds; round++) {
      std::set<uint64_t> flushed;
      for (int i = 0; i < 4; i++) flushed.insert(random.Uniform(kKeys));
      for (const uint64_t key : flushed) newest[key].store(round, std::memory_order_release);
      cache.AdvanceGeneration();
      for (const uint64_t key : flushed) cache.Put(hashes[key], place_of(key, round));
      if (cache.GrowthDue()) cache.Grow();
      if (random.OneIn(50)) cache.Shrink();  // so that it grows again and again
      epochs.Collect();
      for (const uint64_t key : flushed) {
        for (const PmPtr at : Find(cache, hashes[key])) {
          held++;
          if ((at.offset() / 8 - 1) % kKeys == key && at != place_of(key, round)) stale++;
        }
      }
    }
    stop.store(true);
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(stale, 0u) << buckets << " buckets";
    EXPECT_GT(held, 0u);
  }
}

}  // namespace
}  // namespace lamella
