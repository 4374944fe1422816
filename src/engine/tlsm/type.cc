#include "engine/tlsm/type.h"

#include "base/concat.h"
#include "engine/file_tables.h"
#include "engine/pool_limit.h"
#include "engine/tlsm/tlsm.h"

namespace lamella {

namespace {

constexpr uint64_t kPoolChunksMin = 32;
constexpr uint64_t kTableBytesMin = 4 << 10;
constexpr uint64_t kTableBytesMax = 1ull << 30;
constexpr uint32_t kLevel0TablesMax = 32;
constexpr uint32_t kFirstFileLevelMax = 7;

Status CheckTlsmOptions(const Options& options) {
  const TlsmOptions& own = options.tlsm;
  const auto refuse = [](const auto&... what) { return Status::InvalidArgument(Concat(what...)); };
  if (own.level0_tables < 1 || own.level0_tables > kLevel0TablesMax) {
    return refuse("tlsm.level0_tables is ", own.level0_tables, "; it is 1 to ", kLevel0TablesMax,
                  ": a read looks at each of them");
  }
  if (own.level_factor < 2 || own.level_factor > 100)
    return refuse("tlsm.level_factor is ", own.level_factor, "; it is 2 to 100");
  if (own.table_bytes < kTableBytesMin || own.table_bytes > kTableBytesMax) {
    return refuse("tlsm.table_bytes is ", own.table_bytes, "; it is 4 KiB to 1 GiB (",
                  kTableBytesMin, " to ", kTableBytesMax, ")");
  }
  if (own.level1_bytes < own.table_bytes) {
    return refuse("tlsm.level1_bytes is ", own.level1_bytes,
                  "; it must hold a table at least, and tlsm.table_bytes is ", own.table_bytes);
  }
  if (!(own.rewrite_share >= 0 && own.rewrite_share <= 0.9)) {
    return refuse("tlsm.rewrite_share is ", own.rewrite_share,
                  "; it is the part of a buffer that lives, 0 to 0.9");
  }
  if (own.tiering > TlsmTiering::kLru) {
    return refuse("tlsm.tiering is ", static_cast<int>(own.tiering),
                  "; it is none (0), leveled (1) or lru (2)");
  }
  if (own.first_file_level < 1 || own.first_file_level > kFirstFileLevelMax) {
    return refuse("tlsm.first_file_level is ", own.first_file_level, "; it is 1 to ",
                  kFirstFileLevelMax, ": level 0 lies in the pool");
  }
  Status s = CheckFitsPool(options, "tlsm.table_bytes", own.table_bytes, TlsmOptions().table_bytes);
  return s.ok() ? CheckFileOptions(options.files) : s;
}

}  // namespace

const EngineType kTlsmType = {
    .kind = EngineKind::kTlsm,
    .name = "tlsm",
    .tables_in_files =
        [](const Options& options) { return options.tlsm.tiering != TlsmTiering::kNone; },
    .pool_chunks_min = kPoolChunksMin,
    .check_options = CheckTlsmOptions,
    .flags = [](const Options&) { return uint64_t{0}; },
    .make = [](const EngineContext& context) -> std::unique_ptr<Engine> {
      return std::make_unique<Tlsm>(context);
    }};

}  // namespace lamella
