// LAMELLA_CHECK: an invariant that is cheap to test, tested in every build. LAMELLA_DCHECK: in
// debug builds only. Never for bytes read from a pool or a file: bad bytes are data and become
// Status::Corruption.
#ifndef LAMELLA_BASE_ASSERT_H_
#define LAMELLA_BASE_ASSERT_H_

namespace lamella {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}  // namespace lamella

#define LAMELLA_CHECK(condition)                \
  (__builtin_expect(!!(condition), 1) ? (void)0 \
                                      : ::lamella::CheckFailed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define LAMELLA_DCHECK(condition) ((void)0)
#else
#define LAMELLA_DCHECK(condition) LAMELLA_CHECK(condition)
#endif

#endif  // LAMELLA_BASE_ASSERT_H_
