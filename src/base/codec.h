// Little-endian fixed-width integers, varints and length-prefixed strings, for catalog edits and
// files.
// A Decoder never reads past its input: the first failure sticks and every later read gives zero.
#ifndef LAMELLA_BASE_CODEC_H_
#define LAMELLA_BASE_CODEC_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lamella {

static_assert(std::endian::native == std::endian::little,
              "media formats are little-endian and read in place");

template <class T>
void AppendFixed(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline void AppendString(std::string* out, std::string_view s) {
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(s.size()));
  out->append(s);
}

/// 7 bits a byte, the lowest first; the last byte has its top bit clear.
inline void AppendVarint(std::string* out, uint64_t value) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}
/// What follows the varint at `p`; null where it does not end before `end`, or is beyond 64 bits.
inline const char* ReadVarint(const char* p, const char* end, uint64_t* value) {
  uint64_t result = 0;
  for (uint32_t shift = 0; p < end; shift += 7) {
    const auto byte = static_cast<uint8_t>(*p++);
    if (shift == 63 && byte > 1) return nullptr;
    result |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      *value = result;
      return p;
    }
  }
  return nullptr;
}

class Decoder {
 public:
  explicit Decoder(std::string_view in) : in_(in) {}

  template <class T>
  T Fixed() {
    T value{};
    if (in_.size() < sizeof(T)) {
      Fail();
    } else {
      // Of sizeof(T) bytes. NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage)
      std::memcpy(&value, in_.data(), sizeof(T));
      in_.remove_prefix(sizeof(T));
    }
    return value;
  }
  std::string_view String() {
    const uint32_t n = Fixed<uint32_t>();
    if (in_.size() < n) {
      Fail();
      return {};
    }
    const std::string_view s = in_.substr(0, n);
    in_.remove_prefix(n);
    return s;
  }
  uint64_t Varint() {
    uint64_t value = 0;
    const char* next = ReadVarint(in_.data(), in_.data() + in_.size(), &value);
    if (next == nullptr) {
      Fail();
      return 0;
    }
    in_.remove_prefix(static_cast<size_t>(next - in_.data()));
    return value;
  }
  bool ok() const { return ok_; }
  /// True when all was read and nothing failed.
  bool done() const { return ok_ && in_.empty(); }
  size_t remaining() const { return in_.size(); }

 private:
  void Fail() {
    ok_ = false;
    in_ = {};
  }
  std::string_view in_;
  bool ok_ = true;
};

}  // namespace lamella

#endif  // LAMELLA_BASE_CODEC_H_
