// Tlsm is the design of Lee and others, "TLSM: Tiered Log-Structured Merge-Tree Utilizing
// Non-Volatile Memory" (2020), with all tables in persistent memory: a MemTable, a log, and levels
// of persistent skiplists (TlsmTable) over persistent buffers. A flush copies records into a buffer
// in one sweep; compaction makes new lists over records that stay where they are.
//
// What differs from the paper:
//   the log lies in the pool, not on block storage: a write that returned is durable without a sync
//   a list has no links: it is made at once, and each layer is an array (TlsmTable)
//   a compaction that a crash cut short begins anew: what it made is freed. The header of what it
//   made names its inputs all the same, for stores whose catalog is lost
//   a buffer of which little lives is emptied; in the paper it waits for its last record
//   each list has a Bloom filter
// Threads: as Engine says.
#ifndef LAMELLA_ENGINE_TLSM_TLSM_H_
#define LAMELLA_ENGINE_TLSM_TLSM_H_

#include <memory>
#include <vector>

#include "engine/leveled_engine.h"

namespace lamella {

class Tlsm final : public LeveledEngine {
 public:
  explicit Tlsm(const EngineContext& context);

 protected:
  Status OpenTable(const TableInfo& info, const LevelPlace& place,
                   std::vector<LevelTable::RegionPtr> regions,
                   std::shared_ptr<const LevelTable>* table) override;
  std::unique_ptr<TableBuilder> NewBuilder(BuildPlan plan) override;
  void Salvage(const TableInfo& info, const LevelPlace& place, const TableRegions& regions,
               std::vector<MergedRecord>* kept, std::vector<LostRun>* lost) override;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TLSM_TLSM_H_
