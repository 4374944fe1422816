// Goals turns the results of a standing run into rows with verdicts. Pure: what it is given decides
// what it says.
#ifndef LAMELLA_BENCH_GOALS_H_
#define LAMELLA_BENCH_GOALS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/report.h"

namespace lamella::bench {

/// "At least `ratio` times as good as `peer`."
struct PeerGoal {
  StoreKind peer;
  double ratio;
};

class Goals {
 public:
  using Figure = std::function<std::optional<double>(const RunResult&)>;
  using Format = std::function<std::string(double)>;

  explicit Goals(const RunContext& context);

  /// The median rates of a workload and the medians over rounds of lamella's rate by the peer's.
  void AddRates(const std::string& what, const std::vector<RunResult>& results,
                const std::string& workload, const std::vector<PeerGoal>& goals);
  /// A figure of which less is better, against a share of the peer's: at most `share` of it.
  void AddShare(const std::string& what, const std::vector<RunResult>& results,
                const std::string& workload, const Figure& figure, const Format& format,
                StoreKind peer, double share);
  /// A figure of lamella's that must be at most `limit` in the median round, beside that of the
  /// others.
  void AddLimit(const std::string& what, const std::vector<RunResult>& results,
                const std::string& workload, const Figure& figure, const Format& format,
                double limit);
  /// A figure of each store without a goal.
  void AddFigure(const std::string& what, const std::vector<RunResult>& results,
                 const std::string& workload, const Figure& figure, const Format& format);
  /// As AddLimit for figures that were not taken by a workload: one vector of rounds a store, empty
  /// where not measured.
  void AddLimitOf(const std::string& what, const std::vector<std::vector<double>>& rounds,
                  const Format& format, double limit);
  /// How lamella's rate with `threads` compares with its rate with one.
  void AddScaling(const std::string& what, const std::vector<RunResult>& results,
                  const std::string& workload, uint32_t threads, double ratio);

  const std::vector<GoalRow>& rows() const { return rows_; }
  bool AllMet() const;

 private:
  std::optional<size_t> IndexOf(StoreKind kind) const;
  std::vector<std::vector<double>> Collect(const std::vector<RunResult>& results,
                                           const std::string& workload, uint32_t threads,
                                           const Figure& figure) const;
  // One row of medians; empty cells where a store has none.
  GoalRow MakeRow(const std::string& what, const std::vector<std::vector<double>>& rounds,
                  const Format& format) const;

  const RunContext context_;
  std::vector<GoalRow> rows_;
};

/// Median of a[i] / b[i] over the rounds that both have; nullopt where there is none.
std::optional<double> MedianRatio(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_GOALS_H_
