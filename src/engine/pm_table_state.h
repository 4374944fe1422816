// PmTableState is what a catalog keeps of a PMTable that is durable: where its skiplist begins, and
// what of the log it holds.
// I1: a checkpointed table never changes: by its id an edit says that it came or went.
#ifndef LAMELLA_ENGINE_PM_TABLE_STATE_H_
#define LAMELLA_ENGINE_PM_TABLE_STATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/codec.h"
#include "log/log_writer.h"

namespace lamella {

struct PmTableState {
  uint64_t id = 0;
  uint64_t count = 0;
  uint64_t last_sequence = 0;       // of the MemTable it was
  uint64_t arena_ordinal = 0;       // first arena chunk it may have records in (plain log only)
  std::vector<LogPosition> sealed;  // its records lie before this, per log shard
  std::vector<uint64_t> heads;      // lanes x kHeightMax links
};

/// Tables of a level, oldest first: whole, and as what an edit changed. A table that is in a
/// catalog never changes (I1), so an edit says which went and which came, after those that stayed.
void AppendTables(std::string* out, std::span<const PmTableState> tables);
void AppendTablesChange(std::string* out, std::span<const PmTableState> before,
                        std::span<const PmTableState> after);
/// After those that are there.
bool DecodeTables(Decoder* in, std::vector<PmTableState>* tables);
/// Makes `tables` what the edit made of them. False: it is no edit of them.
bool DecodeTablesChange(Decoder* in, std::vector<PmTableState>* tables);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_PM_TABLE_STATE_H_
