#include "lamella/options.h"

#include <array>
#include <utility>

#include "lamella/stats.h"

namespace lamella {
namespace {

constexpr std::array<std::pair<EngineKind, std::string_view>, 8> kEngineNames = {{
    {EngineKind::kListDb, "listdb"},
    {EngineKind::kZipperDb, "zipperdb"},
    {EngineKind::kTlsm, "tlsm"},
    {EngineKind::kNvlsm, "nvlsm"},
    {EngineKind::kNvlsmLeveled, "nvlsm-leveled"},
    {EngineKind::kNvlsmFragmented, "nvlsm-fragmented"},
    {EngineKind::kLightKv, "lightkv"},
    {EngineKind::kLabDb, "labdb"},
}};

}  // namespace

std::string_view EngineName(EngineKind kind) {
  for (const auto& [known, name] : kEngineNames) {
    if (known == kind) return name;
  }
  return "unknown";
}

std::optional<EngineKind> EngineFromName(std::string_view name) {
  for (const auto& [kind, known] : kEngineNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

std::optional<MediaProfile> MediaProfile::FromName(std::string_view name) {
  if (name == "dram") return MediaProfile{};
  // Both papers flush with clflush, which writes one line after another: each takes the latency.
  if (name == "tlsm") return MediaProfile{.read_ns = 100, .write_line_ns = 450};
  if (name == "pcm") return MediaProfile{.read_ns = 100, .write_line_ns = 400};
  if (name == "optane") {
    return MediaProfile{.read_ns = 300, .write_ns = 100, .write_gbps = 2.0, .read_gbps = 6.5};
  }
  if (name == "cxl") return MediaProfile{.read_ns = 250, .write_ns = 250};
  return std::nullopt;
}

namespace {

constexpr StatsCounter kStatsCounters[] = {
    {"user_bytes_written", &Stats::user_bytes_written},
    {"puts", &Stats::puts},
    {"deletes", &Stats::deletes},
    {"batches", &Stats::batches},
    {"gets", &Stats::gets},
    {"gets_found", &Stats::gets_found},
    {"iterators", &Stats::iterators},
    {"stall_ns", &Stats::stall_ns},
    {"stall_count", &Stats::stall_count},
    {"stall_ns_max", &Stats::stall_ns_max},
    {"flushes", &Stats::flushes},
    {"flushed_records", &Stats::flushed_records},
    {"flush_ns", &Stats::flush_ns},
    {"compactions", &Stats::compactions},
    {"gc_runs", &Stats::gc_runs},
    {"gc_bytes_relocated", &Stats::gc_bytes_relocated},
    {"checkpoints", &Stats::checkpoints},
    {"recovery_us", &Stats::recovery_us},
    {"recovery_index_us", &Stats::recovery_index_us},
    {"recovery_log_us", &Stats::recovery_log_us},
    {"recovered_records", &Stats::recovered_records},
    {"live_bytes", &Stats::live_bytes},
    {"pool_bytes", &Stats::pool_bytes},
    {"pool_bytes_used", &Stats::pool_bytes_used},
    {"file_bytes", &Stats::file_bytes},
    {"file_bytes_written", &Stats::file_bytes_written},
    {"dram_bytes", &Stats::dram_bytes},
    {"sequence", &Stats::sequence},
    {"snapshots", &Stats::snapshots},
    {"read_bytes", &Stats::read_bytes},
    {"remote_hops", &Stats::remote_hops},
    {"local_hops", &Stats::local_hops},
};
// The bytes of the members themselves. NOLINTBEGIN(bugprone-sizeof-container)
static_assert(sizeof(Stats) == sizeof(Stats::persist) + sizeof(Stats::sources) +
                                   sizeof(Stats::levels) +
                                   sizeof(uint64_t) * std::size(kStatsCounters),
              "a counter of Stats is missing in kStatsCounters");
// NOLINTEND(bugprone-sizeof-container)

}  // namespace

std::span<const StatsCounter> StatsCounters() { return kStatsCounters; }

std::string_view WriteCauseName(WriteCause cause) {
  switch (cause) {
    case WriteCause::kLog:
      return "log";
    case WriteCause::kFlush:
      return "flush";
    case WriteCause::kCompaction:
      return "compaction";
    case WriteCause::kIndex:
      return "index";
    case WriteCause::kCatalog:
      return "catalog";
    case WriteCause::kGc:
      return "gc";
    case WriteCause::kCount:
      break;
  }
  return "unknown";
}

}  // namespace lamella
