// Delays of emulated media: spins on the processor's time counter, calibrated against the clock at
// first use.
// Threads: any.
#ifndef LAMELLA_PMEM_DELAY_H_
#define LAMELLA_PMEM_DELAY_H_

#include <atomic>
#include <cstdint>

namespace lamella {

/// The time counter now: the TSC, 64ths of the AArch64 virtual counter's counts, or nanoseconds.
uint64_t TicksNow();

/// Ticks per nanosecond; the first call takes about two milliseconds to measure them.
double TicksPerNs();

/// Returns once the counter has reached `tick`.
void SpinUntil(uint64_t tick);

/// Bandwidth is a queue that all threads share: each transfer starts when the one before it ends.
class BandwidthQueue {
 public:
  /// Books a transfer of `ticks` length that starts at `now` or when the queue is free; returns
  /// when it ends.
  uint64_t Book(uint64_t now, uint64_t ticks) {
    uint64_t free_at = free_at_.load(std::memory_order_relaxed);
    uint64_t end;
    do {
      end = (free_at > now ? free_at : now) + ticks;
      // a time, it guards nothing
    } while (!free_at_.compare_exchange_weak(free_at, end, std::memory_order_relaxed));
    return end;
  }

 private:
  std::atomic<uint64_t> free_at_{0};
};

}  // namespace lamella

#endif  // LAMELLA_PMEM_DELAY_H_
