#include "engine/region_use.h"

#include <gtest/gtest.h>

namespace lamella {
namespace {

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
                             .in_level0 = false,
                             .region = nullptr};
  }
  return uses;
}

SpaceGoal Goal(double live_regions) {
  return {.live_bytes = static_cast<uint64_t>(live_regions * kRegion), .chunk_bytes = kChunk};
}

using Sparse = std::set<uint64_t>;

// Two tables that refer to all of them.
Sparse Find(const RegionUses& uses, const SpaceGoal& goal) {
  TableRefs tables;
  for (const auto& [number, use] : uses) {
    for (uint64_t table = 100; table < 100 + use.tables; table++) tables[table].push_back(number);
  }
  return FindSparse(uses, tables, goal);
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
  EXPECT_EQ(FindSparse(uses, {{100, {1}}, {101, {2}}}, Goal(10)), (Sparse{}));
  EXPECT_EQ(FindSparse(uses, {{100, {1, 2}}}, Goal(10)), (Sparse{1, 2}));
  EXPECT_GT(GainOf({1, 2}, uses, {1, 2}, kChunk), 0);
  EXPECT_LT(GainOf({1, 2}, uses, {1}, kChunk), 0);
}

// Records that do not fill their chunks would not fill others.
TEST(FindSparse, WhatCannotBeFilledIsNotDead) {
  RegionUses uses = Uses({0.6});
  EXPECT_EQ(Find(uses, Goal(0.1)), (Sparse{1}));
  uses[1].waste = kRegion / 5 * 2;
  EXPECT_EQ(Find(uses, Goal(0.1)), (Sparse{}));
}

TEST(FindSparse, IndexesAndWhatLevel0RefersToAreLeft) {
  RegionUses uses = Uses({0.1, 0.1, 0.1});
  uses[1].has_records = false;
  uses[2].in_level0 = true;
  EXPECT_EQ(Find(uses, Goal(10)), (Sparse{3}));
}

}  // namespace
}  // namespace lamella
