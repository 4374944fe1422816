// Store is what the benchmark knows of a key-value store: one adapter per product, so that every
// workload is the same code for all of them.
// I1: every adapter answers reads into the caller's string and scans into the caller's Scan, so
//     that each store pays for handing the bytes over, not for pointing at them.
// I2: no adapter syncs; what a store so configured loses in a power cut is said by Durability().
// I3: the DRAM that a store may keep for itself is settings().memory_budget_bytes, write buffers
//     and caches together.
// Threads: a Session belongs to one thread; GetStats from any; Store's other calls need no write to
// be under way.
#ifndef LAMELLA_BENCH_STORE_H_
#define LAMELLA_BENCH_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamella/status.h"

namespace lamella::bench {

enum class StoreKind { kLamella, kRocksDb, kLevelDb, kLmdb };

/// A store to measure, as the command line names it: "rocksdb", or
/// "lamella:braided=false:engine=listdb".
struct StoreSpec {
  StoreKind kind = StoreKind::kLamella;
  std::string label;  // what tables call it; the text it was parsed from
  std::vector<std::pair<std::string, std::string>> options;
};

/// What all stores of a run are told alike.
struct StoreSettings {
  uint64_t memory_budget_bytes = 256ull << 20;
  /// User bytes that the run will put, at most; LMDB sizes its map by it. Raised: address space.
  uint64_t data_bytes_max = 1ull << 30;
  /// Write buffer of at least this, outside the budget, so that so much stays unflushed; 0 lets the
  /// store's share stand, and so does one that is named by the next.
  uint64_t unflushed_bytes = 0;
  /// Size of one write buffer, within the budget; 0 lets the store's share stand.
  uint64_t write_buffer_bytes = 0;
  bool create = true;
  // Lamella's own.
  std::string medium = "cacheline";
  std::string media_profile;  // empty: no emulated delay
  uint32_t parts = 1;         // directories that stand for NUMA nodes
  bool count_reads = false;   // costs a little at each
};

struct BytesByCause {
  std::string cause;
  uint64_t bytes = 0;
};

/// What a store says about itself. An empty optional is "it does not say".
struct StoreStats {
  // bytes to storage, by cause, since it was opened
  std::optional<std::vector<BytesByCause>> written;
  std::optional<uint64_t> log_fences;  // fences of the write path
  std::optional<uint64_t> all_fences;  // and of everything else with them
  std::optional<uint64_t> stall_ns;
  std::optional<uint64_t> stall_ns_max;
  std::optional<uint64_t> stall_count;
  std::optional<uint64_t> dram_bytes;
  std::optional<uint64_t> used_bytes;            // of its files, where it keeps free space in them
  std::optional<uint64_t> recovered_records;     // what the last open had to read again
  std::optional<double> recovery_log_seconds;    // that this took it,
  std::optional<double> recovery_index_seconds;  // and what it made of an index it keeps
  std::optional<uint64_t> read_bytes;   // of storage, where StoreSettings::count_reads is set
  std::optional<uint64_t> remote_hops;  // of reads, to another pool part than the nearest
  std::optional<uint64_t> local_hops;
  std::optional<uint64_t> flushed_records;  // out of write buffers
  std::optional<uint64_t> flush_ns;         // that flushing them took, of its thread's time
  std::optional<uint64_t> tables;           // that a read may have to ask

  /// Sum over causes; nullopt where `written` is.
  std::optional<uint64_t> BytesWritten() const;
};

/// Takes what a scan reads: copies the bytes, as a caller that wants them would, and keeps the sum
/// of the sizes.
class Scan {
 public:
  void Take(std::string_view key, std::string_view value) {
    buffer_.assign(value.data(), value.size());
    bytes_ += key.size() + value.size();
    records_++;
  }
  uint64_t records() const { return records_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::string buffer_;
  uint64_t records_ = 0;
  uint64_t bytes_ = 0;
};

/// One thread's way into a store. Must be destroyed before its store is closed.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  virtual Status Put(std::string_view key, std::string_view value) = 0;
  virtual Status Delete(std::string_view key) = 0;
  /// NotFound where there is none.
  virtual Status Get(std::string_view key, std::string* value) = 0;
  /// One by one where the store has nothing better. OK if all are found, NotFound if any is not.
  virtual Status MultiGet(std::span<const std::string_view> keys, std::vector<std::string>* values);
  /// Hands up to `count` records from the first at or after `from` to `scan`, with an iterator made
  /// for this call; in reverse from the last at or before `from`. An empty `from` is the first (in
  /// reverse: the last) record.
  virtual Status ScanFrom(std::string_view from, uint64_t count, bool reverse, Scan* scan) = 0;
};

class Store {
 public:
  /// Opens (creates, where settings say so) the store that `spec` names in `dir`, which exists.
  /// InvalidArgument: an option it does not know. NotSupported: a store that this build was made
  /// without.
  static Status Open(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                     std::unique_ptr<Store>* store);
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual std::unique_ptr<Session> NewSession() = 0;
  /// Returns when no background work is left.
  virtual Status WaitForIdle() = 0;
  /// Closes cleanly. No session may be left. The destructor does it too, and cannot report.
  virtual Status Close() = 0;
  virtual StoreStats GetStats() = 0;
};

/// OK where this build can open a store of this spec: its engine is there and its options are
/// known. NotSupported: the engine or the peer is not built; it names those that are.
Status CheckStoreSpec(const StoreSpec& spec);

/// "lamella", "rocksdb", "leveldb", "lmdb".
std::string_view StoreKindName(StoreKind kind);
/// The kinds that this build has.
std::vector<StoreKind> BuiltStoreKinds();
bool IsBuilt(StoreKind kind);
/// The product's version, for people; "not built" where this build was made without it.
std::string StoreVersion(StoreKind kind);
/// How a peer was built, which tells in its figures. REQUIRES: it is in this build.
std::string RocksDbBuild();
std::string LevelDbBuild();
/// What a write that returned survives, as configured here: for the line under each table.
std::string Durability(StoreKind kind);
/// Parses "name" or "name:option=value:option=value". `shared` goes before the spec's own options
/// for Lamella.
Status ParseStoreSpec(std::string_view text,
                      const std::vector<std::pair<std::string, std::string>>& shared,
                      StoreSpec* spec);

Status CheckLamellaSpec(const StoreSpec& spec);

// One per adapter file. Null pointers never; a store that is left out of the build answers
// NotSupported.
Status OpenLamella(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                   std::unique_ptr<Store>* store);
Status OpenRocksDb(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                   std::unique_ptr<Store>* store);
Status OpenLevelDb(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                   std::unique_ptr<Store>* store);
Status OpenLmdb(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                std::unique_ptr<Store>* store);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_STORE_H_
