#include "db/scheduler.h"

#include "db/no_throw.h"

namespace lamella {

void Scheduler::Start(Engine* engine, Pool* pool, Executor* executor) {
  engine_ = engine;
  pool_ = pool;
  executor_ = executor;
  inline_ = executor == nullptr;
  if (executor_ == nullptr) return;
  executor_->Join(this);
  executor_->Wake(this);
}

// A job that fails by an exception, for want of memory say, fails like any other.
Status Scheduler::RunJob(const Job& job) {
  return NoThrow([&] { return job.run(); });
}

void Scheduler::Wake() {
  if (inline_) return RunInline();
  if (executor_ != nullptr) executor_->Wake(this);
}

// A job may wake us: what it made ready runs after it.
void Scheduler::RunInline() {
  if (running_inline_) return;
  running_inline_ = true;
  constexpr int kNoSpaceRetriesMax = 20;
  for (int no_space = 0;;) {
    auto job = Pick(JobClass::kUrgent);
    if (!job) job = Pick(JobClass::kNormal);
    if (!job) break;
    const Status s = RunJob(*job);
    pool_->CollectDeferred();
    if (s.IsNoSpace() && ++no_space < kNoSpaceRetriesMax) continue;
    if (!s.ok()) engine_->SetBackgroundError(s);
  }
  pool_->CollectDeferred();
  running_inline_ = false;
}

std::optional<Job> Scheduler::Pick(JobClass job_class) {
  if (!engine_->BackgroundError().ok()) return std::nullopt;
  return engine_->PickJob(job_class);
}

Executor::Client::Look Scheduler::LookForJob(JobClass job_class) {
  Look look;
  if (auto job = Pick(job_class)) {
    look.found = true;
    executor_->LookOn(this, job_class);  // for another job, in another thread
    look.status = RunJob(*job);
  }
  if (job_class == JobClass::kNormal) {
    const size_t deferred = pool_->CollectDeferred();
    look.waits = deferred + pool_->readers()->Collect() > 0;
  }
  return look;
}

void Scheduler::OnError(const Status& status) { engine_->SetBackgroundError(status); }

Status Scheduler::WaitForIdle() {
  if (inline_) {
    RunInline();
    return engine_->BackgroundError();
  }
  if (executor_ == nullptr || !executor_->WaitForIdle(this)) return Status::Aborted("the store is closing");
  return engine_->BackgroundError();
}

void Scheduler::Stop() {
  inline_ = false;
  if (executor_ != nullptr) executor_->Leave(this);
  executor_ = nullptr;
}

}  // namespace lamella
