// ListDb is the design of the dissertation's chapter VI: DRAM MemTables, L0 PMTables (overlapping,
// newest first) and one L1 PMTable, all skiplists over records that were written once, to the log
// (index-unified logging). Flush writes links, zipper compaction moves links; records are copied
// only to gather the living of mostly dead chunks.
//
// I1: L0 tables are merged oldest first, so L1 never holds a newer version of a key than an L0
//     table.
// I2: only checkpointed tables are merged: a table whose links are durable, and whose records lie
//     before the log boundary. A crash then never re-sorts records that L1 links already.
// I3: a table is merged only when every Get that was under way when it was made is over (its
//     epoch): the versions it makes obsolete are then needed by registered snapshots only.
// I4: a chunk is freed when Evacuation's I1 holds of it, on page media with the number synced noted
//     as such (SyncAll); and no current table leads to a record in it: a merge that the catalog
//     has as done may still fail after that edit.
// I5: L1 is changed by one job or CompactRange at a time (JobBoard).
// Threads: as Engine says.
#ifndef LAMELLA_ENGINE_LISTDB_LISTDB_H_
#define LAMELLA_ENGINE_LISTDB_LISTDB_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/striped_counter.h"
#include "engine/buffered_engine.h"
#include "engine/catalog_state.h"
#include "engine/flush_arena.h"
#include "engine/held_up_end.h"
#include "engine/level_space.h"
#include "engine/listdb/job_picker.h"
#include "engine/listdb/state.h"
#include "engine/pending_frees.h"
#include "engine/pm_level.h"
#include "engine/pm_tables.h"
#include "engine/table_memory.h"
#include "index/lookup_cache.h"
#include "index/skiplist_iterator.h"

namespace lamella {

/// Chunk kinds of this engine.
inline constexpr ChunkKind kListDbHeads =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst));
inline constexpr ChunkKind kListDbArena =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 1);
/// Owners of arena chunks: what a copying flush writes, and what gc relocates.
inline constexpr uint32_t kFlushArena = 0;
inline constexpr uint32_t kGcArena = 1;
struct ListDbTables final : TableSet {
  PmTables l0;
};

class ListDb final : public BufferedEngine, private LevelSpaceOwner {
 public:
  explicit ListDb(const EngineContext& context);

  Status Load() override;
  Status Mend() override;
  std::optional<Job> PickJob(JobClass job_class) override;
  Status CompactRange(std::string_view begin, std::string_view end) override;
  Status Close() override;
  void AddStats(Stats* stats) const override;
  std::string Describe() const override;
  Status Check(CheckReport* report) override;
  Status Rebuild(RepairReport* report) override;

 protected:
  Status FlushMemTable(const std::shared_ptr<MemTable>& memtable) override;
  Candidates FindCandidates(std::string_view key) override;
  Lookup SearchTables(const TableSet& tables, const InternalKey& target,
                      const Candidates& candidates, bool verify, EpochPin* pin) override;
  void AddTableIterators(const std::shared_ptr<const TableSet>& tables, bool verify,
                         std::vector<std::unique_ptr<InternalIterator>>* iterators) override;
  uint64_t UncompactedBytes(const TableSet& tables) const override;
  uint64_t BufferedBytesMax() const override { return memory_.BufferedBytesMax(CacheBytes()); }
  std::optional<Unmerged> UnmergedOf(const TableSet& tables) const override;
  uint64_t LiveBytes() const override { return l1_.settled_live_bytes(); }
  bool ReclaimSpace() override;

 private:
  Lookup FindInTables(const ListDbTables& tables, const InternalKey& target, bool verify,
                      HopTally* hops, bool* in_l1) const;
  // flush.cc
  Status MakeTable(const std::shared_ptr<MemTable>& memtable);
  Status Checkpoint();
  uint64_t CacheBytes() const {
    return lookup_cache_.memory_bytes() + l1_.second_chance()->memory_bytes();
  }
  /// Memory is short, and this store holds more of it than its share.
  bool MustShrink();
  Status Shrink();

