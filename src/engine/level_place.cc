#include <algorithm>

#include "base/codec.h"
#include "engine/level_table.h"
#include "log/position_codec.h"

namespace lamella {

void LevelPlace::Count(const InternalKey& key, std::string_view value, uint64_t newer,
                       uint64_t record_bytes) {
  const bool is_delete = TagKind(key.tag) == RecordKind::kDelete;
  if (is_delete) deletes++;
  if (!is_delete && newer == 0) live_bytes += key.user_key.size() + value.size();
  if (newer == 0) return;
  kept_versions++;
  kept_bytes += record_bytes;
  kept_until = std::max(kept_until, newer);
}

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
