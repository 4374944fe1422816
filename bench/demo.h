// The comparison on somebody's own records: loads a file into Lamella, RocksDB and LevelDB in
// turns, in the same memory, reads them back, kills the process that wrote them, reopens, and
// prints one table.
#ifndef LAMELLA_BENCH_DEMO_H_
#define LAMELLA_BENCH_DEMO_H_

#include <string>

#include "bench/config.h"

namespace lamella::bench {

/// Uses config.stores but LMDB (which is no log-structured store and does not count what it writes)
/// unless it is the only one. Every record is verified after the kill: Corruption if one is missing
/// or wrong.
/// REQUIRES: no store was opened in this process before (see crash.h).
Status RunDemo(const Config& config, const std::string& scratch);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_DEMO_H_
