#include "engine/leveled_state.h"

#include "base/codec.h"
#include "base/concat.h"
#include "engine/level_table.h"
#include "log/position_codec.h"

namespace lamella {

namespace {

// The lists that an edit has if they changed; its tables it always has.
enum Changed : uint8_t { kBoundary = 1, kGaps = 2, kChangedAll = 3 };

void AppendNumbers(std::string* out, const LeveledState& state) {
  AppendFixed(out, state.next_number);
  AppendFixed(out, state.flushed_sequence);
}

void DecodeNumbers(Decoder* in, LeveledState* state) {
  state->next_number = in->Fixed<uint64_t>();
  state->flushed_sequence = in->Fixed<uint64_t>();
}

// Every table says where it lies.
bool PlacesDecode(const TableLevelsState& levels) {
  bool ok = true;
  levels.ForEach([&](uint32_t, const auto& table) {
    LevelPlace place;
    ok = ok && LevelPlace::Decode(table->place, &place);
  });
  return ok;
}

Status Undecodable(const char* what, std::string_view payload) {
  return Status::Corruption(Concat("the catalog's ", what, " of ", payload.size(),
                                   " bytes does not decode; `lamella repair` rebuilds it from the "
                                   "records"));
}

}  // namespace

std::string LeveledState::Encode() const {
  std::string out;
  AppendNumbers(&out, *this);
  AppendPositions(&out, boundary);
  AppendGaps(&out, gaps);
  AppendTableLevels(&out, levels);
  return out;
}

Status LeveledState::Decode(std::string_view payload, LeveledState* state) {
  *state = {};
  Decoder in(payload);
  DecodeNumbers(&in, state);
  const bool ok = DecodePositions(&in, &state->boundary) && DecodeGaps(&in, &state->gaps) &&
                  DecodeTableEdit(&in, &state->levels) && in.done() && PlacesDecode(state->levels);
  return ok ? Status::OK() : Undecodable("state of the levels", payload);
}

std::string LeveledState::EncodeChange(const LeveledState& before) const {
  std::string out;
  AppendNumbers(&out, *this);
  const auto changed = static_cast<uint8_t>((boundary != before.boundary ? kBoundary : 0) |
                                            (gaps != before.gaps ? kGaps : 0));
  AppendFixed(&out, changed);
  if ((changed & kBoundary) != 0) AppendPositions(&out, boundary);
  if ((changed & kGaps) != 0) AppendGaps(&out, gaps);
  AppendTableEdit(&out, EditBetween(before.levels, levels));
  return out;
}

Status LeveledState::Apply(std::string_view payload) {
  Decoder in(payload);
  DecodeNumbers(&in, this);
  const uint8_t changed = in.Fixed<uint8_t>();
  bool ok = in.ok() && changed <= kChangedAll;
  if (ok && (changed & kBoundary) != 0) ok = DecodePositions(&in, &boundary);
  if (ok && (changed & kGaps) != 0) ok = DecodeGaps(&in, &gaps);
  ok = ok && DecodeTableEdit(&in, &levels) && in.done() && PlacesDecode(levels);
  return ok ? Status::OK() : Undecodable("edit of the levels", payload);
}

}  // namespace lamella
