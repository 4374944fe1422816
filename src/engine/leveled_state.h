// LeveledState is what an engine with levels of immutable tables keeps in the catalog: whole as a
// snapshot, and then what each edit changed of it.
#ifndef LAMELLA_ENGINE_LEVELED_STATE_H_
#define LAMELLA_ENGINE_LEVELED_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/table_levels.h"
#include "lamella/status.h"
#include "log/pm_log.h"

namespace lamella {

/// Kinds of catalog edits: why the state changed. Kind 0 is the catalog's own snapshot.
enum class LeveledEdit : uint32_t {
  kFlush = 1,    // a MemTable became a table of level 0, and the log boundary moved
  kCompact = 2,  // tables came in place of others
  kGap = 3,      // recovery declared sequence numbers void
  kRebuild = 4,  // a repair made tables anew
};

struct LeveledState {
  uint64_t next_number = 1;       // of tables and regions; what a crash left may have greater ones
  uint64_t flushed_sequence = 0;  // up to here everything is in tables
  std::vector<LogPosition> boundary;  // the log before this is in tables, per shard
  std::vector<SequenceGap> gaps;      // void sequence numbers after it, ascending
  TableLevelsState levels;

  /// A snapshot.
  std::string Encode() const;
  /// Corruption for bytes that are no state.
  static Status Decode(std::string_view payload, LeveledState* state);
  /// An edit: what makes `before` this state. Its size goes by what changed.
  std::string EncodeChange(const LeveledState& before) const;
  /// Makes this the state after the edit. Corruption for bytes that are no edit of this state; it
  /// is not to be used then.
  Status Apply(std::string_view payload);
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LEVELED_STATE_H_
