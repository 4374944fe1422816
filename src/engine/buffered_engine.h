// BufferedEngine is what designs with a log in the pool and a MemTable share: what stands after the
// write path, the MemTable part of reads, the switch of a full MemTable, back-pressure. A design
// adds its tables: how a MemTable becomes one, how they are searched and compacted.
//
// I1: a record enters the active MemTable only when it is durable in the log, under its shard's
//     lock (WritePath's W1).
// I2: a MemTable is sealed with every shard's lock held: it and its successors divide sequence
//     numbers and log places exactly. All that it holds is published by then, so every sequence
//     number that is taken once there is a table of it covers the table.
// I3: a reader pins, then takes its sequence number, then the ReadSet. So what a ReadSet drops (a
//     flushed MemTable, say) was replaced by something the next one has; and a Get that could need
//     a version older than a table's is over when the epoch in which the table was made is (I2).
// I4: flushes run one at a time, oldest MemTable first.
// I5: the log that is not merged yet takes a few times what lives at most, or a few megabytes, and
//     what is being written (UnmergedShare): what is dead in it is found by merging alone, so a
//     small store that is overwritten, or a queue, would otherwise be as large as DRAM lets its log
//     be.
// I6: where a flush copies records (a plain log), a write is let in, and compaction copies, only
//     while there is room for the copies of all that is not flushed yet: so a flush never finds the
//     pool full. Writes leave what the merge takes that finds what is dead, too (KeepForMerge). All
//     they count on is there: a file system that is full refuses it to them, not to a flush. What a
//     job has claimed of its room is not kept any more; of a flush that fails all of it is kept
//     again, before what it claimed is free.
// I7: the active MemTable and its log take twice what they should at most, and what is being
//     written: until there writers leave a switch that they would wait for to the next of them.
// Threads: as Engine says.
#ifndef LAMELLA_ENGINE_BUFFERED_ENGINE_H_
#define LAMELLA_ENGINE_BUFFERED_ENGINE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/striped_counter.h"
#include "engine/engine.h"
#include "engine/error_latch.h"
#include "engine/evacuation.h"
#include "engine/job_board.h"
#include "engine/write_path.h"
#include "log/pm_log.h"
#include "memtable/memtable.h"

namespace lamella {

/// A design's tables at one moment; immutable.
struct TableSet {
  virtual ~TableSet() = default;
};

/// All that a read looks at, newest first; immutable.
struct ReadSet {
  std::shared_ptr<MemTable> active;
  std::vector<std::shared_ptr<MemTable>> sealed;  // newest first
  std::shared_ptr<const TableSet> tables;
};

/// Records that may be the newest of a key in the tables, as the cache knew before a search.
struct Candidates {
  uint64_t hash = 0;
  uint64_t generation = 0;  // of the cache, when it was asked
  uint32_t count = 0;
  std::array<PmPtr, 8> places;
};

/// What compaction has yet to look at, of a design's tables. Bytes of the pool.
struct Unmerged {
  uint64_t bytes = 0;
  uint64_t live_bytes = 0;                   // of them, so far as is known
  std::optional<double> live_share_of_last;  // of the newest table, where there is one
};

/// What a flush takes that copies records (where the log is not its tables'), beside the records.
struct CopyCost {
  uint64_t bytes_per_record = 16;             // links, or what an index has of each
  uint64_t value_bytes_max = kValueBytesMax;  // of a value: longer ones go elsewhere
  uint64_t ends = 0;                          // chunks that flushes to come leave unfilled
  uint64_t keys_in_row = 1;                   // side by side: a record's, or more in an index
  bool in_all_parts = false;                  // else in the first part of the pool
  // Merges copy, too: what is written needs room once more, for when it is merged.
  bool merges_copy = false;
};

/// A MemTable is not switched below this, however short memory is.
inline constexpr uint64_t kMemTableBytesMin = 64 << 10;

class BufferedEngine : public Engine, private WriteTarget {
 public:
  Status Write(std::span<const WriteOperation> operations) override;
  Lookup Get(std::string_view key, uint64_t sequence, bool verify, EpochPin* pin) override;
  std::unique_ptr<InternalIterator> NewIterator(bool verify) override;
  uint64_t PublishedSequence() const override { return write_path_.published(); }
  uint32_t WriteDelayNs() const override { return delay_ns_.load(std::memory_order_relaxed); }
  void AwaitWriting() override;
  Status Flush() override;
  void AddStats(Stats* stats) const override;
  std::string Describe() const override;
  Status BackgroundError() const override { return error_.Get(); }
  Status::Code BackgroundCause() const override { return error_.cause(); }
  void SetBackgroundError(const Status& status) override;
  void ClearBackgroundError() override { error_.Clear(); }

