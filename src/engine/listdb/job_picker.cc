#include "engine/listdb/job_picker.h"

#include "engine/space_picker.h"

namespace lamella {

namespace {

PickedJob PickSpaceJobOf(const ListDbPicture& now) {
  const PickedSpaceJob picked = PickSpaceJob({.merges_wait = now.merge_wanted(),
                                              .pool_is_full = now.pool_is_full,
                                              .recount_due = now.recount_due,
                                              .sweep_due = now.sweep_due,
                                              .gc_again = now.gc_again,
                                              .tombstones_settled = now.tombstones_settled,
                                              .garbage_bytes = now.garbage_bytes,
                                              .chunk_bytes = now.chunk_bytes,
                                              .used_bytes = now.used_bytes});
  switch (picked.job) {
    case SpaceJob::kNone:
      break;
    case SpaceJob::kRecount:
      return {ListDbJob::kRecount};
    case SpaceJob::kSweep:
      return {ListDbJob::kSweep};
    case SpaceJob::kGc:
      return {ListDbJob::kGc, picked.goal};
  }
  return {};
}

}  // namespace

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
  const bool merge_first = now.merge_ready() && (now.pool_is_full || now.space_had_turn);
  if (!merge_first) {
    if (const PickedJob job = PickSpaceJobOf(now); job.job != ListDbJob::kNone) return job;
  }
  if (now.merge_ready()) return {ListDbJob::kMerge};
  if (now.merge_wanted() || now.giving_back) return {};
  return {ListDbJob::kTrimEnd};
}

}  // namespace lamella
