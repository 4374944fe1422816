#include "testing/toy/toy_state.h"

#include "log/position_codec.h"

namespace lamella::testing {

// An edit has all but the tables that stay.
std::string ToyState::EncodeChange(const ToyState& before) const {
  std::string out;
  AppendFixed(&out, next_file);
  AppendFixed(&out, through);
  AppendPositions(&out, ends);
  AppendGaps(&out, gaps);
  AppendTableEdit(&out, EditBetween(before.levels, levels));
  return out;
}

Status ToyState::Apply(std::string_view payload) {
  Decoder in(payload);
  next_file = in.Fixed<uint64_t>();
  through = in.Fixed<uint64_t>();
  const bool ok = DecodePositions(&in, &ends) && DecodeGaps(&in, &gaps) &&
                  DecodeTableEdit(&in, &levels) && in.done();
  return ok ? Status::OK() : Status::Corruption("the toy's state in the catalog is none");
}

std::string ToyState::Encode() const { return EncodeChange(ToyState()); }

Status ToyState::Decode(std::string_view payload, ToyState* state) {
  *state = ToyState();
  return state->Apply(payload);
}

}  // namespace lamella::testing
