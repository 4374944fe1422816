// The figures that a claim may name: a function of the store, the step and further words, such as
// rate(tlsm, load), latency(tlsm, load, p99) or written(tlsm, load, compaction). docs/BENCHMARKS.md
// lists them.
// Threads: any; all of it is pure.
#ifndef LAMELLA_BENCH_MEASURE_H_
#define LAMELLA_BENCH_MEASURE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/expression.h"
#include "bench/runner.h"

namespace lamella::bench {

/// OK where the figure exists and takes these words. InvalidArgument: what was expected and found.
/// The first two words, store and step, are the scenario's to check.
Status CheckMeasure(const Expression::Call& call);
/// True of figures that need samples of the run.
bool NeedsSamples(const Expression::Call& call);
/// True of figures that need StoreSettings::count_reads.
bool NeedsReadCounts(const Expression::Call& call);
/// True of figures of a step that kills the store.
bool IsOfKill(const Expression::Call& call);
/// Nullopt where the store does not say it.
/// REQUIRES: CheckMeasure was OK.
std::optional<double> Measure(const Expression::Call& call, const RunResult& result);
std::vector<std::string> MeasureNames();

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_MEASURE_H_
