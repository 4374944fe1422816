// FlushArena is where flushes copy records to, in key order and with room for links, in designs
// whose tables do not lie in the log (ListDB's baseline of a plain log).
// I1: from Begin on, until End, chunks of the arena from floor() on are the flush's: gc looks at
//     the floor before it looks at the tables, and so sees the copies in one of the two.
// Threads: the one that flushes; floor() from any.
#ifndef LAMELLA_ENGINE_FLUSH_ARENA_H_
#define LAMELLA_ENGINE_FLUSH_ARENA_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/dead_bytes.h"
#include "index/lookup_cache.h"
#include "log/record_appender.h"
#include "memtable/memtable.h"

namespace lamella {

class FlushArena {
 public:
  /// All outlive it. `lookup_cache`: which names what was flushed.
  FlushArena(Pool* pool, DeadBytes* dead, LookupCache* lookup_cache)
      : pool_(pool), dead_(dead), lookup_cache_(lookup_cache) {}
  FlushArena(const FlushArena&) = delete;
  FlushArena& operator=(const FlushArena&) = delete;

  /// Copies go to chunks of this kind and owner, from `next_ordinal` on.
  void Start(ChunkKind kind, uint32_t owner, uint64_t next_ordinal);
  /// A flush begins. The first ordinal that its copies may be in.
  uint64_t Begin();
  /// Copies the MemTable's records, and enters the copies into a tree of their own. NoSpace;
  /// Corruption: one is damaged, which its copy would not tell.
  Status Copy(const MemTable& memtable, HeadTree* copied);
  /// The flush is over: its table is installed.
  void End();
  /// The flush is over and failed, before Begin perhaps: what it has copied so far is dead,
  /// durably. The next try copies all of it again.
  void Drop(Persister* persister);
  /// Chunks of the arena from this ordinal on may have copies of the flush under way.
  uint64_t floor() const { return floor_.load(std::memory_order_seq_cst); }
  /// Nothing is flushed any more: ends the open chunk.
  void Close() { appender_->CloseChunk(); }

 private:
  uint64_t NextOrdinal() const;

  Pool* const pool_;
  DeadBytes* const dead_;
  LookupCache* const lookup_cache_;
  std::unique_ptr<RecordAppender> appender_;  // constant after Start
  std::vector<PmPtr> copies_;                 // of the flush under way
  std::atomic<uint64_t> floor_{0};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_FLUSH_ARENA_H_
