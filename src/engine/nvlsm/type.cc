#include "engine/nvlsm/type.h"

#include "base/concat.h"
#include "engine/nvlsm/nvlsm.h"
#include "engine/pool_limit.h"

namespace lamella {

namespace {

constexpr uint64_t kPoolChunksMin = 40;
constexpr uint32_t kFilterBitsMax = 64;
constexpr uint64_t kFloorBytesMin = 1 << 10;
constexpr uint64_t kFloorBytesMax = uint64_t{1} << 30;

Status CheckRange(const char* name, uint64_t value, uint64_t least, uint64_t most) {
  if (least <= value && value <= most) return Status::OK();
  return Status::InvalidArgument(
      Concat("nvlsm.", name, " is ", value, "; it must be ", least, " to ", most));
}

Status CheckNvlsmOptions(const Options& options) {
  const NvlsmOptions& own = options.nvlsm;
  Status s = CheckRange("max_floor", own.max_floor, 1, kFloorsMax);
  if (s.ok()) s = CheckRange("floor_bytes", own.floor_bytes, kFloorBytesMin, kFloorBytesMax);
  if (s.ok())
    s = CheckFitsPool(options, "nvlsm.floor_bytes", own.floor_bytes, NvlsmOptions().floor_bytes);
  if (s.ok()) s = CheckRange("c1_runs", own.c1_runs, 1, 64);
  if (s.ok()) s = CheckRange("component_factor", own.component_factor, 2, 100);
  if (s.ok()) s = CheckRange("filter_bits", own.filter_bits, 0, kFilterBitsMax);
  return s;
}

// What is in the pool of each of the three does not say which it is, and may be opened as that
// alone: guards have no links.
uint64_t NoFlags(const Options&) { return 0; }

std::unique_ptr<Engine> MakeNvlsm(const EngineContext& context) {
  return std::make_unique<Nvlsm>(
      context, NvlsmScheme{.max_floor = context.options->nvlsm.max_floor, .linked = true});
}

std::unique_ptr<Engine> MakeNvlsmLeveled(const EngineContext& context) {
  return std::make_unique<Nvlsm>(context, NvlsmScheme{.max_floor = 1, .linked = true});
}

std::unique_ptr<Engine> MakeNvlsmFragmented(const EngineContext& context) {
  return std::make_unique<Nvlsm>(
      context, NvlsmScheme{.max_floor = context.options->nvlsm.max_floor, .linked = false});
}

}  // namespace

const EngineType kNvlsmType = {.kind = EngineKind::kNvlsm,
                               .name = "nvlsm",
                               .pool_chunks_min = kPoolChunksMin,
                               .check_options = CheckNvlsmOptions,
                               .flags = NoFlags,
                               .make = MakeNvlsm};

const EngineType kNvlsmLeveledType = {.kind = EngineKind::kNvlsmLeveled,
                                      .name = "nvlsm-leveled",
                                      .pool_chunks_min = kPoolChunksMin,
                                      .check_options = CheckNvlsmOptions,
                                      .flags = NoFlags,
                                      .make = MakeNvlsmLeveled};

const EngineType kNvlsmFragmentedType = {.kind = EngineKind::kNvlsmFragmented,
                                         .name = "nvlsm-fragmented",
                                         .pool_chunks_min = kPoolChunksMin,
                                         .check_options = CheckNvlsmOptions,
                                         .flags = NoFlags,
                                         .make = MakeNvlsmFragmented};

}  // namespace lamella
