// Log is a write-ahead log of several shards, so that writers seldom meet: a writer takes the shard
// of its CPU and holds its lock over append, commit and entry into an index, so the records of a
// shard become durable in sequence order. Large writes have shards of their own, for their copying
// would keep others waiting: such a writer holds the shard's `staging` while it copies, and the
// shard's lock from drawing its numbers on, like everybody.
// I1: within a shard, records lie in the order of their sequence numbers.
// I2: a batch lies in one shard, its records adjacent; `batch_remaining` counts down to 0.
// I3: whoever holds the locks of all shards sees no write between its numbers and its entry. A
//     large one may be being copied: it lies after the position that SealAll gives for its shard,
//     and shares no unit of the medium with what is before it.
// Threads: see each member.
#ifndef LAMELLA_LOG_LOG_H_
#define LAMELLA_LOG_LOG_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "base/spare_memory.h"
#include "log/log_writer.h"

namespace lamella {

class Log {
 public:
  /// Not annotated for clang's analysis: which lock guards the writer depends on the shard.
  struct alignas(128) Shard {
    Mutex mu;
    Mutex staging;                      // of large writes' shards; taken before mu
    std::unique_ptr<LogWriter> writer;  // guarded by mu; in large writes' shards by staging
    Random random{0};                   // guarded by what guards the writer, as the next
    SpareMemory spare;                  // for the index that its records enter
    // guarded by mu; of large writes' shards: after the last write
    LogPosition end;
    // Statistics, written by the lock's holder, read by anyone.
    std::atomic<uint64_t> puts{0};
    std::atomic<uint64_t> deletes{0};
    std::atomic<uint64_t> batches{0};
    std::atomic<uint64_t> user_bytes{0};
  };

  /// A shard of each writer; the second half of them is for large writes. `former`: the ends of
  /// shards that earlier sessions had beyond these. `nodes`: shard i lies on NUMA node i % nodes.
  /// REQUIRES: an even number, not 0.
  Log(std::vector<std::unique_ptr<LogWriter>> writers, std::vector<LogPosition> former,
      uint32_t nodes = 1);
  virtual ~Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// All shards: those of large writes are the second half.
  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
  Shard& shard(uint32_t i) { return *shards_[i]; }
  const Shard& shard(uint32_t i) const { return *shards_[i]; }
  bool IsForLarge(uint32_t i) const { return i >= shard_count() / 2; }
  /// Takes the shard of the CPU that the caller runs on, one on its NUMA node, or, where its holder
  /// may have lost the processor, any that is free: by its lock, and for a large write by
  /// `staging`. For who found no space in a shard, the one after it, whoever has that: so each is
  /// asked once.
  Shard* TakeShard(std::unique_lock<Mutex>* lock, const Shard* after = nullptr) {
    return Take(0, after, &Shard::mu, lock);
  }
  Shard* TakeShardForLarge(std::unique_lock<Mutex>* staging, const Shard* after = nullptr) {
    return Take(shards_.size() / 2, after, &Shard::staging, staging);
  }
  /// How many there are to take from.
  uint32_t turns() const { return shard_count() / 2; }

  /// Takes every shard's lock.
  std::vector<std::unique_lock<Mutex>> LockAll();
  /// Ends what is open and gives the positions after everything written, also in shards that only
  /// earlier sessions had: one that comes back must not begin at an ordinal that is known as done
  /// with. REQUIRES: the caller holds every shard's lock.
  std::vector<LogPosition> SealAll();

 private:
  Shard* Take(size_t first, const Shard* after, Mutex Shard::* mutex,
              std::unique_lock<Mutex>* lock);
  size_t Nearest(size_t first) const;

  std::vector<std::unique_ptr<Shard>> shards_;
  const std::vector<LogPosition> former_;
  const uint32_t nodes_;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_LOG_H_
