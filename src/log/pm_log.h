// PmLog is the write-ahead log in persistent memory: shards of chunks, one appender each. A writer
// takes the shard of its CPU and holds its lock over append, fence and MemTable insert, so the
// records of a shard become durable in sequence order. Large writes have shards of their own, for
// their copying would keep others waiting: such a writer holds the shard's `staging` while it
// copies, and the shard's lock from drawing its numbers on, like everybody.
// I1: within a shard, records lie in the order of their sequence numbers, and only the last,
//     unfenced write can be torn. So what does not validate is damage, and no tear, where the
//     chunk's WholeBytes or a later write's record lies after it. Of numbers that no record has
//     those are lost, and were not torn, up to which any record says that all were published.
// I2: a batch lies in one shard, its records adjacent; `batch_remaining` counts down to 0.
// I3: whoever holds the locks of all shards sees no write between its numbers and its MemTable. A
//     large one may be being copied: it lies after the position that SealAll gives for its shard,
//     and on lines of its own.
// Threads: see each member.
#ifndef LAMELLA_LOG_PM_LOG_H_
#define LAMELLA_LOG_PM_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "base/spare_memory.h"
#include "log/record_appender.h"

namespace lamella {

class PmLog {
 public:
  struct alignas(128) Shard {
    Mutex mu;
    Mutex staging;                             // of large writes' shards; taken before mu
    std::unique_ptr<RecordAppender> appender;  // guarded by mu; in large writes' shards by staging
    Random random{0};                          // guarded by what guards the appender, as the next
    SpareMemory spare;                         // for the MemTable that its records enter
    // guarded by mu; of large writes' shards: after the last write
    LogPosition end;
    // Statistics, written by the lock's holder, read by anyone.
    std::atomic<uint64_t> puts{0};
    std::atomic<uint64_t> deletes{0};
    std::atomic<uint64_t> batches{0};
    std::atomic<uint64_t> user_bytes{0};
  };

  /// `shard_count` shards and as many for large writes, spread over the pool's parts.
  /// `next_ordinal[i]`: above that of every chunk shard i has or had; it may tell of more shards
  /// than there are now.
  PmLog(Pool* pool, uint32_t shard_count, const std::vector<uint64_t>& next_ordinal);

  /// All shards: those of large writes are the second half.
  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
  Shard& shard(uint32_t i) { return *shards_[i]; }
  /// Takes the shard of the CPU that the caller runs on, or, where its holder may have lost the
  /// processor, any that is free: by its lock, and for a large write by `staging`. `turn`: the one
  /// so many after it, for who found no space in those before.
  Shard* TakeShard(std::unique_lock<Mutex>* lock, uint32_t turn = 0) {
    return Take(0, turn, &Shard::mu, lock);
  }
  Shard* TakeShardForLarge(std::unique_lock<Mutex>* staging, uint32_t turn = 0) {
    return Take(shards_.size() / 2, turn, &Shard::staging, staging);
  }
  /// How many there are to take from.
  uint32_t turns() const { return shard_count() / 2; }

  /// Ends every open line and gives the positions after everything written, also in shards that
  /// only earlier sessions had: one that comes back must not begin at an ordinal that is known as
  /// merged. REQUIRES: the caller holds every shard's lock.
  std::vector<LogPosition> SealAll();
  /// Ends the chunks that are being filled and of which `leave` is true: the shard's next record
  /// begins another one.
  /// REQUIRES: the caller holds no shard's lock.
  void LeaveChunks(const std::function<bool(const ChunkRef&)>& leave);

 private:
  Shard* Take(size_t first, uint32_t turn, Mutex Shard::* mutex, std::unique_lock<Mutex>* lock);

  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<LogPosition> former_;  // the ends of shards that this session does not write
};

/// A record found in the log.
struct LogEntry {
  uint64_t tag = 0;
  PmPtr place;
  uint32_t batch_remaining = 0;
};

/// What a log held after a boundary.
struct LogContents {
  std::vector<LogEntry> entries;       // in sequence order, without what was cut
  uint64_t sequence_last = 0;          // of the entries kept, or the base
  uint64_t sequence_seen = 0;          // highest that any record found had, or that is void
  std::vector<uint64_t> next_ordinal;  // per shard
};

/// Sequence numbers [first, last] that an earlier recovery declared void.
struct SequenceGap {
  uint64_t first = 0;
  uint64_t last = 0;
};
/// True if one of the gaps, which ascend, covers the number.
bool IsVoid(const std::vector<SequenceGap>& gaps, uint64_t sequence);
/// Declares (last, seen] void, but for what is void already. REQUIRES: no gap ends after `seen`.
void AddGap(std::vector<SequenceGap>* gaps, uint64_t last, uint64_t seen);

/// Reads all shards after `boundary` (a missing element is a shard's start) and keeps the longest
/// run of sequence numbers that follows `base` without a hole, void ones skipped, ending at a
/// batch's end (P3).
/// `gaps` ascend. Corruption: damage that a torn last write of this session or of an earlier one
/// cannot explain (I1), a hole below what was published, or one where an earlier recovery had none.
/// With `may_have_holes` (page media after a power cut) damage anywhere is a hole like any other,
/// and ends the run.
Status ReadLog(const Pool& pool, const std::vector<LogPosition>& boundary, uint64_t base,
               const std::vector<SequenceGap>& gaps, bool may_have_holes, LogContents* contents);

/// Visits each record of a chunk (or run) that validates, in order of offset, from `from` on.
/// Returns the offset after the last valid record. `damaged` (may be null) is told each place from
/// which valid records could be found only by searching, and where the next one is, before that one
/// is visited.
uint64_t ForEachRecord(const Pool& pool, const ChunkRef& chunk, uint64_t from,
                       const std::function<void(const Record*, PmPtr)>& visit,
                       const std::function<void(PmPtr from, PmPtr to)>& damaged);

/// How many numbers from after `base` up to `through` are neither void nor of any entry. REQUIRES:
/// entries ascend.
uint64_t CountMissing(const std::vector<LogEntry>& entries, uint64_t base,
                      const std::vector<SequenceGap>& gaps, uint64_t through);
/// How many records there can have been, at most, where none validates any more, in one chunk:
/// exact where their headers still say where each ends.
uint64_t RecordsLostAtMost(const Pool& pool, PmPtr from, PmPtr to);
/// How many records a chunk of which nothing is known but its place can hold, at most.
uint64_t RecordsInAtMost(const Pool& pool, const ChunkRef& chunk);

}  // namespace lamella

#endif  // LAMELLA_LOG_PM_LOG_H_
