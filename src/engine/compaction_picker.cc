#include "engine/compaction_picker.h"

#include <algorithm>
#include <span>
#include <utility>

namespace lamella {

namespace {

using TablePtr = TableLevelsState::TablePtr;

Compaction Compact(const TableLevelsState& levels, uint32_t level, double score,
                   std::span<const TablePtr> inputs) {
  Compaction picked{.level = level,
                    .inputs = {},
                    .next = {},
                    .keys = {inputs.front()->smallest, inputs.front()->largest},
                    .read_bytes = 0,
                    .benefit = 0};
  uint64_t bytes = 0;
  for (const TablePtr& table : inputs) {
    picked.inputs.push_back(table->number);
    picked.keys.Extend(table->smallest, table->largest);
    bytes += table->bytes;
  }
  picked.benefit = score * static_cast<double>(bytes);
  const auto next = levels.Overlapping(level + 1, picked.keys);
  if (next.empty() && inputs.size() == 1) return picked;
  picked.read_bytes = bytes;
  for (const TablePtr& table : next) {
    picked.next.push_back(table->number);
    picked.keys.Extend(table->smallest, table->largest);
    picked.read_bytes += table->bytes;
  }
  return picked;
}

// The tables of a full level whose bytes cost least to move, which is what they overlap in the next
// level: both are walked once, since a level may have thousands of tables.
std::vector<TablePtr> FindCheapest(const TableLevelsState& levels, uint32_t level) {
  const auto& tables = levels.level(level);
  if (tables.size() <= kWantedOfLevelMax) return tables;
  const auto& next = levels.level(level + 1);
  std::vector<std::pair<double, size_t>> costs;  // of a byte, and of which table
  costs.reserve(tables.size());
  size_t first = 0;  // of the next level, that does not end before the table
  for (size_t i = 0; i < tables.size(); i++) {
    while (first < next.size() && next[first]->largest < tables[i]->smallest) first++;
    uint64_t overlapped = 0;
    for (size_t j = first; j < next.size() && next[j]->smallest <= tables[i]->largest; j++)
      overlapped += next[j]->bytes;
    const auto bytes = static_cast<double>(std::max<uint64_t>(tables[i]->bytes, 1));
    costs.emplace_back(static_cast<double>(overlapped) / bytes, i);
  }
  std::ranges::nth_element(costs, costs.begin() + kWantedOfLevelMax);
  std::vector<TablePtr> cheapest;
  for (size_t i = 0; i < kWantedOfLevelMax; i++) cheapest.push_back(tables[costs[i].second]);
  return cheapest;
}

}  // namespace

uint64_t LevelRules::TargetBytes(uint32_t level) const {
  uint64_t bytes = level1_bytes;
  for (; level > 1; level--) {
    if (bytes > UINT64_MAX / level_factor) return UINT64_MAX;
    bytes *= level_factor;
  }
  return bytes;
}

// Of level 0 all: it goes as a whole.
Claims ClaimsOf(const Compaction& compaction, uint32_t level0) {
  const uint32_t from = level0 + compaction.level;
  return {{from, compaction.level == 0 ? KeyRange() : compaction.keys},
          {from + 1, compaction.keys}};
}

double ScoreOf(const TableLevelsState& levels, uint32_t level, const LevelRules& rules) {
  if (level >= rules.last_level) return 0;
  if (level == 0) {
    return static_cast<double>(levels.level(0).size()) / static_cast<double>(rules.level0_tables);
  }
  return static_cast<double>(levels.BytesOf(level)) / static_cast<double>(rules.TargetBytes(level));
}

std::vector<Compaction> FindCompactions(const TableLevelsState& levels, const LevelRules& rules) {
  std::vector<Compaction> wanted;
  for (uint32_t level = 0; level < levels.level_count(); level++) {
    const double score = ScoreOf(levels, level, rules);
    const auto& tables = levels.level(level);
    if (tables.empty() || score < 1) continue;
    if (level == 0) {
      wanted.push_back(Compact(levels, level, score, tables));
      continue;
    }
    for (const TablePtr& table : FindCheapest(levels, level))
      wanted.push_back(Compact(levels, level, score, {&table, 1}));
  }
  return wanted;
}

}  // namespace lamella
