#include "engine/listdb/type.h"

#include "base/concat.h"
#include "engine/listdb/listdb.h"
#include "engine/table_memory.h"

namespace lamella {

namespace {

Status CheckShare(const char* name, double share) {
  if (share >= 0 && share <= kCacheShareMax) return Status::OK();  // false of NaN
  return Status::InvalidArgument(Concat("listdb.", name, " is ", std::to_string(share),
                                        "; it is a share of the memory budget, 0 to 0.9"));
}

Status CheckListDbOptions(const Options& options) {
  const ListDbOptions& own = options.listdb;
  Status s = CheckShare("lookup_cache_share", own.lookup_cache_share);
  if (s.ok()) s = CheckShare("second_chance_share", own.second_chance_share);
  if (!s.ok()) return s;
  const double both = own.lookup_cache_share + own.second_chance_share;
  if (both > kCacheShareMax) {
    return Status::InvalidArgument(
        Concat("listdb.lookup_cache_share and listdb.second_chance_share are ",
               std::to_string(both), " together; at most 0.9 leaves room for MemTables"));
  }
  if (own.checkpoint_group_tables == 0) {
    return Status::InvalidArgument("listdb.checkpoint_group_tables is 0; it must be at least 1");
  }
  return Status::OK();
}

uint64_t ListDbFlags(const Options& options) {
  return (options.listdb.unified_log ? kListDbFlagUnifiedLog : 0) |
         (options.listdb.braided ? kListDbFlagBraided : 0);
}

std::unique_ptr<Engine> MakeListDb(const EngineContext& context) {
  return std::make_unique<ListDb>(context);
}

}  // namespace

const EngineType kListDbType = {.kind = EngineKind::kListDb,
                                .name = "listdb",
                                .check_options = CheckListDbOptions,
                                .flags = ListDbFlags,
                                .make = MakeListDb};

}  // namespace lamella
