#include "index/second_chance_cache.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "index/zipper_test_base.h"

namespace lamella {
namespace {

std::vector<PmPtr> HeldBy(const SecondChanceCache& cache) {
  std::vector<PmPtr> places;
  std::shared_ptr<const HeadTree> tree;
  cache.Renew(&tree);
  HeadTree::Iterator at(tree.get());
  for (at.SeekToFirst(); at.Valid(); at.Next()) places.push_back(at.entry().place());
  return places;
}

class SecondChanceCacheTest : public IndexTest {
 protected:
  SecondChanceCacheTest() { CreateParts(2); }
  ~SecondChanceCacheTest() override {
    cache_.reset();
    if (pool_) pool_->readers()->Collect();
  }

  void Start(uint64_t bytes) { cache_ = std::make_unique<SecondChanceCache>(pool_.get(), bytes); }
  PmPtr AtOrBefore(const Elements& elements, const OwnedKey& target) const {
    const auto behind = elements.upper_bound(target);
    return behind == elements.begin() ? PmPtr() : std::prev(behind)->second;
  }
  /// The elements that the cache should hold: those of at least its height, and, where it lets go
  /// of the next layer's, a third of those.
  Elements Tall(const Elements& elements) const {
    Elements tall;
    uint64_t next = 0;
    uint64_t next_held = 0;
    for (const auto& [key, place] : elements) {
      const bool kept = cache_->Keeps(At(place));
      const uint32_t height = At(place)->height();
      if (height >= cache_->height_min()) {
        EXPECT_TRUE(kept);
      } else if (height + 1 == cache_->height_min()) {
        next++;
        next_held += kept ? 1 : 0;
      } else {
        EXPECT_FALSE(kept);
      }
      if (kept) tall[key] = place;
    }
    if (next_held != 0 && next > 1000) {
      EXPECT_NEAR(static_cast<double>(next_held), static_cast<double>(next) / 3,
                  static_cast<double>(next) / 20);
    }
    return tall;
  }
  std::vector<PmPtr> Held() const { return HeldBy(*cache_); }

  std::unique_ptr<SecondChanceCache> cache_;
};

TEST_F(SecondChanceCacheTest, WithoutMemoryHoldsNothing) {
  Start(0);
  EXPECT_FALSE(cache_->enabled());
  const PmPtr place = Add("a", 1);
  cache_->Insert(At(place), place);
  EXPECT_EQ(cache_->FindAtOrBefore({"b", 1}), PmPtr());
  std::shared_ptr<const HeadTree> tree;
  EXPECT_FALSE(cache_->Renew(&tree));
  EXPECT_EQ(tree, nullptr);
  cache_->Remove(At(place), place);
}

TEST_F(SecondChanceCacheTest, WithMemoryForAllItFindsTheLastElementAtOrBefore) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Start(64 << 20);
    Elements elements = RandomElements(&random, KeyShape::kMixed, 1500, 500);
    for (const auto& [key, place] : elements) cache_->Insert(At(place), place);
    EXPECT_EQ(cache_->height_min(), 1u);
    for (int i = 0; i < 3000; i++) {
      const OwnedKey target{testing::MakeNearKey(KeyShape::kMixed, &random, 500),
                            MakeTag(random.Uniform(1600), RecordKind::kPut)};
      ASSERT_EQ(cache_->FindAtOrBefore(target.view()), AtOrBefore(elements, target));
      if (!random.OneIn(4) || elements.empty()) continue;
      auto at = elements.lower_bound(target);
      if (at == elements.end()) --at;
      cache_->Remove(At(at->second), at->second);  // I1
      elements.erase(at);
    }
    EXPECT_EQ(Held(), PlacesOf(elements));
  }
}

TEST_F(SecondChanceCacheTest, ARelocatedElementTakesItsNewPlace) {
  Start(1 << 20);
  const PmPtr from = Add("a", 1);
  const PmPtr to = Add("a", 1);
  cache_->Insert(At(from), from);
  cache_->Insert(At(to), to);
  EXPECT_EQ(Held(), std::vector<PmPtr>{to});
  cache_->Remove(At(from), from);
  EXPECT_EQ(Held(), std::vector<PmPtr>{to}) << "the original is not what it holds any more";
  cache_->Remove(At(to), to);
  EXPECT_TRUE(Held().empty());
}

