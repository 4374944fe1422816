// Runs one scenario and judges its claims.
// I1: stores take turns: every step on all stores before the next step, every other round in
//     reverse.
// I2: a claim is computed for each round from that round alone; its figure is the median.
// Threads: one.
#ifndef LAMELLA_BENCH_SCENARIO_RUN_H_
#define LAMELLA_BENCH_SCENARIO_RUN_H_

#include <map>
#include <string>
#include <vector>

#include "bench/scenario.h"

namespace lamella::bench {

/// What was measured. RunResult::store and workload are the scenario's names of store and step.
struct ScenarioResults {
  std::vector<std::map<std::pair<std::string, std::string>, RunResult>> rounds;

  /// The figure that a claim compares; nullopt where one of its parts was not measured.
  std::optional<double> Measured(const Claim& claim) const;
};

/// Runs it in `scratch`, and says on stderr how far it is. Corruption: a store answered wrongly.
/// REQUIRES: CheckRunnable; no store was opened in this process before where a step kills one (see
/// crash.h).
Status RunScenario(const Scenario& scenario, const Scale& scale, const std::string& scratch,
                   ScenarioResults* results);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_SCENARIO_RUN_H_
