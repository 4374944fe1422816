// EpochDomain defers frees until no reader that could reach the freed thing is left (epoch-based
// reclamation). A reader pins; a writer first makes the thing unreachable, then retires it; the
// retired callback runs once every pin taken before the retirement is gone.
// I1: a callback runs only after every Pin that was live when it was retired is released.
// I2: while Collect has left something, a pin that holds back the first of it is marked; who lets
//     go of a marked pin tells those who wait (AwaitRetired, OnUnpinned), and touches the domain
//     last under mu_.
// I3: from when a Collect takes callbacks out until they have run, or are back, running_ counts it:
//     who waits for what they free (AwaitRetired, AwaitRunning) sees them deferred, or running, or
//     done.
// I4: a pin needs no memory: where there is neither a slot nor memory for another one, it shares
//     the epoch of one that is there, which holds back as much, or more.
// Threads: all calls from any. Callbacks run in the thread that calls Collect (or ~EpochDomain),
// outside all locks.
#ifndef LAMELLA_POOL_EPOCH_H_
#define LAMELLA_POOL_EPOCH_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "base/annotations.h"
#include "base/mutex.h"

namespace lamella {

class EpochDomain {
 public:
  static constexpr uint32_t kSlotCount = 512;

  EpochDomain() { overflow_.reserve(1); }  // there is always one to share (I4)
  ~EpochDomain();                          // REQUIRES: no live pin. Runs what is left.
  EpochDomain(const EpochDomain&) = delete;
  EpochDomain& operator=(const EpochDomain&) = delete;

  /// Takes a pin; a few nanoseconds. The token goes to Unpin, from any thread. Pins nest.
  uint64_t Pin() noexcept;
  /// Lets go of it; a few nanoseconds, but for a marked one (I2).
  void Unpin(uint64_t token);
  /// The pins that are live.
  size_t pinned() const;
  /// Runs `last` once every pin that is live now was let go, in the thread that lets go of the last
  /// one; at once where there is none. `last` may destroy the domain. REQUIRES: called once, and no
  /// Pin begins any more.
  void WhenUnpinned(std::function<void()> last);

  /// What is to be retired. Made before the thing is made unreachable: making it needs memory, and
  /// so may throw.
  class Retirement {
   public:
    explicit Retirement(std::function<void()> callback) {
      entry_.emplace_back(0, std::move(callback));
    }

   private:
    friend class EpochDomain;
    std::list<std::pair<uint64_t, std::function<void()>>> entry_;
  };
  /// Runs the callback after every pin now live is gone. REQUIRES: what it frees cannot be reached
  /// any more.
  void Retire(Retirement retirement) noexcept;
  void Retire(std::function<void()> callback) { Retire(Retirement(std::move(callback))); }
  /// Runs what may run. Returns how many callbacks are still deferred: one that throws, and those
  /// after it, among them.
  size_t Collect();
  /// Returns once all that was retired by now has run, which it sees to; or after at_most. False:
  /// the time is up. REQUIRES: the caller has no pin, and is no callback.
  bool AwaitRetired(std::chrono::nanoseconds at_most);
  /// The same, however long it takes.
  void AwaitRetired() { (void)AwaitRetiredUntil(std::nullopt); }
  /// Returns once no Collect of another thread runs callbacks that it had taken out by now: what
  /// they free is free. REQUIRES: the caller is no callback.
  void AwaitRunning();
  /// How often anything was retired.
  uint64_t retirements() const { return epoch_.load(std::memory_order_seq_cst) - 1; }
  /// Has `listener` called when something that Collect left may be due, in the thread that lets go
  /// of the pin: under mu_, so it must be short, not throw, and not call the domain. Null: nobody,
  /// from the return on.
  void OnUnpinned(std::function<void()> listener);

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> epoch{0};  // 0: free
  };
  struct Overflow {
    uint64_t token;
    uint64_t epoch;  // with its marks
    uint64_t pins;   // that share it
  };
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  using Retired = std::list<std::pair<uint64_t, std::function<void()>>>;
  bool AwaitRetiredUntil(Deadline deadline) LAMELLA_EXCLUDES(mu_);
  uint64_t PinOverflow() noexcept;
  void UnpinMarked(uint64_t token);
  uint64_t TakeMarked(uint64_t token) LAMELLA_REQUIRES(mu_);
  void Left();
  uint64_t OldestPinned() const LAMELLA_REQUIRES(mu_);
  bool MarkHolder() LAMELLA_REQUIRES(mu_);
  void Run(Retired* due) LAMELLA_EXCLUDES(mu_);

  // Marks in a pin's epoch: WhenUnpinned waits for it; it is to be told (I2).
  static constexpr uint64_t kAwaited = uint64_t{1} << 63;
  static constexpr uint64_t kWatched = uint64_t{1} << 62;
  static constexpr uint64_t kMarks = kAwaited | kWatched;

  std::atomic<uint64_t> epoch_{1};  // of the pins taken now; a retirement ends it
  Slot slots_[kSlotCount];
  mutable Mutex mu_;
  // Pins taken when all slots were.
  std::vector<Overflow> overflow_ LAMELLA_GUARDED_BY(mu_);
  uint64_t overflow_tokens_ LAMELLA_GUARDED_BY(mu_) = 0;
  // pins that WhenUnpinned waits for, and one while it counts them
  std::atomic<size_t> awaited_{0};
  // stored before the first pin is marked, read by who lets go of the last
  std::function<void()> last_;
  // with mu_: a marked pin is gone, or a Collect has run what it took out
  std::condition_variable_any changed_;
  size_t running_ LAMELLA_GUARDED_BY(mu_) = 0;  // Collects that run callbacks (I3)
  std::function<void()> listener_ LAMELLA_GUARDED_BY(mu_);
  // Epochs ascending.
  Retired retired_ LAMELLA_GUARDED_BY(mu_);
};

/// Pins a domain for a scope.
class EpochPin {
 public:
  explicit EpochPin(EpochDomain* domain) : domain_(domain), token_(domain->Pin()) {}
  ~EpochPin() { LetGo(); }
  EpochPin(EpochPin&& other) noexcept
      : domain_(std::exchange(other.domain_, nullptr)), token_(other.token_) {}
  EpochPin(const EpochPin&) = delete;
  EpochPin& operator=(const EpochPin&) = delete;
  EpochPin& operator=(EpochPin&&) = delete;

  /// Lets go before the scope ends.
  void LetGo() {
    if (EpochDomain* const domain = std::exchange(domain_, nullptr)) domain->Unpin(token_);
  }
  /// Gives the token to the caller, who must Unpin it.
  uint64_t Release() {
    domain_ = nullptr;
    return token_;
  }

 private:
  EpochDomain* domain_;
  uint64_t token_;
};

}  // namespace lamella

#endif  // LAMELLA_POOL_EPOCH_H_
