// LabDbState is what LAB-DB keeps in the catalog: whole as a snapshot, and then what each edit
// changed of its tables, with the rest.
#ifndef LAMELLA_ENGINE_LABDB_LABDB_STATE_H_
#define LAMELLA_ENGINE_LABDB_LABDB_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/table_levels.h"
#include "lamella/status.h"
#include "log/pm_log.h"

namespace lamella {

/// Kinds of catalog edits: why the state changed. Kind 0 is the catalog's own snapshot.
enum class LabDbEdit : uint32_t {
  kFlush = 1,     // a MemTable is in the tree, and the log boundary moved
  kTurnOver = 2,  // the tree became immutable, and the other one took over
  kCompact = 3,   // tables came in place of others, or of a part of the immutable tree
  kEmptied = 4,   // nothing is left of the immutable tree
  kGap = 5,       // recovery declared sequence numbers void
  kRebuild = 6,   // a repair made all anew
};

struct LabDbState {
  uint64_t next_number = 1;           // of tables; what a crash left may have greater ones
  uint64_t flushed_sequence = 0;      // up to here everything is in a tree, or a table
  uint64_t heads = 0;                 // a PmPtr's word: where the trees' heads lie
  uint32_t active = 0;                // the tree that flushes go to, 0 or 1
  uint32_t has_older = 0;             // 1: the other one is immutable, and not empty
  uint64_t segment_bytes = 0;         // of the value log
  std::vector<LogPosition> boundary;  // the log before this is in a tree, per shard
  std::vector<SequenceGap> gaps;      // void sequence numbers after it, ascending
  TableLevelsState levels;            // from level 1 on

  // As CatalogState asks.
  std::string Encode() const { return EncodeChange(LabDbState()); }
  static Status Decode(std::string_view payload, LabDbState* state);
  std::string EncodeChange(const LabDbState& before) const;
  Status Apply(std::string_view payload);
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LABDB_LABDB_STATE_H_
