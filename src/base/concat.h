// Concat joins text and numbers into one string, for messages. Hex marks a number to be written in
// base 16.
#ifndef LAMELLA_BASE_CONCAT_H_
#define LAMELLA_BASE_CONCAT_H_

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace lamella {

struct Hex {
  uint64_t value;
};

inline void AppendPiece(std::string* out, std::string_view s) { out->append(s); }
inline void AppendPiece(std::string* out, const char* s) { out->append(s); }
inline void AppendPiece(std::string* out, char c) { out->push_back(c); }
template <std::integral T>
void AppendPiece(std::string* out, T value) {
  out->append(std::to_string(value));
}
/// In as few digits as tell it from every other: 0.1, 100, nan.
inline void AppendPiece(std::string* out, double value) {
  char digits[32];
  out->append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}
inline void AppendPiece(std::string* out, Hex hex) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out->append("0x");
  int shift = 60;
  while (shift > 0 && (hex.value >> shift) == 0) shift -= 4;
  for (; shift >= 0; shift -= 4) out->push_back(kDigits[(hex.value >> shift) & 15]);
}

/// "chunk 7 at 0x40": the pieces, one after the other.
template <class... Pieces>
std::string Concat(const Pieces&... pieces) {
  std::string out;
  (AppendPiece(&out, pieces), ...);
  return out;
}

}  // namespace lamella

#endif  // LAMELLA_BASE_CONCAT_H_
