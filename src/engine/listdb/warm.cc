// Filling the caches of a store that was just opened, in the background.

#include "engine/listdb/listdb.h"

namespace lamella {

// Tables that an earlier session left, and that are not merged yet, are searched in DRAM like those
// of this one, as far as there is memory.
void ListDb::BuildTrees() {
  const auto now = CurrentTables();
  for (const auto& bare : now->l0) {
    if (bare->tree != nullptr || !options_.l0_in_dram) continue;
    auto tree = std::make_shared<HeadTree>(pool_, context_.memory, prefixes());
    const uint64_t bytes = BuildTree(*pool_, *bare, tree.get());
    if (bytes == 0) continue;  // damage: a search will tell of it
    ChangeTables([&](PmTables* l0) {
      ChangeTable(l0, bare->state.id, [&](PmTable* table) {
        table->tree = tree;
        table->bytes = bytes;
      });
      memory_.TrimTrees(l0, CacheBytes());
    });
  }
}

// Both caches from one walk of L1, while nobody changes it. The lookup cache takes its elements
// only where no other table can have a newer version (LookupCache I2): the generation first, then
// whether all that was flushed is merged. A flush that begins later moves the generation, and what
// is put in from then on is refused.
void ListDb::WarmCaches() {
  if (prefixes() == nullptr) SetPrefixes(KeyPrefixes::Learn(l1_.SampleKeys()));
  l1_.second_chance()->Fit(prefixes());
  BuildTrees();
  const uint64_t generation = lookup_cache_.generation();
  const uint64_t merged = catalog_.Get().merged_sequence;
  const bool alone =
      flushed_through_.load(std::memory_order_acquire) <= merged && CurrentTables()->l0.empty();
  l1_.Warm(alone ? std::optional(generation) : std::nullopt);
}

}  // namespace lamella
