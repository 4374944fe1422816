// Results for people (an aligned table) and for programs (JSON).
#ifndef LAMELLA_BENCH_REPORT_H_
#define LAMELLA_BENCH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/runner.h"

namespace lamella::bench {

/// Rows of cells under a head; every column as wide as its widest cell, the first to the left, the
/// others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : head_(std::move(head)) {}
  /// Columns that are text: to the left like the first. REQUIRES: before ToString.
  void AlignLeft(size_t column) { left_.push_back(column); }
  /// Fewer cells than columns leave the rest empty; more are dropped.
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Ends with a newline. Widths count code points, so that "µ" is one.
  std::string ToString() const;

 private:
  std::vector<std::string> head_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> left_ = {0};
};

// Three significant figures and a unit: "3.21 M/s", "412 ns", "1.50 ms", "268 MiB". An absent value
// is "n/a".
std::string FormatRate(double per_second);
std::string FormatNs(double ns);
std::string FormatBytes(double bytes);
std::string FormatRatio(std::optional<double> ratio);  // "4.02x"
std::string FormatNumber(std::optional<double> number);

double Median(std::vector<double> values);

/// What a run was made with, for the head of a report.
struct RunContext {
  std::string machine;
  std::string file_system;
  uint64_t keys = 0;
  uint32_t key_bytes = 0;
  uint32_t shared_bytes = 0;  // of them
  uint32_t value_bytes = 0;
  uint64_t memory_budget_bytes = 0;
  uint32_t rounds = 1;
  std::vector<StoreSpec> stores;
};

/// A goal and what was measured against it.
struct GoalRow {
  std::string what;
  // one a store, in the order of RunContext::stores; empty where it does not apply
  std::vector<std::string> cells;
  std::string measured;
  std::string goal;     // empty: shown for comparison
  std::string verdict;  // "met", "missed", "not measured", or empty where there is no goal
};

/// The lines above a table: machine, sizes, budget; and for each store its version and what its
/// writes survive.
std::string ContextToString(const RunContext& context);
/// One row a result; where several kinds of operation were mixed, one more for each. Rounds are
/// folded into medians, and "vs" is the median over rounds of the ratio to the first store in the
/// same round.
std::string ResultsToTable(const std::vector<RunResult>& results);
std::string GoalsToTable(const RunContext& context, const std::vector<GoalRow>& goals);
/// Everything: context, goals, and per result throughput, percentiles, time series, bytes by cause,
/// amplification, stalls, memory and space. Ends with a newline.
std::string ResultsToJson(const RunContext& context, const std::vector<RunResult>& results,
                          const std::vector<GoalRow>& goals = {});
/// The results alone: a list.
std::string RunsToJson(const std::vector<RunResult>& results);

/// OK where WriteTextFile may be expected to succeed, so that a long run is not begun in vain.
/// IOError: why not. Leaves what is there, or not there, as it is.
Status CheckWritable(const std::string& path);
/// Replaces the file. IOError: it cannot be written.
Status WriteTextFile(const std::string& path, std::string_view text);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_REPORT_H_
