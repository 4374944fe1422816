// Clang's thread-safety annotations; nothing under other compilers. They take a Mutex of
// base/mutex.h.
#ifndef LAMELLA_BASE_ANNOTATIONS_H_
#define LAMELLA_BASE_ANNOTATIONS_H_

#if defined(__clang__)
#define LAMELLA_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define LAMELLA_THREAD_ATTRIBUTE(x)
#endif

#define LAMELLA_CAPABILITY(name) LAMELLA_THREAD_ATTRIBUTE(capability(name))
#define LAMELLA_SCOPED_CAPABILITY LAMELLA_THREAD_ATTRIBUTE(scoped_lockable)
#define LAMELLA_GUARDED_BY(mutex) LAMELLA_THREAD_ATTRIBUTE(guarded_by(mutex))
#define LAMELLA_PT_GUARDED_BY(mutex) LAMELLA_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
#define LAMELLA_REQUIRES(...) LAMELLA_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define LAMELLA_EXCLUDES(...) LAMELLA_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define LAMELLA_ACQUIRE(...) LAMELLA_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define LAMELLA_RELEASE(...) LAMELLA_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define LAMELLA_TRY_ACQUIRE(...) LAMELLA_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define LAMELLA_NO_THREAD_SAFETY_ANALYSIS LAMELLA_THREAD_ATTRIBUTE(no_thread_safety_analysis)

#endif  // LAMELLA_BASE_ANNOTATIONS_H_
