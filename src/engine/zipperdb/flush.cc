// Flush (5.1.1): a MemTable's records are copied in key order, and merged into the list of level 0.

#include <algorithm>
#include <utility>

#include "base/no_throw.h"
#include "engine/list_heads.h"
#include "engine/zipperdb/zipperdb.h"
#include "memtable/record_walk.h"

namespace lamella {

uint64_t ZipperDb::BytesMax(uint32_t level) const {
  uint64_t bytes = level0_bytes_;
  for (; level > 0 && bytes < UINT64_MAX / options_.level_factor; level--)
    bytes *= options_.level_factor;
  return bytes;
}

uint32_t ZipperDb::LevelOf(uint64_t bytes) const {
  uint32_t level = 0;
  while (level + 1 < kZipperDbLevelsMax && bytes > BytesMax(level)) level++;
  return level;
}

// What it merges into, and nobody else changes it (Z5). Whether that is the bottom list is known
// only once it has the claim.
JobBoard::Held ZipperDb::TakeTop() {
  for (;;) {
    const bool bottom = CurrentTables()->bottom_level == 0;
    JobBoard::Held held =
        jobs_.Take(bottom ? Claims{{kTop, {}}, {kBottom, {}}} : Claims{{kTop, {}}});
    if ((CurrentTables()->bottom_level == 0) == bottom) return held;
  }
}

Status ZipperDb::FlushMemTable(const std::shared_ptr<MemTable>& memtable) {
  const JobBoard::Held held = TakeTop();
  Status s = NoThrow([&] { return MergeMemTable(*memtable); });
  if (s.ok() && CurrentTables()->bottom_level == 0)
    s = NoThrow([&] { return CollectAfterFlush(); });
  return s;
}

// The list that is filled at a level, new where there is none.
Status ZipperDb::FillLevel(uint32_t level, std::shared_ptr<ZipperList>* list) {
  const auto tables = CurrentTables();
  if (level >= tables->bottom_level) {
    *list = bottom_;
    return Status::OK();
  }
  if (const UpperList* const filled = tables->Filled(level); filled != nullptr) {
    *list = filled->list;
    return Status::OK();
  }
  Persister persister(pool_->gate(), WriteCause::kCompaction);
  ZipperListState fresh{.level = level};
  fresh.id = catalog_.Note([](ZipperDbState* edited) { return edited->next_list_id++; });
  Status s = ClaimHeads(pool_, kZipperDbHeads, &persister, &fresh.heads, fresh.id);
  if (!s.ok()) return s;
  s = NoThrow([&] {
    *list = OpenList(fresh);
    if ((*list)->level.second_chance()->enabled()) (*list)->level.BeginEmpty();
    return ChangeLists(
        ZipperDbEdit::kNewList,
        [&](ZipperDbState* edited) {
          const auto older = std::ranges::find_if(
              edited->lists, [level](const auto& other) { return other.level >= level; });
          edited->lists.insert(older, fresh);
        },
        nullptr, *list);
  });
  // Each try would claim another chunk, of those that the catalog may need to get on.
  ChunkRef chunk;
  if (!s.ok() && !catalog_.is_in_doubt() && OwningChunk(*pool_, fresh.heads, &chunk))
    pool_->Free(chunk, &persister);
  return s;
}

bool ZipperDb::HasPut(std::string_view key) const {
  const EpochPin pin(pool_->readers());
  const auto tables = CurrentTables();
  PlacedVersion found;
  for (size_t i = 0; !found.place && i < tables->uppers.size(); i++)
    found = tables->uppers[i].list->level.Find({key, kTagFirst}, false, nullptr);
  if (!found.place) found = bottom_->level.Find({key, kTagFirst}, false, nullptr);
  return found.place && !found.place.damaged() && found.kind == RecordKind::kPut;
}

// What newer versions in the MemTable hide from all is left in the log. Corruption: a record would
// get a fresh checksum for its damage, or be dropped for what its key is not.
Status ZipperDb::CopyMemTable(const MemTable& memtable, SortedRun* run) {
  const SnapshotList::Sample snapshots = context_.snapshots->Now();
  flush_run_->Begin(memtable.count(), memtable.copy_bytes());
  const Record* newer = nullptr;
  Status s;
  for (RecordWalk at(pool_, &memtable.tree()); s.ok() && at.Valid(); at.Next()) {
    s = VerifyRecord(*pool_, at.entry().place());
    if (!s.ok()) break;
    const Record* record = pool_->At<Record>(at.entry().place());
    if (newer != nullptr && newer->key() == record->key() &&
        !snapshots.Needed(record->sequence(), newer->sequence()))
      continue;
    newer = record;
    s = flush_run_->Copy(*record);
  }
  if (s.ok()) *run = flush_run_->End();
  return s;
}

// Merges a run, or a list's elements, into a list. One that is cut short is done by another.
Status ZipperDb::MergeInto(ZipperList* list, const std::vector<PmPtr>& elements, WriteCause cause) {
  Persister persister(pool_->gate(), cause);
  const auto zipper =
      list->level.NewMerge(&persister, context_.options->verify_checksums, prefixes());
  Status s = zipper->Merge(elements);
  if (s.ok()) list->level.NoteMerged();
  return s;
}

// Persist order, and what a crash after each step leaves:
//   1  the copies               free space (S2); the log has the records
//   2  the edit kFlushBegin     recovery merges the copies, which are read as a MemTable until then
//   3  elements, from the tail on   the same (Zipper, I2)
//   4  the edit kFlushDone      level 0 has the records, and the log before the boundary is not
//                               read again
// Page media: all is synced before 2, since what 3 marks as obsolete was durable; and after 4,
// before the log is freed.
Status ZipperDb::MergeMemTable(const MemTable& memtable) {
  // Keeps Z2: sealing has retired what Gets of before it may use. They end soon.
  pool_->readers()->AwaitRetired();
  SortedRun run;
  std::shared_ptr<ZipperList> list;
  const MergeState begun = catalog_.Get().flush.merge;
  Status s;
  if (begun.into != 0) {  // and failed, or was cut by a crash
    list = ListOf(begun.into);
    s = RecordsOfRuns(*pool_, begun.copies, &run);
  } else {
    live_share_.store(
        SampleLiveShare(memtable, [this](std::string_view key, uint64_t) { return HasPut(key); }),
        std::memory_order_relaxed);
    s = FillLevel(0, &list);
    if (s.ok()) s = NoThrow([&] { return CopyMemTable(memtable, &run); });
    if (s.ok() && pool_->LosesUnsynced()) s = SyncAll();
    if (s.ok()) {
      s = NoThrow([&] {
        return catalog_.Edit(ZipperDbEdit::kFlushBegin, [&](ZipperDbState* state) {
          state->flush = {{list->id, run.runs}, memtable.last_sequence(), memtable.sealed()};
        });
      });
    }
    if (s.ok()) {
      flush_run_->Keep();
    } else {
      flush_run_->Abandon();
    }
  }
  if (s.ok()) s = MergeInto(list.get(), run.places, WriteCause::kFlush);
  return s.ok() ? FinishFlush(memtable, run, list.get()) : s;
}

void ZipperDb::NoteMerged(ZipperDbState* state, ZipperListState* into, ZipperList* list,
                          uint64_t bytes) const {
  into->count = list->level.count();
  into->live_bytes = list->level.live_bytes();
  into->bytes = list->bytes.load(std::memory_order_relaxed) + bytes;
  if (into->id == kBottomList) {
    into->level = std::max(into->level, LevelOf(into->live_bytes + into->count * kRecordOverhead));
  } else if (into->bytes >= BytesMax(into->level)) {
    const bool way_is_free = std::ranges::none_of(state->lists, [into](const auto& other) {
      return other.level == into->level && other.frozen;
    });
    into->frozen = way_is_free;
  }
}

Status ZipperDb::FinishFlush(const MemTable& memtable, const SortedRun& run, ZipperList* list) {
  const bool at_bottom = list->id == kBottomList;
  const uint64_t newest = memtable.last_sequence();
  EpochDomain::Retirement settling =
      at_bottom ? bottom_->level.Settling(newest) : EpochDomain::Retirement([] {});
  Status s = ChangeLists(
      ZipperDbEdit::kFlushDone,
      [&](ZipperDbState* state) {
        ZipperListState* const into = state->Find(list->id);
        into->Add(run.runs);
        into->last_sequence = std::max(into->last_sequence, newest);
        NoteMerged(state, into, list, run.bytes);
        state->flush = {};
        state->boundary = memtable.sealed();
        state->flushed_sequence = newest;
      },
      &memtable);
  if (!s.ok()) return s;
  list->bytes.fetch_add(run.bytes, std::memory_order_relaxed);
  ReviseWriteDelay();  // goes by that
  pool_->readers()->Retire(std::move(settling));
  ShareGuides();
  if (pool_->LosesUnsynced()) s = SyncAll();
  if (!s.ok()) return s;
  pending_frees_.FreeLogBefore(memtable.sealed());
  // What gc had no room for beside this MemTable's copies it may have room for now.
  dead_.NoteUnreclaimed();
  return s;
}

}  // namespace lamella
