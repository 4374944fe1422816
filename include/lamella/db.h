// DB is an embedded, ordered key-value store in persistent memory, or in any file that can be
// mapped. Keys are 1 to 65,535 bytes, values 0 bytes to 1 GiB; order is bytewise.
//
// What a write that returned OK survives: a crash of the process, always; a power cut, where the
// medium persists bytes or cache lines (DAX); on an ordinary file a power cut only if it was
// written with WriteOptions::sync or before a Sync() that returned OK. See docs/DURABILITY.md.
//
// Threads: every call may be made from any thread at any time, except Close and the destructor,
// which need the DB to themselves. Iterators and PinnedValues may be let go of at any time, after
// the DB is gone, too.
//
// Codes that any call may return beside its own: ReadOnly (after a failed sync, or a background job
// that met an error: no space in files or pool for some seconds, refused memory, damage; the
// message says which; reads go on), IOError (the system refused memory, addresses, a thread or a
// file), Aborted (after Close).
// No call throws. MultiGet without memory for its answers returns none.
#ifndef LAMELLA_DB_H_
#define LAMELLA_DB_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamella/iterator.h"
#include "lamella/options.h"
#include "lamella/pinned_value.h"
#include "lamella/resources.h"
#include "lamella/stats.h"
#include "lamella/status.h"
#include "lamella/write_batch.h"

namespace lamella {

inline constexpr size_t kKeyBytesMax = 65535;
inline constexpr size_t kValueBytesMax = size_t{1} << 30;

/// A point in time that reads can name. Made by DB::GetSnapshot, given back by DB::ReleaseSnapshot.
class Snapshot {
 public:
  /// The newest sequence number that the snapshot sees.
  virtual uint64_t sequence() const = 0;

 protected:
  virtual ~Snapshot() = default;
};

/// The names of the engines of this build, as EngineFromName takes them; the default's first.
std::vector<std::string_view> BuiltEngineNames();

class DB {
 public:
  /// Opens the store in directory `path`, creating it if Options says so, recovering it if it was
  /// not closed. What *db holds is destroyed first, and it is null where this does not return OK.
  /// NotFound: no store there and create_if_missing is off, or no directory that one can be made
  /// in. InvalidArgument: an option out of range, a store of another engine, error_if_exists, parts
  /// of a pool that pmem_paths does not name. Busy: open already, in this process or in another
  /// one, under this path or under one whose Options::pmem_paths name the same pool; or held by
  /// what is left of a DB that was destroyed. Corruption: not a store, or one that is damaged.
  /// NotSupported: a newer format or an engine that this build lacks. NoSpace: the pool cannot be
  /// made, or is a copy with holes that there is no space for. IOError: no threads, no addresses,
  /// no memory; then the store is as it was.
  static Status Open(const Options& options, const std::string& path, std::unique_ptr<DB>* db);

  DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  /// Closes what Close did not. Iterators and PinnedValues that are left stay readable, as of when
  /// they were made; the store's files stay locked until the last of them goes. Snapshots that are
  /// left are void: do not name them to another DB.
  virtual ~DB() = default;

  /// Sets `key` to `value`. Durable on return as the class comment says; seen by every read that
  /// starts later. InvalidArgument: a key or value outside the limits. NoSpace: the pool is full.
  virtual Status Put(const WriteOptions& options, std::string_view key, std::string_view value) = 0;
  /// Removes `key`; OK too where there is none. Works on a pool that is full by pool_bytes_max.
  /// InvalidArgument: as for Put. NoSpace: the file system of LightKV's files is full, the store is
  /// larger than it may be now, or a small pool of TLSM is full of long keys (docs/LIMITS.md).
  virtual Status Delete(const WriteOptions& options, std::string_view key) = 0;
  /// Applies the batch, all or nothing, in its order. An empty batch is OK and writes nothing;
  /// with WriteOptions::sync what was written before it is synced all the same.
  /// InvalidArgument, NoSpace: as for Put, of any of its operations; then nothing is written.
  virtual Status Write(const WriteOptions& options, const WriteBatch& batch) = 0;

  /// Copies the value of `key` to *value. NotFound: there is none. Corruption: the record does not
  /// validate.
  virtual Status Get(const ReadOptions& options, std::string_view key, std::string* value) = 0;
  /// As above without the copy: *value views the pool until it is reset or destroyed. `key` may be
  /// a view of what it holds.
  virtual Status Get(const ReadOptions& options, std::string_view key, PinnedValue* value) = 0;
  /// One Status and one value per key, all as of one point in time. None at all where there is no
  /// memory for so many. REQUIRES: no key is a view of what is in *values.
  virtual std::vector<Status> MultiGet(const ReadOptions& options,
                                       std::span<const std::string_view> keys,
                                       std::vector<std::string>* values) = 0;

