#include "engine/level_sweep.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "engine/pm_level_test_base.h"

namespace lamella {
namespace {

class LevelSweepTest : public PmLevelTestBase {
 protected:
  LevelSweepTest() : PmLevelTestBase(0), sweep_(&*level_, &snapshots_) {}
  /// So many keys, each in so many versions, all of which a snapshot needs.
  void Fill(int keys, int versions) {
    for (int version = 0; version < versions; version++) {
      for (int i = 0; i < keys; i++) Write(Concat("key", 10'000 + i));
      Merge();
      Settle();
      taken_.push_back(snapshots_.Take([this] { return sequence_; }));
    }
  }
  void ReleaseAll() {
    for (const uint64_t sequence : taken_) snapshots_.Release(sequence);
    taken_.clear();
  }

  LevelSweep sweep_;
  std::vector<uint64_t> taken_;
};

TEST_F(LevelSweepTest, WhatSnapshotsHeldIsTakenOutOnceTheyAreReleased) {
  constexpr int kKeys = 80'000;  // more versions than one job walks
  int told = 0;
  snapshots_.OnPast([&] { told++; });
  Fill(kKeys, 3);
  EXPECT_EQ(level_->count(), uint64_t{3} * kKeys);
  EXPECT_FALSE(sweep_.Due(sequence_, false)) << "snapshots need them";
  EXPECT_EQ(told, 0);
  ReleaseAll();
  EXPECT_EQ(told, 1) << "the release that makes a sweep worth it tells";
  ASSERT_TRUE(sweep_.Due(sequence_, false));
  int jobs = 0;
  do {
    sweep_.Begin(sequence_);
    ASSERT_TRUE(sweep_.Some().ok());
    jobs++;
  } while (sweep_.Due(sequence_, false));
  EXPECT_GT(jobs, 1);
  EXPECT_FALSE(sweep_.under_way());
  EXPECT_EQ(level_->count(), uint64_t{kKeys});
}

TEST_F(LevelSweepTest, NothingKeptIsNothingToDo) {
  Fill(1'000, 1);
  ReleaseAll();
  EXPECT_FALSE(sweep_.Due(sequence_, false));
  EXPECT_FALSE(sweep_.Due(sequence_, true));
}

}  // namespace
}  // namespace lamella
