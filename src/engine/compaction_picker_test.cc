#include "engine/compaction_picker.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/sanitizer.h"
#include "engine/table_levels_test_base.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

constexpr LevelRules kRules{
    .level0_tables = 3, .level1_bytes = 100, .level_factor = 10, .last_level = 3};

/// What is picked of a picture, as "L0 9 8 + 3 [a,k]" and so on, what is worth most first.
std::vector<std::string> Picked(const std::string& picture, const LevelRules& rules = kRules) {
  std::vector<Compaction> found = FindCompactions(LevelsOf(picture), rules);
  std::sort(found.begin(), found.end(), [](const Compaction& a, const Compaction& b) {
    const auto worth = [](const Compaction& c) {
      return c.benefit / static_cast<double>(std::max<uint64_t>(c.read_bytes, 1));
    };
    return worth(a) > worth(b);
  });
  std::vector<std::string> said;
  for (const Compaction& c : found) {
    std::string line = Concat("L", c.level);
    for (const uint64_t number : c.inputs) line += Concat(" ", number);
    if (!c.next.empty()) line += " +";
    for (const uint64_t number : c.next) line += Concat(" ", number);
    said.push_back(
        Concat(line, " [", c.keys.first, ",", *c.keys.last, "]", c.moves_only() ? " moves" : ""));
  }
  return said;
}

using Lines = std::vector<std::string>;

TEST(CompactionPicker, NothingIsWantedBelowTheTargets) {
  EXPECT_EQ(Picked(""), Lines());
  EXPECT_EQ(Picked("9:a-f/500 8:c-k/500 | 3:a-c/40 4:d-z/50 | 2:a-z/900"), Lines());
}

TEST(CompactionPicker, LevelZeroGoesAsAWholeWithWhatItOverlaps) {
  EXPECT_EQ(Picked("9:c-f/10 8:e-k/10 7:d-d/10 | 3:a-b/20 4:k-m/30 5:n-z/40"),
            Lines({"L0 9 8 7 + 4 [c,m]"}));
}

TEST(CompactionPicker, OfAFullLevelTheTableThatCostsLeastIsWorthMost) {
  EXPECT_EQ(Picked("| 3:a-c/50 4:d-f/50 5:g-k/50 | 6:a-b/90 7:c-e/10 8:f-m/30"),
            Lines({"L1 5 + 8 [f,m]", "L1 4 + 7 8 [c,m]", "L1 3 + 6 7 [a,e]"}));
}

TEST(CompactionPicker, OfManyTablesOfALevelThoseThatCostLeastAreWanted) {
  constexpr size_t kTables = 4 * kWantedOfLevelMax;
  TableEdit<TableInfo> all;
  std::vector<uint64_t> cheap;
  for (size_t i = 0; i < kTables; i++) {
    const std::string key = Concat(1000 + i);
    const bool is_cheap = i % 4 == 3;
    if (is_cheap) cheap.push_back(i + 1);
    for (const auto& [level, bytes] : {std::pair(1u, 100), std::pair(2u, is_cheap ? 99 : 100)}) {
      TableInfo table{
          .number = i + 1 + (level == 1 ? 0 : kTables), .smallest = key, .largest = key};
      table.bytes = static_cast<uint64_t>(bytes);
      all.added.push_back({level, std::make_shared<const TableInfo>(table)});
    }
  }
  TableLevelsState levels;
  ASSERT_TRUE(levels.Apply(all));
  std::vector<uint64_t> found;
  for (const Compaction& c : FindCompactions(levels, kRules)) {
    if (c.level != 1) continue;
    EXPECT_EQ(c.next, std::vector<uint64_t>{c.inputs.front() + kTables});
    found.push_back(c.inputs.front());
  }
  std::ranges::sort(found);
  EXPECT_EQ(found, cheap);
}

TEST(CompactionPicker, ATableThatOverlapsNoneMoves) {
  EXPECT_EQ(Picked("| 3:a-c/90 4:d-f/50 | 6:a-c/90"),
            Lines({"L1 4 [d,f] moves", "L1 3 + 6 [a,c]"}));
  EXPECT_EQ(Picked("9:c-f/10",
                   {.level0_tables = 1, .level1_bytes = 100, .level_factor = 10, .last_level = 3}),
            Lines({"L0 9 [c,f] moves"}));
}

