#include "engine/zipperdb/type.h"

#include "base/concat.h"
#include "engine/table_memory.h"
#include "engine/zipperdb/zipperdb.h"

namespace lamella {

namespace {

constexpr uint64_t kLevel0BytesMin = 1 << 10;
constexpr uint32_t kFactorMin = 2;
constexpr uint32_t kFactorMax = 100;

Status CheckZipperDbOptions(const Options& options) {
  const ZipperDbOptions& own = options.zipperdb;
  if (own.levels_per_group < 1 || own.levels_per_group > kZipperDbLevelsMax) {
    return Status::InvalidArgument(Concat("zipperdb.levels_per_group is ", own.levels_per_group,
                                          "; it must be from 1 to ", kZipperDbLevelsMax));
  }
  if (own.level0_bytes != 0 && own.level0_bytes < kLevel0BytesMin) {
    return Status::InvalidArgument(Concat("zipperdb.level0_bytes is ", own.level0_bytes,
                                          "; it must be at least ", kLevel0BytesMin,
                                          ", or 0 for a quarter of the memory budget"));
  }
  if (own.level_factor < kFactorMin || own.level_factor > kFactorMax) {
    return Status::InvalidArgument(Concat("zipperdb.level_factor is ", own.level_factor,
                                          "; it must be from ", kFactorMin, " to ", kFactorMax));
  }
  return CheckCacheShares({{"zipperdb.guide_share", own.guide_share}});
}

uint64_t ZipperDbFlags(const Options&) { return 0; }

std::unique_ptr<Engine> MakeZipperDb(const EngineContext& context) {
  return std::make_unique<ZipperDb>(context);
}

}  // namespace

const EngineType kZipperDbType = {.kind = EngineKind::kZipperDb,
                                  .name = "zipperdb",
                                  .check_options = CheckZipperDbOptions,
                                  .flags = ZipperDbFlags,
                                  .make = MakeZipperDb};

}  // namespace lamella
