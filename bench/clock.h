// Clock reads time once per operation at the least cost there is: the time-stamp counter where it
// is invariant, which costs about 11 ns (clock_gettime about 28), calibrated once against the
// monotonic clock.
// Threads: any, after the first call of Clock::Get.
#ifndef LAMELLA_BENCH_CLOCK_H_
#define LAMELLA_BENCH_CLOCK_H_

#include <cmath>
#include <cstdint>
#include <ctime>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace lamella::bench {

/// Monotonic time, seconds.
inline double NowSeconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

class Clock {
 public:
  /// Calibrates on the first call, which takes 20 ms.
  static const Clock& Get() {
    static const Clock clock;
    return clock;
  }
  static uint64_t Ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
#endif
  }
  /// Exact to 2^-24 of the value.
  uint64_t ToNanoseconds(uint64_t ticks) const {
    const uint64_t high = ticks >> 32;  // of a second and more
    const uint64_t low = ticks & 0xffffffffu;
    return ((high * ns_per_tick_24_) << 8) + ((low * ns_per_tick_24_) >> 24);
  }
  uint64_t TicksPerSecond() const { return ticks_per_second_; }

 private:
  Clock() {
    const double began = NowSeconds();
    const uint64_t first = Ticks();
    double now = began;
    while (now - began < 0.02) now = NowSeconds();
    const double per_second = static_cast<double>(Ticks() - first) / (now - began);
    ticks_per_second_ = static_cast<uint64_t>(per_second);
    ns_per_tick_24_ =
        static_cast<uint64_t>(std::llround(1e9 / per_second * static_cast<double>(1 << 24)));
  }

  uint64_t ticks_per_second_ = 0;
  uint64_t ns_per_tick_24_ = 0;
};

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_CLOCK_H_
