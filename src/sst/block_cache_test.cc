#include "sst/block_cache.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sst/sst_test_base.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

using testing::KeyShape;
using testing::TestSeed;

constexpr uint64_t kEntryBytesMax = 4096 + 400;

std::shared_ptr<const Block> BlockOf(uint64_t number, size_t bytes = 4096) {
  auto memory = std::make_unique_for_overwrite<char[]>(bytes);
  std::memset(memory.get(), 0, bytes);
  std::memcpy(memory.get(), &number, sizeof(number));
  const std::string_view content(memory.get(), bytes);
  return std::make_shared<const Block>(std::move(memory), bytes, content, BlockKind::kProperties,
                                       0);
}
uint64_t NumberOf(const Block& block) {
  uint64_t number;
  std::memcpy(&number, block.content().data(), sizeof(number));
  return number;
}

TEST(BlockCache, FindsWhatWasPutInByTableAndPlace) {
  BlockCache cache(16 << 20);
  const uint64_t one = cache.NewTable();
  const uint64_t other = cache.NewTable();
  EXPECT_NE(one, other);
  cache.Insert(one, 4096, BlockOf(1), false);
  cache.Insert(other, 4096, BlockOf(2), false);
  cache.Insert(one, 8192, BlockOf(3), true);
  cache.Insert(one, 4096, BlockOf(9), false);  // the first stays
  EXPECT_EQ(NumberOf(*cache.Find(one, 4096)), 1u);
  EXPECT_EQ(NumberOf(*cache.Find(other, 4096)), 2u);
  EXPECT_EQ(NumberOf(*cache.Find(one, 8192)), 3u);
  EXPECT_EQ(cache.Find(other, 8192), nullptr);
  EXPECT_EQ(cache.figures().hits, 3u);
  EXPECT_EQ(cache.figures().misses, 1u);
  EXPECT_EQ(cache.figures().blocks, 3u);
  cache.Drop(one);
  EXPECT_EQ(cache.Find(one, 4096), nullptr);
  EXPECT_EQ(NumberOf(*cache.Find(other, 4096)), 2u);
  EXPECT_EQ(cache.figures().blocks, 1u);
}

TEST(BlockCache, WhatIsReplacedIsThere) {
  MemoryBudget budget(100 << 20);
  MemoryAccount account(&budget);
  BlockCache cache(16 << 20, &account);
  cache.Replace(1, 4096, BlockOf(1), false);  // of nothing
  EXPECT_EQ(NumberOf(*cache.Peek(1, 4096)), 1u);
  const std::shared_ptr<const Block> before = cache.Find(1, 4096);
  for (const size_t bytes : {4096, 100, 5000}) {
    cache.Replace(1, 4096, BlockOf(bytes, bytes), false);
    EXPECT_EQ(NumberOf(*cache.Peek(1, 4096)), bytes);
    EXPECT_EQ(cache.figures().blocks, 1u);
    EXPECT_EQ(account.held(), cache.figures().bytes);
  }
  EXPECT_EQ(NumberOf(*before), 1u);
  EXPECT_EQ(cache.Peek(1, 8192), nullptr);
  EXPECT_EQ(cache.figures().hits, 1u);  // who peeks is not counted
  EXPECT_EQ(cache.figures().misses, 0u);
}

TEST(BlockCache, ATableThatGoesTakesItsBlocksAlone) {
  BlockCache cache(16 << 20);
  Random random(TestSeed());
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> model;
  for (uint64_t i = 0; i < 20000; i++) {
    const uint64_t table = random.Uniform(50);
    if (random.OneIn(300)) {
      cache.Drop(table);
      std::erase_if(model, [&](const auto& at) { return at.first.first == table; });
    } else {
      const uint64_t place = random.Uniform(40);
      cache.Replace(table, place, BlockOf(i, 100 + random.Uniform(10)), random.OneIn(2));
      model[{table, place}] = i;
    }
    if (i % 100 != 0) continue;
    ASSERT_EQ(cache.figures().blocks, model.size());
    for (const auto& [key, number] : model) {
      const auto found = cache.Peek(key.first, key.second);
      ASSERT_NE(found, nullptr);
      ASSERT_EQ(NumberOf(*found), number);
    }
  }
  EXPECT_EQ(cache.figures().evictions, 0u);
}

