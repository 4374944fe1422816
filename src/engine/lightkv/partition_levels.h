// How LightKV's tables lie in levels (TableLevels), and which of them it compacts. A table has a
// compaction weight: 0 when it was flushed, and one more than theirs when it was merged from tables
// of one weight. A weight has as many levels, its slots, as tables of it a partition may have
// before they are merged (CS): the next one takes the slot before the others'. Level 0 takes what
// finds no slot of weight 0, where compaction has not caught up.
//
// P1: of two tables whose keys overlap, the one in the lower level has what is newer.
// P2: a compaction takes all tables of its weight that overlap any that it takes.
// Pure functions.
#ifndef LAMELLA_ENGINE_LIGHTKV_PARTITION_LEVELS_H_
#define LAMELLA_ENGINE_LIGHTKV_PARTITION_LEVELS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/key_range.h"
#include "engine/table_levels.h"

namespace lamella {

struct PartitionRules {
  uint32_t compaction_size = 4;    // CS of weight 0, 2 to 16
  uint32_t recompaction_size = 4;  // of all others, the same

  /// What is merged of the last one has its weight still.
  uint32_t weight_count() const {
    return 1 + (kTableLevelsMax - 1 - compaction_size) / recompaction_size;
  }
  uint32_t SizeOf(uint32_t weight) const {
    return weight == 0 ? compaction_size : recompaction_size;
  }
  /// The level of the weight's newest slot.
  uint32_t FirstLevel(uint32_t weight) const {
    return weight == 0 ? 1 : 1 + compaction_size + (weight - 1) * recompaction_size;
  }
  /// That of its oldest. The last weight has the levels that are left, too: a store that was opened
  /// with another CS may have tables there.
  uint32_t LastLevel(uint32_t weight) const {
    return weight + 1 < weight_count() ? FirstLevel(weight + 1) - 1 : kTableLevelsMax - 1;
  }
  uint32_t WeightOf(uint32_t level) const {
    if (level < FirstLevel(1)) return 0;
    return std::min(1 + (level - FirstLevel(1)) / recompaction_size, weight_count() - 1);
  }
};

struct PartitionCompaction {
  uint32_t weight = 0;           // of the inputs,
  uint32_t into = 0;             // and of what they become
  std::vector<uint64_t> inputs;  // the numbers of tables
  KeyRange keys;                 // of all of them
  uint64_t read_bytes = 0;
  uint32_t size = 0;  // so many tables were waited for
};

/// Where a table of the weight with these keys goes that is newer than all others of the weight
/// (keeps P1). Nothing: a partition that it overlaps has all slots taken; never of weight 0.
template <class Table>
std::optional<uint32_t> LevelFor(const TableLevels<Table>& levels, const PartitionRules& rules,
                                 uint32_t weight, const KeyRange& keys) {
  const uint32_t first = rules.FirstLevel(weight);
  if (weight == 0 && !levels.Overlapping(0, keys).empty()) return 0;
  uint32_t level = first;
  while (level < first + rules.SizeOf(weight) && levels.Overlapping(level, keys).empty()) level++;
  if (level == first && weight > 0) return std::nullopt;
  return level - 1;
}

/// How many partitions the tables are of, at least: those that overlap, or are joined by others
/// that do, are of one.
template <class Table>
uint64_t CountPartitions(std::vector<std::shared_ptr<const Table>> tables) {
  std::ranges::sort(tables, {},
                    [](const auto& table) -> const std::string& { return table->info().smallest; });
  uint64_t count = 0;
  std::string_view end;  // of the tables so far
  for (const auto& table : tables) {
    count += table->info().smallest > end ? 1 : 0;
    end = std::max<std::string_view>(end, table->info().largest);
  }
  return count;
}

/// All of the tables in these levels, both counted, whose keys overlap the range, or each other's
/// that do: `keys` is extended to hold them.
template <class Table>
std::vector<std::vector<std::shared_ptr<const Table>>> OverlappingAll(
    const TableLevels<Table>& levels, uint32_t first, uint32_t last, KeyRange* keys) {
  std::vector<std::vector<std::shared_ptr<const Table>>> all(last + 1);
  for (size_t count = 0, before = SIZE_MAX; count != before;) {  // until no table is cut
    before = count;
    count = 0;
    for (uint32_t i = first; i <= last; i++) {
      all[i] = levels.Overlapping(i, *keys);
      count += all[i].size();
      for (const auto& table : all[i]) keys->Extend(table->info().smallest, table->info().largest);
    }
  }
  return all;
}

/// Which partitions have as many tables of a weight as `sizes` says of it, at least 2 and at most
/// the rules', or so it seems, and room for what they become.
template <class Table>
std::vector<PartitionCompaction> FindPartitionCompactions(const TableLevels<Table>& levels,
                                                          const PartitionRules& rules,
                                                          const std::vector<uint32_t>& sizes) {
  std::vector<PartitionCompaction> found;
  for (uint32_t weight = 0; weight < rules.weight_count(); weight++) {
    const uint32_t size = sizes[weight];
    const uint32_t newest = rules.FirstLevel(weight);
    const uint32_t first = weight == 0 ? 0 : newest;
    const uint32_t last = rules.LastLevel(weight);
    std::set<uint64_t> taken;
    // Whoever has so many tables has one of them in the slot that is so many from the oldest, or in
    // a newer one, or, of weight 0, in level 0. Where another CS has filled the newest slot it may
    // have fewer: they go down all the same. Else nothing would come to this weight any more, and
    // soon nothing to those before it.
    const uint32_t seeds_to = newest + rules.SizeOf(weight) - size;
    for (uint32_t level = first; level <= seeds_to; level++) {
      for (const auto& seed : levels.level(level)) {
        if (taken.contains(seed->info().number)) continue;
        PartitionCompaction one{.weight = weight,
                                .into = std::min(weight + 1, rules.weight_count() - 1),
                                .inputs = {},
                                .keys = {seed->info().smallest, seed->info().largest},
                                .read_bytes = 0,
                                .size = size};
        for (const auto& tables : OverlappingAll(levels, first, last, &one.keys)) {
          for (const auto& table : tables) {
            one.inputs.push_back(table->info().number);
            one.read_bytes += table->info().bytes;
          }
        }
        taken.insert(one.inputs.begin(), one.inputs.end());
        const bool has_room =
            one.into == weight || LevelFor(levels, rules, one.into, one.keys).has_value();
        const bool is_full = one.inputs.size() >= size || (weight > 0 && level == newest);
        if (is_full && has_room) found.push_back(std::move(one));
      }
    }
  }
  return found;
}

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIGHTKV_PARTITION_LEVELS_H_
