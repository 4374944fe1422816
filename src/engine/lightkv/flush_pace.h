// FlushPace holds writers back where they are faster than the flush beside them: the more they have
// written beyond a bound, the longer each record waits. So they come to go as fast as the flush
// does before they reach another, where they would stop until it is over (BesideFlush).
// Threads: any.
#ifndef LAMELLA_ENGINE_LIGHTKV_FLUSH_PACE_H_
#define LAMELLA_ENGINE_LIGHTKV_FLUSH_PACE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace lamella {

/// What may be written beside a flush, in bytes of the log.
struct BesideFlush {
  uint64_t free;  // before writers are held back
  uint64_t all;   // when they stop

  /// `flushing`: what the flush is of. `due`: when the next one is. `log_max`: what both may have.
  static BesideFlush Of(uint64_t flushing, uint64_t due, uint64_t log_max) {
    constexpr uint64_t kLeastShare = 8;  // of `due`, where that flush has nearly all
    constexpr uint64_t kFreeShare = 4;   // of what is left, where that is less than another two
    const uint64_t left = log_max - std::min(log_max, flushing);
    if (left >= 2 * due - due / kLeastShare)  // or the record less that made this flush due
      return {.free = due, .all = std::min(left, 2 * due)};
    const uint64_t all = std::max(due / kLeastShare, left);
    return {.free = std::min(due, all / kFreeShare), .all = all};
  }
  /// Of what is written, how far it is from `free`, 0, to `all`, 1.
  double Over(uint64_t written) const {
    return (static_cast<double>(written) - static_cast<double>(free)) /
           static_cast<double>(all - free);
  }
};

class FlushPace {
 public:
  /// A flush of so many bytes of the log took so long, from when it was sealed.
  void Note(uint64_t bytes, uint64_t ns) {
    const double each = static_cast<double>(ns) / static_cast<double>(std::max(bytes, kBytesMin));
    ns_per_byte_.store(std::min(each, kNsPerByteMax), std::memory_order_relaxed);
  }
  /// How long a record of so many bytes is to wait, by BesideFlush::Over.
  uint32_t DelayNs(double over, double record_bytes) const {
    // Beside a flush of F bytes writers come, with this factor and no other limit, to where `over`
    // is the root of F / 4 / (all - free): where a flush is due at `free`, to 1.64 times that,
    // flush after flush; where half of a pool is flushed at a time, and 2/8 are left, to 0.82.
    constexpr double kSteepness = 8;
    constexpr double kDelayNsMax = 1e9;
    const double ns = ns_per_byte_.load(std::memory_order_relaxed);
    return static_cast<uint32_t>(
        std::min(kDelayNsMax, kSteepness * std::clamp(over, 0.0, 1.0) * record_bytes * ns));
  }

 private:
  static constexpr double kNsPerByteUsual = 5;  // until one was seen: 200 MB/s
  static constexpr double kNsPerByteMax = 1000;
  static constexpr uint64_t kBytesMin = 1 << 20;      // less takes as long as this
  std::atomic<double> ns_per_byte_{kNsPerByteUsual};  // of the last one; guards nothing
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIGHTKV_FLUSH_PACE_H_
