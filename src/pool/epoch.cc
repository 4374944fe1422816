#include "pool/epoch.h"

#include <algorithm>
#include <limits>
#include <new>

#include "base/assert.h"

namespace lamella {
namespace {

// Where this thread looks first: threads start apart, and stay where they last found a free slot.
uint32_t FirstHint() {
  static std::atomic<uint32_t> threads{0};
  // any spread does
  return threads.fetch_add(1, std::memory_order_relaxed) * 5 % EpochDomain::kSlotCount;
}
thread_local uint32_t slot_hint = FirstHint();

}  // namespace

EpochDomain::~EpochDomain() {
  while (Collect() != 0) {  // a callback may have retired more
    MutexLock lock(&mu_);
    LAMELLA_CHECK(OldestPinned() == std::numeric_limits<uint64_t>::max());
  }
}

// Why no reader is missed. Let a thing be retired with stamp r: the writer unlinked it, then moved
// epoch_ from r to r+1, then some Collect scans the slots. Let a reader write e into a slot and
// then load `now` from epoch_. All four are seq_cst, so they have one order.
//   now > r: the load read from the writer's increment or a later one, so the unlink happened
//   before it: the reader
//            cannot reach the thing, and its slot need not hold it back.
//   now <= r: the load came before the increment, and so before the scan; the slot was written
//   before the load. The
//            scan sees the slot, with e or now, both at most r: the thing is not freed (keeps I1).
uint64_t EpochDomain::Pin() noexcept {
  const uint64_t e = epoch_.load(std::memory_order_relaxed);  // a guess; `now` below is what counts
  uint32_t slot = slot_hint;
  for (uint32_t probes = 0; probes < kSlotCount; probes++, slot = (slot + 1) % kSlotCount) {
    std::atomic<uint64_t>& word = slots_[slot].epoch;
    uint64_t free = 0;
    if (word.load(std::memory_order_relaxed) != 0) continue;  // a hint; the exchange decides
    if (!word.compare_exchange_strong(free, e, std::memory_order_seq_cst,
                                      std::memory_order_relaxed))
      continue;
    slot_hint = slot;
    const uint64_t now = epoch_.load(std::memory_order_seq_cst);
    // What was retired in between need not wait for us; it does where somebody marked the slot.
    uint64_t mine = e;
    if (now != e) {
      word.compare_exchange_strong(mine, now, std::memory_order_release, std::memory_order_relaxed);
    }
    return slot;
  }
  return PinOverflow();
}

// The mutex orders the pin and every scan: a scan that ran before it retired what this thread now
// sees unlinked.
uint64_t EpochDomain::PinOverflow() noexcept {
  MutexLock lock(&mu_);
  const uint64_t now = epoch_.load(std::memory_order_seq_cst);
  try {
    overflow_.push_back({.token = kSlotCount + overflow_tokens_, .epoch = now, .pins = 1});
    overflow_tokens_++;
    return overflow_.back().token;
  } catch (const std::bad_alloc&) {  // keeps I4, with the one that holds back least
    const auto newest = std::ranges::max_element(
        overflow_, {}, [](const Overflow& pin) { return pin.epoch & ~kMarks; });
    newest->pins++;
    return newest->token;
  }
}

void EpochDomain::Unpin(uint64_t token) {
  if (token < kSlotCount) [[likely]] {
    std::atomic<uint64_t>& word = slots_[token].epoch;
    uint64_t e = word.load(std::memory_order_relaxed);
    // release: what the reader read is read before whoever sees the slot free reuses it; pairs with
    // OldestPinned.
    if ((e & kMarks) == 0 && word.compare_exchange_strong(e, 0, std::memory_order_release,
                                                          std::memory_order_relaxed)) [[likely]]
      return;
  }
  UnpinMarked(token);
}

// Or one that found no slot. Under the lock (I2): whoever found no pin left and means to destroy
// the domain takes it first.
void EpochDomain::UnpinMarked(uint64_t token) {
  uint64_t epoch;
  {
    MutexLock lock(&mu_);
    epoch = TakeMarked(token);
    if ((epoch & kWatched) != 0) {
      changed_.notify_all();
      if (listener_) listener_();
    }
  }
  if ((epoch & kAwaited) != 0) Left();
}

// The pin goes; what stood in it, where no other one shares it.
uint64_t EpochDomain::TakeMarked(uint64_t token) {
  // acq_rel: as in Unpin, and pairs with WhenUnpinned.
  if (token < kSlotCount) return slots_[token].epoch.exchange(0, std::memory_order_acq_rel);
  const auto at = std::find_if(overflow_.begin(), overflow_.end(),
                               [token](const Overflow& pin) { return pin.token == token; });
  LAMELLA_CHECK(at != overflow_.end());
  if (--at->pins != 0) return 0;
  const uint64_t epoch = at->epoch;
  *at = overflow_.back();
  overflow_.pop_back();
  return epoch;
}

// As a pin that is let go and one that was taken at `epoch`, when its slot said less already: what
// was retired before that had been unlinked before, and its holder has read all that it stands on
// since.
void EpochDomain::Advance(uint64_t token, uint64_t epoch) {
  if (token >= kSlotCount) return;
  MutexLock lock(&mu_);
  std::atomic<uint64_t>& word = slots_[token].epoch;
  uint64_t e = word.load(std::memory_order_relaxed);
  do {
    if ((e & kAwaited) != 0) return;
    // release: as in Unpin
  } while (
      !word.compare_exchange_weak(e, epoch, std::memory_order_release, std::memory_order_relaxed));
  if ((e & kWatched) == 0) return;
  changed_.notify_all();
  if (listener_) listener_();
}

size_t EpochDomain::pinned() const {
  size_t count = 0;
  for (const Slot& slot : slots_) count += slot.epoch.load(std::memory_order_relaxed) != 0 ? 1 : 0;
  MutexLock lock(&mu_);
  for (const Overflow& pin : overflow_) count += pin.pins;
  return count;
}

// Each pin is marked or let go, by one read-modify-write of its slot against another: who lets go
// of a marked one, and nobody else, counts it. Until that, the count keeps the domain alive for its
// thread. For one that was let go before and still tells who waits, mu_ does.
void EpochDomain::WhenUnpinned(std::function<void()> last) {
  last_ = std::move(last);
  awaited_.store(1, std::memory_order_relaxed);  // the marks below publish it
  for (Slot& slot : slots_) {
    // acquire pairs with Unpin: what the holder of a pin that is gone by now read is read before
    // `last` runs.
    uint64_t e = slot.epoch.load(std::memory_order_acquire);
    awaited_.fetch_add(1, std::memory_order_relaxed);
    // acq_rel: and who finds the mark sees last_ and the count.
    while (e != 0 && !slot.epoch.compare_exchange_weak(e, e | kAwaited, std::memory_order_acq_rel,
                                                       std::memory_order_acquire)) {
    }
    if (e == 0) awaited_.fetch_sub(1, std::memory_order_relaxed);  // free, or let go meanwhile
  }
  {
    MutexLock lock(&mu_);
    for (Overflow& pin : overflow_) {
      pin.epoch |= kAwaited;
      awaited_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  Left();
}

// acq_rel: what every other pin's holder read is read before `last` runs.
void EpochDomain::Left() {
  if (awaited_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::function<void()> last = std::move(last_);  // it may destroy this
  last();
}

void EpochDomain::Retire(Retirement retirement) noexcept {
  MutexLock lock(&mu_);
  retirement.entry_.front().first = epoch_.fetch_add(1, std::memory_order_seq_cst);
  retired_.splice(retired_.end(), retirement.entry_);
}

uint64_t EpochDomain::OldestPinned() const {
  uint64_t oldest = std::numeric_limits<uint64_t>::max();
  for (const Slot& slot : slots_) {
    const uint64_t e = slot.epoch.load(std::memory_order_seq_cst) & ~kMarks;
    if (e != 0) oldest = std::min(oldest, e);
  }
  for (const Overflow& pin : overflow_) oldest = std::min(oldest, pin.epoch & ~kMarks);
  return oldest;
}

// Marks a pin that holds back the first of what is retired. False: there is none.
bool EpochDomain::MarkHolder() {
  const uint64_t first = retired_.front().first;
  for (Slot& slot : slots_) {
    uint64_t e = slot.epoch.load(std::memory_order_seq_cst);
    while (e != 0 && (e & ~kMarks) <= first) {
      if ((e & kWatched) != 0 || slot.epoch.compare_exchange_weak(e, e | kWatched)) return true;
    }
  }
  for (Overflow& pin : overflow_) {
    if ((pin.epoch & ~kMarks) > first) continue;
    pin.epoch |= kWatched;
    return true;
  }
  return false;
}

size_t EpochDomain::Collect() {
  for (;;) {
    Retired due;
    {
      MutexLock lock(&mu_);
      if (retired_.empty()) return 0;
      const uint64_t oldest = OldestPinned();
      auto end = retired_.begin();
      while (end != retired_.end() && end->first < oldest) end++;
      due.splice(due.end(), retired_, retired_.begin(), end);
      if (!due.empty()) running_++;  // keeps I3
    }
    if (!due.empty()) Run(&due);
    MutexLock lock(&mu_);
    if (retired_.empty() || MarkHolder()) return retired_.size();  // keeps I2
  }
}

// What did not run is deferred as before.
void EpochDomain::Run(Retired* due) {
  const auto done = [this, due] {
    MutexLock lock(&mu_);
    retired_.splice(retired_.begin(), *due);
    running_--;
    changed_.notify_all();
  };
  try {
    for (; !due->empty(); due->pop_front()) due->front().second();
  } catch (...) {
    done();
    throw;
  }
  done();
}

void EpochDomain::AwaitRunning() {
  MutexLock lock(&mu_);
  while (running_ != 0) changed_.wait(mu_);
}

bool EpochDomain::AwaitRetired(std::chrono::nanoseconds at_most) {
  return AwaitRetiredUntil(std::chrono::steady_clock::now() + at_most);
}

bool EpochDomain::AwaitRetiredUntil(Deadline deadline) {
  const uint64_t next = epoch_.load(std::memory_order_seq_cst);
  for (;;) {
    Collect();
    MutexLock lock(&mu_);
    const bool is_left = !retired_.empty() && retired_.front().first < next;
    if (!is_left && running_ == 0) return true;
    if (is_left && !MarkHolder()) continue;
    if (!deadline) {
      changed_.wait(mu_);
    } else if (changed_.wait_until(mu_, *deadline) == std::cv_status::timeout) {
      return false;
    }
  }
}

void EpochDomain::OnUnpinned(std::function<void()> listener) {
  MutexLock lock(&mu_);
  listener_ = std::move(listener);
}

}  // namespace lamella
