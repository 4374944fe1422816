// How long a store takes to open after its process was killed. Every store lives in a forked child,
// so that this process stays without threads: REQUIRES that no store was opened in it before (a
// fork would lose the threads that peers keep).
#ifndef LAMELLA_BENCH_CRASH_H_
#define LAMELLA_BENCH_CRASH_H_

#include <functional>
#include <string>

#include "bench/slot.h"

namespace lamella::bench {

struct CrashResult {
  double write_seconds = 0;   // what the killed child took to write
  double reopen_seconds = 0;  // open and the first read
  uint64_t records = 0;       // that the child wrote
  // that the store says it had to read again, and what this and its index took it; 0 where it says
  // nothing
  uint64_t recovered_records = 0;
  double log_seconds = 0;
  double index_seconds = 0;
};

/// A child opens an empty store with a write buffer larger than `unflushed_bytes`, or the one that
/// the settings name, puts so many user bytes in random order and is killed by SIGKILL without
/// closing. Another child then opens the store, which is timed, and reads every 1,000th key.
/// Corruption: a key that was acknowledged is missing or wrong.
Status MeasureCrash(const StoreSpec& spec, const StoreSettings& settings, const DataShape& shape,
                    uint64_t unflushed_bytes, const std::string& parent_dir, CrashResult* result);

/// Runs `body` in a forked child and hands back what it returned. IOError: the child died or said
/// nothing. With `kill_it` the child is ended by SIGKILL as soon as body has returned, so nothing
/// it has is closed or flushed.
Status RunInChild(bool kill_it, const std::function<std::string()>& body, std::string* said);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_CRASH_H_