TEST_F(SecondChanceCacheTest, ShortElementsGoFirstAndMemoryStaysWithinItsBound) {
  for (const uint64_t bytes : {uint64_t{512} << 10, uint64_t{1} << 20}) {
    Random random(5);
    Start(bytes);
    Elements elements;
    uint32_t height_before = 1;
    bool was_halved = false;
    for (int round = 0; round < 12; round++) {
      const Elements more =
          RandomElements(&random, KeyShape::kCommonPrefix, 4000, 10'000'000, 1 + round * 4000);
      for (const auto& [key, place] : more) {
        cache_->Insert(At(place), place);
        elements[key] = place;
        ASSERT_LE(cache_->memory_bytes(), bytes);
      }
      EXPECT_GE(cache_->height_min(), height_before);
      height_before = cache_->height_min();
      EXPECT_EQ(Held(), PlacesOf(Tall(elements)))
          << "everything from its height on, and nothing below";
      was_halved = was_halved || cache_->height_min() > 1;
      if (was_halved) {
        EXPECT_GT(cache_->memory_bytes(), bytes * 2 / 5) << "it uses the memory it has";
      }
    }
    EXPECT_TRUE(was_halved);
    EXPECT_LT(cache_->height_min(), 5u);
    pool_->readers()->Collect();
  }
}

