#include "bench/goals.h"

#include <algorithm>

namespace lamella::bench {
namespace {

constexpr const char* kMet = "met";
constexpr const char* kMissed = "MISSED";
constexpr const char* kNotMeasured = "not measured";

void Append(std::string* list, const std::string& item) {
  *list += (list->empty() ? "" : ", ") + item;
}

// The verdict of a row is its worst: a miss before what was not measured, before what was met.
void Judge(GoalRow* row, std::optional<bool> met) {
  if (row->verdict == kMissed) return;
  if (!met) {
    row->verdict = kNotMeasured;
  } else if (!*met) {
    row->verdict = kMissed;
  } else if (row->verdict.empty()) {
    row->verdict = kMet;
  }
}

}  // namespace

std::optional<double> MedianRatio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++) {
    if (b[i] > 0) ratios.push_back(a[i] / b[i]);
  }
  if (ratios.empty()) return std::nullopt;
  return Median(ratios);
}

Goals::Goals(const RunContext& context) : context_(context) {}

std::optional<size_t> Goals::IndexOf(StoreKind kind) const {
  for (size_t i = 0; i < context_.stores.size(); i++) {
    if (context_.stores[i].kind == kind) return i;
  }
  return std::nullopt;
}

std::vector<std::vector<double>> Goals::Collect(const std::vector<RunResult>& results,
                                                const std::string& workload, uint32_t threads,
                                                const Figure& figure) const {
  std::vector<std::vector<double>> rounds(context_.stores.size());
  for (const RunResult& r : results) {
    if (r.workload != workload || r.threads != threads) continue;
    for (size_t i = 0; i < context_.stores.size(); i++) {
      if (context_.stores[i].label != r.store) continue;
      const std::optional<double> value = figure(r);
      if (value) rounds[i].push_back(*value);
    }
  }
  return rounds;
}

GoalRow Goals::MakeRow(const std::string& what, const std::vector<std::vector<double>>& rounds,
                       const Format& format) const {
  GoalRow row;
  row.what = what;
  for (const std::vector<double>& values : rounds)
    row.cells.push_back(values.empty() ? "" : format(Median(values)));
  return row;
}

void Goals::AddRates(const std::string& what, const std::vector<RunResult>& results,
                     const std::string& workload, const std::vector<PeerGoal>& goals) {
  const auto rounds =
      Collect(results, workload, 1, [](const RunResult& r) { return r.OpsPerSecond(); });
  GoalRow row = MakeRow(what, rounds, FormatRate);
  const std::optional<size_t> ours = IndexOf(StoreKind::kLamella);
  for (const PeerGoal& goal : goals) {
    const std::optional<size_t> peer = IndexOf(goal.peer);
    std::optional<double> ratio;
    if (ours && peer) ratio = MedianRatio(rounds[*ours], rounds[*peer]);
    const std::string name(StoreKindName(goal.peer));
    if (goal.ratio > 0) {
      Append(&row.goal, ">= " + FormatRatio(goal.ratio) + " " + name);
      Judge(&row, ratio ? std::optional<bool>(*ratio >= goal.ratio) : std::nullopt);
    }
    if (ratio) Append(&row.measured, FormatRatio(ratio) + " " + name);
  }
  rows_.push_back(std::move(row));
}

void Goals::AddShare(const std::string& what, const std::vector<RunResult>& results,
                     const std::string& workload, const Figure& figure, const Format& format,
                     StoreKind peer, double share) {
  const auto rounds = Collect(results, workload, 1, figure);
  GoalRow row = MakeRow(what, rounds, format);
  const std::optional<size_t> ours = IndexOf(StoreKind::kLamella), theirs = IndexOf(peer);
  std::optional<double> ratio;
  if (ours && theirs) ratio = MedianRatio(rounds[*ours], rounds[*theirs]);
  const std::string name(StoreKindName(peer));
  if (ratio) row.measured = FormatRatio(ratio) + " " + name;
  row.goal = "<= " + FormatRatio(share) + " " + name;
  Judge(&row, ratio ? std::optional<bool>(*ratio <= share) : std::nullopt);
  rows_.push_back(std::move(row));
}

void Goals::AddLimit(const std::string& what, const std::vector<RunResult>& results,
                     const std::string& workload, const Figure& figure, const Format& format,
                     double limit) {
  AddLimitOf(what, Collect(results, workload, 1, figure), format, limit);
}

void Goals::AddFigure(const std::string& what, const std::vector<RunResult>& results,
                      const std::string& workload, const Figure& figure, const Format& format) {
  rows_.push_back(MakeRow(what, Collect(results, workload, 1, figure), format));
}

void Goals::AddLimitOf(const std::string& what, const std::vector<std::vector<double>>& rounds,
                       const Format& format, double limit) {
  GoalRow row = MakeRow(what, rounds, format);
  const std::optional<size_t> ours = IndexOf(StoreKind::kLamella);
  row.goal = "<= " + format(limit);
  std::optional<bool> met;
  if (ours && !rounds[*ours].empty()) {
    row.measured = format(Median(rounds[*ours]));
    met = Median(rounds[*ours]) <= limit;
  }
  Judge(&row, met);
  rows_.push_back(std::move(row));
}

void Goals::AddScaling(const std::string& what, const std::vector<RunResult>& results,
                       const std::string& workload, uint32_t threads, double ratio_goal) {
  const Figure rate = [](const RunResult& r) { return r.OpsPerSecond(); };
  const auto one = Collect(results, workload, 1, rate),
             more = Collect(results, workload, threads, rate);
  GoalRow row = MakeRow(what, more, FormatRate);
  const std::optional<size_t> ours = IndexOf(StoreKind::kLamella);
  std::optional<double> ratio;
  if (ours) ratio = MedianRatio(more[*ours], one[*ours]);
  if (ratio) row.measured = FormatRatio(ratio) + " one thread";
  row.goal = ">= " + FormatRatio(ratio_goal) + " one thread";
  Judge(&row, ratio ? std::optional<bool>(*ratio >= ratio_goal) : std::nullopt);
  rows_.push_back(std::move(row));
}

bool Goals::AllMet() const {
  return std::none_of(rows_.begin(), rows_.end(),
                      [](const GoalRow& row) { return row.verdict == kMissed; });
}

}  // namespace lamella::bench
