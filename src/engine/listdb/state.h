// ListDbState is what ListDB keeps in the catalog: whole as a snapshot, and then what each edit
// changed of it.
#ifndef LAMELLA_ENGINE_LISTDB_STATE_H_
#define LAMELLA_ENGINE_LISTDB_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/pm_table_state.h"
#include "lamella/status.h"
#include "log/pm_log.h"
#include "pool/pm_ptr.h"

namespace lamella {

/// Kinds of catalog edits: why the state changed. Kind 0 is the catalog's own snapshot.
enum class ListDbEdit : uint32_t {
  kCheckpoint = 1,  // L0 tables made persistent, the log boundary moved (6.3.4)
  kMergeBegin = 2,  // a zipper compaction starts (6.5)
  kMergeDone = 3,
  kGap = 4,     // recovery declared sequence numbers void
  kSynced = 5,  // page media: everything up to a sequence number is on the medium
  // the indexes are being rebuilt from the records; until done nothing in place counts
  kRebuildBegin = 6,
  kRebuildDone = 7,
  kCounted = 8,  // what is dead in each chunk was counted anew, or is to be at the next open
};

struct ListDbState {
  uint32_t lanes = 1;
  PmPtr l1_heads;  // the SkipListHeads of L1, at the start of a chunk
  uint64_t l1_count = 0;
  uint64_t live_bytes = 0;  // keys and values of L1's puts
  uint64_t next_table_id = 1;
  std::vector<PmTableState> l0;  // oldest first
  // id of the table that a zipper compaction is merging; 0 for none
  uint64_t merging = 0;
  std::vector<LogPosition> boundary;  // the log before this is in tables, per shard
  uint64_t flushed_sequence = 0;      // up to here everything is in checkpointed tables
  std::vector<LogPosition> merged;    // the log before this is in L1 or dead, per shard
  uint64_t merged_sequence = 0;       // newest of the tables that were merged into L1
  uint64_t synced_sequence = 0;       // page media: up to here everything survives a power cut
  std::vector<SequenceGap> gaps;      // void sequence numbers, ascending
  bool rebuilding = false;
  bool uncounted = false;  // closed before the chunks were counted anew that a crash left

  /// A snapshot.
  std::string Encode() const;
  /// Corruption for bytes that are no state.
  static Status Decode(std::string_view payload, ListDbState* state);
  /// An edit: what makes `before` this state. Its size goes by what changed.
  std::string EncodeChange(const ListDbState& before) const;
  /// Makes this the state after the edit. Corruption for bytes that are no edit of this state; it
  /// is not to be used then.
  Status Apply(std::string_view payload);
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LISTDB_STATE_H_
