#include "engine/listdb/state.h"

#include <type_traits>

#include "base/codec.h"
#include "base/concat.h"
#include "log/position_codec.h"

namespace lamella {

namespace {

// The fields of which each is one number: every edit has them all, in this order.
template <class State, class Visit>
void ForEachNumber(State* state, Visit&& visit) {
  visit(&state->lanes);
  visit(&state->l1_heads.word);
  visit(&state->l1_count);
  visit(&state->live_bytes);
  visit(&state->next_table_id);
  visit(&state->merging);
  visit(&state->flushed_sequence);
  visit(&state->merged_sequence);
  visit(&state->synced_sequence);
  visit(&state->rebuilding);
  visit(&state->uncounted);
}

void AppendNumbers(std::string* out, const ListDbState& state) {
  static_assert(sizeof(bool) == 1);
  ForEachNumber(&state, [out](const auto* number) { AppendFixed(out, *number); });
}

bool DecodeNumbers(Decoder* in, ListDbState* state) {
  bool ok = true;
  ForEachNumber(state, [&](auto* number) {
    using Number = std::remove_pointer_t<decltype(number)>;
    if constexpr (std::is_same_v<Number, bool>) {
      const auto byte = in->Fixed<uint8_t>();
      *number = byte != 0;
      ok &= byte <= 1;
    } else {
      *number = in->Fixed<Number>();
    }
  });
  return ok && in->ok() && state->lanes != 0 && state->lanes <= kPoolPartsMax && state->l1_heads;
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
