#include "engine/zipperdb/job_picker.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

// A store that has nothing to do but to look at its end.
ZipperDbPicture Idle() { return {.space = {.chunk_bytes = 1 << 20}}; }

// With frozen lists at these levels, of which the last goes to the bottom list.
ZipperDbPicture WithFrozen(std::initializer_list<uint32_t> levels) {
  ZipperDbPicture now = Idle();
  for (const uint32_t level : levels) now.frozen.push_back({.level = level});
  now.frozen.back().to_bottom = true;
  now.uppers = true;
  return now;
}

ZipperDbJob JobOf(const ZipperDbPicture& now) { return PickZipperDbJob(now).job; }

TEST(ZipperDbPicker, AnIdleStoreLooksAtItsEndOnce) {
  ZipperDbPicture now = Idle();
  EXPECT_EQ(JobOf(now), ZipperDbJob::kTrimEnd);
  now.giving_back = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kNone);
}

TEST(ZipperDbPicker, TheUppermostFrozenListGoesDownFirst) {
  ZipperDbPicture now = WithFrozen({0, 1});
  EXPECT_EQ(PickZipperDbJob(now), (PickedZipperDbJob{.job = ZipperDbJob::kMerge, .level = 0}));
  now.frozen[0].may_begin = false;  // it is on its way
  EXPECT_EQ(PickZipperDbJob(now), (PickedZipperDbJob{.job = ZipperDbJob::kMerge, .level = 1}))
      << "two ways at once";
  now.bottom_free = false;
  now.all_free = false;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kNone);
}

TEST(ZipperDbPicker, AFullListIsFrozenBeforeAnythingIsMerged) {
  ZipperDbPicture now = WithFrozen({1});
  now.full = 0;
  now.bottom_free = now.all_free = false;
  EXPECT_EQ(PickZipperDbJob(now), (PickedZipperDbJob{.job = ZipperDbJob::kFreeze, .level = 0}));
  now.merge_all = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kNone) << "it is merged as it is";
}

TEST(ZipperDbPicker, SpaceAndMergesIntoTheBottomListTakeTurns) {
  ZipperDbPicture now = WithFrozen({1});
  now.space.garbage_bytes = 1 << 30;
  EXPECT_EQ(PickZipperDbJob(now).space, (PickedSpaceJob{SpaceJob::kGc, GcGoal::kTarget}));
  now.space_had_turn = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kMerge);
  now.frozen[0].may_begin = false;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kSpace) << "it does not wait for a turn that none can take";
}

TEST(ZipperDbPicker, AMergeThatFailedIsDoneBeforeAnythingIsTakenOut) {
  ZipperDbPicture now = WithFrozen({1});
  now.half_merged = true;
  now.space.garbage_bytes = 1 << 30;
  now.space.recount_due = now.space.sweep_due = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kMerge);
  now.frozen[0].may_begin = false;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kNone);
  now = Idle();
  now.half_merged = true;  // by a flush
  now.space.gc_again = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kNone);
  now.uppers = now.merge_all = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kMergeAll) << "which does it first";
}

TEST(ZipperDbPicker, AMergeAboveTheBottomListDoesNotWaitForGc) {
  ZipperDbPicture now = WithFrozen({0, 1});
  now.space.garbage_bytes = 1 << 30;
  now.bottom_free = false;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kMerge);
}

TEST(ZipperDbPicker, OnAFullPoolAllIsMergedFirst) {
  ZipperDbPicture now = WithFrozen({0});
  now.merge_all = now.space.pool_is_full = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kMergeAll);
  now.all_free = false;
  now.frozen[0].may_begin = false;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kSpace) << "what is under way holds it up";
  now.bottom_free = false;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kNone);
  now = Idle();
  now.merge_all = now.space.pool_is_full = true;
  EXPECT_EQ(PickZipperDbJob(now).space, (PickedSpaceJob{SpaceJob::kGc, GcGoal::kAll}));
}

TEST(ZipperDbPicker, WhatMayBeDeadIsMergedOnlyWhereNothingElseIsToBeDone) {
  ZipperDbPicture now = Idle();
  now.uppers = now.uppers_take_too_much = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kMergeAll);
  now.flush_waits = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kTrimEnd);
  now.flush_waits = false;
  now.all_free = false;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kNone);
}

TEST(ZipperDbPicker, MemoryIsGivenBackBeforeGuidesAreWarmed) {
  ZipperDbPicture now = WithFrozen({0});
  now.guides_are_cold = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kWarm);
  now.must_shrink = true;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kShrink);
  now.all_free = false;
  EXPECT_EQ(JobOf(now), ZipperDbJob::kMerge);
}

// Whatever the picture is, a job begins only on what nobody has.
TEST(ZipperDbPicker, NoJobBeginsOnWhatIsTaken) {
  Random random(7);
  for (int i = 0; i < 100'000; i++) {
    ZipperDbPicture now = Idle();
    for (uint32_t level = 0; level < 4; level++) {
      if (random.OneIn(2)) now.frozen.push_back({level, random.OneIn(2), random.OneIn(2)});
    }
    now.bottom_free = random.OneIn(2);
    now.all_free = now.bottom_free && random.OneIn(2);
    for (auto& frozen : now.frozen) {
      if (frozen.to_bottom && !now.bottom_free) frozen.may_begin = false;
      if (now.all_free) frozen.may_begin = true;
    }
    for (bool* flag : {&now.uppers, &now.merge_all, &now.uppers_take_too_much, &now.flush_waits,
                       &now.must_shrink, &now.guides_are_cold, &now.giving_back,
                       &now.space_had_turn, &now.half_merged, &now.space.pool_is_full,
                       &now.space.recount_due, &now.space.sweep_due, &now.space.gc_again})
      *flag = random.OneIn(3);
    const PickedZipperDbJob picked = PickZipperDbJob(now);
    switch (picked.job) {
      case ZipperDbJob::kShrink:
      case ZipperDbJob::kWarm:
      case ZipperDbJob::kMergeAll:
        ASSERT_TRUE(now.all_free);
        break;
      case ZipperDbJob::kSpace:
        ASSERT_TRUE(now.bottom_free && !now.half_merged);
        break;
      case ZipperDbJob::kMerge: {
        bool free = false;
        for (const auto& frozen : now.frozen)
          free = free || (frozen.level == picked.level && frozen.may_begin);
        ASSERT_TRUE(free);
        break;
      }
      default:
        break;
    }
  }
}

}  // namespace
}  // namespace lamella
