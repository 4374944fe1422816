// KeyPrefixes chooses the 16 bytes of a key that a HeadTree keeps, its head, so that they tell keys
// apart which share long beginnings ("user000000...", URLs, paths): what all keys of a range begin
// with is left out of them.
//
// The key space is cut by up to 127 prefixes, none of which begins another, into the range of each
// and the gaps between them, numbered in key order. What the keys of a gap share is what the
// prefixes on its two sides do. A head is the number of its range, in one byte, and the 15 bytes
// that follow what the range shares; without any prefix it is the key's first 16 bytes. Such codes
// that keep the order are known from search trees (HOPE: Zhang et al., SIGMOD 2020).
//
// K1: where two heads differ they order as their keys do.
// K2: two keys with equal heads and equal sizes after what is left out are the same key, if those
//     sizes are no greater than a head; else they are equal in their first `covered` bytes.
// Immutable; any thread.
#ifndef LAMELLA_MEMTABLE_KEY_PREFIXES_H_
#define LAMELLA_MEMTABLE_KEY_PREFIXES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_head.h"

namespace lamella {

class KeyPrefixes {
 public:
  static constexpr uint32_t kHeadBytes = 16;

  struct Head {
    uint64_t high = 0;   // its first 8 bytes, big-endian, zero-padded
    uint64_t low = 0;    // the others
    size_t size = 0;     // of what the head is the beginning of
    size_t covered = 0;  // bytes of the key that the head stands for, at most
  };
  /// The head of `key`; `prefixes` may be null: its first 16 bytes.
  static Head HeadOf(const KeyPrefixes* prefixes, std::string_view key) {
    if (prefixes == nullptr) return Pack(0, 0, key, 0);
    const Range range = prefixes->RangeOf(key);
    return Pack(1, range.number, key.substr(range.left_out), range.left_out);
  }

  /// Prefixes for keys of which `sample` is one in many: as short as serves, so that keys that rise
  /// beyond the sample find themselves in the same ranges. Null where the first bytes tell the keys
  /// apart well enough, or nothing does.
  static std::shared_ptr<const KeyPrefixes> Learn(std::vector<std::string> sample);

  const std::vector<std::string>& prefixes() const { return prefixes_; }

 private:
  /// REQUIRES: there are some.
  explicit KeyPrefixes(std::vector<std::string> prefixes);
  // Small enough to be returned in registers, which a Head is not (key_head.h: why that counts).
  struct Range {
    size_t left_out;  // bytes of the key, that its range shares
    uint64_t number;
  };
  Range RangeOf(std::string_view key) const;
  /// The head that begins with `ahead` bytes (0 or 1) of `number` and goes on with `rest`, which is
  /// the key but for its first `left_out` bytes.
  static Head Pack(size_t ahead, uint64_t number, std::string_view rest, size_t left_out) {
    uint64_t high = lamella::HeadOf(rest);
    uint64_t low = HeadAfter(rest, sizeof(high));
    if (ahead == 1) {
      low = high << 56 | low >> 8;
      high = number << 56 | high >> 8;
    }
    return {.high = high,
            .low = low,
            .size = ahead + rest.size(),
            .covered = left_out + kHeadBytes - ahead};
  }

  const std::vector<std::string> prefixes_;  // ascending
  std::string_view common_;                  // what all of them begin with, of the first
  std::vector<size_t> shared_;  // by range: bytes that its keys share; gaps at even places
};

}  // namespace lamella

#endif  // LAMELLA_MEMTABLE_KEY_PREFIXES_H_
