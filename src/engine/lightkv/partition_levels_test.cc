#include "engine/lightkv/partition_levels.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

class PartitionLevelsTest : public ::testing::Test {
 protected:
  using Contents = std::map<std::string, uint64_t>;  // of a key the table's newest version

  // A table as of a flush: it is newer than all of its weight.
  void Add(uint32_t weight, const std::string& smallest, const std::string& largest) {
    AddWith(weight, {{smallest, last_ + 1}, {largest, last_ + 1}});
  }
  void AddWith(uint32_t weight, const Contents& contents) {
    const std::string& smallest = contents.begin()->first;
    const std::string& largest = contents.rbegin()->first;
    auto info = std::make_shared<TableInfo>();
    info->number = ++last_;
    info->smallest = smallest;
    info->largest = largest;
    info->bytes = 100;
    info->last_sequence = last_;
    contents_[info->number] = contents;
    const auto level = LevelFor(levels_, rules_, weight, {smallest, largest});
    EXPECT_TRUE(level.has_value());
    EXPECT_TRUE(level && levels_.Apply({.removed = {}, .added = {{*level, info}}}));
  }
  std::vector<PartitionCompaction> Find() const {
    std::vector<uint32_t> sizes(rules_.weight_count(), size_.value_or(rules_.recompaction_size));
    sizes[0] = rules_.compaction_size;
    return FindPartitionCompactions(levels_, rules_, sizes);
  }
  void SetSizes(uint32_t of_weight_0, uint32_t of_others) {
    rules_ = {.compaction_size = of_weight_0, .recompaction_size = of_others};
  }
  void Compact(const PartitionCompaction& one) {
    Contents merged;
    for (const uint64_t number : one.inputs) {
      for (const auto& [key, version] : contents_.at(number))
        merged[key] = std::max(merged[key], version);
    }
    ASSERT_TRUE(levels_.Apply({.removed = one.inputs, .added = {}}));
    AddWith(one.into, merged);
    merged_tables_[one.weight] += one.inputs.size();
  }
  // Of one partition, and all compactions after it.
  void Flush() {
    Add(0, "a", "c");
    for (auto found = Find(); !found.empty(); found = Find())
      ASSERT_NO_FATAL_FAILURE(Compact(found.front()));
  }
  // P1: where a key's version in a lower level is the older one.
  int WrongVersions() const {
    int wrong = 0;
    Contents newer;
    levels_.ForEach([&](uint32_t, const auto& table) {
      for (const auto& [key, version] : contents_.at(table->number)) {
        wrong += newer.contains(key) && newer[key] <= version ? 1 : 0;
        newer[key] = version;
      }
    });
    return wrong;
  }

  PartitionRules rules_;
  std::optional<uint32_t> size_;  // that recompactions wait for, if not the rules'
  TableLevelsState levels_;
  uint64_t last_ = 0;
  std::map<uint64_t, Contents> contents_;
  std::map<uint32_t, uint64_t> merged_tables_;  // of each weight, how many
};

TEST_F(PartitionLevelsTest, FourTablesOfAPartitionAreMerged) {
  for (int i = 0; i < 3; i++) {
    Add(0, "a", "c");
    Add(0, "d", "f");
  }
  EXPECT_TRUE(Find().empty());
  Add(0, "b", "c");
  const auto found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].weight, 0u);
  EXPECT_EQ(found[0].into, 1u);
  EXPECT_EQ((std::set<uint64_t>{found[0].inputs.begin(), found[0].inputs.end()}),
            (std::set<uint64_t>{1, 3, 5, 7}));
  EXPECT_EQ(found[0].keys, (KeyRange{"a", "c"}));
  EXPECT_EQ(found[0].read_bytes, 400u);
}

TEST_F(PartitionLevelsTest, TheNextTableOfAFullWeightGoesToLevel0) {
  for (int i = 0; i < 6; i++) Add(0, "a", "c");
  EXPECT_EQ(levels_.level(0).size(), 2u);
  EXPECT_EQ(WrongVersions(), 0);
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(Find()[0].inputs.size(), 6u);
}

TEST_F(PartitionLevelsTest, ATableOverSeveralPartitionsTakesThemAll) {
  Add(0, "a", "z");
  for (int i = 0; i < 3; i++) Add(0, "b", "c");
  Add(0, "x", "y");
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(Find()[0].inputs.size(), 5u);
}

