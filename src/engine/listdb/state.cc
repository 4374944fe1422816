#include "engine/listdb/state.h"

#include "base/codec.h"
#include "log/record.h"

namespace lamella {

namespace {

void AppendPositions(std::string* out, const std::vector<LogPosition>& positions) {
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(positions.size()));
  for (const LogPosition& p : positions) {
    AppendFixed(out, p.ordinal);
    AppendFixed(out, p.offset);
  }
}

// Counts are checked against what is left, so that damaged ones cannot ask for memory out of
// proportion.
bool DecodeCount(Decoder* in, size_t element_bytes, uint32_t* count) {
  *count = in->Fixed<uint32_t>();
  return in->ok() && *count <= in->remaining() / element_bytes;
}

bool DecodePositions(Decoder* in, std::vector<LogPosition>* positions) {
  uint32_t count;
  if (!DecodeCount(in, 16, &count)) return false;
  positions->resize(count);
  for (LogPosition& p : *positions) {
    p.ordinal = in->Fixed<uint64_t>();
    p.offset = in->Fixed<uint64_t>();
  }
  return in->ok();
}

bool DecodeTable(Decoder* in, L0TableState* table) {
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

std::string ListDbState::Encode() const {
  std::string out;
  AppendFixed(&out, lanes);
  AppendFixed(&out, l1_heads.word);
  AppendFixed(&out, l1_count);
  AppendFixed(&out, live_bytes);
  AppendFixed(&out, next_table_id);
  AppendFixed(&out, merging);
  AppendFixed(&out, flushed_sequence);
  AppendFixed(&out, merged_sequence);
  AppendFixed(&out, synced_sequence);
  AppendFixed<uint8_t>(&out, rebuilding ? 1 : 0);
  AppendFixed<uint8_t>(&out, uncounted ? 1 : 0);
  AppendPositions(&out, boundary);
  AppendPositions(&out, merged);
  AppendFixed<uint32_t>(&out, static_cast<uint32_t>(gaps.size()));
  for (const SequenceGap& g : gaps) {
    AppendFixed(&out, g.first);
    AppendFixed(&out, g.last);
  }
  AppendFixed<uint32_t>(&out, static_cast<uint32_t>(l0.size()));
  for (const L0TableState& t : l0) {
    AppendFixed(&out, t.id);
    AppendFixed(&out, t.count);
    AppendFixed(&out, t.last_sequence);
    AppendFixed(&out, t.arena_ordinal);
    AppendPositions(&out, t.sealed);
    AppendFixed<uint32_t>(&out, static_cast<uint32_t>(t.heads.size()));
    for (const uint64_t word : t.heads) AppendFixed(&out, word);
  }
  return out;
}

Status ListDbState::Decode(std::string_view payload, ListDbState* state) {
  Decoder in(payload);
  state->lanes = in.Fixed<uint32_t>();
  state->l1_heads = PmPtr(in.Fixed<uint64_t>());
  state->l1_count = in.Fixed<uint64_t>();
  state->live_bytes = in.Fixed<uint64_t>();
  state->next_table_id = in.Fixed<uint64_t>();
  state->merging = in.Fixed<uint64_t>();
  state->flushed_sequence = in.Fixed<uint64_t>();
  state->merged_sequence = in.Fixed<uint64_t>();
  state->synced_sequence = in.Fixed<uint64_t>();
  const uint8_t rebuilding = in.Fixed<uint8_t>();
  state->rebuilding = rebuilding != 0;
  const uint8_t uncounted = in.Fixed<uint8_t>();
  state->uncounted = uncounted != 0;
  uint32_t gaps = 0;
  uint32_t tables = 0;
  bool ok = DecodePositions(&in, &state->boundary) && DecodePositions(&in, &state->merged) &&
            DecodeCount(&in, 16, &gaps);
  if (ok) {
    state->gaps.resize(gaps);
    for (SequenceGap& g : state->gaps) {
      g.first = in.Fixed<uint64_t>();
      g.last = in.Fixed<uint64_t>();
    }
    ok = DecodeCount(&in, 40, &tables);
  }
  if (ok) {
    state->l0.resize(tables);
    for (size_t i = 0; ok && i < state->l0.size(); i++) ok = DecodeTable(&in, &state->l0[i]);
  }
  if (!ok || !in.done() || rebuilding > 1 || uncounted > 1 || state->lanes == 0 ||
      state->lanes > kPoolPartsMax || !state->l1_heads) {
    return Status::Corruption(
        "the catalog's ListDB state of " + std::to_string(payload.size()) +
        " bytes does not decode; `lamella repair` rebuilds it from the records");
  }
  return Status::OK();
}

}  // namespace lamella
