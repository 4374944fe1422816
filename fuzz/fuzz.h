// What the fuzzers share. A fuzzer is one file, NAME_fuzz.cc, with the function that libFuzzer
// calls; its inputs are kept in corpus/NAME, and replay.cc runs them through the same function
// where there is no libFuzzer.
//
// F1: an input is wrong if it crashes, trips a sanitizer, or fails a FUZZ_CHECK: what was parsed is
//     compared with a second, simpler reading of the same bytes, or encoded again and parsed once
//     more.
// F2: what a function does depends on its input alone. Checksums are seeded with what differs from
//     run to run (a chunk's epoch), so an input has kSealHere where one belongs, and the fuzzer
//     puts it in.
// F3: `planted` makes the function under test answer wrongly; the replay's control fails if nobody
//     notices.
// Threads: one.
#ifndef LAMELLA_FUZZ_FUZZ_H_
#define LAMELLA_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace lamella::fuzz {

extern bool planted;

/// Stands for the checksum that would be right here.
inline constexpr uint32_t kSealHere = 0x5ea15ea1;

/// Says what is wrong and aborts, as libFuzzer expects it.
[[noreturn]] void Wrong(const char* file, int line, const char* condition, std::string_view detail);

/// Bytes from the front of an input; zeros once there are no more.
class Input {
 public:
  Input(const uint8_t* data, size_t size)
      : rest_(size == 0 ? "" : reinterpret_cast<const char*>(data), size) {}
  template <class T>
  T Take() {
    T value{};
    const size_t n = rest_.size() < sizeof(T) ? rest_.size() : sizeof(T);
    rest_.copy(reinterpret_cast<char*>(&value), n);
    rest_.remove_prefix(n);
    return value;
  }
  std::string_view Bytes(size_t n) {
    const std::string_view bytes = rest_.substr(0, n);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view Rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace lamella::fuzz

#define FUZZ_CHECK(condition, detail) \
  ((condition) ? (void)0 : ::lamella::fuzz::Wrong(__FILE__, __LINE__, #condition, (detail)))

#endif  // LAMELLA_FUZZ_FUZZ_H_
