#include "bench/large.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <vector>

#include "bench/clock.h"
#include "bench/crash.h"
#include "bench/goals.h"
#include "bench/machine.h"

namespace lamella::bench {
namespace {

// Set by the issue that the goals come from.
constexpr double kLoadGoal = 5, kOverwriteGoal = 3, kLargeStraightAfterGoal = 3,
                 kNeverUnderGoal = 2;
constexpr double kFreshRocksGoal = 3, kFreshLmdbGoal = 0.8;
constexpr double kP99NsMax = 60e3;
constexpr double kSpaceMax = 2.0;
constexpr double kQueueSpaceBytesMax = 64 << 20;
constexpr uint64_t kQueueBytes = 10 << 20;  // live in it
constexpr uint64_t kQueueTurnover = 100;    // as often its content goes through it
constexpr uint32_t kFreshValueBytes = 1000;
constexpr const char* kFreshWorkloads[] = {"ycsb-c", "ycsb-b"};

class LargeRun {
 public:
  LargeRun(const Config& config, const std::string& scratch) : config_(config), scratch_(scratch) {
    std::erase_if(config_.stores,
                  [](const StoreSpec& spec) { return spec.kind == StoreKind::kLevelDb; });
    if (config_.quick) {
      config_.shape.keys = std::max(1000u, config_.shape.keys / 10);
      config_.rounds = 1;
    }
    config_.rounds = 1;  // a round is minutes of each store
    context_ = MakeContext(config_);
  }

  Status Run() {
    Status s;
    // first: it forks
    for (size_t i = 0; s.ok() && i < config_.stores.size(); i++) s = RunFresh(config_.stores[i]);
    if (s.ok()) s = RunSteps();
    for (size_t i = 0; s.ok() && i < config_.stores.size(); i++) s = RunQueue(config_.stores[i]);
    return s;
  }
  Goals Judge() const;
  const RunContext& context() const { return context_; }
  const std::vector<RunResult>& results() const { return results_; }

 private:
  void Say(const RunResult& r) const {
    std::fprintf(stderr, "%6.0f s  %-28s %-12s %s\n", NowSeconds() - began_, r.workload.c_str(),
                 r.store.c_str(), FormatRate(r.OpsPerSecond()).c_str());
  }
  void Keep(RunResult result, const char* name) {
    result.workload = name;
    Say(result);
    results_.push_back(std::move(result));
  }
  Status RunStep(Slot* slot, const char* workload, uint64_t ops, bool await_idle, const char* name);
  Status RunSteps();
  Status RunQueue(const StoreSpec& spec);
  Status RunFresh(const StoreSpec& spec);

