// DbImpl is the front end: it checks arguments, keeps snapshots, delays writers under pressure, and
// hands everything else to the engine.
#ifndef LAMELLA_DB_DB_IMPL_H_
#define LAMELLA_DB_DB_IMPL_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/annotations.h"
#include "base/mutex.h"
#include "base/process_id.h"
#include "base/stall_counter.h"
#include "base/striped_counter.h"
#include "db/scheduler.h"
#include "db/shared_resources.h"
#include "engine/engine.h"
#include "file/file_system.h"
#include "lamella/db.h"
#include "pool/pool.h"

namespace lamella {

/// What reads stand on. An iterator or a PinnedValue that is left when the DB is destroyed keeps
/// it, and with it the pool's files and their locks; whoever lets go of the last one lets go of
/// this.
struct StoreCore {
  explicit StoreCore(const Options& from) : options(WithBudget(from)) {}
  /// With the budget of the shared resources, where there are any.
  static Options WithBudget(Options options);
  /// Nothing reads any more.
  void LetGo();
  /// Something of it reads.
  bool IsRead() const;
  bool IsForked() const { return process != ProcessId(); }
  /// One of `users` is gone; with the last of them, and of the pool's holders, all this is.
  void LetGoOfUser();

  const Options options;
  std::shared_ptr<SharedResources> resources;  // constant after Init
  std::unique_ptr<MemoryAccount> memory;       // outlives the pool
  std::unique_ptr<FileLock> lock;
  std::unique_ptr<Pool> pool;
  SnapshotList snapshots;  // of iterators, too
  std::atomic<uint64_t> iterators_open{0};
  const pid_t process = ProcessId();  // whose the store is: no child's that it forks
  std::shared_ptr<StoreCore> itself;  // in a forked child: kept for ever
  // The DB, until it is closed, and PinnedValues that are not in the pool's holders().
  std::atomic<uint64_t> users{1};
  std::function<void()> let_go;  // set when the DB lets go: it keeps this until it has run
  // What was left when the DB went frees chunks as it goes: with the last of it the store is closed
  // in order. Set before the DB lets go.
  bool closes_with_last = false;
  std::unique_ptr<Engine> engine;
  Scheduler scheduler;
  // Held while an iterator asks the engine for another source: none does once the DB is closed.
  Mutex renewing;
  bool renewals_over LAMELLA_GUARDED_BY(renewing) = false;
};

/// What tests put beneath a store.
struct DbSeams {
  PersistHook* hook = nullptr;
  bool inline_jobs = false;  // no threads (Scheduler::Start), and nothing goes by the clock
  FileSystem* files = FileSystem::Posix();
  OsHook* os = nullptr;  // of the pool's files
  // For how long an iterator that moves may hold back what waits for it: so that what a renewal
  // costs, a seek and the making of its parts, is little of a walk's time. Without threads it is 0.
  std::chrono::nanoseconds renewed_after = std::chrono::milliseconds(50);
};

class DbImpl final : public DB {
 public:
  DbImpl(const Options& options, std::string path, const DbSeams& seams = {})
      : core_(std::make_shared<StoreCore>(options)), path_(std::move(path)), seams_(seams) {}
  ~DbImpl() override;

  /// The rest of DB::Open, once per object.
  Status Init();

  Status Put(const WriteOptions& options, std::string_view key, std::string_view value) override;
  Status Delete(const WriteOptions& options, std::string_view key) override;
  Status Write(const WriteOptions& options, const WriteBatch& batch) override;
  Status Get(const ReadOptions& options, std::string_view key, std::string* value) override;
  Status Get(const ReadOptions& options, std::string_view key, PinnedValue* value) override;
  std::vector<Status> MultiGet(const ReadOptions& options, std::span<const std::string_view> keys,
                               std::vector<std::string>* values) override;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override;
  const Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const Snapshot* snapshot) override;
  Status Sync() override;
  Status Flush() override;
  Status CompactRange(std::string_view begin, std::string_view end) override;
  Status WaitForIdle() override;
  Status Resume() override;
  bool GetProperty(std::string_view name, std::string* value) override;
  Stats GetStats() override;
  Status Close() override;

  /// For CheckDB and RepairDB, which are calls on a closed store.
  Engine* engine() { return engine_; }
  Pool* pool() { return pool_; }
  /// Opens lock and pool without recovering: for RepairDB.
  Status OpenPool(bool may_create, std::vector<std::string>* mended = nullptr);
  Status CheckNoOtherParts() const;
  Status CheckPartsLieApart() const;
  Status CheckNoDataFiles() const;
  /// Where there are tables in files, and no pool: makes an empty one, of the same store.
  Status CreateLostPool();
  /// That a pool is such a one.
  Status ReportLostPool(RepairReport* report) const;
  Status MakeEngine();
  std::vector<ChunkRef> FindLostChunks(RepairReport* report) const;
  /// The rest of RepairDB, once per object, in place of Init.
  Status Repair(RepairReport* report);
  /// Leaves everything as a crash would: for tests of crashes.
  void Abandon();
  /// Stops background work for good and walks everything.
  Status CheckQuietly(CheckReport* report);

 private:
  Status OpenStore();
  bool IsForked() const { return core_->IsForked(); }
  Status CheckReleased() const;
  void AddStats(Stats* stats);
  bool FindProperty(std::string_view name, std::string* value);
  /// For good.
  void StopJobs();
  Status Shut();
  void EndRenewals();
  void LetGo();
  Status CheckOptions() const;
  Status TakeResources();
  Status CheckWrite(std::string_view key, std::string_view value) const;
  Status WriteOperations(const WriteOptions& options, std::span<const WriteOperation> operations);
  Status AwaitRoom(uint32_t delay_ns, size_t records);
  uint64_t ReadSequence(const ReadOptions& options) const;
  Status Find(const ReadOptions& options, std::string_view key, uint64_t sequence, EpochPin* pin,
              Lookup* lookup);

  const std::shared_ptr<StoreCore> core_;
  // Made here: letting go must not want memory.
  std::function<void()> let_go_ = [core = core_] { core->LetGo(); };
  const Options& options_ = core_->options;
  const std::string path_;
  const DbSeams seams_;
  SnapshotList& snapshots_ = core_->snapshots;
  Scheduler& scheduler_ = core_->scheduler;
  Pool* pool_ = nullptr;  // constant from Init to Close, null after it, as engine_
  Engine* engine_ = nullptr;
  std::atomic<bool> open_{false};
  uint64_t recovery_us_ = 0;  // constant after Init

  StripedCounter gets_;
  StripedCounter gets_found_;
  StripedCounter iterators_;
  std::atomic<uint64_t> snapshots_open_{0};  // a figure, and for Close, who has the DB to itself
  std::atomic<uint64_t> owed_ns_{0};         // of delays; not slept yet
  StallCounter stalls_;                      // of writes held back by debt
};

/// DestroyDB over the seams of tests.
Status DestroyStore(FileSystem* files, OsHook* os, const std::string& path, const Options& options);

/// The files of the pool's parts, by Options::pmem_paths or in the store's directory.
std::vector<std::string> PoolPaths(const Options& options, const std::string& path);

}  // namespace lamella

#endif  // LAMELLA_DB_DB_IMPL_H_
