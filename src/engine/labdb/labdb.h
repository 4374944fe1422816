// LabDb is LAB-DB's design (Kim et al., "An LSM Tree Augmented with B+ Tree on Nonvolatile Memory",
// 2024): level 0 is a B+-tree in persistent memory that has no values, only where they lie. A put
// logs its key in the pool and its value in the value log (ValueLog), at an address that is known
// at once; a flush puts keys and addresses into the tree, in place of older versions. A full tree
// becomes immutable, another takes over, and the full one is compacted piece by piece into SSTs:
// only there values are written again. So a key that is written again while it is in the tree costs
// no compaction, and values in the pool are those of the last two segments, whatever the store has.
//
// What differs from the paper, for the API's promises and the media:
// - The key array stays in the pool, as records of the pool's log (PmLog) that have the value's
//   address: it is needed until the flush, which is soon, and drops it. So writing it to the disk,
//   and reading it back after a crash, is spared, and the rest of recovery is that of all designs.
// - The values that are left in old files are found by walking the rest of the immutable tree,
//   which is in the pool, where the paper reads the key array of the oldest file.
// - A key that is hot, and a write larger than half a segment, has its value in its record. What is
//   left of such values at a flush goes to a value file of its own.
// - Snapshots keep versions that they see in the tree; leaves as in LeafTree, whose changes need no
//   order of stores.
//
// B1: an address is acknowledged only with its value: one fence is that of both, and of a record
//     that a cut left without its value recovery says that it is torn (ReadLog).
// B2: what is in the immutable tree is older than what is in the other one, and newer than tables.
//     Before the next tree becomes immutable nothing is left of it: so nothing that compaction
//     drops comes back.
// B3: a part of the immutable tree leaves it only when a table that the catalog names has it, and
//     no reader is left who knows of no such table (Pool::AfterAllPins).
// B4: a value file goes when no record of a MemTable and no entry of a tree has an address in it.
//     One key that is not written again keeps one: so where files have many times what is named,
//     or are too many, the tree becomes tables before it is full. Then none is needed.
// B5: a file system that has no room is no error: writes go on while the pool's buffer has room,
//     and are then refused. What needs room is tried again for whoever needs it, and now and then;
//     first what files have that nobody needs goes.
// B6: a tree that is no part of the store any more has an empty head, before what it had is given
//     back: a repair without a catalog finds no tree but those of the store.
// B7: a delete goes into the tree only where it hides something, in tables or in the immutable tree
//     or for a snapshot: else what it hides in the tree leaves it, and so does the delete.
// B8: while jobs are held back for want of room, the trees stop no writer: nobody would let him go
//     on. He comes to the pool's end, and is told.
// Threads: as Engine says.
#ifndef LAMELLA_ENGINE_LABDB_LABDB_H_
#define LAMELLA_ENGINE_LABDB_LABDB_H_

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
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
#include "engine/labdb/hot_keys.h"
#include "engine/labdb/labdb_state.h"
#include "engine/labdb/scan_runs.h"
#include "engine/labdb/stored_values.h"
#include "engine/pending_frees.h"
#include "engine/sst_files.h"
#include "engine/table_memory.h"
#include "index/leaf_tree.h"
#include "log/value_log.h"
#include "sst/block_cache.h"

namespace lamella {

/// Kinds of chunks: of the trees' heads, and of their leaves and cells.
inline constexpr ChunkKind kTreeHeads =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 9);
inline constexpr ChunkKind kTreeLeaves =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 10);

class LabDb final : public BufferedEngine {
 public:
  explicit LabDb(const EngineContext& context);
  ~LabDb() override { space_->Close(); }  // what readers left goes with the pool

  Status Load() override;
  Status Mend() override;
  Status Write(std::span<const WriteOperation> operations) override;
  Lookup Get(std::string_view key, uint64_t sequence, bool verify, EpochPin* pin) override;
  std::unique_ptr<InternalIterator> NewIterator(bool verify) override;
  void ClearBackgroundError() override;
  std::optional<Job> PickJob(JobClass job_class) override;
  Status CompactRange(std::string_view begin, std::string_view end) override;
  void Hurry() override { limiter_.SetRate(0); }
  Status Close() override;
  void AddStats(Stats* stats) const override;
  std::string Describe() const override;
  Status Check(CheckReport* report) override;
  Status Rebuild(RepairReport* report) override;