  Config config_;
  const std::string scratch_;
  RunContext context_;
  const double began_ = NowSeconds();
  std::vector<RunResult> results_;
};

Status LargeRun::RunStep(Slot* slot, const char* workload, uint64_t ops, bool await_idle,
                         const char* name) {
  RunSettings run = config_.run;
  run.ops = ops;
  run.duration_s = 0;
  run.threads = 1;
  run.await_idle = await_idle;
  run.warmup_share = 0;
  RunResult result;
  Status s = slot->Run(*FindWorkload(workload, {}), run, &result);
  if (s.ok()) Keep(std::move(result), name);
  return s;
}

// One store after the other: two of them at this size are more memory than many machines have.
Status LargeRun::RunSteps() {
  const uint64_t keys = config_.shape.keys;
  for (const StoreSpec& spec : config_.stores) {
    Slot slot(spec, config_.settings, config_.shape, scratch_);
    Status s = RunStep(&slot, "fillrandom", keys, true, "load");
    if (s.ok()) s = RunStep(&slot, "readrandom", keys / 10, true, "gets after the load");
    if (s.ok()) s = RunStep(&slot, "overwrite", keys, true, "overwrite");
    if (s.ok()) s = RunStep(&slot, "overwrite", keys, false, "overwrite again");
    if (s.ok()) s = RunStep(&slot, "ycsb-a", keys / 2, true, "YCSB A straight after");
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status LargeRun::RunQueue(const StoreSpec& spec) {
  DataShape shape = config_.shape;
  shape.keys = static_cast<uint32_t>(kQueueBytes / (shape.key_bytes + shape.value_bytes));
  // its file never shrinks, and its map is sized beforehand
  if (spec.kind == StoreKind::kLmdb) return Status::OK();
  const uint64_t turnover = config_.quick ? kQueueTurnover / 10 : kQueueTurnover;
  Slot slot(spec, config_.settings, shape, scratch_);
  return RunStep(&slot, "queue", shape.keys * turnover, true, "queue");
}

// Fills a store in one process, and runs each workload in another that has just opened it.
Status LargeRun::RunFresh(const StoreSpec& spec) {
  DataShape shape = config_.shape;
  shape.keys = config_.quick ? kFreshKeys / 10 : kFreshKeys;
  shape.value_bytes = kFreshValueBytes;
  StoreSettings settings = config_.settings;
  settings.data_bytes_max = uint64_t{shape.keys} * (shape.key_bytes + shape.value_bytes) * 2;
  ScratchDirectory made;
  Status s = made.Create(scratch_, "fresh");
  if (s.ok())
    s = WarmMemory(made.path(), std::min(settings.data_bytes_max, FreeBytes(made.path()) / 2));
  if (!s.ok()) return s;
  const auto in_child = [&](const char* workload, bool create, RunResult* result) {
    settings.create = create;
    std::string said;
    Status child = RunInChild(
        false,
        [&]() -> std::string {
          Dataset dataset(shape.key_bytes, shape.hashed_keys, shape.value_bytes, shape.keys,
                          shape.seed, shape.shared_bytes);
          RunSettings run;
          run.ops = shape.keys / 2;
          run.warmup_share = 0;
          RunResult ran;
          std::unique_ptr<Store> store;
          Status opened = Store::Open(spec, settings, made.path(), &store);
          if (opened.ok())
            opened = RunWorkload(*FindWorkload(workload, {}), run, store.get(), &dataset, &ran);
          if (opened.ok() && (ran.wrong > 0 || ran.missing > 0))
            opened = Status::Corruption("wrong or missing values");
          if (opened.ok()) opened = store->Close();
          if (!opened.ok()) return "error " + opened.ToString();
          return "ok " + std::to_string(ran.ops) + " " + std::to_string(ran.seconds) + " " +
                 std::to_string(ran.cpu_seconds);
        },
        &said);
    if (!child.ok()) return child;
    std::istringstream numbers(said);
    std::string word;
    numbers >> word >> result->ops >> result->seconds >> result->cpu_seconds;
    return word == "ok" ? Status::OK()
                        : Status::IOError(spec.label + " in a fresh process: " + said);
  };
  RunResult fill;
  s = in_child("fillrandom", true, &fill);
  for (const char* workload : kFreshWorkloads) {
    RunResult result;
    result.store = spec.label;
    if (s.ok()) s = in_child(workload, false, &result);
    if (s.ok())
      Keep(std::move(result),
           workload == kFreshWorkloads[0] ? "YCSB C, fresh process" : "YCSB B, fresh process");
  }
  return s;
}

Goals LargeRun::Judge() const {
  constexpr StoreKind kRocks = StoreKind::kRocksDb, kLmdb = StoreKind::kLmdb;
  Goals goals(context_);
  // Rates until idle are rates of a run that took so much longer.
  std::vector<RunResult> until_idle = results_;
  for (RunResult& r : until_idle) r.seconds += r.idle_seconds;
  goals.AddRates("load, to the last put", results_, "load", {{kRocks, 0}, {kLmdb, 0}});
  goals.AddRates("load, until idle", until_idle, "load", {{kRocks, kLoadGoal}, {kLmdb, 0}});
  goals.AddRates("gets after it", results_, "gets after the load", {{kRocks, 0}, {kLmdb, 0}});
  goals.AddRates("overwrite, to the last put", results_, "overwrite", {{kRocks, 0}, {kLmdb, 0}});
  goals.AddRates("overwrite, until idle", until_idle, "overwrite",
                 {{kRocks, kOverwriteGoal}, {kLmdb, 0}});
  goals.AddRates("YCSB A straight after overwrite", results_, "YCSB A straight after",
                 {{kRocks, kLargeStraightAfterGoal}, {kLmdb, 0}});
  goals.AddLimit(
      "p99 of its gets", results_, "YCSB A straight after",
      [](const RunResult& r) {
        return static_cast<double>(r.latency_ns[static_cast<size_t>(OpClass::kGet)].Quantile(0.99));
      },
      FormatNs, kP99NsMax);
  std::vector<RunResult> slowest;
  for (const RunResult& r : results_) {
    if (r.ops_per_second.empty() && r.workload == "YCSB A straight after") {
      slowest.push_back(r);
    } else if (r.workload == "YCSB A straight after") {
      RunResult second = r;
      second.ops = *std::min_element(r.ops_per_second.begin(), r.ops_per_second.end());
      second.seconds = 1;
      slowest.push_back(second);
    }
  }
  goals.AddRates("its slowest second", slowest, "YCSB A straight after",
                 {{kRocks, kNeverUnderGoal}});
  const double live_bytes = static_cast<double>(config_.shape.keys) *
                            (config_.shape.key_bytes + config_.shape.value_bytes);
  const auto number = [](double v) { return FormatNumber(v); };
  goals.AddLimit(
      "bytes used over live bytes, overwrite", results_, "overwrite",
      [live_bytes](const RunResult& r) {
        return static_cast<double>(r.used_bytes.value_or(r.space_bytes)) / live_bytes;
      },
      number, kSpaceMax);
  goals.AddFigure(
      "files over live bytes, overwrite", results_, "overwrite",
      [live_bytes](const RunResult& r) { return static_cast<double>(r.space_bytes) / live_bytes; },
      number);
  goals.AddRates("queue of 10 MB", results_, "queue", {{kRocks, 0}});
  goals.AddLimit(
      "its space", results_, "queue",
      [](const RunResult& r) { return static_cast<double>(r.space_bytes); }, FormatBytes,
      kQueueSpaceBytesMax);
  for (const char* name : {"YCSB C, fresh process", "YCSB B, fresh process"}) {
    goals.AddRates(name, results_, name, {{kRocks, kFreshRocksGoal}, {kLmdb, kFreshLmdbGoal}});
  }
  goals.AddFigure(
      "processor time of an operation, C", results_, "YCSB C, fresh process",
      [](const RunResult& r) { return r.cpu_seconds / static_cast<double>(r.ops) * 1e9; },
      FormatNs);
  return goals;
}

}  // namespace

Status RunLarge(const Config& config, const std::string& scratch, bool* goals_met) {
  LargeRun run(config, scratch);
  Status s = run.Run();
  if (!s.ok()) return s;
  const Goals goals = run.Judge();
  std::fputs(ContextToString(run.context()).c_str(), stdout);
  std::fputs("\n", stdout);
  std::fputs(GoalsToTable(run.context(), goals.rows()).c_str(), stdout);
  *goals_met = goals.AllMet();
  if (config.json_path.empty()) return s;
  return WriteTextFile(config.json_path, ResultsToJson(run.context(), run.results(), goals.rows()));
}

}  // namespace lamella::bench
