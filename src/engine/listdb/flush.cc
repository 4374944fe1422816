// Flush and lazy group checkpointing (6.3): a MemTable becomes an L0 PMTable, and later durable as
// one.

#include <algorithm>

#include "base/hash.h"
#include "engine/listdb/listdb.h"
#include "index/lookup_cache_filler.h"
#include "memtable/record_walk.h"

namespace lamella {

namespace {

// Records of a table that are looked up when it is flushed.
constexpr uint64_t kSampledRecords = 64;

}  // namespace

std::shared_ptr<L0Table> ListDb::NewTable(const MemTable& memtable) {
  auto table = std::make_shared<L0Table>();
  {
    const MutexLock lock(&catalog_mu_);
    table->state.id = state_.next_table_id++;
    table->heads = std::make_shared<SkipListHeads>();
    table->list = std::make_shared<PmSkipList>(pool_, table->heads.get(), state_.lanes > 1);
  }
  table->state.count = memtable.count();
  table->state.last_sequence = memtable.last_sequence();
  table->state.sealed = memtable.sealed();
  table->bytes = memtable.log_bytes();
  return table;
}

// Writes each record's links in the table's order (Algorithm 5). They are not flushed: until the
// checkpoint, recovery re-sorts the records from the log.
void ListDb::LinkRecords(const HeadTree& tree, L0Table* table, std::vector<Sampled>* sample) {
  PmWord* last[kPoolPartsMax][kHeightMax];
  for (uint32_t lane = 0; lane < kPoolPartsMax; lane++) {
    for (uint32_t layer = 0; layer < kHeightMax; layer++)
      last[lane][layer] = &table->heads->next[lane][layer];
  }
  const auto set = [&](PmWord* word, PmPtr to) {
    const uint64_t value = EncodeLink(to);
    const char* address = reinterpret_cast<const char*>(word);
    const char* heads = reinterpret_cast<const char*>(table->heads.get());
    if (address >= heads && address < heads + sizeof(SkipListHeads)) {
      word->store(value, std::memory_order_release);  // DRAM
    } else {
      flush_persister_.Store(word, value);
    }
  };
  flushed_through_.store(table->state.last_sequence, std::memory_order_release);
  lookup_cache_.AdvanceGeneration();  // before newer versions enter it
  LookupCacheFiller filler(&lookup_cache_,
                           [this](uint64_t hash, PmPtr place) { lookup_cache_.Put(hash, place); });
  HeadTree::Entry previous;
  const uint64_t sampled_each = tree.count() / kSampledRecords + 1;
  uint64_t index = 0;
  for (RecordWalk at(pool_, &tree); at.Valid(); at.Next()) {
    const HeadTree::Entry& entry = at.entry();
    const PmPtr place = entry.place();
    Record* record = pool_->At<Record>(place);
    const uint32_t lane = table->list->Lane(place);
    for (uint32_t layer = 0; layer < record->height(); layer++) {
      PmWord*& before = last[layer == 0 ? 0 : lane][layer];
      set(before, place);
      before = record->link(layer);
    }
    if (index++ % sampled_each == 0) {
      const bool replaced =
          previous.reference != 0 && pool_->At<Record>(previous.place())->key() == record->key();
      sample->push_back({place, replaced});
    }
    if (lookup_cache_.enabled()) {
      // Versions of a key come newest first; only that one may enter.
      const bool same_head = previous.reference != 0 && previous.head_high == entry.head_high &&
                             previous.head_low == entry.head_low &&
                             previous.key_class() == entry.key_class();
      const bool same_key =
          same_head && (entry.key_class() != HeadTree::kLongKeyClass ||
                        pool_->At<Record>(previous.place())->key() == record->key());
      if (!same_key) filler.Add(Hash64(record->key()), place);
    }
    previous = entry;
  }
  for (auto& lane : last) {
    // a record that was linked before a crash has old links
    for (PmWord* word : lane) set(word, PmPtr());
  }
}

// The first ordinal of what the next flush fills. Asked by the flush.
uint64_t ListDb::FlushArenaEnd() const {
  const ChunkRef& open = flush_arena_->open_chunk();
  return open.kind == ChunkKind::kFree ? flush_arena_->next_ordinal() : open.ordinal;
}

// What a flush that failed has copied so far: dead space. The next try copies all of it again.
void ListDb::DropCopies(std::span<const PmPtr> copies) {
  flush_arena_->Commit();
  flush_arena_->Seal();
  lookup_cache_.AdvanceGeneration();
  for (const PmPtr copy : copies) {
    Record* const record = pool_->At<Record>(copy);
    if (lookup_cache_.enabled()) lookup_cache_.Remove(Hash64(record->key()), copy);
    record->MarkObsolete(&flush_persister_);  // no rebuilding may find it beside its original
    CountDead(copy, record->bytes());
  }
  flush_persister_.Fence();
  flush_arena_floor_.store(FlushArenaEnd(), std::memory_order_seq_cst);  // gc may have them
}

// The plain log's flush: records are copied in key order into the arena, with room for links (the
// baseline of figure 33).
Status ListDb::CopyRecords(const MemTable& memtable, std::vector<PmPtr>* copies,
                           std::shared_ptr<HeadTree>* copied) {
  *copied = std::make_shared<HeadTree>(pool_, context_.memory, prefixes());
  Random random(memtable.id() * 0x9e3779b97f4a7c15ull);
  copies->reserve(memtable.count());
  for (RecordWalk at(pool_, &memtable.tree()); at.Valid(); at.Next()) {
    const Record* record = pool_->At<Record>(at.entry().place());
    const uint32_t height = WritePath::RandomHeight(&random);
    const uint64_t bytes = RecordBytes(height, record->key().size(), record->value().size());
    Status s = flush_arena_->Prepare(bytes, Claimant::kReclaim);
    if (!s.ok()) return s;
    copies->push_back(flush_arena_->Append(
        {.tag = record->tag(),
         .key = record->key(),
         .value = record->value(),
         .height = height,
         // after a power cut on page media the copies may be all that is left of a batch, or of a
         // part of one
         .batch_remaining = record->header.batch_remaining}));
  }
  flush_arena_->Commit();
  flush_arena_->Seal();                // the records' links are written from now on
  for (const PmPtr place : *copies) {  // now that their keys can be read there
    const Record* record = pool_->At<Record>(place);
    (*copied)->Insert(record->key(), record->tag(), place, record->height());
  }
  return Status::OK();
}

Status ListDb::FlushMemTable(const std::shared_ptr<MemTable>& memtable) {
  std::vector<PmPtr> copies;
  Status s = NoThrow([&] { return MakeTable(memtable, &copies); });
  if (!s.ok()) {
    if (!unified_) DropCopies(copies);
    return s;
  }
  if (!unified_) flush_arena_floor_.store(FlushArenaEnd(), std::memory_order_seq_cst);
  context_.wake();
  return s;
}

// All or nothing, but for the copies of a plain log's records.
Status ListDb::MakeTable(const std::shared_ptr<MemTable>& memtable, std::vector<PmPtr>* copies) {
  std::shared_ptr<L0Table> table = NewTable(*memtable);
  std::vector<Sampled> sample;
  if (unified_) {
    LinkRecords(memtable->tree(), table.get(), &sample);
    table->tree = std::shared_ptr<const HeadTree>(memtable, &memtable->tree());
  } else {
    table->state.arena_ordinal = FlushArenaEnd();
    flush_arena_floor_.store(table->state.arena_ordinal, std::memory_order_seq_cst);
    std::shared_ptr<HeadTree> copied;
    Status s = CopyRecords(*memtable, copies, &copied);
    if (!s.ok()) return s;
    LinkRecords(*copied, table.get(), &sample);
    // beside the originals, which stay until the checkpoint
    table->bytes += memtable->copy_bytes();
    table->tree = copied;
  }
  table->live_share = LiveShareOf(sample, *CurrentTables());
  if (!options_.l0_in_dram) table->tree = nullptr;
  EpochDomain::Retirement settling(
      [settled = table->settled] { settled->store(true, std::memory_order_release); });
  {
    const MutexLock lock(&tables_mu_);
    auto tables = std::make_shared<ListDbTables>(*CurrentTables());
    tables->l0.insert(tables->l0.begin(), table);
    TrimTrees(tables.get());
    Install(tables, memtable.get());
  }
  // After Install: Gets that begin now see the table (I3).
  pool_->readers()->Retire(std::move(settling));
  return Status::OK();
}

// What MemTables and trees may take together.
uint64_t ListDb::TablesBytesMax() const {
  if (!context_.memory->MustShrink()) return BufferedBytesMax() + 2 * memtable_bytes_;
  return std::min(tables_bytes_max_,
                  std::max(context_.memory->ShareOf(tables_bytes_max_), 2 * kMemTableBytesMin));
}

// Keeps the trees of L0 within the budget: the newest go without one, the oldest are merged next
// and use theirs for it. Where zipper compaction keeps up, writers wait before it comes to that
// (UpdateWriteDelay), but for the MemTables that were being filled and flushed then.
void ListDb::TrimTrees(ListDbTables* tables) const {
  const uint64_t bytes_max = TablesBytesMax();
  uint64_t bytes = std::min(memtable_bytes_, bytes_max / 2);
  for (size_t i = tables->l0.size(); i-- > 0;) {
    if (tables->l0[i]->tree == nullptr) continue;
    bytes += tables->l0[i]->tree->memory_bytes();
    if (bytes <= bytes_max) continue;
    auto bare = std::make_shared<L0Table>(*tables->l0[i]);
    bytes -= bare->tree->memory_bytes();
    bare->tree = nullptr;
    tables->l0[i] = bare;
  }
}

// True of what Shrink makes false, so that it ends.
bool ListDb::MustShrink() {
  if (!context_.memory->MustShrink()) return false;
  const auto read_set = CurrentReadSet();
  uint64_t tree_bytes = 0;
  for (const auto& table : static_cast<const ListDbTables&>(*read_set->tables).l0) {
    if (table->tree != nullptr) tree_bytes += table->tree->memory_bytes();
  }
  return lookup_cache_.memory_bytes() > context_.memory->ShareOf(lookup_cache_.bytes_max()) ||
         second_chance_.IsTooLarge() || tree_bytes > TablesBytesMax() || IsFull(*read_set->active);
}

// What a store gives back is found without it, if more slowly. The MemTable becomes a table, whose
// tree goes where there is no room for it.
Status ListDb::Shrink() {
  second_chance_.Shrink();
  {
    const MutexLock lock(&tables_mu_);
    auto tables = std::make_shared<ListDbTables>(*CurrentTables());
    TrimTrees(tables.get());
    Install(tables, nullptr);
  }
  SwitchMemTable(false);
  const MemoryAccount& memory = *context_.memory;
  while (memory.MustShrink() &&
         lookup_cache_.memory_bytes() > memory.ShareOf(lookup_cache_.bytes_max())) {
    lookup_cache_.Shrink();
    pool_->readers()->Collect();
  }
  return Status::OK();
}

// Makes all tables that are not yet durable so, with one fence for the group, and moves the
// boundary.
//   crash before the edit    recovery re-sorts the records from the log; the links do not count
//   crash after it           the tables are found through the catalog; the log before the boundary
//                            is not read again
Status ListDb::Checkpoint() {
  std::vector<std::shared_ptr<const L0Table>> group;  // oldest first
  const auto current = CurrentTables();
  for (const auto& table : current->l0) {
    if (!table->checkpointed) group.insert(group.begin(), table);
  }
  if (group.empty()) return Status::OK();
  Persister& persister = checkpoint_persister_;
  for (const auto& table : group) {
    const auto flush_links = [&](PmPtr place) {
      const Record* record = pool_->At<Record>(place);
      persister.Flush(record->link(0), record->height() * sizeof(PmWord));
    };
    if (table->tree != nullptr) {
      for (RecordWalk at(pool_, table->tree.get()); at.Valid(); at.Next()) {
        flush_links(at.entry().place());
      }
    } else {
      for (PmPtr at = table->list->First(); at; at = table->list->Next(at, 0, 0)) {
        if (at.damaged()) return DescribeDamage(*pool_, at);
        flush_links(at);
      }
    }
  }
  persister.Fence();
  if (!unified_ && LosesUnsynced()) {
    Status s = pool_->Sync();  // the copies, before a state that says what was copied
    if (!s.ok()) return s;
  }

  std::vector<std::shared_ptr<L0Table>> durable;
  for (const auto& table : group) {
    durable.push_back(std::make_shared<L0Table>(*table));
    durable.back()->checkpointed = true;
    auto& heads = durable.back()->state.heads;
    for (uint32_t lane = 0; lane < table->list->lane_count(); lane++) {
      for (uint32_t layer = 0; layer < kHeightMax; layer++) {
        heads.push_back(table->heads->next[lane][layer].load(std::memory_order_relaxed));
      }
    }
  }
  Status s = Edit(ListDbEdit::kCheckpoint, [&](ListDbState* state) {
    for (const auto& table : durable) {
      // a redo finds it there
      const auto is_it = [&](const L0TableState& l0) { return l0.id == table->state.id; };
      if (std::none_of(state->l0.begin(), state->l0.end(), is_it))
        state->l0.push_back(table->state);
    }
    state->boundary = durable.back()->state.sealed;
    state->flushed_sequence = durable.back()->state.last_sequence;
  });
  if (!s.ok()) return s;
  {
    const MutexLock lock(&tables_mu_);
    auto tables = std::make_shared<ListDbTables>(*CurrentTables());
    for (auto& slot : tables->l0) {
      for (const auto& table : durable) {
        if (slot->state.id != table->state.id) continue;
        auto replacement = std::make_shared<L0Table>(*table);
        replacement->tree = slot->tree;  // may have been trimmed since
        slot = replacement;
      }
    }
    Install(tables, nullptr);
  }
  checkpoints_.fetch_add(1, std::memory_order_relaxed);
  if (!unified_) {
    if (LosesUnsynced()) {
      s = SyncAll();
      if (!s.ok()) return s;
    }
    FreeLogBeforeBoundary();
  }
  return Status::OK();
}

// The plain log's chunks are done with once their records were copied to checkpointed tables.
void ListDb::FreeLogBeforeBoundary() {
  std::vector<LogPosition> boundary;
  {
    const MutexLock lock(&catalog_mu_);
    boundary = state_.boundary;
  }
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == ChunkKind::kLog && chunk.owner < boundary.size() &&
        chunk.ordinal < boundary[chunk.owner].ordinal) {
      pending_frees_.Free(chunk);
    }
  });
}

}  // namespace lamella
