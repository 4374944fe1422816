#include "engine/sequencer.h"

#include <climits>

#include "base/futex.h"

namespace lamella {

// Why nothing finished stays unpublished. Let A finish the write that begins at n + 1, and B
// publish n. A exchanges the slot, then loads published_; B changes published_, then loads the
// slot; all four are seq_cst and have one order. If A's load comes before B's change, B's load
// comes after A's exchange and B goes on to publish A's write. If it comes after, A does so itself.
// The same holds of sleepers_ and published_: a sleeper counts itself, then looks; a publisher
// publishes, then looks.
void Sequencer::Finish(uint64_t first, uint32_t count) {
  if (first > kSlots) Await(first - kSlots);  // keeps I2
  finished_[first % kSlots].exchange(first + count, std::memory_order_seq_cst);
  uint64_t published = published_.load(std::memory_order_seq_cst);
  bool grew = false;
  for (;;) {
    // A number left in the slot by an earlier write is at most published + 1. One of a later write
    // is there only if published_ has moved on since it was loaded (I2): then the exchange fails.
    const uint64_t end = finished_[(published + 1) % kSlots].load(std::memory_order_seq_cst);
    if (end <= published + 1) break;
    if (!published_.compare_exchange_weak(published, end - 1, std::memory_order_seq_cst)) continue;
    published = end - 1;
    grew = true;
  }
  if (grew && sleepers_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    FutexWake(&published_, INT_MAX);
}

void Sequencer::AwaitSlowly(uint64_t last) {
  for (int spins = 0; spins < kSpinsMax; spins++) {
    if (published() >= last) return;
    SpinPause();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const uint64_t published = published_.load(std::memory_order_seq_cst);
    if (published >= last) break;
    FutexWait(&published_, static_cast<uint32_t>(published));  // its lower half: little-endian
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace lamella
