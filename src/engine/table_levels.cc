#include "engine/table_levels.h"

#include <algorithm>
#include <ranges>
#include <span>

#include "log/position_codec.h"

namespace lamella {

namespace {

using Level = TableLevelsState::Level;

// What `level` has of tables that lie between those that both levels begin and end with.
struct Unlike {
  std::span<const TableLevelsState::TablePtr> tables;
  std::vector<uint64_t> numbers;  // of them, sorted

  bool Has(uint64_t number) const { return std::ranges::binary_search(numbers, number); }
};

Unlike UnlikeOf(const Level& level, size_t first, size_t last) {
  Unlike unlike{.tables = std::span(level).subspan(first, level.size() - first - last),
                .numbers = {}};
  for (const auto& table : unlike.tables) unlike.numbers.push_back(table->number);
  std::ranges::sort(unlike.numbers);
  return unlike;
}

// An edit changes tables next to each other as a rule, and a level may have thousands.
std::pair<Unlike, Unlike> Compare(const Level& before, const Level& after) {
  const auto is_same = [](const auto& a, const auto& b) { return a->number == b->number; };
  const auto [from, to] = std::ranges::mismatch(before, after, is_same);
  const auto first = static_cast<size_t>(from - before.begin());
  const auto rest = std::views::reverse(std::span(from, before.end()));
  const auto end =
      std::ranges::mismatch(rest, std::views::reverse(std::span(to, after.end())), is_same);
  const auto last = static_cast<size_t>(end.in1 - rest.begin());
  return {UnlikeOf(before, first, last), UnlikeOf(after, first, last)};
}

void AppendTable(std::string* out, const TableInfo& table) {
  AppendFixed(out, table.number);
  AppendFixed(out, table.bytes);
  AppendFixed(out, table.records);
  AppendFixed(out, table.last_sequence);
  AppendString(out, table.smallest);
  AppendString(out, table.largest);
  AppendString(out, table.place);
}

std::shared_ptr<const TableInfo> DecodeTable(Decoder* in) {
  auto table = std::make_shared<TableInfo>();
  table->number = in->Fixed<uint64_t>();
  table->bytes = in->Fixed<uint64_t>();
  table->records = in->Fixed<uint64_t>();
  table->last_sequence = in->Fixed<uint64_t>();
  table->smallest = in->String();
  table->largest = in->String();
  table->place = in->String();
  return table;
}

}  // namespace

TableEdit<TableInfo> EditBetween(const TableLevelsState& before, const TableLevelsState& after) {
  TableEdit<TableInfo> edit;
  for (uint32_t i = 0; i < std::max(before.level_count(), after.level_count()); i++) {
    const auto [had, has] = Compare(before.level(i), after.level(i));
    for (const auto& table : had.tables) {
      if (!has.Has(table->number)) edit.removed.push_back(table->number);
    }
    for (const auto& table : std::views::reverse(has.tables)) {  // oldest first, of level 0
      if (!had.Has(table->number)) edit.added.push_back({i, table});
    }
  }
  return edit;
}

void AppendTableEdit(std::string* out, const TableEdit<TableInfo>& edit) {
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(edit.removed.size()));
  for (const uint64_t number : edit.removed) AppendFixed(out, number);
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(edit.added.size()));
  for (const auto& added : edit.added) {
    AppendFixed(out, added.level);
    AppendTable(out, *added.table);
  }
}

void AppendTableLevels(std::string* out, const TableLevelsState& levels) {
  AppendTableEdit(out, EditBetween({}, levels));
}

bool DecodeTableEdit(Decoder* in, TableLevelsState* levels) {
  constexpr size_t kAddedBytesMin = 48;
  TableEdit<TableInfo> edit;
  uint32_t count;
  if (!DecodeCount(in, sizeof(uint64_t), &count)) return false;
  for (; count > 0; count--) edit.removed.push_back(in->Fixed<uint64_t>());
  if (!DecodeCount(in, kAddedBytesMin, &count)) return false;
  for (; count > 0 && in->ok(); count--) {
    const auto level = in->Fixed<uint32_t>();
    edit.added.push_back({level, DecodeTable(in)});
  }
  return in->ok() && levels->Apply(edit);
}

}  // namespace lamella
