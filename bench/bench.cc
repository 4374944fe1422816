#include "bench/bench.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/standard_streams.h"
#include "bench/config.h"
#include "bench/demo.h"
#include "bench/large.h"
#include "bench/machine.h"
#include "bench/scenarios.h"
#include "bench/small.h"
#include "bench/standing.h"

namespace lamella::bench {
namespace {

int PrintList() {
  std::puts("workloads:");
  for (const std::string& name : WorkloadNames()) std::printf("  %s\n", name.c_str());
  std::puts("stores:");
  for (StoreKind kind : BuiltStoreKinds()) {
    std::printf("  %s (%s)\n", std::string(StoreKindName(kind)).c_str(),
                StoreVersion(kind).c_str());
  }
  std::puts("scenarios:");
  std::vector<std::string> files;
  if (FindScenarios({"all"}, &files).ok()) {
    for (const std::string& file : files)
      std::printf("  %s\n", std::filesystem::path(file).stem().string().c_str());
  }
  return kExitOk;
}

// Every workload on every store before the next workload, so that stores are compared within
// seconds of each other; every other round in reverse, so that none is always first.
Status RunRound(const Config& config, uint32_t round, uint32_t threads,
                std::vector<std::unique_ptr<Slot>>* slots, std::vector<RunResult>* results) {
  for (const Workload& workload : config.workloads) {
    for (size_t i = 0; i < slots->size(); i++) {
      Slot& slot = *(*slots)[round % 2 == 0 ? i : slots->size() - 1 - i];
      RunSettings run = config.run;
      run.threads = threads;
      run.seed += round;
      RunResult result;
      Status s = slot.Run(workload, run, &result);
      if (!s.ok()) return s;
      std::fprintf(stderr, "  round %u  %-12s %-12s %s\n", round + 1, workload.name.c_str(),
                   slot.label().c_str(), FormatRate(result.OpsPerSecond()).c_str());
      results->push_back(std::move(result));
    }
  }
  return Status::OK();
}

Status RunAll(const Config& config, const std::string& scratch, std::vector<RunResult>* results) {
  for (uint32_t threads : config.threads) {
    std::vector<std::unique_ptr<Slot>> slots;
    for (const StoreSpec& spec : config.stores) {
      slots.push_back(std::make_unique<Slot>(spec, config.settings, config.shape, scratch));
    }
    for (uint32_t round = 0; round < config.rounds; round++) {
      Status s = RunRound(config, round, threads, &slots, results);
      if (!s.ok()) return s;
    }
  }
  return Status::OK();
}

Status RunWorkloads(const Config& config, const std::string& scratch) {
  const RunContext context = MakeContext(config);
  std::vector<RunResult> results;
  Status s = RunAll(config, scratch, &results);
  std::fputs(ContextToString(context).c_str(), stdout);
  std::fputs(ResultsToTable(results).c_str(), stdout);
  if (config.json_path.empty()) return s;
  const Status written = WriteTextFile(config.json_path, ResultsToJson(context, results));
  return s.ok() ? written : s;
}

int Run(int argc, char** argv) {
  Config config;
  const int parsed = ParseCommandLine(argc, argv, &config);
  if (parsed >= 0) return parsed;
  if (config.mode == Mode::kList) return PrintList();
  for (const std::string& path : {config.json_path, config.runs_path}) {
    const Status writable = path.empty() ? Status::OK() : CheckWritable(path);
    if (writable.ok()) continue;
    std::fprintf(stderr, "lamella_bench: %s\n", writable.ToString().c_str());
    return kExitUsage;
  }
  ScratchDirectory scratch;
  Status s = scratch.Create(config.dir, "lamella_bench");
  bool goals_met = true;
  ScenariosOutcome outcome;
  if (s.ok()) {
    if (config.mode == Mode::kStanding) {
      s = RunStanding(config, scratch.path(), &goals_met);
    } else if (config.mode == Mode::kLarge) {
      s = RunLarge(config, scratch.path(), &goals_met);
    } else if (config.mode == Mode::kSmall) {
      s = RunSmall(config, scratch.path(), &goals_met);
    } else if (config.mode == Mode::kDemo) {
      s = RunDemo(config, scratch.path());
    } else if (config.mode == Mode::kScenarios) {
      s = RunScenarios(config, scratch.path(), &outcome);
      goals_met = outcome.no == 0;
    } else {
      s = RunWorkloads(config, scratch.path());
    }
  }
  if (!s.ok()) {
    std::fprintf(stderr, "lamella_bench: %s\n", s.ToString().c_str());
    return s.IsInvalidArgument() || s.IsNotFound() ? kExitUsage : kExitFailed;
  }
  if (config.strict && !goals_met) return kExitGoalMissed;
  return outcome.skipped > 0 ? kExitSkipped : kExitOk;
}

}  // namespace

int Main(int argc, char** argv) {
  HoldStandardStreams();
  const int code = Run(argc, argv);
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "lamella_bench: cannot write standard output%s%s\n", errno != 0 ? ": " : "",
               errno != 0 ? std::strerror(errno) : "");
  return code == kExitUsage ? code : kExitFailed;
}

}  // namespace lamella::bench
