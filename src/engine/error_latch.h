// ErrorLatch holds why a store is read-only: the first error of its background work or of its
// medium, until somebody resumes.
// I1: whether there is one and which are changed together, and Get's answer is what a caller goes
//     by. A caller that first looked whether there is one, and then asked which, could be told OK
//     because DB::Resume came between, and would take that for the outcome of its own call.
// Threads: all calls from any.
#ifndef LAMELLA_ENGINE_ERROR_LATCH_H_
#define LAMELLA_ENGINE_ERROR_LATCH_H_

#include <atomic>

#include "base/mutex.h"
#include "base/no_throw.h"
#include "lamella/status.h"

namespace lamella {

class ErrorLatch {
 public:
  /// OK, or ReadOnly with what came first. Where there is none it costs one load.
  Status Get() const {
    if (!is_set()) return Status::OK();
    const MutexLock lock(&mu_);
    return error_;
  }
  /// The code of what came first; kOk where there is none.
  Status::Code cause() const {
    const MutexLock lock(&mu_);
    return cause_;
  }
  /// For those who wait until there is one. Whether a call goes on, Get says (I1).
  bool is_set() const { return set_.load(std::memory_order_acquire); }
  /// Latches `status`, unless that is OK or an earlier one is there. True if it did. Where there is
  /// no memory for the message there is an error with fewer words.
  bool Set(const Status& status) {
    const MutexLock lock(&mu_);
    if (!error_.ok() || status.ok()) return false;
    error_ = Status::ReadOnly({});
    cause_ = status.code();
    (void)NoThrow([&]() LAMELLA_REQUIRES(mu_) {
      error_ = Status::ReadOnly("the store is read-only since an error: " + status.ToString() +
                                "; mend the cause and call DB::Resume, or reopen the store");
      return Status::OK();
    });
    set_.store(true, std::memory_order_release);
    return true;
  }
  void Clear() {
    const MutexLock lock(&mu_);
    error_ = Status::OK();
    cause_ = Status::Code::kOk;
    set_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool> set_{false};
  mutable Mutex mu_;
  Status error_ LAMELLA_GUARDED_BY(mu_);
  Status::Code cause_ LAMELLA_GUARDED_BY(mu_) = Status::Code::kOk;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ERROR_LATCH_H_
