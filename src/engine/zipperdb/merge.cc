// Compaction: a frozen list goes down into the next level. Within a group of levels in place, by
// zipper compaction (5.1.2); from one group to the next its records are copied in key order, and
// the copies are merged in (log-structured compaction, 5.1.3).

#include <algorithm>
#include <utility>

#include "engine/zipperdb/zipperdb.h"

namespace lamella {

std::shared_ptr<ZipperList> ZipperDb::ListOf(uint64_t id) const {
  if (id == kBottomList) return bottom_;
  const auto tables = CurrentTables();
  const auto found = std::ranges::find_if(tables->uppers,
                                          [id](const auto& upper) { return upper.list->id == id; });
  return found == tables->uppers.end() ? nullptr : found->list;
}

// Copies what somebody may need of a list. Its deletes go with it: what they hide may be further
// down. What fails is the caller's to abandon. NoSpace: there is no room. Corruption: a record
// would get a fresh checksum for its damage.
Status ZipperDb::CopyList(const ZipperList& list, uint32_t level, SortedRun* run) {
  const SnapshotList::Sample snapshots = context_.snapshots->Now();
  RunWriter* const writer = merge_runs_[level].get();
  CompactionRoom room(this);
  const uint64_t bytes = list.bytes.load(std::memory_order_relaxed);
  writer->Begin(list.level.count(), bytes);
  Status s;
  if (!room.Reserve(CopyBytesMax(bytes))) s = Status::NoSpace("no room for a level's copies");
  const Record* newer = nullptr;
  const PmSkipList& elements = *list.level.list();
  for (PmPtr at = elements.First(); s.ok() && at; at = elements.Next(at, 0, 0)) {
    s = at.damaged() ? DescribeDamage(*pool_, at) : VerifyRecord(*pool_, at);
    if (!s.ok()) break;
    const Record* record = elements.At(at);
    if (newer != nullptr && newer->key() == record->key() &&
        !snapshots.Needed(record->sequence(), newer->sequence()))
      continue;
    newer = record;
    s = writer->Copy(*record);
  }
  if (s.ok()) {
    *run = writer->End();
    if (pool_->LosesUnsynced()) s = pool_->Sync();
  }
  return s;
}

// The elements of a list that is to be merged in place, or, of one of which a tail is merged
// already, those in front of it: from there on it runs among the other list's.
Status ZipperDb::ElementsOf(const ZipperListState& from, SortedRun* run) const {
  const std::shared_ptr<ZipperList> list = ListOf(from.id);
  const PmSkipList& elements = *list->level.list();
  run->places.reserve(list->level.count());
  run->bytes = from.bytes;
  run->last_sequence = from.last_sequence;
  for (PmPtr at = elements.First(); at; at = elements.Next(at, 0, 0)) {
    if (at.damaged()) return DescribeDamage(*pool_, at);
    if (from.merge.into != 0) {
      ChunkRef chunk;
      if (!OwningChunk(*pool_, at, &chunk) || !from.Owns(chunk)) break;
    }
    run->places.push_back(at);
  }
  return Status::OK();
}

// The level below is empty, and the lists' chunks are of one group.
Status ZipperDb::Sink(uint64_t id, uint32_t level) {
  return ChangeLists(ZipperDbEdit::kMergeDone, [&](ZipperDbState* state) {
    ZipperListState* const list = state->Find(id);
    list->level = level;
    list->frozen = false;
  });
}

// Says where the list goes, and what is merged there. `from->merge.into` stays 0 where that is all.
Status ZipperDb::BeginMerge(ZipperListState* from, WayDown way, SortedRun* run) {
  const auto tables = CurrentTables();
  const uint32_t next = from->level + 1;
  const bool to_bottom = way.to_bottom || next >= tables->bottom_level;
  const uint32_t level = to_bottom ? tables->bottom_level : next;
  const bool in_group =
      from->level / options_.levels_per_group == level / options_.levels_per_group;
  if (!to_bottom && in_group && tables->Filled(level) == nullptr) return Sink(from->id, level);
  std::shared_ptr<ZipperList> into = bottom_;
  Status s = to_bottom ? Status::OK() : FillLevel(level, &into);
  const std::shared_ptr<ZipperList> list = ListOf(from->id);
  bool copied = false;
  if (s.ok() && !in_group && !way.in_place) {
    s = NoThrow([&] { return CopyList(*list, level, run); });
    copied = s.ok();
    if (!copied) merge_runs_[level]->Abandon();
    // It is merged all the same, as it lies; damage stays where it can be found.
    if (s.IsNoSpace() || s.IsCorruption()) s = Status::OK();
  }
  if (s.ok() && !copied) s = ElementsOf(*from, run);
  if (!s.ok()) return s;
  const MergeState merge{into->id, run->runs};
  list->to_bottom.store(to_bottom, std::memory_order_relaxed);
  s = NoThrow([&] {
    return catalog_.Edit(ZipperDbEdit::kMergeBegin,
                         [&](ZipperDbState* state) { state->Find(from->id)->merge = merge; });
  });
  if (s.ok()) from->merge = merge;
  if (!copied) return s;
  if (s.ok()) {
    merge_runs_[level]->Keep();
  } else {
    merge_runs_[level]->Abandon();
  }
  return s;
}

// Persist order, and what a crash after each step leaves:
//   1  copies (5.1.3 only)            free space (S2)
//   2  the edit kMergeBegin           both lists as they were; recovery merges again
//   3  elements, from the tail on     in place: a tail of the list is in the other one, the rest
//                                     leads on to it; copied: some are in both. Recovery merges the
//                                     rest (Zipper, I2)
//   4  the edit kMergeDone            the list is gone; copied: its chunks are free
// Page media: copies are synced before 2, which names them; and 4 before what it frees.
Status ZipperDb::MergeDown(uint64_t id, WayDown way) {
  Status s = FreeGone();
  if (!s.ok()) return s;
  const ZipperDbState state = catalog_.Get();
  const auto found = std::ranges::find(state.lists, id, &ZipperListState::id);
  if (found == state.lists.end() || !found->frozen) return Status::OK();  // it went down
  ZipperListState from = *found;
  SortedRun run;
  if (from.merge.into == 0) {
    s = BeginMerge(&from, way, &run);
    if (!s.ok() || from.merge.into == 0) return s;
  } else if (from.merge.copies.empty()) {
    s = ElementsOf(from, &run);
  } else {
    s = RecordsOfRuns(*pool_, from.merge.copies, &run);
  }
  const std::shared_ptr<ZipperList> into = ListOf(from.merge.into);
  if (s.ok()) s = MergeInto(into.get(), run.places, WriteCause::kCompaction);
  return s.ok() ? FinishMerge(from, run) : s;
}

Status ZipperDb::FinishMerge(const ZipperListState& from, const SortedRun& run) {
  const bool copied = !run.runs.empty();
  const std::shared_ptr<ZipperList> list = ListOf(from.id);
  const std::shared_ptr<ZipperList> into = ListOf(from.merge.into);
  const bool at_bottom = into->id == kBottomList;
  EpochDomain::Retirement settling =
      at_bottom ? bottom_->level.Settling(from.last_sequence) : EpochDomain::Retirement([] {});
  if (at_bottom) {
    list->in_bottom->store(true, std::memory_order_release);
    for (const auto& flag : list->absorbed) flag->store(true, std::memory_order_release);
  } else {
    into->absorbed.insert(into->absorbed.end(), list->absorbed.begin(), list->absorbed.end());
    into->absorbed.push_back(list->in_bottom);
  }
  std::list<ZipperListState> gone{from};
  if (!copied) gone.front().runs.clear();  // the other list has them
  Status s = ChangeLists(ZipperDbEdit::kMergeDone, [&](ZipperDbState* state) {
    ZipperListState* const target = state->Find(into->id);
    if (copied) {
      target->Add(run.runs);
    } else {
      for (const Runs& runs : from.runs) target->Add(runs);
    }
    target->last_sequence = std::max(target->last_sequence, from.last_sequence);
    NoteMerged(state, target, into.get(), run.bytes);
    std::erase_if(state->lists, [&](const auto& other) { return other.id == from.id; });
  });
  if (!s.ok()) return s;
  if (at_bottom) dead_.NoteUnreclaimed();  // of chunks that gc could not look at until now
  into->bytes.fetch_add(run.bytes, std::memory_order_relaxed);
  ReviseWriteDelay();  // goes by that
  (copied ? copied_ : in_place_).fetch_add(1, std::memory_order_relaxed);
  pool_->readers()->Retire(std::move(settling));
  ShareGuides();
  {
    const MutexLock lock(&gone_mu_);
    gone_.splice(gone_.end(), gone);
  }
  return FreeGone();
}

// Where there is no memory for it, whoever comes by next does the rest.
Status ZipperDb::FreeGone() {
  std::list<ZipperListState> lists;
  {
    const MutexLock lock(&gone_mu_);
    lists.swap(gone_);
  }
  if (lists.empty()) return Status::OK();
  const auto free = [&](ZipperListState* gone, const ChunkRef& chunk) {
    if (chunk.kind == kZipperDbHeads && pool_->ChunkStart(chunk) == gone->heads) {
      pending_frees_.Free(chunk);
      gone->heads = PmPtr();  // once: others may soon be at this place
    }
    if (chunk.kind == kZipperDbArena && gone->Owns(chunk)) pending_frees_.Free(chunk);
  };
  const Status s = NoThrow([&] {
    Status synced = pool_->LosesUnsynced() ? SyncAll() : Status::OK();
    for (; synced.ok() && !lists.empty(); lists.pop_front())
      pool_->ForEachChunk([&](const ChunkRef& chunk) { free(&lists.front(), chunk); });
    return synced;
  });
  if (!s.ok()) {
    const MutexLock lock(&gone_mu_);
    gone_.splice(gone_.begin(), lists);
  }
  pool_->CollectDeferred();
  return s;
}

Status ZipperDb::Freeze(const UpperList& upper) {
  return ChangeLists(ZipperDbEdit::kFreeze,
                     [&](ZipperDbState* state) { state->Find(upper.list->id)->frozen = true; });
}

// The caller has who fills it.
Status ZipperDb::FreezeFull(uint32_t level) {
  const auto tables = CurrentTables();
  const UpperList* const full = tables->Filled(level);
  return full != nullptr && MayBeFrozen(*full, *tables) ? Freeze(*full) : Status::OK();
}

// Merges that failed, or that a crash cut short: oldest first (Z1).
Status ZipperDb::FinishMerges() {
  const ZipperDbState found = catalog_.Get();
  Status s;
  for (size_t i = found.lists.size(); s.ok() && i-- > 0;) {
    if (found.lists[i].merge.into != 0) s = MergeDown(found.lists[i].id, {});
  }
  return s;
}

// All lists of now into the bottom list, oldest first (Z1): there is always another while somebody
// writes. The caller has all ways down.
Status ZipperDb::MergeAll(bool in_place) {
  uint64_t newest = 0;
  const auto first = CurrentTables();
  for (const UpperList& upper : first->uppers) newest = std::max(newest, upper.list->id);
  Status s = FinishMerges();  // they may go to one that is to be merged itself
  while (s.ok()) {
    const auto tables = CurrentTables();
    if (tables->uppers.empty() || tables->uppers.back().list->id > newest) break;
    const UpperList& oldest = tables->uppers.back();
    if (!oldest.frozen && oldest.level == 0) {
      const JobBoard::Held held = jobs_.Take({{kTop, {}}});
      // A flush that failed goes on first.
      const bool may_go = catalog_.Get().flush.merge.into != oldest.list->id;
      if (may_go) s = NoThrow([&] { return Freeze(oldest); });
      if (!may_go) return s;
    } else if (!oldest.frozen) {
      s = Freeze(oldest);
    }
    if (s.ok()) s = MergeDown(oldest.list->id, {.to_bottom = true, .in_place = in_place});
  }
  return s.ok() ? FitBottom() : s;
}

// A store that has become small is the bottom list alone again.
Status ZipperDb::FitBottom() {
  const PmLevel& level = bottom_->level;
  const uint64_t bytes = level.settled_live_bytes() + level.count() * kRecordOverhead;
  if (LevelOf(2 * bytes) >= CurrentTables()->bottom_level) return Status::OK();
  const JobBoard::Held held = jobs_.Take({{kTop, {}}});
  Status s;
  if (CurrentTables()->uppers.empty()) {
    s = NoThrow([&] {
      return ChangeLists(ZipperDbEdit::kMergeDone, [&](ZipperDbState* state) {
        state->bottom()->level = LevelOf(2 * bytes);
      });
    });
  }
  return s;
}

}  // namespace lamella
