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
// I4: a delete stays in L1 until no older version lies after it, and no iterator is left that sees
//     its table apart from L1 or stands on a version that was unlinked after it: walking
//     backwards, it would miss the delete and show what it deleted.
// I5: a chunk is freed when every record in it is unlinked (or was never linked), durably, and, on
//     page media, synced, with its number noted as such (SyncAll); and no table of now leads to
//     one: a merge may have ended for the catalog and fail after that.
// I6: L1 is changed by one job or CompactRange at a time (l1_busy_).
// Threads: as Engine says.
#ifndef LAMELLA_ENGINE_LISTDB_LISTDB_H_
#define LAMELLA_ENGINE_LISTDB_LISTDB_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/no_throw.h"
#include "base/striped_counter.h"
#include "engine/buffered_engine.h"
#include "engine/listdb/job_picker.h"
#include "engine/listdb/state.h"
#include "engine/pending_frees.h"
#include "engine/pinned_tombstones.h"
#include "engine/recount.h"
#include "engine/victims.h"
#include "index/lookup_cache.h"
#include "index/pm_skiplist.h"
#include "index/second_chance_cache.h"
#include "index/skiplist_iterator.h"
#include "index/zipper.h"
#include "log/gather.h"
#include "pool/catalog.h"

namespace lamella {

/// Chunk kinds of this engine.
inline constexpr ChunkKind kListDbHeads =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst));
inline constexpr ChunkKind kListDbArena =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 1);
/// Owners of arena chunks: what a copying flush writes, and what gc relocates.
inline constexpr uint32_t kFlushArena = 0;
inline constexpr uint32_t kGcArena = 1;
inline bool HasRecords(const ChunkRef& chunk) {
  return chunk.kind == ChunkKind::kLog || chunk.kind == kListDbArena;
}

/// An L0 PMTable: a skiplist through its records. Immutable but for the list's links, `settled` and
/// `merged`.
struct L0Table {
  L0TableState state;  // heads are filled in at the checkpoint
  // About what its records take, and how much of that its merging will add to what lives; unknown
  // for a while after an open.
  uint64_t bytes = 0;
  double live_share = 1;
  bool checkpointed = false;
  /// Every Get that was under way when the table was made is over (I3).
  std::shared_ptr<std::atomic<bool>> settled = std::make_shared<std::atomic<bool>>(false);
  /// All of it is in L1, for those who still see the table apart from it.
  std::shared_ptr<std::atomic<bool>> merged = std::make_shared<std::atomic<bool>>(false);
  // in DRAM: an L0 table is found through the catalog or re-sorted from the log
  std::shared_ptr<SkipListHeads> heads;
  std::shared_ptr<PmSkipList> list;
  /// The table's order in DRAM, kept while memory allows: a cache of the list.
  std::shared_ptr<const HeadTree> tree;
};

struct ListDbTables final : TableSet {
  std::vector<std::shared_ptr<const L0Table>> l0;  // newest first
};

class ListDb final : public BufferedEngine, private ZipperObserver {
 public:
  explicit ListDb(const EngineContext& context);
  ~ListDb() override;

  Status Recover() override;
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
  uint64_t BufferedBytesMax() const override;
  std::optional<Unmerged> UnmergedOf(const TableSet& tables) const override;
  uint64_t LiveBytes() const override {
    return settled_live_bytes_.load(std::memory_order_relaxed);
  }
  bool ReclaimSpace() override;

 private:
  Lookup FindInTables(const ListDbTables& tables, const InternalKey& target, bool verify,
                      HopTally* hops, bool* in_l1) const;
  PmPtr StartOf(const InternalKey& target) const;
  // flush.cc
  std::shared_ptr<L0Table> NewTable(const MemTable& memtable);
  /// One of those in a table that are looked up when it is flushed.
  struct Sampled {
    PmPtr place;
    bool replaced = false;  // by a newer version in the same table
  };
  void LinkRecords(const HeadTree& tree, L0Table* table, std::vector<Sampled>* sample);
  uint64_t FlushArenaEnd() const;
  Status CopyRecords(const MemTable& memtable, std::vector<PmPtr>* copies,
                     std::shared_ptr<HeadTree>* copied);
  Status MakeTable(const std::shared_ptr<MemTable>& memtable, std::vector<PmPtr>* copies);
  void DropCopies(std::span<const PmPtr> copies);
  Status Checkpoint();
  void FreeLogBeforeBoundary();
  uint64_t TablesBytesMax() const;
  void TrimTrees(ListDbTables* tables) const;
  /// Memory is short, and this store holds more of it than its share.
  bool MustShrink();
  Status Shrink();

  /// Waits for the job that changes L1; no other begins until GiveL1Back.
  void TakeL1();
  void GiveL1Back();
  /// Waits for a checkpoint under way; no other begins until EndCheckpoint.
  void BeginCheckpoint();
  void EndCheckpoint();
  ListDbPicture Picture() LAMELLA_REQUIRES(job_mu_);
  std::optional<Job> MakeJob(const PickedJob& picked) LAMELLA_REQUIRES(job_mu_);
  Job L1Job(const char* name, std::function<Status()> run) LAMELLA_REQUIRES(job_mu_);
  Job SpaceJob(const char* name, std::function<Status()> run) LAMELLA_REQUIRES(job_mu_);
  Job SideJob(const char* name, bool* under_way, std::function<Status()> run)
      LAMELLA_REQUIRES(job_mu_);
  void EndSideJob(bool* under_way);

