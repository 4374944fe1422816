// SharedResources is what a Resources holds: the budget and the executor of one store or of many.
// Threads: any, after Start.
#ifndef LAMELLA_DB_SHARED_RESOURCES_H_
#define LAMELLA_DB_SHARED_RESOURCES_H_

#include <unistd.h>

#include <memory>

#include "base/memory_budget.h"
#include "db/executor.h"
#include "lamella/resources.h"
#include "lamella/status.h"

namespace lamella {

/// Limits of Options and of Resources. InvalidArgument, which names the option and what is allowed.
inline constexpr uint64_t kMemoryBudgetBytesMin = 1 << 20;
inline constexpr uint32_t kBackgroundThreadsMax = 256;
Status CheckMemoryBudget(uint64_t bytes);
Status CheckThreads(uint32_t background_threads);

class SharedResources final : public Resources {
 public:
  explicit SharedResources(uint64_t memory_budget_bytes)
      : executor_(new Executor, EndUnlessForked{getpid()}),
        budget_(memory_budget_bytes, [this] { executor_->WakeAll(); }) {}
  ~SharedResources() override = default;

  /// 0 picks by the number of CPUs; without a Start there are no threads. IOError as
  /// Executor::Start.
  Status Start(uint32_t background_threads);

  uint64_t memory_budget_bytes() const override { return budget_.bytes_max(); }
  uint64_t memory_used_bytes() const override { return budget_.used(); }
  uint32_t background_threads() const override { return executor_->thread_count(); }

  /// Another process made it, which forked this one.
  bool IsForked() const { return executor_.get_deleter().process != getpid(); }
  MemoryBudget* budget() { return &budget_; }
  Executor* executor() { return executor_.get(); }

 private:
  /// A forked child has none of its threads, and leaves it as it is.
  struct EndUnlessForked {
    pid_t process;
    void operator()(Executor* executor) const {
      if (process == getpid()) delete executor;
    }
  };

  const std::unique_ptr<Executor, EndUnlessForked> executor_;
  MemoryBudget budget_;
};

}  // namespace lamella

#endif  // LAMELLA_DB_SHARED_RESOURCES_H_
