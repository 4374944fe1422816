// Mutex is std::mutex with the annotations that let clang prove which lock guards what. It is a
// BasicLockable, so std::condition_variable_any waits on it.
#ifndef LAMELLA_BASE_MUTEX_H_
#define LAMELLA_BASE_MUTEX_H_

#include <mutex>

#include "base/annotations.h"

namespace lamella {

class LAMELLA_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() LAMELLA_ACQUIRE() { mu_.lock(); }
  void unlock() LAMELLA_RELEASE() { mu_.unlock(); }
  bool try_lock() LAMELLA_TRY_ACQUIRE(true) { return mu_.try_lock(); }

 private:
  std::mutex mu_;
};

/// Says that the Mutex is held already, by try_lock, say.
struct AdoptMutex {};

/// Holds a Mutex for a scope.
class LAMELLA_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mu) LAMELLA_ACQUIRE(mu) : mu_(mu) { mu_->lock(); }
  MutexLock(Mutex* mu, AdoptMutex) LAMELLA_REQUIRES(mu) : mu_(mu) {}
  ~MutexLock() LAMELLA_RELEASE() { mu_->unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

}  // namespace lamella

#endif  // LAMELLA_BASE_MUTEX_H_
