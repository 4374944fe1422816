// Sleeping until another thread has changed a word, within one process: what std::atomic's wait
// does, but without the spinning and yielding that libstdc++ puts before it.
#ifndef LAMELLA_BASE_FUTEX_H_
#define LAMELLA_BASE_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lamella {

/// Sleeps while the 32 bits at `word` are `expected`, until a FutexWake. May return early: the
/// caller looks again.
inline void FutexWait(const void* word, uint32_t expected) {
  ::syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
/// Wakes at most `count` of those who sleep on `word`.
inline void FutexWake(const void* word, int count) {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

/// Tells the processor that this thread spins.
inline void SpinPause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// Times to pause before sleeping: about as long as what is waited for takes where its thread has a
/// processor (a microsecond), and less than what going to sleep and being woken costs.
inline constexpr int kSpinsMax = 32;

}  // namespace lamella

#endif  // LAMELLA_BASE_FUTEX_H_