TEST_F(PartitionLevelsTest, TablesThatOverlapAreOfOnePartition) {
  const auto count = [&](std::initializer_list<KeyRange> ranges) {
    TableLevelsState::Level tables;
    for (const KeyRange& range : ranges) {
      auto info = std::make_shared<TableInfo>();
      info->smallest = range.first;
      info->largest = *range.last;
      tables.push_back(std::move(info));
    }
    return CountPartitions(tables);
  };
  EXPECT_EQ(count({}), 0u);
  EXPECT_EQ(count({{"c", "d"}, {"a", "b"}, {"c", "d"}, {"a", "b"}}), 2u);
  EXPECT_EQ(count({{"c", "d"}, {"a", "b"}, {"b", "c"}}), 1u) << "the third joins the others";
  EXPECT_EQ(count({{"a", "z"}, {"b", "c"}, {"x", "y"}, {"zz", "zz"}}), 2u);
}

// Who looks for what makes writers wait counts on it (LightKv::WriteDelayNs).
TEST_F(PartitionLevelsTest, MoreTablesOfLevel0ThanPartitionsHaveSlotsAreCompacted) {
  for (const uint64_t partitions : {1, 2, 30}) {
    levels_ = {};
    for (uint64_t i = 0; levels_.level(0).size() < partitions * (rules_.compaction_size + 1); i++) {
      const std::string key = Concat(100 + i % partitions);
      Add(0, key, key + "z");
    }
    EXPECT_EQ(CountPartitions(levels_.level(0)), partitions);
    EXPECT_FALSE(Find().empty());
  }
}

TEST_F(PartitionLevelsTest, NothingIsMergedIntoAWeightThatIsFull) {
  for (int i = 0; i < 4; i++) Add(1, "a", "c");
  for (int i = 0; i < 4; i++) Add(0, "a", "c");
  const auto found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].weight, 1u);
  EXPECT_FALSE(LevelFor(levels_, rules_, 1, {"b", "b"}).has_value());
}

TEST_F(PartitionLevelsTest, EachLevelIsOfAWeight) {
  for (uint32_t size = 2; size <= 16; size++) {
    for (uint32_t others = 2; others <= 16; others++) {
      SetSizes(size, others);
      ASSERT_GE(rules_.weight_count(), 3u);
      uint32_t level = 1;
      for (uint32_t weight = 0; weight < rules_.weight_count(); weight++) {
        ASSERT_EQ(rules_.FirstLevel(weight), level);
        ASSERT_GE(rules_.LastLevel(weight) + 1, level + rules_.SizeOf(weight));
        for (; level <= rules_.LastLevel(weight); level++)
          ASSERT_EQ(rules_.WeightOf(level), weight) << size << ", " << others;
      }
      ASSERT_EQ(level, kTableLevelsMax);
    }
  }
}

// So each record is written twice: when it is flushed, and once more.
TEST_F(PartitionLevelsTest, WhatWasMergedOnceWaitsForMore) {
  SetSizes(3, 5);
  for (int i = 0; i < 3 * 5 - 1; i++) ASSERT_NO_FATAL_FAILURE(Flush());
  EXPECT_EQ(merged_tables_, (std::map<uint32_t, uint64_t>{{0, 12}}));
  ASSERT_NO_FATAL_FAILURE(Flush());
  EXPECT_EQ(merged_tables_, (std::map<uint32_t, uint64_t>{{0, 15}, {1, 5}}));
  SetSizes(3, 3);  // where both are the same it is sooner
  levels_ = {};
  merged_tables_.clear();
  for (int i = 0; i < 3 * 5 - 1; i++) ASSERT_NO_FATAL_FAILURE(Flush());
  EXPECT_EQ(merged_tables_, (std::map<uint32_t, uint64_t>{{0, 12}, {1, 3}}));
}

TEST_F(PartitionLevelsTest, WhatNeedNotWaitIsMergedSooner) {
  SetSizes(2, 16);
  size_ = 4;
  for (int i = 0; i < 2 * 4 - 1; i++) ASSERT_NO_FATAL_FAILURE(Flush());
  EXPECT_EQ(merged_tables_[1], 0u);
  ASSERT_NO_FATAL_FAILURE(Flush());
  EXPECT_EQ(merged_tables_[1], 4u);
  size_.reset();
  for (int i = 0; i < 2 * 10; i++) ASSERT_NO_FATAL_FAILURE(Flush());
  EXPECT_EQ(merged_tables_[1], 4u);
  size_ = 4;
  ASSERT_NO_FATAL_FAILURE(Flush());
  EXPECT_EQ(merged_tables_[1], 4u + 10u) << "all that waited";
  EXPECT_EQ(WrongVersions(), 0);
}

// Of a table that has slots before it free nothing is made, however few are waited for.
TEST_F(PartitionLevelsTest, FewerThanAreWaitedForStay) {
  SetSizes(2, 16);
  for (int i = 0; i < 9; i++) Add(1, "a", "c");
  ASSERT_TRUE(levels_.Apply({.removed = {1, 2, 3, 4, 5, 6, 7}, .added = {}}));
  size_ = 3;
  EXPECT_TRUE(Find().empty());
  Add(1, "a", "c");
  EXPECT_EQ(Find().size(), 1u);
}

