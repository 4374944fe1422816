// HelperThreads are a few threads that do what somebody will want soon: reads of files, say, that
// one walk has to make one after the other. They are shared by many who post tasks, and started
// when they are first of use.
// H1: a task is run once, by a helper, or by who posted it, where it comes to want the result and
//     no helper has begun it: so nobody waits for helpers that are busy, and there may be none.
// H2: after Finish no helper touches the task.
// H3: posting takes no memory: a task is its own place in line.
// Threads: all calls from any; of one task, Post and Finish from one at a time.
#ifndef LAMELLA_BASE_HELPER_THREADS_H_
#define LAMELLA_BASE_HELPER_THREADS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/annotations.h"
#include "base/mutex.h"

namespace lamella {

class HelperThreads {
 public:
  /// What takes less than this is not worth posting: to wake a thread and to wait for it takes
  /// about half of it, of two processors. A block of the page cache is read in a fifth of it, one
  /// of a device in several times as long.
  static constexpr std::chrono::nanoseconds kWorth{20'000};

  /// REQUIRES: it is finished where it was posted, before it goes.
  class Task {
   public:
    Task() = default;
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

   protected:
    virtual ~Task() = default;

   private:
    friend class HelperThreads;
    // kAwaited: running, and who posted it sleeps on the word.
    enum State : uint32_t { kNone, kInLine, kRunning, kAwaited, kDone, kFailed };
    /// May throw std::bad_alloc, and leave things such that it may be run again.
    virtual void Run() = 0;

    // In line, and from there to running, it changes under mu_; from then on by exchange.
    std::atomic<uint32_t> state_{kNone};
    // guarded by mu_ while it is in line
    Task* before_ = nullptr;
    Task* after_ = nullptr;
  };

  /// At most so many; 0: whoever posts runs everything. `worth`: kWorth, but for tests.
  explicit HelperThreads(uint32_t threads_max, std::chrono::nanoseconds worth = kWorth);
  /// REQUIRES: no task is posted.
  ~HelperThreads();
  HelperThreads(const HelperThreads&) = delete;
  HelperThreads& operator=(const HelperThreads&) = delete;

  /// Whether something that takes so long is worth posting.
  bool IsWorth(std::chrono::nanoseconds took) const { return took >= worth_; }
  /// A helper may run it from now on. REQUIRES: it is not posted.
  void Post(Task* task) LAMELLA_EXCLUDES(mu_);
  /// Returns when no helper will run it any more: true where one did. Else none has begun it, or
  /// it had no memory for it, and it is the caller's to run.
  bool Finish(Task* task) LAMELLA_EXCLUDES(mu_);

 private:
  void Loop() LAMELLA_EXCLUDES(mu_);
  /// The next task, once there is one; null: no more comes.
  Task* Take() LAMELLA_EXCLUDES(mu_);
  void Enter(Task* task) LAMELLA_REQUIRES(mu_);
  void Leave(Task* task) LAMELLA_REQUIRES(mu_);
  /// One more helper, where there may be and the system has one.
  void StartOne() LAMELLA_REQUIRES(mu_);

  const std::chrono::nanoseconds worth_;
  const size_t threads_max_;

  Mutex mu_;
  Task* last_ LAMELLA_GUARDED_BY(mu_) = nullptr;  // in line
  size_t idle_ LAMELLA_GUARDED_BY(mu_) = 0;       // helpers that wait for work, and of these
  size_t woken_ LAMELLA_GUARDED_BY(mu_) = 0;      // those that somebody woke
  std::atomic<uint32_t> wakes_{0};                // what they sleep on; changed under mu_
  bool stop_ LAMELLA_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_ LAMELLA_GUARDED_BY(mu_);
};

}  // namespace lamella

#endif  // LAMELLA_BASE_HELPER_THREADS_H_
