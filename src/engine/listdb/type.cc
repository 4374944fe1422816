#include "engine/listdb/type.h"

#include "engine/listdb/listdb.h"
#include "engine/table_memory.h"

namespace lamella {

namespace {

Status CheckListDbOptions(const Options& options) {
  const ListDbOptions& own = options.listdb;
  Status s = CheckCacheShares({{"listdb.lookup_cache_share", own.lookup_cache_share},
                               {"listdb.second_chance_share", own.second_chance_share}});
  if (!s.ok()) return s;
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
