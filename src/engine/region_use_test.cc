#include "engine/region_use.h"

#include <gtest/gtest.h>

#include "index/index_test_base.h"

namespace lamella {
namespace {

class FakeTable final : public LevelTable {
 public:
  FakeTable(uint64_t number, const LevelPlace& place, std::vector<RegionPtr> regions)
      : LevelTable(InfoOf(number, place), place, std::move(regions)) {}
  Lookup Find(const InternalKey&, uint64_t, bool) const override { return {}; }
  std::unique_ptr<InternalIterator> NewIterator(bool) const override { return nullptr; }
  void Check(CheckReport*) const override {}

 private:
  static TableInfo InfoOf(uint64_t number, const LevelPlace& place) {
    TableInfo info{.number = number, .records = 100};
    info.smallest = info.largest = std::to_string(number);
    info.place = place.Encode();
    return info;
  }
};

using Levels = TableLevels<LevelTable>;
using LevelsEdit = TableEdit<LevelTable>;

class RegionUseEditTest : public IndexTest {
 protected:
  RegionUseEditTest() { CreateParts(1); }

  LevelTable::RegionPtr RegionOf(uint64_t number, ChunkKind kind) {
    Persister persister(pool_->gate(), WriteCause::kCompaction);
    RegionWriter writer(pool_.get(), kind, number, &persister);
    EXPECT_TRUE(writer.Claim(1).ok());
    return writer.Finish();
  }
  /// With an index of its own, and so many bytes of each of these.
  std::shared_ptr<const LevelTable> TableOf(uint64_t number,
                                            const std::vector<LevelTable::RegionPtr>& records,
                                            uint64_t bytes) {
    LevelPlace place;
    std::vector<LevelTable::RegionPtr> regions{RegionOf(number, kIndexRegion)};
    regions.insert(regions.end(), records.begin(), records.end());
    for (const auto& region : regions) place.regions.push_back({region->number(), bytes});
    return std::make_shared<FakeTable>(number, place, regions);
  }
  /// Numbers of regions, with the tables that have them, those of level 0 of them, and bytes.
  static std::string PictureOf(const RegionUses& uses) {
    std::string picture;
    for (const auto& [number, use] : uses) {
      picture += Concat(picture.empty() ? "" : " ", number, use.has_records ? "r:" : ":",
                        use.tables, "/", use.level0_tables, "/", use.live);
    }
    return picture;
  }
  std::vector<uint64_t> Change(const LevelsEdit& edit) {
    RegionUseEdit change(levels_, edit);
    EXPECT_TRUE(levels_.Apply(edit));
    change.Apply(&uses_);
    std::vector<uint64_t> unused;
    for (const auto& region : change.unused()) unused.push_back(region->number());
    return unused;
  }

