#include "engine/lightkv/type.h"

#include <utility>

#include "base/concat.h"
#include "engine/file_tables.h"
#include "engine/lightkv/lightkv.h"
#include "engine/pool_limit.h"

namespace lamella {

namespace {

constexpr uint64_t kSegmentBytesMin = 4 << 10;
constexpr uint64_t kSegmentBytesMax = 1ull << 30;
constexpr uint32_t kLeafNodesMax = 1 << 16;
constexpr uint32_t kCompactionSizeMax = 16;

Status CheckLightKvOptions(const Options& options) {
  const LightKvOptions& own = options.lightkv;
  const auto refuse = [](const auto&... what) { return Status::InvalidArgument(Concat(what...)); };
  if (own.segment_bytes < kSegmentBytesMin || own.segment_bytes > kSegmentBytesMax) {
    return refuse("lightkv.segment_bytes is ", own.segment_bytes, "; it is 4 KiB to 1 GiB (",
                  kSegmentBytesMin, " to ", kSegmentBytesMax, ")");
  }
  if (own.leaf_nodes_max < 1 || own.leaf_nodes_max > kLeafNodesMax) {
    return refuse("lightkv.leaf_nodes_max is ", own.leaf_nodes_max, "; it is 1 to ", kLeafNodesMax);
  }
  for (const auto& [name, size] : {std::pair{"compaction_size", own.compaction_size},
                                   std::pair{"recompaction_size", own.recompaction_size}}) {
    if (size >= 2 && size <= kCompactionSizeMax) continue;
    return refuse("lightkv.", name, " is ", size, "; it is 2 to ", kCompactionSizeMax,
                  " tables of a partition");
  }
  Status s = CheckFitsPool(options, "lightkv.segment_bytes", own.segment_bytes,
                           LightKvOptions().segment_bytes);
  return s.ok() ? CheckFileOptions(options.files) : s;
}

}  // namespace

const EngineType kLightKvType = {
    .kind = EngineKind::kLightKv,
    .name = "lightkv",
    .tables_in_files = [](const Options&) { return true; },
    .check_options = CheckLightKvOptions,
    .flags = [](const Options&) { return uint64_t{0}; },
    .make = [](const EngineContext& context) -> std::unique_ptr<Engine> {
      return std::make_unique<LightKv>(context);
    }};

}  // namespace lamella