 protected:
  /// `memtable_bytes`: of DRAM, at which a MemTable is full.
  BufferedEngine(const EngineContext& context, uint64_t memtable_bytes, CopyCost copy_cost = {});

  // What a design provides.
  /// Makes a table of the oldest sealed MemTable and installs it in place of it (InstallFlushed).
  /// Urgent job, one at a time.
  virtual Status FlushMemTable(const std::shared_ptr<MemTable>& memtable) = 0;
  /// Called before the MemTables are searched: what a design's cache has for the key, on its way
  /// into the processor by the time that they were.
  virtual Candidates FindCandidates(std::string_view) { return {}; }
  /// With `verify`, checks the checksum of every record that the search depends on. `pin` as of
  /// Engine::Get: who lets go of it holds the tables by a reference of its own.
  virtual Lookup SearchTables(const TableSet& tables, const InternalKey& target,
                              const Candidates& candidates, bool verify, EpochPin* pin) = 0;
  virtual void AddTableIterators(const std::shared_ptr<const TableSet>& tables, bool verify,
                                 std::vector<std::unique_ptr<InternalIterator>>* iterators) = 0;
  /// DRAM that tables hold until compaction has caught up with them, and that MemTables share with
  /// them: bytes.
  virtual uint64_t UncompactedBytes(const TableSet& tables) const = 0;
  /// What MemTables and uncompacted tables may hold together, bytes.
  virtual uint64_t BufferedBytesMax() const = 0;
  /// Nothing where tables are never compacted.
  virtual std::optional<Unmerged> UnmergedOf(const TableSet& tables) const = 0;
  /// Of what compaction has looked at: the keys and values that live.
  virtual uint64_t LiveBytes() const = 0;
  /// What reads pay for tables that compaction has yet to look at, over what they may: writers wait
  /// from a half of it on, and stand still from 1 on.
  virtual double ReadDebt(const TableSet&) const { return 0; }
  /// How long each written record is to be held back because compaction has fallen behind in what
  /// the figures above do not show, nanoseconds.
  virtual uint32_t CompactionDelayNs(const TableSet&) const { return 0; }
  /// The pool is full: makes space if there is any to make. True if something may have become free.
  virtual bool ReclaimSpace() = 0;

