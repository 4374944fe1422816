// MemoryBudget is the DRAM that the stores which share it may hold together, MemoryAccount what one
// of them holds.
//
// While the budget has room, a store may hold all of it. When it has none, a store still gets what
// its fair share allows (the budget divided by the number of stores), and stores that hold more
// give back until it has. A store alone keeps to the limits of its parts, which are made for the
// whole budget, and is told nothing.
// I1: used() is the sum of what the accounts hold.
// I2: while used() of several is above bytes_max(), some account holds more than the fair share, so
//     that MustShrink() tells it to give back: all fair shares together are no more than
//     bytes_max().
// I3: TryCharge grants nothing above bytes_max() that would take an account beyond its fair share:
//     what is tried and not just charged is at most twice bytes_max(), one while there was room and
//     one of fair shares.
// Threads: all calls from any.
// Lifetime: a budget outlives its accounts, an account all that is charged to it.
#ifndef LAMELLA_BASE_MEMORY_BUDGET_H_
#define LAMELLA_BASE_MEMORY_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace lamella {

class MemoryBudget {
 public:
  /// `exceeded` (may be empty) is called when more is used than there is, by whoever brought it
  /// there; once, until less is used.
  explicit MemoryBudget(uint64_t bytes_max, std::function<void()> exceeded = {})
      : bytes_max_(bytes_max), exceeded_(std::move(exceeded)) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  /// Without bound for a store alone.
  uint64_t FairShare() const {
    const uint64_t accounts = accounts_.load(std::memory_order_relaxed);
    return accounts > 1 ? bytes_max_ / accounts : UINT64_MAX;
  }

 private:
  friend class MemoryAccount;

  uint64_t Add(uint64_t bytes) { return used_.fetch_add(bytes, std::memory_order_relaxed) + bytes; }
  void Subtract(uint64_t bytes) {
    if (used_.fetch_sub(bytes, std::memory_order_relaxed) - bytes <= bytes_max_) {
      told_.store(false, std::memory_order_relaxed);
    }
  }
  void TellIfExceeded() {
    if (used() <= bytes_max_ || told_.exchange(true, std::memory_order_relaxed)) return;
    if (exceeded_) exceeded_();
  }

  const uint64_t bytes_max_;
  const std::function<void()> exceeded_;
  std::atomic<uint64_t> used_{0};  // a figure, as accounts_; they guard nothing
  std::atomic<uint64_t> accounts_{0};
  std::atomic<bool> told_{false};
};

class MemoryAccount {
 public:
  explicit MemoryAccount(MemoryBudget* budget) : budget_(budget) {
    budget_->accounts_.fetch_add(1, std::memory_order_relaxed);
    budget_->told_.store(false, std::memory_order_relaxed);  // fair shares are smaller now
    budget_->TellIfExceeded();
  }
  ~MemoryAccount() {
    budget_->accounts_.fetch_sub(1, std::memory_order_relaxed);
    budget_->Subtract(held());
  }
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  /// For what cannot be refused: the entries of writes that are in the log already.
  void Charge(uint64_t bytes) {
    held_.fetch_add(bytes, std::memory_order_relaxed);
    budget_->Add(bytes);
    budget_->TellIfExceeded();
  }
  /// For what may be done without. False: the budget has no room and this store has its share;
  /// nothing was charged.
  bool TryCharge(uint64_t bytes) {
    const uint64_t held = held_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    const uint64_t used = budget_->Add(bytes);
    if (used <= budget_->bytes_max()) return true;
    if (held > budget_->FairShare()) {
      Release(bytes);
      return false;
    }
    budget_->TellIfExceeded();  // others hold more than theirs
    return true;
  }
  void Release(uint64_t bytes) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    budget_->Subtract(bytes);
  }

  uint64_t held() const { return held_.load(std::memory_order_relaxed); }
  /// The budget is exceeded, and this store holds more than its fair share.
  bool MustShrink() const {
    return budget_->used() > budget_->bytes_max() && held() > budget_->FairShare();
  }
  /// What is fair of a limit that is made for a store alone.
  uint64_t ShareOf(uint64_t bytes) const {
    return bytes / std::max<uint64_t>(1, budget_->accounts_.load(std::memory_order_relaxed));
  }

 private:
  MemoryBudget* const budget_;
  std::atomic<uint64_t> held_{0};
};

}  // namespace lamella

#endif  // LAMELLA_BASE_MEMORY_BUDGET_H_
