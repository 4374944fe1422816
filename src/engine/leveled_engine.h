// LeveledEngine is what designs share whose tables are immutable and lie in levels: a flush makes a
// table of level 0, compactions merge tables into the next level, several at once; a version is
// levels of counted tables, and one catalog edit makes the next of it. A design says how a table is
// made and searched, and may say what its compactions are.
//
// L1: a table is durable (on page media synced) before the edit that names it; the edit (on page
//     media synced) before what it replaced may be freed: regions (TableRegion's R2) and log.
// L2: one edit adds a flushed table and moves the log boundary and flushed_sequence after its
//     records. So a power cut on page media takes back whole edits at most: what the catalog names
//     is whole, and the log is read after what it says.
// L3: a flush waits until every Get of before its MemTable was sealed is over (BufferedEngine, I3):
//     versions of a key that it, or a compaction, drops only snapshots may still need, and those it
//     asks (Build).
// L4: a delete is dropped only where no table further down may hold its key, by the version that
//     the job began with: what jobs beside it move down lies outside of the keys that it claims.
// L5: jobs claim the keys of levels that they change (JobBoard); a flush adds to level 0 and claims
//     nothing.
// L6: tables of levels from 1 on may lie in files (FileTables), where the design's rules say so:
//     those of lower levels, those that were longest not read, and, in a full pool, any. A Get that
//     comes to one holds the version in place of its pin.
// Threads: as Engine says.
#ifndef LAMELLA_ENGINE_LEVELED_ENGINE_H_
#define LAMELLA_ENGINE_LEVELED_ENGINE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/striped_counter.h"
#include "engine/buffered_engine.h"
#include "engine/catalog_state.h"
#include "engine/compaction_picker.h"
#include "engine/file_room.h"
#include "engine/file_tables.h"
#include "engine/held_up_end.h"
#include "engine/job_board.h"
#include "engine/level_table.h"
#include "engine/leveled_state.h"
#include "engine/lost_records.h"
#include "engine/pending_frees.h"
#include "engine/region_use.h"
#include "engine/table_builder.h"
#include "engine/table_memory.h"
#include "log/gather.h"

namespace lamella {

using Levels = TableLevels<LevelTable>;
using LevelsEdit = TableEdit<LevelTable>;

struct LeveledTables final : TableSet, std::enable_shared_from_this<LeveledTables> {
  Levels levels;
  TableLevelsState infos;         // of the same
  double live_share_of_last = 1;  // of the newest table of level 0, by a sample
};

/// What a design's options say of its levels.
struct LeveledRules {
  LevelRules levels;
  uint64_t table_bytes = 8 << 20;  // a table is cut at this,
  /// or, where this is not 0, at such a part of a small pool: one merge needs room for one table,
  uint64_t tables_of_pool = 0;
  /// if it has so many records: an index takes a chunk at least.
  uint64_t table_records_min = 8;
  bool copies_records = false;  // a merge copies all of them, not only the lists over them
  /// Of a flushed record's copy, beside the record: what a table adds for it in the pool, bytes.
  uint64_t index_bytes_per_record = 0;
  bool index_in_row = false;  // a table's index lies in chunks side by side
  /// A region of records is emptied once less of it lives.
  double rewrite_share = 0.25;
  /// Which tables lie in files (L6). Of other designs none does, or ever did.
  bool may_have_files = false;
  bool writes_out = false;                 // where the pool is full, rather than to refuse a write
  uint32_t first_file_level = UINT32_MAX;  // this level's, and those of lower ones
  uint64_t pool_table_bytes = UINT64_MAX;  // beyond so many in the pool those longest not read
};

class LeveledEngine : public BufferedEngine {
 public:
  Status Load() final;
  Status Mend() final;
  std::optional<Job> PickJob(JobClass job_class) final;
  Status CompactRange(std::string_view begin, std::string_view end) final;
  void Hurry() final {
    if (files_ != nullptr) files_->LiftLimit();
  }
  Status Close() final;
  void ClearBackgroundError() final;
  void AddStats(Stats* stats) const override;
  std::string Describe() const override;
  Status Check(CheckReport* report) final;
  Status Rebuild(RepairReport* report) final;