  /// An iterator over the store as of now, or as of ReadOptions::snapshot. Where it cannot be had
  /// it says so in its status; null only where there is no memory for one that would.
  virtual std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) = 0;

  /// A snapshot of the store as it is. One that is held keeps old versions, and so their space.
  /// Null after Close, and where there is no memory for it.
  virtual const Snapshot* GetSnapshot() = 0;
  /// Null is let pass.
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  /// On return every write that had returned before survives a power cut on every medium that
  /// survives one at all.
  virtual Status Sync() = 0;
  /// Moves what MemTables hold to their tables. Not needed for durability.
  virtual Status Flush() = 0;
  /// Compacts keys in [begin, end), as written when it is called; an empty end is unbounded. Drops
  /// what no snapshot needs. Works in the caller's thread, beside reads and writes; NoSpace on a
  /// full pool is no lasting error: make room and call it again. An IOError makes the store
  /// read-only, as a background job's does. InvalidArgument: `begin` is not before
  /// an `end` that is not empty.
  virtual Status CompactRange(std::string_view begin, std::string_view end) = 0;
  /// Returns when no background work is left to do.
  virtual Status WaitForIdle() = 0;
  /// Tries to leave the read-only state that an error of the medium or of a background job caused.
  /// OK: writes work again; what a background job met that had begun before is no new error, the
  /// job is tried again.
  virtual Status Resume() = 0;

  /// Values for people and tools: "lamella.stats", "lamella.levels", "lamella.stats.json",
  /// "lamella.engine", "lamella.medium", "lamella.write-amplification", and
  /// "lamella.background-error": why the store is read-only, empty where it is not. False for an
  /// unknown name, after Close, and without memory for the answer.
  virtual bool GetProperty(std::string_view name, std::string* value) = 0;
  /// All zeros after Close, and without memory for its vectors.
  virtual Stats GetStats() = 0;

  /// Flushes, marks the store clean and closes it: the next Open takes milliseconds. The destructor
  /// does the same and cannot report. Busy: iterators, snapshots or PinnedValues are left, and the
  /// message says how many; the store stays open as it was. After any other answer it is closed.
  /// Calls after that answer Aborted, whatever else is wrong with them; GetProperty false, GetStats
  /// zeros. Aborted, too, in a child that the process forked: there neither it nor the destructor
  /// does anything, for the store is its parent's.
  virtual Status Close() = 0;
};

/// What CheckDB found.
struct CheckReport {
  uint64_t records = 0;  // records whose checksum was verified
  uint64_t tables = 0;
  uint64_t chunks = 0;
  // one line each: what, pool part, chunk and offset, what was expected
  std::vector<std::string> problems;

  bool clean() const { return problems.empty(); }
};

/// What RepairDB did.
struct RepairReport {
  uint64_t records_kept = 0;
  /// At most so many that do not validate any more, or are missing. Damage that stays where it is,
  /// between records that no repair moves (listdb, zipperdb), is counted again by the next repair,
  /// until what is around it is written anew.
  uint64_t records_lost = 0;
  /// True where what is lost beside `records_lost` cannot be counted, and may be any number of
  /// records: the pool is gone, and tables in files alone are left.
  bool loss_unknown = false;
  std::vector<std::string> notes;
};

// Of the options, those that say where the store lies and how it is opened count, and of a store
// whose pool is gone the engine. All answer Busy where the store is open.

/// Removes the store in `path`, with the parts that Options::pmem_paths names, and nothing else
/// there. OK where there is none.
Status DestroyDB(const std::string& path, const Options& options);
/// Rebuilds the store's indexes from the records that validate. Never invents a record. Where the
/// pool is gone it makes one anew, of what tables in files hold; where files of values are all that
/// is left it saves nothing, since their keys were in the pool: it answers Corruption and leaves
/// them as they are. NotFound: no store. InvalidArgument, NotSupported: as for Open. Corruption:
/// also where so little validates that it is not known for a store.
Status RepairDB(const std::string& path, const Options& options, RepairReport* report = nullptr);
/// Walks every structure and verifies every checksum; what a crash left is recovered first, as by
/// Open. OK with problems listed where it is damaged. NotFound, InvalidArgument, NotSupported: as
/// for RepairDB.
Status CheckDB(const std::string& path, const Options& options, CheckReport* report);

}  // namespace lamella

#endif  // LAMELLA_DB_H_
