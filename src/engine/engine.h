// Engine is everything beneath the write path of one design: which structures hold the data and how
// they are compacted. The front end (src/db) gives it a pool, options, the snapshots that are live,
// and threads that run the jobs it offers.
// Threads: Load, Mend, Close, Check before or after everything else; the other calls from any
// thread.
#ifndef LAMELLA_ENGINE_ENGINE_H_
#define LAMELLA_ENGINE_ENGINE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"
#include "engine/snapshot_list.h"
#include "file/file_system.h"
#include "iterator/internal_iterator.h"
#include "lamella/db.h"
#include "pool/pool.h"

namespace lamella {

struct WriteOperation {
  RecordKind kind = RecordKind::kPut;
  std::string_view key;
  std::string_view value;
  std::string_view beside;  // of a kPutElsewhere: the value, of which `value` is the address
};

enum class LookupState : uint8_t { kAbsent, kFound, kDeleted, kDamaged };

/// What a Get found.
struct Lookup {
  LookupState state = LookupState::kAbsent;
  std::string_view value;
  /// What keeps the value (a cached block, a buffer); null where it lies in the pool, and the
  /// caller's pin keeps it.
  std::shared_ptr<const void> owner;
  PmPtr place;    // the record's, where it lies in the pool
  Status damage;  // for kDamaged
};

/// How urgently a job must run. Urgent ones have a thread of their own, so that a long compaction
/// never makes writers wait.
enum class JobClass : uint8_t { kUrgent, kNormal };

struct Job {
  const char* name = "";
  std::function<Status()> run;
};

/// The delay of a write that must wait until the engine says otherwise (Engine::WriteDelayNs).
inline constexpr uint32_t kStopWriting = ~uint32_t{0};

/// What an engine needs of its surroundings; all outlive it.
struct EngineContext {
  Pool* pool = nullptr;
  const Options* options = nullptr;
  SnapshotList* snapshots = nullptr;
  std::function<void()> wake;       // there may be a job to pick
  std::function<void()> nudge;      // the same from where no job may run in the caller's thread
  MemoryAccount* memory = nullptr;  // of MemTables and caches; outlives the pool, too
  FileSystem* files = nullptr;      // where tables lie that are in no pool:
  std::string directory;            // in here, by their TableFileName
};

class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// Brings into DRAM what the pool holds, and changes nothing that outlives the process. Reads see
  /// it from here on, but where an index is to be rebuilt first, and in a fresh pool.
  virtual Status Load() = 0;
  /// Repairs what a crash left, or makes an empty store in a fresh pool. Writes may come after it.
  /// It may be cut by another crash anywhere.
  /// REQUIRES: Load was OK.
  virtual Status Mend() = 0;
  /// All or nothing; durable (as the medium allows) and visible on return. `operations` is not
  /// empty.
  virtual Status Write(std::span<const WriteOperation> operations) = 0;
  /// The newest version at or below `sequence`. `pin` is the caller's in pool->readers(), taken
  /// before it took `sequence`. The engine lets go of it before it reads from a file: no I/O is
  /// done inside an epoch, and what it then finds has an owner.
  virtual Lookup Get(std::string_view key, uint64_t sequence, bool verify, EpochPin* pin) = 0;
  /// Everything, in internal-key order. With `verify` it checks the records that its walk depends
  /// on.
  /// REQUIRES: the caller is pinned in pool->holders() for the iterator's life.
  virtual std::unique_ptr<InternalIterator> NewIterator(bool verify) = 0;
  virtual uint64_t PublishedSequence() const = 0;

  /// REQUIRES: whoever asks has the pool's CollectDeferred run first, and asks again when a reader
  /// that held something back is gone: both may be the beginning of a job.
  virtual std::optional<Job> PickJob(JobClass job_class) = 0;
  /// Among what waits for readers is a flush, an urgent job. Asked under another's lock: short.
  virtual bool FlushAwaitsReaders() const { return false; }
  /// How long each written record is to be held back, nanoseconds: background work then keeps up.
  /// Grows smoothly with the debt of background work, which reads pay: 0 where there is little,
  /// kStopWriting where memory for more is gone.
  virtual uint32_t WriteDelayNs() const = 0;
  /// Waits until the engine no longer says kStopWriting, or there is a background error: one of
  /// them comes, since an engine says kStopWriting only while there is a job that makes less of the
  /// debt, or the wait for a reader that holds such a job back; and whoever changes either tells.
  virtual void AwaitWriting() = 0;
  /// Moves MemTables to tables; returns when they are.
  virtual Status Flush() = 0;
  virtual Status CompactRange(std::string_view begin, std::string_view end) = 0;
  /// Somebody waits for the jobs that run, to close the store, or for a repair: they are held back
  /// by no option any more. Nor is what comes after it.
  virtual void Hurry() {}
  /// Flushes and leaves everything such that the next Mend has nothing to do. No job runs any
  /// more.
  virtual Status Close() = 0;

  virtual void AddStats(Stats* stats) const = 0;
  /// Levels, tables, sizes, for people.
  virtual std::string Describe() const = 0;
  virtual Status Check(CheckReport* report) = 0;
  /// Forgets every index and makes them anew from the records that validate.
  virtual Status Rebuild(RepairReport* report) = 0;

  /// The first error of a background job or of a media write; writes answer it until Resume.
  virtual Status BackgroundError() const = 0;
  /// The code of what it was, which that Status says in words; kOk where there is none.
  virtual Status::Code BackgroundCause() const = 0;
  virtual void SetBackgroundError(const Status& status) = 0;
  virtual void ClearBackgroundError() = 0;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ENGINE_H_
