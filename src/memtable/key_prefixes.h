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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
    return prefixes == nullptr ? Pack(0, 0, key, 0) : prefixes->HeadOf(key);
  }

  /// Prefixes for keys of which `sample` is one in many: as short as serves, so that keys that rise
  /// beyond the sample find themselves in the same ranges. Null where the first bytes tell the keys
  /// apart well enough, or nothing does.
  static std::shared_ptr<const KeyPrefixes> Learn(std::vector<std::string> sample);

  const std::vector<std::string>& prefixes() const { return prefixes_; }

 private:
  /// REQUIRES: there are some.
  explicit KeyPrefixes(std::vector<std::string> prefixes);
  Head HeadOf(std::string_view key) const;
  /// The head that begins with `ahead` bytes (0 or 1) of `number` and goes on with `rest`, which is
  /// the key but for its first `left_out` bytes.
  static Head Pack(size_t ahead, uint8_t number, std::string_view rest, size_t left_out) {
    uint64_t words[2] = {0, 0};
    if (ahead == 0 && rest.size() >= kHeadBytes) {
      std::memcpy(words, rest.data(), kHeadBytes);
    } else {
      char* const bytes = reinterpret_cast<char*>(words);
      bytes[0] = static_cast<char>(number);
      std::copy_n(rest.begin(), std::min(rest.size(), kHeadBytes - ahead), bytes + ahead);
    }
    return {.high = __builtin_bswap64(words[0]),
            .low = __builtin_bswap64(words[1]),
            .size = ahead + rest.size(),
            .covered = left_out + kHeadBytes - ahead};
  }

  const std::vector<std::string> prefixes_;  // ascending
  std::string_view common_;                  // what all of them begin with, of the first
  std::vector<size_t> shared_;  // by range: bytes that its keys share; gaps at even places
};

}  // namespace lamella

#endif  // LAMELLA_MEMTABLE_KEY_PREFIXES_H_
