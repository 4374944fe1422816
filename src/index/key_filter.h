// KeyFilter tells of most keys that no record of a table has them, by a look at one cache line: a
// blocked Bloom filter (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters,
// 2007) over hashes of user keys, in bytes that lie wherever a table has them.
// I1: what was added is held.
// Threads: all may ask; Add before anybody does.
#ifndef LAMELLA_INDEX_KEY_FILTER_H_
#define LAMELLA_INDEX_KEY_FILTER_H_

#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace lamella {

class KeyFilter {
 public:
  static constexpr uint64_t kBlockBytes = 64;

  /// Blocks for so many keys; 0 bits for each: none, and every key may be held.
  static constexpr uint32_t BlocksFor(uint64_t keys, uint32_t bits_per_key) {
    return bits_per_key == 0 ? 0
                             : static_cast<uint32_t>(keys * bits_per_key / (8 * kBlockBytes) + 1);
  }
  /// Of a key whose Hash64 this is. `blocks`: zero at first.
  static void Add(uint64_t hash, char* blocks, uint32_t block_count) {
    if (block_count == 0) return;
    char* const block = blocks + BlockOf(hash, block_count) * kBlockBytes;
    for (uint64_t bits = MixBits(hash), i = 0; i < kBitsSet; i++, bits >>= kBitShift)
      block[(bits >> 3) & 63] = static_cast<char>(block[(bits >> 3) & 63] | 1 << (bits & 7));
  }
  static bool MayHold(uint64_t hash, const char* blocks, uint32_t block_count) {
    if (block_count == 0) return true;
    const char* const block = blocks + BlockOf(hash, block_count) * kBlockBytes;
    for (uint64_t bits = MixBits(hash), i = 0; i < kBitsSet; i++, bits >>= kBitShift) {
      if ((block[(bits >> 3) & 63] & 1 << (bits & 7)) == 0) return false;
    }
    return true;
  }
  static void Prefetch(uint64_t hash, const char* blocks, uint32_t block_count) {
    if (block_count != 0) __builtin_prefetch(blocks + BlockOf(hash, block_count) * kBlockBytes);
  }

 private:
  static constexpr uint32_t kBitsSet = 6;   // about the best of 10 bits for a key
  static constexpr uint32_t kBitShift = 9;  // of 512

  static uint64_t BlockOf(uint64_t hash, uint32_t block_count) {
    return (hash >> 32) * block_count >> 32;
  }
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_KEY_FILTER_H_
