// LightKv is LightKV's design (S. Han and others, "LightKV: A Cross Media Key Value Store with
// Persistent Memory to Cut Long Tail Latency", 2020): no MemTable. A put appends its record
// to the persistent write buffer and enters the RH-Tree. Now and then the records of every
// partition, its segment, are sorted and written to an SST of the partition, and tables of a
// partition are compacted among themselves alone, CS of one weight into one of the next: so what
// is written for a record is what it was flushed and merged, log_CS(N) + 1 times for N flushes,
// however much the store holds; and less, since tables of greater weights wait for more of them
// (PartitionRules).
//
// What differs from the paper, for the API's promises:
// - Segments lie in the store's one log (PmLog) instead of a buffer for each partition: so a batch
//   over several partitions is whole or absent, and a put has one fence. So what a flush gives back
//   is the log up to a point, and it takes all partitions at once: the tree is sealed, and an empty
//   one of the same partitions put before it, which is what linked leaves come to.
// - Older leaves are not kept: what an SST has of a key its own filter and index tell, which are
//   on block storage, checked by checksums, and in the block cache. So opening a store reads its
//   log, and of its tables what says where the rest is.
// - Compaction cuts a table that was flushed when a partition was larger where the partition has
//   been split since.
//
// L1: a reader takes its View once, under its pin: the trees and the tables. What it misses of a
//     later one is newer than the number it reads as of.
// L2: a version is dropped for readers that began after its successor was published, and for
//     snapshots: a flush seals the tree (Seal), and goes on once the readers of then are gone.
// L3: a table is durable, and named by the catalog, before what it was made from goes. What is
//     older than a table of its keys lies in a higher level (PartitionRules, P1).
// L4: a delete is dropped only where no older table may hold its key.
// L5: a file system that has no room for tables is no error: the log goes on to where writers
//     stop beside a flush (BesideFlush), and then writes are refused, where it has none for a
//     flush. Flushes and compactions are tried again for whoever needs what they give, and now and
//     then.
// Threads: as Engine says.
#ifndef LAMELLA_ENGINE_LIGHTKV_LIGHTKV_H_
#define LAMELLA_ENGINE_LIGHTKV_LIGHTKV_H_

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/striped_counter.h"
#include "engine/catalog_state.h"
#include "engine/error_latch.h"
#include "engine/file_room.h"
#include "engine/file_tables.h"
#include "engine/job_board.h"
#include "engine/lightkv/flush_pace.h"
#include "engine/lightkv/lightkv_state.h"
#include "engine/lightkv/merge_yields.h"
#include "engine/lightkv/partition_levels.h"
#include "engine/lightkv/rh_tree.h"
#include "engine/pending_frees.h"
#include "engine/sst_files.h"
#include "engine/write_path.h"
#include "log/pm_log.h"
#include "sst/block_cache.h"

namespace lamella {

class LightKv final : public Engine, private WriteTarget {
 public:
  explicit LightKv(const EngineContext& context);
  ~LightKv() override;

  Status Load() override;
  Status Mend() override;
  Status Write(std::span<const WriteOperation> operations) override;
  Lookup Get(std::string_view key, uint64_t sequence, bool verify, EpochPin* pin) override;
  std::unique_ptr<InternalIterator> NewIterator(bool verify) override;
  uint64_t PublishedSequence() const override { return write_path_.published(); }
  std::optional<Job> PickJob(JobClass job_class) override;
  bool FlushAwaitsReaders() const override {
    return has_sealed_.load(std::memory_order_relaxed);  // what follows it is told of its own
  }
  uint32_t WriteDelayNs() const override;
  void AwaitWriting() override;
  Status Flush() override;
  Status CompactRange(std::string_view begin, std::string_view end) override;
  void Hurry() override { limiter_.SetRate(0); }
  Status Close() override;
  void AddStats(Stats* stats) const override;
  std::string Describe() const override;
  Status Check(CheckReport* report) override;
  Status Rebuild(RepairReport* report) override;
  Status BackgroundError() const override { return error_.Get(); }
  Status::Code BackgroundCause() const override { return error_.cause(); }
  void SetBackgroundError(const Status& status) override;
  void ClearBackgroundError() override;

 private:
  using TreePtr = std::shared_ptr<RhTree>;
  struct View {
    TreePtr top;               // new records enter it
    TreePtr older;             // sealed, being flushed; may be null
    uint64_t older_bytes = 0;  // that its records have of the log
    std::shared_ptr<const SstLevels> levels;
  };
  /// A flush that has begun: it takes what is up to here.
  struct Sealed {
    uint64_t through = 0;
    std::vector<LogPosition> ends;
    uint64_t record_bytes = 0;
    std::chrono::steady_clock::time_point at;
    std::shared_ptr<std::atomic<bool>> settled;  // L2
  };
  /// What becomes of tables.
  struct Made {
    std::vector<uint64_t> removed;
    uint32_t weight = 0;
    MadeSsts tables;
  };
  /// What tables are written for (L5): a flush may find room where a compaction finds none.
  enum RoomFor : uint32_t { kFlushes, kCompactions, kRooms };
  // What jobs have; of a weight, keys. The first weight is the last of them.
  enum : uint32_t { kLog, kPoolEnd, kWeight0 };

  Status Provide(const Needs& needs, SpareMemory* spare, uint64_t* reserved) override;
  void Abandon(uint64_t) override {}
  bool Enter(std::span<const WriteOperation> operations, uint64_t first,
             std::span<const Location> locations, uint64_t reserved, SpareMemory* spare) override;
  void OnWritten(bool entered, bool log_grown) override;
  Status MakeSpace() override;

