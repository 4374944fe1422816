// Which job ZipperDB's background does next: a pure function of a picture of the store. In order,
// where nothing that is under way forbids it:
//   1  give memory back that other stores need, then warm the guides after an open
//   2  freeze a list that is full, once its way down is free; merge a frozen one into the level
//      below. The uppermost first: writers wait for that one soonest
//   3  what gives space of the bottom list back, in turn with merges into it; on a full pool merges
//      first: they find what is dead. Nor before a merge that failed on its way is done: until then
//      its list leads on into the bottom list from where it stopped, past what is taken out there
//   4  merge all there is into the bottom list: on a full pool, or where a store that is idle would
//      keep too much that may be dead
//   5  give the pool's end back to the file system
// A call that waits for the bottom list goes before what changes it.
#ifndef LAMELLA_ENGINE_ZIPPERDB_JOB_PICKER_H_
#define LAMELLA_ENGINE_ZIPPERDB_JOB_PICKER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/space_picker.h"

namespace lamella {

/// What the store is like when a job is picked.
struct ZipperDbPicture {
  struct Frozen {
    uint32_t level = 0;
    bool to_bottom = false;
    bool may_begin = true;  // nobody has its way down
  };
  std::vector<Frozen> frozen;    // uppermost first
  std::optional<uint32_t> full;  // the uppermost level whose list may be frozen, and is full
  bool uppers = false;           // there are lists above the bottom list
  bool merge_all = false;        // wanted now
  bool uppers_take_too_much = false;
  bool half_merged = false;  // into the bottom list, by a merge or a flush that failed
  bool bottom_free = true;
  bool all_free = true;  // nobody has any list, and nobody waits for one
  bool flush_waits = false;
  bool must_shrink = false;
  bool guides_are_cold = false;
  bool giving_back = false;
  bool space_had_turn = false;  // the last job with the bottom list was about space
  SpacePicture space;
};

enum class ZipperDbJob : uint8_t {
  kNone,
  kShrink,
  kWarm,
  kFreeze,
  kMerge,
  kSpace,
  kMergeAll,
  kTrimEnd,
};

struct PickedZipperDbJob {
  ZipperDbJob job = ZipperDbJob::kNone;
  uint32_t level = 0;    // of kFreeze and kMerge
  PickedSpaceJob space;  // of kSpace
  bool operator==(const PickedZipperDbJob&) const = default;
};

PickedZipperDbJob PickZipperDbJob(const ZipperDbPicture& picture);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ZIPPERDB_JOB_PICKER_H_
