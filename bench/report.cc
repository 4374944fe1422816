#include "bench/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace lamella::bench {
namespace {

// Three significant figures, without an exponent.
std::string Three(double value) {
  const double size = std::fabs(value);
  if (size < 0.0005) return "0";
  if (size < 0.1) return fmt::format("{:.4f}", value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  if (size >= 10) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

std::string Scaled(double value, double step, const std::vector<const char*>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    unit++;
  }
  return Three(value) + " " + units[unit];
}

size_t CodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string LatencyCell(const Histogram& h, double quantile) {
  if (h.count() < 100) return "-";  // a few passes over everything are no distribution
  return FormatNs(static_cast<double>(quantile >= 1 ? h.max() : h.Quantile(quantile)));
}

std::vector<std::string> LatencyCells(const Histogram& h) {
  return {LatencyCell(h, 0.5), LatencyCell(h, 0.99), LatencyCell(h, 0.999), LatencyCell(h, 0.9999),
          LatencyCell(h, 1)};
}

// The rounds of one store on one workload.
struct Group {
  const RunResult* first;
  std::vector<const RunResult*> rounds;

  double MedianRate() const {
    std::vector<double> rates;
    for (const RunResult* r : rounds) rates.push_back(r->OpsPerSecond());
    return Median(rates);
  }
  Histogram Latency(size_t op_class) const {
    Histogram merged;
    for (const RunResult* r : rounds) merged.Merge(r->latency_ns[op_class]);
    return merged;
  }
};

std::vector<Group> GroupResults(const std::vector<RunResult>& results) {
  std::vector<Group> groups;
  for (const RunResult& r : results) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.first->store == r.store && g.first->workload == r.workload &&
             g.first->threads == r.threads;
    });
    if (same == groups.end()) same = groups.insert(groups.end(), Group{&r, {}});
    same->rounds.push_back(&r);
  }
  return groups;
}

std::string RatioTo(const Group& group, const std::vector<Group>& groups) {
  for (const Group& base : groups) {
    if (base.first->workload != group.first->workload ||
        base.first->threads != group.first->threads)
      continue;
    if (&base == &group) return "";
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(base.rounds.size(), group.rounds.size()); i++) {
      ratios.push_back(base.rounds[i]->OpsPerSecond() / group.rounds[i]->OpsPerSecond());
    }
    return FormatRatio(Median(ratios));
  }
  return "";
}

void AddGroup(const Group& group, const std::vector<Group>& groups, Table* table) {
  std::vector<size_t> classes;
  Histogram all;
  for (size_t c = 0; c < static_cast<size_t>(OpClass::kCount); c++) {
    const Histogram h = group.Latency(c);
    if (h.count() == 0) continue;
    classes.push_back(c);
    all.Merge(h);
  }
  const RunResult& r = *group.rounds.back();
  std::vector<std::string> row = {r.workload, r.store, std::to_string(r.threads),
                                  FormatRate(group.MedianRate()), RatioTo(group, groups)};
  for (std::string& cell : LatencyCells(all)) row.push_back(std::move(cell));
  row.push_back(r.stall_ns ? FormatNs(static_cast<double>(*r.stall_ns)) : "n/a");
  row.push_back(r.puts == 0 ? "" : FormatNumber(r.WriteAmplification()));
  row.push_back(r.dram_bytes ? FormatBytes(static_cast<double>(*r.dram_bytes)) : "n/a");
  row.push_back(FormatBytes(static_cast<double>(r.rss_bytes)));
  row.push_back(FormatBytes(static_cast<double>(r.space_bytes)));
  table->Add(std::move(row));
  if (classes.size() < 2) return;
  for (size_t c : classes) {
    std::vector<std::string> part = {std::string("  ") + OpClassName(static_cast<OpClass>(c)), "",
                                     "", "", ""};
    for (std::string& cell : LatencyCells(group.Latency(c))) part.push_back(std::move(cell));
    table->Add(std::move(part));
  }
}

}  // namespace