  /// What a design's state of record says of its log.
  struct LogState {
    bool unified = true;                // its records are its tables'
    std::vector<LogPosition> boundary;  // before it all is in tables, per shard
    uint64_t flushed_sequence = 0;      // up to here everything is
    std::vector<SequenceGap> gaps;
    bool may_have_holes = false;  // as of ReadLog, as the next
    IsWholeRecord is_whole = nullptr;
  };
  /// Sorts the log after the boundary into MemTables, newest first before `oldest` (may be null:
  /// sealed, and not flushed to its end) and `tables`, and starts the write path after it.
  /// Corruption: as ReadLog says.
  Status LoadLog(const LogState& state, std::shared_ptr<const TableSet> tables,
                 std::shared_ptr<MemTable> oldest = nullptr);
  /// After LoadLog, once writing to the pool is allowed: mends marks, and adds to `gaps` the
  /// numbers of writes that never returned, beyond the first missing one: void from now on, so that
  /// no later recovery takes them for the successors of what is written next. True if there are
  /// such, which the design's state is to keep before anything is written.
  bool MendLog(std::vector<SequenceGap>* gaps, Persister* persister);
  /// Starts the write path: numbers after `contents`'s last, the log after it.
  void StartWriting(uint32_t shards, bool unified, const LogContents& contents,
                    std::vector<std::shared_ptr<MemTable>> sealed,
                    std::shared_ptr<const TableSet> tables);
  /// The flush job for the oldest sealed MemTable, if there is one and none runs.
  std::optional<Job> PickFlush();
  /// For the heads of tables made from here on; null where the keys' first bytes do.
  std::shared_ptr<const KeyPrefixes> prefixes() const;
  void SetPrefixes(std::shared_ptr<const KeyPrefixes> learned);
  /// The memory that Install needs: taken before an edit, so that it does not fail after it. Throws
  /// std::bad_alloc.
  struct InstallMemory {
    InstallMemory();
    std::shared_ptr<ReadSet> next;
    std::shared_ptr<std::shared_ptr<const ReadSet>> old;
    EpochDomain::Retirement retirement;
  };
  /// Swaps the tables, and takes `flushed` (may be null) off the sealed ones, in one step.
  void Install(std::shared_ptr<const TableSet> tables, const MemTable* flushed,
               InstallMemory memory = {});
  std::shared_ptr<const ReadSet> CurrentReadSet() const;
  /// Sealed records are not flushed yet, or their flush has not let go yet of what it began with.
  bool HasUnflushed() const;
  /// Something is, or was since flush_count() answered `flushes`: what began then has not seen it.
  bool HasNewlyFlushed(uint64_t flushes) const {
    return HasUnflushed() || flush_count() != flushes;
  }
  uint64_t flush_count() const { return flushes_.load(std::memory_order_relaxed); }
  /// Seals the active MemTable if it holds anything (`force`) or is full.
  void SwitchMemTable(bool force);
  /// To be switched: by its size, or because memory is short.
  bool IsFull(const MemTable& memtable) const;
  /// To be called when what it goes by has changed.
  void UpdateWriteDelay() LAMELLA_REQUIRES(read_set_mu_);
  /// The same, for who has not the lock.
  void ReviseWriteDelay();
  /// Compaction has no room, or has it again. While it has none, what it is behind with stops no
  /// writer: nobody would let him go on. He comes to the pool's end, and is told.
  void SetStarved(bool starved);
  /// Writers leave so many bytes, deletes these at least (I6). A merge takes them without asking.
  void KeepForMerge(uint64_t bytes, uint64_t least) {
    merge_bytes_.store(bytes, std::memory_order_relaxed);
    merge_bytes_least_.store(least, std::memory_order_relaxed);
  }
  /// For Close: the pool keeps what writers leave, so that deletes work, and make room, in a next
  /// session in which it may not grow, or cannot.
  void LeaveForMerge();
  /// How much of what is flushed will be left once it is merged: deletes go, and what replaces
  /// older versions lets go of those. `has_put`: whether the tables of before have a put of the
  /// key, the hash of which it is told.
  static double SampleLiveShare(const MemTable& memtable,
                                const std::function<bool(std::string_view, uint64_t)>& has_put);
  /// What a record's copy may take in an arena, whatever lies beside it there.
  uint64_t CopyBytesMax(uint64_t record_bytes) const;
  /// Room for what compaction copies: flushes and writers leave it, and it leaves the copies of all
  /// that is not flushed yet (I6).
  class CompactionRoom final : public CopyRoom {
   public:
    explicit CompactionRoom(BufferedEngine* engine) : engine_(engine) {}
    ~CompactionRoom() override { engine_->AddCompactionCopies(0 - bytes_); }
    bool Reserve(uint64_t bytes) override;
    /// The same. NoSpace: why there is none `for_what`; where the file system gives none, its
    /// error.
    Status Take(uint64_t bytes, std::string_view for_what);
    /// Of that, chunks of so many bytes are claimed, or, below 0, will be free again: no more than
    /// the rest is kept.
    void Claimed(int64_t bytes);

