#include "engine/region_use.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace lamella {

RegionUseEdit::RegionUseEdit(const TableLevels<LevelTable>& before,
                             const TableEdit<LevelTable>& edit)
    : added_(edit.added) {
  const std::unordered_set<uint64_t> gone(edit.removed.begin(), edit.removed.end());
  size_t regions = 0;
  before.ForEach([&](uint32_t level, const auto& table) {
    if (!gone.contains(table->info().number)) return;
    removed_.push_back({level, table});
    regions += table->regions().size();
  });
  unused_.reserve(regions);
  for (const auto& [level, table] : added_) {
    for (const auto& region : table->regions()) {
      fresh_[region->number()] = {.bytes = region->bytes(),
                                  .waste = region->waste(),
                                  .has_records = region->kind() == kRecordRegion,
                                  .region = region};
    }
  }
}

void RegionUseEdit::Count(const Tables::value_type& at, int by, RegionUses* uses) {
  for (const RegionShare& share : at.table->place().regions) {
    RegionUse& use = uses->at(share.region);
    use.live += by * share.bytes;
    use.tables += by;
    if (at.level == 0) use.level0_tables += by;
  }
}

void RegionUseEdit::Apply(RegionUses* uses) {
  uses->merge(fresh_);  // those that are not there
  for (const auto& at : added_) Count(at, 1, uses);
  for (const auto& at : removed_) {
    Count(at, -1, uses);
    for (const auto& region : at.table->regions()) {
      const auto use = uses->find(region->number());
      if (use == uses->end() || use->second.tables != 0) continue;
      unused_.push_back(region);
      uses->erase(use);
    }
  }
}

uint64_t LiveAtLeast(const TableLevels<LevelTable>& levels) {
  uint64_t at_least = 0;
  uint64_t deletes_above = 0;
  for (size_t i = 0; i < levels.level_count(); i++) {
    uint64_t live = 0;
    uint64_t records = 0;
    uint64_t deletes = 0;
    for (const auto& table : levels.level(i)) {
      live += table->place().live_bytes;
      records += table->info().records;
      deletes += table->place().deletes;
    }
    const uint64_t puts = std::max<uint64_t>(records - std::min(deletes, records), 1);
    at_least = std::max(at_least, live - std::min(live, live / puts * deletes_above));
    deletes_above += deletes;
  }
  return at_least;
}

double GainOf(TableShares table, const RegionUses& uses, const std::set<uint64_t>& sparse,
              uint64_t chunk_bytes) {
  double gain = -static_cast<double>(chunk_bytes);
  uint64_t copied = 0;
  for (const RegionShare& share : table) {
    if (!sparse.contains(share.region)) continue;
    const RegionUse& use = uses.at(share.region);
    gain += (static_cast<double>(use.useful()) - static_cast<double>(use.live)) / use.tables;
    copied += share.bytes + use.waste / use.tables;  // copies leave as much between their runs
  }
  return gain - static_cast<double>(copied) / kRegionUnusedPart;
}

std::set<uint64_t> FindSparse(const RegionUses& uses, const std::vector<TableShares>& tables,
                              const SpaceGoal& goal) {
  const auto share_of = [&](uint64_t number) {
    const RegionUse& use = uses.at(number);
    return static_cast<double>(use.live) / static_cast<double>(use.useful());
  };
  double over = -goal.bytes_per_live * static_cast<double>(goal.live_bytes);
  for (const auto& [number, use] : uses) over += static_cast<double>(use.bytes);
  // Where less is dead than this, copying costs more than it gives: the target is met without.
  const double worthwhile = std::max((1 + 1 / goal.bytes_per_live) / 2, goal.rewrite_share);
  const double share_max = goal.pool_is_full || over > 0 ? worthwhile : goal.rewrite_share;
  std::set<uint64_t> emptiable;
  for (const auto& [number, use] : uses) {
    if (use.has_records && use.level0_tables == 0 && share_of(number) < share_max)
      emptiable.insert(number);
  }
  if (emptiable.empty()) return {};
  std::set<uint64_t> gainful;
  for (const TableShares& table : tables) {
    if (GainOf(table, uses, emptiable, goal.chunk_bytes) <= 0) continue;
    for (const RegionShare& share : table) {
      if (emptiable.contains(share.region)) gainful.insert(share.region);
    }
  }
  std::vector<uint64_t> candidates(gainful.begin(), gainful.end());
  std::ranges::sort(candidates, {},
                    [&](uint64_t number) { return std::pair(share_of(number), number); });
  std::set<uint64_t> sparse;
  uint64_t copied = 0;
  for (const uint64_t number : candidates) {
    const RegionUse& use = uses.at(number);
    const bool wanted = share_of(number) < goal.rewrite_share || goal.pool_is_full || over > 0;
    if (!wanted) break;
    if (copied + use.live > goal.copy_bytes_max) continue;
    sparse.insert(number);
    copied += use.live;
    over -= static_cast<double>(use.useful()) - static_cast<double>(use.live);
  }
  return sparse;
}

}  // namespace lamella
