#include "bench/standing.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "bench/clock.h"
#include "bench/crash.h"
#include "bench/engines.h"
#include "bench/goals.h"

namespace lamella::bench {
namespace {

// Set by the issue that the goals come from: 1 KiB values, and enough of them to be twice the
// budget.
constexpr uint32_t kLargeValueBytes = 1024;
constexpr double kReopenAfterKillSeconds = 1.0;
constexpr double kReopenCleanSeconds = 0.050;
constexpr double kStallNsMax = 10e6;
constexpr double kFencesPerPutMax = 1.01;  // "one"; a chunk begun now and then may cost one more

struct Step {
  const char* workload;
  uint32_t ops_divisor;  // operations are keys / this
};

// One after the other on the same stores, so that each later one finds what the earlier ones left.
constexpr Step kSteps[] = {{"fillrandom", 1}, {"readrandom", 2},  {"readmissing", 2},
                           {"readseq", 1},    {"readreverse", 1}, {"seekrandom", 40},
                           {"ycsb-a", 2},     {"overwrite", 1}};

using Slots = std::vector<std::unique_ptr<Slot>>;

class StandingRun {
 public:
  StandingRun(const Config& config, const std::string& scratch)
      : config_(config), scratch_(scratch) {
    if (config_.quick) {
      config_.shape.keys = std::max(1000u, config_.shape.keys / 10);
      config_.unflushed_bytes /= 10;
      config_.rounds = 1;
    }
    config_.threads = {1};
    context_ = MakeContext(config_);
    kill_seconds_.resize(config_.stores.size());
    clean_seconds_.resize(config_.stores.size());
  }

  Status Run() {
    Status s = RunKills();  // first: it forks, see crash.h
    if (s.ok()) s = RunSmallValues();
    if (s.ok()) s = RunLargeValues();
    if (s.ok()) s = RunScaling();
    if (s.ok()) s = RunEngines(config_, scratch_, &engines_);
    return s;
  }
  Goals Judge() const;
  const RunContext& context() const { return context_; }
  const std::vector<EngineRows>& engines() const { return engines_; }
  std::vector<RunResult> AllResults() const {
    std::vector<RunResult> all = small_;
    for (RunResult r : large_) {
      r.workload += "-1k";
      all.push_back(std::move(r));
    }
    for (RunResult r : scaling_) {
      r.workload += "-scaling";
      all.push_back(std::move(r));
    }
    return all;
  }

 private:
  // A peer that no goal of the step names runs in the first round only.
  static bool TakesPart(const StoreSpec& spec, uint32_t round) {
    return round == 0 || spec.kind != StoreKind::kLevelDb;
  }
  static bool HasLargeValueGoal(const StoreSpec& spec) {
    return spec.kind == StoreKind::kLamella || spec.kind == StoreKind::kRocksDb;
  }
  void Say(const char* what, const std::string& store, const std::string& figure) const {
    std::fprintf(stderr, "%6.0f s  %-24s %-12s %s\n", NowSeconds() - began_, what, store.c_str(),
                 figure.c_str());
  }
  Status RunKills();
  Status RunSmallValues();
  Status RunLargeValues();
  Status RunScaling();
  Status RunSteps(Slot* slot, const char* workload, uint64_t ops, uint32_t threads, uint32_t round,
                  std::vector<RunResult>* results);
  Status CloseAndReopen(size_t index, Slot* slot);

