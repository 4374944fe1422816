// Sequencer hands out sequence numbers and publishes them in order: a number is published when every write up to it is
// durable and in its MemTable. Reads and snapshots use what is published, so a batch appears at once (P2).
// I1: published() only grows, and never passes a write that is still under way.
// I2: a shard's writing_from is at most the number being written there, from before that number is drawn until Finish. Draws are
//     one chain of read-modify-writes: who drew a number sees the shard of every earlier one under way, or finished.
// Writers share as few cache lines as that takes: next_, which every write moves; the shards' writing_from, which a writer reads
// once it is done; and published_.
// Threads: Draw and Finish by the holder of the shard's lock; the rest from any.
#ifndef LAMELLA_ENGINE_SEQUENCER_H_
#define LAMELLA_ENGINE_SEQUENCER_H_

#include <atomic>
#include <cstdint>

#include "base/prefetch.h"
#include "log/pm_log.h"

namespace lamella {

class Sequencer {
 public:
  /// Starts behind `last`, the newest number in use.
  void Reset(uint64_t last) {
    next_.store(last + 1, std::memory_order_relaxed);
    published_.store(last, std::memory_order_release);
  }

  /// The lines that Draw will write, on their way into the processor while the writer makes room.
  void PrefetchDraw(PmLog::Shard* shard) const {
    PrefetchForWrite(&next_);
    PrefetchForWrite(&shard->writing_from);
  }
  /// The first of `count` fresh numbers.
  uint64_t Draw(PmLog::Shard* shard, uint32_t count) {
    shard->writing_from.store(shard->drawn_last + 1, std::memory_order_release);  // keeps I2: a bound before the draw
    const uint64_t first = next_.fetch_add(count, std::memory_order_acq_rel);
    shard->writing_from.store(first, std::memory_order_release);
    shard->drawn_last = first + count - 1;
    return first;
  }
  void Finish(PmLog::Shard* shard) { shard->writing_from.store(PmLog::kIdle, std::memory_order_release); }

  /// Publishes everything up to `last`, the end of a write that is finished, once nothing before it is under way.
  void Publish(PmLog* log, uint64_t last);
  /// Publishes all that was drawn. REQUIRES: every shard's lock is held.
  void PublishDrawn() { Raise(last_drawn()); }

  uint64_t published() const { return published_.load(std::memory_order_acquire); }
  /// The newest number drawn. Exact only while no shard is being written.
  uint64_t last_drawn() const { return next_.load(std::memory_order_acquire) - 1; }

 private:
  void Raise(uint64_t last);

  alignas(64) std::atomic<uint64_t> next_{1};
  alignas(64) std::atomic<uint64_t> published_{0};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SEQUENCER_H_
