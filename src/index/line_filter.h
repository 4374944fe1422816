// LineFilter tells of most keys that a table does not have them, by a look at one cache line: a
// blocked Bloom filter (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters,
// 2007) that lies in persistent memory, made once with its table. Each line carries its own
// checksum.
// I1: of a sound line: what was added is held.
// Threads: a filter that is made, any.
#ifndef LAMELLA_INDEX_LINE_FILTER_H_
#define LAMELLA_INDEX_LINE_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/crc32c.h"

namespace lamella {

/// Media type: 480 bits, and what tells that they are as they were written.
struct FilterLine {
  static constexpr uint32_t kBits = 480;
  uint8_t bits[kBits / 8];  // 0
  uint32_t checksum;        // 60: crc32c over the bits, seeded with the table's number

  /// Of a key's hash.
  bool MayHold(uint64_t hash) const {
    for (uint32_t i = 0; i < kBitsSet; i++) {
      const uint32_t bit = BitOf(hash, i);
      if ((bits[bit / 8] & 1 << bit % 8) == 0) return false;
    }
    return true;
  }
  void Add(uint64_t hash) {
    for (uint32_t i = 0; i < kBitsSet; i++) {
      const uint32_t bit = BitOf(hash, i);
      bits[bit / 8] = static_cast<uint8_t>(bits[bit / 8] | 1 << bit % 8);
    }
  }
  uint32_t ChecksumOf(uint64_t table) const {
    return Crc32c(static_cast<uint32_t>(table), bits, sizeof(bits));
  }

 private:
  static constexpr uint32_t kBitsSet = 6;
  // From the hash's low half, whose high half chose the line: steps of an odd length.
  static uint32_t BitOf(uint64_t hash, uint32_t i) {
    const auto low = static_cast<uint32_t>(hash);
    const uint32_t step = (low >> 17 | low << 15) | 1;
    return static_cast<uint32_t>(uint64_t{low + i * step} * kBits >> 32);
  }
};
static_assert(sizeof(FilterLine) == 64 && offsetof(FilterLine, checksum) == 60);

inline constexpr uint32_t kFilterBitsPerKey = 10;

/// Lines of a filter for so many keys, at about so many bits for each; with 0 none, and every key
/// may be held.
constexpr uint64_t FilterLines(uint64_t keys, uint32_t bits_per_key = kFilterBitsPerKey) {
  return bits_per_key == 0 ? 0 : keys * bits_per_key / FilterLine::kBits + 1;
}
/// The line that a hash belongs to.
constexpr uint64_t FilterLineOf(uint64_t hash, uint64_t lines) {
  return (hash >> 32) * lines >> 32;
}

/// The lines of a filter for hashes, [first, last).
template <class Iterator>
std::string MakeFilter(Iterator first, Iterator last, uint64_t table,
                       uint32_t bits_per_key = kFilterBitsPerKey) {
  const uint64_t lines = FilterLines(static_cast<uint64_t>(last - first), bits_per_key);
  std::string bytes(lines * sizeof(FilterLine), '\0');
  if (lines == 0) return bytes;
  auto* const filter = reinterpret_cast<FilterLine*>(bytes.data());
  for (; first != last; ++first) filter[FilterLineOf(*first, lines)].Add(*first);
  for (uint64_t i = 0; i < lines; i++) filter[i].checksum = filter[i].ChecksumOf(table);
  return bytes;
}

}  // namespace lamella

#endif  // LAMELLA_INDEX_LINE_FILTER_H_
