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
  if (name == "tlsm") return MediaProfile{.read_ns = 100, .write_ns = 450};
  if (name == "pcm") return MediaProfile{.read_ns = 100, .write_ns = 400};
  if (name == "optane") {
    return MediaProfile{
        .read_ns = 300, .write_ns = 100, .write_gbps = 2.0, .read_gbps = 6.5, .block_bytes = 256};
  }
  if (name == "cxl") return MediaProfile{.read_ns = 250, .write_ns = 250};
  return std::nullopt;
}

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