// C1, C2.
TEST(BlockCache, KeepsToItsBytesAndChargesThem) {
  MemoryBudget budget(100 << 20);
  MemoryAccount account(&budget);
  Random random(TestSeed());
  {
    BlockCache cache(4 << 20, &account);
    for (uint64_t i = 0; i < 5000; i++) {
      cache.Insert(1, i * 4096, BlockOf(i, 100 + random.Uniform(10000)), random.OneIn(10));
      const auto found = cache.Find(1, random.Uniform(i + 1) * 4096);
      const BlockCache::Figures figures = cache.figures();
      ASSERT_LE(figures.bytes, 4u << 20);
      ASSERT_EQ(account.held(), figures.bytes);
    }
    EXPECT_GT(cache.figures().bytes, 3u << 20);
    EXPECT_GT(cache.figures().evictions, 1000u);
    const std::shared_ptr<const Block> held = BlockOf(77);
    cache.Insert(2, 0, held, false);
    cache.Insert(2, 4096, BlockOf(78, (4 << 20) / BlockCache::kShardCount), false);
    EXPECT_EQ(cache.Find(2, 4096), nullptr);
    cache.Resize(1 << 20);
    EXPECT_LE(cache.figures().bytes, 1u << 20);
    cache.Resize(0);
    EXPECT_EQ(cache.figures().bytes, 0u);
    EXPECT_EQ(cache.figures().blocks, 0u);
    EXPECT_EQ(account.held(), 0u);
    EXPECT_EQ(NumberOf(*held), 77u);
    cache.Resize(1 << 20);
    cache.Insert(2, 0, held, false);
    EXPECT_EQ(cache.Find(2, 0), held);
  }
  EXPECT_EQ(account.held(), 0u);
}

// What is used again and again survives a scan of many times the cache; what a scan alone brought
// does not.
TEST(BlockCache, AScanLeavesWhatOthersUse) {
  BlockCache cache(2 << 20);
  const uint64_t hot = (1 << 20) / kEntryBytesMax;
  for (int round = 0; round < 2; round++) {
    for (uint64_t i = 0; i < hot; i++) {
      if (cache.Find(1, i * 4096) == nullptr) cache.Insert(1, i * 4096, BlockOf(i), false);
    }
  }
  cache.Insert(3, 0, BlockOf(0), true);
  for (uint64_t i = 0; i < 10000; i++) cache.Insert(2, i * 4096, BlockOf(i), false);
  uint64_t survived = 0;
  for (uint64_t i = 0; i < hot; i++) survived += cache.Find(1, i * 4096) != nullptr ? 1 : 0;
  EXPECT_GT(survived, hot * 9 / 10);
  EXPECT_NE(cache.Find(3, 0), nullptr);  // an index block
  uint64_t scanned = 0;
  for (uint64_t i = 0; i < 9000; i++) scanned += cache.Find(2, i * 4096) != nullptr ? 1 : 0;
  EXPECT_EQ(scanned, 0u);
}

TEST(BlockCache, WhatIsNoLongerUsedGoesInTheEnd) {
  BlockCache cache(2 << 20);
  const uint64_t blocks = (1 << 20) / kEntryBytesMax;
  for (uint64_t table = 1; table <= 10; table++) {
    for (int round = 0; round < 2; round++) {
      for (uint64_t i = 0; i < blocks; i++) {
        if (cache.Find(table, i * 4096) == nullptr)
          cache.Insert(table, i * 4096, BlockOf(i), false);
      }
    }
  }
  EXPECT_EQ(cache.Find(1, 0), nullptr);
  EXPECT_NE(cache.Find(10, 0), nullptr);
}

// Of blocks in the second list those that are asked for meanwhile stay, though none of them moves.
TEST(BlockCache, WhatIsAskedForStaysAmongWhatIsReused) {
  BlockCache cache(2 << 20);
  const uint64_t half = (600 << 10) / kEntryBytesMax;
  const auto use = [&](uint64_t table) {
    for (int round = 0; round < 2; round++) {
      for (uint64_t i = 0; i < half; i++) {
        if (cache.Find(table, i * 4096) == nullptr)
          cache.Insert(table, i * 4096, BlockOf(i), false);
      }
    }
  };
  const auto kept = [&](uint64_t table) {
    uint64_t blocks = 0;
    for (uint64_t i = 0; i < half; i++) blocks += cache.Find(table, i * 4096) != nullptr ? 1 : 0;
    return blocks;
  };
  use(1);
  use(2);
  for (uint64_t table = 3; table < 13; table++) {
    ASSERT_GT(kept(1), half * 9 / 10) << table;
    use(table);
  }
  EXPECT_LT(kept(2), half / 10);
}

