#include "engine/zipperdb/job_picker.h"

#include <algorithm>

namespace lamella {

PickedZipperDbJob PickZipperDbJob(const ZipperDbPicture& now) {
  if (now.all_free && now.must_shrink) return {.job = ZipperDbJob::kShrink};
  if (now.all_free && now.guides_are_cold) return {.job = ZipperDbJob::kWarm};
  const bool merge_all = now.merge_all && now.uppers;
  const auto ready = [&](bool to_bottom) {
    return std::ranges::find_if(now.frozen, [&](const auto& frozen) {
      return frozen.may_begin && frozen.to_bottom == to_bottom;
    });
  };
  if (!merge_all) {
    if (now.full) return {.job = ZipperDbJob::kFreeze, .level = *now.full};
    if (const auto merge = ready(false); merge != now.frozen.end())
      return {.job = ZipperDbJob::kMerge, .level = merge->level};
  }
  if (now.bottom_free) {
    const auto merge = ready(true);
    const bool merge_ready = merge_all ? now.all_free : merge != now.frozen.end();
    if (!now.half_merged && (!merge_ready || !(now.space.pool_is_full || now.space_had_turn))) {
      const PickedSpaceJob space = PickSpaceJob(now.space);
      if (space.job != SpaceJob::kNone) return {.job = ZipperDbJob::kSpace, .space = space};
    }
    if (merge_ready && merge_all) return {.job = ZipperDbJob::kMergeAll};
    if (merge_ready) return {.job = ZipperDbJob::kMerge, .level = merge->level};
  }
  if (!now.all_free || merge_all || now.half_merged) return {};
  if (now.uppers && now.uppers_take_too_much && !now.flush_waits)
    return {.job = ZipperDbJob::kMergeAll};
  return {.job = now.giving_back ? ZipperDbJob::kNone : ZipperDbJob::kTrimEnd};
}

}  // namespace lamella
