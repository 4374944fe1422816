// RateLimiter holds back who moves bytes, so that all that share it move no more than so many a
// second: compaction, say, beside the reads of users. Who asks late may not catch up: a pause is no
// credit.
// Threads: all calls from any.
#ifndef LAMELLA_BASE_RATE_LIMITER_H_
#define LAMELLA_BASE_RATE_LIMITER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>

#include "base/annotations.h"
#include "base/mutex.h"

namespace lamella {

class RateLimiter {
 public:
  /// 0 is no limit.
  explicit RateLimiter(uint64_t bytes_per_second = 0) : bytes_per_second_(bytes_per_second) {}

  /// From the next Acquire on; where there is no limit any more, who waits goes on, too.
  void SetRate(uint64_t bytes_per_second) LAMELLA_EXCLUDES(mu_);
  /// Waits until so many bytes may be moved: as long as those before them take at the rate.
  void Acquire(uint64_t bytes) LAMELLA_EXCLUDES(mu_);

 private:
  std::atomic<uint64_t> bytes_per_second_;  // changed with mu_; read by anyone
  Mutex mu_;
  std::condition_variable_any lifted_;  // with mu_: there is no limit any more
  std::chrono::steady_clock::time_point next_ LAMELLA_GUARDED_BY(mu_);
};

}  // namespace lamella

#endif  // LAMELLA_BASE_RATE_LIMITER_H_
