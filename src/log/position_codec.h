// How catalogs write log positions and void sequence numbers.
#ifndef LAMELLA_LOG_POSITION_CODEC_H_
#define LAMELLA_LOG_POSITION_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/codec.h"
#include "log/pm_log.h"

namespace lamella {

/// A list's count. It is checked against what is left, so that a damaged one cannot ask for memory
/// out of proportion.
bool DecodeCount(Decoder* in, size_t element_bytes, uint32_t* count);

void AppendPositions(std::string* out, const std::vector<LogPosition>& positions);
bool DecodePositions(Decoder* in, std::vector<LogPosition>* positions);

void AppendGaps(std::string* out, const std::vector<SequenceGap>& gaps);
bool DecodeGaps(Decoder* in, std::vector<SequenceGap>* gaps);

}  // namespace lamella

#endif  // LAMELLA_LOG_POSITION_CODEC_H_
