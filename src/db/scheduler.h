// Scheduler runs the jobs that an engine offers on a fixed set of threads: one for urgent jobs alone (flushes, fresh chunks),
// the others for everything. They sleep until woken.
// Threads: Wake, WaitForIdle from any; Stop once.
#ifndef LAMELLA_DB_SCHEDULER_H_
#define LAMELLA_DB_SCHEDULER_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace lamella {

class Scheduler {
 public:
  Scheduler() = default;
  ~Scheduler() { Stop(); }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Makes the threads, which wait for Run. `threads` at least 2; or 0: then Wake runs what is ready before it returns, in the caller's
  /// thread, which makes a store's history the same at every run (for the crash simulator; one calling thread only).
  /// IOError where the system refuses a thread: then there is none, and the scheduler is of no use.
  Status Start(uint32_t threads);
  /// Jobs are picked from now on. Both outlive the scheduler's threads.
  void Run(Engine* engine, Pool* pool);
  /// Something may have become ready.
  void Wake();
  /// The same, but never runs a job in the caller's thread.
  void Nudge();
  /// Returns when no job runs and none is offered, or the engine has an error.
  Status WaitForIdle();
  /// Ends the running jobs' threads after their present job.
  void Stop();

 private:
  void Loop(uint32_t index, JobClass job_class);
  static Status RunJob(const Job& job);
  std::optional<Job> Pick(JobClass job_class);
  void RunInline();

  Engine* engine_ = nullptr;
  Pool* pool_ = nullptr;
  std::mutex mu_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  uint64_t wakes_ = 0;                   // guarded by mu_
  uint32_t running_ = 0;                 // guarded by mu_; threads that run a job or look for one
  std::vector<uint64_t> found_nothing_;  // guarded by mu_; per thread: what wakes_ was before its last look in vain
  bool stop_ = false;                    // guarded by mu_
  bool runs_ = false;                    // guarded by mu_
  bool inline_ = false;                  // constant after Run
  bool running_inline_ = false;          // by the one calling thread
  std::vector<std::thread> threads_;
};

}  // namespace lamella

#endif  // LAMELLA_DB_SCHEDULER_H_
