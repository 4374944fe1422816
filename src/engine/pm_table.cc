#include "engine/pm_table.h"

#include "base/concat.h"
#include "base/hash.h"
#include "base/random.h"
#include "engine/write_path.h"
#include "index/interleaved_walk.h"
#include "index/list_builder.h"
#include "index/lookup_cache_filler.h"
#include "memtable/record_walk.h"

namespace lamella {

namespace {

// Records of a table that are sampled.
constexpr uint64_t kSampledRecords = 64;

// A damaged record's key would be found in another place, and not in its own: it is left out.
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

std::shared_ptr<PmTable> NewPmTable(Pool* pool, uint64_t id, bool braided,
                                    const MemTable& memtable) {
  auto table = std::make_shared<PmTable>();
  table->heads = std::make_shared<SkipListHeads>();
  table->list = std::make_shared<PmSkipList>(pool, table->heads.get(), braided);
  table->state.id = id;
  table->state.count = memtable.count();
  table->state.last_sequence = memtable.last_sequence();
  table->state.sealed = memtable.sealed();
  table->bytes = memtable.log_bytes();
  return table;
}

Status OpenPmTable(Pool* pool, const PmTableState& state, uint32_t lanes,
                   std::shared_ptr<PmTable>* table) {
  const size_t expected = size_t{lanes} * kHeightMax;
  if (state.heads.size() != expected) {
    return Status::Corruption(Concat("L0 table ", state.id, " has ", state.heads.size(),
                                     " heads, expected ", expected,
                                     "; `lamella repair` rebuilds the index"));
  }
  auto opened = std::make_shared<PmTable>();
  opened->state = state;
  opened->checkpointed = true;
  opened->settled->store(true, std::memory_order_relaxed);
  opened->heads = std::make_shared<SkipListHeads>();
  for (size_t i = 0; i < expected; i++) {
    opened->heads->next[i / kHeightMax][i % kHeightMax].store(state.heads[i],
                                                              std::memory_order_relaxed);
  }
  opened->list = std::make_shared<PmSkipList>(pool, opened->heads.get(), lanes > 1);
  *table = std::move(opened);
  return Status::OK();
}

void LinkRecords(Pool* pool, const HeadTree& tree, Persister* persister, LookupCache* lookup_cache,
                 PmTable* table, std::vector<SampledRecord>* sample) {
  ListBuilder builder(table->list.get(), [&](PmWord* word, uint64_t link) {
    const char* address = reinterpret_cast<const char*>(word);
    const char* heads = reinterpret_cast<const char*>(table->heads.get());
    if (address >= heads && address < heads + sizeof(SkipListHeads)) {
      word->store(link, std::memory_order_release);  // DRAM
    } else {
      persister->Store(word, link);
    }
  });
  LookupCacheFiller filler(
      lookup_cache, [lookup_cache](uint64_t hash, PmPtr place) { lookup_cache->Put(hash, place); });
  HeadTree::Entry previous;
  const uint64_t sampled_each = tree.count() / kSampledRecords + 1;
  uint64_t index = 0;
  for (RecordWalk at(pool, &tree); at.Valid(); at.Next()) {
    const HeadTree::Entry& entry = at.entry();
    const PmPtr place = entry.place();
    const Record* record = pool->At<Record>(place);
    builder.Append(place);
    if (index++ % sampled_each == 0) {
      const bool replaced =
          previous.reference != 0 && pool->At<Record>(previous.place())->key() == record->key();
      sample->push_back({place, replaced});
    }
    if (lookup_cache->enabled()) {
      // Versions of a key come newest first; only that one may enter.
      const bool same_head = previous.reference != 0 && previous.head_high == entry.head_high &&
                             previous.head_low == entry.head_low &&
                             previous.key_class() == entry.key_class();
      const bool same_key =
          same_head && (entry.key_class() != HeadTree::kLongKeyClass ||
                        pool->At<Record>(previous.place())->key() == record->key());
      if (!same_key) filler.Add(Hash64(record->key()), place);
    }
    previous = entry;
  }
  builder.Finish();
}

Status FlushLinks(const Pool& pool, const PmTable& table, Persister* persister) {
  const auto flush = [&](PmPtr place) {
    const Record* record = pool.At<Record>(place);
    persister->Flush(record->link(0), record->height() * sizeof(PmWord));
  };
  if (table.tree != nullptr) {
    for (RecordWalk at(&pool, table.tree.get()); at.Valid(); at.Next()) flush(at.entry().place());
    return Status::OK();
  }
  for (PmPtr at = table.list->First(); at; at = table.list->Next(at, 0, 0)) {
    if (at.damaged()) return DescribeDamage(pool, at);
    flush(at);
  }
  return Status::OK();
}

std::vector<uint64_t> HeadWords(const PmTable& table) {
  std::vector<uint64_t> words;
  for (uint32_t lane = 0; lane < table.list->lane_count(); lane++) {
    for (uint32_t layer = 0; layer < kHeightMax; layer++)
      words.push_back(table.heads->next[lane][layer].load(std::memory_order_relaxed));
  }
  return words;
}

Status ListElements(const Pool& pool, const PmTable& table, std::vector<PmPtr>* elements) {
  elements->reserve(table.state.count);
  if (table.tree != nullptr) {
    HeadTree::Iterator at(table.tree.get());
    for (at.SeekToFirst(); at.Valid(); at.Next()) elements->push_back(at.entry().place());
    return Status::OK();
  }
  for (PmPtr at = table.list->First(); at && elements->size() < table.state.count;
       at = table.list->Next(at, 0, 0)) {
    if (at.damaged()) return DescribeDamage(pool, at);
    elements->push_back(at);
  }
  return Status::OK();
}

uint64_t BuildTree(const Pool& pool, const PmTable& table, HeadTree* tree) {
  TreeBuilder builder(&pool, tree);
  WalkInterleaved(*table.list, 0, 0, &builder);
  return tree->count() == table.state.count ? builder.bytes() : 0;  // damage ended the walk
}

}  // namespace lamella
