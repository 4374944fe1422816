#include "base/rate_limiter.h"

#include <algorithm>
#include <thread>

namespace lamella {

void RateLimiter::Acquire(uint64_t bytes) {
  const uint64_t rate = bytes_per_second_.load(std::memory_order_relaxed);
  if (rate == 0) return;
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> takes(static_cast<double>(bytes) / static_cast<double>(rate));
  Clock::time_point start;
  {
    const MutexLock lock(&mu_);
    start = std::max(next_, Clock::now());
    next_ = start + std::chrono::duration_cast<Clock::duration>(takes);
  }
  std::this_thread::sleep_until(start);
}

}  // namespace lamella
