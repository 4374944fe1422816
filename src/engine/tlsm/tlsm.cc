#include "engine/tlsm/tlsm.h"

#include <algorithm>

#include "engine/tlsm/salvage.h"
#include "engine/tlsm/tlsm_builder.h"
#include "engine/tlsm/tlsm_table.h"

namespace lamella {

namespace {

// Of a pool that may not grow tables have this part, with what space_target lets them waste; the
// log, and what is merged, have the rest.
constexpr double kPoolShareOfTables = 0.7;

uint64_t PoolTableBytes(const Options& all) {
  if (all.tlsm.pool_table_bytes != 0) return all.tlsm.pool_table_bytes;
  if (all.pool_bytes_max == 0) return UINT64_MAX;
  return static_cast<uint64_t>(static_cast<double>(all.pool_bytes_max) * kPoolShareOfTables /
                               all.space_target);
}

LeveledRules RulesOf(const Options& all) {
  const TlsmOptions& options = all.tlsm;
  constexpr uint64_t kTablesOfPool = 8;  // beside its inputs, a compaction has a table or two open
  uint64_t table_bytes = options.table_bytes;
  if (all.pool_bytes_max != 0)
    table_bytes = std::min(table_bytes, all.pool_bytes_max / kTablesOfPool);
  // A node, its share of the layers above, and of the filter.
  constexpr uint64_t kIndexBytesPerRecord = sizeof(TlsmNode) + 8;
  LeveledRules rules{.levels = {.level0_tables = options.level0_tables,
                                .level1_bytes = options.level1_bytes,
                                .level_factor = options.level_factor},
                     .table_bytes = table_bytes,
                     .index_bytes_per_record = kIndexBytesPerRecord,
                     .rewrite_share = options.rewrite_share,
                     .may_have_files = true,
                     .writes_out = options.tiering != TlsmTiering::kNone};
  if (options.tiering == TlsmTiering::kLeveled) rules.first_file_level = options.first_file_level;
  if (options.tiering == TlsmTiering::kLru) rules.pool_table_bytes = PoolTableBytes(all);
  return rules;
}

}  // namespace

Tlsm::Tlsm(const EngineContext& context) : LeveledEngine(context, RulesOf(*context.options)) {}

Status Tlsm::OpenTable(const TableInfo& info, const LevelPlace& place,
                       std::vector<LevelTable::RegionPtr> regions,
                       std::shared_ptr<const LevelTable>* table) {
  return TlsmTable::Open(pool_, info, place, std::move(regions), table);
}

std::unique_ptr<TableBuilder> Tlsm::NewBuilder(BuildPlan plan) {
  return std::make_unique<TlsmBuilder>(pool_, std::move(plan), [this] { return NewNumber(); });
}

void Tlsm::Salvage(const TableInfo& info, const LevelPlace& place, const TableRegions& regions,
                   std::vector<MergedRecord>* kept, std::vector<LostRun>* lost) {
  SalvageTlsmTable(*pool_, info, place, regions, kept, lost);
}

}  // namespace lamella