std::string Table::ToString() const {
  std::vector<size_t> widths;
  for (const std::string& cell : head_) widths.push_back(CodePoints(cell));
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < std::min(row.size(), widths.size()); i++)
      widths[i] = std::max(widths[i], CodePoints(row[i]));
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (size_t i = 0; i < widths.size(); i++) {
      const std::string cell = i < cells.size() ? cells[i] : "";
      const std::string pad(widths[i] - CodePoints(cell), ' ');
      const bool left = std::find(left_.begin(), left_.end(), i) != left_.end();
      if (i > 0) out += "  ";
      out += left ? cell + pad : pad + cell;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  line(head_);
  size_t total = 0;
  for (size_t w : widths) total += w + 2;
  text += std::string(total - 2, '-') + "\n";
  for (const std::vector<std::string>& row : rows_) line(row);
  return text;
}

std::string FormatRate(double per_second) {
  return Scaled(per_second, 1000, {"/s", "k/s", "M/s", "G/s"});
}
std::string FormatNs(double ns) { return Scaled(ns, 1000, {"ns", "us", "ms", "s"}); }
std::string FormatBytes(double bytes) {
  return Scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB"});
}
std::string FormatRatio(std::optional<double> ratio) { return ratio ? Three(*ratio) + "x" : "n/a"; }
std::string FormatNumber(std::optional<double> number) { return number ? Three(*number) : "n/a"; }

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string ContextToString(const RunContext& context) {
  std::string text = fmt::format(
      "{}; {}; {} keys of {} B{}, values of {} B; {} of DRAM for each store; {} round{}\n",
      context.machine, context.file_system, context.keys, context.key_bytes,
      context.shared_bytes == 0 ? "" : fmt::format(" of which they share {}", context.shared_bytes),
      context.value_bytes, FormatBytes(static_cast<double>(context.memory_budget_bytes)),
      context.rounds, context.rounds == 1 ? "" : "s");
  std::vector<StoreKind> seen;
  for (const StoreSpec& spec : context.stores) {
    if (std::find(seen.begin(), seen.end(), spec.kind) != seen.end()) continue;
    seen.push_back(spec.kind);
    text += fmt::format("  {} ({}): {}\n", StoreKindName(spec.kind), StoreVersion(spec.kind),
                        Durability(spec.kind));
  }
  return text;
}

std::string ResultsToTable(const std::vector<RunResult>& results) {
  if (results.empty()) return "";
  Table table({"workload", "store", "threads", "rate", results.front().store + " vs", "p50", "p99",
               "p99.9", "p99.99", "max", "stalled", "written/user", "dram", "rss", "space"});
  table.AlignLeft(1);
  const std::vector<Group> groups = GroupResults(results);
  for (const Group& group : groups) AddGroup(group, groups, &table);
  return table.ToString();
}

std::string GoalsToTable(const RunContext& context, const std::vector<GoalRow>& goals) {
  std::vector<std::string> head = {""};
  for (const StoreSpec& spec : context.stores) head.push_back(spec.label);
  head.insert(head.end(), {"measured", "goal", "verdict"});
  Table table(head);
  for (size_t i = head.size() - 3; i < head.size(); i++) table.AlignLeft(i);
  for (const GoalRow& goal : goals) {
    std::vector<std::string> row = {goal.what};
    row.insert(row.end(), goal.cells.begin(), goal.cells.end());
    row.resize(head.size() - 3);
    row.insert(row.end(), {goal.measured, goal.goal, goal.verdict});
    table.Add(std::move(row));
  }
  return table.ToString();
}

Status CheckWritable(const std::string& path) {
  const auto refuse = [&path](int error) {
    return Status::IOError(path + ": cannot be written: " + std::strerror(error));
  };
  struct stat info{};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return refuse(EISDIR);
    return access(path.c_str(), W_OK) == 0 ? Status::OK() : refuse(errno);
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return errno == EEXIST ? Status::OK() : refuse(errno);  // a link to what is not there
  close(fd);
  unlink(path.c_str());
  return Status::OK();
}

Status WriteTextFile(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return Status::IOError(path + ": cannot be written: " + std::strerror(errno));
  return Status::OK();
}

}  // namespace lamella::bench
