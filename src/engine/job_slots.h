// JobSlots says which of an engine's jobs are under way: at most one that has its lower level, in
// which nobody else changes anything then, and others beside it, each of them not beside itself.
// Threads: all calls from any.
#ifndef LAMELLA_ENGINE_JOB_SLOTS_H_
#define LAMELLA_ENGINE_JOB_SLOTS_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <utility>

#include "base/mutex.h"
#include "base/no_throw.h"
#include "engine/engine.h"

namespace lamella {

class JobSlots {
 public:
  /// `wake` when jobs may be picked that were held back.
  explicit JobSlots(std::function<void()> wake) : wake_(std::move(wake)) {}
  JobSlots(const JobSlots&) = delete;
  JobSlots& operator=(const JobSlots&) = delete;

  /// What jobs are picked by is guarded by it, too.
  Mutex mu;

  /// A job that has the level from now until it ends. Throws std::bad_alloc, and nobody has it.
  Job WithLevel(const char* name, std::function<Status()> run) LAMELLA_REQUIRES(mu) {
    Job job{name, [this, run = std::move(run)] {
              Status s = NoThrow(run);
              GiveLevelBack();
              return s;
            }};
    level_busy_ = true;  // when nothing is left that may want memory
    return job;
  }
  /// A job beside the one that has the level: *under_way, guarded by `mu`, says so until it ends.
  Job Beside(const char* name, bool* under_way, std::function<Status()> run) LAMELLA_REQUIRES(mu) {
    Job job{name, [this, under_way, run = std::move(run)] {
              Status s = NoThrow(run);
              End(under_way);
              return s;
            }};
    *under_way = true;
    return job;
  }

  /// The same for a caller's thread, which waits for the job that is under way.
  void TakeLevel() LAMELLA_EXCLUDES(mu) {
    const MutexLock lock(&mu);
    level_waiting_++;
    while (level_busy_) done_.wait(mu);
    level_waiting_--;
    level_busy_ = true;
  }
  void GiveLevelBack() LAMELLA_EXCLUDES(mu) {
    End(&level_busy_);
    wake_();
  }
  void Begin(bool* under_way) LAMELLA_EXCLUDES(mu) {
    const MutexLock lock(&mu);
    while (*under_way) done_.wait(mu);
    *under_way = true;
  }
  void End(bool* under_way) LAMELLA_EXCLUDES(mu) {
    {
      const MutexLock lock(&mu);
      *under_way = false;
    }
    done_.notify_all();
  }

  bool level_busy() const LAMELLA_REQUIRES(mu) { return level_busy_; }
  /// Somebody waits in TakeLevel.
  bool level_awaited() const LAMELLA_REQUIRES(mu) { return level_waiting_ > 0; }
  /// Until a job is over, or so much time has passed.
  void AwaitEnd(std::chrono::nanoseconds at_most) LAMELLA_REQUIRES(mu) {
    done_.wait_for(mu, at_most);
  }

 private:
  const std::function<void()> wake_;
  bool level_busy_ = false;  // guarded by mu, as all that Begin and End are given
  uint32_t level_waiting_ LAMELLA_GUARDED_BY(mu) = 0;  // calls of TakeLevel that wait
  std::condition_variable_any done_;                   // with mu: a job is over
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_JOB_SLOTS_H_
