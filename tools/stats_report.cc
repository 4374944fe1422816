#include "tools/stats_report.h"

#include <fmt/format.h>

#include "tools/units.h"

namespace lamella::tools {
namespace {

struct Field {
  const char* name;
  uint64_t Stats::* value;
};

// Every counter of Stats, in its order.
constexpr Field kFields[] = {
    {"user_bytes_written", &Stats::user_bytes_written},
    {"puts", &Stats::puts},
    {"deletes", &Stats::deletes},
    {"batches", &Stats::batches},
    {"gets", &Stats::gets},
    {"gets_found", &Stats::gets_found},
    {"gets_memtable", &Stats::gets_memtable},
    {"gets_lookup_cache", &Stats::gets_lookup_cache},
    {"gets_l0", &Stats::gets_l0},
    {"gets_l1", &Stats::gets_l1},
    {"iterators", &Stats::iterators},
    {"stall_ns", &Stats::stall_ns},
    {"stall_count", &Stats::stall_count},
    {"stall_ns_max", &Stats::stall_ns_max},
    {"flushes", &Stats::flushes},
    {"compactions", &Stats::compactions},
    {"gc_runs", &Stats::gc_runs},
    {"gc_bytes_relocated", &Stats::gc_bytes_relocated},
    {"checkpoints", &Stats::checkpoints},
    {"recovery_us", &Stats::recovery_us},
    {"recovered_records", &Stats::recovered_records},
    {"l0_tables", &Stats::l0_tables},
    {"l0_records", &Stats::l0_records},
    {"l1_records", &Stats::l1_records},
    {"live_bytes", &Stats::live_bytes},
    {"pool_bytes", &Stats::pool_bytes},
    {"pool_bytes_used", &Stats::pool_bytes_used},
    {"dram_bytes", &Stats::dram_bytes},
    {"sequence", &Stats::sequence},
    {"snapshots", &Stats::snapshots},
    {"remote_hops", &Stats::remote_hops},
    {"local_hops", &Stats::local_hops},
};
static_assert(sizeof(Stats) == sizeof(Stats::persist) + sizeof(uint64_t) * std::size(kFields),
              "a counter of Stats is missing in kFields");

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
  AppendRow(&text, "dram", FormatBytes(s.dram_bytes));
  AppendRow(
      &text, "level 0",
      fmt::format("{} records in {} tables", FormatCount(s.l0_records), FormatCount(s.l0_tables)));
  AppendRow(&text, "level 1", fmt::format("{} records", FormatCount(s.l1_records)));
  AppendRow(&text, "sequence", FormatCount(s.sequence));
  AppendRow(&text, "snapshots", FormatCount(s.snapshots));
  AppendRow(&text, "opened in",
            fmt::format("{}, {} log records sorted anew", FormatNanoseconds(s.recovery_us * 1000),
                        FormatCount(s.recovered_records)));
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
  AppendRow(&text, "answered by",
            fmt::format("memtable {}, lookup cache {}, level 0 {}, level 1 {}",
                        FormatCount(s.gets_memtable), FormatCount(s.gets_lookup_cache),
                        FormatCount(s.gets_l0), FormatCount(s.gets_l1)));
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
  for (const Field& field : kFields) json[field.name] = s.*field.value;
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