TEST(CompactionPicker, TheFullestLevelIsWorthMostAndTheLastHoldsAll) {
  EXPECT_EQ(Picked("| 3:a-c/150 | 6:a-k/3000 | 7:a-k/99999").front(), "L2 6 + 7 [a,k]")
      << "three times its target for the price of much, but still";
  EXPECT_EQ(Picked("|  |  | 7:a-k/99999999"), Lines());
}

TEST(CompactionPicker, TargetsGrowByTheFactorAndDoNotOverflow) {
  EXPECT_EQ(kRules.TargetBytes(1), 100u);
  EXPECT_EQ(kRules.TargetBytes(3), 10'000u);
  EXPECT_EQ((LevelRules{.level1_bytes = 1 << 20}).TargetBytes(60), UINT64_MAX);
}

// Does a compaction that was picked from `from`, where others may have been done since: it leaves a
// table for each letter.
bool Do(const Compaction& one, const TableLevelsState& from, uint64_t* number,
        TableLevelsState* levels) {
  TableEdit<TableInfo> edit{.removed = one.inputs, .added = {}};
  edit.removed.insert(edit.removed.end(), one.next.begin(), one.next.end());
  if (one.moves_only()) {
    from.ForEach([&](uint32_t, const auto& table) {
      if (table->number == one.inputs[0]) edit.added.push_back({one.level + 1, table});
    });
  } else {
    const char first = one.keys.first.front();
    const char last = one.keys.last->front();
    const uint64_t tables = 1 + static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
    for (char key = first; key <= last; key++) {
      const std::string word =
          Concat(++*number, ":", key, "-", key, "/", one.read_bytes / tables + 1);
      edit.added.push_back({one.level + 1, std::make_shared<TableInfo>(TableOf(word))});
    }
  }
  return levels->Apply(edit);
}

bool Exclude(const Compaction& a, const Compaction& b) {
  constexpr uint32_t kLevel0 = 3;
  for (const Claim& claim : ClaimsOf(a, kLevel0)) {
    for (const Claim& other : ClaimsOf(b, kLevel0)) {
      if (claim.Excludes(other)) return true;
    }
  }
  return false;
}

// Whatever is picked, several at once as far as claims allow it, in whatever order they end, while
// tables are flushed: levels stay as they must be (I1), and it comes to an end.
TEST(CompactionPicker, DoingWhatIsWantedKeepsTheLevelsAndEnds) {
  struct UnderWay {
    Compaction compaction;
    TableLevelsState from;
  };
  Random random(testing::TestSeed());
  size_t most_at_once = 0;
  uint64_t excluded = 0;
  for (int round = 0; round < (LAMELLA_ADDRESS_SANITIZER ? 10 : 100); round++) {
    TableLevelsState levels;
    std::vector<UnderWay> under_way;
    uint64_t number = 0;
    for (int step = 0;; step++) {
      ASSERT_LT(step, 2000);
      if (step < 300 && random.Uniform(2) == 0) {
        const auto first = static_cast<char>('a' + random.Uniform(25));
        const std::string word = Concat(++number, ":", first, "-", first, "/50");
        TableEdit<TableInfo> flushed;
        flushed.added.push_back({0, std::make_shared<TableInfo>(TableOf(word))});
        ASSERT_TRUE(levels.Apply(flushed));
      }
      auto wanted = FindCompactions(levels, kRules);
      if (step >= 300 && wanted.empty() && under_way.empty()) break;
      for (const Compaction& one : wanted) {
        const bool may = std::ranges::none_of(
            under_way, [&](const UnderWay& other) { return Exclude(one, other.compaction); });
        if (may) under_way.push_back({one, levels});
        excluded += may ? 0 : 1;
      }
      most_at_once = std::max(most_at_once, under_way.size());
      if (under_way.empty() || (step < 300 && random.Uniform(3) == 0)) continue;
      std::swap(under_way[random.Uniform(under_way.size())], under_way.back());
      const UnderWay& over = under_way.back();
      ASSERT_TRUE(Do(over.compaction, over.from, &number, &levels)) << PictureOf(levels);
      under_way.pop_back();
    }
    ASSERT_LT(levels.level(0).size(), kRules.level0_tables);
  }
  EXPECT_GT(most_at_once, 3u);
  EXPECT_GT(excluded, 1000u);
}

}  // namespace
}  // namespace lamella