 protected:
  LeveledEngine(const EngineContext& context, const LeveledRules& rules);

  // What a design provides.
  /// A table that the catalog names. `place` is what info.place decodes to, and `regions` those
  /// that it names, whole. Corruption: they are not what it says.
  virtual Status OpenTable(const TableInfo& info, const LevelPlace& place,
                           std::vector<LevelTable::RegionPtr> regions,
                           std::shared_ptr<const LevelTable>* table) = 0;
  /// For a flush (one at a time), a merge (several at once), a repair.
  virtual std::unique_ptr<TableBuilder> NewBuilder(BuildPlan plan) = 0;
  /// Compactions that the version wants: those of rules().levels, unless the design has its own;
  /// of level 0 from so many tables on.
  virtual std::vector<Compaction> FindWanted(const LeveledTables& tables,
                                             size_t level0_tables) const;
  /// Of what the store may take (Options::space_target) it takes this: by what is known to be dead;
  /// if all is dead that upper levels may hide.
  struct SpaceShare {
    double known = 0;
    double at_most = 0;
    bool pool_is_full = false;  // or as small as it gets is what is asked for
  };
  /// What finds more that is dead, which is offered after all else: level 0, where the share is
  /// known to be more than 1; in an idle store tables of the uppermost level, as long as it may be.
  virtual std::vector<Compaction> FindForSpace(const LeveledTables& tables, const SpaceShare& share,
                                               bool idle) const;
  /// Makes what takes the place of the compaction's tables, whatever it claimed (ClaimsOf): merges
  /// them into the next level, unless the design has its own way. `edit` is what changes; what
  /// drops versions of a key goes by L3 and L4.
  virtual Status Compact(const Compaction& compaction, const Levels& levels, LevelsEdit* edit);
  /// Of a table whose regions may be damaged: adds the records of which is certain that they are
  /// in it, to `kept`, in any order, and to `lost`, ascending, how many others there can be at
  /// most, and of which keys. `place` may name regions that are not in `regions` any more.
  virtual void Salvage(const TableInfo& info, const LevelPlace& place, const TableRegions& regions,
                       std::vector<MergedRecord>* kept, std::vector<LostRun>* lost) = 0;
  // What a design uses.
  /// For the pool as large as it is.
  LeveledRules rules() const;
  /// Never given out before, to tables and regions alike.
  uint64_t NewNumber() {
    return catalog_.Note([](LeveledState* state) { return state->next_number++; });
  }
  /// The tables of `level` with these numbers, in the level's order.
  static Levels::Level TablesOf(const Levels& levels, uint32_t level,
                                const std::vector<uint64_t>& numbers);
  /// Merges these tables, all that overlap of these levels (by level), into tables of `into`: the
  /// newest versions and those that snapshots see (L3, L4). `edit` gets both.
  Status MergeTables(const Levels& levels, const std::vector<Levels::Level>& inputs, uint32_t into,
                     LevelsEdit* edit);
  /// Where what is built comes from: records in the log, in regions, or, some of them, in files.
  enum class BuildSource : uint8_t { kMemTable, kTables, kFiles };
  /// What is needed of `from` into `builder`: the newest versions, those that snapshots see, and
  /// deletes that hide something (L3, L4). `below`: tables from this level on may hold what deletes
  /// hide. What comes from files stays only until `from` moves. What a MemTable has and is not
  /// copied is looked at: Corruption, if damage may be why.
  Status Build(InternalIterator* from, const Levels& levels, size_t below, TableBuilder* builder,
               MadeTables* made, BuildSource source = BuildSource::kTables);
  /// These tables of `level`, of level 0 all, into the next.
  static Compaction CompactionOf(const Levels& levels, uint32_t level, const Levels::Level& tables);
  /// For a merge: an iterator over each of these tables of `level`, or over all where they are
  /// disjoint.
  static void AddIterators(uint32_t level, const Levels::Level& tables, bool verify,
                           std::vector<std::unique_ptr<InternalIterator>>* iterators);

