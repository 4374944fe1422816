#include "db/scheduler.h"

#include "base/no_throw.h"

namespace lamella {

void Scheduler::Start(Engine* engine, Pool* pool, SnapshotList* snapshots, Executor* executor) {
  engine_ = engine;
  pool_ = pool;
  snapshots_ = snapshots;
  executor_.store(executor);
  inline_.store(executor == nullptr);
  if (executor == nullptr) return;
  executor->Join(this);
  // What waits for readers is looked at once they leave. The threads do not preempt whom they tell,
  // but for that of urgent jobs, which is told only where a flush is among it.
  const auto tell = [this, executor] {
    if (engine_->FlushAwaitsReaders()) executor->LookOn(this, JobClass::kUrgent);
    executor->LookOn(this, JobClass::kNormal);
  };
  for (EpochDomain* const pins : {pool->readers(), pool->holders()}) pins->OnUnpinned(tell);
  pool->OnDeferred(tell);
  snapshots->OnPast(tell);
  executor->Wake(this);
}

// A job that fails by an exception, for want of memory say, fails like any other.
Status Scheduler::RunJob(const Job& job) {
  return NoThrow([&] { return job.run(); });
}

void Scheduler::Wake() {
  if (inline_.load()) return RunInline();
  if (Executor* executor = executor_.load()) executor->Wake(this);
}

// A job may wake us: what it made ready runs after it.
void Scheduler::RunInline() {
  if (running_inline_) return;
  running_inline_ = true;
  const Status s = NoThrow([this] { return RunAll(); });
  if (!s.ok()) engine_->SetBackgroundError(s);
  running_inline_ = false;
}

Status Scheduler::RunAll() {
  constexpr int kNoSpaceRetriesMax = 20;
  for (int no_space = 0;;) {
    pool_->CollectDeferred();  // first: what becomes free or settled may be the beginning of a job
    auto job = Pick(JobClass::kUrgent);
    if (!job) job = Pick(JobClass::kNormal);
    if (!job) return Status::OK();
    const Status s = RunJob(*job);
    if (s.IsNoSpace() && ++no_space < kNoSpaceRetriesMax) continue;
    if (!s.ok()) engine_->SetBackgroundError(s);
  }
}

std::optional<Job> Scheduler::Pick(JobClass job_class) {
  if (!engine_->BackgroundError().ok()) return std::nullopt;
  return engine_->PickJob(job_class);
}

Executor::Client::Look Scheduler::LookForJob(JobClass job_class) {
  Look look;
  look.resumes = resumes_.load();
  look.status = NoThrow([&] {
    // Before the look: what becomes free or settled may be the beginning of a job. After a flush,
    // too, which holds the tables that it began with: compactions may be long in coming by. What
    // that lets begin is a compaction: who looked for one meanwhile found none.
    pool_->CollectDeferred();
    if (job_class == JobClass::kUrgent) executor_.load()->LookOn(this, JobClass::kNormal);
    const auto job = Pick(job_class);
    if (!job) return Status::OK();
    look.found = true;
    executor_.load()->LookOn(this, job_class);  // for another job, in another thread
    return RunJob(*job);
  });
  return look;
}

void Scheduler::SetError(const Status& status, uint64_t resumes) {
  const MutexLock lock(&resume_mu_);
  if (resumes == resumes_.load()) engine_->SetBackgroundError(status);  // keeps I1
}

void Scheduler::Resume() {
  {
    const MutexLock lock(&resume_mu_);
    resumes_.fetch_add(1);
    engine_->ClearBackgroundError();
  }
  Wake();
}

Status Scheduler::WaitForIdle() {
  if (inline_.load()) {
    RunInline();
    return engine_->BackgroundError();
  }
  // What a job let go of is settled, or freed, once the Gets that were under way then are over:
  // soon. That may be the beginning of another.
  uint64_t retired;
  do {
    retired = pool_->readers()->retirements();
    pool_->readers()->AwaitRetired();
    pool_->AwaitDeferred();
    Executor* const executor = executor_.load();
    if (executor == nullptr || !executor->WaitForIdle(this))
      return Status::Aborted("the store is closing");
  } while (pool_->readers()->retirements() != retired);
  return engine_->BackgroundError();
}

void Scheduler::Stop() {
  inline_.store(false);
  Executor* const executor = executor_.load();
  if (executor == nullptr) return;
  for (EpochDomain* const pins : {pool_->readers(), pool_->holders()}) pins->OnUnpinned(nullptr);
  pool_->OnDeferred(nullptr);
  snapshots_->OnPast(nullptr);
  executor->Leave(this);
  executor_.store(nullptr);
}

}  // namespace lamella