// A store that is opened anew may merge before its cache is warmed.
TEST_F(SecondChanceCacheTest, WarmingDropsWhatIsTooShortByThen) {  // I5
  Random random(6);
  Start(64 << 10);
  const Elements early = RandomElements(&random, KeyShape::kMixed, 200, 10'000);
  for (const auto& [key, place] : early) cache_->Insert(At(place), place);
  ASSERT_EQ(Held(), PlacesOf(early));
  Elements all = RandomElements(&random, KeyShape::kMixed, 6000, 1'000'000, 1000);
  all.insert(early.begin(), early.end());
  TestList list(pool_.get(), false);
  Link(all, &list.list);
  cache_->Warm(list.list, all.size());
  EXPECT_GT(cache_->height_min(), 1u);
  EXPECT_EQ(Held(), PlacesOf(Tall(all)));
  for (const auto& [key, place] : all) cache_->Remove(At(place), place);
  EXPECT_TRUE(Held().empty());
  pool_->readers()->Collect();
}

TEST_F(SecondChanceCacheTest, EmptiedLeavesAreNoReasonToDropElements) {
  Random random(8);
  const uint64_t bytes = 1 << 20;
  Start(bytes);
  // A window of elements moves through the keys: few are held at a time, but the tree keeps its
  // emptied leaves.
  Elements window;
  uint64_t sequence = 1;
  for (uint64_t n = 0; n < 60000; n++) {
    const PmPtr place = AddElement(
        &random,
        {testing::MakeKey(KeyShape::kCommonPrefix, n), MakeTag(sequence++, RecordKind::kPut)},
        &window);
    cache_->Insert(At(place), place);
    if (window.size() > 500) {
      cache_->Remove(At(window.begin()->second), window.begin()->second);
      window.erase(window.begin());
    }
    if (n % 1000 == 0) pool_->readers()->Collect();
  }
  EXPECT_EQ(cache_->height_min(), 1u);
  EXPECT_LE(cache_->memory_bytes(), bytes);
  EXPECT_EQ(Held(), PlacesOf(window));
}

// Of long keys a tree takes more for each entry than it does else: it copies one for each leaf. So
// fewer are held; a tree made anew of all of them, at each insert, would be as large again.
TEST_F(SecondChanceCacheTest, LongKeysAreHeldWithinTheBoundToo) {
  Random random(18);
  constexpr size_t kKeyBytes = 8 << 10;
  const uint64_t bytes = 256 << 10;
  Start(bytes);
  Elements elements;
  for (uint64_t n = 0; n < 1500; n++) {
    std::string key = testing::MakeKey(KeyShape::kCommonPrefix, n);
    key.resize(kKeyBytes, 'k');
    const PmPtr place =
        AddElement(&random, {std::move(key), MakeTag(n + 1, RecordKind::kPut)}, &elements);
    cache_->Insert(At(place), place);
    ASSERT_LE(cache_->memory_bytes(), bytes) << n;
    pool_->readers()->Collect();
  }
  EXPECT_EQ(Held(), PlacesOf(Tall(elements)));
  cache_->SetBytesMax(bytes / 4);
  cache_->Shrink();
  EXPECT_FALSE(cache_->IsTooLarge());
  EXPECT_EQ(Held(), PlacesOf(Tall(elements)));
  EXPECT_FALSE(Held().empty());
}

TEST_F(SecondChanceCacheTest, ATreeOutlivesTheSwapAndIsAnotherThen) {  // I2
  Start(1 << 20);
  const PmPtr place = Add("a", 1);
  cache_->Insert(At(place), place);
  std::shared_ptr<const HeadTree> tree;
  EXPECT_TRUE(cache_->Renew(&tree));
  EXPECT_FALSE(cache_->Renew(&tree)) << "still the same";
  const auto old = tree;
  cache_->Clear();
  pool_->readers()->Collect();
  EXPECT_EQ(cache_->FindAtOrBefore({"b", 1}), PmPtr());
  HeadTree::Entry entry;
  ASSERT_TRUE(old->FindAtOrBefore({"b", 1}, &entry));
  EXPECT_EQ(entry.place(), place);
  EXPECT_TRUE(cache_->Renew(&tree));
  EXPECT_NE(tree, old);
  EXPECT_FALSE(tree->FindAtOrBefore({"b", 1}, &entry));
}

TEST_F(SecondChanceCacheTest, ConcurrentReadersFindOnlyWhatIsHeldWhileItMakesRoom) {
  Random random(9);
  Start(256 << 10);
  const Elements elements = RandomElements(&random, KeyShape::kCommonPrefix, 20000, 10'000'000);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> found{0};
  std::vector<std::thread> readers;
  for (uint64_t t = 0; t < 2; t++) {
    readers.emplace_back([&, t] {
      Random r(t);
      while (!stop.load()) {
        const std::string key = testing::MakeKey(KeyShape::kCommonPrefix, r.Uniform(10'000'000));
        const EpochPin pin(pool_->readers());
        const PmPtr place = cache_->FindAtOrBefore({key, kTagFirst});
        if (!place) continue;
        found++;
        if (At(place)->key() > key) wrong++;
      }
    });
  }
  for (int round = 0; round < 3; round++) {
    for (const auto& [key, place] : elements) {
      cache_->Insert(At(place), place);
      if (place.offset() % 512 == 0) pool_->readers()->Collect();
    }
    while (found.load() == 0) std::this_thread::yield();
    cache_->Clear();
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(cache_->height_min(), 1u);
}

// Keys rise and the smallest go: emptied leaves are given back.
// It has nothing to give back: who is to, and asks whether it has, would ask for ever.
TEST_F(SecondChanceCacheTest, AnEmptyOneIsNotTooLarge) {
  MemoryBudget budget(1 << 20);
  const MemoryAccount other(&budget);
  MemoryAccount memory(&budget);
  cache_ = std::make_unique<SecondChanceCache>(pool_.get(), 100, &memory);
  memory.Charge(2 << 20);
  ASSERT_TRUE(memory.MustShrink());
  for (int i = 0; i < 1000; i++) {
    const PmPtr place = Add(std::to_string(i), 1);
    cache_->Insert(At(place), place);
  }
  cache_->Shrink();
  EXPECT_FALSE(cache_->IsTooLarge());
  memory.Release(2 << 20);
  cache_.reset();
  pool_->readers()->Collect();
}

TEST_F(SecondChanceCacheTest, AQueueThroughItLeavesNoEmptiedLeaves) {
  Start(64 << 20);
  cache_->BeginWithAll();
  Elements elements;
  std::vector<PmPtr> places;
  for (uint64_t i = 0; i < 20000; i++) {
    const PmPtr place = Add({.tag = MakeTag(i + 1, RecordKind::kPut),
                             .key = testing::MakeKey(KeyShape::kCommonPrefix, i),
                             .value = {},
                             .height = 1},
                            0);
    places.push_back(place);
    cache_->Insert(At(place), place);
    if (i >= 100) cache_->Remove(At(places[i - 100]), places[i - 100]);
  }
  EXPECT_LT(cache_->memory_bytes(), 1u << 20);
  EXPECT_EQ(Held().size(), 100u);
  HeadTree::Entry entry;
  for (uint64_t i = 0; i < places.size(); i++) {
    const bool has = i + 100 >= places.size();
    // Unknown where only emptied leaves are near.
    ASSERT_EQ(cache_->FindVersion(At(places[i])->internal_key(), &entry) ==
                  SecondChanceCache::Answer::kFound,
              has)
        << i;
  }
}

TEST_F(SecondChanceCacheTest, WarmsWithTheElementsThatAreLinkedInAllTheirLayers) {  // I1
  for (uint64_t seed = 1; seed <= 6; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Start(64 << 20);
    TestList upper(pool_.get(), seed % 2 == 0);
    const PmSkipList& list = upper.list;
    Elements whole = RandomElements(&random, KeyShape::kMixed, 1000, 500);
    Link(whole, &upper.list);
    std::erase_if(whole, [&](const auto& element) {
      Record* record = At(element.second);
      if (record->height() == 1 || !random.OneIn(5)) return false;
      // What a crash leaves of linking or unlinking it.
      const uint32_t lane = list.Lane(element.second);
      for (auto layer = 1 + static_cast<uint32_t>(random.Uniform(record->height() - 1));
           layer < record->height(); layer++) {
        PmPtr before;
        while (list.Next(before, lane, layer) != element.second)
          before = list.Next(before, lane, layer);
        list.Link(before, lane, layer)->store(record->link_word(layer));
      }
      return true;
    });
    cache_->Warm(list, whole.size());
    EXPECT_EQ(Held(), PlacesOf(whole));
  }
}

// Of a list that it holds whole, the cache answers for it, and says that it cannot once it does
// not.
TEST_F(SecondChanceCacheTest, AnswersForTheListAsLongAsItHoldsAllOfIt) {  // I3
  for (const bool by_walk : {false, true}) {
    SCOPED_TRACE(by_walk);
    Random random(by_walk ? 3 : 4);
    Start(64 << 20);
    TestList upper(pool_.get(), true);
    const Elements all = RandomElements(&random, KeyShape::kMixed, 2000, 700);
    Link(all, &upper.list);
    HeadTree::Entry entry;
    EXPECT_EQ(cache_->FindVersion({"a", kTagFirst}, &entry), SecondChanceCache::Answer::kUnknown);
    if (by_walk) {
      cache_->Warm(upper.list, all.size());
    } else {
      cache_->BeginWithAll();
      for (const auto& [key, place] : all) cache_->Insert(At(place), place);
    }
    int found = 0;
    for (uint64_t i = 0; i < 3000; i++) {
      const std::string key = MakeKey(KeyShape::kMixed, random.Uniform(1000));
      const InternalKey target{key, SeekTag(random.Uniform(3000))};
      const auto after = all.lower_bound({key, target.tag});
      const bool has = after != all.end() && after->first.user_key == key;
      ASSERT_EQ(cache_->FindVersion(target, &entry),
                has ? SecondChanceCache::Answer::kFound : SecondChanceCache::Answer::kAbsent);
      if (has) {
        EXPECT_EQ(entry.place(), after->second);
      }
      found += has ? 1 : 0;
    }
    EXPECT_GT(found, 100);
    EXPECT_LT(found, 2900);
  }
  // Not where short elements went for want of room, nor where a crash left one out of a layer, nor
  // after damage.
  Random random(5);
  TestList upper(pool_.get(), true);
  const Elements all = RandomElements(&random, KeyShape::kMixed, 2000, 700);
  Link(all, &upper.list);
  HeadTree::Entry entry;
  Start(16 << 10);
  cache_->BeginWithAll();
  for (const auto& [key, place] : all) cache_->Insert(At(place), place);
  EXPECT_EQ(cache_->FindVersion({"a", kTagFirst}, &entry), SecondChanceCache::Answer::kUnknown);
  const auto tall = std::find_if(all.begin(), all.end(), [this](const auto& element) {
    return At(element.second)->height() == 2;
  });
  ASSERT_NE(tall, all.end());
  const PmPtr left_out = tall->second;
  PmPtr before;
  const uint32_t lane = upper.list.Lane(left_out);
  while (upper.list.Next(before, lane, 1) != left_out) before = upper.list.Next(before, lane, 1);
  const uint64_t link = upper.list.Link(before, lane, 1)->load();
  upper.list.Link(before, lane, 1)->store(At(left_out)->link_word(1));
  Start(64 << 20);
  cache_->Warm(upper.list, all.size());
  EXPECT_EQ(cache_->FindVersion({"a", kTagFirst}, &entry), SecondChanceCache::Answer::kUnknown);
  upper.list.Link(before, lane, 1)->store(link);
  const auto last = std::prev(all.end());
  At(std::prev(last)->second)->link(0)->store(0x1234);  // no link
  Start(64 << 20);
  cache_->Warm(upper.list, all.size());
  EXPECT_EQ(cache_->FindVersion({"a", kTagFirst}, &entry), SecondChanceCache::Answer::kUnknown);
}

class WarmTest : public ZipperTest {
 protected:
  /// False: the power was cut at the fence.
  template <class Run>
  bool Finishes(uint64_t fence, Random* random, Run&& run) {
    medium_.CutAt(fence);
    bool finished = true;
    try {
      run();
    } catch (const Crash&) {
      finished = false;
    }
    medium_.CutAt(0);
    if (!finished) medium_.LosePower(random);
    return finished;
  }
  /// Takes half of the lower list's elements out of it, and of the cache, as gc does.
  void UnlinkSome(Random* random, SecondChanceCache* cache, std::set<uint64_t>* unlinked) {
    Observer observer;
    PmPtr before;
    for (const PmPtr place : Walk(*lower_, SIZE_MAX)) {
      if (random->OneIn(2)) {
        before = place;
        continue;
      }
      ASSERT_TRUE(Zipper(lower_.get(), &*persister_, &observer).Unlink(before, place));
      cache->Remove(At(place), place);
      unlinked->insert(place.word);
    }
  }
};

// Of a merge and of unlinking that were cut short, elements stay that are linked in their lower
// layers only. What their links above lead to may be unlinked, and its chunk freed, without their
// being told.
TEST_F(WarmTest, AfterACrashNoSearchFromWhatItHoldsMeetsWhatWasUnlinkedSince) {  // I1
  for (uint64_t seed = 1; seed <= 8; seed++) {
    Random random(seed);
    StartAnew(seed % 2 == 0 ? 2 : 1, seed % 2 == 0);
    Fill(&random, 120, 100);
    const Elements upper = NewUpper(&random, 40, 100);
    medium_.Watch(*pool_);
    bool finished = false;
    for (uint64_t fence = 1; !finished; fence++) {
      SCOPED_TRACE(Concat("seed ", seed, " fence ", fence));
      medium_.Restore();
      const auto merge = [&] {
        Observer observer;
        EXPECT_TRUE(Merge(Walk(upper_->list, upper.size()), &observer).ok());
      };
      finished = Finishes(fence, &random, merge);
      if (!finished) merge();
      std::set<uint64_t> unlinked;
      if (random.OneIn(2)) {
        SecondChanceCache none(pool_.get(), 0);
        Finishes(1 + random.Uniform(60), &random, [&] { UnlinkSome(&random, &none, &unlinked); });
        unlinked.clear();  // some of them, and lost with the power
      }
      SecondChanceCache cache(pool_.get(), 1 << 20);
      cache.Warm(*lower_, 120);
      EXPECT_FALSE(HeldBy(cache).empty());
      UnlinkSome(&random, &cache, &unlinked);
      for (const PmPtr place : HeldBy(cache)) {
        for (uint32_t layer = 0; layer < At(place)->height(); layer++) {
          const PmPtr next = lower_->Next(place, lower_->Lane(place), layer);
          ASSERT_FALSE(unlinked.contains(next.word)) << At(place)->key() << ", layer " << layer;
        }
      }
    }
    medium_.Stop();
  }
}

}  // namespace
}  // namespace lamella
