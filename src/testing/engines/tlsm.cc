#include <cmath>

#include "testing/engines/traits.h"

namespace lamella::testing {
namespace {

// Several levels of several tables each, of a few hundred records.
void MakeSmall(Options* options) {
  TlsmOptions* const own = &options->tlsm;
  own->level0_tables = 2;
  own->table_bytes = 4 << 10;
  own->level1_bytes = 4 << 10;
  own->level_factor = 2;
}

// The same of some megabytes.
void MakeManyLevels(Options* options) {
  TlsmOptions* const own = &options->tlsm;
  own->level0_tables = 2;
  own->table_bytes = 512 << 10;
  own->level1_bytes = 1 << 20;
  own->level_factor = 3;
}

void VaryTlsm(Random* random, Options* options) {
  TlsmOptions* const own = &options->tlsm;
  if (random->OneIn(3)) own->level0_tables = static_cast<uint32_t>(1 + random->Uniform(8));
  if (random->OneIn(2)) {
    own->table_bytes = uint64_t{4 << 10} << random->Uniform(8);
    own->level1_bytes = own->table_bytes << random->Uniform(3);
  }
  if (random->OneIn(2)) own->level_factor = static_cast<uint32_t>(2 + random->Uniform(9));
  static constexpr double kRewriteShares[] = {0, 0.25, 0.6, 0.9};
  if (random->OneIn(2)) own->rewrite_share = kRewriteShares[random->Uniform(4)];
}

}  // namespace

EngineTraits TlsmTraits() {
  EngineTraits traits;
  traits.kind = EngineKind::kTlsm;
  traits.sets = {
      {.name = "ManyLevels", .apply = MakeManyLevels},
      {.name = "NoRewriting", .apply = [](Options* o) { o->tlsm.rewrite_share = 0; }},
  };
  traits.small = MakeSmall;
  traits.keeps_tables = [](Options* o) { o->tlsm.level0_tables = 32; };
  traits.vary = VaryTlsm;
  traits.caches_in_dram = false;
  traits.refused = {
      {"tlsm.level0_tables", "0", "1 to 32", [](Options* o) { o->tlsm.level0_tables = 0; }},
      {"tlsm.level0_tables", "33", "1 to 32", [](Options* o) { o->tlsm.level0_tables = 33; }},
      {"tlsm.level_factor", "1", "2 to 100", [](Options* o) { o->tlsm.level_factor = 1; }},
      {"tlsm.table_bytes", "1000", "4 KiB to 1 GiB",
       [](Options* o) { o->tlsm.table_bytes = 1000; }},
      {"tlsm.level1_bytes", "65536", "a table at least",
       [](Options* o) { o->tlsm.level1_bytes = 65536; }},
      {"tlsm.rewrite_share", "nan", "0 to 0.9",
       [](Options* o) { o->tlsm.rewrite_share = std::nan(""); }},
      {"tlsm.rewrite_share", "1", "0 to 0.9", [](Options* o) { o->tlsm.rewrite_share = 1; }},
  };
  traits.telling = {{"tlsm_adr", 3}, {"tlsm_page", 0}};
  return traits;
}

}  // namespace lamella::testing