   private:
    void Note(uint64_t bytes);

    BufferedEngine* const engine_;
    uint64_t reserved_ = 0;
    int64_t claimed_ = 0;
    uint64_t bytes_ = 0;  // of that, what is kept
  };
  /// The same of what a flush copies: of what was kept when its records were let in. If the flush
  /// fails, all of it is kept again.
  class FlushRoom {
   public:
    /// Both outlive it. REQUIRES: `flushing` is the MemTable that is being flushed.
    FlushRoom(BufferedEngine* engine, const MemTable& flushing)
        : engine_(engine), bytes_max_(flushing.copy_bytes()) {}
    ~FlushRoom();
    FlushRoom(const FlushRoom&) = delete;
    FlushRoom& operator=(const FlushRoom&) = delete;
    void Claimed(int64_t bytes);

   private:
    BufferedEngine* const engine_;
    const uint64_t bytes_max_;
    int64_t claimed_ = 0;
  };
  /// The urgent job that is to be done: a flush, or chunks to be provided.
  std::optional<Job> PickUrgentJob();
  Status MakeSpace() override;
  /// For ReclaimSpace, with jobs_.mu held: whether something is to be had, and then that it is
  /// wanted; and whether all that was wanted is done. `has_deferred`: frees wait for readers.
  using BeginReclaim = std::function<bool(bool has_deferred)>;
  using IsReclaimed = std::function<bool()>;
  /// Answers as ReclaimSpace. The MemTable is sealed first; jobs whose ends tell do what is wanted,
  /// and are waited for, but not for ever: other writers may want all that there is. A Reclaiming
  /// that is under way is, however long it takes.
  bool AwaitReclaimed(const BeginReclaim& begin, const IsReclaimed& is_done);
  /// As long as it lives its engine's job is one that AwaitReclaimed waits for.
  class Reclaiming {
   public:
    explicit Reclaiming(BufferedEngine* engine) LAMELLA_EXCLUDES(engine->jobs_.mu);
    ~Reclaiming();
    Reclaiming(const Reclaiming&) = delete;
    Reclaiming& operator=(const Reclaiming&) = delete;

   private:
    BufferedEngine* const engine_;
  };
  /// What is free in truth may be held yet: by a thread that looks for a job, which has the tables
  /// while it does, or by one that runs the frees that it found due. Those are waited for. Returns
  /// how many chunks wait for others. REQUIRES: as Pool::AwaitDeferred.
  size_t AwaitHeld() LAMELLA_EXCLUDES(jobs_.mu);
  /// The most that a write needs of those that were refused since the last call, in chunks and
  /// apart from what of others is not flushed; 0 where none was.
  uint64_t TakeRefused();
  /// Whether the pool has that now, once nothing is sealed, and enough to go on for a while.
  bool HasRoomFor(uint64_t refused) const;
  /// Of records that have something beside them (RecordInput::beside): to be called before LoadLog.
  void SetCopyBeside(CopyBeside copy) { copy_beside_ = std::move(copy); }
  /// Flushes inline; for Close, when no job runs any more.
  Status FlushAllNow();

  /// The answer that the record at `place` is.
  Lookup Found(PmPtr place, RecordKind kind) const;
  /// The answer where damage stopped a search.
  Lookup Damaged(PmPtr damaged) const;
  const EngineContext context_;
  Pool* const pool_;
  // What jobs have: designs number theirs from 0 on.
  static constexpr uint32_t kFreshChunks = UINT32_MAX;
  mutable JobBoard jobs_;
  std::unique_ptr<PmLog> log_;  // constant after StartWriting
  std::atomic<uint64_t> flushes_{0}, flushed_records_{0}, flush_ns_{0};

