// The persistence gate: the only place that may spell a flush, a fence or a non-temporal store.
//
// Gate is one pool's medium: its granularity, its emulated delays, its counters and, in tests, its
// crash hook. Persister is one thread's (or one lock's) hand on it: the verbs, counted under one
// cause.
//
//   Flush(p, n)    write-back of [p, p+n) is queued; not ordered, not durable
//   Fence()        every earlier flush of this Persister is durable
//   Persist(p, n)  Flush + Fence
//   Publish(w, v)  one aligned 8-byte release store of v into w, then Persist: makes prior durable
//                  data reachable
//   Copy(d, s, n)  memcpy into persistent memory by the best path, flushed, not fenced
//   CopyLines      whole 64-byte lines by non-temporal stores, not fenced: for a log's tail
//   Store(w, v)    one aligned 8-byte release store of v into w; not flushed
//
// I1: nothing wider than 8 aligned bytes is assumed atomic.
// I2: a range is flushed by its lines, from the line that holds its first byte to the line that
// holds its last. On kPage and kVolatile the verbs only store; Region::Sync makes pages durable.
// Threads: a Gate from any; a Persister from one thread at a time.
#ifndef LAMELLA_PMEM_GATE_H_
#define LAMELLA_PMEM_GATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <vector>

#include "base/annotations.h"
#include "base/mutex.h"
#include "base/striped_counter.h"
#include "lamella/options.h"
#include "lamella/stats.h"
#include "pmem/delay.h"

namespace lamella {

inline constexpr size_t kLineBytes = 64;
constexpr uint64_t RoundUpToLine(uint64_t n) {
  return (n + kLineBytes - 1) & ~uint64_t{kLineBytes - 1};
}
inline constexpr size_t kMediaBlockBytes = 256;

using PmWord = std::atomic<uint64_t>;
static_assert(sizeof(PmWord) == 8 && PmWord::is_always_lock_free);

/// Where in the source a verb was called; the crash simulator names, cuts at and deletes single
/// sites.
using Site = std::source_location;

class Persister;

/// Told of every verb, on every medium, before it takes effect on the real one. For the crash
/// simulator; null outside tests.
class PersistHook {
 public:
  virtual ~PersistHook() = default;
  /// [p, p+n) is about to be stored to; its old content is still there.
  virtual void OnStore(const void* p, size_t n, const Site& site) = 0;
  /// The content of [p, p+n) is in place and about to be written back; `by`'s next fence makes it
  /// durable.
  virtual void OnFlush(const Persister* by, const void* p, size_t n, const Site& site) = 0;
  virtual void OnFence(const Persister* by, const Site& site) = 0;
  virtual void OnSync(const void* p, size_t n, const Site& site) = 0;
  /// Part `part` of the pool lies at `base`, now `bytes` long: at creation and opening before
  /// anything is stored there, and when the part has grown.
  virtual void OnMap(uint32_t /*part*/, const char* /*base*/, uint64_t /*bytes*/) {}
  /// The part is about to be unmapped: nothing is stored there any more.
  virtual void OnUnmap(uint32_t /*part*/) {}
};

class Gate {
 public:
  /// `medium` must be resolved: not kAuto.
  Gate(MediumKind medium, const MediaProfile& profile, PersistHook* hook = nullptr,
       bool count_reads = false);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  MediumKind medium() const { return medium_; }
  const MediaProfile& profile() const { return profile_; }
  PersistHook* hook() const { return hook_; }

  /// True where lines must be written back to be durable.
  bool flushes() const { return medium_ == MediumKind::kCacheLine; }
  /// True where fences order durability: cache line and byte media.
  bool fences() const { return medium_ == MediumKind::kCacheLine || medium_ == MediumKind::kByte; }

  /// Sum over all Persisters, living and gone.
  PersistCounters Counters(WriteCause cause) const;

  /// A dependent read from the medium: what it costs where that is emulated, and its bytes where
  /// they are counted. One predictable branch when neither is.
  void OnRead(size_t bytes) const {
    if (on_read_) CountAndDelay(bytes);
  }
  /// Bytes that OnRead was told of; 0 where they are not counted.
  uint64_t ReadBytes() const { return read_tally_ == nullptr ? 0 : read_tally_->Sum(); }

 private:
  friend class Persister;
  void CountAndDelay(size_t bytes) const;
  void WriteDelay(uint64_t lines) const;  // called by Fence when lines are pending

  const MediumKind medium_;
  const MediaProfile profile_;
  PersistHook* const hook_;
  const std::unique_ptr<StripedCounter> read_tally_;  // null: not counted
  const bool read_delay_;
  const bool on_read_;  // either of them
  const bool write_delay_;
  mutable BandwidthQueue read_queue_;
  mutable BandwidthQueue write_queue_;
  mutable Mutex mu_;
  std::vector<Persister*> persisters_ LAMELLA_GUARDED_BY(mu_);
  // of Persisters gone
  PersistCounters retired_[static_cast<size_t>(WriteCause::kCount)] LAMELLA_GUARDED_BY(mu_);
};

class Persister {
 public:
  Persister(Gate* gate, WriteCause cause);
  ~Persister();
  Persister(const Persister&) = delete;
  Persister& operator=(const Persister&) = delete;

  void Flush(const void* p, size_t n, const Site& site = Site::current());
  void Fence(const Site& site = Site::current());
  void Persist(const void* p, size_t n, const Site& site = Site::current()) {
    Flush(p, n, site);
    Fence(site);
  }
  void Publish(PmWord* word, uint64_t value, const Site& site = Site::current()) {
    Store(word, value, site);
    Persist(word, sizeof(*word), site);
  }
  void Copy(void* destination, const void* source, size_t n, const Site& site = Site::current());
  /// REQUIRES: destination is line-aligned; destination and source have room for n rounded up to
  /// whole lines, and what is after n in the source's last line may be stored too. The first
  /// `skip` bytes are there already, with the same content (the durable head of an open line): they
  /// may be stored again, and like the padding are not counted.
  void CopyLines(void* destination, const void* source, size_t n, size_t skip,
                 const Site& site = Site::current());
  void Store(PmWord* word, uint64_t value, const Site& site = Site::current());

  Gate* gate() const { return gate_; }
  PersistCounters counters() const;

 private:
  // one writer, so no read-modify-write is needed
  void Count(std::atomic<uint64_t>& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void CountLines(uintptr_t first_line, uintptr_t last_line);

  Gate* const gate_;
  const WriteCause cause_;
  friend class Gate;
  std::atomic<uint64_t> bytes_stored_{0};
  std::atomic<uint64_t> lines_flushed_{0};
  std::atomic<uint64_t> fences_{0};
  std::atomic<uint64_t> blocks_touched_{0};
  uint64_t last_block_ = ~uint64_t{0};
  uint64_t pending_lines_ = 0;  // since the last fence, for the emulated write delay
};

}  // namespace lamella

#endif  // LAMELLA_PMEM_GATE_H_
