// ZipperDb is the design of the dissertation's chapter V: DRAM MemTables with a log in the pool,
// and one persistent skiplist for each level, level 0 too. A full MemTable is copied in key order
// and merged into level 0; a full level goes down into the next one, in place within a group of
// levels (zipper compaction), copied in key order from one group to the next (log-structured
// compaction).
//
// A level that is full is frozen, and merged down as a whole while the next one fills above it. The
// bottom list is as deep as its size asks for: a small store is this list alone, and when it
// outgrows its level, it is that of the next, without a copy.
//
// Z1: lists are merged in the order of their age: what a list has of a key is newer than what those
//     after it have (state.h, S1). All that a list has was written in one stretch of sequence
//     numbers.
// Z2: a MemTable is merged only when every Get that was under way when it was sealed is over: the
//     versions that it makes obsolete are then needed by registered snapshots only. So are those
//     that a list makes obsolete further down: its records were MemTables' once.
// Z3: a list that was merged in place leads on into the one that took it in (Zipper I1): who has it
//     still finds in it all that it had and is needed: that was linked before its first element
//     was, and stays. One that was copied stays as it was. Its chunks, and in both cases its
//     heads, are freed once nobody is left who may have it.
// Z4: a delete goes from the bottom list only: elsewhere it may hide what lies further down. It
//     was merged after what it hides was, so who holds back chunks with that holds back the delete,
//     too (PmLevel I1).
// Z5: a list is changed by one job or call at a time: the bottom list and the ways down by claims
//     of the JobBoard, level 0 by the one that flushes.
// Z6: only the bottom list's chunks are evacuated. What is dead further up comes down with the
//     list (in place), or is left behind (copied).
// Threads: as Engine says.
#ifndef LAMELLA_ENGINE_ZIPPERDB_ZIPPERDB_H_
#define LAMELLA_ENGINE_ZIPPERDB_ZIPPERDB_H_

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/striped_counter.h"
#include "engine/buffered_engine.h"
#include "engine/catalog_state.h"
#include "engine/held_up_end.h"
#include "engine/level_space.h"
#include "engine/pending_frees.h"
#include "engine/table_memory.h"
#include "engine/zipperdb/job_picker.h"
#include "engine/zipperdb/run_writer.h"
#include "engine/zipperdb/state.h"
#include "engine/zipperdb/zipper_list.h"

namespace lamella {

class ZipperDb final : public BufferedEngine, private LevelSpaceOwner {
 public:
  explicit ZipperDb(const EngineContext& context);

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
  Lookup SearchTables(const TableSet& tables, const InternalKey& target,
                      const Candidates& candidates, bool verify, EpochPin* pin) override;
  void AddTableIterators(const std::shared_ptr<const TableSet>& tables, bool verify,
                         std::vector<std::unique_ptr<InternalIterator>>* iterators) override;
  uint64_t UncompactedBytes(const TableSet&) const override { return 0; }
  uint64_t BufferedBytesMax() const override {
    return memory_.BufferedBytesMax(guides_bytes_.load());
  }
  std::optional<Unmerged> UnmergedOf(const TableSet& tables) const override;
  uint64_t LiveBytes() const override { return bottom_->level.settled_live_bytes(); }
  uint32_t CompactionDelayNs(const TableSet& tables) const override;
  bool ReclaimSpace() override;

 private:
  // What jobs have: kTop what flushes merge into, kWayDown + k the frozen list of level k and the
  // one that it goes into, unless that is the bottom list.
  enum : uint32_t { kPoolEnd, kBottom, kTop, kWayDown };

  ZipperDbPicture Picture() LAMELLA_REQUIRES(jobs_.mu);
  std::optional<Job> MakeJob(const PickedZipperDbJob& picked) LAMELLA_REQUIRES(jobs_.mu);
  Job Begin(Claims claims, const char* name, std::function<Status()> run)
      LAMELLA_REQUIRES(jobs_.mu);
  /// All ways down and the bottom list.
  static Claims Ways();
  bool GoesToBottom(const UpperList& frozen, const ZipperDbTables& tables) const;
  Claims WayOf(const UpperList& frozen, const ZipperDbTables& tables) const;
  /// Of who fills a level's list (Z5).
  static Claims FillingOf(uint32_t level);
  /// Nothing is on its way into the list, nor a frozen one before it.
  bool MayBeFrozen(const UpperList& upper, const ZipperDbTables& tables) const;
  std::optional<uint32_t> FullLevel(const ZipperDbTables& tables) const LAMELLA_REQUIRES(jobs_.mu);
  /// The state of record says of a merge into the bottom list that it is under way.
  bool IsMergingIntoBottom() const;
  bool HoldsTooMuch(const ReadSet& read_set) const;
  uint64_t merges() const {
    return in_place_.load(std::memory_order_relaxed) + copied_.load(std::memory_order_relaxed);
  }
  Status Shrink();
  uint64_t GuideBytes() const;
  /// Divides the guides' share of the memory budget among the lists.
  void ShareGuides();

  // flush.cc
  JobBoard::Held TakeTop();
  Status MergeMemTable(const MemTable& memtable);
  bool HasPut(std::string_view key) const;
  Status CopyMemTable(const MemTable& memtable, SortedRun* run);
  Status FillLevel(uint32_t level, std::shared_ptr<ZipperList>* list);
  Status MergeInto(ZipperList* list, const std::vector<PmPtr>& elements, WriteCause cause);
  Status FinishFlush(const MemTable& memtable, const SortedRun& run, ZipperList* list);
  /// What an edit says of a list that took so many bytes in: it may be full by now, or, if it is
  /// the bottom list, that of a deeper level. Where the edit fails the list has what it had.
  void NoteMerged(ZipperDbState* state, ZipperListState* into, ZipperList* list,
                  uint64_t bytes) const;
  uint64_t BytesMax(uint32_t level) const;
  uint32_t LevelOf(uint64_t bytes) const;

