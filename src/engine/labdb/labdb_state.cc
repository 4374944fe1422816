#include "engine/labdb/labdb_state.h"

#include "base/codec.h"
#include "base/concat.h"
#include "log/position_codec.h"

namespace lamella {

std::string LabDbState::EncodeChange(const LabDbState& before) const {
  std::string out;
  AppendFixed(&out, next_number);
  AppendFixed(&out, flushed_sequence);
  AppendFixed(&out, heads);
  AppendFixed(&out, active);
  AppendFixed(&out, has_older);
  AppendFixed(&out, segment_bytes);
  AppendPositions(&out, boundary);
  AppendGaps(&out, gaps);
  AppendTableEdit(&out, EditBetween(before.levels, levels));
  return out;
}

Status LabDbState::Apply(std::string_view payload) {
  Decoder in(payload);
  next_number = in.Fixed<uint64_t>();
  flushed_sequence = in.Fixed<uint64_t>();
  heads = in.Fixed<uint64_t>();
  active = in.Fixed<uint32_t>();
  has_older = in.Fixed<uint32_t>();
  segment_bytes = in.Fixed<uint64_t>();
  const bool ok = DecodePositions(&in, &boundary) && DecodeGaps(&in, &gaps) &&
                  DecodeTableEdit(&in, &levels) && in.done() && active <= 1 && has_older <= 1;
  return ok ? Status::OK()
            : Status::Corruption(Concat("the catalog's state of LAB-DB of ", payload.size(),
                                        " bytes does not decode; `lamella repair` rebuilds it"));
}

Status LabDbState::Decode(std::string_view payload, LabDbState* state) {
  *state = {};
  return state->Apply(payload);
}

}  // namespace lamella