 private:
  // What the write path asks.
  Status Provide(const Needs& needs, SpareMemory* spare, uint64_t* reserved) override;
  void Abandon(uint64_t reserved) override;
  bool Enter(std::span<const WriteOperation> operations, uint64_t first,
             std::span<const Location> locations, uint64_t reserved, SpareMemory* spare) override;
  void OnClaimed(uint64_t record_bytes) override;
  void OnLogGrown(uint64_t bytes) override;
  void OnWritten(bool entered, bool log_grown) override;
  bool DeletesMayUseReserve() const override;

  /// Of a record, as a flush copies it.
  uint64_t FlushedBytes(uint64_t record_bytes, size_t key_bytes) const {
    return std::min(record_bytes, RecordBytes(0, key_bytes, copy_cost_.value_bytes_max));
  }
  /// What that may take of the pool.
  uint64_t FlushBytesMax(uint64_t record_bytes, size_t key_bytes) const {
    return CopyBytesMax(FlushedBytes(record_bytes, key_bytes));
  }
  /// The chunks side by side that it needs.
  uint32_t FlushRunMax(uint64_t record_bytes, size_t key_bytes) const;
  /// It was opened with a pool_bytes_max below its size.
  bool IsLargerThanItMayBe() const;
  /// The first of them; and the chunks that these may have.
  uint32_t PartsOfCopies() const;
  uint64_t AvailableForCopies() const;
  /// Of these, those that lie in rows of so many.
  uint64_t AvailableInRows(uint32_t run, uint64_t most) const;
  /// Bytes, for merges (KeepForMerge), beside a write of so many with its copies.
  uint64_t DeletesLeave(uint64_t write_bytes, uint32_t copy_run) const;
  /// Of the bytes of a write's records, those that count with its copies until they are claimed.
  uint64_t NotedUntilClaimed(uint64_t record_bytes) const;
  /// Chunks that are to be free whatever is written: the ends of copies, and of each part as many
  /// extents.
  uint64_t ChunksKept(uint64_t extents) const;
  Status ReserveCopies(uint64_t record_bytes, uint64_t copy_bytes, uint32_t copy_run,
                       Claimant claimant);
  /// Chunks of the parts that copies are made in.
  struct Room {
    uint64_t needed = 0;
    uint64_t soon = 0;  // of them, what a flush and a merge will take
    uint64_t available = 0;
    uint32_t run = 1;         // what lies in shorter rows counts for none
    uint32_t run_before = 1;  // who is let in is the raise-th to make it longer; 0: has not
    uint64_t raise = 0;
    bool suffices() const { return needed <= available; }
  };
  /// Notes the copies if there is room for them beside all others.
  /// `copy_run`: the chunks side by side that the longest of them needs. `kept_bytes` are left
  /// beside, which nobody will take soon.
  Room LetIn(uint64_t record_bytes, uint64_t copy_bytes, uint32_t copy_run, uint64_t extents_kept,
             uint64_t kept_bytes = 0);
  /// Undoes that.
  void LetOut(uint64_t copy_bytes, const Room& room);
  /// The same, once the files have what it counts on. Not OK where `room` suffices: the file
  /// system's error, and nothing is noted.
  Status LetInOnceGrown(uint64_t record_bytes, uint64_t copy_bytes, uint32_t copy_run,
                        uint64_t extents_kept, uint64_t kept_bytes, Room* room);
  /// What was noted before.
  uint64_t NoteCopies(uint64_t copy_bytes);
  /// Of copies that were noted and will not be made, or of records that are claimed.
  void TakeBack(uint64_t copy_bytes);
  /// Of what is noted so much more, or less, is compaction's.
  void AddCompactionCopies(uint64_t bytes) LAMELLA_EXCLUDES(copy_run_mu_);
  /// Of what is noted the flush under way has claimed so much.
  void SetFlushClaimed(uint64_t bytes) LAMELLA_EXCLUDES(copy_run_mu_);
  /// Where nothing is left to be flushed no copy needs chunks side by side.
  void ReviseCopyRun() LAMELLA_EXCLUDES(copy_run_mu_);
  uint64_t LogBytesMax() const;
  bool IsEarly(const MemTable& memtable) const;
  bool IsOverfull() const;  // I7
  void LearnPrefixes(const HeadTree& tree);
  void CountFlush(uint64_t records, std::chrono::nanoseconds took);
  double UnmergedShare() LAMELLA_REQUIRES(read_set_mu_);
  Status SortLogged(const LogState& state, std::shared_ptr<const TableSet> tables,
                    std::shared_ptr<MemTable> oldest);

