// The records are the truth, every index is a cache: rebuilding the indexes from the records, and
// checking them.

#include <algorithm>

#include "engine/level_rebuild.h"
#include "engine/listdb/listdb.h"
#include "engine/listdb/type.h"

namespace lamella {

bool ListDb::IsLinkedInto(const std::vector<DamagedPlace>& places) const {
  if (places.empty()) return false;
  return LeadsInto(*l1_.list(), places) || LeadInto(CurrentTables()->l0, places);
}

GatherBasis ListDb::BasisOfGathering(bool power_cut, bool catalog_lost) const {
  ListDbState state = catalog_.Get();
  return {.power_cut = power_cut,
          .catalog_lost = catalog_lost,
          .flush_copies = !unified_,
          .gaps = std::move(state.gaps),
          .boundary = std::move(state.boundary),
          .flushed_sequence = state.flushed_sequence,
          .synced_sequence = std::max(state.synced_sequence, pool_->SyncedThrough()),
          .records_of = [](const ChunkRef& chunk) {
            if (chunk.kind == ChunkKind::kLog) return RecordsOf::kLog;
            if (chunk.kind != kListDbArena) return RecordsOf::kNone;
            return chunk.owner == kGcArena ? RecordsOf::kGarbageCollection : RecordsOf::kFlush;
          }};
}

Status ListDb::Rebuild(RepairReport* report) { return RebuildAll(true, report); }

// Persist order, and what a crash after each step leaves:
//   1  the edit kRebuildBegin    the next open rebuilds again
//   2  links and marks           the same; the new heads are in a chunk that no state names
//   3  the edit kRebuildDone     the rebuilt L1; no L0, no log after the boundary
Status ListDb::RebuildAll(bool may_lose, RepairReport* report) {
  unified_ = (pool_->state().engine_flags & kListDbFlagUnifiedLog) != 0;
  bool catalog_lost = false;
  Status s = catalog_.OpenOrLose(
      [this] { return OpenCatalog(); },
      unified_ ? "numbers declared void are not known"
               : "numbers declared void are not known, and what was deleted may be back",
      &report->notes, &catalog_lost);
  if (!s.ok()) return s;
  // Without a catalog it is not known what was synced; and where chunks are lost, a number that is
  // missing does not tell that what follows never was. Then everything that validates is kept.
  const bool is_unknown =
      IsSyncedUnknown(*pool_, catalog_lost, catalog_.Get().synced_sequence, report);
  const bool power_cut = pool_->LostUnsynced() && report->records_lost == 0 && !is_unknown;
  // With the edit kRebuildBegin in it: a crash must not leave an empty store.
  if (catalog_lost) {
    s = CreateEmpty(true);
  } else {
    FreeStrayChunks();  // of one that was cut
  }
  uint32_t lanes = 1;
  if (s.ok()) {
    s = catalog_.Edit(ListDbEdit::kRebuildBegin, [&](ListDbState* state) {
      state->rebuilding = true;
      lanes = state->lanes;
    });
  }
  if (s.ok()) s = pool_->Sync();
  if (!s.ok()) return s;
  MakeArenas();
  RebuiltLevel rebuilt;
  s = RebuildLevel(pool_, BasisOfGathering(power_cut, catalog_lost || is_unknown), may_lose,
                   kListDbHeads, lanes > 1, space_.gc(), &dead_, &compaction_persister_, &rebuilt);
  report->records_lost += rebuilt.records_lost;
  if (!s.ok()) return s;
  s = catalog_.Edit(ListDbEdit::kRebuildDone, [&](ListDbState* state) {
    state->l1_heads = rebuilt.heads;
    state->l1_count = rebuilt.linked.count;
    state->live_bytes = rebuilt.linked.live_bytes;
    state->uncounted = false;
    state->l0.clear();
    state->merging = 0;
    state->boundary = rebuilt.log_end;
    state->merged = state->boundary;
    const uint64_t seen = DeclareVoid(rebuilt, state->flushed_sequence, &state->gaps);
    state->flushed_sequence = state->merged_sequence = state->synced_sequence = seen;
    state->rebuilding = false;
  });
  if (s.ok()) s = pool_->Sync();
  if (s.ok()) NoteReach(*pool_, rebuilt.reach);
  report->records_kept += rebuilt.linked.count;
  return s;
}

Status ListDb::Check(CheckReport* report) {
  Status s = FlushAllNow();
  if (!s.ok()) return s;
  const ListDbState state = catalog_.Get();
  // The log before this is in L1 or dead, or (plain log) was copied.
  const std::vector<LogPosition>& settled = unified_ ? state.merged : state.boundary;
  const auto read_by = [&](const ChunkRef& chunk) {
    if (chunk.kind == kListDbArena) return ReadBy::kLinks;
    if (chunk.kind != ChunkKind::kLog) return ReadBy::kNone;
    const bool is_settled =
        chunk.owner < settled.size() && chunk.ordinal < settled[chunk.owner].ordinal;
    return is_settled ? ReadBy::kLinks : ReadBy::kScan;
  };
  const uint64_t records = CheckRecords(
      *pool_,
      {.read_by = read_by,
       .voids = state.gaps,
       .is_linked_into = [this](const DamagedPlace& at) { return IsLinkedInto({at}); }},
      report);
  CheckTables(*pool_, CurrentTables()->l0, "L0", records, report);
  CheckSkipList(*pool_, *l1_.list(),
                {.name = "L1", .elements_max = records, .obsolete_is_damage = true}, report);
  return Status::OK();
}

}  // namespace lamella
