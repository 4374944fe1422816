#include "engine/sequencer.h"

#include <immintrin.h>
#include <sched.h>

namespace lamella {

void Sequencer::Raise(uint64_t last) {
  uint64_t seen = published_.load(std::memory_order_relaxed);
  while (seen < last && !published_.compare_exchange_weak(seen, last, std::memory_order_acq_rel)) {
  }
}

void Sequencer::Publish(PmLog* log, uint64_t last) {
  for (uint32_t i = 0; i < log->shard_count(); ++i) {
    const std::atomic<uint64_t>& writing_from = log->shard(i).writing_from;
    for (int spins = 0; writing_from.load(std::memory_order_acquire) <= last;) {
      // An earlier write is under way; it takes well under a microsecond unless its thread lost the processor.
      _mm_pause();
      if (++spins % 64 == 0) sched_yield();
    }
  }
  Raise(last);
}

}  // namespace lamella
