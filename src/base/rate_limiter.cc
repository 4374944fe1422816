#include "base/rate_limiter.h"

#include <algorithm>

namespace lamella {

void RateLimiter::SetRate(uint64_t bytes_per_second) {
  const MutexLock lock(&mu_);
  bytes_per_second_.store(bytes_per_second, std::memory_order_relaxed);
  if (bytes_per_second != 0) return;
  next_ = {};
  lifted_.notify_all();
}

void RateLimiter::Acquire(uint64_t bytes) {
  const uint64_t rate = bytes_per_second_.load(std::memory_order_relaxed);
  if (rate == 0) return;
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> takes(static_cast<double>(bytes) / static_cast<double>(rate));
  const MutexLock lock(&mu_);
  const Clock::time_point start = std::max(next_, Clock::now());
  next_ = start + std::chrono::duration_cast<Clock::duration>(takes);
  while (bytes_per_second_.load(std::memory_order_relaxed) != 0 && Clock::now() < start)
    lifted_.wait_until(mu_, start);
}

}  // namespace lamella
