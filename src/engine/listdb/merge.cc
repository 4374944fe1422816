// Zipper compaction of the oldest L0 table into L1 (6.5), and the caches that follow it.

#include <array>
#include <chrono>
#include <utility>

#include "base/hash.h"
#include "engine/listdb/listdb.h"

namespace lamella {

bool ListDb::Needed(uint64_t older, uint64_t newer) const {
  if (!snapshots_.Needed(older, newer)) return false;
  kept_versions_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ListDb::OnLinked(Record* record, PmPtr place) {
  second_chance_.Insert(record, place);
  l1_count_.fetch_add(1, std::memory_order_relaxed);
  if (record->kind() != RecordKind::kDelete) {
    AddLive(record);
  } else if (!HasOlderBehind(place)) {
    CountDead(place, record->bytes());  // it goes when gc comes by (I4)
  }
}

// In the order of Forget, each step for some of them at once. Needs no memory: what is obsolete
// must not stay in the caches.
void ListDb::OnObsolete(std::span<const Obsolete> records) {
  if (records.empty()) return;
  constexpr size_t kAtOnce = 64;
  for (; records.size() > kAtOnce; records = records.subspan(kAtOnce))
    OnObsolete(records.first(kAtOnce));
  constexpr size_t kAhead = 8;
  std::array<uint64_t, kAtOnce> hashes;
  const size_t hashed = lookup_cache_.enabled() ? records.size() : 0;
  for (size_t i = 0; i < hashed; i++) {
    hashes[i] = Hash64(pool_->At<Record>(records[i].place)->key());
  }
  uint64_t unlinked = 0;
  for (const Obsolete& obsolete : records) {
    const Record* record = pool_->At<Record>(obsolete.place);
    second_chance_.Remove(record, obsolete.place);
    const bool is_delete = record->kind() == RecordKind::kDelete;
    if (obsolete.was_linked) {
      unlinked++;
      if (!is_delete) SubtractLive(record);
      // counted before: its links are as they were
      if (is_delete && !HasOlderBehind(obsolete.place)) continue;
    }
    CountDead(obsolete.place, record->bytes());
  }
  lookup_cache_.AdvanceGeneration();
  for (size_t i = 0; i < hashed; i++) {
    if (i + kAhead < hashed) lookup_cache_.Prefetch(hashes[i + kAhead]);
    lookup_cache_.Remove(hashes[i], records[i].place);
  }
  l1_count_.fetch_sub(unlinked, std::memory_order_relaxed);
}

ListDb::Near ListDb::Nearby(const InternalKey& key, uint32_t height_min, uint32_t lane) const {
  const int part = height_min > 1 && l1_->lane_count() > 1 ? static_cast<int>(lane) : -1;
  const HeadTree::Entry found = second_chance_.FindTallAtOrBefore(key, height_min, part);
  return {found.place(), found.height()};
}

// An element left L1: takes it out of the caches. In this order: searches no longer start from it;
// a reader that found it before is refused once the generation moved; what such a reader had put in
// before goes.
void ListDb::Forget(const Record* record, PmPtr place) {
  second_chance_.Remove(record, place);
  lookup_cache_.AdvanceGeneration();
  if (lookup_cache_.enabled()) lookup_cache_.Remove(Hash64(record->key()), place);
}

// The table's elements in order. Along the links, those of a half-done merge run on into L1; Zipper
// stops at the first of those.
Status ListDb::ListElements(const L0Table& table, std::vector<PmPtr>* elements) const {
  elements->reserve(table.state.count);
  if (table.tree != nullptr) {
    HeadTree::Iterator at(table.tree.get());
    for (at.SeekToFirst(); at.Valid(); at.Next()) elements->push_back(at.entry().place());
    return Status::OK();
  }
  for (PmPtr at = table.list->First(); at && elements->size() < table.state.count;
       at = table.list->Next(at, 0, 0)) {
    if (at.damaged()) return DescribeDamage(*pool_, at);
    elements->push_back(at);
  }
  return Status::OK();
}

// Persist order, and what a crash after each step leaves:
//   1  the edit kMergeBegin           the table whole, L1 as before; recovery merges it again
//   2  elements, from the tail on     a tail of the table is in L1; recovery merges the rest
//                                     (Zipper, I2)
//   3  the edit kMergeDone            the table is gone, all of it is in L1
// Where a step fails instead, the table stays in the set, and gc leaves it what it leads to, until
// all of it is done again (I5).
Status ListDb::MergeOldest() {
  const auto before = CurrentTables();
  if (before->l0.empty() || !before->l0.back()->checkpointed) return Status::OK();
  const std::shared_ptr<const L0Table> table = before->l0.back();
  if (LosesUnsynced()) {
    // A version is marked obsolete only when the newer one survives a power cut.
    Status s = SyncAll();
    if (!s.ok()) return s;
  }
  std::vector<PmPtr> elements;
  Status s = ListElements(*table, &elements);
  if (s.ok())
    s = Edit(ListDbEdit::kMergeBegin,
             [&](ListDbState* state) { state->merging = table->state.id; });
  if (!s.ok()) return s;

  second_chance_.Fit(prefixes());
  snapshots_ = context_.snapshots->Now();
  const auto zipper = std::make_shared<Zipper>(l1_.get(), &compaction_persister_,
                                               static_cast<ZipperObserver*>(this),
                                               context_.options->verify_checksums);
  {
    const MutexLock lock(&job_mu_);
    merge_to_scan_ahead_ = zipper;
  }
  context_.nudge();
  s = NoThrow([&] { return zipper->Merge(elements); });
  {
    const MutexLock lock(&job_mu_);
    merge_to_scan_ahead_ = nullptr;
  }
  if (!s.ok()) return s;
  // Once no Get and no iterator is left that sees the table apart from L1, its deletes may go (I4).
  EpochDomain::Retirement settling = pool_->AfterAllPins(
      [settled = settled_sequence_, news = settled_news_, last = table->state.last_sequence] {
        settled->store(last, std::memory_order_release);
        news->store(true, std::memory_order_release);
      });
  std::vector<LogPosition> log_in_l1 = table->state.sealed;
  settled_live_bytes_.store(live_bytes_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  table->merged->store(true, std::memory_order_release);
  s = Edit(ListDbEdit::kMergeDone, [&](ListDbState* state) {
    state->merging = 0;
    // a redo finds it gone
    std::erase_if(state->l0, [&](const L0TableState& l0) { return l0.id == table->state.id; });
    state->merged = table->state.sealed;
    state->merged_sequence = table->state.last_sequence;
    state->l1_count = l1_count_.load(std::memory_order_relaxed);
    state->live_bytes = live_bytes_.load(std::memory_order_relaxed);
  });
  if (!s.ok()) return s;
  {
    const MutexLock lock(&tables_mu_);
    auto tables = std::make_shared<ListDbTables>(*CurrentTables());
    tables->l0.pop_back();
    Install(tables, nullptr);
  }
  log_in_l1_ = std::move(log_in_l1);
  compactions_.fetch_add(1, std::memory_order_relaxed);
  pool_->readers()->Retire(std::move(settling));
  return Status::OK();
}

// A Get of before the flush may be under way (I3). It ends soon, but for one whose thread has lost
// the processor: meanwhile other jobs may have L1.
void ListDb::AwaitGets() {
  constexpr std::chrono::milliseconds kAtMost{10};
  (void)pool_->readers()->AwaitRetired(kAtMost);
}

// For CompactRange, which has L1: in its thread, since the background's priority is low, and only
// the tables of now, since there is always another while somebody writes.
Status ListDb::MergeTablesOfNow() {
  const auto now = CurrentTables();
  const uint64_t newest = now->l0.empty() ? 0 : now->l0.front()->state.id;
  for (;;) {
    const auto tables = CurrentTables();
    if (tables->l0.empty() || tables->l0.back()->state.id > newest) return Status::OK();
    Status s = BackgroundError();
    if (!s.ok()) return s;
    const L0Table& oldest = *tables->l0.back();
    if (!oldest.checkpointed) {
      BeginCheckpoint();
      s = NoThrow([this] { return Checkpoint(); });
      EndCheckpoint();
    } else if (!oldest.settled->load(std::memory_order_acquire)) {
      AwaitGets();
    } else {
      s = MergeOldest();
    }
    if (s.IsNoSpace()) return s;  // the caller's answer, not an error that stays
    if (!s.ok()) {
      SetBackgroundError(s);
      const Status error = BackgroundError();
      return error.ok() ? s : error;  // resumed already: this call has not done what it was to do
    }
  }
}

}  // namespace lamella
