#include "engine/listdb/job_picker.h"

#include <algorithm>

namespace lamella {

namespace {

// Gc looks once this part of what the pool uses has died since it looked last, and so many chunks.
constexpr uint64_t kGarbagePart = 64;
constexpr uint64_t kGarbageChunks = 2;
// Whether gc has something to look for. While merges wait it takes more: they find what is dead.
bool GcDue(const ListDbPicture& now) {
  const uint64_t enough = std::max(kGarbageChunks * now.chunk_bytes, now.used_bytes / kGarbagePart);
  if (now.gc_again || now.garbage_bytes >= enough) return true;
  return !now.merge_wanted() && (now.garbage_bytes > 0 || now.tombstones_settled);
}

PickedJob PickSpaceJob(const ListDbPicture& now) {
  if (now.recount_due) return {ListDbJob::kRecount};
  if (now.sweep_due) return {ListDbJob::kSweep};
  if (now.pool_is_full) return {ListDbJob::kGc, GcGoal::kAll};
  if (!GcDue(now)) return {};
  return {ListDbJob::kGc, now.merge_wanted() ? GcGoal::kBusy : GcGoal::kTarget};
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
    if (const PickedJob job = PickSpaceJob(now); job.job != ListDbJob::kNone) return job;
  }
  if (now.merge_ready()) return {ListDbJob::kMerge};
  if (now.merge_wanted() || now.giving_back) return {};
  return {ListDbJob::kTrimEnd};
}

}  // namespace lamella
