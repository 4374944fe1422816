// ReadCost is what a read of a store's files took of late: whether it is worth being made beside
// what its reader does meanwhile (file/pending_reads.h). What is read so says nothing of what a
// read takes: so of slow ones, too, some are made by themselves, and it is noticed when they are
// slow no more, as when what is read has come into the page cache.
// Threads: any; what two note at a time, one does.
#ifndef LAMELLA_FILE_READ_COST_H_
#define LAMELLA_FILE_READ_COST_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace lamella {

class ReadCost {
 public:
  /// What takes less than this is not worth it: to begin a read, and to ask for it, takes a quarter
  /// of that. A block of the page cache is read in a fifth of it, one of a device in several times
  /// as long.
  static constexpr std::chrono::nanoseconds kWorth{20'000};

  /// `worth`: kWorth, but for tests.
  explicit ReadCost(std::chrono::nanoseconds worth = kWorth) : worth_ns_(worth.count()) {}

  /// A read that was waited for from its beginning, of a block or a value, took so long.
  void Note(std::chrono::nanoseconds took) {
    const int64_t mean = mean_ns_.load(std::memory_order_relaxed);
    const int64_t ns = std::min<int64_t>(took.count(), kOutlier * kWorth.count());
    const int64_t next = mean + (ns - mean) / kReadsRemembered;
    if (next != mean) mean_ns_.store(next, std::memory_order_relaxed);
  }
  /// Asked before each read that can be made beside its reader.
  bool IsSlow() {
    return mean_ns_.load(std::memory_order_relaxed) >= worth_ns_ &&
           asked_.fetch_add(1, std::memory_order_relaxed) % kAskedForOneAlone != 0;
  }

 private:
  // The mean follows the last reads, so many about.
  static constexpr int64_t kReadsRemembered = 16;
  // Of so many slow reads one is made by itself: a sixtieth of what the others gain.
  static constexpr uint64_t kAskedForOneAlone = 64;
  // One that was interrupted counts no more than this many times what is worth it.
  static constexpr int64_t kOutlier = 8;

  const int64_t worth_ns_;
  std::atomic<int64_t> mean_ns_{0};  // guards nothing, as the next
  std::atomic<uint64_t> asked_{1};
};

}  // namespace lamella

#endif  // LAMELLA_FILE_READ_COST_H_
