// The benchmark's command line.
#ifndef LAMELLA_BENCH_CONFIG_H_
#define LAMELLA_BENCH_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/scenario.h"
#include "bench/slot.h"
#include "bench/workload.h"

namespace lamella::bench {

enum class Mode : uint8_t { kWorkloads, kStanding, kLarge, kSmall, kDemo, kScenarios, kList };

struct Config {
  Mode mode = Mode::kWorkloads;
  std::vector<StoreSpec> stores;
  std::vector<Workload> workloads;
  std::vector<uint32_t> threads = {1};
  DataShape shape;
  StoreSettings settings;
  RunSettings run;
  uint32_t rounds = 3;
  uint64_t unflushed_bytes = 256ull << 20;
  std::string dir;        // where scratch directories are made
  std::string json_path;  // empty: none
  std::string demo_path;
  std::vector<std::string> scenarios;  // names, files, directories, or "all"
  Scale scale;
  std::string runs_path;  // --scenario: every run, with its time series; empty: none
  bool strict = false;    // a missed goal, or a claim that is not reproduced, is a failure
  bool quick = false;     // --standing, --large: a tenth of the data, one round
};

/// Exit codes, for scripts.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;      // a store failed or answered wrongly
inline constexpr int kExitUsage = 2;       // the command line cannot be meant as it is
inline constexpr int kExitGoalMissed = 3;  // with --strict
inline constexpr int kExitSkipped = 4;     // a scenario was skipped: its stores are not built

/// Parses and checks. Returns kExitOk, or -1 to go on, or kExitUsage with the reason printed to
/// stderr; help is kExitOk.
int ParseCommandLine(int argc, const char* const* argv, Config* config);

/// What `config` runs with, for the head of its report.
RunContext MakeContext(const Config& config);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_CONFIG_H_