TEST_F(PartitionLevelsTest, OfTheLastWeightNothingIsMergedTwiceThatCameOfAMerge) {
  SetSizes(2, 16);
  size_ = 2;
  const uint32_t last = rules_.weight_count() - 1;
  for (int i = 0; i < 2; i++) Add(last, "a", "c");
  ASSERT_EQ(Find().size(), 1u);
  ASSERT_NO_FATAL_FAILURE(Compact(Find()[0]));
  EXPECT_TRUE(Find().empty());
}

TEST_F(PartitionLevelsTest, TheLastWeightIsMergedIntoItself) {
  SetSizes(16, 16);
  const uint32_t last = rules_.weight_count() - 1;
  for (int i = 0; i < 16; i++) Add(last, "a", "c");
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(Find()[0].into, last);
  EXPECT_LT(rules_.FirstLevel(last + 1) - 1, kTableLevelsMax);
}

TEST_F(PartitionLevelsTest, WhatAnotherCompactionSizeLeftBeyondTheLastWeightIsOfIt) {
  SetSizes(2, 2);
  Add(rules_.weight_count() - 1, "a", "c");
  ASSERT_EQ(levels_.level(62).size(), 1u);
  for (uint32_t size = 2; size <= 16; size++) {
    SetSizes(size, size);
    EXPECT_EQ(rules_.WeightOf(kTableLevelsMax - 1), rules_.weight_count() - 1);
    EXPECT_EQ(rules_.LastLevel(rules_.weight_count() - 1), kTableLevelsMax - 1);
  }
  const uint32_t last = rules_.weight_count() - 1;
  for (int i = 0; i < 16; i++) Add(last, "a", "c");
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(Find()[0].inputs.size(), 17u);
}

// A size that comes after another finds its weights' slots taken in any way.
TEST_F(PartitionLevelsTest, WhatAnotherCompactionSizeLeftGoesOnDown) {
  constexpr uint32_t kSizes[] = {2, 3, 6, 15, 16};
  constexpr int kFlushes[] = {1, 6, 7, 15, 40, 300};
  const auto go_on = [&](int before, uint32_t size, uint32_t others, uint32_t next,
                         uint32_t next_others) {
    levels_ = {};
    contents_.clear();
    SetSizes(size, others);
    for (int i = 0; i < before; i++) Flush();
    SetSizes(next, next_others);
    for (int i = 0; i < 40; i++) Flush();
    ASSERT_LE(levels_.level(0).size(), next) << before << " with " << size << ", then " << next;
    ASSERT_EQ(WrongVersions(), 0);
  };
  for (uint32_t size = 2; size <= 16; size++) {
    for (uint32_t next = 2; next <= 16; next++) {
      for (const int before : kFlushes)
        ASSERT_NO_FATAL_FAILURE(go_on(before, size, size, next, next));
    }
  }
  for (const uint32_t size : kSizes) {
    for (const uint32_t others : kSizes) {
      for (const uint32_t next : kSizes) {
        for (const uint32_t next_others : kSizes) {
          for (const int before : kFlushes)
            ASSERT_NO_FATAL_FAILURE(go_on(before, size, others, next, next_others));
        }
      }
    }
  }
}

// Flushes and compactions, of partitions that become more: what is newer stays in lower levels.
TEST_F(PartitionLevelsTest, NewerVersionsStayInLowerLevels) {
  Random random(testing::TestSeed());
  SetSizes(4, static_cast<uint32_t>(4 + 12 * random.Uniform(2)));
  for (uint64_t round = 1; round <= 400; round++) {
    size_ = static_cast<uint32_t>(2 + random.Uniform(rules_.recompaction_size - 1));
    const uint64_t partitions = 1 + round / 40;
    for (uint64_t p = 0; p < partitions; p++) {
      Contents contents;
      for (uint64_t key = 100 * p / partitions; key < 100 * (p + 1) / partitions; key++) {
        if (random.OneIn(8)) contents[Concat(1000 + key)] = round;
      }
      if (!contents.empty()) AddWith(0, contents);
    }
    ASSERT_EQ(WrongVersions(), 0);
    const auto found = Find();
    if (found.empty() || random.OneIn(4)) continue;
    const PartitionCompaction& one = found[random.Uniform(found.size())];
    ASSERT_NO_FATAL_FAILURE(Compact(one));
    ASSERT_EQ(WrongVersions(), 0);
  }
  EXPECT_GT(levels_.level_count(), rules_.FirstLevel(2));
}

}  // namespace
}  // namespace lamella
