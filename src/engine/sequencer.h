// Sequencer hands out sequence numbers and publishes them in order: a number is published when
// every write up to it is durable and in its MemTable. Reads and snapshots use what is published,
// so a batch appears at once (P2).
// I1: published() only grows, and never passes a write that is still under way.
// I2: finished_[n % kSlots] tells of the write that begins with number n once n - kSlots is
//     published: until then the slot may still be needed for that one.
// I3: once nobody is between Draw and the end of Finish, everything drawn is published: whoever
//     finishes publishes all the finished writes that follow what is published, its own or not.
// A write waits for those of smaller numbers alone. They have been staged already, so what it waits
// for is short: it spins as long as that takes a thread that runs, and sleeps if it takes longer.
// Whoever publishes is running: no write waits for a thread that must first get a processor to
// publish it.
// Threads: any.
#ifndef LAMELLA_ENGINE_SEQUENCER_H_
#define LAMELLA_ENGINE_SEQUENCER_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "base/prefetch.h"

namespace lamella {

class Sequencer {
 public:
  /// Writes that begin more numbers than this after the newest published one wait before they are
  /// finished, not after.
  static constexpr uint64_t kSlots = 256;

  /// Starts after `last`, the newest number in use.
  void Reset(uint64_t last) {
    next_.store(last + 1, std::memory_order_relaxed);
    published_.store(last, std::memory_order_release);
  }

  /// The line that Draw will write, on its way into the processor while the writer makes room.
  void PrefetchDraw() const { PrefetchForWrite(&next_); }
  /// The first of `count` fresh numbers. Its write is finished soon, or holds up all later ones.
  uint64_t Draw(uint32_t count) { return next_.fetch_add(count, std::memory_order_acq_rel); }
  /// The write of these numbers is durable and in its MemTable. Publishes it unless an earlier one
  /// is under way, whose Finish will then.
  void Finish(uint64_t first, uint32_t count);
  /// Returns once `last` is published. REQUIRES: its write was drawn.
  void Await(uint64_t last) {
    if (published() < last) [[unlikely]]
      AwaitSlowly(last);
  }

  uint64_t published() const { return published_.load(std::memory_order_acquire); }
  /// The newest number drawn. Exact only while no shard is being written.
  uint64_t last_drawn() const { return next_.load(std::memory_order_acquire) - 1; }

 private:
  void AwaitSlowly(uint64_t last);

  alignas(64) std::atomic<uint64_t> next_{1};
  alignas(64) std::atomic<uint64_t> published_{0};
  // threads that sleep, or are about to, until published_ changes
  std::atomic<uint32_t> sleepers_{0};
  alignas(64) std::array<std::atomic<uint64_t>,
                         kSlots> finished_{};  // by first number: the number after the write's last
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SEQUENCER_H_
