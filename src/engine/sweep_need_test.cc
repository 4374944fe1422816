#include "engine/sweep_need.h"

#include <gtest/gtest.h>

namespace lamella {
namespace {

SweepNeed::Now Versions(uint64_t kept, uint64_t oldest, uint64_t released = 0) {
  return {.kept = kept,
          .records = 80'000,
          .published = 500,
          .snapshots_oldest = oldest,
          .snapshots_released = released};
}

TEST(SweepNeed, ASweepWaitsForEnoughAndForTheSnapshotsThatKeepIt) {
  SweepNeed need;
  EXPECT_FALSE(need.Note(Versions(9'999, UINT64_MAX)));
  EXPECT_FALSE(need.Due(Versions(9'999, UINT64_MAX), false));
  EXPECT_TRUE(need.Note(Versions(10'000, 100)));
  EXPECT_FALSE(need.Note(Versions(10'000, 100))) << "taken up already";
  EXPECT_FALSE(need.Due(Versions(0, 499), false));
  EXPECT_EQ(need.AwaitedPast(Versions(0, 499)), 500u);
  EXPECT_TRUE(need.Due(Versions(0, 500), false));
  EXPECT_EQ(need.AwaitedPast(Versions(0, 500)), 0u);
  need.Begin(Versions(0, 500));
  EXPECT_FALSE(need.Due(Versions(0, 500), false));
}

TEST(SweepNeed, AFullPoolIsSweptForLittleOnceForEachRelease) {
  SweepNeed need;
  EXPECT_FALSE(need.Due(Versions(0, UINT64_MAX, 1), true)) << "nothing was kept";
  EXPECT_FALSE(need.Due(Versions(1, UINT64_MAX, 1), false));
  EXPECT_TRUE(need.Due(Versions(1, UINT64_MAX, 1), true));
  need.Begin(Versions(1, UINT64_MAX, 1));
  EXPECT_FALSE(need.Due(Versions(1, UINT64_MAX, 1), true));
  EXPECT_TRUE(need.Due(Versions(1, UINT64_MAX, 2), true));
}

}  // namespace
}  // namespace lamella
