// Gathering: the records of a pool, found without any index or log boundary. They say themselves
// what they are; so an index that is lost, or may be of another moment than the records, is made
// anew from them.
// Threads: nobody writes to the chunks that are read, but ForEachLiving's, as its caller says.
#ifndef LAMELLA_LOG_GATHER_H_
#define LAMELLA_LOG_GATHER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "log/pm_log.h"

namespace lamella {

/// A place where no record validates: between two that do, or after the last one and yet before
/// what was durable once. In one chunk.
struct DamagedPlace {
  PmPtr from;
  PmPtr to;
};

/// ForEachRecord, without the records that no write ever acknowledged (whose numbers recovery
/// declared void), nor the tear that a crash within their batch left among them; `damaged` is told
/// of what is missing before `whole`, the chunk's WholeBytes, too. Records may be appended
/// meanwhile. Returns the offset after the last valid record. A record that is not whole is none:
/// its place is damaged.
uint64_t ForEachLiving(const Pool& pool, const ChunkRef& chunk, uint64_t whole,
                       const std::vector<SequenceGap>& voids,
                       const std::function<void(const Record*, PmPtr)>& visit,
                       const std::function<void(const DamagedPlace&)>& damaged,
                       const IsWholeRecord& is_whole = nullptr);

/// What the records of a chunk are.
enum class RecordsOf : uint8_t {
  kNone,               // there are none
  kLog,                // as they were written
  kFlush,              // copies of the log's, their batches with them
  kGarbageCollection,  // copies of what was flushed: of batches that were whole and synced, and of
                       // which some records may be gone
};

/// A synced_sequence of a store whose catalog was lost.
inline constexpr uint64_t kSyncedUnknown = UINT64_MAX;

/// What is known beside the records.
struct GatherBasis {
  /// On page media: what was synced is there, and after it the longest run without a hole (P3).
  /// Else everything counts but a torn batch at the end.
  bool power_cut = false;
  bool catalog_lost = false;  // the rest of this says nothing then
  /// Flushed records of the log count by their copies: of the originals one shard may still have a
  /// version whose delete, in a chunk of another, is gone.
  bool flush_copies = false;
  std::vector<SequenceGap> gaps;
  std::vector<LogPosition> boundary;  // the log before this was flushed, per shard
  uint64_t flushed_sequence = 0;
  uint64_t synced_sequence = 0;
  std::function<RecordsOf(const ChunkRef&)> records_of;
  IsWholeRecord is_whole = nullptr;
};

/// Where the records of a chunk end.
struct ChunkReach {
  ChunkRef chunk;
  uint64_t bytes = 0;
};

struct Gathered {
  /// What validates and counts, by tag. Copies of one record lie side by side, last the one that
  /// asks for no more of its batch: gc's.
  std::vector<LogEntry> kept;
  /// What validates too, among others that count, and is a part of a write that was cut: whoever
  /// leaves it where it lies is to mark it, or another gathering might take it for flushed.
  std::vector<PmPtr> dropped;
  uint64_t sequence_seen = 0;  // of any record found, whole or not
  /// At most so many records that do not validate any more, or are not there though another says
  /// that they were published.
  uint64_t lost = 0;
  /// Of those, of which it is sure that no crash took them: with `power_cut` what was synced and
  /// not flushed, else what was whole once. An open is not to go on without them.
  uint64_t lost_to_damage = 0;
  std::vector<ChunkReach> reach;  // for NoteReach
};

/// The chunks' dead bytes stay as they are.
Gathered GatherRecords(Pool* pool, const GatherBasis& basis);

/// Once what was gathered is the store's, durably: the chunks' descriptors say how far their
/// records reach, so what is lost is reported once. Before, a repair that fails or is cut would
/// leave a log that lacks acknowledged records and no longer says so.
void NoteReach(const Pool& pool, const std::vector<ChunkReach>& reach);

}  // namespace lamella

#endif  // LAMELLA_LOG_GATHER_H_
