#include "base/helper_threads.h"

#include <climits>

#include "base/assert.h"
#include "base/futex.h"
#include "base/no_throw.h"

namespace lamella {

HelperThreads::HelperThreads(uint32_t threads_max, std::chrono::nanoseconds worth)
    : worth_(worth), threads_max_(threads_max) {
  threads_.reserve(threads_max_);  // StartOne takes no memory for it
}

HelperThreads::~HelperThreads() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(&mu_);
    LAMELLA_CHECK(last_ == nullptr);
    stop_ = true;
    wakes_.fetch_add(1, std::memory_order_relaxed);
    threads.swap(threads_);
  }
  FutexWake(&wakes_, INT_MAX);
  for (std::thread& thread : threads) thread.join();
}

void HelperThreads::Enter(Task* task) {
  LAMELLA_CHECK(task->state_.load(std::memory_order_relaxed) == Task::kNone);
  task->state_.store(Task::kInLine, std::memory_order_relaxed);
  task->before_ = last_;
  task->after_ = nullptr;
  if (last_ != nullptr) last_->after_ = task;
  last_ = task;
}

void HelperThreads::Leave(Task* task) {
  if (task->before_ != nullptr) task->before_->after_ = task->after_;
  if (task->after_ != nullptr) {
    task->after_->before_ = task->before_;
  } else {
    last_ = task->before_;
  }
}

void HelperThreads::StartOne() {
  if (threads_.size() == threads_max_) return;
  // Where the system has no more threads, those that there are, or who posts, do the work (H1).
  (void)NoThrow([this]() LAMELLA_NO_THREAD_SAFETY_ANALYSIS {
    threads_.emplace_back([this] { Loop(); });
    return Status::OK();
  }).ok();
}

void HelperThreads::Post(Task* task) {
  bool wakes = false;
  {
    const MutexLock lock(&mu_);
    Enter(task);
    wakes = idle_ > woken_;
    if (wakes) {
      woken_++;
      wakes_.fetch_add(1, std::memory_order_relaxed);
    } else {
      StartOne();
    }
  }
  if (wakes) FutexWake(&wakes_, 1);  // else they come to it: a wake is much of what posting costs
}

bool HelperThreads::Finish(Task* task) {
  {
    const MutexLock lock(&mu_);
    if (task->state_.load(std::memory_order_relaxed) == Task::kInLine) {
      Leave(task);
      task->state_.store(Task::kNone, std::memory_order_relaxed);
      return false;
    }
  }
  uint32_t state = task->state_.load(std::memory_order_acquire);  // pairs with Loop's exchange
  while (state == Task::kRunning || state == Task::kAwaited) {
    if (state == Task::kAwaited ||
        task->state_.compare_exchange_strong(state, Task::kAwaited, std::memory_order_acquire))
      FutexWait(&task->state_, Task::kAwaited);
    state = task->state_.load(std::memory_order_acquire);
  }
  task->state_.store(Task::kNone, std::memory_order_relaxed);
  return state == Task::kDone;
}

// The last in line: who posted several at once comes to want the first of them first.
HelperThreads::Task* HelperThreads::Take() {
  for (;;) {
    uint32_t seen = 0;
    {
      const MutexLock lock(&mu_);
      if (stop_) return nullptr;
      if (last_ != nullptr) {
        Task* const task = last_;
        Leave(task);
        task->state_.store(Task::kRunning, std::memory_order_relaxed);
        return task;
      }
      idle_++;
      seen = wakes_.load(std::memory_order_relaxed);
    }
    for (bool woken = false; !woken;) {
      FutexWait(&wakes_, seen);
      const MutexLock lock(&mu_);
      seen = wakes_.load(std::memory_order_relaxed);
      woken = woken_ > 0 || stop_;
      if (!woken) continue;
      idle_--;
      if (woken_ > 0) woken_--;
    }
  }
}

void HelperThreads::Loop() {
  for (Task* task = Take(); task != nullptr; task = Take()) {
    Status s = NoThrow([task] {
      task->Run();
      return Status::OK();
    });
    // Keeps H2: after this the task may be gone, and waking is by its address alone.
    const uint32_t was = task->state_.exchange(s.ok() ? Task::kDone : Task::kFailed,
                                               std::memory_order_acq_rel);  // pairs with Finish
    if (was == Task::kAwaited) FutexWake(&task->state_, 1);
  }
}

}  // namespace lamella
