// Loaded before a program (LD_PRELOAD), this holds its threads up, now and then, for some
// milliseconds, before a lock is taken and after it was given back. What a busy machine shows once
// in a thousand runs (a thread that loses the processor between two steps that belong together)
// comes about in nearly each: `make test-schedules`.
// LAMELLA_HOLD_UP_ONE_IN, LAMELLA_HOLD_UP_US: at one in so many of the locks and unlocks, and for
// up to so many microseconds.
// Threads: each draws for itself. Schedules cannot be drawn again: a failure has no seed.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

using MutexCall = int (*)(pthread_mutex_t*);

MutexCall Next(const char* name) { return reinterpret_cast<MutexCall>(dlsym(RTLD_NEXT, name)); }

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  const uint64_t value = text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  return value == 0 ? otherwise : value;
}

// Xorshift: the generator of a lock must not lock, nor need memory.
uint64_t Draw() {
  thread_local uint64_t state = 0;
  if (state == 0) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    state =
        (static_cast<uint64_t>(now.tv_nsec) * 2654435761u) ^ reinterpret_cast<uintptr_t>(&state);
    state |= 1;
  }
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

void HoldUp() {
  static const uint64_t one_in = FromEnvironment("LAMELLA_HOLD_UP_ONE_IN", 300);
  static const uint64_t us_max = FromEnvironment("LAMELLA_HOLD_UP_US", 4000);
  const uint64_t drawn = Draw();
  if ((drawn >> 20) % one_in != 0) return;
  const int error = errno;
  usleep(static_cast<useconds_t>((drawn >> 40) % us_max));
  errno = error;
}

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const MutexCall lock = Next("pthread_mutex_lock");
  HoldUp();
  return lock(mutex);
}

extern "C" int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  static const MutexCall unlock = Next("pthread_mutex_unlock");
  const int result = unlock(mutex);
  HoldUp();
  return result;
}
