#include "pmem/line.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace lamella {

#if defined(__x86_64__)

namespace {

// zero, before initialization, works everywhere
enum class WriteBack : uint8_t { kClflush, kClflushopt, kClwb };

WriteBack BestWriteBack() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return WriteBack::kClflush;
  if ((ebx & (1u << 24)) != 0) return WriteBack::kClwb;
  if ((ebx & (1u << 23)) != 0) return WriteBack::kClflushopt;
  return WriteBack::kClflush;
}

const WriteBack kWriteBack = BestWriteBack();

__attribute__((target("clwb"))) void ByClwb(uintptr_t line, uintptr_t last) {
  for (; line <= last; line += 64) _mm_clwb(reinterpret_cast<void*>(line));
}

__attribute__((target("clflushopt"))) void ByClflushopt(uintptr_t line, uintptr_t last) {
  for (; line <= last; line += 64) _mm_clflushopt(reinterpret_cast<void*>(line));
}

void ByClflush(uintptr_t line, uintptr_t last) {
  for (; line <= last; line += 64) _mm_clflush(reinterpret_cast<const void*>(line));
}

}  // namespace

void WriteBackLines(uintptr_t first_line, uintptr_t last_line) {
  __asm__ volatile("" ::: "memory");  // the compiler keeps earlier stores before the write-back
  if (kWriteBack == WriteBack::kClwb) [[likely]] {
    ByClwb(first_line, last_line);
  } else if (kWriteBack == WriteBack::kClflushopt) {
    ByClflushopt(first_line, last_line);
  } else {
    ByClflush(first_line, last_line);
  }
}

#elif defined(__aarch64__)

namespace {

// HWCAP_DCPOP: dc cvap reaches the point of persistence
constexpr unsigned long kDcPopCapability = 1ul << 16;
const bool kHasDcPop = (getauxval(AT_HWCAP) & kDcPopCapability) != 0;

}  // namespace

void WriteBackLines(uintptr_t first_line, uintptr_t last_line) {
  for (uintptr_t line = first_line; line <= last_line; line += 64) {
    if (kHasDcPop) {
      __asm__ volatile("sys #3, c7, c12, #1, %0" ::"r"(line) : "memory");  // dc cvap
    } else {
      __asm__ volatile("dc cvac, %0" ::"r"(line) : "memory");
    }
  }
}

#else

void WriteBackLines(uintptr_t, uintptr_t) {}

#endif

}  // namespace lamella
