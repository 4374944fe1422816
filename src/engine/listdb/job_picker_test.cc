#include "engine/listdb/job_picker.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

constexpr PickedJob kNothing{};

// A store that has nothing to do but to look at its end.
ListDbPicture Idle() { return {.checkpoint_group = 2, .space = {.chunk_bytes = 1 << 20}}; }

// With so many tables in L0, all checkpointed, of which the oldest may be merged.
ListDbPicture WithTables(size_t tables) {
  ListDbPicture now = Idle();
  now.tables = tables;
  return now;
}

ListDbJob JobOf(const ListDbPicture& now) { return PickListDbJob(now).job; }
SpaceJob SpaceJobOf(const ListDbPicture& now) { return PickListDbJob(now).space.job; }
PickedJob Gc(GcGoal goal) { return {ListDbJob::kSpace, {SpaceJob::kGc, goal}}; }

TEST(JobPicker, AnIdleStoreLooksAtItsEndOnce) {
  ListDbPicture now = Idle();
  EXPECT_EQ(JobOf(now), ListDbJob::kTrimEnd);
  now.giving_back = true;
  EXPECT_EQ(PickListDbJob(now), kNothing);
}

TEST(JobPicker, TablesAreCheckpointedInGroups) {
  ListDbPicture now = WithTables(3);
  now.fresh = 1;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge) << "an older one is ready";
  now.fresh = 2;
  EXPECT_EQ(JobOf(now), ListDbJob::kCheckpoint);
  now.checkpointing = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge);
}

TEST(JobPicker, AGroupOfOneWhereMergingHasNothingElse) {
  ListDbPicture now = WithTables(1);
  now.fresh = 1;
  EXPECT_EQ(JobOf(now), ListDbJob::kCheckpoint);
  now.zipper_compaction = false;
  EXPECT_EQ(JobOf(now), ListDbJob::kTrimEnd) << "nothing is merged";
  now.merge_all = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kCheckpoint);
}

TEST(JobPicker, OnlyASettledTableIsMerged) {  // ListDb's I3
  ListDbPicture now = WithTables(1);
  now.oldest_settled = false;
  EXPECT_EQ(PickListDbJob(now), kNothing);
  now.checkpoint_group = 3;
  now.fresh = 2;
  now.tables = 3;
  EXPECT_EQ(PickListDbJob(now), kNothing) << "a group is not cut for a reader";
  now.space.gc_again = now.space_had_turn = true;
  EXPECT_EQ(SpaceJobOf(now), SpaceJob::kGc) << "which may have L1 meanwhile";
  now.oldest_settled = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge);
}

TEST(JobPicker, WithoutZipperCompactionTablesStayUntilTheyAreWanted) {
  ListDbPicture now = WithTables(4);
  now.zipper_compaction = false;
  EXPECT_EQ(JobOf(now), ListDbJob::kTrimEnd);
  now.merge_all = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge);
}

TEST(JobPicker, OneJobHasL1) {  // ListDb's I5
  for (const bool busy : {true, false}) {
    ListDbPicture now = WithTables(2);
    now.must_shrink = now.caches_are_cold = now.space.recount_due = now.space.gc_again = true;
    (busy ? now.l1_busy : now.l1_awaited) = true;
    EXPECT_EQ(PickListDbJob(now), kNothing);
    now.merge_wants_helper = true;
    EXPECT_EQ(JobOf(now), ListDbJob::kScanAhead);
  }
}

TEST(JobPicker, BesideTheJobWithL1TablesAreMadeDurable) {
  ListDbPicture now = WithTables(4);
  now.l1_busy = true;
  now.fresh = 2;
  EXPECT_EQ(JobOf(now), ListDbJob::kCheckpoint);
  now.checkpointing = true;
  now.cache_growth_due = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kGrowCache);
}

TEST(JobPicker, MemoryComesBeforeCachesAndThoseBeforeTheRest) {
  ListDbPicture now = WithTables(2);
  now.space.recount_due = true;
  now.caches_are_cold = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kWarm);
  now.must_shrink = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kShrink);
}

TEST(JobPicker, AMergeThatFailedIsDoneBeforeAnythingIsTakenOut) {
  ListDbPicture now = WithTables(2);
  now.half_merged = true;
  now.space.recount_due = now.space.sweep_due = now.space.gc_again = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge);
  now.zipper_compaction = false;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge) << "it was wanted once";
  now.must_shrink = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kShrink) << "want of memory may be why it failed";
  now.l1_busy = true;
  EXPECT_EQ(PickListDbJob(now), kNothing);
}

