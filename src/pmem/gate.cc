#include "pmem/gate.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/sanitizer.h"
#include "pmem/line.h"

namespace lamella {
namespace {

// Below this, filling lines through the cache and writing them back costs less than non-temporal
// stores.
constexpr size_t kStreamBytesMin = 256;

uintptr_t LineOf(const void* p) {
  return reinterpret_cast<uintptr_t>(p) & ~uintptr_t{kLineBytes - 1};
}

// Nanoseconds that `bytes` take at `gbps` (10^9 bytes a second), as ticks.
uint64_t TransferTicks(uint64_t bytes, double gbps) {
  return static_cast<uint64_t>(static_cast<double>(bytes) / gbps * TicksPerNs());
}

uint64_t LatencyTicks(uint64_t ns) {
  return static_cast<uint64_t>(static_cast<double>(ns) * TicksPerNs());
}

void Add(PersistCounters* sum, const PersistCounters& more) {
  sum->bytes_stored += more.bytes_stored;
  sum->lines_flushed += more.lines_flushed;
  sum->fences += more.fences;
  sum->blocks_touched += more.blocks_touched;
}

}  // namespace

Gate::Gate(MediumKind medium, const MediaProfile& profile, PersistHook* hook, bool count_reads)
    : medium_(medium),
      profile_(profile),
      hook_(hook),
      read_tally_(count_reads ? std::make_unique<StripedCounter>() : nullptr),
      read_delay_(profile.read_ns != 0 || profile.read_gbps > 0),
      on_read_(read_delay_ || count_reads),
      write_delay_(profile.write_ns != 0 || profile.write_line_ns != 0 || profile.write_gbps > 0) {
  LAMELLA_CHECK(medium != MediumKind::kAuto);
  if (read_delay_ || write_delay_) TicksPerNs();  // measure now, not in the first write
}

Gate::~Gate() {
  MutexLock lock(&mu_);
  LAMELLA_CHECK(persisters_.empty());
}

PersistCounters Gate::Counters(WriteCause cause) const {
  MutexLock lock(&mu_);
  PersistCounters sum = retired_[static_cast<size_t>(cause)];
  for (const Persister* persister : persisters_) {
    if (persister->cause_ == cause) Add(&sum, persister->counters());
  }
  return sum;
}

void Gate::CountAndDelay(size_t bytes) const {
  if (read_tally_ != nullptr) read_tally_->Add(bytes);
  if (!read_delay_) return;
  const uint64_t now = TicksNow();
  uint64_t until = now + LatencyTicks(profile_.read_ns);
  if (profile_.read_gbps > 0) {
    until = std::max(until, read_queue_.Book(now, TransferTicks(bytes, profile_.read_gbps)));
  }
  SpinUntil(until);
}

void Gate::WriteDelay(uint64_t lines) const {
  const uint64_t now = TicksNow();
  uint64_t until = now + LatencyTicks(profile_.write_ns + lines * profile_.write_line_ns);
  if (profile_.write_gbps > 0) {
    until = std::max(
        until, write_queue_.Book(now, TransferTicks(lines * kLineBytes, profile_.write_gbps)));
  }
  SpinUntil(until);
}

Persister::Persister(Gate* gate, WriteCause cause) : gate_(gate), cause_(cause) {
  MutexLock lock(&gate_->mu_);
  gate_->persisters_.push_back(this);
}

Persister::~Persister() {
  MutexLock lock(&gate_->mu_);
  std::erase(gate_->persisters_, this);
  Add(&gate_->retired_[static_cast<size_t>(cause_)], counters());
}

PersistCounters Persister::counters() const {
  return {
      .bytes_stored = bytes_stored_.load(std::memory_order_relaxed),  // figures; they order nothing
      .lines_flushed = lines_flushed_.load(std::memory_order_relaxed),
      .fences = fences_.load(std::memory_order_relaxed),
      .blocks_touched = blocks_touched_.load(std::memory_order_relaxed)};
}

// On byte media nothing is written back by us, but the lines reach the medium all the same: they
// count as blocks.
inline void Persister::CountLines(uintptr_t first_line, uintptr_t last_line) {
  const uint64_t lines = (last_line - first_line) / kLineBytes + 1;
  const uint64_t first_block = first_line / kMediaBlockBytes;
  const uint64_t last_block = last_line / kMediaBlockBytes;
  Count(blocks_touched_, last_block - first_block + (first_block == last_block_ ? 0 : 1));
  last_block_ = last_block;
  pending_lines_ += lines;
  if (gate_->flushes()) Count(lines_flushed_, lines);
}

void Persister::Flush(const void* p, size_t n, const Site& site) {
  if (n == 0) return;
  if (gate_->hook_ != nullptr) [[unlikely]]
    gate_->hook_->OnFlush(this, p, n, site);
  if (!gate_->fences()) return;
  const uintptr_t first = LineOf(p);
  const uintptr_t last = LineOf(static_cast<const char*>(p) + n - 1);  // keeps I2
  CountLines(first, last);
  if (gate_->flushes()) WriteBackLines(first, last);
}

void Persister::Fence(const Site& site) {
  if (gate_->hook_ != nullptr) [[unlikely]]
    gate_->hook_->OnFence(this, site);
  if (!gate_->fences()) return;
  StoreFence();
  Count(fences_, 1);
  if (gate_->write_delay_ && pending_lines_ != 0) [[unlikely]]
    gate_->WriteDelay(pending_lines_);
  pending_lines_ = 0;
}

void Persister::Store(PmWord* word, uint64_t value, const Site& site) {
  if (gate_->hook_ != nullptr) [[unlikely]]
    gate_->hook_->OnStore(word, sizeof(*word), site);
  // pairs with the acquire load of whoever follows the word
  word->store(value, std::memory_order_release);
  Count(bytes_stored_, sizeof(*word));
}

void Persister::Copy(void* destination, const void* source, size_t n, const Site& site) {
  if (n == 0) return;
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
  Count(bytes_stored_, n);
  const bool hooked = gate_->hook_ != nullptr;
  if (hooked) [[unlikely]]
    gate_->hook_->OnStore(to, n, site);
  // ThreadSanitizer does not see non-temporal stores.
  if (!gate_->flushes() || n < kStreamBytesMin || hooked || LAMELLA_THREAD_SANITIZER != 0) {
    std::memcpy(to, from, n);
    Flush(to, n, site);
    return;
  }
  const uintptr_t first = LineOf(to);
  const uintptr_t last = LineOf(to + n - 1);
  CountLines(first, last);
  const size_t head =
      (kLineBytes - (reinterpret_cast<uintptr_t>(to) & (kLineBytes - 1))) & (kLineBytes - 1);
  const size_t body = (n - head) & ~(kLineBytes - 1);
  const size_t tail = n - head - body;
  if (head != 0) {
    std::memcpy(to, from, head);
    WriteBackLines(first, first);
  }
  StreamLines(to + head, from + head, body);
  if (tail != 0) {
    std::memcpy(to + head + body, from + head + body, tail);
    WriteBackLines(last, last);
  }
}

void Persister::CopyLines(void* destination, const void* source, size_t n, size_t skip,
                          const Site& site) {
  LAMELLA_DCHECK(reinterpret_cast<uintptr_t>(destination) % kLineBytes == 0 && skip <= n);
  if (n == skip) return;
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
  Count(bytes_stored_, n - skip);
  n = (n + kLineBytes - 1) & ~(kLineBytes - 1);
  const bool hooked = gate_->hook_ != nullptr;
  if (hooked) [[unlikely]]
    gate_->hook_->OnStore(to + skip, n - skip, site);
  if (!gate_->flushes() || hooked || LAMELLA_THREAD_SANITIZER != 0) {
    // Others may be reading the first `skip` bytes: storing them again is harmless to the hardware,
    // but is a race to ThreadSanitizer, so they are left alone where going past the cache is not
    // needed.
    std::memcpy(to + skip, from + skip, n - skip);
    Flush(to + skip, n - skip, site);
    return;
  }
  const size_t whole = skip & ~(kLineBytes - 1);  // lines that are there already, all of them
  CountLines(LineOf(to + skip), LineOf(to + n - 1));
  StreamLines(to + whole, from + whole, n - whole);
}

}  // namespace lamella
