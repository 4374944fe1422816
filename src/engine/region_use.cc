#include "engine/region_use.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lamella {

RegionUses UsesOf(const TableLevels<LevelTable>& levels) {
  RegionUses uses;
  levels.ForEach([&](uint32_t level, const auto& table) {
    const auto& shares = table->place().regions;
    for (size_t i = 0; i < shares.size(); i++) {
      RegionUse& use = uses[shares[i].region];
      const auto& region = table->regions()[i];
      use.bytes = region->bytes();
      use.waste = region->waste();
      use.live += shares[i].bytes;
      use.tables++;
      use.has_records = region->kind() == kRecordRegion;
      use.in_level0 |= level == 0;
      use.region = region;
    }
  });
  return uses;
}

TableRefs RefsOf(const TableLevels<LevelTable>& levels) {
  TableRefs refs;
  levels.ForEach([&](uint32_t level, const auto& table) {
    if (level == 0) return;
    for (const RegionShare& share : table->place().regions)
      refs[table->info().number].push_back(share.region);
  });
  return refs;
}

double GainOf(const std::vector<uint64_t>& refs, const RegionUses& uses,
              const std::set<uint64_t>& sparse, uint64_t chunk_bytes) {
  double gain = -static_cast<double>(chunk_bytes);
  for (const uint64_t number : refs) {
    if (!sparse.contains(number)) continue;
    const RegionUse& use = uses.at(number);
    gain += (static_cast<double>(use.useful()) - static_cast<double>(use.live)) / use.tables;
  }
  return gain;
}

std::set<uint64_t> FindSparse(const RegionUses& uses, const TableRefs& tables,
                              const SpaceGoal& goal) {
  const auto share_of = [&](uint64_t number) {
    const RegionUse& use = uses.at(number);
    return static_cast<double>(use.live) / static_cast<double>(use.useful());
  };
  // Where less is dead than this, copying costs more than it gives: the target is met without.
  const double share_max = std::max((1 + 1 / goal.bytes_per_live) / 2, goal.rewrite_share);
  double over = -goal.bytes_per_live * static_cast<double>(goal.live_bytes);
  std::set<uint64_t> emptiable;
  for (const auto& [number, use] : uses) {
    over += static_cast<double>(use.bytes);
    if (use.has_records && !use.in_level0 && share_of(number) < share_max) emptiable.insert(number);
  }
  std::set<uint64_t> gainful;
  for (const auto& [table, refs] : tables) {
    if (GainOf(refs, uses, emptiable, goal.chunk_bytes) <= 0) continue;
    for (const uint64_t number : refs) {
      if (emptiable.contains(number)) gainful.insert(number);
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