 private:
  using TreePtr = std::shared_ptr<LeafTree>;
  struct Tables final : TableSet {
    TreePtr tree;   // flushes go there
    TreePtr older;  // immutable; may be null (B2)
    std::shared_ptr<const SstLevels> levels = std::make_shared<SstLevels>();
    TableLevelsState infos;  // of the levels
  };
  /// Of the immutable tree: what a table has, and when it may leave.
  struct Consumed {
    std::string first;
    std::string last;
    std::shared_ptr<std::atomic<bool>> settled;  // B3
  };
  /// Of a flush that found no room in the tree: where the values are by now that were logged with
  /// their keys, and for which snapshots. Its next try puts the same.
  struct Moved {
    uint64_t through = 0;  // the MemTable's last number
    SnapshotList::Sample snapshots;
    std::vector<ValueAddress> addresses;
  };
  /// What room in files is wanted for (B5): segments may find some where tables find none.
  enum RoomFor : uint32_t { kForValues, kForTables, kRooms };
  static constexpr uint32_t kTrees = 2;  // each has a head, and after those lies their seal
  // What jobs have; of a level, keys. Level 0 is the immutable tree.
  enum : uint32_t { kValues, kPoolEnd, kLevel0 };

  // BufferedEngine's.
  Status FlushMemTable(const std::shared_ptr<MemTable>& memtable) override;
  Lookup SearchTables(const TableSet& tables, const InternalKey& target,
                      const Candidates& candidates, bool verify, EpochPin* pin) override;
  void AddTableIterators(const std::shared_ptr<const TableSet>& tables, bool verify,
                         std::vector<std::unique_ptr<InternalIterator>>* iterators) override;
  uint64_t UncompactedBytes(const TableSet&) const override { return 0; }
  uint64_t BufferedBytesMax() const override {
    return memory_.BufferedBytesMax(cache_->figures().bytes);
  }
  std::optional<Unmerged> UnmergedOf(const TableSet&) const override { return Unmerged(); }
  uint64_t LiveBytes() const override { return live_bytes_.load(std::memory_order_relaxed); }
  double ReadDebt(const TableSet& tables) const override;
  bool ReclaimSpace() override;

  std::shared_ptr<const Tables> CurrentTables() const {
    return std::static_pointer_cast<const Tables>(CurrentReadSet()->tables);
  }
  uint64_t NewNumber();
  PmWord* HeadOf(uint32_t tree) const;
  TreePtr NewTree(uint32_t tree) const;
  /// Over the keys of both trees, as they are now. It keeps them.
  std::shared_ptr<InternalIterator> NewTreesIterator() const;
  /// The value at the address, which the record of that key and tag has, as a Get's answer.
  Lookup ReadValue(const InternalKey& of, const ValueAddress& address, EpochPin* pin) const;
  /// One edit, and the version that it makes of the current one; `flushed` (may be null) is in it.
  /// Where it fails but for want of a sync, nothing has changed.
  Status Install(LabDbEdit kind, const SstEdit& edit, const MemTable* flushed,
                 const std::function<void(Tables*)>& change,
                 const std::function<void(LabDbState*)>& also);

  // labdb_recovery.cc
  Status Begin();
  Status LoadStore();
  void MakeValueLog(uint64_t segment_bytes);
  Status OpenTrees(const LabDbState& state, Tables* tables);
  Status LeaveLog();
  bool IsWhole(const Record& record) const;  // B1
  uint64_t SegmentBytesAsked() const;
  Status ClaimTreeHeads(Persister* persister);
  uint64_t HeadsSeal() const;

  // labdb_rebuild.cc
  std::vector<const PmWord*> HeadsFound(const LabDbState& state, bool catalog_lost) const;
  uint64_t SegmentBytesFound() const;
  Status NameRebuilt(LabDbState state, bool catalog_lost);

  // labdb_write.cc
  bool IsInline(std::span<const WriteOperation> operations, uint64_t* bytes);
  /// Places for the values of `operations`, once there is room for them.
  Status Reserve(std::span<const uint32_t> sizes, ValueAddress* addresses,
                 ValueReservation* reservation);
  Status AwaitWrittenOn(uint64_t seen, uint64_t begun);

  // labdb_jobs.cc
  Status PutIntoTree(const MemTable& memtable) LAMELLA_EXCLUDES(tree_mu_);
  Status MoveInline(const MemTable& memtable, const SnapshotList::Sample& snapshots,
                    std::vector<ValueAddress>* moved);
  Status InsertAll(LeafTree* tree, const MemTable& memtable, const Moved& moved, bool verify);
  /// No older version of the key is in tables, nor in the immutable tree.
  bool HidesNothing(std::string_view key) const;
  bool IsFull(const LeafTree& tree) const { return tree.Bytes() >= tree_bytes_ / 4 * 3; }
  /// Makes the tree immutable, and the other one the next, where that is empty.
  Status TurnOver() LAMELLA_REQUIRES(tree_mu_);
  Status CompactPart();
  Status CompactNext();
  Status CompactLevels(const Compaction& compaction);
  Status LeaveTree();
  Status DropOlder() LAMELLA_EXCLUDES(tree_mu_);
  Status ClearOther() LAMELLA_REQUIRES(tree_mu_);
  void ReclaimForFlush(const MemTable& memtable) LAMELLA_EXCLUDES(jobs_.mu);
  Status FlushAlone();
  Status RewriteLast(const KeyRange& keys, uint64_t before);
  Status Reclaim();
  Status ClearEnd();
  /// A job's answer, OK where it found no room (B5).
  Status TryForRoom(RoomFor what, const std::function<Status()>& job);
  void NeedRoom() LAMELLA_REQUIRES(jobs_.mu);
  void OfferJobs(std::vector<JobOffer>* offers) LAMELLA_REQUIRES(jobs_.mu);
  /// All of the immutable tree into tables.
  Status CompactOlder();
  /// All of both.
  Status CompactTrees() LAMELLA_EXCLUDES(tree_mu_);

