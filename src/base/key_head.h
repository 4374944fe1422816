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

/// The 8 bytes that follow the first `left_out`, big-endian, zeros after the key's end. Heads of
/// keys that are equal in those first bytes never order against their keys.
inline uint64_t HeadAfter(std::string_view key, size_t left_out) {
  uint64_t head = 0;
  if (key.size() >= left_out + sizeof(head)) {
    std::memcpy(&head, key.data() + left_out, sizeof(head));
  } else if (key.size() > left_out) {
    std::memcpy(&head, key.data() + left_out, key.size() - left_out);
  }
  return __builtin_bswap64(head);
}

/// So many bytes both begin with.
inline size_t SharedBytes(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

}  // namespace lamella

#endif  // LAMELLA_BASE_KEY_HEAD_H_
