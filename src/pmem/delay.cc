#include "pmem/delay.h"

#include <chrono>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/futex.h"

namespace lamella {
namespace {

uint64_t ClockNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

double MeasureTicksPerNs() {
  constexpr uint64_t kMeasureNs = 2'000'000;
  const uint64_t start_ns = ClockNs();
  const uint64_t start_ticks = TicksNow();
  uint64_t now_ns;
  do {
    now_ns = ClockNs();
  } while (now_ns - start_ns < kMeasureNs);
  return static_cast<double>(TicksNow() - start_ticks) / static_cast<double>(now_ns - start_ns);
}

}  // namespace

uint64_t TicksNow() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  // It may count only 25 times a microsecond, and a line takes less than that: in parts of a count
  // the times of short transfers do not come to nothing.
  constexpr int kPartBits = 6;
  return ticks << kPartBits;
#else
  return ClockNs();
#endif
}

double TicksPerNs() {
  static const double ticks_per_ns = MeasureTicksPerNs();
  return ticks_per_ns;
}

void SpinUntil(uint64_t tick) {
  while (static_cast<int64_t>(tick - TicksNow()) > 0) SpinPause();
}

}  // namespace lamella
