#include "engine/listdb/job_picker.h"

namespace lamella {

PickedJob PickListDbJob(const ListDbPicture& now) {
  if (now.merge_wants_helper) return {ListDbJob::kScanAhead};
  if (now.l1_awaited) return {};
  if (!now.checkpointing && now.fresh > 0 &&
      (now.fresh >= now.checkpoint_group || now.merge_starves() || now.merge_all))
    return {ListDbJob::kCheckpoint};
  if (now.cache_growth_due && !now.growing_cache) return {ListDbJob::kGrowCache};
  if (now.l1_busy) return {};
  if (now.must_shrink) return {ListDbJob::kShrink};
  if (now.caches_are_cold) return {ListDbJob::kWarm};
  if (now.half_merged) return {ListDbJob::kMerge};
  const bool merge_first = now.merge_ready() && (now.space.pool_is_full || now.space_had_turn);
  if (!merge_first) {
    SpacePicture space = now.space;
    space.merges_wait = now.merge_wanted();
    const PickedSpaceJob job = PickSpaceJob(space);
    if (job.job != SpaceJob::kNone) return {.job = ListDbJob::kSpace, .space = job};
  }
  if (now.merge_ready()) return {ListDbJob::kMerge};
  if (now.merge_wanted() || now.giving_back) return {};
  return {ListDbJob::kTrimEnd};
}

}  // namespace lamella