  Levels levels_;
  RegionUses uses_;
};

TEST_F(RegionUseEditTest, CountsWhatComesAndGoes) {
  const auto old_records = RegionOf(1, kRecordRegion);
  const auto new_records = RegionOf(2, kRecordRegion);
  EXPECT_EQ(
      Change({{}, {{0, TableOf(10, {old_records}, 100)}, {0, TableOf(11, {new_records}, 50)}}}),
      (std::vector<uint64_t>{}));
  EXPECT_EQ(PictureOf(uses_), "1r:1/1/100 2r:1/1/50 10:1/1/100 11:1/1/50");
  EXPECT_EQ(uses_.at(1).bytes, pool_->chunk_bytes());
  EXPECT_EQ(Change({{10, 11},
                    {{1, TableOf(12, {old_records, new_records}, 20)},
                     {1, TableOf(13, {old_records}, 30)}}}),
            (std::vector<uint64_t>{11, 10}))
      << "the records are the new tables'";
  EXPECT_EQ(PictureOf(uses_), "1r:2/0/50 2r:1/0/20 12:1/0/20 13:1/0/30");
  EXPECT_EQ(Change({{12}, {}}), (std::vector<uint64_t>{12, 2}));
  EXPECT_EQ(PictureOf(uses_), "1r:1/0/30 13:1/0/30");
}

TEST_F(RegionUseEditTest, ATableThatMovesKeepsItsRegions) {
  const auto table = TableOf(10, {RegionOf(1, kRecordRegion)}, 100);
  Change({{}, {{0, table}}});
  EXPECT_EQ(Change({{10}, {{1, table}}}), (std::vector<uint64_t>{}));
  EXPECT_EQ(PictureOf(uses_), "1r:1/0/100 10:1/0/100");
}

// Tables of 100 records, as bytes that live and deletes, by level.
uint64_t LiveAtLeastOf(const std::vector<std::pair<uint64_t, uint64_t>>& tables) {
  Levels levels;
  for (uint32_t i = 0; i < tables.size(); i++) {
    LevelPlace place;
    place.live_bytes = tables[i].first;
    place.deletes = tables[i].second;
    EXPECT_TRUE(levels.Apply(
        {{},
         {{i, std::make_shared<FakeTable>(i + 1, place, std::vector<LevelTable::RegionPtr>())}}}));
  }
  return LiveAtLeast(levels);
}

TEST(LiveAtLeast, IsWhatOneLevelHas) {
  EXPECT_EQ(LiveAtLeastOf({}), 0u);
  EXPECT_EQ(LiveAtLeastOf({{100, 0}, {1000, 0}, {500, 0}}), 1000u) << "the rest may be hidden";
}

TEST(LiveAtLeast, IsLessWhatDeletesAboveMayHide) {
  EXPECT_EQ(LiveAtLeastOf({{0, 30}, {1000, 0}}), 700u);
  EXPECT_EQ(LiveAtLeastOf({{0, 100}, {100, 50}, {1000, 0}}), 0u);
  EXPECT_EQ(LiveAtLeastOf({{1000, 0}, {0, 30}}), 1000u) << "those below hide nothing above";
}

constexpr uint64_t kChunk = 64 << 10;
constexpr uint64_t kRegion = 40 * kChunk;

// Regions 1, 2, ... of records, of which these shares live, each of two tables'.
RegionUses Uses(const std::vector<double>& shares) {
  RegionUses uses;
  for (const double share : shares) {
    uses[uses.size() + 1] = {.bytes = kRegion,
                             .live = static_cast<uint64_t>(share * kRegion),
                             .tables = 2,
                             .has_records = true,
                             .region = nullptr};
  }
  return uses;
}

SpaceGoal Goal(double live_regions) {
  return {.live_bytes = static_cast<uint64_t>(live_regions * kRegion), .chunk_bytes = kChunk};
}

using Sparse = std::set<uint64_t>;

using Table = std::vector<RegionShare>;

// Two tables that refer to all of them.
Sparse Find(const RegionUses& uses, const SpaceGoal& goal) {
  Table all;
  for (const auto& [number, use] : uses) all.push_back({number, use.live / use.tables});
  return FindSparse(uses, {all, all}, goal);
}

TEST(FindSparse, WhatHoldsLittleIsEmptiedWhateverTheWholeIsLike) {
  EXPECT_EQ(Find(Uses({1, 0.2, 0.3, 0.24}), Goal(10)), (Sparse{2, 4}));
}

TEST(FindSparse, BeyondTheTargetTheEmptiestGoFirstAndNoMoreThanItTakes) {
  // Three in use and one lives: two regions may be.
  EXPECT_EQ(Find(Uses({0.7, 0.3, 0.6}), Goal(1)), (Sparse{2, 3}));
  EXPECT_EQ(Find(Uses({0.7, 0.3, 0.6}), Goal(1.4)), (Sparse{2}));
  EXPECT_EQ(Find(Uses({0.7, 0.3, 0.6}), Goal(2)), (Sparse{}));
}

TEST(FindSparse, WhatIsFullStaysWhateverTheTargetSays) {
  EXPECT_EQ(Find(Uses({0.8, 0.9}), Goal(0.1)), (Sparse{}));
}

TEST(FindSparse, OfAFullPoolAllThatGivesSpaceAsFarAsThereIsRoom) {
  SpaceGoal goal = Goal(10);
  goal.pool_is_full = true;
  EXPECT_EQ(Find(Uses({0.7, 0.3, 0.9}), goal), (Sparse{1, 2}));
  goal.copy_bytes_max = kRegion / 2;
  EXPECT_EQ(Find(Uses({0.7, 0.3, 0.9}), goal), (Sparse{2}));
}

TEST(FindSparse, CopyingThatGivesNoChunkBackIsNotDone) {
  RegionUses uses = Uses({0.1});
  uses[1].bytes = 2 * kChunk;
  uses[1].live = kChunk / 10;
  EXPECT_EQ(Find(uses, Goal(10)), (Sparse{})) << "each of its tables begins a chunk";
  uses[1].bytes = 3 * kChunk;
  EXPECT_EQ(Find(uses, Goal(10)), (Sparse{1}));
}

// Many small regions of one table become one.
TEST(FindSparse, WhatATableGainsIsOfAllItsRegions) {
  RegionUses uses = Uses({0.1, 0.1});
  for (auto& [number, use] : uses) {
    use.bytes = kChunk;
    use.live = kChunk / 10;
    use.tables = 1;
  }
  const Table first{{1, kChunk / 10}};
  const Table second{{2, kChunk / 10}};
  const Table both{{1, kChunk / 10}, {2, kChunk / 10}};
  EXPECT_EQ(FindSparse(uses, {first, second}, Goal(10)), (Sparse{}));
  EXPECT_EQ(FindSparse(uses, {both}, Goal(10)), (Sparse{1, 2}));
  EXPECT_GT(GainOf(both, uses, {1, 2}, kChunk), 0);
  EXPECT_LT(GainOf(both, uses, {1}, kChunk), 0);
}

// Records that do not fill their chunks would not fill others.
TEST(FindSparse, WhatCannotBeFilledIsNotDead) {
  RegionUses uses = Uses({0.6});
  EXPECT_EQ(Find(uses, Goal(0.1)), (Sparse{1}));
  uses[1].waste = kRegion / 5 * 2;
  EXPECT_EQ(Find(uses, Goal(0.1)), (Sparse{}));
}

// Of a region of some megabytes the last run of chunks is of several, and may be as empty in what
// is made of it: such a table was made anew for ever.
TEST(FindSparse, WhatCopiesMayLeaveAtTheirEndIsNoGain) {
  RegionUses uses = Uses({0.93});
  uses[1].bytes = 32 * kChunk;
  uses[1].live = 30 * kChunk - 1;
  uses[1].tables = 1;
  const Table table{{1, uses[1].live}};
  EXPECT_LE(GainOf(table, uses, {1}, kChunk), 0);
  SpaceGoal tight = Goal(10);
  tight.bytes_per_live = 1.01;
  EXPECT_EQ(FindSparse(uses, {table}, tight), (Sparse{}));
}

// The last run is by all that comes before it, what is empty between runs included: this one, of
// records of 66,000 bytes in runs of few chunks, was copied into one like it for ever.
TEST(FindSparse, WhatIsEmptyBetweenRunsMakesTheLastOneLonger) {
  RegionUses uses = Uses({1});
  uses[1].bytes = 7733248;
  uses[1].waste = 2190032;
  uses[1].live = 5150496;
  uses[1].tables = 1;
  EXPECT_LE(GainOf(Table{{1, uses[1].live}}, uses, {1}, kChunk), 0);
}

TEST(FindSparse, IndexesAndWhatLevel0RefersToAreLeft) {
  RegionUses uses = Uses({0.1, 0.1, 0.1});
  uses[1].has_records = false;
  uses[2].level0_tables = 1;
  EXPECT_EQ(Find(uses, Goal(10)), (Sparse{3}));
}

}  // namespace
}  // namespace lamella