  const uint64_t memtable_bytes_;
  const CopyCost copy_cost_;
  CopyBeside copy_beside_;  // constant after LoadLog
  WritePath write_path_{this};
  std::unique_ptr<LogContents> loaded_log_;  // until it is mended
  std::atomic<uint64_t> recovered_records_{0};
  std::atomic<uint64_t> recovery_log_us_{0};
  bool unified_ = true;  // constant after StartWriting

  Mutex switch_mu_;                         // held while the active MemTable is switched
  std::atomic<MemTable*> active_{nullptr};  // changed with every shard's lock held
  std::atomic<uint64_t> next_memtable_id_{1};
  // MemTables that may yet be switched early, for heads that fit their keys
  std::atomic<uint32_t> early_switches_left_{2};
  // more was claimed than a MemTable's log may have
  std::atomic<bool> log_full_{false};
  std::atomic<uint64_t> log_claimed_bytes_{0};  // since the last switch; guards nothing
  // as of the last UpdateWriteDelay; guards nothing
  std::atomic<uint64_t> unmerged_bytes_max_{UINT64_MAX};

  bool is_reclaiming_ LAMELLA_GUARDED_BY(jobs_.mu) = false;
  uint64_t reclaims_ended_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  // of all that is let in and not flushed, and what compaction copies (I6), with the records of
  // large writes that are not claimed yet; guards those claims. The next two guard nothing.
  std::atomic<uint64_t> copy_bytes_{0};
  std::atomic<uint64_t> flush_claimed_{0};     // FlushRoom: what the flush under way took of them
  std::atomic<uint64_t> compaction_bytes_{0};  // of them, what compaction copies
  // The chunks side by side that the longest copy needs of a flush to come. Changed under the lock,
  // with which a copy that needs more than one comes to copy_bytes_, too, and with which bytes go
  // from one of the three figures to another: who asks whether anything is left to be flushed
  // misses none on its way. Taken last of all locks.
  Mutex copy_run_mu_;
  std::atomic<uint32_t> copy_run_{1};
  uint64_t copy_run_raises_ LAMELLA_GUARDED_BY(copy_run_mu_) = 0;  // by who is let in or refused
  std::atomic<uint64_t> merge_bytes_{0}, merge_bytes_least_{0};    // KeepForMerge
  std::atomic<uint64_t> refused_chunks_{0};                        // TakeRefused; guards nothing
  bool starved_ LAMELLA_GUARDED_BY(read_set_mu_) = false;          // SetStarved

  mutable Mutex read_set_mu_;
  std::shared_ptr<const ReadSet> owned_read_set_ LAMELLA_GUARDED_BY(read_set_mu_);
  // Of the last keys flushed whose heads were alike; may be null.
  std::shared_ptr<const KeyPrefixes> prefixes_ LAMELLA_GUARDED_BY(read_set_mu_);
  // what owned_read_set_ points to; readers are pinned
  std::atomic<const ReadSet*> read_set_{nullptr};
  double live_share_ LAMELLA_GUARDED_BY(read_set_mu_) = 1;  // of what was flushed last
  // Whose flush is under way.
  std::shared_ptr<MemTable> flushing_ LAMELLA_GUARDED_BY(read_set_mu_);
  std::condition_variable_any flushed_;  // with read_set_mu_: the sealed MemTables changed

  std::atomic<uint32_t> delay_ns_{0};
  std::condition_variable_any delay_changed_;  // with read_set_mu_
  ErrorLatch error_;                           // set with read_set_mu_ held, for who waits with it
  StripedCounter gets_memtable_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_BUFFERED_ENGINE_H_
