#include "engine/labdb/type.h"

#include "base/concat.h"
#include "engine/file_tables.h"
#include "engine/labdb/labdb.h"
#include "engine/pool_limit.h"
#include "log/value_address.h"

namespace lamella {

namespace {

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kGiB = 1 << 30;

Status CheckLabDbOptions(const Options& options) {
  const LabDbOptions& own = options.labdb;
  const auto check = [](const char* name, uint64_t given, uint64_t least, uint64_t most,
                        const char* range) {
    if (given >= least && given <= most) return Status::OK();
    return Status::InvalidArgument(
        Concat("labdb.", name, " is ", given, "; it is ", range, " (", least, " to ", most, ")"));
  };
  Status s;
  if (own.tree_bytes != 0)
    s = check("tree_bytes", own.tree_bytes, 64 * kKiB, kKiB * kGiB, "64 KiB to 1 TiB, or 0");
  if (s.ok()) {
    s = check("segment_bytes", own.segment_bytes, 64 * kKiB, kGiB / 16, "64 KiB to 64 MiB");
  }
  // A segment has a chunk at least.
  if (s.ok() && options.chunk_bytes > kSegmentBytesMax) {
    s = Status::InvalidArgument(Concat("chunk_bytes is ", options.chunk_bytes,
                                       "; with labdb it is at most ", kSegmentBytesMax >> 20,
                                       " MiB (", kSegmentBytesMax, ")"));
  }
  if (s.ok()) {
    s = CheckFitsPool(options, "labdb.segment_bytes", own.segment_bytes,
                      LabDbOptions().segment_bytes);
  }
  if (s.ok()) {
    s = check("level1_bytes", own.level1_bytes, 64 * kKiB, UINT64_MAX / 2, "64 KiB or more");
  }
  if (s.ok()) s = check("table_bytes", own.table_bytes, 4 * kKiB, 4 * kGiB, "4 KiB to 4 GiB");
  return s.ok() ? CheckFileOptions(options.files) : s;
}

}  // namespace

const EngineType kLabDbType = {.kind = EngineKind::kLabDb,
                               .name = "labdb",
                               .tables_in_files = [](const Options&) { return true; },
                               .pool_chunks_min = 32,
                               .check_options = CheckLabDbOptions,
                               .flags = [](const Options&) { return uint64_t{0}; },
                               .make = [](const EngineContext& context) -> std::unique_ptr<Engine> {
                                 return std::make_unique<LabDb>(context);
                               }};

}  // namespace lamella
