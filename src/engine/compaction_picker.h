// Which compactions a version of leveled tables wants: a pure function of it. Level 0 goes into
// level 1 whole once it has so many tables, since they overlap; of each other level, once it is
// larger than its target, one table goes into the next, with the tables that it overlaps there. A
// table that overlaps none moves as it is.
// I1: what a compaction leaves stays as TableLevels' I1 says: it takes all of the next level that
//     its keys overlap, and of level 0 all that there was when it was picked.
#ifndef LAMELLA_ENGINE_COMPACTION_PICKER_H_
#define LAMELLA_ENGINE_COMPACTION_PICKER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/job_board.h"
#include "engine/key_range.h"
#include "engine/table_levels.h"

namespace lamella {

/// What the levels are to be like.
struct LevelRules {
  size_t level0_tables = 4;    // so many are compacted
  uint64_t level1_bytes = 0;   // what level 1 is to hold at most,
  uint64_t level_factor = 10;  // and each further one so many times as much
  uint32_t last_level = 6;     // which holds any number

  uint64_t TargetBytes(uint32_t level) const;
};

struct Compaction {
  uint32_t level = 0;            // from here into the next
  std::vector<uint64_t> inputs;  // tables of `level`, in its order
  std::vector<uint64_t> next;    // those of the next level
  KeyRange keys;                 // of all of them
  uint32_t way = 0;              // of those that a design has; 0: a merge into the next level
  uint64_t read_bytes = 0;       // and, about, written: 0 where a table moves as it is
  double benefit = 0;            // bytes moved down, by how far the level is beyond its target

  bool moves_only() const { return read_bytes == 0; }
  bool operator==(const Compaction&) const = default;
};

/// What its job is to have, of levels that are numbered from `level0` on: two that do not exclude
/// each other may run at once.
Claims ClaimsOf(const Compaction& compaction, uint32_t level0);

/// How far a level is beyond its target: compactions are wanted from 1 on.
double ScoreOf(const TableLevelsState& levels, uint32_t level, const LevelRules& rules);

/// Of a level that is too large so many are wanted at a time, the cheapest: more than jobs that are
/// under way can exclude, as a rule; where they exclude all, each that ends makes another version.
inline constexpr size_t kWantedOfLevelMax = 32;

/// What is wanted, in no order of worth; some exclude each other.
std::vector<Compaction> FindCompactions(const TableLevelsState& levels, const LevelRules& rules);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_COMPACTION_PICKER_H_
