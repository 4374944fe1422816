#include "engine/table_levels.h"

#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "engine/table_levels_test_base.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

constexpr const char* kPicture = "9:a-f/10 8:c-k/10 | 3:b-d/40 5:f-p/60 | 2:a-z/500";

TableEdit<TableInfo> Edit(std::vector<uint64_t> removed,
                          const std::vector<std::pair<uint32_t, std::string>>& added) {
  TableEdit<TableInfo> edit{.removed = std::move(removed), .added = {}};
  for (const auto& [level, word] : added)
    edit.added.push_back({level, std::make_shared<TableInfo>(TableOf(word))});
  return edit;
}

std::string After(const TableEdit<TableInfo>& edit) {
  TableLevelsState levels = LevelsOf(kPicture);
  return levels.Apply(edit) ? PictureOf(levels) : "no";
}

TEST(TableLevels, AnEditTakesAwayThenAdds) {
  EXPECT_EQ(PictureOf(LevelsOf(kPicture)), kPicture);
  EXPECT_EQ(After(Edit({9, 8, 3, 5}, {{1, "11:g-p/50"}, {1, "10:a-f/55"}})),
            " | 10:a-f/55 11:g-p/50 | 2:a-z/500");
  EXPECT_EQ(After(Edit({}, {{0, "10:a-a/1"}, {0, "11:z-z/1"}})),
            "11:z-z/1 10:a-a/1 9:a-f/10 8:c-k/10 | 3:b-d/40 5:f-p/60 | 2:a-z/500")
      << "the newest is first";
  EXPECT_EQ(After(Edit({2}, {{3, "2:a-z/500"}})),
            "9:a-f/10 8:c-k/10 | 3:b-d/40 5:f-p/60 |  | 2:a-z/500")
      << "moved";
}

TEST(TableLevels, AnEditThatDoesNotFitIsRefused) {  // I1, I2
  EXPECT_EQ(After(Edit({7}, {})), "no") << "no such table";
  EXPECT_EQ(After(Edit({9, 9}, {})), "no");
  EXPECT_EQ(After(Edit({}, {{3, "2:a-z/500"}})), "no") << "it is there already";
  EXPECT_EQ(After(Edit({}, {{1, "10:d-e/1"}})), "no") << "of which 3 has d";
  EXPECT_EQ(After(Edit({}, {{1, "10:e-f/1"}})), "no");
  EXPECT_EQ(After(Edit({}, {{1, "10:g-h/1"}})), "no");
  EXPECT_EQ(After(Edit({}, {{1, "10:a-z/1"}})), "no");
  EXPECT_EQ(After(Edit({}, {{1, "10:x-w/1"}})), "no");
  EXPECT_EQ(After(Edit({}, {{kTableLevelsMax, "10:a-z/1"}})), "no");
  EXPECT_NE(After(Edit({}, {{1, "10:e-e/1"}})), "no") << "that fits";
}

TEST(TableLevels, FindsWhatMayHoldAKey) {
  const TableLevelsState levels = LevelsOf(kPicture);
  const auto number = [&](std::string_view key) -> uint64_t {
    const auto table = levels.Find(1, key);
    return table == nullptr ? 0 : table->number;
  };
  EXPECT_EQ(number("a"), 0u);
  EXPECT_EQ(number("b"), 3u);
  EXPECT_EQ(number("d"), 3u);
  EXPECT_EQ(number("da"), 0u);
  EXPECT_EQ(number("f"), 5u);
  EXPECT_EQ(number("p"), 5u);
  EXPECT_EQ(number("q"), 0u);
  EXPECT_EQ(levels.Find(7, "a"), nullptr) << "no such level";
  EXPECT_EQ(levels.Overlapping(1, KeyRange::Of("d", "e")).size(), 1u);
  EXPECT_EQ(levels.Overlapping(1, KeyRange::Of("", "")).size(), 2u);
  EXPECT_EQ(levels.Overlapping(1, KeyRange::Of("q", "")).size(), 0u);
  EXPECT_EQ(levels.Overlapping(0, KeyRange::Of("g", "h")).front()->number, 8u);
  EXPECT_TRUE(levels.MayHold(1, "c"));
  EXPECT_FALSE(levels.MayHold(2, "zz"));
  EXPECT_FALSE(levels.MayHold(3, "c"));
  EXPECT_EQ(levels.BytesOf(1), 100u);
  EXPECT_EQ(levels.table_count(), 5u);
}

