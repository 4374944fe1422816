// Flush and lazy group checkpointing (6.3): a MemTable becomes an L0 PMTable, and later durable as
// one.

#include <algorithm>

#include "engine/listdb/listdb.h"

namespace lamella {

Status ListDb::FlushMemTable(const std::shared_ptr<MemTable>& memtable) {
  Status s = NoThrow([&] { return MakeTable(memtable); });
  if (!s.ok() && !unified_) flush_arena_.Drop(&flush_persister_);
  if (!s.ok()) return s;
  if (!unified_) flush_arena_.End();
  context_.wake();
  return s;
}

// All or nothing, but for the copies of a plain log's records.
Status ListDb::MakeTable(const std::shared_ptr<MemTable>& memtable) {
  const auto [id, lanes] = catalog_.Note(
      [](ListDbState* state) { return std::pair(state->next_table_id++, state->lanes); });
  const std::shared_ptr<PmTable> table = NewPmTable(pool_, id, lanes > 1, *memtable);
  table->tree = std::shared_ptr<const HeadTree>(memtable, &memtable->tree());
  if (!unified_) {  // the baseline of figure 33
    table->state.arena_ordinal = flush_arena_.Begin();
    const auto copied = std::make_shared<HeadTree>(pool_, context_.memory, prefixes());
    Status s = flush_arena_.Copy(*memtable, copied.get());
    if (!s.ok()) return s;
    // beside the originals, which stay until the checkpoint
    table->bytes += memtable->copy_bytes();
    table->tree = copied;
  }
  flushed_through_.store(table->state.last_sequence, std::memory_order_release);
  lookup_cache_.AdvanceGeneration();  // before newer versions enter it
  std::vector<SampledRecord> sample;
  LinkRecords(pool_, *table->tree, &flush_persister_, &lookup_cache_, table.get(), &sample);
  {
    const EpochPin pin(pool_->readers());
    table->live_share = LiveShareOf(*pool_, sample, [&, older = CurrentTables()](const auto& key) {
      bool in_l1;
      const Lookup before = FindInTables(*older, key, false, nullptr, &in_l1);
      return before.state == LookupState::kFound ? before.place : PmPtr();
    });
  }
  if (!options_.l0_in_dram) table->tree = nullptr;
  EpochDomain::Retirement settling(
      [settled = table->settled] { settled->store(true, std::memory_order_release); });
  const auto add = [&](PmTables* l0) {
    l0->insert(l0->begin(), table);
    memory_.TrimTrees(l0, CacheBytes());
  };
  ChangeTables(add, memtable.get());
  // After Install: Gets that begin now see the table (I3).
  pool_->readers()->Retire(std::move(settling));
  return Status::OK();
}

// True of what Shrink makes false, so that it ends.
bool ListDb::MustShrink() {
  if (!context_.memory->MustShrink()) return false;
  const auto read_set = CurrentReadSet();
  const auto& l0 = static_cast<const ListDbTables&>(*read_set->tables).l0;
  return lookup_cache_.memory_bytes() > context_.memory->ShareOf(lookup_cache_.bytes_max()) ||
         l1_.second_chance()->IsTooLarge() || TreeBytes(l0) > memory_.BytesMax(CacheBytes()) ||
         IsFull(*read_set->active);
}

// What a store gives back is found without it, if more slowly. The MemTable becomes a table, whose
// tree goes where there is no room for it.
Status ListDb::Shrink() {
  l1_.second_chance()->Shrink();
  ChangeTables([this](PmTables* l0) { memory_.TrimTrees(l0, CacheBytes()); });
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
  std::vector<PmTableState> durable;
  Status s =
      PersistLinks(*pool_, NotCheckpointed(CurrentTables()->l0), &checkpoint_persister_, &durable);
  if (!s.ok() || durable.empty()) return s;
  if (!unified_) s = pool_->Sync();  // the copies, before a state that says what was copied
  if (!s.ok()) return s;

  s = catalog_.Edit(ListDbEdit::kCheckpoint, [&](ListDbState* state) {
    for (const PmTableState& table : durable) {
      const auto is_it = [&](const PmTableState& l0) { return l0.id == table.id; };
      if (std::ranges::none_of(state->l0, is_it)) state->l0.push_back(table);  // else of a redo
    }
    state->boundary = durable.back().sealed;
    state->flushed_sequence = durable.back().last_sequence;
  });
  if (!s.ok()) return s;
  ChangeTables([&](PmTables* l0) {
    for (const PmTableState& state : durable) {
      ChangeTable(l0, state.id, [&](PmTable* table) {
        table->checkpointed = true;
        table->state = state;
      });
    }
  });
  checkpoints_.fetch_add(1, std::memory_order_relaxed);
  if (!unified_) {
    s = SyncAll();
    if (!s.ok()) return s;
    pending_frees_.FreeLogBefore(durable.back().sealed);  // its records were copied
  }
  return Status::OK();
}

}  // namespace lamella
