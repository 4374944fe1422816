// The head of a key: 8 bytes of it as a number, after what it shares with others, so that a search
// compares numbers that lie beside each other and asks for a key itself only where they tie.
#ifndef LAMELLA_BASE_KEY_HEAD_H_
#define LAMELLA_BASE_KEY_HEAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace lamella {

/// The first 8 bytes, big-endian, zeros after the end. By loads alone: what was stored in pieces
/// and is loaded as a word waits for every store before it, those of a record to the pool too.
inline uint64_t HeadOf(std::string_view bytes) {
  const char* const p = bytes.data();
  const size_t n = bytes.size();
  const auto byte = [p](size_t i) {
    return uint64_t{static_cast<unsigned char>(p[i])} << (56 - 8 * i);
  };
  const auto four = [p](size_t i) {
    uint32_t word;
    std::memcpy(&word, p + i, sizeof(word));
    return uint64_t{__builtin_bswap32(word)} << (32 - 8 * i);
  };
  if (n >= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, p, sizeof(word));
    return __builtin_bswap64(word);
  }
  if (n >= sizeof(uint32_t)) return four(0) | four(n - sizeof(uint32_t));
  return n == 0 ? 0 : byte(0) | byte(n / 2) | byte(n - 1);
}

/// The 8 bytes that follow the first `left_out`. Heads of keys that are equal in those first bytes
/// never order against their keys.
inline uint64_t HeadAfter(std::string_view key, size_t left_out) {
  return HeadOf(key.substr(std::min(left_out, key.size())));
}

/// So many bytes both begin with.
inline size_t SharedBytes(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

}  // namespace lamella

#endif  // LAMELLA_BASE_KEY_HEAD_H_
