// PmLog is the log in persistent memory: shards of chunks of the pool, one appender each.
// I1: only the last, unfenced write of a shard can be torn. So what does not validate is damage,
//     and no tear, where the chunk's WholeBytes or a later write's record lies after it. Of numbers
//     that no record has those are lost, and were not torn, up to which any record says that all
//     were published.
// Threads: see each member.
#ifndef LAMELLA_LOG_PM_LOG_H_
#define LAMELLA_LOG_PM_LOG_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "log/log.h"
#include "log/record_appender.h"

namespace lamella {

/// The place of a record of this log.
constexpr PmPtr PlaceOf(Location location) { return PmPtr(location.word); }

/// Copies a record's RecordInput::beside to where it lies: flushed by the persister, not fenced.
using CopyBeside = std::function<void(const RecordInput& record, Persister* persister)>;

class PmLog final : public Log {
 public:
  /// `shard_count` shards and as many for large writes, spread over the pool's parts.
  /// `next_ordinal[i]`: above that of every chunk shard i has or had; it may tell of more shards
  /// than there are now. `copy_beside`: for records that have something beside them; the record's
  /// fence is that of both.
  PmLog(Pool* pool, uint32_t shard_count, const std::vector<uint64_t>& next_ordinal,
        const CopyBeside& copy_beside = nullptr);

  /// Ends the chunks that are being filled and of which `leave` is true: the shard's next record
  /// begins another one.
  /// REQUIRES: the caller holds no shard's lock.
  void LeaveChunks(const std::function<bool(const ChunkRef&)>& leave);
  /// A shard's; guarded as its writer is.
  RecordAppender* appender(uint32_t shard);
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
  bool operator==(const SequenceGap&) const = default;
};
/// True if one of the gaps, which ascend, covers the number.
bool IsVoid(const std::vector<SequenceGap>& gaps, uint64_t sequence);
/// The first number at or after `sequence` that is not void. `gaps` ascend.
uint64_t SkipGaps(const std::vector<SequenceGap>& gaps, uint64_t sequence);
/// Declares (last, seen] void, but for what is void already. REQUIRES: no gap ends after `seen`.
void AddGap(std::vector<SequenceGap>* gaps, uint64_t last, uint64_t seen);

/// True if what a record refers to is all there (a value that lies elsewhere, made durable by the
/// fence that makes the record durable): a record of which it is false does not count, and is a
/// tear or damage, as one would be in its place that does not validate. Null: all are.
using IsWholeRecord = std::function<bool(const Record&)>;

/// Reads all shards after `boundary` (a missing element is a shard's start) and keeps the longest
/// run of sequence numbers that follows `base` without a hole, void ones skipped, ending at a
/// batch's end (P3).
/// `gaps` ascend. Corruption: damage that a torn last write of this session or of an earlier one
/// cannot explain (I1), a hole below what was published, or one where an earlier recovery had none.
/// With `may_have_holes` (page media after a power cut) damage anywhere is a hole like any other,
/// and ends the run. Numbers of records that are not whole are seen, though: they are not drawn
/// again, and so are void once and for all.
Status ReadLog(const Pool& pool, const std::vector<LogPosition>& boundary, uint64_t base,
               const std::vector<SequenceGap>& gaps, bool may_have_holes, LogContents* contents,
               const IsWholeRecord& is_whole = nullptr);
/// What a power cut on a page medium left of a log (`may_have_holes`) lacks nothing that is known
/// to have been synced; else Corruption.
Status CheckSynced(const Pool& pool, const std::vector<SequenceGap>& gaps,
                   const LogContents& contents);

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
