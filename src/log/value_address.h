// ValueAddress says where a value of the value log lies, from the moment it is logged and for as
// long as it is there: first in a segment in the pool, later in a value file. The same 12 bytes
// lead to it in both.
// Threads: any.
#ifndef LAMELLA_LOG_VALUE_ADDRESS_H_
#define LAMELLA_LOG_VALUE_ADDRESS_H_

#include <cstdint>
#include <memory>
#include <string_view>

namespace lamella {

struct ValueAddress {
  uint64_t word = 0;  // segment << 24 | offset / 8; 0 is no value's
  uint32_t size = 0;  // of the value, in bytes

  /// Segments are numbered from 1 on.
  constexpr uint64_t segment() const { return word >> 24; }
  /// In the segment, where the value's header begins: a multiple of 8.
  constexpr uint64_t offset() const { return (word & 0xffffff) * 8; }
  bool operator==(const ValueAddress&) const = default;
};

inline constexpr uint64_t kSegmentBytesMax = uint64_t{1} << 27;  // what offsets reach
inline constexpr uint64_t kSegmentMax = (uint64_t{1} << 40) - 1;

/// REQUIRES: 0 < segment <= kSegmentMax; offset is a multiple of 8 below kSegmentBytesMax.
constexpr ValueAddress MakeValueAddress(uint64_t segment, uint64_t offset, uint32_t size) {
  return {.word = segment << 24 | offset / 8, .size = size};
}

/// A value that was read.
struct ValueRead {
  std::string_view value;
  /// Keeps the value; null where it lies in the pool, and is valid for as long as the reader's pin,
  /// or the holder's that took its place, is live.
  std::shared_ptr<const void> owner;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_VALUE_ADDRESS_H_
