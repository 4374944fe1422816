#include "engine/space_picker.h"

#include <gtest/gtest.h>

namespace lamella {
namespace {

constexpr PickedSpaceJob kNothing{};

TEST(SpacePicker, WhereNothingDiedNothingIsDone) {
  EXPECT_EQ(PickSpaceJob({.chunk_bytes = 1 << 16, .used_bytes = 1 << 30}), kNothing);
}

TEST(SpacePicker, AnIdleLevelIsLookedAtForLittle) {
  const SpacePicture now{.garbage_bytes = 1, .chunk_bytes = 1 << 16, .used_bytes = 1 << 30};
  EXPECT_EQ(PickSpaceJob(now), (PickedSpaceJob{SpaceJob::kGc, GcGoal::kTarget}));
  SpacePicture busy = now;
  busy.merges_wait = true;
  EXPECT_EQ(PickSpaceJob(busy), kNothing);
  busy.garbage_bytes = busy.used_bytes / 64;
  EXPECT_EQ(PickSpaceJob(busy), (PickedSpaceJob{SpaceJob::kGc, GcGoal::kBusy}));
}

TEST(SpacePicker, AFullPoolIsCountedAndSweptBeforeAllIsCollected) {
  SpacePicture now{.pool_is_full = true, .recount_due = true, .sweep_due = true};
  EXPECT_EQ(PickSpaceJob(now).job, SpaceJob::kRecount);
  now.recount_due = false;
  EXPECT_EQ(PickSpaceJob(now).job, SpaceJob::kSweep);
  now.sweep_due = false;
  EXPECT_EQ(PickSpaceJob(now), (PickedSpaceJob{SpaceJob::kGc, GcGoal::kAll}));
}

}  // namespace
}  // namespace lamella
