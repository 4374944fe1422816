// Which job gives space of a level back next: a pure function of a picture of the level.
#ifndef LAMELLA_ENGINE_SPACE_PICKER_H_
#define LAMELLA_ENGINE_SPACE_PICKER_H_

#include <cstdint>

#include "engine/victims.h"

namespace lamella {

struct SpacePicture {
  bool merges_wait = false;  // they find what is dead, and bring more
  bool pool_is_full = false;
  bool recount_due = false;
  bool sweep_due = false;
  bool gc_again = false;  // the last pass freed something, or an open left something to look at
  bool tombstones_settled = false;  // deletes may go that could not before
  uint64_t garbage_bytes = 0;       // found dead since gc last looked
  uint64_t chunk_bytes = 1;
  uint64_t used_bytes = 0;
};

enum class SpaceJob : uint8_t { kNone, kRecount, kSweep, kGc };

struct PickedSpaceJob {
  SpaceJob job = SpaceJob::kNone;
  GcGoal goal = GcGoal::kTarget;  // of kGc
  bool operator==(const PickedSpaceJob&) const = default;
};

PickedSpaceJob PickSpaceJob(const SpacePicture& now);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SPACE_PICKER_H_
