// LightKvState is what LightKV keeps in the catalog: whole as a snapshot, and then what each edit
// changed of its tables, with the rest.
#ifndef LAMELLA_ENGINE_LIGHTKV_LIGHTKV_STATE_H_
#define LAMELLA_ENGINE_LIGHTKV_LIGHTKV_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/table_levels.h"
#include "lamella/status.h"
#include "log/pm_log.h"

namespace lamella {

/// Kinds of catalog edits: why the state changed. Kind 0 is the catalog's own snapshot.
enum class LightKvEdit : uint32_t {
  kFlush = 1,    // the partitions' segments became tables, and the log boundary moved
  kCompact = 2,  // tables came in place of others
  kGap = 3,      // recovery declared sequence numbers void
  kRebuild = 4,  // a repair made tables anew
};

struct LightKvState {
  uint64_t next_number = 1;           // of tables; what a crash left may have greater ones
  uint64_t flushed_sequence = 0;      // up to here everything is in tables
  std::vector<LogPosition> boundary;  // the log before this is in tables, per shard
  std::vector<SequenceGap> gaps;      // void sequence numbers after it, ascending
  TableLevelsState levels;            // as PartitionRules has them

  // As CatalogState asks.
  std::string Encode() const { return EncodeChange(LightKvState()); }
  static Status Decode(std::string_view payload, LightKvState* state);
  std::string EncodeChange(const LightKvState& before) const;
  Status Apply(std::string_view payload);
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIGHTKV_LIGHTKV_STATE_H_
