#include "bench/scenario_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "bench/clock.h"
#include "bench/crash.h"
#include "bench/measure.h"
#include "bench/report.h"

namespace lamella::bench {
namespace {

constexpr double kSampleSeconds = 0.02;

class ScenarioRun {
 public:
  ScenarioRun(const Scenario& scenario, const Scale& scale, std::string scratch,
              ScenarioResults* results)
      : scenario_(scenario), scale_(scale), scratch_(std::move(scratch)), results_(results) {}

  Status Run() {
    results_->rounds.resize(static_cast<size_t>(std::lround(scenario_.rounds.At(scale_))));
    if (results_->rounds.empty()) results_->rounds.resize(1);
    Status s;
    for (size_t round = 0; s.ok() && round < results_->rounds.size(); round++) s = RunKills(round);
    for (size_t round = 0; s.ok() && round < results_->rounds.size(); round++) s = RunSteps(round);
    return s;
  }

 private:
  Status RunKills(size_t round);
  Status RunSteps(size_t round);
  Status RunStep(const ScenarioStep& step, size_t round, Slot* slot);

  uint32_t KeysOf(const ScenarioStep& step) const {
    const double keys = (step.keys ? *step.keys : scenario_.keys).At(scale_);
    return static_cast<uint32_t>(std::max(1.0, keys));
  }
  DataShape ShapeOf(const ScenarioStep& step) const {
    DataShape shape = scenario_.shape;
    shape.keys = KeysOf(step);
    if (step.value_bytes) shape.value_bytes = *step.value_bytes;
    return shape;
  }
  StoreSpec SpecOf(const ScenarioStore& store) const {
    StoreSpec spec = store.spec;
    for (const auto& [name, size] : store.sized_options)
      spec.options.emplace_back(name, std::to_string(std::llround(size.At(scale_))));
    return spec;
  }
  StoreSettings Settings() const {
    StoreSettings settings;
    settings.memory_budget_bytes =
        static_cast<uint64_t>(std::max(1.0, scenario_.memory_mib.At(scale_)) * (1 << 20));
    settings.write_buffer_bytes =
        static_cast<uint64_t>(scenario_.write_buffer_kib.At(scale_) * (1 << 10));
    settings.data_bytes_max = 0;
    for (const ScenarioStep& step : scenario_.steps) {
      const DataShape shape = ShapeOf(step);
      settings.data_bytes_max =
          std::max(settings.data_bytes_max,
                   uint64_t{shape.keys} * (shape.key_bytes + shape.value_bytes) * 2);
    }
    settings.media_profile = scenario_.media_profile;
    settings.parts = scenario_.parts;
    settings.count_reads = scenario_.count_reads;
    return settings;
  }
  void Keep(size_t round, const ScenarioStep& step, RunResult result) {
    std::fprintf(stderr, "%6.0f s  %-24s round %zu  %-20s %-16s %s\n", NowSeconds() - began_,
                 scenario_.name.c_str(), round + 1, step.name.c_str(), result.store.c_str(),
                 result.recovery_seconds ? FormatNs(*result.recovery_seconds * 1e9).c_str()
                                         : FormatRate(result.OpsPerSecond()).c_str());
    result.workload = step.name;
    std::pair key(result.store, step.name);
    results_->rounds[round].insert_or_assign(std::move(key), std::move(result));
  }

  const Scenario& scenario_;
  const Scale& scale_;
  const std::string scratch_;
  ScenarioResults* const results_;
  const double began_ = NowSeconds();
};

// Before all else: it forks.
Status ScenarioRun::RunKills(size_t round) {
  for (const ScenarioStep& step : scenario_.steps) {
    if (!step.kill_mib) continue;
    const auto bytes = static_cast<uint64_t>(std::max(0.01, step.kill_mib->At(scale_)) * (1 << 20));
    for (const ScenarioStore& store : scenario_.stores) {
      if (!step.Takes(store.spec.label)) continue;
      CrashResult crash;
      Status s = MeasureCrash(SpecOf(store), Settings(), ShapeOf(step), bytes, scratch_, &crash);
      if (!s.ok()) return s;
      RunResult result;
      result.store = store.spec.label;
      result.ops = crash.records;
      result.seconds = crash.write_seconds;
      result.recovery_seconds = crash.reopen_seconds;
      result.recovered_records = crash.recovered_records;
      if (crash.log_seconds > 0) result.recovery_log_seconds = crash.log_seconds;
      if (crash.index_seconds > 0) result.recovery_index_seconds = crash.index_seconds;
      Keep(round, step, std::move(result));
    }
  }
  return Status::OK();
}

Status ScenarioRun::RunStep(const ScenarioStep& step, size_t round, Slot* slot) {
  if (step.workload.fresh) slot->SetShape(ShapeOf(step));
  RunSettings run;
  run.ops = static_cast<uint64_t>(std::max(1.0, slot->keys() * step.ops_per_key));
  run.threads = step.threads;
  run.await_idle = step.await_idle;
  run.warmup_share = step.warmup;
  run.sample_seconds = step.samples ? kSampleSeconds : 0;
  run.seed = scenario_.shape.seed + round;
  RunResult result;
  Status s = slot->Run(step.workload, run, &result);
  if (s.ok()) Keep(round, step, std::move(result));
  return s;
}

Status ScenarioRun::RunSteps(size_t round) {
  DataShape shape = scenario_.shape;  // of stores that no step fills
  shape.keys = static_cast<uint32_t>(std::max(1.0, scenario_.keys.At(scale_)));
  std::vector<std::unique_ptr<Slot>> slots;
  for (const ScenarioStore& store : scenario_.stores) {
    slots.push_back(std::make_unique<Slot>(SpecOf(store), Settings(), shape, scratch_));
  }
  if (round % 2 == 1) std::reverse(slots.begin(), slots.end());
  for (const ScenarioStep& step : scenario_.steps) {
    for (const std::unique_ptr<Slot>& slot : slots) {
      if (step.kill_mib || !step.Takes(slot->label())) continue;
      Status s = RunStep(step, round, slot.get());
      if (!s.ok()) return s;
    }
  }
  return Status::OK();
}

}  // namespace

std::optional<double> ScenarioResults::Measured(const Claim& claim) const {
  std::vector<double> values;
  for (const auto& round : rounds) {
    const std::optional<double> value =
        claim.expression.Evaluate([&](const Expression::Call& call) -> std::optional<double> {
          const auto found = round.find({call.words[0], call.words[1]});
          return found == round.end() ? std::nullopt : Measure(call, found->second);
        });
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return Median(values);
}

Status RunScenario(const Scenario& scenario, const Scale& scale, const std::string& scratch,
                   ScenarioResults* results) {
  *results = ScenarioResults{};
  return ScenarioRun(scenario, scale, scratch, results).Run();
}

}  // namespace lamella::bench
