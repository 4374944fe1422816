// Which sanitizer watches this build, as 0 or 1: LAMELLA_THREAD_SANITIZER,
// LAMELLA_ADDRESS_SANITIZER.
#ifndef LAMELLA_BASE_SANITIZER_H_
#define LAMELLA_BASE_SANITIZER_H_

#if defined(__SANITIZE_THREAD__)
#define LAMELLA_THREAD_SANITIZER 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define LAMELLA_ADDRESS_SANITIZER 1
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LAMELLA_THREAD_SANITIZER 1
#endif
#if __has_feature(address_sanitizer)
#define LAMELLA_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef LAMELLA_THREAD_SANITIZER
#define LAMELLA_THREAD_SANITIZER 0
#endif
#ifndef LAMELLA_ADDRESS_SANITIZER
#define LAMELLA_ADDRESS_SANITIZER 0
#endif

namespace lamella {

/// Whether one of them watches: everything takes some ten times as long, so of what a test
/// enumerates or draws it is shown a sample.
inline constexpr bool kSanitized = LAMELLA_ADDRESS_SANITIZER != 0 || LAMELLA_THREAD_SANITIZER != 0;

}  // namespace lamella

#endif  // LAMELLA_BASE_SANITIZER_H_
