// What the second-chance cache holds where the system refuses memory: never what left L1 (I1 of
// index/second_chance_cache.h), for a merge would link what is newer after it.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "index/index_test_base.h"
#include "index/second_chance_cache.h"
#include "memory/refusing_new.h"

namespace lamella {
namespace {

class SecondChanceCacheMemory : public IndexTest {
 protected:
  SecondChanceCacheMemory() { CreateParts(2); }

  // Runs `call` with one of its first allocations refused, and perhaps all after it.
  template <class Call>
  void Refusing(Call&& call) {
    const bool all_behind = random_.OneIn(2);
    const auto nth = static_cast<int64_t>(random_.Uniform(3));
    refusals_ += testing::Refusing(nth, all_behind, call) ? 1 : 0;
  }

  Random random_{23};
  uint64_t refusals_ = 0;
};

// Where it drops short elements to make room, and cannot, it goes on being told of them.
TEST_F(SecondChanceCacheMemory, WhatLeftTheListIsNotHeld) {
  constexpr uint64_t kBytes = 48 << 10;
  uint32_t height_min = 1;
  for (int life = 0; life < 100; life++) {
    SecondChanceCache cache(pool_.get(), kBytes);
    Elements elements;
    for (uint64_t n = 1; n <= 1500; n++) {
      const OwnedKey key{testing::MakeKey(testing::KeyShape::kMixed, random_.Next()),
                         MakeTag(n, RecordKind::kPut)};
      const PmPtr place = AddElement(&random_, key, &elements);
      Refusing([&] { (void)cache.Insert(At(place), place); });
      if (elements.size() > 1000 || random_.OneIn(3)) {
        const auto gone =
            std::next(elements.begin(), static_cast<int64_t>(random_.Uniform(elements.size())));
        Refusing([&] { cache.Remove(At(gone->second), gone->second); });
        elements.erase(gone);
      }
      if (n % 250 != 0) continue;
      std::set<uint64_t> linked;
      for (const auto& [key_of, at] : elements) linked.insert(at.word);
      std::shared_ptr<const HeadTree> tree;
      cache.Renew(&tree);
      HeadTree::Iterator held(tree.get());
      for (held.SeekToFirst(); held.Valid(); held.Next())
        ASSERT_TRUE(linked.contains(held.entry().place().word))
            << "of height " << held.entry().height();
      pool_->readers()->Collect();
    }
    height_min = std::max(height_min, cache.height_min());
  }
  EXPECT_GT(refusals_, 200u) << "nothing was refused";
  EXPECT_GT(height_min, 1u) << "nothing was dropped to make room";
  pool_->readers()->Collect();
}

}  // namespace
}  // namespace lamella
