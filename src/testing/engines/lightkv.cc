#include "testing/engines/traits.h"

namespace lamella::testing {
namespace {

// Several partitions, and tables of several weights, of a few hundred records.
void MakeSegmentsSmall(Options* options) {
  options->lightkv = {
      .segment_bytes = 4 << 10, .leaf_nodes_max = 64, .compaction_size = 2, .recompaction_size = 2};
  options->files.compression = FileCompression::kLz4;
}
void MakeOnePartition(Options* options) { options->lightkv.leaf_nodes_max = 1; }

void VaryLightKv(Random* random, Options* options) {
  LightKvOptions* const own = &options->lightkv;
  if (random->OneIn(2)) own->segment_bytes = uint64_t{4 << 10} << random->Uniform(6);
  if (random->OneIn(2)) own->leaf_nodes_max = 1u << random->Uniform(8);
  if (random->OneIn(2)) own->compaction_size = static_cast<uint32_t>(2 + random->Uniform(4));
  if (random->OneIn(2)) own->recompaction_size = static_cast<uint32_t>(2 + random->Uniform(15));
  VaryFiles(random, &options->files);
}

}  // namespace

EngineTraits LightKvTraits() {
  EngineTraits traits;
  traits.kind = EngineKind::kLightKv;
  traits.sets = {
      {.name = "SmallSegments", .apply = MakeSegmentsSmall},
      {.name = "OnePartition", .apply = MakeOnePartition},
  };
  traits.small = MakeSegmentsSmall;
  traits.uncached = [](Options* o) { o->files.block_cache_share = 0; };
  traits.vary = VaryLightKv;
  traits.caches_in_dram = false;
  traits.refused = {
      {"lightkv.segment_bytes", "100", "4 KiB to 1 GiB",
       [](Options* o) { o->lightkv.segment_bytes = 100; }},
      {"lightkv.segment_bytes", "16777217", "at most pool_bytes_max, 16777216",
       [](Options* o) {
         o->pool_bytes_max = 16 << 20;
         o->lightkv.segment_bytes = (16 << 20) + 1;
       }},
      {"lightkv.leaf_nodes_max", "0", "1 to 65536",
       [](Options* o) { o->lightkv.leaf_nodes_max = 0; }},
      {"lightkv.leaf_nodes_max", "65537", "1 to 65536",
       [](Options* o) { o->lightkv.leaf_nodes_max = 65537; }},
      {"lightkv.compaction_size", "1", "2 to 16",
       [](Options* o) { o->lightkv.compaction_size = 1; }},
      {"lightkv.compaction_size", "17", "2 to 16",
       [](Options* o) { o->lightkv.compaction_size = 17; }},
      {"lightkv.recompaction_size", "1", "2 to 16",
       [](Options* o) { o->lightkv.recompaction_size = 1; }},
      {"lightkv.recompaction_size", "17", "2 to 16",
       [](Options* o) { o->lightkv.recompaction_size = 17; }},
      {"files.block_cache_share", "0.91", "0 to 0.9",
       [](Options* o) { o->files.block_cache_share = 0.91; }},
  };
  return traits;
}

}  // namespace lamella::testing
