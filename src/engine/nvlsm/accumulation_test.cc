#include "engine/nvlsm/accumulation.h"

#include <algorithm>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "engine/table_levels_test_base.h"

namespace lamella {
namespace {

constexpr AccumulationRules kRules{
    .components = {.level0_tables = 3, .level1_bytes = 100, .level_factor = 10, .last_level = 3},
    .max_floor = 5,
    .hidden_share = 0.5,
    .tree_bytes = 100,
    .tree_records_min = 1,
    .ends_bytes = 20};

using Lines = std::vector<std::string>;

enum class For : uint8_t { kLevels, kSpace, kPushes };

/// What is wanted of a picture (table_levels_test_base.h), by its trees' floors and hidden bytes,
/// one floor, and none, where nothing is said: "C1 9 8 + 3 [a,k]" and so on, what is worth most
/// first. A floor takes 20 bytes beside what is in it.
Lines Wanted(const std::string& picture, const std::map<uint64_t, uint32_t>& floors = {},
             const std::map<uint64_t, uint64_t>& hidden = {},
             const AccumulationRules& rules = kRules, For what = For::kLevels) {
  const TableLevelsState levels = LevelsOf(picture);
  ComponentPictures components(levels.level_count());
  levels.ForEach([&](uint32_t level, const auto& table) {
    const uint64_t number = table->number;
    const uint32_t count = floors.contains(number) ? floors.at(number) : 1;
    components[level].push_back({table.get(), count,
                                 hidden.contains(number) ? hidden.at(number) : 0,
                                 table->bytes + 20 * count});
  });
  const std::vector<Compaction> found =
      what == For::kSpace    ? FindSpaceMerges(components, rules, 10, false)
      : what == For::kPushes ? FindSpacePushes(components, rules)
                             : FindAccumulations(components, rules);
  std::multimap<double, const Compaction*, std::greater<>> by_worth;
  for (const Compaction& c : found) {
    by_worth.emplace(c.benefit / static_cast<double>(std::max<uint64_t>(c.read_bytes, 1)), &c);
  }
  Lines said;
  for (const auto& [worth, compaction] : by_worth) {
    const Compaction& c = *compaction;
    std::string line = Concat("C", c.level + 1);
    for (const uint64_t number : c.inputs) line += Concat(" ", number);
    if (!c.next.empty()) line += " +";
    for (const uint64_t number : c.next) line += Concat(" ", number);
    line += Concat(" [", c.keys.first, ",", *c.keys.last, "]");
    said.push_back(line + (c.moves_only()           ? " moves"
                           : c.way == kMergeInPlace ? " merges"
                           : c.way == kAccumulate   ? " down"
                                                    : " wrong"));
  }
  return said;
}

TEST(Accumulation, NothingIsWantedWhereNothingIsFull) {
  EXPECT_EQ(Wanted(""), Lines());
  EXPECT_EQ(Wanted("9:a-f/500 8:c-k/500 | 3:a-c/40 4:d-z/50 | 2:a-z/900", {{3, 3}, {2, 2}}),
            Lines());
}

TEST(Accumulation, C1GoesDownAsAWholeOntoTheTreesThatItOverlaps) {
  EXPECT_EQ(Wanted("9:c-f/10 8:e-k/10 7:d-d/10 | 3:a-b/20 4:k-m/30 5:n-z/40"),
            Lines({"C1 9 8 7 + 4 [c,m] down"}));
}

// A larger one may be longer than a link reaches, and a small one would stay a small tree.
TEST(Accumulation, ARunOfC1MovesAsTheFirstTreeAlone) {
  AccumulationRules rules = kRules;
  rules.components.level0_tables = 1;
  EXPECT_EQ(Wanted("9:c-f/100", {}, {}, rules), Lines({"C1 9 [c,f] moves"}));
  EXPECT_EQ(Wanted("9:c-f/101", {}, {}, rules), Lines({"C1 9 [c,f] down"}));
  EXPECT_EQ(Wanted("9:c-f/10 8:g-h/10", {}, {}, rules), Lines({"C1 9 8 [c,h] down"}));
  EXPECT_EQ(Wanted("9:c-f/10 | 3:g-h/10", {}, {}, rules), Lines({"C1 9 [c,f] down"}));
  EXPECT_EQ(Wanted("9:c-f/10 | | 3:g-h/10", {}, {}, rules), Lines({"C1 9 [c,f] down"}));
}

TEST(Accumulation, AFullTreeGoesDown) {
  EXPECT_EQ(Wanted("| 3:a-c/30 4:d-f/50 | 6:b-e/90", {{3, 5}, {4, 4}}),
            Lines({"C2 3 + 6 [a,e] down"}));
}

TEST(Accumulation, InTheLastComponentAFullTreeComesBackWhileThereIsRoom) {
  EXPECT_EQ(Wanted("| 3:a-c/30 4:d-f/50", {{3, 5}}), Lines({"C2 3 [a,c] merges"}));
  // None is left: it begins the next component. The others stay until they are full.
  EXPECT_EQ(Wanted("| 3:a-c/60 4:d-f/50", {{3, 5}, {4, 2}}), Lines({"C2 3 [a,c] down"}));
}

TEST(Accumulation, AFullTreeGoesDownFromAComponentThatHasRoomIfItIsNotTheLast) {
  EXPECT_EQ(Wanted("| 3:a-c/9 4:d-f/10 | 6:b-e/90", {{3, 5}}), Lines({"C2 3 + 6 [a,e] down"}));
  // Of few floors it would be a small tree on large ones: it waits for what comes.
  AccumulationRules rules = kRules;
  rules.max_floor = 4;
  EXPECT_EQ(Wanted("| 3:a-c/9 4:d-f/90 | 6:b-e/90", {{3, 4}}, {}, rules), Lines());
  EXPECT_EQ(Wanted("| 3:a-c/9 4:d-f/91 | 6:b-e/90", {{3, 4}}, {}, rules),
            Lines({"C2 3 + 6 [a,e] down"}));
}

TEST(Accumulation, OfAComponentFarBeyondItsSizeTheTreeOfMostFloorsGoesFirst) {
  EXPECT_EQ(Wanted("| 3:a-c/49 4:d-f/50 5:g-k/50 | 6:a-b/90 7:c-e/10 8:f-m/30", {{4, 3}, {5, 2}}),
            Lines());
  EXPECT_EQ(Wanted("| 3:a-c/50 4:d-f/50 5:g-k/50 | 6:a-b/90 7:c-e/10 8:f-m/30", {{4, 3}, {5, 2}}),
            Lines({"C2 4 + 7 8 [c,m] down", "C2 5 + 8 [f,m] down", "C2 3 + 6 7 [a,e] down"}));
  // Keys in their order make trees of one floor each.
  EXPECT_EQ(Wanted("| 3:a-c/50 4:d-f/50 5:g-k/50 | 6:l-m/90"),
            Lines({"C2 3 [a,c] moves", "C2 4 [d,f] moves", "C2 5 [g,k] moves"}));
  // Of many floors so many are let be.
  AccumulationRules rules = kRules;
  rules.max_floor = 20;
  EXPECT_EQ(Wanted("| 3:a-c/150 4:d-f/149 | 6:a-b/90", {{3, 19}}, {}, rules), Lines());
}

TEST(Accumulation, ATreeOfWhichMuchIsHiddenIsMergedWhereItIs) {
  EXPECT_EQ(Wanted("| 3:a-c/40 | 6:a-z/90", {{3, 2}, {6, 2}}, {{3, 21}, {6, 40}}),
            Lines({"C2 3 [a,c] merges"}));
  // By itself a floor hides nothing that a merge could drop.
  EXPECT_EQ(Wanted("| 3:a-c/40", {}, {{3, 30}}), Lines());
}

TEST(Accumulation, ForSpaceTreesAreMergedThatGainByItThenC1GoesDown) {
  // Of what a merge makes an end is half full.
  const std::map<uint64_t, uint32_t> floors = {{3, 2}, {4, 2}, {5, 2}};
  const std::string picture = "9:a-k/10 | 3:a-c/90 4:d-f/90 5:g-k/90 6:l-z/90";
  AccumulationRules rules = kRules;
  EXPECT_EQ(Wanted(picture, floors, {{3, 10}, {4, 12}, {5, 9}, {6, 30}}, rules, For::kSpace),
            Lines({"C2 4 [d,f] merges", "C2 3 [a,c] merges", "C2 5 [g,k] merges"}));
  rules.ends_bytes = 80;
  EXPECT_EQ(Wanted(picture, floors, {{3, 10}, {4, 12}, {5, 9}, {6, 30}}, rules, For::kSpace),
            Lines({"C2 4 [d,f] merges", "C2 3 [a,c] merges"}));
  EXPECT_EQ(Wanted(picture, {}, {}, kRules, For::kSpace), Lines({"C1 9 + 3 4 5 [a,k] down"}));
  EXPECT_EQ(Wanted("| 3:a-c/40", {}, {}, kRules, For::kSpace), Lines());
}

TEST(Accumulation, ForSpaceSmallTreesSideBySideBecomeOne) {
  const auto joined = [](const std::string& picture) {
    return Wanted(picture, {}, {}, kRules, For::kSpace);
  };
  EXPECT_EQ(joined("9:a-k/10 | 3:a-c/8 4:d-f/8 5:g-k/90 6:l-m/8 7:n-z/8"),
            Lines({"C2 3 4 [a,f] merges", "C2 6 7 [l,z] merges"}));
  // What would not take less for certain stays as it is, and so does one alone.
  EXPECT_EQ(joined("| 3:a-c/20 4:d-f/20 5:g-k/90 6:l-m/8"), Lines({"C2 3 4 [a,f] merges"}));
  EXPECT_EQ(joined("| 3:a-c/21 4:d-f/20 5:g-k/90 6:l-m/8"), Lines());
  // As many at once as make a few trees.
  std::string many = "|";
  for (int i = 0; i < 26; i++) {
    const auto key = static_cast<char>('a' + i);
    many += Concat(" ", 100 + i, ":", std::string(1, key), "-", std::string(1, key), "/20");
  }
  EXPECT_EQ(joined(many).size(), 2u);
}

// It costs no more than what is kept for each tree: where the pool is full they are to be few.
TEST(Accumulation, OnAFullPoolTreesSideBySideBecomeFewer) {
  const auto joined = [](const std::string& picture, bool pool_is_full) {
    const TableLevelsState levels = LevelsOf(picture);
    ComponentPictures components(2);
    for (const auto& table : levels.level(1))
      components[1].push_back({table.get(), 1, 0, table->bytes + 20, 0});
    Lines said;
    for (const Compaction& c : FindSpaceMerges(components, kRules, 10, pool_is_full))
      said.push_back(Concat(c.keys.first, "-", *c.keys.last));
    return said;
  };
  EXPECT_EQ(joined("| 3:a-c/49 4:d-f/50 5:g-k/90 6:l-m/99", true), Lines({"a-m"}));
  EXPECT_EQ(joined("| 3:a-c/49 4:d-f/50 5:g-k/90 6:l-m/99", false), Lines());
  // By their sizes alone they might become as many again, and so without end.
  EXPECT_EQ(joined("| 3:a-c/49 4:d-f/60 5:g-k/92 6:l-m/99", true), Lines());
}

// Of two records that fill half of their chunks each, merging gives none of that back.
TEST(Accumulation, WhatLargeRecordsLeaveEmptyIsNoSpaceToBeHad) {
  const TableLevelsState levels = LevelsOf("| 3:a-c/20 4:d-f/20");
  ComponentPictures components(2);
  for (const auto& table : levels.level(1)) components[1].push_back({table.get(), 1, 0, 60, 0});
  EXPECT_EQ(FindSpaceMerges(components, kRules, 10, false).size(), 1u);
  for (TreePicture& tree : components[1]) tree.waste_bytes = 20;
  EXPECT_TRUE(FindSpaceMerges(components, kRules, 10, false).empty());
}

TEST(Accumulation, WhatUpperComponentsHideIsFoundBelow) {
  const auto pushed = [](const std::string& picture) {
    return Wanted(picture, {{4, 3}}, {}, kRules, For::kPushes);
  };
  EXPECT_EQ(pushed("9:a-k/10 8:c-k/10 | 3:a-c/40 | 6:a-z/40"), Lines({"C1 9 8 + 3 [a,k] down"}));
  EXPECT_EQ(pushed("| 3:a-c/40 4:d-f/40 | 6:a-z/40"),
            Lines({"C2 3 + 6 [a,z] down", "C2 4 + 6 [a,z] down"}));
  EXPECT_EQ(pushed("| | 6:a-z/40"), Lines());
  EXPECT_EQ(pushed("9:a-k/10"), Lines());
}

TEST(Accumulation, TheLastComponentThatThereMayBeHoldsAnyNumber) {
  EXPECT_EQ(Wanted("| | | 3:a-c/900000", {{3, 3}}), Lines());
  EXPECT_EQ(Wanted("| | | 3:a-c/900000", {{3, 5}}), Lines({"C4 3 [a,c] merges"}));
}

}  // namespace
}  // namespace lamella