 private:
  // BufferedEngine's.
  Status FlushMemTable(const std::shared_ptr<MemTable>& memtable) final;
  Lookup SearchTables(const TableSet& tables, const InternalKey& target,
                      const Candidates& candidates, bool verify, EpochPin* pin) final;
  void AddTableIterators(const std::shared_ptr<const TableSet>& tables, bool verify,
                         std::vector<std::unique_ptr<InternalIterator>>* iterators) final;
  uint64_t UncompactedBytes(const TableSet&) const final { return 0; }
  uint64_t BufferedBytesMax() const final {
    return memory_.BufferedBytesMax(files_ == nullptr ? 0 : files_->cache_bytes());
  }
  std::optional<Unmerged> UnmergedOf(const TableSet& tables) const final;
  uint64_t LiveBytes() const final { return live_bytes_.load(std::memory_order_relaxed); }
  double ReadDebt(const TableSet& tables) const final;
  bool ReclaimSpace() final;

  std::shared_ptr<const LeveledTables> CurrentTables() const {
    return std::static_pointer_cast<const LeveledTables>(CurrentReadSet()->tables);
  }
  /// One edit: the tables, in place of `flushed` where one is given, and what else the catalog
  /// keeps. Where it fails but for want of a sync, nothing has changed. Keeps L1.
  Status Change(LeveledEdit kind, const LevelsEdit& edit, const MemTable* flushed,
                const std::function<void(LeveledTables*, LeveledState*)>& also);
  /// A catalog may name what the edit adds.
  static void KeepTables(const LevelsEdit& edit);
  /// What takes the place of others counts as read when they were.
  void NoteHeat(const Levels::Level& gone, const LevelsEdit& edit) const;
  /// Where somebody asks for it: the table is read now, as far as versions are a clock.
  void NoteRead(const LevelTable& table) const {
    if (rules_.pool_table_bytes != UINT64_MAX)
      table.NoteRead(changes_.load(std::memory_order_relaxed));
  }
  /// What no catalog names any more after the edit of this version.
  static Levels::Level FindGone(const Levels& before, const LevelsEdit& edit);
  /// What the compaction takes that takes most, of all that may come.
  uint64_t RoomToKeep(const Levels& levels) const;
  void KeepForCopies(const Levels& levels);
  /// What a merge of so many records takes at most, with what is copied of them.
  uint64_t MergeRoom(uint64_t records, uint64_t bytes, uint64_t copied) const;
  /// The version is now `levels`, by the edit.
  void NoteUses(const Levels& levels, RegionUseEdit* edit) LAMELLA_EXCLUDES(uses_mu_);

  /// Of what is in these regions of records a compaction makes copies.
  using Sparse = std::shared_ptr<const std::set<uint64_t>>;
  Sparse SparseNow() const;
  /// What is made of these tables for a level is to lie in files, by the rules.
  bool GoesToFiles(uint32_t level, const std::vector<Levels::Level>& inputs) const;
  /// MergeTables, which empties these regions, or makes tables in files: NoSpace where there is no
  /// room for that.
  Status MergeEmptying(const Levels& levels, const std::vector<Levels::Level>& inputs,
                       uint32_t into, const Sparse& sparse, bool in_file, LevelsEdit* edit);
  std::unique_ptr<TableBuilder> BuilderOf(BuildPlan plan) {
    return plan.in_file ? files_->NewBuilder(std::move(plan)) : NewBuilder(std::move(plan));
  }
  /// Of a compaction for which there is no room: merges as much of its tables as overlaps the first
  /// `count` of the next level's. The rest of them becomes one that stays.
  Status MergePart(const Compaction& compaction, const Levels& levels, size_t count,
                   LevelsEdit* edit);
  /// Builds the plan's tables. NoSpace where there is not so much room.
  Status BuildInto(const Levels& levels, BuildPlan plan, uint64_t room_bytes,
                   InternalIterator* from, LevelsEdit* edit);

  // leveled_flush.cc
  Status BuildFlushed(const MemTable& memtable, const Levels& levels, BuildPlan plan,
                      LevelsEdit* edit);
  /// After NoSpace: the same into more tables. False where that is of no use.
  bool CutShorter(BuildPlan* plan) const;
  Status MakeTable(const std::shared_ptr<MemTable>& memtable);

