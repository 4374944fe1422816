#include "engine/pm_table_state.h"

#include "log/position_codec.h"
#include "log/record.h"
#include "pool/pm_ptr.h"

namespace lamella {

namespace {

bool DecodeTable(Decoder* in, PmTableState* table) {
  table->id = in->Fixed<uint64_t>();
  table->count = in->Fixed<uint64_t>();
  table->last_sequence = in->Fixed<uint64_t>();
  table->arena_ordinal = in->Fixed<uint64_t>();
  uint32_t heads;
  if (!DecodePositions(in, &table->sealed) || !DecodeCount(in, 8, &heads) ||
      heads > kPoolPartsMax * kHeightMax)
    return false;
  table->heads.resize(heads);
  for (uint64_t& word : table->heads) word = in->Fixed<uint64_t>();
  return in->ok();
}

}  // namespace

void AppendTables(std::string* out, std::span<const PmTableState> tables) {
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(tables.size()));
  for (const PmTableState& t : tables) {
    AppendFixed(out, t.id);
    AppendFixed(out, t.count);
    AppendFixed(out, t.last_sequence);
    AppendFixed(out, t.arena_ordinal);
    AppendPositions(out, t.sealed);
    AppendFixed<uint32_t>(out, static_cast<uint32_t>(t.heads.size()));
    for (const uint64_t word : t.heads) AppendFixed(out, word);
  }
}

bool DecodeTables(Decoder* in, std::vector<PmTableState>* tables) {
  constexpr size_t kTableBytesMin = 40;
  uint32_t count;
  if (!DecodeCount(in, kTableBytesMin, &count)) return false;
  for (uint32_t i = 0; i < count; i++) {
    if (!DecodeTable(in, &tables->emplace_back())) return false;
  }
  return true;
}

void AppendTablesChange(std::string* out, std::span<const PmTableState> before,
                        std::span<const PmTableState> after) {
  std::vector<uint64_t> gone;
  size_t stay = 0;
  for (const PmTableState& table : before) {
    if (stay < after.size() && after[stay].id == table.id) {  // I1
      stay++;
    } else {
      gone.push_back(table.id);
    }
  }
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(gone.size()));
  for (const uint64_t id : gone) AppendFixed(out, id);
  AppendTables(out, after.subspan(stay));
}

bool DecodeTablesChange(Decoder* in, std::vector<PmTableState>* tables) {
  uint32_t gone = 0;
  bool ok = DecodeCount(in, sizeof(uint64_t), &gone);
  for (; ok && gone > 0; gone--) {
    const uint64_t id = in->Fixed<uint64_t>();
    ok = in->ok() && std::erase_if(*tables, [&](const auto& table) { return table.id == id; }) == 1;
  }
  return ok && DecodeTables(in, tables);
}

}  // namespace lamella