// Keys that share more than a head, that are others' beginnings, that end with zeros, that lie
// outside; against what the ranges themselves say (I3).
TEST(TableLevels, FindsWhatAPlainSearchFinds) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 400; round++) {
    const auto key = [&] {
      std::string made(round % 3 == 0 ? 0 : random.Uniform(20) == 0 ? 2 : 5, 'p');
      const uint64_t alike = random.Uniform(3) * 8;
      made.append(alike, random.Uniform(4) == 0 ? 'q' : 'r');
      for (uint64_t n = random.Uniform(4); n > 0; n--)
        made += static_cast<char>("\0\1az\xff"[random.Uniform(5)]);
      return made;
    };
    std::set<std::string> ends;
    for (uint64_t n = 2 + random.Uniform(40); n > 0; n--) ends.insert(key());
    TableLevelsState levels;
    TableEdit<TableInfo> edit;
    uint64_t number = 0;
    for (auto at = ends.begin(); at != ends.end(); ++at) {
      TableInfo info{.number = ++number, .smallest = *at, .largest = *at};
      if (random.Uniform(2) == 0 && std::next(at) != ends.end()) info.largest = *++at;
      for (const uint32_t level : {0, 1}) {
        info.number = 2 * number + level;
        edit.added.push_back({level, std::make_shared<TableInfo>(info)});
      }
    }
    ASSERT_TRUE(levels.Apply(edit));
    levels.BuildFences();
    if (random.Uniform(2) == 0) {  // as many tables as before, of which one is another
      TableInfo narrower = *edit.added[1].table;
      const TableEdit<TableInfo> change{.removed = {narrower.number}, .added = {}};
      narrower.number = 2 * number + 2;
      narrower.largest = narrower.smallest;
      TableEdit<TableInfo> replaced = change;
      replaced.added.push_back({1, std::make_shared<TableInfo>(narrower)});
      ASSERT_TRUE(levels.Apply(random.Uniform(2) == 0 ? change : replaced));
    }
    if (round % 8 != 0) levels.BuildFences();  // else as a catalog's
    for (int probe = 0; probe < 100; probe++) {
      const std::string sought = key();
      std::vector<uint64_t> holding[2];
      levels.ForEach([&](uint32_t level, const auto& table) {
        if (table->smallest <= sought && sought <= table->largest)
          holding[level].push_back(table->number);
      });
      std::vector<uint64_t> newest;
      EXPECT_TRUE(levels.ForEachNewest(sought, [&](const TableInfo* table) {
        newest.push_back(table->number);
        return true;
      }));
      ASSERT_EQ(newest, holding[0]) << sought;
      const TableInfo* const found = levels.FindTable(1, sought);
      ASSERT_EQ(found == nullptr ? 0 : found->number, holding[1].empty() ? 0 : holding[1].front());
    }
  }
}

bool Decodes(const std::string& bytes, TableLevelsState* levels) {
  Decoder in(bytes);
  return DecodeTableEdit(&in, levels) && in.done();
}

// Of any two versions the edit between them makes the one from the other, and names what changed
// only.
TEST(TableLevels, TheEditBetweenTwoVersionsLeadsFromOneToTheOther) {
  Random random(testing::TestSeed());
  TableLevelsState levels;
  uint64_t number = 0;
  for (int round = 0; round < 300; round++) {
    TableLevelsState next = levels;
    TableEdit<TableInfo> edit;
    levels.ForEach([&](uint32_t i, const auto& table) {
      if (random.Uniform(4) != 0) return;
      edit.removed.push_back(table->number);
      if (random.Uniform(3) == 0) edit.added.push_back({i + 10, table});  // alone there
    });
    for (uint64_t n = random.Uniform(4); n > 0; n--) {
      const auto i = static_cast<uint32_t>(random.Uniform(3));
      number++;
      const std::string keys = i == 0 ? "a-z" : Concat("k", number, "-k", number);
      edit.added.push_back(
          {i, std::make_shared<TableInfo>(TableOf(Concat(number, ":", keys, "/", number)))});
    }
    if (!next.Apply(edit)) continue;  // two moved to one place
    const TableEdit<TableInfo> between = EditBetween(levels, next);
    ASSERT_EQ(between.removed.size(), edit.removed.size());
    ASSERT_EQ(between.added.size(), edit.added.size());
    std::string bytes;
    AppendTableEdit(&bytes, between);
    TableLevelsState applied = levels;
    ASSERT_TRUE(Decodes(bytes, &applied));
    ASSERT_EQ(PictureOf(applied), PictureOf(next));
    std::string whole;
    AppendTableLevels(&whole, next);
    TableLevelsState read;
    ASSERT_TRUE(Decodes(whole, &read));
    ASSERT_TRUE(EditBetween(read, next).added.empty() && EditBetween(read, next).removed.empty());
    if (next.table_count() > 20) next = {};
    levels = next;
  }
}

TEST(TableLevels, WhatACatalogKeepsIsWholeOrRefused) {
  std::string bytes;
  AppendTableLevels(&bytes, LevelsOf(kPicture));
  TableLevelsState levels;
  ASSERT_TRUE(Decodes(bytes, &levels));
  EXPECT_EQ(*levels.level(2).front(), *LevelsOf(kPicture).level(2).front());
  for (size_t size = 0; size < bytes.size(); size++) {
    TableLevelsState cut;
    EXPECT_FALSE(Decodes(bytes.substr(0, size), &cut)) << size;
  }
  EXPECT_FALSE(Decodes(bytes, &levels)) << "its tables are there already";
}

TEST(KeyRange, OverlapsWhereAKeyIsInBoth) {
  EXPECT_TRUE(KeyRange().Contains(""));
  EXPECT_TRUE(KeyRange().Overlaps(KeyRange()));
  EXPECT_TRUE(KeyRange::Of("b", "d").Overlaps(KeyRange::Of("d", "")));
  EXPECT_TRUE(KeyRange::Of("b", "d").Overlaps(KeyRange::Of("", "b")));
  EXPECT_FALSE(KeyRange::Of("b", "d").Overlaps(KeyRange::Of("", "a")));
  EXPECT_FALSE(KeyRange::Of("e", "").Overlaps(KeyRange::Of("b", "d")));
  EXPECT_TRUE(KeyRange::Of("b", "d").Contains("c"));
  EXPECT_FALSE(KeyRange::Of("b", "d").Contains("da"));
  KeyRange range = KeyRange::Of("b", "d");
  range.Extend("a", "c");
  range.Extend("c", "e");
  EXPECT_EQ(range, KeyRange::Of("a", "e"));
}

}  // namespace
}  // namespace lamella
