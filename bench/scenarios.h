// `lamella bench --scenario`: the scenarios of a directory, each in a process of its own, with a
// verdict on every claim.
#ifndef LAMELLA_BENCH_SCENARIOS_H_
#define LAMELLA_BENCH_SCENARIOS_H_

#include <string>
#include <vector>

#include "bench/config.h"
#include "bench/scenario.h"

namespace lamella::bench {

/// The files that "all", a name, a file or a directory stands for, sorted. NotFound names what
/// there is.
Status FindScenarios(const std::vector<std::string>& names, std::vector<std::string>* files);
/// Where the scenarios lie that belong to this program: installed with it, or in its source tree.
std::string ScenariosDirectory();

struct ScenariosOutcome {
  size_t reproduced = 0, direction = 0, no = 0;  // claims
  size_t skipped = 0;                            // scenarios
};

/// Runs them in `scratch`, prints the tables, and writes the JSON that config asks for: one object
/// a claim. InvalidArgument: a file says what it cannot mean; none was run then. After any other
/// error what was measured before it is printed and written all the same.
/// REQUIRES: no store was opened in this process before, and no other thread (it forks).
Status RunScenarios(const Config& config, const std::string& scratch, ScenariosOutcome* outcome);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_SCENARIOS_H_
