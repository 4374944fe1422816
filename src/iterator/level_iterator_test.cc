#include "iterator/level_iterator.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "iterator/test_iterators.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

/// Tables cut between user keys from one map, and an iterator over all of them.
struct Level {
  explicit Level(const std::vector<RecordMap>& cut) {
    for (const RecordMap& records : cut) tables.push_back({.records = records});
    iterator = NewLevelIterator(
        tables.size(),
        [this](size_t i) -> std::string_view { return tables[i].records.rbegin()->first.user_key; },
        [this](size_t i) {
          opened++;
          auto it = std::make_unique<LiveIterator>(&tables[i]);
          if (i == failing) it->FailAfter(1);
          return it;
        });
  }
  std::vector<LiveTable> tables;
  size_t failing = SIZE_MAX;
  int opened = 0;
  std::unique_ptr<InternalIterator> iterator;
};

OwnedKey Of(std::string_view key, uint64_t sequence) {
  return {std::string(key), MakeTag(sequence, RecordKind::kPut)};
}

void ExpectSame(const InternalIterator& is, const InternalIterator& should) {
  ASSERT_EQ(is.Valid(), should.Valid());
  ASSERT_TRUE(is.status().ok());
  if (!is.Valid()) return;
  ASSERT_EQ(CompareInternal(is.key(), should.key()), 0);
  ASSERT_EQ(is.value(), should.value());
}

TEST(LevelIterator, OfNoTableIsAnEmptyWalk) {
  Level level({});
  level.iterator->SeekToFirst();
  EXPECT_FALSE(level.iterator->Valid());
  level.iterator->SeekToLast();
  EXPECT_FALSE(level.iterator->Valid());
  level.iterator->SeekForPrev({"a", kTagFirst});
  EXPECT_FALSE(level.iterator->Valid());
  EXPECT_TRUE(level.iterator->status().ok());
}

// Any way of moving shows the same as one table that holds all of it.
TEST(LevelIterator, WalksLikeOneTable) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 200; round++) {
    LiveTable whole;
    std::vector<RecordMap> cut(1);
    const uint64_t keys = testing::Between(&random, 1, 40);
    for (uint64_t i = 0; i < keys; i++) {
      if (!cut.back().empty() && random.Uniform(4) == 0) cut.emplace_back();
      for (uint64_t version = testing::Between(&random, 1, 3); version > 0; version--) {
        const OwnedKey key = Of(Concat("k", 100 + 2 * i), version);
        whole.records[key] = cut.back()[key] = Concat("v", i, ".", version);
      }
    }
    Level level(cut);
    LiveIterator should(&whole);
    for (int move = 0; move < 60; move++) {
      const OwnedKey target = Of(Concat("k", 99 + random.Uniform(2 * keys + 3)), random.Uniform(5));
      const uint64_t way = random.Uniform(8);
      for (InternalIterator* it : {static_cast<InternalIterator*>(&should), level.iterator.get()}) {
        if (way == 0) it->SeekToFirst();
        if (way == 1) it->SeekToLast();
        if (way == 2) it->Seek(target.view());
        if (way == 3) it->SeekForPrev(target.view());
        if (way >= 6 && it->Valid()) it->Prev();
        if ((way == 4 || way == 5) && it->Valid()) it->Next();
      }
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*level.iterator, should)) << round << " " << move;
    }
  }
}

TEST(LevelIterator, OnlyTheTableItStandsInIsOpened) {
  Level level({{{Of("a", 1), ""}}, {{Of("b", 1), ""}}, {{Of("c", 1), ""}, {Of("d", 1), ""}}});
  level.iterator->Seek(Of("c", 9).view());
  EXPECT_EQ(level.opened, 1);
  level.iterator->Next();
  level.iterator->Seek(Of("c", 1).view());
  EXPECT_EQ(level.opened, 1);
  level.iterator->Prev();
  EXPECT_EQ(level.opened, 2);
  EXPECT_EQ(level.iterator->key().user_key, "b");
}

TEST(LevelIterator, ATableThatCannotBeReadIsNotPassedOver) {
  Level level({{{Of("a", 1), ""}}, {{Of("b", 1), ""}}, {{Of("c", 1), ""}}});
  level.failing = 1;
  level.iterator->SeekToFirst();
  ASSERT_TRUE(level.iterator->Valid());
  level.iterator->Next();
  EXPECT_FALSE(level.iterator->Valid());
  EXPECT_TRUE(level.iterator->status().IsCorruption());
  level.iterator->Seek(Of("c", 1).view());
  EXPECT_TRUE(level.iterator->Valid()) << "it was another table";
  EXPECT_TRUE(level.iterator->status().ok());
  level.iterator->Prev();
  EXPECT_TRUE(level.iterator->status().IsCorruption());
  level.failing = SIZE_MAX;
  level.iterator->Seek(Of("b", 1).view());
  EXPECT_TRUE(level.iterator->Valid()) << "it may be readable by now";
}

}  // namespace
}  // namespace lamella
