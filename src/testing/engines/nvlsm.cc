#include "testing/engines/traits.h"

namespace lamella::testing {
namespace {

// A few dozen small records fill C1, C2 and C3, and trees are full after a few flushes.
void Small(Options* o) {
  o->nvlsm.max_floor = 3;
  o->nvlsm.floor_bytes = 1 << 10;
  o->nvlsm.c1_runs = 1;
  o->nvlsm.c2_bytes = 1 << 10;
  o->nvlsm.component_factor = 4;
}

// Fewer trees, and so fewer compactions in a history: each of their fences is cut at.
void MakeFewer(Options* o) {
  o->nvlsm.floor_bytes = 4 << 10;
  o->nvlsm.c2_bytes = 4 << 10;
}

// The same of some megabytes.
void MakeManyComponents(Options* o) {
  o->nvlsm.max_floor = 3;
  o->nvlsm.floor_bytes = 256 << 10;
  o->nvlsm.c1_runs = 2;
  o->nvlsm.c2_bytes = 1 << 20;
  o->nvlsm.component_factor = 3;
}

void Vary(Random* random, Options* options) {
  NvlsmOptions* const own = &options->nvlsm;
  if (random->OneIn(3)) own->max_floor = static_cast<uint32_t>(1 + random->Uniform(12));
  if (random->OneIn(3)) own->floor_bytes = uint64_t{1} << (10 + random->Uniform(12));
  if (random->OneIn(3)) own->c1_runs = static_cast<uint32_t>(1 + random->Uniform(4));
  if (random->OneIn(4)) own->filter_bits = random->OneIn(2) ? 0 : 10;
  if (random->OneIn(4)) own->c2_bytes = random->OneIn(2) ? 0 : 32 << 10;
}

EngineTraits Traits(EngineKind kind, const std::string& name) {
  EngineTraits traits;
  traits.kind = kind;
  traits.merges_copy = true;
  traits.sets = {{.name = "ManyComponents", .apply = MakeManyComponents}};
  traits.small = Small;
  traits.crash = MakeFewer;
  traits.keeps_tables = [](Options* o) { o->nvlsm.c1_runs = 64; };
  traits.vary = Vary;
  traits.caches_in_dram = false;
  traits.refused = {
      {"nvlsm.max_floor", "0", "1 to 255", [](Options* o) { o->nvlsm.max_floor = 0; }},
      {"nvlsm.max_floor", "256", "1 to 255", [](Options* o) { o->nvlsm.max_floor = 256; }},
      {"nvlsm.floor_bytes", "1023", "1024 to 1073741824",
       [](Options* o) { o->nvlsm.floor_bytes = 1023; }},
      {"nvlsm.floor_bytes", "16777217", "at most pool_bytes_max, 16777216",
       [](Options* o) {
         o->pool_bytes_max = 16 << 20;
         o->nvlsm.floor_bytes = (16 << 20) + 1;
       }},
      {"nvlsm.c1_runs", "0", "1 to 64", [](Options* o) { o->nvlsm.c1_runs = 0; }},
      {"nvlsm.component_factor", "1", "2 to 100",
       [](Options* o) { o->nvlsm.component_factor = 1; }},
      {"nvlsm.filter_bits", "65", "0 to 64", [](Options* o) { o->nvlsm.filter_bits = 65; }},
  };
  traits.telling = {{name + "_adr", 3}, {name + "_page", 0}};
  return traits;
}

}  // namespace

EngineTraits NvlsmTraits() {
  EngineTraits traits = Traits(EngineKind::kNvlsm, "nvlsm");
  traits.sets.push_back({.name = "TwoFloorsNoFilter", .apply = [](Options* o) {
                           o->nvlsm.max_floor = 2;
                           o->nvlsm.filter_bits = 0;
                         }});
  return traits;
}

EngineTraits NvlsmLeveledTraits() { return Traits(EngineKind::kNvlsmLeveled, "nvlsmLeveled"); }

EngineTraits NvlsmFragmentedTraits() {
  return Traits(EngineKind::kNvlsmFragmented, "nvlsmFragmented");
}

}  // namespace lamella::testing
