// Prefetching of lines that are about to be written.
#ifndef LAMELLA_BASE_PREFETCH_H_
#define LAMELLA_BASE_PREFETCH_H_

namespace lamella {

/// Starts to bring the line of `address` into this processor's cache, to be written: other
/// processors' copies go. The compiler's own builtin asks for no more than a copy unless it
/// compiles for a processor known to do better. A hint; any address will do.
inline void PrefetchForWrite(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace lamella

#endif  // LAMELLA_BASE_PREFETCH_H_
