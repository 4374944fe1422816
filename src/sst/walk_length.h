// WalkLength is how far walks of a table went of late from where they were sought: what one that
// begins now may be expected to read. A device gives a few blocks in the time of one.
// Threads: any; what two note at a time, one does.
#ifndef LAMELLA_SST_WALK_LENGTH_H_
#define LAMELLA_SST_WALK_LENGTH_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lamella {

class WalkLength {
 public:
  /// Walks that go far are read far ahead as they go: what they are expected to read is no more.
  static constexpr int64_t kBytesMax = 64 << 10;

  /// A walk forward is over: so many bytes of blocks it went through; 0: of the first alone.
  void Note(uint64_t bytes) {
    const int64_t mean = mean_.load(std::memory_order_relaxed);
    const auto now = static_cast<int64_t>(std::min<uint64_t>(bytes, kBytesMax));
    const int64_t next = mean + (now - mean) / kWalksRemembered;
    if (next != mean) mean_.store(next, std::memory_order_relaxed);
  }
  /// Their mean, in bytes.
  size_t expected() const { return static_cast<size_t>(mean_.load(std::memory_order_relaxed)); }

 private:
  // The mean follows the last walks, so many about.
  static constexpr int64_t kWalksRemembered = 4;

  std::atomic<int64_t> mean_{0};  // guards nothing
};

}  // namespace lamella

#endif  // LAMELLA_SST_WALK_LENGTH_H_
