// Which compactions a version of NVLSM wants: a pure function of it. Component C1 (level 0) has
// overlapping runs, one for each flush; each further component has Skip-Array Trees of disjoint
// ranges (Zhang and Du, "NVLSM: A Persistent Memory Key-Value Store Using Log-Structured Merge Tree
// with Accumulative Compaction", 2021, 4.1).
//   C1 goes down as a whole once it has so many runs.
//   A tree of Max_Floor floors is full: it is merged and goes down; in the last component, while
//   that has room, it comes back to where it was.
//   A tree of which much is hidden by its own upper floors is merged where it is.
// What goes down becomes floors on top of the trees there; what they have is not read. So a record
// is written once for each component, but for the last one, if trees go down when they are full and
// not before. By itself a component then holds up to Max_Floor times what the one above does:
//   Where that is much less than the factor between components, small trees would come down on many
//   large ones: so a full tree goes down from a component that has its size, and else stays as it
//   is, to be merged with what comes for it. With one floor that is leveled compaction.
//   Where trees do not fill up (keys that are written in their order) a component may outgrow what
//   full ones would hold: then others go down, too, of many floors first, which are what searches
//   pay for; those that overlap nothing there move as they are.
#ifndef LAMELLA_ENGINE_NVLSM_ACCUMULATION_H_
#define LAMELLA_ENGINE_NVLSM_ACCUMULATION_H_

#include <cstdint>
#include <vector>

#include "engine/compaction_picker.h"
#include "engine/table_levels.h"

namespace lamella {

/// How a compaction is done (Compaction::way), beside merging it into the next level.
enum : uint32_t {
  kAccumulate = 1,   // its records become floors on top of the next component's trees
  kMergeInPlace = 2  // its tree comes back to its own component
};

/// What is told of a tree, beside its TableInfo.
struct TreePicture {
  const TableInfo* info = nullptr;
  uint32_t floors = 1;
  uint64_t hidden_bytes = 0;  // about so much of it would not survive a merge
  uint64_t used_bytes = 0;    // of the pool, chunks that are not full, too
  uint64_t waste_bytes = 0;   // of them, what records that do not fill chunks leave, merged or not
};
/// The components, C1 first; each in its level's order.
using ComponentPictures = std::vector<std::vector<TreePicture>>;

struct AccumulationRules {
  LevelRules components;
  uint32_t max_floor = 10;
  double hidden_share = 0.5;  // a tree with more is merged by itself
  // What merged trees take: they are cut at so many bytes, if they have so many records, and the
  // last chunks of each are not full.
  uint64_t tree_bytes = 4 << 20;
  uint64_t tree_records_min = 1;
  uint64_t ends_bytes = 0;
};

/// All that are wanted, in no order of worth; some of them exclude each other.
std::vector<Compaction> FindAccumulations(const ComponentPictures& components,
                                          const AccumulationRules& rules);

/// Those that give space back, `gain_min` each at least: trees are merged where they are, and small
/// ones that lie side by side into fewer, where the pool is full also larger ones; once there are
/// none that gain by it, C1 goes down, so that trees hide what it makes dead.
std::vector<Compaction> FindSpaceMerges(const ComponentPictures& components,
                                        const AccumulationRules& rules, uint64_t gain_min,
                                        bool pool_is_full);

/// What upper components hide of lower ones is found once it lies on the same trees: the uppermost
/// goes down, C1 as a whole, of others each tree. None where there is but one component.
std::vector<Compaction> FindSpacePushes(const ComponentPictures& components,
                                        const AccumulationRules& rules);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_NVLSM_ACCUMULATION_H_
