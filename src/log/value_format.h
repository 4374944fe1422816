// The media types of the value log: values, and what ends a segment in a file (docs/FORMAT.md,
// Values).
//
//   segment   values, each a header, its bytes and zeros up to a multiple of 8, at the places that
//             were given for them; a place that nobody copied to holds anything. In a file a
//             trailer ends it, whose place in the pool is left alone.
//
// F1: a value's checksum is bound to the store, the segment, the place in it and the size: what was
//     written elsewhere never validates here. It is XXH3, of which the lower half is kept.
// F2: a segment that a file has all of says so: its trailer's checksum covers the rest of it.
// Threads: any.
#ifndef LAMELLA_LOG_VALUE_FORMAT_H_
#define LAMELLA_LOG_VALUE_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/hash.h"
#include "base/random.h"
#include "lamella/status.h"
#include "log/value_address.h"

namespace lamella {

/// Media type: before each value's bytes.
struct ValueHeader {
  uint32_t size;      // 0: of the value
  uint32_t checksum;  // 4
};
static_assert(sizeof(ValueHeader) == 8 && offsetof(ValueHeader, checksum) == 4);
static_assert(std::has_unique_object_representations_v<ValueHeader>);

/// Media type: the last bytes of a segment that was written on to a file.
struct SegmentTrailer {
  uint64_t magic;     // 0
  uint64_t checksum;  // 8: XXH3 of the segment without the trailer
};
static_assert(sizeof(SegmentTrailer) == 16 && offsetof(SegmentTrailer, checksum) == 8);
static_assert(std::has_unique_object_representations_v<SegmentTrailer>);
inline constexpr uint64_t kSegmentMagic = 0x31474553564d4c4cull;  // "LLMVSEG1"

/// What a value takes of a segment.
constexpr uint64_t ValueBytes(uint64_t size) { return (sizeof(ValueHeader) + size + 7) / 8 * 8; }

/// Seeds all checksums of a store's values.
inline uint64_t ValueSeed(const std::array<uint8_t, 16>& store) {
  return Hash64({reinterpret_cast<const char*>(store.data()), store.size()});
}
inline uint32_t ValueChecksum(uint64_t seed, const ValueAddress& address, std::string_view value) {
  return static_cast<uint32_t>(
      Hash64(value, seed ^ MixBits(address.word) ^ MixBits(~uint64_t{address.size})));
}
inline ValueHeader MakeValueHeader(uint64_t seed, const ValueAddress& address,
                                   std::string_view value) {
  return {.size = address.size, .checksum = ValueChecksum(seed, address, value)};
}
/// True if the value of that address lies at `at`. REQUIRES: header and value can be read there.
inline bool ValueIsSound(uint64_t seed, const ValueAddress& address, const char* at) {
  ValueHeader header;
  std::memcpy(&header, at, sizeof(header));
  return header.size == address.size &&
         header.checksum ==
             ValueChecksum(seed, address, {at + sizeof(header), size_t{address.size}});
}
/// Corruption: what is wrong with the one at `at`, of which `where` says the place.
Status DamagedValue(uint64_t seed, const ValueAddress& address, const char* at,
                    std::string_view where);

inline uint64_t SegmentChecksum(uint64_t seed, uint64_t segment, std::string_view content) {
  return Hash64(content, seed ^ MixBits(segment) ^ kSegmentMagic);
}
/// Ends the image of a segment. REQUIRES: it has room for the trailer after `content_bytes`.
void EndSegment(uint64_t seed, uint64_t segment, char* image, uint64_t content_bytes);
/// True if `image` is that segment, whole.
bool SegmentIsWhole(uint64_t seed, uint64_t segment, std::string_view image);

}  // namespace lamella

#endif  // LAMELLA_LOG_VALUE_FORMAT_H_
