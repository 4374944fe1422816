#include <algorithm>

#include <nlohmann/json.hpp>

#include "bench/report.h"

namespace lamella::bench {
namespace {

using Json = nlohmann::ordered_json;

// Whatever bytes a label has: it may hold a path.
std::string Written(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json LatencyToJson(const Histogram& h) {
  return {{"count", h.count()},
          {"mean", h.Mean()},
          {"min", h.min()},
          {"p50", h.Quantile(0.5)},
          {"p90", h.Quantile(0.9)},
          {"p99", h.Quantile(0.99)},
          {"p99.9", h.Quantile(0.999)},
          {"p99.99", h.Quantile(0.9999)},
          {"max", h.max()}};
}

Json WrittenToJson(const std::optional<std::vector<BytesByCause>>& written) {
  if (!written) return nullptr;
  Json causes = Json::object();
  for (const BytesByCause& w : *written) causes[w.cause] = w.bytes;
  return causes;
}

// Totals since the run began, one column a figure.
Json SamplesToJson(const std::vector<Sample>& samples) {
  Json series = {{"seconds", Json::array()},
                 {"ops", Json::array()},
                 {"flushed_records", Json::array()},
                 {"stall_ns", Json::array()}};
  for (const Sample& s : samples) {
    const auto since_first = [&](std::optional<uint64_t> StoreStats::* counter) {
      const std::optional<uint64_t> now = s.stats.*counter, first = samples.front().stats.*counter;
      return now && first ? Json(*now - *first) : Json(nullptr);
    };
    series["seconds"].push_back(s.seconds);
    series["ops"].push_back(s.ops);
    series["flushed_records"].push_back(since_first(&StoreStats::flushed_records));
    series["stall_ns"].push_back(since_first(&StoreStats::stall_ns));
  }
  return series;
}

Json ResultToJson(const RunResult& r) {
  Json latencies = Json::object();
  for (size_t c = 0; c < r.latency_ns.size(); c++) {
    if (r.latency_ns[c].count() > 0)
      latencies[OpClassName(static_cast<OpClass>(c))] = LatencyToJson(r.latency_ns[c]);
  }
  return {{"store", r.store},
          {"workload", r.workload},
          {"threads", r.threads},
          {"ops", r.ops},
          {"seconds", r.seconds},
          {"ops_per_second", r.OpsPerSecond()},
          {"cpu_seconds", r.cpu_seconds},
          {"idle_seconds", r.idle_seconds},
          {"latency_ns", latencies},
          {"ops_each_second", r.ops_per_second},
          {"missing", r.missing},
          {"wrong", r.wrong},
          {"scanned_records", r.scanned_records},
          {"puts", r.puts},
          {"user_bytes_put", r.user_bytes_put},
          {"bytes_written_by_cause", WrittenToJson(r.written)},
          {"write_amplification", OrNull(r.WriteAmplification())},
          {"log_fences", OrNull(r.log_fences)},
          {"all_fences", OrNull(r.all_fences)},
          {"stall_ns", OrNull(r.stall_ns)},
          {"stall_ns_max", OrNull(r.stall_ns_max)},
          {"stall_count", OrNull(r.stall_count)},
          {"dram_bytes_reported", OrNull(r.dram_bytes)},
          {"used_bytes", OrNull(r.used_bytes)},
          {"tables", OrNull(r.tables)},
          {"user_bytes_read", r.user_bytes_read},
          {"bytes_read", OrNull(r.read_bytes)},
          {"read_amplification", OrNull(r.ReadAmplification())},
          {"remote_hops", OrNull(r.remote_hops)},
          {"local_hops", OrNull(r.local_hops)},
          {"flushed_records", OrNull(r.flushed_records)},
          {"flush_ns", OrNull(r.flush_ns)},
          {"recovery_seconds", OrNull(r.recovery_seconds)},
          {"recovered_records", OrNull(r.recovered_records)},
          {"recovery_log_seconds", OrNull(r.recovery_log_seconds)},
          {"recovery_index_seconds", OrNull(r.recovery_index_seconds)},
          {"samples", SamplesToJson(r.samples)},
          {"rss_bytes_added", r.rss_bytes},
          {"space_bytes", r.space_bytes}};
}

Json GoalToJson(const RunContext& context, const GoalRow& goal) {
  Json cells = Json::object();
  for (size_t i = 0; i < std::min(goal.cells.size(), context.stores.size()); i++) {
    cells[context.stores[i].label] = goal.cells[i];
  }
  return {{"what", goal.what},
          {"stores", cells},
          {"measured", goal.measured},
          {"goal", goal.goal},
          {"verdict", goal.verdict}};
}

Json ContextToJson(const RunContext& context) {
  Json stores = Json::array();
  for (const StoreSpec& spec : context.stores) {
    stores.push_back({{"label", spec.label},
                      {"kind", StoreKindName(spec.kind)},
                      {"version", StoreVersion(spec.kind)},
                      {"survives", Durability(spec.kind)}});
  }
  return {{"machine", context.machine},
          {"file_system", context.file_system},
          {"keys", context.keys},
          {"key_bytes", context.key_bytes},
          {"key_shared_bytes", context.shared_bytes},
          {"value_bytes", context.value_bytes},
          {"memory_budget_bytes", context.memory_budget_bytes},
          {"rounds", context.rounds},
          {"stores", stores}};
}

}  // namespace

std::string RunsToJson(const std::vector<RunResult>& results) {
  Json runs = Json::array();
  for (const RunResult& r : results) runs.push_back(ResultToJson(r));
  return Written(runs, -1);
}

std::string ResultsToJson(const RunContext& context, const std::vector<RunResult>& results,
                          const std::vector<GoalRow>& goals) {
  Json report = {{"context", ContextToJson(context)}};
  for (const GoalRow& goal : goals) report["goals"].push_back(GoalToJson(context, goal));
  report["results"] = Json::parse(RunsToJson(results));
  return Written(report, 2) + "\n";
}

}  // namespace lamella::bench
