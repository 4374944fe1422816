#include "pool/free_set.h"

#include <set>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

TEST(FreeSet, GivesTheLowestFirst) {
  FreeSet set;
  EXPECT_EQ(set.Take(1), std::nullopt);
  for (uint32_t index : {200u, 3u, 64u}) set.Add(index);
  EXPECT_EQ(set.count(), 3u);
  EXPECT_EQ(set.Take(1), 3u);
  EXPECT_EQ(set.Take(1), 64u);
  set.Add(5);
  EXPECT_EQ(set.Take(1), 5u);
  EXPECT_EQ(set.Take(1), 200u);
  EXPECT_EQ(set.Take(1), std::nullopt);
  EXPECT_EQ(set.count(), 0u);
}

TEST(FreeSet, ARunIsTheLowestRowThatIsLongEnough) {
  FreeSet set;
  for (uint32_t index : {2u, 3u, 10u, 11u, 12u, 63u, 64u, 65u, 66u}) set.Add(index);
  EXPECT_EQ(set.Take(5), std::nullopt);
  EXPECT_EQ(set.Take(4), 63u);  // across words
  EXPECT_EQ(set.Take(3), 10u);
  EXPECT_EQ(set.Take(1), 2u);
  EXPECT_EQ(set.count(), 1u);
}

TEST(FreeSet, RowBeforeMeasuresTheEnd) {
  FreeSet set;
  for (uint32_t index : {7u, 8u, 9u}) set.Add(index);
  EXPECT_EQ(set.RowBefore(10), 3u);
  EXPECT_EQ(set.RowBefore(9), 2u);
  EXPECT_EQ(set.RowBefore(11), 0u);
  EXPECT_EQ(set.RowBefore(0), 0u);
}

TEST(FreeSet, ColdOnesAreWarmedLowestFirstAndStayWarm) {
  FreeSet set;
  for (uint32_t index = 10; index < 20; index++) set.Add(index);
  EXPECT_EQ(set.warm_count(), 0u);
  EXPECT_EQ(set.WarmNext(2), 10u);
  EXPECT_EQ(set.WarmNext(2), 11u);
  EXPECT_EQ(set.WarmNext(2), std::nullopt);
  EXPECT_EQ(set.warm_count(), 2u);
  EXPECT_EQ(set.Take(3), 10u);  // takes two warm ones and a cold one
  EXPECT_EQ(set.warm_count(), 0u);
  for (uint32_t index = 10; index < 13; index++) set.Add(index);
  EXPECT_EQ(set.warm_count(), 3u);  // all three have been written to
}

TEST(FreeSet, AddingTwiceIsAnError) {
  FreeSet set;
  set.Add(4);
  EXPECT_DEATH(set.Add(4), "Has");
}

TEST(FreeSet, AgreesWithASortedSet) {
  Random random(21);
  FreeSet set;
  std::set<uint32_t> model;
  for (int i = 0; i < 20000; i++) {
    if (random.OneIn(2)) {
      const auto index = static_cast<uint32_t>(random.Uniform(300));
      if (model.insert(index).second) set.Add(index);
    } else {
      const auto run = static_cast<uint32_t>(1 + random.Uniform(4));
      std::optional<uint32_t> expected;
      for (uint32_t start : model) {
        bool whole = true;
        for (uint32_t k = 1; k < run; k++) whole &= model.contains(start + k);
        if (whole) {
          expected = start;
          break;
        }
      }
      ASSERT_EQ(set.Take(run), expected) << i;
      for (uint32_t k = 0; expected && k < run; k++) model.erase(*expected + k);
    }
    ASSERT_EQ(set.count(), model.size());
    ASSERT_LE(set.warm_count(), set.count());
  }
}

}  // namespace
}  // namespace lamella