  // leveled_jobs.cc
  JobOffer OfferOf(Compaction compaction);
  bool WaitsForFiles(const Compaction& compaction) const;
  bool MayBegin(const Compaction& compaction) const LAMELLA_REQUIRES(jobs_.mu);
  void OfferBest(const std::vector<Compaction>& wanted, std::vector<JobOffer>* offers)
      LAMELLA_REQUIRES(jobs_.mu);
  void OfferForWriters(const ReadSet& read_set, const LeveledTables& tables,
                       std::vector<JobOffer>* offers) LAMELLA_REQUIRES(jobs_.mu);
  /// A table that may be made anew where it is.
  struct Place {
    uint32_t level = 0;
    uint64_t number = 0;
    KeyRange keys;
  };
  static Place PlaceOf(uint32_t level, const TableInfo& info) {
    return {level, info.number, {info.smallest, info.largest}};
  }
  JobOffer RewriteOf(const Place& table, const char* name, double benefit, Sparse sparse,
                     bool in_file);
  void OfferJobs(std::vector<JobOffer>* offers) LAMELLA_REQUIRES(jobs_.mu);
  void OfferRewrites(const LeveledTables& tables, std::vector<JobOffer>* offers)
      LAMELLA_REQUIRES(jobs_.mu);
  void OfferWritingOut(const LeveledTables& tables, std::vector<JobOffer>* offers)
      LAMELLA_REQUIRES(jobs_.mu);
  /// Looks at the version that is new since the last look.
  void LookAt(const std::shared_ptr<const TableSet>& version) LAMELLA_REQUIRES(jobs_.mu);
  static bool Refers(const LevelTable& table, const std::set<uint64_t>& regions);
  Status RunCompaction(const Compaction& compaction);
  /// Makes the table anew where it is; or, with `write_out`, in a file.
  Status Rewrite(uint32_t level, uint64_t number, const Sparse& sparse, bool write_out = false);
  /// Of the pool's tables that may be written out the one longest not read, the lowest first, that
  /// `may` allows.
  static std::optional<Place> FindLongestNotRead(const LeveledTables& tables,
                                                 const std::function<bool(const Place&)>& may);
  /// Writes tables out until there is room again, or none is left.
  Status WriteOutForRoom();
  Status NoteRoom(const Status& status);
  /// The same of a job that finds room in files, or none.
  Status TryToWriteOut(const std::function<Status()>& job) LAMELLA_EXCLUDES(jobs_.mu);
  /// Runs it, and again where it finds no room, once all that is free in truth is.
  Status WithRoom(const std::function<Status()>& run) LAMELLA_EXCLUDES(jobs_.mu);
  Status BuildLeft(const Levels& levels, uint32_t level, const Levels::Level& table,
                   InternalIterator* left, LevelsEdit* edit);
  Status PushDown(const KeyRange& keys);
  Status PushFrom(uint32_t level, const KeyRange& keys);
  /// Makes the table anew without what upper tables hide of it, if that is worth it.
  Status LeaveHidden(const Place& place);
  Status LeaveAllHidden(const KeyRange& keys);
  Status RewriteLast(const KeyRange& keys);
  Status EmptySparse();
  Status MergeForSpace();
  /// The regions to be emptied, and the tables whose making anew gives space back of them, level by
  /// level.
  struct Emptying {
    Sparse sparse;
    uint64_t dead_bytes = 0;  // in those regions
    std::vector<Place> tables;
  };
  Emptying FindEmptying(const LeveledTables& tables, const RegionUses& uses,
                        const SpaceGoal& goal) const;
  Status Reclaim();
  void SetNotStarved() LAMELLA_REQUIRES(jobs_.mu);
  uint64_t ReclaimState() const;
  bool FilesMayHaveRoom() const LAMELLA_REQUIRES(jobs_.mu);
  bool IsRoomUnknown() const;
  bool MayFindRoom() const LAMELLA_REQUIRES(jobs_.mu);
  Status ClearEnd();
  Status FreeLeftLog();
  Claims ClaimAll() const;
  SpaceGoal GoalNow(const LeveledTables& tables, bool pool_is_full) const;