  // merge.cc
  Status MergeOldest();
  Status CompactL1(std::string_view begin, std::string_view end);
  Status MergeTablesOfNow();
  void AwaitGets();
  Status ListElements(const L0Table& table, std::vector<PmPtr>* elements) const;
  bool Needed(uint64_t older, uint64_t newer) const override;
  void OnLinked(Record* record, PmPtr place) override;
  void OnObsolete(std::span<const Obsolete> records) override;
  Near Nearby(const InternalKey& key, uint32_t height_min, uint32_t lane) const override;

  // warm.cc
  void BuildTrees();
  std::vector<std::string> SampleL1() const;
  void WarmCaches();

  // space.cc
  double LiveShareOf(std::span<const Sampled> sample, const ListDbTables& older) const;
  void CountDead(PmPtr place, uint64_t bytes);
  void AddLive(const Record* record);
  void SubtractLive(const Record* record);
  ChunkSurvey Survey() const;
  SweepNeed::Now KeptVersions() const;
  Status CollectOnce(GcGoal goal);
  bool EndIsHeldUp() LAMELLA_REQUIRES(job_mu_);
  Status ClearEnd();
  Status SweepSome();
  void PrepareRecount(bool all);
  Status RecountSome();

  // gc.cc
  struct Victim;
  Status CollectGarbage(GcGoal goal, bool* progress);
  Status Evacuate(std::vector<ChunkRef> victims, bool* progress);
  Status GatherLive(std::vector<ChunkRef>* victims, std::vector<Victim>* live);
  bool ReserveCopiesOf(std::span<const Victim> live, CompactionRoom* room_in_first) const;
  Status CopyLive(std::span<const Victim> live, std::vector<Zipper::Move>* moves);
  Status Relocate(std::span<const Victim> live);
  enum class Drop : uint8_t { kDropped, kNeeded, kLater };  // later: once some reader is gone
  Drop DropIfDead(PmPtr before, PmPtr place);
  bool HasOlderBehind(PmPtr place) const;
  bool IsIdleDelete(PmPtr place) const;
  Status MarkDropped();
  void UnpinTombstones();
  Status SweepRange(std::string_view begin, std::string_view end, uint64_t elements_max,
                    std::string* rest);
  PmPtr FindBeforeInL1(const InternalKey& key) const;
  // unknown: damage may have led the search astray
  enum class InL1 : uint8_t { kLinked, kNotLinked, kUnknown };
  InL1 FindInL1(PmPtr place, PmPtr* before) const;
  InL1 InL1By(const Zipper::Place& found) const;
  void Forget(const Record* record, PmPtr place);

  // recovery.cc
  Status CreateEmpty(bool rebuilding);
  Status OpenCatalog();
  void FreeStrayChunks();
  void MarkOrphans();
  Status OpenTables(ListDbTables* tables);
  Status RecoverLog(std::shared_ptr<const ListDbTables> tables);
  void MakeArenas();
  uint32_t ShardCount() const;

  /// True if a list leads into one of them, or is damaged itself: then that is damage.
  bool IsLinkedInto(const std::vector<DamagedPlace>& places) const;

  // rebuild.cc
  GatherBasis BasisOfGathering(bool power_cut, bool catalog_lost) const;
  Status EnterRebuilt(const std::vector<LogEntry>& kept, HeadTree* tree);
  Status LinkRebuilt(const HeadTree& tree, SkipListHeads* heads, uint64_t* linked);

  std::shared_ptr<const ListDbTables> CurrentTables() const;
  /// Changes the state and appends it to the catalog. Durable on return; on failure nothing has
  /// changed.
  template <class Change>
  Status Edit(ListDbEdit kind, Change&& change) {
    const MutexLock lock(&catalog_mu_);
    ListDbState before = state_;
    Status s = NoThrow([&]() LAMELLA_REQUIRES(catalog_mu_) {
      change(&state_);
      return catalog_->Append(static_cast<uint32_t>(kind), state_.EncodeChange(before));
    });
    if (!s.ok()) state_ = std::move(before);
    return s;
  }
  bool LosesUnsynced() const { return pool_->gate()->medium() == MediumKind::kPage; }
  /// Makes everything written so far survive a power cut. Page media: and notes up to where that
  /// is; Pool::Sync alone does not, and needs no memory.
  Status SyncAll();

  const ListDbOptions options_;
  const uint64_t tables_bytes_max_;  // DRAM for MemTables and the trees of L0
  const uint64_t memtable_bytes_;
  PendingFrees pending_frees_;
  Recount recount_;  // Prepare and Some: of the one job that changes L1
  LookupCache lookup_cache_;
  SecondChanceCache second_chance_;
  bool unified_ = true;  // constant after Recover

