// FlushPace holds writers back where they are faster than the flushes that make room for them: the
// more the log is over what a flush is due at, the longer each record waits. So they come to go as
// fast as a flush does before the log is twice that, where they would stop until the flush is over.
// Threads: any.
#ifndef LAMELLA_ENGINE_LIGHTKV_FLUSH_PACE_H_
#define LAMELLA_ENGINE_LIGHTKV_FLUSH_PACE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace lamella {

class FlushPace {
 public:
  /// A flush of so many bytes of the log took so long, from when it was sealed.
  void Note(uint64_t bytes, uint64_t ns) {
    const double each = static_cast<double>(ns) / static_cast<double>(std::max(bytes, kBytesMin));
    ns_per_byte_.store(std::min(each, kNsPerByteMax), std::memory_order_relaxed);
  }
  /// How long a record of so many bytes is to wait. `over`: 0 where a flush is due, 1 where writers
  /// stop.
  uint32_t DelayNs(double over, double record_bytes) const {
    // While one flush goes on writers fill the log for the next: with this factor, and no other
    // limit, up to 1.64 of what a flush is due at.
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
