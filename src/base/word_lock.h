// WordLock is a mutex of four bytes, for structures that have thousands of them. Who finds it taken
// spins for as long as a holder that runs needs, and then sleeps: it never takes the processor from
// a holder that waits for one. Not annotated for clang's analysis: it is held across functions. It
// is a BasicLockable.
#ifndef LAMELLA_BASE_WORD_LOCK_H_
#define LAMELLA_BASE_WORD_LOCK_H_

#include <atomic>
#include <cstdint>

#include "base/futex.h"

namespace lamella {

class WordLock {
 public:
  // Acquire here pairs with release in unlock.
  bool try_lock() {
    uint32_t free = kFree;
    return word_.load(std::memory_order_relaxed) == kFree &&
           word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  void lock() {
    for (int spins = 0; spins < kSpinsMax; spins++) {
      if (try_lock()) return;
      SpinPause();
    }
    // From here on the word says that somebody may sleep, also when it is we who take it: another
    // may sleep still.
    while (word_.exchange(kHeldAndAwaited, std::memory_order_acquire) != kFree)
      FutexWait(&word_, kHeldAndAwaited);
  }
  void unlock() {
    if (word_.exchange(kFree, std::memory_order_release) == kHeldAndAwaited) FutexWake(&word_, 1);
  }

 private:
  enum : uint32_t { kFree, kHeld, kHeldAndAwaited };
  std::atomic<uint32_t> word_{kFree};
};
static_assert(sizeof(WordLock) == 4);

}  // namespace lamella

#endif  // LAMELLA_BASE_WORD_LOCK_H_
