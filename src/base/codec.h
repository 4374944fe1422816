// Little-endian fixed-width integers and length-prefixed strings, for catalog edits and files.
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