  // leveled_recovery.cc, leveled_repair.cc
  Status OpenInfo(const TableInfo& info, const TableRegions& regions,
                  std::shared_ptr<const LevelTable>* table);
  Status LoadStore();
  void FreeStrays(Persister* persister);
  Status RemoveStrayFiles() const;
  Status LeaveLog();
  static TableLevelsState FindLostTables(const TableRegions& regions, RepairReport* report);
  Status MergeFiles(const Levels::Level& files, std::vector<MergedRecord> records,
                    RepairReport* report, LevelsEdit* edit);
  Status RebuildTables(const TableLevelsState& levels, bool catalog_lost,
                       const TableRegions& regions, RepairReport* report, LevelsEdit* edit);
  Status RebuildLog(bool catalog_lost, RepairReport* report, LeveledState* state, LevelsEdit* edit,
                    std::vector<ChunkReach>* reach);
  Status BuildFrom(std::vector<MergedRecord> records, uint32_t level, bool copy_all, bool in_file,
                   const TableRegions& regions, const std::set<uint64_t>& replaced,
                   LevelsEdit* edit);
  void CheckOwners(CheckReport* report) const;

  const LeveledRules rules_;
  const TableMemory memory_;
  PendingFrees pending_frees_;  // of the log
  CatalogState<LeveledState> catalog_;
  const std::shared_ptr<const FileTables> files_;  // null where the rules know none

  Mutex change_mu_;  // held while tables and catalog are changed
  // Figures. Of levels 1 and on, and of them what lies in the pool; of all tables in the pool.
  std::atomic<uint64_t> live_bytes_{0};
  std::atomic<uint64_t> pool_live_bytes_{0};
  std::atomic<uint64_t> pool_table_bytes_{0};
  /// The same: of what is dead beyond the space target, that which jobs are about to give back.
  std::atomic<uint64_t> garbage_bytes_{0};

  mutable Mutex uses_mu_;
  RegionUses uses_ LAMELLA_GUARDED_BY(uses_mu_);  // of the tables of now
  Sparse sparse_ LAMELLA_GUARDED_BY(uses_mu_);    // may be null: none

  // What jobs have; of a level, keys. The first level is the last of them.
  enum : uint32_t { kPoolEnd, kLevel0 };
  HeldUpEnd held_up_end_ LAMELLA_GUARDED_BY(jobs_.mu);
  // What a version wants: it is asked for by each look for a job.
  struct Looked {
    std::weak_ptr<const TableSet> at;
    std::vector<Compaction> wanted;
    Emptying emptying;
    SpaceShare share;
  };
  Looked looked_ LAMELLA_GUARDED_BY(jobs_.mu);
  bool reclaim_wanted_ LAMELLA_GUARDED_BY(jobs_.mu) = false;  // the pool is full
  // What was in the tables when reclaiming last came to its end: it would find nothing new.
  uint64_t reclaimed_at_ LAMELLA_GUARDED_BY(jobs_.mu) = UINT64_MAX;
  uint64_t reclaimed_with_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;  // so many chunks to be had after it
  // When reclaiming last found no room in files; none where it did.
  std::optional<std::chrono::steady_clock::time_point> files_full_at_ LAMELLA_GUARDED_BY(jobs_.mu);
  // Chunks that were there when a job found no room, and when that was; it is tried again when
  // there are more, and, where it may have been files that had none, now and then.
  std::optional<uint64_t> starved_at_ LAMELLA_GUARDED_BY(jobs_.mu);
  std::chrono::steady_clock::time_point starved_since_ LAMELLA_GUARDED_BY(jobs_.mu);
  FileRoom write_out_room_ LAMELLA_GUARDED_BY(jobs_.mu);

  std::atomic<uint64_t> changes_{0};  // of the tables
  std::atomic<uint64_t> compactions_{0};
  std::atomic<uint64_t> rewrites_{0};
  StripedCounter gets_tables_;
  StripedCounter gets_files_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LEVELED_ENGINE_H_
