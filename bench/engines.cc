#include "bench/engines.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/clock.h"
#include "registry/registry.h"

namespace lamella::bench {
namespace {

// Set by the issue that the goals come from: with default options, at both sizes of values.
constexpr double kPutGoal = 3, kGetGoal = 2, kStraightAfterGoal = 1;
constexpr uint32_t kLargeValueBytes = 1024;
// All engines take their turns: a part of the standing benchmark's keys, so that it ends.
constexpr uint32_t kKeysDivisor = 5, kLargeKeysDivisor = 20;

struct Step {
  const char* workload;
  const char* name;
  uint32_t ops_divisor;  // operations are keys / this
  bool await_idle;
};
constexpr Step kSteps[] = {{"fillrandom", "puts", 1, false},
                           {"readrandom", "gets straight after the puts", 4, true},
                           {"readrandom", "gets", 2, true},
                           {"seekrandom", "scans of 100 records", 40, true},
                           {"ycsb-a", "YCSB A", 2, true}};
constexpr size_t kPuts = 0, kStraightAfter = 1;

std::string NameOf(const Step& step, uint32_t value_bytes) {
  return std::string(step.name) + (value_bytes == kLargeValueBytes ? ", 1 KiB" : ", 100 B");
}

class EnginesRun {
 public:
  EnginesRun(const Config& config, std::string scratch)
      : config_(config), scratch_(std::move(scratch)) {
    for (const EngineType* type : BuiltEngines()) {
      StoreSpec spec;
      spec.label = type->name;
      spec.options = {{"engine", std::string(type->name)}};
      stores_.push_back(std::move(spec));
    }
    if (IsBuilt(StoreKind::kRocksDb)) stores_.push_back({StoreKind::kRocksDb, "rocksdb", {}});
  }

  Status Run() {
    for (const uint32_t value_bytes : {uint32_t{100}, kLargeValueBytes}) {
      const bool large = value_bytes == kLargeValueBytes;
      DataShape shape = config_.shape;
      shape.value_bytes = value_bytes;
      shape.keys = std::max(1000u, config_.shape.keys / (large ? kLargeKeysDivisor : kKeysDivisor));
      for (uint32_t round = 0; round < config_.rounds; round++) {
        Status s = RunRound(shape, round);
        if (!s.ok()) return s;
      }
    }
    return Status::OK();
  }
  EngineRows Judge(const StoreSpec& engine) const;
  const std::vector<StoreSpec>& stores() const { return stores_; }

 private:
  Status RunRound(const DataShape& shape, uint32_t round);
  Status RunStep(const Step& step, const DataShape& shape, uint32_t round, Slot* slot);

  const Config& config_;
  const std::string scratch_;
  std::vector<StoreSpec> stores_;
  std::vector<RunResult> results_;
  const double began_ = NowSeconds();
};

Status EnginesRun::RunStep(const Step& step, const DataShape& shape, uint32_t round, Slot* slot) {
  RunSettings run;
  run.ops = shape.keys / step.ops_divisor;
  run.await_idle = step.await_idle;
  run.warmup_share = step.await_idle && &step != &kSteps[kStraightAfter] ? 0.2 : 0;
  run.seed = config_.run.seed + round;
  RunResult result;
  Status s = slot->Run(*FindWorkload(step.workload, {}), run, &result);
  if (!s.ok()) return s;
  result.workload = NameOf(step, shape.value_bytes);
  std::fprintf(stderr, "%6.0f s  %-36s %-18s %s\n", NowSeconds() - began_, result.workload.c_str(),
               result.store.c_str(), FormatRate(result.OpsPerSecond()).c_str());
  results_.push_back(std::move(result));
  return s;
}

Status EnginesRun::RunRound(const DataShape& shape, uint32_t round) {
  StoreSettings settings = config_.settings;
  settings.data_bytes_max = uint64_t{shape.keys} * (shape.key_bytes + shape.value_bytes) * 2;
  std::vector<std::unique_ptr<Slot>> slots;
  for (const StoreSpec& spec : stores_)
    slots.push_back(std::make_unique<Slot>(spec, settings, shape, scratch_));
  if (round % 2 == 1) std::reverse(slots.begin(), slots.end());
  Status s;
  // The first two are of one store after the other: straight after is straight after.
  for (const std::unique_ptr<Slot>& slot : slots) {
    if (s.ok()) s = RunStep(kSteps[kPuts], shape, round, slot.get());
    if (s.ok()) s = RunStep(kSteps[kStraightAfter], shape, round, slot.get());
    if (!s.ok()) return s;
    // What compaction wrote while the gets went on, and until idle, is of the puts.
    RunResult& puts = results_[results_.size() - 2];
    const RunResult& gets = results_.back();
    for (size_t i = 0; puts.written && gets.written && i < puts.written->size(); i++)
      (*puts.written)[i].bytes += (*gets.written)[i].bytes;
  }
  for (const Step& step : kSteps) {
    if (&step <= &kSteps[kStraightAfter]) continue;
    for (const std::unique_ptr<Slot>& slot : slots) {
      if (s.ok()) s = RunStep(step, shape, round, slot.get());
    }
  }
  return s;
}

EngineRows EnginesRun::Judge(const StoreSpec& engine) const {
  EngineRows rows;
  rows.engine = engine.label;
  rows.context = MakeContext(config_);
  rows.context.stores = {engine, {StoreKind::kRocksDb, "rocksdb", {}}};
  for (const RunResult& r : results_) {
    if (r.store == engine.label || r.store == "rocksdb") rows.results.push_back(r);
  }
  Goals goals(rows.context);
  const auto number = [](double v) { return FormatNumber(v); };
  for (const uint32_t value_bytes : {uint32_t{100}, kLargeValueBytes}) {
    for (size_t i = 0; i < std::size(kSteps); i++) {
      const std::string name = NameOf(kSteps[i], value_bytes);
      constexpr double kGoals[] = {kPutGoal, kStraightAfterGoal, kGetGoal, 0, 0};
      static_assert(std::size(kGoals) == std::size(kSteps));
      goals.AddRates(name, rows.results, name, {{StoreKind::kRocksDb, kGoals[i]}});
    }
    const std::string puts = NameOf(kSteps[kPuts], value_bytes);
    const std::string last = NameOf(kSteps[std::size(kSteps) - 1], value_bytes);
    goals.AddFigure(
        "written per user byte, " + puts, rows.results, puts,
        [](const RunResult& r) { return r.WriteAmplification(); }, number);
    goals.AddFigure(
        "space used, " + last, rows.results, last,
        [](const RunResult& r) {
          return static_cast<double>(r.used_bytes.value_or(r.space_bytes));
        },
        FormatBytes);
  }
  rows.rows = goals.rows();
  rows.all_met = goals.AllMet();
  return rows;
}

}  // namespace

Status RunEngines(const Config& config, const std::string& scratch,
                  std::vector<EngineRows>* engines) {
  EnginesRun run(config, scratch);
  Status s = run.Run();
  for (const StoreSpec& spec : run.stores()) {
    if (s.ok() && spec.kind == StoreKind::kLamella) engines->push_back(run.Judge(spec));
  }
  return s;
}

}  // namespace lamella::bench