  mutable Mutex catalog_mu_;
  ListDbState state_ LAMELLA_GUARDED_BY(catalog_mu_);
  std::unique_ptr<Catalog> catalog_ LAMELLA_GUARDED_BY(catalog_mu_);

  Mutex tables_mu_;                 // held while the table set is replaced
  std::unique_ptr<PmSkipList> l1_;  // constant after Recover
  std::atomic<uint64_t> l1_count_{0};
  std::atomic<uint64_t> flushed_through_{0};  // newest sequence number that a table may hold
  std::atomic<uint64_t> live_bytes_{0};       // keys and values of L1's puts
  // the same between merges: one links puts before the deletes of others
  std::atomic<uint64_t> settled_live_bytes_{0};
  std::atomic<uint64_t> garbage_bytes_{0};          // found dead since gc last looked
  std::atomic<uint64_t> unreclaimed_bytes_{0};      // found dead since gc last did all it can
  mutable std::atomic<uint64_t> kept_versions_{0};  // left in L1 for snapshots

  // Jobs under way.
  Mutex job_mu_;
  bool l1_busy_ LAMELLA_GUARDED_BY(job_mu_) = false;
  bool checkpointing_ LAMELLA_GUARDED_BY(job_mu_) = false;
  // Of the merge under way, until a thread takes it.
  std::shared_ptr<Zipper> merge_to_scan_ahead_ LAMELLA_GUARDED_BY(job_mu_);
  uint32_t l1_waiting_ LAMELLA_GUARDED_BY(job_mu_) = 0;  // calls of TakeL1 that wait
  std::condition_variable_any job_done_;  // with job_mu_: a job with L1, or a checkpoint, is over
  bool provisioning_ LAMELLA_GUARDED_BY(job_mu_) = false;
  bool giving_back_ LAMELLA_GUARDED_BY(job_mu_) = false;
  // The pool's size and use and the merges when ClearEnd last ran.
  struct EndCleared {
    uint64_t pool_bytes = 0;
    uint64_t used_bytes = 0;
    uint64_t merges = 0;
  };
  EndCleared end_cleared_ LAMELLA_GUARDED_BY(job_mu_);
  bool gc_wanted_ LAMELLA_GUARDED_BY(job_mu_) = false;  // the pool is full
  // The last pass freed something, or an open left something to look at
  bool gc_again_ LAMELLA_GUARDED_BY(job_mu_) = false;
  bool space_had_turn_ LAMELLA_GUARDED_BY(job_mu_) = false;  // the last job with L1 was about space
  bool sweeping_ LAMELLA_GUARDED_BY(job_mu_) = false;
  SweepNeed sweep_need_ LAMELLA_GUARDED_BY(job_mu_);
  bool merge_all_ LAMELLA_GUARDED_BY(job_mu_) = false;
  bool caches_are_cold_ LAMELLA_GUARDED_BY(job_mu_) = false;  // after an open
  bool growing_cache_ LAMELLA_GUARDED_BY(job_mu_) = false;

  // Used by the one job that changes L1.
  Persister compaction_persister_;
  Persister gc_persister_;
  SnapshotList::Sample snapshots_;  // of the running job
  // Merged tables up to here are seen apart from L1 by nobody (I4).
  std::shared_ptr<std::atomic<uint64_t>> settled_sequence_;
  std::shared_ptr<PinnedTombstones> pinned_tombstones_;
  std::shared_ptr<std::atomic<bool>> settled_news_;  // deletes may go that could not before
  struct HeldBack {
    uint32_t epoch = 0;
    bool damaged = false;  // else it waits for a reader
  };
  std::map<uint64_t, HeldBack> held_back_;  // chunks that gc leaves alone, by ChunkKey
  bool uncounted_ = false;                  // the state says so
  std::string sweep_from_;
  std::vector<LogPosition> log_in_l1_;  // per shard: before this it is merged, and in no table (I5)
  uint64_t arena_first_ordinal_ = 0;    // of this session's arena chunks
  std::vector<PmPtr> dropped_puts_;     // unlinked and not yet marked
  std::vector<PmPtr> dropped_deletes_;  // the same
  std::unique_ptr<RecordAppender> flush_arena_;
  std::vector<std::unique_ptr<RecordAppender>> gc_arenas_;  // one per pool part
  Persister flush_persister_;
  Persister checkpoint_persister_;
  // gc keeps off the flush arena's chunks from this ordinal on: those of a flush that begins after
  // gc looked, too.
  std::atomic<uint64_t> flush_arena_floor_{0};

  std::atomic<uint64_t> checkpoints_{0};
  std::atomic<uint64_t> compactions_{0};
  std::atomic<uint64_t> gc_runs_{0};
  std::atomic<uint64_t> gc_bytes_relocated_{0};
  std::atomic<uint64_t> recovered_records_{0};
  StripedCounter gets_lookup_cache_;
  StripedCounter gets_l0_;
  StripedCounter gets_l1_;
  StripedCounter hops_local_;
  StripedCounter hops_remote_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LISTDB_LISTDB_H_