  Config config_;
  const std::string scratch_;
  RunContext context_;
  const double began_ = NowSeconds();
  std::vector<RunResult> small_, large_, scaling_;
  std::vector<EngineRows> engines_;
  std::vector<std::vector<double>> kill_seconds_, clean_seconds_;  // by store, then round
};

Status StandingRun::RunKills() {
  for (uint32_t round = 0; round < config_.rounds; round++) {
    for (size_t i = 0; i < config_.stores.size(); i++) {
      const StoreSpec& spec = config_.stores[i];
      // theirs takes half a minute and has no goal
      if (round > 0 && spec.kind != StoreKind::kLamella) continue;
      CrashResult result;
      Status s = MeasureCrash(spec, config_.settings, config_.shape, config_.unflushed_bytes,
                              scratch_, &result);
      if (!s.ok()) return s;
      kill_seconds_[i].push_back(result.reopen_seconds);
      Say("killed, reopened", spec.label,
          FormatNs(result.reopen_seconds * 1e9) + ", " + std::to_string(result.recovered_records) +
              " of " + std::to_string(result.records) + " records re-read");
    }
  }
  return Status::OK();
}

Status StandingRun::RunSteps(Slot* slot, const char* workload, uint64_t ops, uint32_t threads,
                             uint32_t round, std::vector<RunResult>* results) {
  RunSettings run = config_.run;
  run.ops = ops;
  run.duration_s = 0;
  run.threads = threads;
  run.seed += round;
  RunResult result;
  Status s = slot->Run(*FindWorkload(workload, {}), run, &result);
  if (!s.ok()) return s;
  Say(workload, slot->label(), FormatRate(result.OpsPerSecond()));
  results->push_back(std::move(result));
  return s;
}

Status StandingRun::CloseAndReopen(size_t index, Slot* slot) {
  Status s = slot->Close();
  double seconds = 0;
  if (s.ok()) s = slot->Reopen(&seconds);
  if (!s.ok()) return s;
  clean_seconds_[index].push_back(seconds);
  Say("closed, reopened", slot->label(), FormatNs(seconds * 1e9));
  return slot->Remove();
}

Status StandingRun::RunSmallValues() {
  for (uint32_t round = 0; round < config_.rounds; round++) {
    Slots slots;
    for (const StoreSpec& spec : config_.stores) {
      slots.push_back(std::make_unique<Slot>(spec, config_.settings, config_.shape, scratch_));
    }
    const size_t count = slots.size();
    for (const Step& step : kSteps) {
      for (size_t n = 0; n < count; n++) {
        const size_t i = round % 2 == 0 ? n : count - 1 - n;
        if (!TakesPart(slots[i]->spec(), round)) continue;
        Status s = RunSteps(slots[i].get(), step.workload, config_.shape.keys / step.ops_divisor, 1,
                            round, &small_);
        if (!s.ok()) return s;
      }
    }
    for (size_t i = 0; i < count; i++) {
      if (!TakesPart(slots[i]->spec(), round)) continue;
      Status s = CloseAndReopen(i, slots[i].get());
      if (!s.ok()) return s;
    }
  }
  return Status::OK();
}

Status StandingRun::RunLargeValues() {
  DataShape shape = config_.shape;
  shape.value_bytes = kLargeValueBytes;
  shape.keys = config_.shape.keys / 4;
  StoreSettings settings = config_.settings;
  settings.data_bytes_max = uint64_t{shape.keys} * (shape.key_bytes + shape.value_bytes) * 2;
  for (uint32_t round = 0; round < config_.rounds; round++) {
    Slots slots;
    for (const StoreSpec& spec : config_.stores) {
      if (HasLargeValueGoal(spec))
        slots.push_back(std::make_unique<Slot>(spec, settings, shape, scratch_));
    }
    if (round % 2 == 1) std::reverse(slots.begin(), slots.end());
    for (const char* workload : {"fillrandom", "readrandom"}) {
      for (const std::unique_ptr<Slot>& slot : slots) {
        Status s = RunSteps(slot.get(), workload, shape.keys, 1, round, &large_);
        if (!s.ok()) return s;
      }
    }
  }
  return Status::OK();
}

Status StandingRun::RunScaling() {
  for (const StoreSpec& spec : config_.stores) {
    if (spec.kind != StoreKind::kLamella) continue;
    Slot slot(spec, config_.settings, config_.shape, scratch_);
    for (uint32_t round = 0; round < config_.rounds; round++) {
      for (uint32_t n = 0; n < 2; n++) {
        const uint32_t threads = (round + n) % 2 == 0 ? 1 : 2;
        for (const char* workload : {"fillrandom", "readrandom"}) {
          Status s = RunSteps(&slot, workload, config_.shape.keys, threads, round, &scaling_);
          if (!s.ok()) return s;
        }
      }
    }
  }
  return Status::OK();
}

const Histogram& PutLatency(const RunResult& r) {
  return r.latency_ns[static_cast<size_t>(OpClass::kPut)];
}

std::optional<double> PerPut(const std::optional<uint64_t>& count, const RunResult& r) {
  if (!count || r.puts == 0) return std::nullopt;
  return static_cast<double>(*count) / static_cast<double>(r.puts);
}

std::optional<double> AsDouble(const std::optional<uint64_t>& value) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

Goals StandingRun::Judge() const {
  constexpr StoreKind kRocks = StoreKind::kRocksDb, kLmdb = StoreKind::kLmdb;
  Goals goals(context_);
  goals.AddRates("fillrandom", small_, "fillrandom", {{kRocks, 10}, {kLmdb, 3.5}});
  goals.AddRates("readrandom", small_, "readrandom", {{kRocks, 4.5}, {kLmdb, 1.4}});
  goals.AddRates("scans of 100 records", small_, "seekrandom", {{kRocks, 1.4}, {kLmdb, 0}});
  goals.AddRates("YCSB A", small_, "ycsb-a", {{kRocks, 7}, {kLmdb, 0}});
  goals.AddRates("overwrite", small_, "overwrite", {{kRocks, 0}, {kLmdb, 0}});
  goals.AddRates("readmissing", small_, "readmissing", {{kRocks, 0}, {kLmdb, 0}});
  goals.AddRates("readseq, records", small_, "readseq", {{kRocks, 0}, {kLmdb, 0}});
  goals.AddRates("readreverse, records", small_, "readreverse", {{kRocks, 0}, {kLmdb, 0}});
  goals.AddRates("puts of 1 KiB", large_, "fillrandom", {{kRocks, 5}});
  goals.AddRates("gets of 1 KiB", large_, "readrandom", {{kRocks, 4}});
  goals.AddScaling("puts, 2 threads", scaling_, "fillrandom", 2, 1.4);
  goals.AddScaling("gets, 2 threads", scaling_, "readrandom", 2, 1.7);
  goals.AddShare(
      "p99.9 of puts", small_, "fillrandom",
      [](const RunResult& r) { return static_cast<double>(PutLatency(r).Quantile(0.999)); },
      FormatNs, kRocks, 0.2);
  goals.AddLimit(
      "longest stall, fillrandom", small_, "fillrandom",
      [](const RunResult& r) { return AsDouble(r.stall_ns_max); }, FormatNs, kStallNsMax);
  goals.AddLimit(
      "longest stall, overwrite", small_, "overwrite",
      [](const RunResult& r) { return AsDouble(r.stall_ns_max); }, FormatNs, kStallNsMax);
  goals.AddLimit(
      "slowest put a client saw", small_, "fillrandom",
      [](const RunResult& r) { return static_cast<double>(r.SlowestWriteNs()); }, FormatNs,
      kStallNsMax);
  goals.AddShare(
      "written per user byte, overwrite", small_, "overwrite",
      [](const RunResult& r) { return r.WriteAmplification(); },
      [](double v) { return FormatNumber(v); }, kRocks, 1.0 / 3);
  goals.AddFigure(
      "written per user byte, fillrandom", small_, "fillrandom",
      [](const RunResult& r) { return r.WriteAmplification(); },
      [](double v) { return FormatNumber(v); });
  goals.AddLimit(
      "fences per put", small_, "fillrandom",
      [](const RunResult& r) { return PerPut(r.log_fences, r); },
      [](double v) { return FormatNumber(v); }, kFencesPerPutMax);
  goals.AddFigure(
      "DRAM it says it uses, overwrite", small_, "overwrite",
      [](const RunResult& r) { return AsDouble(r.dram_bytes); }, FormatBytes);
  goals.AddFigure(
      "memory it added, overwrite", small_, "overwrite",
      [](const RunResult& r) { return static_cast<double>(r.rss_bytes); }, FormatBytes);
  goals.AddFigure(
      "space used, overwrite", small_, "overwrite",
      [](const RunResult& r) { return static_cast<double>(r.space_bytes); }, FormatBytes);
  const Goals::Format seconds = [](double v) { return FormatNs(v * 1e9); };
  goals.AddLimitOf("open after SIGKILL, " +
                       FormatBytes(static_cast<double>(config_.unflushed_bytes)) + " unflushed",
                   kill_seconds_, seconds, kReopenAfterKillSeconds);
  goals.AddLimitOf("open after a clean close", clean_seconds_, seconds, kReopenCleanSeconds);
  return goals;
}

}  // namespace

Status RunStanding(const Config& config, const std::string& scratch, bool* goals_met) {
  StandingRun run(config, scratch);
  Status s = run.Run();
  if (!s.ok()) return s;
  const Goals goals = run.Judge();
  const std::vector<RunResult> results = run.AllResults();
  std::fputs(ContextToString(run.context()).c_str(), stdout);
  std::fputs("\n", stdout);
  std::fputs(GoalsToTable(run.context(), goals.rows()).c_str(), stdout);
  std::fputs(
      "\nThe figures behind it (medians of rates; latencies of all rounds together; the last "
      "round's space):\n\n",
      stdout);
  std::fputs(ResultsToTable(results).c_str(), stdout);
  *goals_met = goals.AllMet();
  auto report = nlohmann::ordered_json::parse(ResultsToJson(run.context(), results, goals.rows()));
  for (const EngineRows& e : run.engines()) {
    std::printf("\nEngine %s, a part of the keys, default options:\n\n", e.engine.c_str());
    std::fputs(GoalsToTable(e.context, e.rows).c_str(), stdout);
    *goals_met &= e.all_met;
    report["engines"].push_back(
        nlohmann::ordered_json::parse(ResultsToJson(e.context, e.results, e.rows)));
  }
  if (config.json_path.empty()) return s;
  return WriteTextFile(config.json_path, report.dump(2) + "\n");
}

}  // namespace lamella::bench
