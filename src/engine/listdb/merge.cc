// Zipper compaction of the oldest L0 table into L1 (6.5).

#include <utility>

#include "engine/listdb/listdb.h"

namespace lamella {

// Persist order, and what a crash after each step leaves:
//   1  the edit kMergeBegin           the table whole, L1 as before; recovery merges it again
//   2  elements, from the tail on     a tail of the table is in L1; recovery merges the rest
//                                     (Zipper, I2)
//   3  the edit kMergeDone            the table is gone, all of it is in L1
// Where a step fails instead, the table stays in the set, and gc leaves it what it leads to, until
// all of it is done again (I4), which comes before whatever else takes out of L1 or moves there.
Status ListDb::MergeOldest() {
  const auto before = CurrentTables();
  if (before->l0.empty() || !before->l0.back()->checkpointed) return Status::OK();
  const std::shared_ptr<const PmTable> table = before->l0.back();
  if (pool_->LosesUnsynced()) {
    // A version is marked obsolete only when the newer one survives a power cut.
    Status s = SyncAll();
    if (!s.ok()) return s;
  }
  std::vector<PmPtr> elements;
  Status s = ListElements(*pool_, *table, &elements);
  if (s.ok())
    s = catalog_.Edit(ListDbEdit::kMergeBegin,
                      [&](ListDbState* state) { state->merging = table->state.id; });
  if (!s.ok()) return s;

  const std::shared_ptr<Zipper> zipper =
      l1_.NewMerge(&compaction_persister_, context_.options->verify_checksums, prefixes());
  {
    const MutexLock lock(&jobs_.mu);
    merge_to_scan_ahead_ = zipper;
    half_merged_ = true;
  }
  context_.nudge();
  s = NoThrow([&] { return zipper->Merge(elements); });
  {
    const MutexLock lock(&jobs_.mu);
    merge_to_scan_ahead_ = nullptr;
  }
  if (!s.ok()) return s;
  EpochDomain::Retirement settling = l1_.Settling(table->state.last_sequence);
  std::vector<LogPosition> log_in_l1 = table->state.sealed;
  l1_.NoteMerged();
  table->merged->store(true, std::memory_order_release);
  s = catalog_.Edit(ListDbEdit::kMergeDone, [&](ListDbState* state) {
    state->merging = 0;
    // a redo finds it gone
    std::erase_if(state->l0, [&](const PmTableState& l0) { return l0.id == table->state.id; });
    state->merged = table->state.sealed;
    state->merged_sequence = table->state.last_sequence;
    state->l1_count = l1_.count();
    state->live_bytes = l1_.live_bytes();
  });
  if (!s.ok()) return s;
  ChangeTables([](PmTables* l0) { l0->pop_back(); });
  {
    const MutexLock lock(&jobs_.mu);
    half_merged_ = false;
  }
  log_in_l1_ = std::move(log_in_l1);
  compactions_.fetch_add(1, std::memory_order_relaxed);
  pool_->readers()->Retire(std::move(settling));
  return Status::OK();
}

// For CompactRange, which has L1: in its thread, since the background's priority is low, and only
// the tables that there are by now, since another comes as long as somebody writes.
Status ListDb::MergeCurrentTables() {
  const auto now = CurrentTables();
  const uint64_t newest = now->l0.empty() ? 0 : now->l0.front()->state.id;
  for (;;) {
    const auto tables = CurrentTables();
    if (tables->l0.empty() || tables->l0.back()->state.id > newest) return Status::OK();
    Status s = BackgroundError();
    if (!s.ok()) return s;
    const PmTable& oldest = *tables->l0.back();
    if (!oldest.checkpointed) {
      const JobBoard::Held held = jobs_.Take({{kCheckpoint, {}}});
      s = NoThrow([this] { return Checkpoint(); });
    } else if (!oldest.settled->load(std::memory_order_acquire)) {
      pool_->readers()->AwaitRetired();  // Gets that began before the flush (I3): they end soon
    } else {
      s = MergeOldest();
    }
    // the caller's answer, not an error that stays; and one that CompactRange makes the store's
    if (s.IsNoSpace() || s.IsIOError()) return s;
    if (!s.ok()) {
      SetBackgroundError(s);
      const Status error = BackgroundError();
      return error.ok() ? s : error;  // resumed already: this call has not done what it was to do
    }
  }
}

}  // namespace lamella
