#include "tools/stats_report.h"

#include <fmt/format.h>

#include "tools/units.h"

namespace lamella::tools {
namespace {

void AppendRow(std::string* text, std::string_view name, const std::string& value) {
  *text += fmt::format("{:<22}{}\n", name, value);
}

std::string HopShare(const Stats& s) {
  const uint64_t hops = s.remote_hops + s.local_hops;
  if (hops == 0) return "no hops yet";
  return fmt::format("{:.1f}% of {} hops",
                     100.0 * static_cast<double>(s.remote_hops) / static_cast<double>(hops),
                     FormatCount(hops));
}

void AppendTraffic(std::string* text, const Stats& s) {
  *text += fmt::format("\n{:<12}{:>16}{:>16}{:>14}{:>18}\n", "written by", "bytes stored",
                       "lines flushed", "fences", "256-byte blocks");
  for (size_t i = 0; i < s.persist.size(); i++) {
    const PersistCounters& c = s.persist[i];
    *text +=
        fmt::format("{:<12}{:>16}{:>16}{:>14}{:>18}\n", WriteCauseName(static_cast<WriteCause>(i)),
                    FormatCount(c.bytes_stored), FormatCount(c.lines_flushed),
                    FormatCount(c.fences), FormatCount(c.blocks_touched));
  }
}

}  // namespace

StoreNames StoreNames::Of(DB& db) {
  StoreNames names;
  // A property that a store does not know leaves its string empty, which prints as nothing.
  (void)db.GetProperty("lamella.engine", &names.engine);
  (void)db.GetProperty("lamella.medium", &names.medium);
  (void)db.GetProperty("lamella.levels", &names.levels);
  return names;
}

std::string StatsText(const Stats& s, const StoreNames& names) {
  std::string text;
  AppendRow(&text, "engine", names.engine);
  AppendRow(&text, "medium", names.medium);
  AppendRow(&text, "pool",
            fmt::format("{}, of which {} in use", FormatBytes(s.pool_bytes),
                        FormatBytes(s.pool_bytes_used)));
  if (s.file_bytes > 0) AppendRow(&text, "files", FormatBytes(s.file_bytes));
  AppendRow(&text, "dram", FormatBytes(s.dram_bytes));
  for (const Stats::Level& level : s.levels) {
    AppendRow(
        &text, fmt::format("level {}", level.name),
        fmt::format("{} records in {} {}{}", FormatCount(level.records), FormatCount(level.tables),
                    level.tables == 1 ? "table" : "tables",
                    level.runs == 0 ? "" : fmt::format(", {} runs", FormatCount(level.runs))));
  }
  AppendRow(&text, "sequence", FormatCount(s.sequence));
  AppendRow(&text, "snapshots", FormatCount(s.snapshots));
  AppendRow(
      &text, "opened in",
      fmt::format("{}, {} log records sorted anew in {}", FormatNanoseconds(s.recovery_us * 1000),
                  FormatCount(s.recovered_records), FormatNanoseconds(s.recovery_log_us * 1000)));
  if (!names.levels.empty())
    text += "\n" + names.levels + (names.levels.ends_with('\n') ? "" : "\n");

  text += "\nsince the store was opened:\n";
  AppendRow(&text, "writes",
            fmt::format("{} puts, {} deletes, {} batches, {} of keys and values",
                        FormatCount(s.puts), FormatCount(s.deletes), FormatCount(s.batches),
                        FormatBytes(s.user_bytes_written)));
  AppendRow(&text, "reads",
            fmt::format("{} gets, {} found, {} iterators", FormatCount(s.gets),
                        FormatCount(s.gets_found), FormatCount(s.iterators)));
  std::string answers;
  for (const Stats::Source& source : s.sources) {
    answers +=
        fmt::format("{}{} {}", answers.empty() ? "" : ", ", source.name, FormatCount(source.gets));
  }
  AppendRow(&text, "answered by", answers);
  AppendRow(
      &text, "background",
      fmt::format("{} flushes, {} checkpoints, {} compactions, {} gc runs ({} relocated)",
                  FormatCount(s.flushes), FormatCount(s.checkpoints), FormatCount(s.compactions),
                  FormatCount(s.gc_runs), FormatBytes(s.gc_bytes_relocated)));
  AppendRow(&text, "write stalls",
            fmt::format("{}, {} together, the longest {}", FormatCount(s.stall_count),
                        FormatNanoseconds(s.stall_ns), FormatNanoseconds(s.stall_ns_max)));
  AppendRow(&text, "write amplification",
            s.user_bytes_written == 0
                ? std::string("nothing written yet")
                : fmt::format("{:.2f} bytes stored per user byte", s.WriteAmplification()));
  AppendRow(&text, "remote parts", HopShare(s));
  AppendTraffic(&text, s);
  return text;
}

nlohmann::ordered_json StatsJson(const Stats& s, const StoreNames& names) {
  nlohmann::ordered_json json;
  json["engine"] = names.engine;
  json["medium"] = names.medium;
  for (const StatsCounter& counter : StatsCounters())
    json[std::string(counter.name)] = s.*counter.value;
  json["sources"] = nlohmann::ordered_json::object();
  for (const Stats::Source& source : s.sources)
    json["sources"][std::string(source.name)] = source.gets;
  json["levels"] = nlohmann::ordered_json::array();
  for (const Stats::Level& level : s.levels) {
    json["levels"].push_back({{"name", level.name},
                              {"tables", level.tables},
                              {"records", level.records},
                              {"runs", level.runs}});
  }
  for (size_t i = 0; i < s.persist.size(); i++) {
    const PersistCounters& c = s.persist[i];
    json["persist"][std::string(WriteCauseName(static_cast<WriteCause>(i)))] = {
        {"bytes_stored", c.bytes_stored},
        {"lines_flushed", c.lines_flushed},
        {"fences", c.fences},
        {"blocks_touched", c.blocks_touched}};
  }
  json["persistent_bytes"] = s.PersistentBytes();
  json["write_amplification"] = s.WriteAmplification();
  return json;
}

}  // namespace lamella::tools
