// Sequencer hands out sequence numbers and publishes them in order: a number is published when every write up to it is
// durable and in its MemTable. Reads and snapshots use what is published, so a batch appears at once (P2).
// I1: published() only grows, and never passes a write that is still under way.
// Threads: Draw and Finish by the holder of the shard's lock; the rest from any.
#ifndef LAMELLA_ENGINE_SEQUENCER_H_
#define LAMELLA_ENGINE_SEQUENCER_H_

#include <atomic>
#include <cstdint>

#include "log/pm_log.h"

namespace lamella {

class Sequencer {
 public:
  /// Starts behind `last`, the newest number in use.
  void Reset(uint64_t last) {
    next_.store(last + 1, std::memory_order_relaxed);
    published_.store(last, std::memory_order_release);
  }

  /// The first of `count` fresh numbers.
  uint64_t Draw(PmLog::Shard* shard, uint32_t count) {
    // A lower bound first: whoever computes what is published after our draw must see that we are under way. Sequentially
    // consistent with Advance, which reads next_ before it reads the shards.
    shard->writing_from.store(next_.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
    return next_.fetch_add(count, std::memory_order_seq_cst);
  }
  void Finish(PmLog::Shard* shard) { shard->writing_from.store(PmLog::kIdle, std::memory_order_seq_cst); }

  /// Publishes what is finished and behind nothing that is under way: with every shard's lock held, all that was drawn.
  void Advance(PmLog* log);
  /// Returns once everything up to `last` is published.
  void WaitUntilPublished(PmLog* log, uint64_t last);

  uint64_t published() const { return published_.load(std::memory_order_acquire); }
  /// The newest number drawn. Exact only while no shard is being written.
  uint64_t last_drawn() const { return next_.load(std::memory_order_seq_cst) - 1; }

 private:
  alignas(64) std::atomic<uint64_t> next_{1};
  alignas(64) std::atomic<uint64_t> published_{0};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SEQUENCER_H_
