#include "testing/engines/traits.h"

namespace lamella::testing {
namespace {

// A few hundred records fill a segment, the tree, and level 1.
void MakeTreesSmall(Options* options) {
  options->labdb = {.tree_bytes = 64 << 10,
                    .segment_bytes = 64 << 10,
                    .level1_bytes = 64 << 10,
                    .table_bytes = 4 << 10,
                    .hot_updates = 4};
}

// The same of some megabytes.
void MakeTablesLarger(Options* options) {
  MakeTreesSmall(options);
  options->labdb.level1_bytes = 1 << 20;
  options->labdb.table_bytes = 256 << 10;
}

void VaryLabDb(Random* random, Options* options) {
  LabDbOptions* const own = &options->labdb;
  if (random->OneIn(2)) own->tree_bytes = uint64_t{64 << 10} << random->Uniform(4);
  if (random->OneIn(2)) own->level1_bytes = uint64_t{64 << 10} << random->Uniform(4);
  if (random->OneIn(2)) own->table_bytes = uint64_t{4 << 10} << random->Uniform(6);
  if (random->OneIn(2)) own->hot_updates = static_cast<uint32_t>(random->Uniform(6));
  VaryFiles(random, &options->files);
}

}  // namespace

EngineTraits LabDbTraits() {
  EngineTraits traits;
  traits.kind = EngineKind::kLabDb;
  traits.sets = {
      {.name = "SmallTrees", .apply = MakeTablesLarger},
      {.name = "NothingHot",
       .apply =
           [](Options* o) {
             MakeTablesLarger(o);
             o->labdb.hot_updates = 0;
           }},
  };
  traits.small = MakeTreesSmall;
  traits.takes_megabytes = [](Options* o) { o->labdb.segment_bytes = 2 << 20; };
  traits.uncached = [](Options* o) { o->files.block_cache_share = 0; };
  traits.values_in_files = true;
  traits.vary = VaryLabDb;
  traits.flushes_copy = true;
  traits.caches_in_dram = false;
  traits.refused = {
      {"labdb.tree_bytes", "1", "64 KiB to 1 TiB, or 0",
       [](Options* o) { o->labdb.tree_bytes = 1; }},
      {"labdb.segment_bytes", "100", "64 KiB to 64 MiB",
       [](Options* o) { o->labdb.segment_bytes = 100; }},
      {"labdb.segment_bytes", "16777217", "at most pool_bytes_max, 16777216",
       [](Options* o) {
         o->pool_bytes_max = 16 << 20;
         o->labdb.segment_bytes = (16 << 20) + 1;
       }},
      {"chunk_bytes", "268435456", "at most 128 MiB",
       [](Options* o) { o->chunk_bytes = 256 << 20; }},
      {"labdb.level1_bytes", "100", "64 KiB or more",
       [](Options* o) { o->labdb.level1_bytes = 100; }},
      {"labdb.table_bytes", "100", "4 KiB to 4 GiB",
       [](Options* o) { o->labdb.table_bytes = 100; }},
  };
  traits.telling = {{"labdb_adr", 3}, {"labdb_page", 1}};
  return traits;
}

}  // namespace lamella::testing