  // merge.cc
  /// Where a list goes, and how.
  struct WayDown {
    bool to_bottom = false;  // not to the next level
    bool in_place = false;   // whatever the groups are
  };
  Status MergeDown(uint64_t id, WayDown way);
  Status BeginMerge(ZipperListState* from, WayDown way, SortedRun* run);
  Status FinishMerge(const ZipperListState& from, const SortedRun& run);
  Status Sink(uint64_t id, uint32_t level);
  Status CopyList(const ZipperList& list, uint32_t level, SortedRun* run);
  Status ElementsOf(const ZipperListState& from, SortedRun* run) const;
  Status MergeAll(bool in_place);
  Status FinishMerges();
  Status FreezeFull(uint32_t level);
  Status Freeze(const UpperList& upper);
  Status FreeGone();
  Status FitBottom();
  std::shared_ptr<ZipperList> ListOf(uint64_t id) const;

  // space.cc
  std::function<Standing(const Filled&)> Standings() const override;
  std::vector<SequenceGap> VoidSequences() const override { return catalog_.Get().gaps; }
  bool IsLinkedInto(const std::vector<DamagedPlace>& places) const override;
  std::unique_ptr<CopyRoom> NewCopyRoom() override {
    return std::make_unique<CompactionRoom>(this);
  }
  bool HasRecords(const ChunkRef& chunk) const override {
    return chunk.kind == ChunkKind::kLog || chunk.kind == kZipperDbArena;
  }
  Recount::IsDead WhatIsDead() const override;
  Status NoteCounted() override;
  Status CollectAfterFlush();
  Status ClearEnd();
  bool UppersTakeTooMuch(const ZipperDbTables& tables) const;

  // recovery.cc
  Status CreateEmpty(bool rebuilding);
  Status OpenCatalog();
  void FreeStrayChunks();
  void AddAllArenas(ZipperListState* bottom) const;
  /// Corruption: damage took records, and they may not be lost.
  Status RebuildAll(bool may_lose, RepairReport* report);
  bool MustRebuild() const { return pool_->LostUnsynced() || catalog_.Get().rebuilding; }
  Status LoadStore();
  Status LoadFlush(const FlushState& flush);
  Status RedoMerges();
  Status MendVoids();
  void MakeArenas();
  void Warm();
  std::shared_ptr<ZipperList> OpenList(const ZipperListState& state);
  PmLevel::Surroundings Around(bool is_last);
  GatherBasis BasisOfGathering(bool power_cut, bool catalog_lost) const;

  std::shared_ptr<const ZipperDbTables> CurrentTables() const {
    return std::static_pointer_cast<const ZipperDbTables>(CurrentReadSet()->tables);
  }
  /// `change(&state)`, durably, and the tables that the state then says, in place of `flushed`.
  /// `fresh` is a list that only the changed state has. Both may be null. The memory for both is
  /// there before either: what readers have and what the catalog says do not part. `change` is
  /// called twice. Throws std::bad_alloc, and nothing has changed.
  Status ChangeLists(ZipperDbEdit kind, const std::function<void(ZipperDbState*)>& change,
                     const MemTable* flushed = nullptr,
                     const std::shared_ptr<ZipperList>& fresh = nullptr);
  /// Makes everything written so far survive a power cut. Page media: and notes up to where that
  /// is.
  Status SyncAll() override;

  const ZipperDbOptions options_;
  const uint64_t level0_bytes_;
  const uint64_t guide_bytes_;
  const TableMemory memory_;
  PendingFrees pending_frees_;
  DeadBytes dead_;
  const std::shared_ptr<ZipperList> bottom_;
  LevelSpace space_;
  CatalogState<ZipperDbState> catalog_;

  Mutex tables_mu_;  // held while the lists change: of the state, and the table set
  Mutex gone_mu_;
  // Lists that went down, whose chunks are yet to be freed.
  std::list<ZipperListState> gone_ LAMELLA_GUARDED_BY(gone_mu_);
  HeldUpEnd held_up_end_ LAMELLA_GUARDED_BY(jobs_.mu);
  bool merge_all_ LAMELLA_GUARDED_BY(jobs_.mu) = false;
  bool guides_are_cold_ LAMELLA_GUARDED_BY(jobs_.mu) = false;  // after an open

  uint64_t gc_first_ordinal_ = 0;        // of this session's chunks of gc
  Persister persister_;                  // of opening
  std::shared_ptr<MemTable> cut_flush_;  // what a crash cut short, from Load to Mend
  std::unique_ptr<RunWriter> flush_run_;
  std::vector<std::unique_ptr<RunWriter>> merge_runs_;  // by the level that they are copied to
  std::atomic<uint64_t> guides_bytes_{0};  // of all guides, as of ShareGuides; guards nothing
  // Of the MemTable flushed last, what will be left once it is merged; guards nothing.
  std::atomic<double> live_share_{1};
  std::atomic<uint64_t> in_place_{0};
  std::atomic<uint64_t> copied_{0};
  StripedCounter gets_uppers_;
  StripedCounter gets_bottom_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ZIPPERDB_ZIPPERDB_H_
