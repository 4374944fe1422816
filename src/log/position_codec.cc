#include "log/position_codec.h"

namespace lamella {

void AppendPositions(std::string* out, const std::vector<LogPosition>& positions) {
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(positions.size()));
  for (const LogPosition& p : positions) {
    AppendFixed(out, p.ordinal);
    AppendFixed(out, p.offset);
  }
}

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

void AppendGaps(std::string* out, const std::vector<SequenceGap>& gaps) {
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(gaps.size()));
  for (const SequenceGap& g : gaps) {
    AppendFixed(out, g.first);
    AppendFixed(out, g.last);
  }
}

bool DecodeGaps(Decoder* in, std::vector<SequenceGap>* gaps) {
  uint32_t count;
  if (!DecodeCount(in, 16, &count)) return false;
  gaps->resize(count);
  for (SequenceGap& g : *gaps) {
    g.first = in->Fixed<uint64_t>();
    g.last = in->Fixed<uint64_t>();
  }
  return in->ok();
}

}  // namespace lamella
