// Stats is what a store has done since it was opened, and what it holds: the figures behind
// GetProperty and `lamella stats`, the same for every engine.
#ifndef LAMELLA_STATS_H_
#define LAMELLA_STATS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lamella {

/// Why bytes were written to persistent memory.
enum class WriteCause : uint8_t { kLog, kFlush, kCompaction, kIndex, kCatalog, kGc, kCount };

std::string_view WriteCauseName(WriteCause cause);

/// Traffic of one cause.
struct PersistCounters {
  uint64_t bytes_stored = 0;   // bytes stored into persistent memory
  uint64_t lines_flushed = 0;  // 64-byte lines written back
  uint64_t fences = 0;
  // 256-byte media blocks that those lines lie in, adjacent repeats counted once
  uint64_t blocks_touched = 0;
};

struct Stats {
  /// What answered gets, in the order in which it is asked. Names are the engine's, and stay.
  struct Source {
    std::string name;
    uint64_t gets = 0;
  };
  /// What holds records after MemTables, newest first.
  struct Level {
    std::string name;
    uint64_t tables = 0;
    uint64_t records = 0;
    // sorted runs that its tables are made of, where one may have several (NVLSM's floors); else 0
    uint64_t runs = 0;
  };

  std::array<PersistCounters, static_cast<size_t>(WriteCause::kCount)> persist{};

  uint64_t user_bytes_written = 0;  // key and value bytes of acknowledged writes
  uint64_t puts = 0;
  uint64_t deletes = 0;
  uint64_t batches = 0;
  uint64_t gets = 0;
  uint64_t gets_found = 0;
  uint64_t iterators = 0;

  uint64_t stall_ns = 0;  // time that writers were delayed or blocked, also for space in the pool
  uint64_t stall_count = 0;
  uint64_t stall_ns_max = 0;  // the longest single one

  uint64_t flushes = 0;
  uint64_t flushed_records = 0;  // that they moved out of MemTables
  uint64_t flush_ns = 0;         // that they took, one at a time
  uint64_t compactions = 0;
  uint64_t gc_runs = 0;
  uint64_t gc_bytes_relocated = 0;
  uint64_t checkpoints = 0;
  uint64_t recovery_us = 0;  // what the last Open took
  // of that, to make what it has in DRAM of an index in the pool (LAB-DB's inner nodes),
  uint64_t recovery_index_us = 0;
  uint64_t recovery_log_us = 0;    // and to read the log, and sort its records anew
  uint64_t recovered_records = 0;  // so many

  // keys and values that compaction found to be the newest, or needed by a snapshot; 0 with lightkv
  // and labdb, which do not count them
  uint64_t live_bytes = 0;
  uint64_t pool_bytes = 0;          // size of the pool's files
  uint64_t pool_bytes_used = 0;     // in chunks that have an owner
  uint64_t file_bytes = 0;          // of tables, and of values (LAB-DB), in files beside the pool,
  uint64_t file_bytes_written = 0;  // and of all that were written to files
  uint64_t dram_bytes = 0;          // MemTables and caches now
  uint64_t sequence = 0;            // the newest published sequence number
  uint64_t snapshots = 0;           // live ones
  // of the pool that reads looked at, compaction's too: whole media blocks where a pointer was
  // followed. Counted with Options::count_reads.
  uint64_t read_bytes = 0;
  // skiplist hops of Gets, with several pool parts: to another than the one on the reader's node
  uint64_t remote_hops = 0;
  uint64_t local_hops = 0;

  std::vector<Source> sources;
  std::vector<Level> levels;

  /// Bytes stored in persistent memory, all causes.
  uint64_t PersistentBytes() const {
    uint64_t total = 0;
    for (const PersistCounters& c : persist) total += c.bytes_stored;
    return total;
  }
  /// Persistent bytes per user byte; 0 before the first write. Files are not of it: see
  /// file_bytes_written.
  double WriteAmplification() const {
    return user_bytes_written == 0
               ? 0.0
               : static_cast<double>(PersistentBytes()) / static_cast<double>(user_bytes_written);
  }
};

/// A plain counter of Stats: its name in reports, and where it is.
struct StatsCounter {
  std::string_view name;
  uint64_t Stats::* value;
};
/// All of them, in the order of their declaration.
std::span<const StatsCounter> StatsCounters();

}  // namespace lamella

#endif  // LAMELLA_STATS_H_
