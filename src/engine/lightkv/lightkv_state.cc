#include "engine/lightkv/lightkv_state.h"

#include "base/codec.h"
#include "base/concat.h"
#include "log/position_codec.h"

namespace lamella {

std::string LightKvState::EncodeChange(const LightKvState& before) const {
  std::string out;
  AppendFixed(&out, next_number);
  AppendFixed(&out, flushed_sequence);
  AppendPositions(&out, boundary);
  AppendGaps(&out, gaps);
  AppendTableEdit(&out, EditBetween(before.levels, levels));
  return out;
}

Status LightKvState::Apply(std::string_view payload) {
  Decoder in(payload);
  next_number = in.Fixed<uint64_t>();
  flushed_sequence = in.Fixed<uint64_t>();
  const bool ok = DecodePositions(&in, &boundary) && DecodeGaps(&in, &gaps) &&
                  DecodeTableEdit(&in, &levels) && in.done();
  return ok ? Status::OK()
            : Status::Corruption(Concat(
                  "the catalog's state of LightKV of ", payload.size(),
                  " bytes does not decode; `lamella repair` finds the tables by their files"));
}

Status LightKvState::Decode(std::string_view payload, LightKvState* state) {
  *state = {};
  return state->Apply(payload);
}

}  // namespace lamella
