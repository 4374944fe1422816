#include <cmath>

#include "engine/zipperdb/state.h"
#include "testing/engines/traits.h"

namespace lamella::testing {
namespace {

// Levels so small that there are several, and every kind of compaction between them; smaller yet
// where they are so already.
void SmallLevels(Options* options) {
  if (options->zipperdb.level0_bytes == 0) options->zipperdb.level0_bytes = 128 << 10;
  options->zipperdb.level_factor = 2;
}

void VaryZipperDb(Random* random, Options* options) {
  ZipperDbOptions* const own = &options->zipperdb;
  static constexpr uint32_t kGroups[] = {1, 2, 3, 16};
  if (random->OneIn(2)) own->levels_per_group = kGroups[random->Uniform(4)];
  if (random->OneIn(2)) own->level0_bytes = uint64_t{8 << 10} << random->Uniform(6);
  if (random->OneIn(2)) own->level_factor = static_cast<uint32_t>(2 + random->Uniform(4));
  // None, of a few hundred bytes (if the budget is small), or for everything.
  static constexpr double kGuideShares[] = {0, 0.0003, 0.001, 0.4};
  if (random->OneIn(2)) own->guide_share = kGuideShares[random->Uniform(4)];
}

}  // namespace

EngineTraits ZipperDbTraits() {
  EngineTraits traits;
  traits.kind = EngineKind::kZipperDb;
  traits.sets = {
      {.name = "OneLevelPerGroup",
       .apply =
           [](Options* o) {
             SmallLevels(o);
             o->zipperdb.levels_per_group = 1;
           },
       .other_layout = true},
      {.name = "SmallLevels",
       .apply =
           [](Options* o) {
             SmallLevels(o);
             o->verify_checksums = true;
           }},
      {.name = "OneGroupTwoParts",
       .apply =
           [](Options* o) {
             SmallLevels(o);
             o->zipperdb.levels_per_group = kZipperDbLevelsMax;
           },
       .parts = 2},
      {.name = "NoGuides",
       .apply =
           [](Options* o) {
             SmallLevels(o);
             o->zipperdb.guide_share = 0;
           }},
  };
  traits.small = [](Options* o) {
    o->zipperdb.level0_bytes = 1 << 10;
    o->zipperdb.level_factor = 2;
  };
  // Fewer merges in a history: each of their fences is cut at.
  traits.crash = [](Options* o) { o->zipperdb.level0_bytes = 4 << 10; };
  traits.uncached = [](Options* o) { o->zipperdb.guide_share = 0; };
  traits.tiny_caches = [](Options* o) { o->zipperdb.guide_share = 0.0005; };
  traits.vary = VaryZipperDb;
  traits.refused = {
      {"zipperdb.levels_per_group", "0", "from 1 to 16",
       [](Options* o) { o->zipperdb.levels_per_group = 0; }},
      {"zipperdb.levels_per_group", "17", "from 1 to 16",
       [](Options* o) { o->zipperdb.levels_per_group = 17; }},
      {"zipperdb.level0_bytes", "100", "at least 1024",
       [](Options* o) { o->zipperdb.level0_bytes = 100; }},
      {"zipperdb.level_factor", "1", "from 2 to 100",
       [](Options* o) { o->zipperdb.level_factor = 1; }},
      {"zipperdb.level_factor", "101", "from 2 to 100",
       [](Options* o) { o->zipperdb.level_factor = 101; }},
      {"zipperdb.guide_share", "nan", "0 to 0.9",
       [](Options* o) { o->zipperdb.guide_share = std::nan(""); }},
  };
  traits.gc_arena = {kZipperDbArena, kGcRuns};
  traits.flushes_copy = true;
  traits.telling = {{"zipperdb_adr", 1}, {"zipperdb_adr", 5}, {"zipperdb_page", 1}};
  return traits;
}

}  // namespace lamella::testing
