#include "engine/sequencer.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>

namespace lamella {

void Sequencer::Advance(PmLog* log) {
  uint64_t bound = next_.load(std::memory_order_seq_cst);
  for (uint32_t i = 0; i < log->shard_count(); ++i) {
    bound = std::min(bound, log->shard(i).writing_from.load(std::memory_order_seq_cst));
  }
  uint64_t seen = published_.load(std::memory_order_relaxed);
  while (seen < bound - 1 && !published_.compare_exchange_weak(seen, bound - 1, std::memory_order_release)) {
  }
}

void Sequencer::WaitUntilPublished(PmLog* log, uint64_t last) {
  Advance(log);
  for (int spins = 0; published_.load(std::memory_order_acquire) < last;) {
    // Another shard's earlier write is under way; it takes well under a microsecond unless its thread lost the processor.
    _mm_pause();
    if (++spins % 64 == 0) sched_yield();
    Advance(log);
  }
}

}  // namespace lamella