TEST(JobPicker, SpaceAndMergesTakeTurns) {
  ListDbPicture now = WithTables(2);
  now.space.gc_again = true;
  EXPECT_EQ(PickListDbJob(now), Gc(GcGoal::kBusy));
  now.space_had_turn = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge);
  now.tables = 0;
  EXPECT_EQ(PickListDbJob(now), Gc(GcGoal::kTarget));
}

TEST(JobPicker, AFullPoolIsMergedFirstAndThenCollectedToTheEnd) {
  ListDbPicture now = WithTables(1);
  now.space.pool_is_full = true;
  now.space.recount_due = true;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge);
  now.tables = 0;
  EXPECT_EQ(SpaceJobOf(now), SpaceJob::kRecount);
  now.space.recount_due = false;
  now.space.sweep_due = true;
  EXPECT_EQ(SpaceJobOf(now), SpaceJob::kSweep);
  now.space.sweep_due = false;
  EXPECT_EQ(PickListDbJob(now), Gc(GcGoal::kAll));
}

TEST(JobPicker, GcWaitsForEnoughGarbageWhileTablesDo) {
  ListDbPicture now = WithTables(1);
  now.space.used_bytes = 1 << 30;
  now.space.garbage_bytes = (now.space.used_bytes / 64) - 1;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge);
  now.space.garbage_bytes++;
  EXPECT_EQ(SpaceJobOf(now), SpaceJob::kGc);
  now.space.used_bytes = 1 << 20;  // of a small store, two chunks' worth
  now.space.garbage_bytes = 2 * now.space.chunk_bytes - 1;
  EXPECT_EQ(JobOf(now), ListDbJob::kMerge);
  now.tables = 0;
  EXPECT_EQ(SpaceJobOf(now), SpaceJob::kGc) << "any, where nothing else is to do";
  now.space.garbage_bytes = 0;
  EXPECT_EQ(JobOf(now), ListDbJob::kTrimEnd);
  now.space.tombstones_settled = true;
  EXPECT_EQ(SpaceJobOf(now), SpaceJob::kGc);
}

// Whatever the picture, in every one of a hundred thousand.
TEST(JobPicker, NoPictureAsksForWhatItForbids) {
  Random random(1);
  const auto maybe = [&] { return random.OneIn(2); };
  for (int i = 0; i < 100'000; i++) {
    ListDbPicture now;
    now.tables = random.Uniform(4);
    now.fresh = random.Uniform(now.tables + 1);
    now.checkpoint_group = 1 + random.Uniform(3);
    for (bool* const each :
         {&now.oldest_settled, &now.zipper_compaction, &now.merge_all, &now.merge_wants_helper,
          &now.checkpointing, &now.growing_cache, &now.giving_back, &now.l1_busy, &now.l1_awaited,
          &now.cache_growth_due, &now.must_shrink, &now.caches_are_cold, &now.space.pool_is_full,
          &now.space_had_turn, &now.space.recount_due, &now.space.sweep_due, &now.space.gc_again,
          &now.space.tombstones_settled})
      *each = maybe();
    now.space.garbage_bytes = random.Uniform(4);
    now.half_merged = now.tables > now.fresh && now.oldest_settled && maybe();
    const ListDbJob job = JobOf(now);
    if (job >= ListDbJob::kShrink) {
      ASSERT_FALSE(now.l1_busy || now.l1_awaited);
    }
    if (job == ListDbJob::kMerge) {
      ASSERT_TRUE(now.tables > now.fresh && now.oldest_settled);
      ASSERT_TRUE(now.zipper_compaction || now.merge_all || now.half_merged);
    }
    if (job == ListDbJob::kSpace || job == ListDbJob::kTrimEnd) {
      ASSERT_FALSE(now.half_merged);
    }
    if (job == ListDbJob::kCheckpoint) {
      ASSERT_TRUE(now.fresh > 0 && !now.checkpointing);
    }
    if (now.merge_wanted() && !now.l1_awaited && !now.merge_wants_helper) {
      const bool waits = job == ListDbJob::kNone || job == ListDbJob::kTrimEnd;
      if (now.merge_ready()) {
        ASSERT_TRUE(!waits || now.l1_busy) << "a table would wait for ever";
      } else if (now.merge_starves() && !now.checkpointing) {
        ASSERT_EQ(job, ListDbJob::kCheckpoint);
      }
    }
  }
}

}  // namespace
}  // namespace lamella
