#include "engine/table_levels.h"

#include <ranges>

#include "log/position_codec.h"

namespace lamella {

namespace {

using Numbers = std::unordered_map<uint64_t, uint32_t>;  // of tables, with their levels

Numbers NumbersOf(const TableLevelsState& levels) {
  Numbers numbers;
  levels.ForEach([&](uint32_t i, const auto& table) { numbers[table->info().number] = i; });
  return numbers;
}

bool Has(const Numbers& numbers, uint32_t level, uint64_t number) {
  const auto at = numbers.find(number);
  return at != numbers.end() && at->second == level;
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
  const Numbers had = NumbersOf(before);
  const Numbers has = NumbersOf(after);
  TableEdit<TableInfo> edit;
  before.ForEach([&](uint32_t i, const auto& table) {
    if (!Has(has, i, table->number)) edit.removed.push_back(table->number);
  });
  for (uint32_t i = 0; i < after.level_count(); i++) {
    for (const auto& table : std::views::reverse(after.level(i))) {  // oldest first, of level 0
      if (!Has(had, i, table->number)) edit.added.push_back({i, table});
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
