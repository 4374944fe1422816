#include "engine/sweep_need.h"

#include <algorithm>

namespace lamella {

namespace {

// Versions kept for snapshots that are worth a sweep: so many, and this part of what there is.
constexpr uint64_t kKeptMin = 1024;
constexpr uint64_t kKeptPart = 8;

}  // namespace

bool SweepNeed::Note(const Now& now) {
  if (after_ != 0 || now.kept < std::max(kKeptMin, now.records / kKeptPart)) return false;
  after_ = std::max<uint64_t>(1, now.published);
  return true;
}

bool SweepNeed::Due(const Now& now, bool pool_is_full) const {
  if (IsPast(now)) return true;
  return pool_is_full && (now.kept != 0 || after_ != 0) &&
         now.snapshots_released != released_at_last_;
}

void SweepNeed::Begin(const Now& now) {
  if (IsPast(now)) {
    after_ = 0;
  } else {
    released_at_last_ = now.snapshots_released;
  }
}

}  // namespace lamella
