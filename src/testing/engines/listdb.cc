#include "engine/listdb/listdb.h"

#include <cmath>

#include "testing/engines/traits.h"

namespace lamella::testing {
namespace {

void VaryListDb(Random* random, Options* options) {
  ListDbOptions* const own = &options->listdb;
  if (random->OneIn(3)) own->lookup_cache_share = random->OneIn(2) ? 0 : 0.4;
  // None, of a few hundred bytes (if the budget is small), or for everything.
  static constexpr double kSecondChanceShares[] = {0, 0.0003, 0.001, 0.4};
  if (random->OneIn(2)) own->second_chance_share = kSecondChanceShares[random->Uniform(4)];
  if (random->OneIn(3))
    own->checkpoint_group_tables = static_cast<uint32_t>(1 + random->Uniform(6));
  if (random->OneIn(4)) own->zipper_compaction = !own->zipper_compaction;
}

}  // namespace

EngineTraits ListDbTraits() {
  EngineTraits traits;
  traits.kind = EngineKind::kListDb;
  traits.sets = {
      {.name = "PlainLog",
       .apply = [](Options* o) { o->listdb.unified_log = false; },
       .other_layout = true,
       .gives_space_back = false},
      {.name = "NoZipper",
       .apply = [](Options* o) { o->listdb.zipper_compaction = false; },
       .merges = false},
      {.name = "L0InPool", .apply = [](Options* o) { o->listdb.l0_in_dram = false; }},
      {.name = "NotBraidedTwoParts",
       .apply = [](Options* o) { o->listdb.braided = false; },
       .parts = 2},
      {.name = "NoCaches",
       .apply =
           [](Options* o) { o->listdb.lookup_cache_share = o->listdb.second_chance_share = 0; }},
  };
  traits.small = [](Options* o) { o->listdb.checkpoint_group_tables = 1; };
  traits.crash = [](Options* o) { o->listdb.checkpoint_group_tables = 2; };  // as a group
  traits.uncached = [](Options* o) { o->listdb.second_chance_share = 0; };
  traits.tiny_caches = [](Options* o) { o->listdb.second_chance_share = 0.0005; };
  traits.keeps_tables = [](Options* o) { o->listdb.zipper_compaction = false; };
  traits.vary = VaryListDb;
  traits.refused = {
      {"listdb.lookup_cache_share", "-0.1", "0 to 0.9",
       [](Options* o) { o->listdb.lookup_cache_share = -0.1; }},
      {"listdb.lookup_cache_share", "1.5", "0 to 0.9",
       [](Options* o) { o->listdb.lookup_cache_share = 1.5; }},
      {"listdb.second_chance_share", "nan", "0 to 0.9",
       [](Options* o) { o->listdb.second_chance_share = std::nan(""); }},
      {"listdb.second_chance_share", "1.2", "at most 0.9",
       [](Options* o) { o->listdb.lookup_cache_share = o->listdb.second_chance_share = 0.6; }},
      {"listdb.checkpoint_group_tables", "0", "at least 1",
       [](Options* o) { o->listdb.checkpoint_group_tables = 0; }},
  };
  traits.gc_arena = {kListDbArena, kGcArena};
  traits.telling = {
      {"listdb_adr", 1}, {"listdb_adr", 5}, {"listdb_plainLog_adr", 1}, {"listdb_page", 1}};
  return traits;
}

}  // namespace lamella::testing
