#include "engine/space_picker.h"

#include <algorithm>

namespace lamella {

namespace {

// Gc looks once this part of what the pool uses has died since it looked last, and so many chunks.
constexpr uint64_t kGarbagePart = 64;
constexpr uint64_t kGarbageChunks = 2;

// Whether gc has something to look for. While merges wait it takes more: they find what is dead.
bool GcDue(const SpacePicture& now) {
  const uint64_t enough = std::max(kGarbageChunks * now.chunk_bytes, now.used_bytes / kGarbagePart);
  if (now.gc_again || now.garbage_bytes >= enough) return true;
  return !now.merges_wait && (now.garbage_bytes > 0 || now.tombstones_settled);
}

}  // namespace

PickedSpaceJob PickSpaceJob(const SpacePicture& now) {
  if (now.recount_due) return {SpaceJob::kRecount};
  if (now.sweep_due) return {SpaceJob::kSweep};
  if (now.pool_is_full) return {SpaceJob::kGc, GcGoal::kAll};
  if (!GcDue(now)) return {};
  return {SpaceJob::kGc, now.merges_wait ? GcGoal::kBusy : GcGoal::kTarget};
}

}  // namespace lamella
