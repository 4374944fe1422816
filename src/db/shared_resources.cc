#include "db/shared_resources.h"

#include <algorithm>
#include <string>
#include <thread>

#include "base/no_throw.h"

namespace lamella {

Status SharedResources::Start(uint32_t background_threads) {
  if (background_threads == 0)
    background_threads = std::clamp<uint32_t>(std::thread::hardware_concurrency() + 1, 3, 4);
  return executor_.Start(std::max(background_threads, 2u));
}

Status Resources::Create(uint64_t memory_budget_bytes, uint32_t background_threads,
                         std::shared_ptr<Resources>* resources) {
  resources->reset();
  if (memory_budget_bytes < kMemoryBudgetBytesMin) {
    return Status::InvalidArgument("memory_budget_bytes is " + std::to_string(memory_budget_bytes) +
                                   "; at least 1 MiB (1048576) is needed");
  }
  if (background_threads > kBackgroundThreadsMax) {
    return Status::InvalidArgument("background_threads is " + std::to_string(background_threads) +
                                   "; at most " + std::to_string(kBackgroundThreadsMax) +
                                   " can be had");
  }
  return NoThrow([&] {
    auto made = std::make_shared<SharedResources>(memory_budget_bytes);
    Status s = made->Start(background_threads);
    if (s.ok()) *resources = std::move(made);
    return s;
  });
}

}  // namespace lamella
