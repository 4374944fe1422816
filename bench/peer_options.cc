#include "bench/peer_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lamella::bench {
namespace {

std::vector<std::string_view> NamesOf(StoreKind kind) {
  if (kind == StoreKind::kRocksDb)
    return {"files_in",    "direct_reads",       "level0_bytes", "level1_bytes",
            "table_bytes", "write_buffer_bytes", "cache_bytes",  "mmap_reads"};
  if (kind == StoreKind::kLevelDb) return {"files_in", "direct_reads", "table_bytes"};
  return {};
}

Status BadValue(std::string_view name, std::string_view value, std::string_view expected) {
  return Status::InvalidArgument(
      fmt::format("option {}: expected {}, found \"{}\"", name, expected, value));
}

Status ParseBool(std::string_view name, std::string_view value, bool* flag) {
  *flag = value == "true";
  return *flag || value == "false" ? Status::OK() : BadValue(name, value, "true or false");
}

Status ParseBytes(std::string_view name, std::string_view value, uint64_t* bytes) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *bytes);
  if (error != std::errc() || end != value.data() + value.size())
    return BadValue(name, value, "a number of bytes");
  return Status::OK();
}

}  // namespace

Status ParsePeerOptions(const StoreSpec& spec, PeerOptions* options) {
  *options = PeerOptions{};
  const std::vector<std::string_view> names = NamesOf(spec.kind);
  bool maps_by_default = true;
  bool is_said = false;
  for (const auto& [name, value] : spec.options) {
    if (std::ranges::find(names, name) == names.end()) {
      return Status::InvalidArgument(
          fmt::format("option {} is unknown; expected {} of {}", name,
                      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                      StoreKindName(spec.kind)));
    }
    Status s;
    if (name == "files_in") {
      options->files_in = value;
      maps_by_default = false;
      if (value.empty()) s = BadValue(name, value, "a directory");
    } else if (name == "direct_reads") {
      s = ParseBool(name, value, &options->direct_reads);
      maps_by_default = maps_by_default && !options->direct_reads;
    } else if (name == "mmap_reads") {
      s = ParseBool(name, value, &options->mmap_reads);
      is_said = true;
    } else {
      s = ParseBytes(name, value,
                     name == "level0_bytes"         ? &options->level0_bytes
                     : name == "level1_bytes"       ? &options->level1_bytes
                     : name == "write_buffer_bytes" ? &options->write_buffer_bytes
                     : name == "cache_bytes"        ? &options->cache_bytes
                                                    : &options->table_bytes);
    }
    if (!s.ok()) return s;
  }
  if (!is_said) options->mmap_reads = maps_by_default;
  if (options->mmap_reads && options->direct_reads)
    return Status::InvalidArgument(
        "options mmap_reads and direct_reads: expected one of them, found both");
  return Status::OK();
}

}  // namespace lamella::bench
