// Which job ListDB's background does next: a pure function of a picture of the store. In order,
// where nothing that is under way forbids it:
//   1  help the merge under way, which another thread does
//   2  make the tables of L0 durable, a group at a time: what is not, is not merged (ListDb's I2)
//   3  a lookup cache that fits what it is asked for
//   4  give memory back that other stores need, then warm caches after an open
//   5  the merge that failed on its way: until it is done the table leads on into L1 from where it
//      stopped, past what is taken out of L1 meanwhile
//   6  what gives space back, in turn with merges; on a full pool merges first: they find what is
//      dead
//   7  merge the oldest table, once no Get is left that began before it was made (ListDb's I3): the
//      last of them has the picture looked at again
//   8  give the pool's end back to the file system
// 4 to 7 change L1 or its caches: one at a time (ListDb's I5), and a CompactRange that waits for L1
// goes before all but the helper.
#ifndef LAMELLA_ENGINE_LISTDB_JOB_PICKER_H_
#define LAMELLA_ENGINE_LISTDB_JOB_PICKER_H_

#include <cstddef>
#include <cstdint>

#include "engine/space_picker.h"

namespace lamella {

/// What the store is like when a job is picked.
struct ListDbPicture {
  // L0.
  size_t tables = 0;
  size_t fresh = 0;  // of them, those that are not checkpointed: the newest
  bool oldest_settled = true;
  size_t checkpoint_group = 1;  // ListDbOptions::checkpoint_group_tables
  bool zipper_compaction = true;
  bool merge_all = false;    // wanted now, whatever the options and groups are
  bool half_merged = false;  // the oldest, by a merge that failed
  // Under way, or waiting.
  bool merge_wants_helper = false;
  bool checkpointing = false;
  bool growing_cache = false;
  bool giving_back = false;
  bool l1_busy = false;
  bool l1_awaited = false;  // by a CompactRange
  // Caches and memory.
  bool cache_growth_due = false;
  bool must_shrink = false;
  bool caches_are_cold = false;
  // Space.
  SpacePicture space;           // but for merges_wait, which the rest says
  bool space_had_turn = false;  // it had L1 since the last merge

  bool merge_wanted() const { return (zipper_compaction || merge_all) && tables > 0; }
  bool merge_starves() const { return merge_wanted() && fresh == tables; }
  bool merge_ready() const { return merge_wanted() && fresh < tables && oldest_settled; }
};

enum class ListDbJob : uint8_t {
  kNone,
  kScanAhead,
  kCheckpoint,
  kGrowCache,
  kShrink,
  kWarm,
  kSpace,
  kMerge,
  kTrimEnd,
};

struct PickedJob {
  ListDbJob job = ListDbJob::kNone;
  PickedSpaceJob space;  // of kSpace
  bool operator==(const PickedJob&) const = default;
};

PickedJob PickListDbJob(const ListDbPicture& picture);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LISTDB_JOB_PICKER_H_
