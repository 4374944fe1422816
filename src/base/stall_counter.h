// StallCounter counts how often writers were kept waiting, how long in all, and how long at most.
// Threads: any.
#ifndef LAMELLA_BASE_STALL_COUNTER_H_
#define LAMELLA_BASE_STALL_COUNTER_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/raise_to.h"
#include "lamella/stats.h"

namespace lamella {

class StallCounter {
 public:
  /// A wait that lasted from its making to its end.
  class Stall {
   public:
    explicit Stall(StallCounter* counter) : counter_(counter) {}
    ~Stall() { counter_->Add(Clock::now() - start_); }
    Stall(const Stall&) = delete;
    Stall& operator=(const Stall&) = delete;

   private:
    using Clock = std::chrono::steady_clock;
    StallCounter* const counter_;
    const Clock::time_point start_ = Clock::now();
  };

  void AddTo(Stats* stats) const {
    stats->stall_ns += ns_.load(std::memory_order_relaxed);
    stats->stall_count += count_.load(std::memory_order_relaxed);
    stats->stall_ns_max =
        std::max(stats->stall_ns_max, longest_ns_.load(std::memory_order_relaxed));
  }

 private:
  void Add(std::chrono::nanoseconds stalled) {
    const auto ns = static_cast<uint64_t>(stalled.count());
    ns_.fetch_add(ns, std::memory_order_relaxed);
    count_.fetch_add(1, std::memory_order_relaxed);
    RaiseTo(&longest_ns_, ns);
  }

  std::atomic<uint64_t> ns_{0};
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> longest_ns_{0};
};

}  // namespace lamella

#endif  // LAMELLA_BASE_STALL_COUNTER_H_
