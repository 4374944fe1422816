// LAMELLA_TSAN is defined where ThreadSanitizer watches.
#ifndef LAMELLA_BASE_SANITIZER_H_
#define LAMELLA_BASE_SANITIZER_H_

#if defined(__SANITIZE_THREAD__)
#define LAMELLA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LAMELLA_TSAN 1
#endif
#endif

#endif  // LAMELLA_BASE_SANITIZER_H_