  ListDbPicture Picture() LAMELLA_REQUIRES(jobs_.mu);
  std::optional<Job> MakeJob(const PickedJob& picked) LAMELLA_REQUIRES(jobs_.mu);
  /// A job that has all of `has` until it ends.
  Job Begin(uint32_t has, const char* name, std::function<Status()> run) LAMELLA_REQUIRES(jobs_.mu);
  Job L1Job(const char* name, std::function<Status()> run) LAMELLA_REQUIRES(jobs_.mu);

  // merge.cc
  Status MergeOldest();
  Status MergeCurrentTables();

  // warm.cc
  void BuildTrees();
  void WarmCaches();

  // space.cc
  std::function<Standing(const Filled&)> Standings() const override;
  std::vector<SequenceGap> VoidSequences() const override;
  std::unique_ptr<CopyRoom> NewCopyRoom() override {
    return std::make_unique<CompactionRoom>(this);
  }
  bool HasRecords(const ChunkRef& chunk) const override {
    return chunk.kind == ChunkKind::kLog || chunk.kind == kListDbArena;
  }
  Recount::IsDead WhatIsDead() const override;
  Status NoteCounted() override;
  Status ClearEnd();

  // recovery.cc
  Status CreateEmpty(bool rebuilding);
  Status OpenCatalog();
  void FreeStrayChunks();
  bool MustRebuild() const;
  /// Corruption: damage took records, and they may not be lost.
  Status RebuildAll(bool may_lose, RepairReport* report);
  Status LoadStore();
  Status MendVoids();
  void MakeArenas();

  bool IsLinkedInto(const std::vector<DamagedPlace>& places) const override;

  // rebuild.cc
  GatherBasis BasisOfGathering(bool power_cut, bool catalog_lost) const;

  std::shared_ptr<const ListDbTables> CurrentTables() const {
    return std::static_pointer_cast<const ListDbTables>(CurrentReadSet()->tables);
  }
  /// Installs what `change(&l0)` makes of the current tables, in place of `flushed` where one is
  /// given. Throws std::bad_alloc, and nothing has changed.
  void ChangeTables(const std::function<void(PmTables*)>& change,
                    const MemTable* flushed = nullptr) {
    const MutexLock lock(&tables_mu_);
    auto tables = std::make_shared<ListDbTables>(*CurrentTables());
    change(&tables->l0);
    Install(tables, flushed);
  }
  /// Makes everything written so far survive a power cut. Page media: and notes up to where that
  /// is; Pool::Sync alone does not, and needs no memory.
  Status SyncAll() override;

  const ListDbOptions options_;
  const TableMemory memory_;
  PendingFrees pending_frees_;
  DeadBytes dead_;
  LookupCache lookup_cache_;
  PmLevel l1_;
  LevelSpace space_;
  bool unified_ = true;  // constant after Load

  CatalogState<ListDbState> catalog_;

  Mutex tables_mu_;                           // held while the table set is replaced
  std::atomic<uint64_t> flushed_through_{0};  // newest sequence number that a table may hold

  // What jobs have: each thing as a whole.
  enum : uint32_t { kL1, kCheckpoint, kLookupCache, kPoolEnd };
  // Of the merge under way, until a thread takes it.
  std::shared_ptr<Zipper> merge_to_scan_ahead_ LAMELLA_GUARDED_BY(jobs_.mu);
  HeldUpEnd held_up_end_ LAMELLA_GUARDED_BY(jobs_.mu);
  bool merge_all_ LAMELLA_GUARDED_BY(jobs_.mu) = false;
  bool half_merged_ LAMELLA_GUARDED_BY(jobs_.mu) = false;      // a merge has begun and is not done
  bool caches_are_cold_ LAMELLA_GUARDED_BY(jobs_.mu) = false;  // after an open

  // Used by the one job that changes L1.
  Persister compaction_persister_;
  std::vector<LogPosition> log_in_l1_;  // per shard: before this it is merged, and in no table (I4)
  uint64_t arena_first_ordinal_ = 0;    // of this session's arena chunks
  FlushArena flush_arena_;
  Persister flush_persister_;
  Persister checkpoint_persister_;
  std::atomic<uint64_t> checkpoints_{0};
  std::atomic<uint64_t> compactions_{0};
  StripedCounter gets_lookup_cache_;
  StripedCounter gets_l0_;
  StripedCounter gets_l1_;
  StripedCounter hops_local_;
  StripedCounter hops_remote_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LISTDB_LISTDB_H_
