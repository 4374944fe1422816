#include "db/scheduler.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/concat.h"
#include "base/errno_status.h"
#include "db/no_throw.h"

namespace lamella {

Status Scheduler::Start(uint32_t threads) {
  try {
    found_nothing_.assign(threads, 0);
    threads_.reserve(threads);
    if (threads > 0) threads_.emplace_back([this] { Loop(0, JobClass::kUrgent); });
    for (uint32_t i = 1; i < threads; ++i) {
      threads_.emplace_back([this, i] {
        // Compaction gives way to the threads that wait for an answer: it gets what they leave, and does not preempt them when it
        // wakes. Beside processes that take every processor 10 leaves it a tenth of one; at 19 it gets a hundredth, and what waits
        // for it, a writer that is held back too, waits for minutes. Failing to is no error.
        constexpr int kNice = 10;
        ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
        const sched_param none{};
        ::sched_setscheduler(0, SCHED_BATCH, &none);
        Loop(i, JobClass::kNormal);
      });
    }
  } catch (const std::system_error& error) {
    const size_t had = threads_.size();
    Stop();
    return Status::IOError(Concat("start ", threads, " background threads: after ", had, " of them ",
                                  ErrnoText(error.code().value()),
                                  "; end threads of this process, or raise what it may have (ulimit -u, ulimit -v, the "
                                  "container's limit), or lower background_threads"));
  }
  return Status::OK();
}

void Scheduler::Run(Engine* engine, Pool* pool) {
  engine_ = engine;
  pool_ = pool;
  inline_ = threads_.empty();
  {
    const std::lock_guard lock(mu_);
    runs_ = true;
    wakes_ = 1;
  }
  wake_.notify_all();
}

// A job that fails by an exception, for want of memory say, fails like any other.
Status Scheduler::RunJob(const Job& job) {
  return NoThrow([&] { return job.run(); });
}

void Scheduler::Wake() {
  if (inline_) return RunInline();
  Nudge();
}

void Scheduler::Nudge() {
  if (inline_) return;
  {
    const std::lock_guard lock(mu_);
    ++wakes_;
  }
  wake_.notify_all();
}

// A job may wake us: what it made ready runs after it.
void Scheduler::RunInline() {
  if (running_inline_ || stop_) return;
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

void Scheduler::Loop(uint32_t index, JobClass job_class) {
  constexpr int kNoSpaceRetriesMax = 2000;
  int no_space = 0;
  std::unique_lock lock(mu_);
  wake_.wait(lock, [&] { return runs_ || stop_; });
  while (!stop_) {
    const uint64_t wakes = wakes_;
    ++running_;
    lock.unlock();
    auto job = Pick(job_class);
    if (job) {
      Status s = RunJob(*job);
      // A full pool is not a failed medium: deletes and gc may make room, and the job is offered again.
      no_space = s.IsNoSpace() ? no_space + 1 : 0;
      if (no_space > 0 && no_space < kNoSpaceRetriesMax) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } else if (!s.ok()) {
        engine_->SetBackgroundError(s);
      }
    }
    const size_t deferred = job_class == JobClass::kNormal ? pool_->CollectDeferred() + pool_->readers()->Collect() : 0;
    lock.lock();
    --running_;
    if (job) {
      ++wakes_;  // what it did may be the beginning of another job
      wake_.notify_all();
      continue;
    }
    found_nothing_[index] = wakes;
    idle_.notify_all();
    if (wakes != wakes_ || stop_) continue;
    // Deferred frees wait for readers, who tell nobody when they leave.
    if (deferred > 0) {
      wake_.wait_for(lock, std::chrono::milliseconds(10));
    } else {
      wake_.wait(lock, [&] { return wakes != wakes_ || stop_; });
    }
  }
}

Status Scheduler::WaitForIdle() {
  if (inline_) {
    RunInline();
    return engine_->BackgroundError();
  }
  std::unique_lock lock(mu_);
  for (;;) {
    const uint64_t wakes = ++wakes_;  // everybody looks once more
    wake_.notify_all();
    const auto nobody_found_any = [&] {
      return std::all_of(found_nothing_.begin(), found_nothing_.end(),
                         [&](uint64_t looked) { return looked >= wakes; });
    };
    while (!stop_ && wakes == wakes_ && !(running_ == 0 && nobody_found_any()))
      idle_.wait_for(lock, std::chrono::milliseconds(5));
    if (stop_) return Status::Aborted("the store is closing");
    lock.unlock();
    Status s = engine_->BackgroundError();
    lock.lock();
    if (!s.ok()) return s;
    if (wakes == wakes_) return Status::OK();
  }
}

void Scheduler::Stop() {
  {
    const std::lock_guard lock(mu_);
    stop_ = true;
  }
  wake_.notify_all();
  idle_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace lamella