  // labdb_values.cc
  Status TryWriteOn();
  Status WriteOnWhereUnneededWas() LAMELLA_EXCLUDES(tree_mu_);
  void FlushForFiles();
  Status WriteOn();
  Status WriteAllOn();
  /// `now`: whether or not it is worth it.
  Status RemoveUnneeded(bool now) LAMELLA_REQUIRES(tree_mu_);
  Status RemoveUnneededOf(const ReadSet& read_set, std::vector<ValueFileInfo> files)
      LAMELLA_REQUIRES(tree_mu_);

  const LabDbOptions options_;
  const uint64_t tree_bytes_;  // of both trees
  const LevelRules rules_;
  const std::shared_ptr<BlockCache> cache_;
  const ScanRuns runs_;  // in the cache
  ReadCost value_cost_;
  std::atomic<uint64_t> recovery_index_us_{0};
  RateLimiter limiter_;
  const SstFiles files_;
  const RecordCache& records_;  // in the cache; of values by their addresses, too
  const TableMemory memory_;
  const std::shared_ptr<LeafSpace> space_;
  PendingFrees pending_frees_;
  CatalogState<LabDbState> catalog_;
  std::unique_ptr<ValueLog> values_;  // constant after Load, or Mend
  HotKeys hot_;

  Mutex tree_mu_;    // held by who changes the tree that flushes go to, or makes it immutable
  Mutex change_mu_;  // held while tables and catalog are changed; taken after tree_mu_
  std::optional<Moved> moved_ LAMELLA_GUARDED_BY(tree_mu_);
  uint64_t flushed_since_ LAMELLA_GUARDED_BY(tree_mu_) = 0;   // records, since files were looked at
  size_t files_kept_ LAMELLA_GUARDED_BY(tree_mu_) = 0;        // value files that were left then
  bool too_many_files_ LAMELLA_GUARDED_BY(tree_mu_) = false;  // for what is named in them (B4)
  PmPtr heads_;                                               // constant after Load, or Mend
  std::string after_;  // of the immutable tree, what is not after it is in tables; CompactPart's
  bool any_after_ = false;         // there is such a part
  bool trees_in_the_way_ = false;  // of the pool's end, until both are tables; ClearEnd's
  std::deque<Consumed> consumed_ LAMELLA_GUARDED_BY(jobs_.mu);
  HeldUpEnd held_up_end_ LAMELLA_GUARDED_BY(jobs_.mu);
  bool reclaim_wanted_ LAMELLA_GUARDED_BY(jobs_.mu) = false;  // the pool is full
  // The last flush found no room; it waits for what reclaiming makes of the trees.
  bool flush_has_no_room_ LAMELLA_GUARDED_BY(jobs_.mu) = false;
  bool flush_waits_ LAMELLA_GUARDED_BY(jobs_.mu) = false;
  // Of the MemTable with that last number: how many reclaims, and when the last one was over.
  int reclaims_for_flush_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  std::chrono::steady_clock::time_point reclaimed_for_flush_at_ LAMELLA_GUARDED_BY(jobs_.mu);
  uint64_t reclaimed_for_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  // What was changed when reclaiming last came to its end: it would find nothing new.
  uint64_t reclaimed_at_ LAMELLA_GUARDED_BY(jobs_.mu) = UINT64_MAX;
  std::atomic<uint64_t> changes_{0};     // of the tables
  std::atomic<uint64_t> live_bytes_{0};  // a figure: of tables, and of values in files
  std::atomic<bool> unneeded_{false};    // value files may be, by B4
  std::atomic<uint64_t> written_on_{0};  // segments

  std::array<FileRoom, kRooms> rooms_ LAMELLA_GUARDED_BY(jobs_.mu);

  std::atomic<uint64_t> compactions_{0};
  StripedCounter gets_trees_;
  StripedCounter gets_tables_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LABDB_LABDB_H_
