// ZipperDbState is what ZipperDB keeps in the catalog: whole as a snapshot, and then what each edit
// changed of it.
// S1: lists are in the order of their ages, newest first: levels ascend, and of one level the list
//     that is filled comes before the one that is on its way down (frozen). There is at most one of
//     each. The last is the bottom list, which is neither frozen nor ever gone.
// S2: a chunk of records belongs to the list whose runs it is in. What is in no run, nor in the
//     copies of a merge under way, is free, whatever its descriptor says. What gc copied is the
//     bottom list's.
#ifndef LAMELLA_ENGINE_ZIPPERDB_STATE_H_
#define LAMELLA_ENGINE_ZIPPERDB_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lamella/status.h"
#include "log/pm_log.h"
#include "pool/pm_ptr.h"

namespace lamella {

/// Chunk kinds of this engine.
inline constexpr ChunkKind kZipperDbHeads =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst));
inline constexpr ChunkKind kZipperDbArena =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 1);
/// Owners of arena chunks: what flushes copy, what gc moves, and, for each level, what
/// log-structured compactions copied there: kMergeRuns + level.
inline constexpr uint32_t kFlushRuns = 0;
inline constexpr uint32_t kGcRuns = 1;
inline constexpr uint32_t kMergeRuns = 2;

/// With a factor of 2, and a level 0 of a megabyte, that is 64 GiB; more stays in the last.
inline constexpr uint32_t kZipperDbLevelsMax = 16;

/// The id of the bottom list.
inline constexpr uint64_t kBottomList = 1;

/// What a record takes in the pool beside its key and value, about.
inline constexpr uint64_t kRecordOverhead = 40;

/// Kinds of catalog edits: why the state changed. Kind 0 is the catalog's own snapshot.
enum class ZipperDbEdit : uint32_t {
  kNewList = 1,     // an empty list
  kFlushBegin = 2,  // a MemTable is copied, and its merge into level 0 starts (5.1.1)
  kFlushDone = 3,   // it is level 0's, the log boundary moved
  kFreeze = 4,      // a list takes no more: it is to go down
  kMergeBegin = 5,  // a level's merge into the next starts (5.1.2, 5.1.3)
  kMergeDone = 6,
  kGap = 7,     // recovery declared sequence numbers void
  kSynced = 8,  // page media: everything up to a sequence number is on the medium
  // the indexes are being rebuilt from the records; until done nothing in place counts
  kRebuildBegin = 9,
  kRebuildDone = 10,
  kCounted = 11,  // what is dead in each chunk was counted anew, or is to be at the next open
};

/// Chunks of an owner, by their ordinals: [first, end). Runs of records in key order.
struct Runs {
  uint32_t owner = 0;
  uint64_t first = 0;
  uint64_t end = 0;
  bool empty() const { return first >= end; }
  bool Contains(const ChunkRef& chunk) const {
    return chunk.owner == owner && chunk.ordinal >= first && chunk.ordinal < end;
  }
  bool operator==(const Runs&) const = default;
};

/// A merge under way: of a MemTable, or of a list.
struct MergeState {
  uint64_t into = 0;  // id of the list that takes it in; 0: none is under way
  Runs copies;        // what is merged; empty where the elements themselves are (zipper compaction)
  bool operator==(const MergeState&) const = default;
};

/// Of the oldest MemTable.
struct FlushState {
  MergeState merge;
  uint64_t last_sequence = 0;         // the newest number that the MemTable covers
  std::vector<LogPosition> boundary;  // its log lies before this, per shard
  bool operator==(const FlushState&) const = default;
};

struct ZipperListState {
  uint64_t id = 0;
  uint32_t level = 0;
  bool frozen = false;
  PmPtr heads;  // its SkipListHeads, at the start of a chunk
  uint64_t count = 0;
  uint64_t live_bytes = 0;     // keys and values of its puts
  uint64_t bytes = 0;          // of the records that were merged into it
  uint64_t last_sequence = 0;  // the newest of them
  MergeState merge;            // of it, into another
  std::vector<Runs> runs;      // S2

  bool Owns(const ChunkRef& chunk) const;
  /// Takes over chunks; adjacent runs become one.
  void Add(const Runs& more);
  bool operator==(const ZipperListState&) const = default;
};

struct ZipperDbState {
  uint64_t next_list_id = kBottomList + 1;
  std::vector<ZipperListState> lists;  // S1
  FlushState flush;                    // under way
  std::vector<LogPosition> boundary;   // the log before this is in lists, per shard
  uint64_t flushed_sequence = 0;       // up to here everything is
  uint64_t synced_sequence = 0;        // page media: up to here everything survives a power cut
  std::vector<SequenceGap> gaps;       // void sequence numbers, ascending
  bool rebuilding = false;
  bool uncounted = false;  // closed before the chunks were counted anew that a crash left

  /// REQUIRES: there is one of that id.
  ZipperListState* Find(uint64_t id);
  ZipperListState* bottom() { return &lists.back(); }
  const ZipperListState* bottom() const { return &lists.back(); }
  /// The list that a chunk of records belongs to; 0: none, and it is free (S2).
  uint64_t OwnerOf(const ChunkRef& chunk) const;
  /// It is of the copies that a merge under way links.
  bool IsBeingMerged(const ChunkRef& chunk) const;

  /// A snapshot.
  std::string Encode() const;
  /// Corruption for bytes that are no state.
  static Status Decode(std::string_view payload, ZipperDbState* state);
  /// An edit: what makes `before` this state. Its size goes by what changed.
  std::string EncodeChange(const ZipperDbState& before) const;
  /// Makes this the state after the edit. Corruption for bytes that are no edit of this state; it
  /// is not to be used then.
  Status Apply(std::string_view payload);
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ZIPPERDB_STATE_H_
