#include "base/codec.h"
#include "engine/level_table.h"
#include "log/position_codec.h"

namespace lamella {

std::string LevelPlace::Encode() const {
  std::string out;
  AppendFixed(&out, live_bytes);
  AppendFixed(&out, deletes);
  AppendFixed(&out, kept_versions);
  AppendFixed(&out, kept_bytes);
  AppendFixed(&out, kept_until);
  AppendFixed<uint32_t>(&out, static_cast<uint32_t>(regions.size()));
  for (const RegionShare& share : regions) {
    AppendFixed(&out, share.region);
    AppendFixed(&out, share.bytes);
  }
  AppendString(&out, design);
  return out;
}

bool LevelPlace::Decode(std::string_view bytes, LevelPlace* place) {
  *place = {};
  Decoder in(bytes);
  place->live_bytes = in.Fixed<uint64_t>();
  place->deletes = in.Fixed<uint64_t>();
  place->kept_versions = in.Fixed<uint64_t>();
  place->kept_bytes = in.Fixed<uint64_t>();
  place->kept_until = in.Fixed<uint64_t>();
  uint32_t count = 0;
  if (!DecodeCount(&in, 2 * sizeof(uint64_t), &count)) return false;
  for (; count > 0; count--) {
    const auto region = in.Fixed<uint64_t>();
    place->regions.push_back({region, in.Fixed<uint64_t>()});
  }
  place->design = in.String();
  return in.done();
}

}  // namespace lamella
