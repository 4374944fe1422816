// The processor's instructions for cache lines: write-back, non-temporal store, store fence. Only
// pmem/gate.cc uses it. x86-64: clwb, or clflushopt, or clflush, whichever the processor has,
// chosen once; sfence; movntdq. AArch64: dc cvap where the system offers it, else dc cvac; dsb;
// plain stores followed by write-back; its lines are taken to be of 64 bytes or more. Elsewhere
// persistent memory does not exist: a full fence and nothing else.
#ifndef LAMELLA_PMEM_LINE_H_
#define LAMELLA_PMEM_LINE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#else
#include <atomic>
#endif

namespace lamella {

/// Writes back the lines from `first_line` to `last_line`, both line-aligned addresses, the last
/// included.
void WriteBackLines(uintptr_t first_line, uintptr_t last_line);

/// Earlier write-backs and non-temporal stores of this thread are complete in the persistence
/// domain.
inline void StoreFence() {
#if defined(__x86_64__)
  _mm_sfence();
#elif defined(__aarch64__)
  // dmb would not wait for write-backs; and the medium is no part of the inner shareable domain.
  __asm__ volatile("dsb sy" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Copies whole lines past the cache. REQUIRES: destination line-aligned, n a multiple of 64.
inline void StreamLines(char* destination, const char* source, size_t n) {
#if defined(__x86_64__)
  auto* to = reinterpret_cast<__m128i*>(destination);
  const auto* from = reinterpret_cast<const __m128i*>(source);
  for (size_t i = 0; i < n; i += 64, to += 4, from += 4) {
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
#else
  std::memcpy(destination, source, n);
  if (n != 0) {
    const auto start = reinterpret_cast<uintptr_t>(destination);
    WriteBackLines(start, start + n - 64);
  }
#endif
}

}  // namespace lamella

#endif  // LAMELLA_PMEM_LINE_H_