// C3.
TEST(BlockCache, GivesBackWhereTheBudgetIsShort) {
  MemoryBudget budget(4 << 20);
  MemoryAccount mine(&budget);
  MemoryAccount other(&budget);
  BlockCache cache(64 << 20, &mine);
  for (uint64_t i = 0; i < 2000; i++) cache.Insert(1, i * 4096, BlockOf(i), false);
  const uint64_t alone = cache.figures().bytes;
  EXPECT_GT(alone, 3u << 20);
  EXPECT_LE(budget.used(), 4u << 20);
  other.Charge(2 << 20);
  for (uint64_t i = 2000; i < 4000; i++) cache.Insert(1, i * 4096, BlockOf(i), false);
  EXPECT_LE(cache.figures().bytes, (2u << 20) + kEntryBytesMax);
  EXPECT_GT(cache.figures().bytes, 1u << 20);
  EXPECT_EQ(mine.held(), cache.figures().bytes);
}

TEST(BlockCache, ConcurrentUsersFindWhatIsRight) {
  MemoryBudget budget(8 << 20);
  MemoryAccount account(&budget);
  BlockCache cache(1 << 20, &account);
  std::atomic<uint64_t> wrong{0};
  const auto use = [&](uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < 20000; i++) {
      const uint64_t table = 1 + random.Uniform(3);
      const uint64_t number = random.Uniform(600);
      std::shared_ptr<const Block> block = cache.Find(table, number * 4096);
      if (block == nullptr) {
        block = BlockOf(table * 1000 + number);
        cache.Insert(table, number * 4096, block, random.OneIn(20));
      } else if (random.OneIn(50)) {
        block = BlockOf(table * 1000 + number, 4096 - random.Uniform(2) * 100);
        cache.Replace(table, number * 4096, block, false);
      }
      if (NumberOf(*block) != table * 1000 + number) wrong++;
      if (random.OneIn(3000)) cache.Drop(table);
      if (random.OneIn(3000)) cache.Resize((1 + random.Uniform(3)) << 19);
    }
  };
  const uint64_t seed = TestSeed();
  std::thread other(use, seed);
  std::thread third(use, seed + 1);
  use(seed + 2);
  other.join();
  third.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(account.held(), cache.figures().bytes);
}

class SstConcurrency : public SstTestBase {};

TEST_F(SstConcurrency, ConcurrentReadersOfOneTableAndOneCache) {
  Random random(TestSeed());
  const RecordMap records =
      RandomRecords(&random, {.keys = KeyShape::kMixed, .count = 3000, .compressible = true});
  options_.codec = BlockCodec::kZstd;
  const auto cache = std::make_shared<BlockCache>(200000);  // less than the table
  reading_.cache = cache;
  std::vector<SstLocation> locations;
  const std::shared_ptr<const Sst> sst = Made(records, &locations);
  ASSERT_NE(sst, nullptr);
  std::vector<RecordMap::const_iterator> all;
  for (auto at = records.begin(); at != records.end(); ++at) all.push_back(at);
  std::atomic<uint64_t> wrong{0};
  const auto read = [&](uint64_t seed) {
    Random mine(seed);
    const auto it = Sst::NewIterator(sst, {});
    for (int i = 0; i < 1500; i++) {
      const size_t number = mine.Uniform(all.size());
      const auto& [key, value] = *all[number];
      if (!GetDifference(*sst, records, key.user_key, TagSequence(key.tag)).empty()) wrong++;
      std::string found_key;
      SstRecord found;
      if (!sst->ReadAt(locations[number], true, &found_key, &found).ok() || found.value != value)
        wrong++;
      it->Seek(key.view());
      for (size_t k = number; k < std::min(number + 20, all.size()); k++, it->Next()) {
        if (!it->Valid() || it->value() != all[k]->second) {
          wrong++;
          break;
        }
      }
    }
  };
  const uint64_t seed = TestSeed();
  std::thread other(read, seed);
  read(seed + 1);
  other.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(cache->figures().hits, 0u);
  EXPECT_GT(cache->figures().evictions, 0u);
}

}  // namespace
}  // namespace lamella
