// A Scenario is one figure of a paper as a file says it (docs/BENCHMARKS.md): stores, steps that
// all of them run in turns, and claims, each a comparison of what was measured with what the paper
// printed.
// I1: a claim of a Scenario that ParseScenario let through names stores, steps and figures that
//     exist, and only stores that take part in the step.
// Threads: one.
#ifndef LAMELLA_BENCH_SCENARIO_H_
#define LAMELLA_BENCH_SCENARIO_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/expression.h"
#include "bench/slot.h"
#include "bench/workload.h"

namespace lamella::bench {

/// How large a scenario is run: "small" (minutes on two cores for all of them), "medium", "paper"
/// (the sizes of the paper), or a number: so many times small.
struct Scale {
  enum class Kind : uint8_t { kSmall, kMedium, kPaper };
  Kind kind = Kind::kSmall;
  double factor = 1;
  std::string text = "small";

  static Status Parse(const std::string& text, Scale* scale);
};

/// A number that may depend on the scale.
struct Size {
  double small = 0;
  double medium = 0;
  double paper = 0;
  bool scales = false;

  double At(const Scale& scale) const;
};

struct ScenarioStore {
  StoreSpec spec;  // its label is the name that claims use
  std::vector<std::pair<std::string, Size>> sized_options;
};

struct ScenarioStep {
  std::string name;
  Workload workload;
  double ops_per_key = 1;
  std::optional<Size> keys;             // of a step that fills anew; else the scenario's
  std::optional<uint32_t> value_bytes;  // likewise
  uint32_t threads = 1;
  bool await_idle = true;
  double warmup = 0.2;
  bool samples = false;             // a time series is taken
  std::optional<Size> kill_mib;     // no workload: killed with so much unflushed, and opened again
  std::vector<std::string> stores;  // empty: all

  bool Takes(const std::string& store) const;
};

struct Claim {
  std::string text;
  std::string compares;  // the expression as it stands
  Expression expression;
  std::optional<double> paper;  // none: the paper says which is more, and not by how much
  Bound reproduced;
  std::optional<Bound> direction;
};

struct Scenario {
  std::string name;  // of its file
  std::string title;
  std::string paper;   // title and year
  std::string figure;  // and the workload there
  std::string media_profile = "dram";
  DataShape shape;  // but for the keys
  Size keys;
  Size memory_mib;
  Size write_buffer_kib;
  Size rounds;
  uint32_t parts = 1;
  bool count_reads = false;
  std::vector<ScenarioStore> stores;
  std::vector<ScenarioStep> steps;
  std::vector<Claim> claims;
};

/// InvalidArgument: `file`, the place in it, what was expected there and what was found.
Status ParseScenario(const std::string& file, std::string_view text, Scenario* scenario);
/// Reads the file. IOError: it cannot be read.
Status ReadScenario(const std::string& file, Scenario* scenario);
/// NotSupported: a store of it is not in this build; says which.
Status CheckRunnable(const Scenario& scenario);

/// OK where each size that depends on the scale is one that a file may have, and there are as many
/// keys of its width. InvalidArgument names the size: a number as a scale may lead anywhere.
Status CheckScale(const Scenario& scenario, const Scale& scale);

enum class Verdict : uint8_t { kReproduced, kDirection, kNo };
std::string_view VerdictName(Verdict verdict);
Verdict Judge(const Claim& claim, std::optional<double> measured);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_SCENARIO_H_
