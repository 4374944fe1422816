// Scheduler runs the jobs that one store's engine offers, on the threads of an Executor, which
// stores may share.
// I1: what a job met that began before a Resume is no error after it: the job is offered again. So
//     it is of what a caller does in the place of one.
// Threads: Wake, Nudge, WaitForIdle, Resume, SetError from any; Start and Stop by the store's
// owner.
#ifndef LAMELLA_DB_SCHEDULER_H_
#define LAMELLA_DB_SCHEDULER_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/mutex.h"
#include "db/executor.h"
#include "engine/engine.h"

namespace lamella {

class Scheduler final : private Executor::Client {
 public:
  Scheduler() = default;
  ~Scheduler() override { Stop(); }

  /// `executor` null: Wake runs what is ready before it returns, in the caller's thread, which
  /// makes a store's history the same at every run (for the crash simulator; one calling thread
  /// only). All outlive Stop.
  void Start(Engine* engine, Pool* pool, SnapshotList* snapshots, Executor* executor);
  /// Something may have become ready.
  void Wake();
  /// The same without running anything in the caller's thread.
  void Nudge() {
    if (executor_.load() != nullptr) Wake();
  }
  /// Returns when no job runs and none is offered, or the engine has an error.
  Status WaitForIdle();
  /// Clears the engine's error; jobs begin again.
  void Resume() LAMELLA_EXCLUDES(resume_mu_);
  /// How often there was a Resume, for SetError of what begins now.
  uint64_t resumes() const { return resumes_.load(); }
  /// Sets the engine's error, but for what began before a Resume.
  void SetError(const Status& status, uint64_t resumes) LAMELLA_EXCLUDES(resume_mu_);
  /// Returns when the job that runs has ended; no other begins. Calls after it do nothing.
  void Stop();

 private:
  Look LookForJob(JobClass job_class) override;
  void OnError(const Look& look) override { SetError(look.status, look.resumes); }
  static Status RunJob(const Job& job);
  std::optional<Job> Pick(JobClass job_class);
  void RunInline();
  Status RunAll();

  Engine* engine_ = nullptr;  // constant from Start to Stop, as the next two
  Pool* pool_ = nullptr;
  SnapshotList* snapshots_ = nullptr;
  // Changed by the owner while jobs and readers may ask.
  std::atomic<Executor*> executor_{nullptr};  // null: inline, not started, or stopped
  std::atomic<bool> inline_{false};
  bool running_inline_ = false;  // by the one calling thread
  Mutex resume_mu_;              // of I1: held from the look at resumes_ until the error is set
  std::atomic<uint64_t> resumes_{0};
};

}  // namespace lamella

#endif  // LAMELLA_DB_SCHEDULER_H_
