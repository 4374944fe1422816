// The part of the standing benchmark that every engine of the build goes through, beside RocksDB:
// puts, gets straight after them and when idle, scans, YCSB A, bytes written and space, at two
// sizes of values.
#ifndef LAMELLA_BENCH_ENGINES_H_
#define LAMELLA_BENCH_ENGINES_H_

#include <string>
#include <vector>

#include "bench/config.h"
#include "bench/goals.h"

namespace lamella::bench {

/// One engine beside RocksDB.
struct EngineRows {
  std::string engine;
  RunContext context;  // its stores are these two
  std::vector<GoalRow> rows;
  std::vector<RunResult> results;  // of both
  bool all_met = false;
};

/// Runs them in turns with a part of config's data, in `scratch`. Without RocksDB in the build no
/// goal is measured.
Status RunEngines(const Config& config, const std::string& scratch,
                  std::vector<EngineRows>* engines);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_ENGINES_H_
