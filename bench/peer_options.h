// What a peer's store may be told beside StoreSettings, by the names that a spec or a scenario
// uses.
// Threads: any; all of it is pure.
#ifndef LAMELLA_BENCH_PEER_OPTIONS_H_
#define LAMELLA_BENCH_PEER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "bench/store.h"

namespace lamella::bench {

struct PeerOptions {
  /// Where its tables lie, in a directory of their own: those below level 0 of RocksDB, whose log
  /// and level 0 stay where the store is (`db_paths`); all of LevelDB, which knows one place.
  /// Empty: where the store is.
  std::string files_in;
  /// Reads of tables pass by the page cache, as they do for Lamella's option of this name.
  bool direct_reads = false;
  /// RocksDB's: what level 0 may take before writers stop; half of it is compacted. 0: its default
  /// numbers of files.
  uint64_t level0_bytes = 0;
  uint64_t level1_bytes = 0;  // RocksDB's; 0: its default
  uint64_t table_bytes = 0;   // 0: its default
  /// RocksDB's, of DRAM: each of two write buffers, in place of StoreSettings', and the cache of
  /// blocks, in place of half of the budget; tables that are mapped do without it. 0: as without.
  uint64_t write_buffer_bytes = 0;
  uint64_t cache_bytes = 0;
  /// RocksDB maps its tables, as LevelDB and LMDB do, and reads them where they lie; unless said,
  /// where none lies in files_in and direct_reads is not asked for.
  bool mmap_reads = false;
};

/// InvalidArgument: an option that this kind does not have, or a value it cannot have.
Status ParsePeerOptions(const StoreSpec& spec, PeerOptions* options);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_PEER_OPTIONS_H_
