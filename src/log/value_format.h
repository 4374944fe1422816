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
#include <optional>
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
  uint64_t magic;          // 0
  uint64_t content_bytes;  // 8: up to here places were given; zeros follow
  uint64_t checksum;       // 16: XXH3 of the segment without the trailer
};
static_assert(sizeof(SegmentTrailer) == 24 && offsetof(SegmentTrailer, checksum) == 16);
static_assert(std::has_unique_object_representations_v<SegmentTrailer>);
inline constexpr uint64_t kSegmentMagic = 0x4745534c41564d4cull;  // "LMVALSEG"

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

/// Ends the image of a segment of `image_bytes`, whose content is in it: zeros and trailer.
void EndSegment(uint64_t seed, uint64_t segment, uint64_t content_bytes, char* image,
                uint64_t image_bytes);
/// The segment's content, where `image` is that segment, whole (F2).
std::optional<std::string_view> ContentOf(uint64_t seed, uint64_t segment, std::string_view image);

}  // namespace lamella

#endif  // LAMELLA_LOG_VALUE_FORMAT_H_
