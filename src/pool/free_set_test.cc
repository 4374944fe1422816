#include "pool/free_set.h"

#include <algorithm>
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

TEST(FreeSet, TheNextRowsAreWarmedLowestFirstAndStayWarm) {
  FreeSet set;
  set.Add(10, 10);
  FreeSet::Outlook outlook = set.Look(3, 2);
  EXPECT_EQ(outlook.rows, 2u);
  EXPECT_EQ(outlook.cold, 10u);
  set.MarkWarm(10, 3);
  EXPECT_EQ(set.Look(3, 2).cold, 13u);
  set.MarkWarm(13, 3);
  EXPECT_EQ(set.Look(3, 2).cold, std::nullopt);
  EXPECT_EQ(set.Look(3, 9).rows, 3u);
  EXPECT_EQ(set.Look(3, 9).cold, 16u);
  EXPECT_EQ(set.Take(8), 10u);  // takes warm ones and cold ones
  set.Add(10, 8);
  EXPECT_EQ(set.Look(8, 1).cold, std::nullopt);  // all have been written to
  EXPECT_EQ(set.Look(11, 1).rows, 0u);
}

TEST(FreeSet, WhatIsCutOffIsForgotten) {
  FreeSet set;
  set.Add(10, 200);
  set.MarkWarm(10, 200);
  EXPECT_EQ(set.CountFrom(0), set.count());
  const uint32_t before_100 = set.count() - set.CountFrom(100);
  set.CutFrom(100);
  EXPECT_EQ(set.count(), before_100);
  EXPECT_EQ(set.count(), 90u);
  EXPECT_EQ(set.longest(), 90u);
  set.Add(100, 10);
  EXPECT_EQ(set.Look(10, 10).cold, 100u);
  set.CutFrom(0);
  EXPECT_EQ(set.count(), 0u);
  EXPECT_EQ(set.Take(1), std::nullopt);
}

TEST(FreeSet, RowsOfAnyLengthAreFoundInALargePart) {
  FreeSet set;
  constexpr uint32_t kChunks = 1 << 20;
  for (uint32_t at = 0; at < kChunks; at += 128) set.Add(at, 64 + at / 128 % 32);
  EXPECT_EQ(set.longest(), 95u);
  EXPECT_EQ(set.Take(95), 31u * 128);
  EXPECT_EQ(set.Take(94), 30u * 128);
  EXPECT_EQ(set.Take(96), std::nullopt);
  set.Add(kChunks, 100000);
  EXPECT_EQ(set.Take(70000), kChunks);
  EXPECT_EQ(set.Take(64), 0u);
}

TEST(FreeSet, AddingTwiceIsAnError) {
  FreeSet set;
  set.Add(4);
  EXPECT_DEATH(set.Add(4), "mask");
  EXPECT_DEATH(set.Add(3, 3), "mask");
}

TEST(FreeSet, AgreesWithASortedSet) {
  Random random(21);
  FreeSet set;
  std::set<uint32_t> model;
  const auto row_at = [&](uint32_t start) {
    uint32_t length = 0;
    while (model.contains(start + length)) length++;
    return length;
  };
  for (int i = 0; i < 20000; i++) {
    if (random.OneIn(1000)) {
      const auto end = static_cast<uint32_t>(random.Uniform(700));
      set.CutFrom(end);
      model.erase(model.lower_bound(end), model.end());
    } else if (random.OneIn(2)) {
      const auto first = static_cast<uint32_t>(random.Uniform(500));
      uint32_t count = 0;
      while (count < 1 + random.Uniform(150) && !model.contains(first + count)) count++;
      for (uint32_t k = 0; k < count; k++) model.insert(first + k);
      set.Add(first, count);
    } else {
      const auto run = static_cast<uint32_t>(1 + random.Uniform(random.OneIn(2) ? 4 : 140));
      std::optional<uint32_t> expected;
      uint32_t rows = 0;
      for (uint32_t at = 0; at < 700; at++) {
        if (row_at(at) < run) continue;
        if (!expected) expected = at;
        rows++;
        at += run - 1;
      }
      ASSERT_EQ(set.Look(run, 1000).rows, rows) << i;
      ASSERT_EQ(set.Take(run), expected) << i;
      for (uint32_t k = 0; expected && k < run; k++) model.erase(*expected + k);
    }
    ASSERT_EQ(set.count(), model.size());
    uint32_t longest = 0;
    if (i % 16 == 0) {
      for (uint32_t at = 0; at < 700; at++) longest = std::max(longest, row_at(at));
      ASSERT_EQ(set.longest(), longest);
    }
  }
}

}  // namespace
}  // namespace lamella