  View CurrentView() const;
  /// A view that is to be the current one. Memory may fail when it is made, and not when it is set,
  /// which follows an edit that cannot be taken back.
  class NextView {
   public:
    NextView(LightKv* engine, View view);
    void Set() && noexcept;

   private:
    LightKv* const engine_;
    std::unique_ptr<const View> view_;
    const uint64_t leaves_;  // that the partitions have which level 0 has tables of
    EpochDomain::Retirement last_;
  };
  void SetView(View view) { NextView(this, std::move(view)).Set(); }
  TreePtr NewTree() const;
  /// Of a table: durable before an edit names it.
  uint64_t NewNumber();
  Status LoadStore();
  Status ReadBack(RhTree* tree);
  /// Puts tables in place of others and, in the same edit, changes what else the catalog keeps;
  /// with `flushed`, lets the sealed tree go. Where it fails but for want of a sync, nothing has
  /// changed.
  Status Install(LightKvEdit kind, const Made& made, bool flushed,
                 const std::function<void(LightKvState*)>& also);

  // lightkv_rebuild.cc
  Status NameRebuilt(const LightKvState& state, bool catalog_lost);

  // lightkv_jobs.cc
  uint64_t FlushBytes() const;
  /// `top`: the tree that new records enter.
  bool IsFlushDue(const RhTree& top) const;
  uint64_t FlushedSequence() const;
  Status Seal();
  Status FlushSealed();
  Status TryFlush();
  Status WriteSealed(const View& view, const Sealed& sealed);
  /// A flush by a caller beside whom there is nobody.
  Status FlushAlone();
  /// Waits for the end of the flush that has begun, if there is one, or of one that begins after
  /// this call, which it sees to.
  enum Which { kBegun, kNext };
  Status AwaitFlush(Which which);
  /// All that was written before this call is in tables on return.
  Status FlushNow();
  JobOffer OfferOf(PartitionCompaction compaction);
  Status Compact(const PartitionCompaction& compaction);
  /// Merges these tables, all that overlap in their levels, into one weight.
  Status Merge(const View& view, const std::vector<SstLevels::Level>& inputs, uint32_t into);
  void NoteYield(const std::vector<SstLevels::Level>& inputs, const MadeSsts& outputs);
  bool IsBound(std::string_view begin) const { return Hash64(begin) % leaves_per_partition_ == 0; }
  /// Where tables are cut: where partitions begin.
  std::vector<std::string> Bounds() const;
  Status GiveBack();
  /// A job's answer, OK where it found no room for a table (L5).
  Status TryForRoom(RoomFor what, const std::function<Status()>& job);
  Status RefuseForRoom();
  bool IsStarved(RoomFor what) const { return starved_[what].load(std::memory_order_relaxed); }
  /// How far what is written beside a flush is from where writers are held back, 0, to where they
  /// stop, 1. Without one they are not.
  double OverFlush(const View& view) const;
  bool IsFull(const View& view) const { return OverFlush(view) >= 1; }

  const EngineContext context_;
  const LightKvOptions options_;
  const PartitionRules rules_;
  const uint64_t leaves_per_partition_;
  Pool* const pool_;
  const uint64_t index_bytes_max_;   // of the tree, from when on it is flushed
  const uint64_t buffer_bytes_max_;  // of the log, the same
  const uint64_t log_bytes_max_;     // and of what is being flushed together, when writers stop
  const std::shared_ptr<BlockCache> cache_;
  RateLimiter limiter_;
  const SstFiles files_;
  std::unique_ptr<PmLog> log_;
  WritePath write_path_{this};
  PendingFrees pending_frees_;
  CatalogState<LightKvState> catalog_;

  // The current View, counted by nobody: who is pinned as a reader may use it (L1).
  std::atomic<const View*> view_{nullptr};
  Mutex change_mu_;        // held while view and catalog are changed
  RhTree* top_ = nullptr;  // view's; guarded by the shards' locks: changed with all of them
  std::atomic<uint64_t> record_bytes_{0};  // in the log, since the tree was sealed
  FlushPace pace_;
  std::atomic<uint64_t> most_leaves_{1};   // of the tree that was sealed last
  std::atomic<uint64_t> empty_bytes_{0};   // that the tree had of memory before its first record
  std::atomic<uint64_t> table_bytes_{0};   // of the current tables, as the next
  std::atomic<uint64_t> crowd_{0};         // of level 0, for each leaf
  std::atomic<bool> has_sealed_{false};    // sealed_ is set, or about to be
  std::atomic<uint64_t> exhausted_at_{0};  // what was flushed when a write last asked for space
  std::vector<SequenceGap> gaps_;          // changed by Load and Mend, and by the one flush

  mutable JobBoard jobs_;
  std::optional<Sealed> sealed_ LAMELLA_GUARDED_BY(jobs_.mu);
  uint64_t flushes_wanted_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  uint64_t flushes_begun_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  uint64_t flushes_done_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  uint64_t flushed_sequence_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  std::array<FileRoom, kRooms> rooms_ LAMELLA_GUARDED_BY(jobs_.mu);
  MergeYields yields_ LAMELLA_GUARDED_BY(jobs_.mu){rules_};
  std::array<std::atomic<bool>, kRooms> starved_{};  // what rooms_ has is no OK
  ErrorLatch error_;

  std::atomic<uint64_t> compactions_{0};
  std::atomic<uint64_t> flushed_records_{0};
  std::atomic<uint64_t> flush_ns_{0};
  std::atomic<uint64_t> recovered_{0};
  std::atomic<uint64_t> recovery_log_us_{0};
  StripedCounter gets_tree_;
  StripedCounter gets_tables_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIGHTKV_LIGHTKV_H_
