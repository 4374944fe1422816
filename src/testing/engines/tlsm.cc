#include <algorithm>
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

// Several tables of a level of a megabyte.
void MakeTablesSmall(TlsmOptions* own) {
  own->table_bytes = std::min<uint64_t>(own->table_bytes, 256 << 10);
  own->level1_bytes = std::min<uint64_t>(own->level1_bytes, 512 << 10);
  own->level_factor = std::min<uint32_t>(own->level_factor, 3);
}

// All but level 0 in files.
void TierByLevel(Options* options) {
  MakeTablesSmall(&options->tlsm);
  options->tlsm.tiering = TlsmTiering::kLeveled;
  options->tlsm.first_file_level = 1;
}

// Some tables of each level in the pool and some in files.
void TierByUse(Options* options) {
  MakeTablesSmall(&options->tlsm);
  options->tlsm.tiering = TlsmTiering::kLru;
  options->tlsm.pool_table_bytes = 24 << 10;
  options->files.compression = FileCompression::kZstd;
}

void VaryTlsm(Random* random, Options* options) {
  TlsmOptions* const own = &options->tlsm;
  if (random->OneIn(3)) own->level0_tables = static_cast<uint32_t>(1 + random->Uniform(8));
  if (random->OneIn(2)) {
    own->table_bytes = uint64_t{4 << 10} << random->Uniform(8);
    own->level1_bytes = own->table_bytes << random->Uniform(3);
  }
  if (random->OneIn(2)) own->level_factor = static_cast<uint32_t>(2 + random->Uniform(9));
  if (random->OneIn(2)) {
    own->tiering = static_cast<TlsmTiering>(random->Uniform(3));
    own->first_file_level = static_cast<uint32_t>(1 + random->Uniform(4));
    own->pool_table_bytes = uint64_t{4 << 10} << random->Uniform(10);
  }
  static constexpr double kRewriteShares[] = {0, 0.25, 0.6, 0.9};
  if (random->OneIn(2)) own->rewrite_share = kRewriteShares[random->Uniform(4)];
  VaryFiles(random, &options->files);
}

}  // namespace

EngineTraits TlsmTraits() {
  EngineTraits traits;
  traits.kind = EngineKind::kTlsm;
  traits.sets = {
      {.name = "ManyLevels", .apply = MakeManyLevels},
      {.name = "TierByLevel", .apply = TierByLevel, .other_layout = true},
      {.name = "TierByUse", .apply = TierByUse, .other_layout = true},
      {.name = "NoRewriting", .apply = [](Options* o) { o->tlsm.rewrite_share = 0; }},
  };
  traits.small = MakeSmall;
  traits.keeps_tables = [](Options* o) { o->tlsm.level0_tables = 32; };
  traits.files_soon = [](Options* o) { o->tlsm.pool_table_bytes = 1; };
  traits.vary = VaryTlsm;
  traits.caches_in_dram = false;
  traits.refused = {
      {"tlsm.level0_tables", "0", "1 to 32", [](Options* o) { o->tlsm.level0_tables = 0; }},
      {"tlsm.level0_tables", "33", "1 to 32", [](Options* o) { o->tlsm.level0_tables = 33; }},
      {"tlsm.level_factor", "1", "2 to 100", [](Options* o) { o->tlsm.level_factor = 1; }},
      {"tlsm.table_bytes", "1000", "4 KiB to 1 GiB",
       [](Options* o) { o->tlsm.table_bytes = 1000; }},
      {"tlsm.table_bytes", "16777217", "at most pool_bytes_max, 16777216",
       [](Options* o) {
         o->pool_bytes_max = 16 << 20;
         o->tlsm.table_bytes = (16 << 20) + 1;
       }},
      {"tlsm.level1_bytes", "65536", "a table at least",
       [](Options* o) { o->tlsm.level1_bytes = 65536; }},
      {"tlsm.tiering", "3", "leveled (1)",
       [](Options* o) { o->tlsm.tiering = static_cast<TlsmTiering>(3); }},
      {"tlsm.first_file_level", "0", "1 to 7", [](Options* o) { o->tlsm.first_file_level = 0; }},
      {"tlsm.first_file_level", "8", "1 to 7", [](Options* o) { o->tlsm.first_file_level = 8; }},
      {"files.block_cache_share", "0.91", "0 to 0.9",
       [](Options* o) { o->files.block_cache_share = 0.91; }},
      {"files.compression", "3", "LZ4 (1)",
       [](Options* o) { o->files.compression = static_cast<FileCompression>(3); }},
      {"tlsm.rewrite_share", "nan", "0 to 0.9",
       [](Options* o) { o->tlsm.rewrite_share = std::nan(""); }},
      {"tlsm.rewrite_share", "1", "0 to 0.9", [](Options* o) { o->tlsm.rewrite_share = 1; }},
  };
  traits.telling = {{"tlsm_adr", 3}, {"tlsm_page", 0}};
  return traits;
}

}  // namespace lamella::testing
