#include "engine/listdb/state.h"

#include "base/codec.h"
#include "base/concat.h"
#include "log/position_codec.h"

namespace lamella {

namespace {

// The fields of which each is one number: every edit has them all.
void AppendNumbers(std::string* out, const ListDbState& state) {
  AppendFixed(out, state.lanes);
  AppendFixed(out, state.l1_heads.word);
  AppendFixed(out, state.l1_count);
  AppendFixed(out, state.live_bytes);
  AppendFixed(out, state.next_table_id);
  AppendFixed(out, state.merging);
  AppendFixed(out, state.flushed_sequence);
  AppendFixed(out, state.merged_sequence);
  AppendFixed(out, state.synced_sequence);
  AppendFixed<uint8_t>(out, state.rebuilding ? 1 : 0);
  AppendFixed<uint8_t>(out, state.uncounted ? 1 : 0);
}

bool DecodeNumbers(Decoder* in, ListDbState* state) {
  state->lanes = in->Fixed<uint32_t>();
  state->l1_heads = PmPtr(in->Fixed<uint64_t>());
  state->l1_count = in->Fixed<uint64_t>();
  state->live_bytes = in->Fixed<uint64_t>();
  state->next_table_id = in->Fixed<uint64_t>();
  state->merging = in->Fixed<uint64_t>();
  state->flushed_sequence = in->Fixed<uint64_t>();
  state->merged_sequence = in->Fixed<uint64_t>();
  state->synced_sequence = in->Fixed<uint64_t>();
  const uint8_t rebuilding = in->Fixed<uint8_t>();
  state->rebuilding = rebuilding != 0;
  const uint8_t uncounted = in->Fixed<uint8_t>();
  state->uncounted = uncounted != 0;
  return in->ok() && rebuilding <= 1 && uncounted <= 1 && state->lanes != 0 &&
         state->lanes <= kPoolPartsMax && state->l1_heads;
}

// The lists that an edit has if they changed.
enum Changed : uint8_t { kBoundary = 1, kMerged = 2, kGaps = 4, kChangedAll = 7 };

Status Undecodable(const char* what, std::string_view payload) {
  return Status::Corruption(Concat("the catalog's ", what, " of ", payload.size(),
                                   " bytes does not decode; `lamella repair` rebuilds it from the "
                                   "records"));
}

}  // namespace

std::string ListDbState::Encode() const {
  std::string out;
  AppendNumbers(&out, *this);
  AppendPositions(&out, boundary);
  AppendPositions(&out, merged);
  AppendGaps(&out, gaps);
  AppendTables(&out, l0);
  return out;
}

Status ListDbState::Decode(std::string_view payload, ListDbState* state) {
  Decoder in(payload);
  state->l0.clear();
  const bool ok = DecodeNumbers(&in, state) && DecodePositions(&in, &state->boundary) &&
                  DecodePositions(&in, &state->merged) && DecodeGaps(&in, &state->gaps) &&
                  DecodeTables(&in, &state->l0) && in.done();
  return ok ? Status::OK() : Undecodable("ListDB state", payload);
}

std::string ListDbState::EncodeChange(const ListDbState& before) const {
  const auto changed = static_cast<uint8_t>((boundary != before.boundary ? kBoundary : 0) |
                                            (merged != before.merged ? kMerged : 0) |
                                            (gaps != before.gaps ? kGaps : 0));
  std::string out;
  AppendNumbers(&out, *this);
  AppendFixed(&out, changed);
  if ((changed & kBoundary) != 0) AppendPositions(&out, boundary);
  if ((changed & kMerged) != 0) AppendPositions(&out, merged);
  if ((changed & kGaps) != 0) AppendGaps(&out, gaps);
  AppendTablesChange(&out, before.l0, l0);
  return out;
}

Status ListDbState::Apply(std::string_view payload) {
  Decoder in(payload);
  bool ok = DecodeNumbers(&in, this);
  const uint8_t changed = in.Fixed<uint8_t>();
  ok = ok && in.ok() && changed <= kChangedAll;
  if (ok && (changed & kBoundary) != 0) ok = DecodePositions(&in, &boundary);
  if (ok && (changed & kMerged) != 0) ok = DecodePositions(&in, &merged);
  if (ok && (changed & kGaps) != 0) ok = DecodeGaps(&in, &gaps);
  ok = ok && DecodeTablesChange(&in, &l0) && in.done();
  return ok ? Status::OK() : Undecodable("ListDB edit", payload);
}

}  // namespace lamella
