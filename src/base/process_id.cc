#include "base/process_id.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace lamella {
namespace {

std::atomic<pid_t> known{0};  // guards nothing

pid_t Ask() {
  const pid_t id = getpid();
  known.store(id, std::memory_order_relaxed);
  return id;
}

}  // namespace

pid_t ProcessId() {
  const pid_t id = known.load(std::memory_order_relaxed);
  if (id != 0) [[likely]]
    return id;
  static const bool is_told_of_forks = pthread_atfork(nullptr, nullptr, [] { (void)Ask(); }) == 0;
  return is_told_of_forks ? Ask() : getpid();
}

}  // namespace lamella
