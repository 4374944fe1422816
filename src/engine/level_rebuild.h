// Rebuilding a level from the records alone: they are the truth, every index is a cache.
// Threads: one, before the store is open.
#ifndef LAMELLA_ENGINE_LEVEL_REBUILD_H_
#define LAMELLA_ENGINE_LEVEL_REBUILD_H_

#include <cstdint>
#include <vector>

#include "engine/dead_bytes.h"
#include "engine/evacuation.h"
#include "index/pm_skiplist.h"
#include "lamella/db.h"
#include "log/gather.h"
#include "log/pm_log.h"
#include "memtable/head_tree.h"

namespace lamella {

/// Enters one record of each version of `kept` (by tag, copies side by side) into the tree: one
/// that has links, or, where a plain log's has no room for them, a copy made in `arenas`, which are
/// left sealed. The others are marked obsolete and counted dead. NoSpace: there was none for a
/// copy.
Status EnterRebuilt(Pool* pool, const std::vector<LogEntry>& kept, Evacuation* arenas,
                    DeadBytes* dead, Persister* persister, HeadTree* tree);

struct LinkedRecords {
  uint64_t count = 0;
  uint64_t live_bytes = 0;  // keys and values of them
};

/// Once the catalog is open, or lost: it is not known what was synced (kSyncedUnknown), so that all
/// that validates is to be kept. Says so where it is a rebuilding that was cut which goes on.
bool IsSyncedUnknown(const Pool& pool, bool catalog_lost, uint64_t synced_sequence,
                     RepairReport* report);

/// Links the newest version of each key of the tree, unless that is a delete, into the list, which
/// is empty; marks the older ones. Durable on return.
LinkedRecords LinkRebuilt(const HeadTree& tree, const PmSkipList& list, DeadBytes* dead,
                          Persister* persister);

/// All of a store in one level, and what its state is to say.
struct RebuiltLevel {
  PmPtr heads;  // in a chunk that no state names yet
  LinkedRecords linked;
  uint64_t records_lost = 0;
  uint64_t sequence_last = 0;        // the newest that is kept
  std::vector<SequenceGap> dropped;  // before it, of what was dropped; of none a copy is kept
  uint64_t sequence_seen = 0;        // the newest that any record has
  std::vector<LogPosition> log_end;  // the log that is there lies before this, per shard
  std::vector<ChunkReach> reach;     // for NoteReach
};

/// Both of the above, from what GatherRecords gathers. Durable on return; until a state names it, a
/// crash leaves what can be rebuilt again. `may_lose`: else damage that took acknowledged records
/// is Corruption, and nothing is changed. `list_id` as of ClaimHeads.
Status RebuildLevel(Pool* pool, const GatherBasis& basis, bool may_lose, ChunkKind heads,
                    bool braided, Evacuation* arenas, DeadBytes* dead, Persister* persister,
                    RebuiltLevel* level, uint64_t list_id = 0);

/// Adds to the numbers that are void those of all that the level left out, or another rebuilding
/// would bring it back, or take a tear before it for damage. Returns the newest number there was;
/// `flushed_sequence` is one that counts.
uint64_t DeclareVoid(const RebuiltLevel& level, uint64_t flushed_sequence,
                     std::vector<SequenceGap>* gaps);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LEVEL_REBUILD_H_
