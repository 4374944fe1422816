#include "engine/lightkv/merge_yields.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

class MergeYieldsTest : public ::testing::Test {
 protected:
  using Keys = std::set<uint64_t>;

  uint32_t SizeOf(uint32_t weight) const { return yields_.Sizes()[weight]; }
  // So many flushes of these sets of keys, merged as soon as there are as many as are waited for.
  template <class KeysOfFlush>
  void Flush(uint64_t flushes, const KeysOfFlush& keys) {
    for (uint64_t i = 0; i < flushes; i++) {
      tables_[0].push_back(keys(flushes_++));
      for (uint32_t weight = 0; weight + 1 < tables_.size(); weight++) {
        if (tables_[weight].size() < SizeOf(weight)) break;
        double before = 0;
        Keys merged;
        for (const Keys& table : tables_[weight]) {
          before += static_cast<double>(table.size());
          merged.insert(table.begin(), table.end());
        }
        yields_.Note(weight, tables_[weight].size(),
                     1 - static_cast<double>(merged.size()) / before);
        written_ += before;
        tables_[weight].clear();
        tables_[weight + 1].push_back(std::move(merged));
      }
    }
  }
  // Records in tables for each key that there is.
  double Copies() const {
    double records = 0;
    Keys all;
    for (const std::vector<Keys>& tables : tables_) {
      for (const Keys& table : tables) {
        records += static_cast<double>(table.size());
        all.insert(table.begin(), table.end());
      }
    }
    return records / static_cast<double>(all.size());
  }

  const PartitionRules rules_{.compaction_size = 6, .recompaction_size = 16};
  MergeYields yields_{rules_};
  std::vector<std::vector<Keys>> tables_{rules_.weight_count()};
  uint64_t flushes_ = 0;
  double written_ = 0;
  Random random_{testing::TestSeed()};
};

TEST_F(MergeYieldsTest, NewKeysWaitForAll) {
  Flush(95, [](uint64_t flush) { return Keys{flush}; });
  EXPECT_EQ(tables_[1].size(), 15u);
  EXPECT_EQ(written_, 90) << "each record once more than it was flushed";
  EXPECT_EQ(SizeOf(1), 16u);
}

TEST_F(MergeYieldsTest, TheSameKeysWaitForNone) {
  Flush(2000, [](uint64_t) { return Keys{1, 2, 3}; });
  EXPECT_EQ(SizeOf(1), 6u);
  EXPECT_LE(SizeOf(2), 7u);
}

// Any keys of so many times what a flush has.
TEST_F(MergeYieldsTest, WhatWaitsIsNotMoreThanTheData) {
  for (const uint64_t times : {5, 20, 50, 200}) {
    constexpr uint64_t kKeysOfFlush = 100;
    yields_ = MergeYields(rules_);
    tables_.assign(rules_.weight_count(), {});
    Flush(40 * 6, [&](uint64_t) {
      Keys keys;
      while (keys.size() < kKeysOfFlush) keys.insert(random_.Uniform(times * kKeysOfFlush));
      return keys;
    });
    const double of_table = std::min<double>(1, 6.0 / static_cast<double>(times));
    EXPECT_TRUE(SizeOf(1) == 6 || SizeOf(1) * of_table <= 1.4) << times << ": " << SizeOf(1);
    EXPECT_TRUE(SizeOf(1) >= 12 || SizeOf(1) * of_table >= 0.7) << times << ": " << SizeOf(1);
  }
}

// All keys in turn, so that neighbouring flushes have none in common: merges of weight 0 drop
// nothing, those of weight 1 nearly all.
TEST_F(MergeYieldsTest, KeysThatComeAgainLaterAreSeenByTheMergesTheyMeetIn) {
  Flush(6 * 16 * 12, [](uint64_t flush) { return Keys{flush % 10}; });
  EXPECT_LT(SizeOf(1), 8u);
  EXPECT_EQ(SizeOf(2), 6u);
  EXPECT_LT(Copies(), 13);
}

TEST_F(MergeYieldsTest, FewPartitionsDoNotDecideForTheOthers) {
  for (int i = 0; i < 1000; i++) yields_.Note(0, 6, i % 20 == 0 ? 0.8 : 0);
  EXPECT_GE(SizeOf(1), 14u);
}

TEST_F(MergeYieldsTest, OneMergeAfterOpeningDoesNotDecideAlone) {
  yields_.Note(0, 6, 0.8);
  EXPECT_GT(SizeOf(1), 8u);
}

TEST_F(MergeYieldsTest, WhatWasLongAgoCountsForNothing) {
  const auto note = [&](int times, double dropped_share) {
    for (int i = 0; i < times; i++) {
      yields_.Note(0, 6, dropped_share);
      yields_.Note(1, SizeOf(1), dropped_share);
      yields_.Note(2, SizeOf(2), dropped_share);
    }
  };
  note(300, 0.8);
  EXPECT_EQ(yields_.Sizes(), (std::vector<uint32_t>{6, 6, 6, 6}));
  note(300, 0);
  EXPECT_EQ(yields_.Sizes(), (std::vector<uint32_t>{6, 16, 16, 16}));
}

// Merges of as many as are waited for say that so many were right, not that no more would be.
TEST_F(MergeYieldsTest, ALittleThatIsDroppedDoesNotAddUp) {
  for (int i = 0; i < 3000; i++) {
    yields_.Note(0, 6, 0.002);
    yields_.Note(1, SizeOf(1), 0.02);
  }
  EXPECT_EQ(SizeOf(1), 16u);
}

// Of the last weight what comes of a merge is merged again: it is worth it where keys are the same.
TEST_F(MergeYieldsTest, OfTheLastWeightTheSameIsHeard) {
  const uint32_t last = rules_.weight_count() - 1;
  for (int i = 0; i < 100; i++) yields_.Note(last, SizeOf(last), 0.8);
  EXPECT_EQ(SizeOf(last), 6u);
  for (int i = 0; i < 100; i++) yields_.Note(last, SizeOf(last), 0.01);
  EXPECT_EQ(SizeOf(last), 16u);
}

// Who chose fewer for what was merged gets no more than that.
TEST(MergeYields, ASmallerSizeIsKept) {
  const PartitionRules rules{.compaction_size = 6, .recompaction_size = 4};
  MergeYields yields(rules);
  for (int i = 0; i < 100; i++) yields.Note(0, 6, i % 2 == 0 ? 0.5 : 0);
  EXPECT_EQ(yields.Sizes()[1], 4u);
}

}  // namespace
}  // namespace lamella
