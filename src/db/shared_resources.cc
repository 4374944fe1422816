#include "db/shared_resources.h"

#include <algorithm>
#include <string>
#include <thread>

#include "base/concat.h"
#include "base/no_throw.h"

namespace lamella {

Status CheckMemoryBudget(uint64_t bytes) {
  if (bytes >= kMemoryBudgetBytesMin) return Status::OK();
  return Status::InvalidArgument(Concat("memory_budget_bytes is ", bytes, "; at least ",
                                        kMemoryBudgetBytesMin >> 20, " MiB (",
                                        kMemoryBudgetBytesMin, ") is needed"));
}

Status CheckThreads(uint32_t background_threads) {
  if (background_threads <= kBackgroundThreadsMax) return Status::OK();
  return Status::InvalidArgument(Concat("background_threads is ", background_threads,
                                        "; it is at most ", kBackgroundThreadsMax,
                                        ", and 0 picks"));
}

Status SharedResources::Start(uint32_t background_threads) {
  if (background_threads == 0)
    background_threads = std::clamp<uint32_t>(std::thread::hardware_concurrency() + 1, 3, 4);
  return executor_->Start(std::max(background_threads, 2u));
}

Status Resources::Create(uint64_t memory_budget_bytes, uint32_t background_threads,
                         std::shared_ptr<Resources>* resources) {
  resources->reset();
  return NoThrow([&] {
    Status s = CheckMemoryBudget(memory_budget_bytes);
    if (s.ok()) s = CheckThreads(background_threads);
    if (!s.ok()) return s;
    auto made = std::make_shared<SharedResources>(memory_budget_bytes);
    s = made->Start(background_threads);
    if (s.ok()) *resources = std::move(made);
    return s;
  });
}

}  // namespace lamella
