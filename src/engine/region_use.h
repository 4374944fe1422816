// Which regions of records are to be emptied: a pure function of the tables of a version. A region
// that few living records hold is waste; its records are copied into fresh regions when the tables
// that refer to them are made anew, and it goes when the last of those is.
#ifndef LAMELLA_ENGINE_REGION_USE_H_
#define LAMELLA_ENGINE_REGION_USE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
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
  uint32_t level0_tables = 0;  // of them, those of level 0, which are merged soon
  bool has_records = false;    // else it is an index, which is made anew with its table
  std::shared_ptr<const TableRegion> region;

  uint64_t useful() const { return bytes - waste; }
};
using RegionUses = std::map<uint64_t, RegionUse>;

/// What an edit of a version changes of what tables have. All that needs memory is done when it is
/// made: so it can be applied once the edit is durable.
class RegionUseEdit {
 public:
  /// Throws std::bad_alloc.
  RegionUseEdit(const TableLevels<LevelTable>& before, const TableEdit<LevelTable>& edit);
  /// `uses` of `before` become those after the edit.
  void Apply(RegionUses* uses);
  /// After Apply: the regions that no table refers to any more.
  const std::vector<LevelTable::RegionPtr>& unused() const { return unused_; }

 private:
  using Tables = std::vector<TableEdit<LevelTable>::Added>;
  static void Count(const Tables::value_type& at, int by, RegionUses* uses);

  const Tables added_;
  Tables removed_;
  RegionUses fresh_;  // of added tables, nothing counted yet
  std::vector<LevelTable::RegionPtr> unused_;
};

/// What a table refers to: LevelPlace::regions.
using TableShares = std::span<const RegionShare>;

struct SpaceGoal {
  double bytes_per_live = 2;    // Options::space_target
  double rewrite_share = 0.25;  // below it a region is emptied, whatever the whole is like
  uint64_t live_bytes = 0;      // keys and values
  uint64_t chunk_bytes = 0;
  uint64_t copy_bytes_max = UINT64_MAX;
  bool pool_is_full = false;  // then all is emptied that gives space back

  /// What the store may take.
  double BytesAllowed() const {
    return bytes_per_live * static_cast<double>(std::max<uint64_t>(live_bytes, 1));
  }
  /// Of that it takes this, with so many bytes in use.
  double ShareOf(uint64_t used_bytes) const {
    return static_cast<double>(used_bytes) / BytesAllowed();
  }
};

/// Keys and values that live for certain, whatever upper levels make dead of lower ones: what one
/// level has alone, less what deletes above it may hide.
uint64_t LiveAtLeast(const TableLevels<LevelTable>& levels);

/// The emptiest first, until the goal is met. `tables`: those that may be made anew where they are,
/// which those of level 0 are not: they are merged soon.
std::set<uint64_t> FindSparse(const RegionUses& uses, const std::vector<TableShares>& tables,
                              const SpaceGoal& goal);

/// Bytes that making a table anew gives back, of those regions: its part of what is dead in each,
/// less what its copies may leave empty at their end (kRegionUnusedPart). Where that is nothing it
/// is not done: so it comes to an end, since what it makes may be as empty there.
double GainOf(TableShares table, const RegionUses& uses, const std::set<uint64_t>& sparse,
              uint64_t chunk_bytes);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_REGION_USE_H_
