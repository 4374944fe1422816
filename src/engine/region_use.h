// Which regions of records are to be emptied: a pure function of the tables of a version. A region
// that few living records hold is waste; its records are copied into fresh regions when the tables
// that refer to them are made anew, and it goes when the last of those is.
#ifndef LAMELLA_ENGINE_REGION_USE_H_
#define LAMELLA_ENGINE_REGION_USE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engine/level_table.h"
#include "engine/table_levels.h"

namespace lamella {

/// What tables have of a region.
struct RegionUse {
  uint64_t bytes = 0;  // of its chunks
  uint64_t waste = 0;  // of them, what no copying gives back
  uint64_t live = 0;   // of them, what tables refer to
  uint32_t tables = 0;
  uint64_t useful() const { return bytes - waste; }
  bool has_records = false;  // else it is an index, which is made anew with its table
  bool in_level0 = false;    // a table of level 0 refers to it, which is merged soon
  std::shared_ptr<const TableRegion> region;
};
using RegionUses = std::map<uint64_t, RegionUse>;

/// Of all tables of a version.
RegionUses UsesOf(const TableLevels<LevelTable>& levels);

/// The regions that tables refer to which may be made anew where they are: those of level 0 are
/// merged soon.
using TableRefs = std::map<uint64_t, std::vector<uint64_t>>;  // by the table's number
TableRefs RefsOf(const TableLevels<LevelTable>& levels);

struct SpaceGoal {
  double bytes_per_live = 2;    // Options::space_target
  double rewrite_share = 0.25;  // below it a region is emptied, whatever the whole is like
  uint64_t live_bytes = 0;      // keys and values
  uint64_t chunk_bytes = 0;
  uint64_t copy_bytes_max = UINT64_MAX;
  bool pool_is_full = false;  // then all is emptied that gives space back
};

/// The emptiest first, until the goal is met.
std::set<uint64_t> FindSparse(const RegionUses& uses, const TableRefs& tables,
                              const SpaceGoal& goal);

/// Bytes that making a table anew gives back, of those regions: its part of what is dead in each,
/// less a chunk, which its copies end in. Where that is nothing it is not done: so it comes to an
/// end.
double GainOf(const std::vector<uint64_t>& refs, const RegionUses& uses,
              const std::set<uint64_t>& sparse, uint64_t chunk_bytes);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_REGION_USE_H_
