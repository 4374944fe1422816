// Filling the caches of a store that was just opened, in the background.

#include "base/hash.h"
#include "engine/listdb/listdb.h"
#include "index/lookup_cache_filler.h"

namespace lamella {

namespace {

// Puts the newest version of each key into the lookup cache.
class LookupVisitor : public WalkVisitor {
 public:
  LookupVisitor(const Pool* pool, LookupCache* cache, uint64_t generation)
      : pool_(pool), filler_(cache, PutFound{cache, generation}) {}
  void OnNeighbours(PmPtr before, PmPtr place) override {
    const Record* record = pool_->At<Record>(place);
    if (before && pool_->At<Record>(before)->key() == record->key()) return;  // an older version
    filler_.Add(Hash64(record->key()), place);
  }
  bool OnElement(PmPtr, bool) override { return true; }

 private:
  struct PutFound {
    LookupCache* cache;
    uint64_t generation;
    void operator()(uint64_t hash, PmPtr place) const { cache->PutFound(hash, place, generation); }
  };

  const Pool* const pool_;
  LookupCacheFiller<PutFound> filler_;
};

// A damaged record's key would be found in another place, and not in its own: it is left out, and
// with it the table's tree. The list's searches check what they pass.
class TreeBuilder : public WalkVisitor {
 public:
  TreeBuilder(const Pool* pool, HeadTree* tree) : pool_(pool), tree_(tree) {}
  void OnNeighbours(PmPtr, PmPtr place) override {
    if (!VerifyRecord(*pool_, place).ok()) return;
    const Record* record = pool_->At<Record>(place);
    tree_->Insert(record->key(), record->tag(), place, record->height());
    bytes_ += record->bytes();
  }
  bool OnElement(PmPtr, bool) override { return true; }
  /// Of all records, in the pool.
  uint64_t bytes() const { return bytes_; }

 private:
  const Pool* const pool_;
  HeadTree* const tree_;
  uint64_t bytes_ = 0;
};

}  // namespace

// Tables that an earlier session left, and that are not merged yet, are searched in DRAM like those
// of this one, as far as there is memory.
void ListDb::BuildTrees() {
  const auto now = CurrentTables();
  for (const auto& bare : now->l0) {
    if (bare->tree != nullptr || !options_.l0_in_dram) continue;
    auto tree = std::make_shared<HeadTree>(pool_, context_.memory, prefixes());
    TreeBuilder builder(pool_, tree.get());
    WalkInterleaved(*bare->list, 0, 0, &builder);
    // damage ended the walk; a search will tell of it
    if (tree->count() != bare->state.count) continue;
    const MutexLock lock(&tables_mu_);
    auto tables = std::make_shared<ListDbTables>(*CurrentTables());
    for (auto& slot : tables->l0) {
      if (slot->state.id != bare->state.id) continue;
      auto whole = std::make_shared<L0Table>(*slot);
      whole->tree = tree;
      whole->bytes = builder.bytes();
      slot = whole;
    }
    TrimTrees(tables.get());
    Install(tables, nullptr);
  }
}

// Keys of the lowest layer of L1 that has few enough.
std::vector<std::string> ListDb::SampleL1() const {
  constexpr uint64_t kSampledKeys = 512;
  uint32_t layer = 0;  // one element in four reaches a layer higher
  while (layer + 1 < kHeightMax &&
         l1_count_.load(std::memory_order_relaxed) >> (2 * layer) > kSampledKeys)
    layer++;
  std::vector<std::string> keys;
  for (PmPtr at = l1_->Next(PmPtr(), 0, layer);
       at && !at.damaged() && keys.size() < 2 * kSampledKeys; at = l1_->Next(at, 0, layer)) {
    if (VerifyRecord(*pool_, at).ok()) keys.emplace_back(l1_->At(at)->key());
  }
  return keys;
}

// Both caches from one walk of L1, while nobody changes it. The lookup cache takes its elements
// only where no other table can have a newer version (LookupCache I2): the generation first, then
// whether all that was flushed is merged. A flush that begins later moves the generation, and what
// is put in from then on is refused.
void ListDb::WarmCaches() {
  if (prefixes() == nullptr) SetPrefixes(KeyPrefixes::Learn(SampleL1()));
  second_chance_.Fit(prefixes());
  BuildTrees();
  const uint64_t generation = lookup_cache_.generation();
  uint64_t merged;
  {
    const MutexLock lock(&catalog_mu_);
    merged = state_.merged_sequence;
  }
  const bool alone =
      flushed_through_.load(std::memory_order_acquire) <= merged && CurrentTables()->l0.empty();
  LookupVisitor filler(pool_, &lookup_cache_, generation);
  const bool fill = lookup_cache_.enabled() && alone;
  second_chance_.Warm(*l1_, l1_count_.load(std::memory_order_relaxed), fill ? &filler : nullptr);
}

}  // namespace lamella
