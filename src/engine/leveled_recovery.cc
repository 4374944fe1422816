// Loading, mending and checking an engine with levels. What the catalog names is whole
// (LeveledEngine's L1), so a crash leaves nothing of it to be made anew: what it left beside is
// freed, and the log after the boundary is sorted as always.

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "engine/leveled_engine.h"
#include "engine/skiplist_check.h"

namespace lamella {

namespace {

Status MissingRegion(const TableInfo& info, const RegionShare& share) {
  return Status::Corruption(Concat("table ", info.number, " refers to ", share.bytes,
                                   " bytes of region ", share.region,
                                   ", which the pool does not have; run `lamella repair` to save "
                                   "what is left"));
}

}  // namespace

Status LeveledEngine::OpenInfo(const TableInfo& info, const TableRegions& regions,
                               std::shared_ptr<const LevelTable>* table) {
  LevelPlace place;
  if (!LevelPlace::Decode(info.place, &place)) {
    return Status::Corruption(
        Concat("of table ", info.number, " the ", info.place.size(),
               " bytes that say where it lies do not decode; run `lamella repair`"));
  }
  if (place.regions.empty()) {
    if (files_ != nullptr) return files_->Open(info, place, table);
    return Status::Corruption(Concat("table ", info.number, " of ", info.records,
                                     " records refers to no region; run `lamella repair` to save "
                                     "what is left"));
  }
  std::vector<LevelTable::RegionPtr> own;
  for (const RegionShare& share : place.regions) {
    const auto region = regions.find(share.region);
    if (region == regions.end() || region->second->bytes() < share.bytes)
      return MissingRegion(info, share);
    own.push_back(region->second);
  }
  return OpenTable(info, place, std::move(own), table);
}

Status LeveledEngine::LoadStore() {
  const LeveledState state = catalog_.Get();
  const TableRegions regions = FindRegions(pool_);
  const auto tables = std::make_shared<LeveledTables>();
  LevelsEdit all;
  Status s;
  for (const auto& [level, info] : EditBetween({}, state.levels).added) {
    std::shared_ptr<const LevelTable> table;
    s = OpenInfo(*info, regions, &table);
    if (!s.ok()) return s;
    all.added.push_back({level, std::move(table)});
  }
  LAMELLA_CHECK(tables->levels.Apply(all));
  tables->levels.BuildFences();
  tables->infos = state.levels;
  uint64_t seen = regions.empty() ? 0 : regions.rbegin()->first;
  if (files_ != nullptr) {
    uint64_t last = 0;
    s = files_->ssts().FindLastNumber(&last);
    if (!s.ok()) return s;
    seen = std::max(seen, last);
  }
  catalog_.Note([seen](LeveledState* noted) {
    noted->next_number = std::max(noted->next_number, seen + 1);
    return 0;
  });
  RegionUseEdit uses({}, all);
  NoteUses(tables->levels, &uses);
  return LoadLog({.unified = false,
                  .boundary = state.boundary,
                  .flushed_sequence = state.flushed_sequence,
                  .gaps = state.gaps,
                  .may_have_holes = pool_->LostUnsynced()},
                 tables);
}

Status LeveledEngine::Load() {
  if (pool_->state().catalog_chunk == 0)
    return files_ == nullptr ? Status::OK() : files_->ssts().CheckNone();
  Status s = catalog_.Open();
  return s.ok() ? LoadStore() : s;
}

// What a crash left beside what the catalog names (TableRegion's R3): nobody can reach it.
void LeveledEngine::FreeStrays(Persister* persister) {
  catalog_.FreeStrays(persister);
  std::vector<ChunkRef> strays;
  {
    const MutexLock lock(&uses_mu_);
    pool_->ForEachChunk([&](const ChunkRef& chunk) LAMELLA_REQUIRES(uses_mu_) {
      if (IsRegion(chunk.kind) && !uses_.contains(RegionOf(chunk.ordinal))) strays.push_back(chunk);
    });
  }
  for (const ChunkRef& chunk : strays) pool_->Free(chunk, persister);
}

Status LeveledEngine::RemoveStrayFiles() const {
  if (files_ == nullptr) return Status::OK();
  std::set<uint64_t> named;
  CurrentTables()->levels.ForEach([&](uint32_t, const auto& table) {
    if (table->in_file()) named.insert(table->info().number);
  });
  return files_->ssts().RemoveStrays(named);
}

Status LeveledEngine::Mend() {
  Status s;
  if (!catalog_.exists()) {
    s = catalog_.Create({});
    if (s.ok()) s = LoadStore();
  } else {
    s = catalog_.Mend();
  }
  if (!s.ok()) return s;
  Persister persister(pool_->gate(), WriteCause::kCompaction);
  FreeStrays(&persister);
  s = RemoveStrayFiles();
  if (!s.ok()) return s;
  std::vector<SequenceGap> gaps = catalog_.Get().gaps;
  if (MendLog(&gaps, &persister))
    s = catalog_.Edit(LeveledEdit::kGap, [&](LeveledState* state) { state->gaps = gaps; });
  if (s.ok() && pool_->LostUnsynced()) s = LeaveLog();
  if (s.ok()) pending_frees_.FreeLogBefore(catalog_.Get().boundary);
  return s;
}

// The log of before a power cut on page media has holes anywhere, and what its chunks say of
// themselves is of another moment: what is kept of it becomes tables, and it goes as a whole. A
// crash on the way finds it as this open did.
Status LeveledEngine::LeaveLog() {
  Status s = FlushAllNow();
  if (!s.ok()) return s;
  const auto locks = log_->LockAll();
  const std::vector<LogPosition> ends = log_->SealAll();
  const uint64_t last = PublishedSequence();
  return catalog_.Edit(LeveledEdit::kGap, [&](LeveledState* state) {
    state->boundary = ends;
    state->flushed_sequence = std::max(state->flushed_sequence, last);
    state->gaps.clear();  // all are before it
  });
}

// On page media a power cut may bring back the owner of a chunk that was freed before; and what an
// edit in doubt added stays until the next open.
void LeveledEngine::CheckOwners(CheckReport* report) const {
  if (pool_->CollectDeferred() != 0 || pool_->holders()->pinned() != 0) return;
  if (catalog_.is_in_doubt()) return;
  const MutexLock lock(&uses_mu_);
  pool_->ForEachChunk([&](const ChunkRef& chunk) LAMELLA_REQUIRES(uses_mu_) {
    if (!IsRegion(chunk.kind) || uses_.contains(RegionOf(chunk.ordinal))) return;
    report->problems.push_back(Concat("part ", chunk.part, " chunk ", chunk.index,
                                      " belongs to region ", RegionOf(chunk.ordinal),
                                      ", which no table refers to"));
  });
}

Status LeveledEngine::Check(CheckReport* report) {
  Status s = FlushAllNow();
  if (!s.ok()) return s;
  const LeveledState state = catalog_.Get();
  pool_->Check(&report->problems);
  const auto read_by = [&](const ChunkRef& chunk) {
    if (chunk.kind != ChunkKind::kLog) return ReadBy::kNone;
    const bool is_flushed =
        chunk.owner < state.boundary.size() && chunk.ordinal < state.boundary[chunk.owner].ordinal;
    return is_flushed ? ReadBy::kNone : ReadBy::kScan;
  };
  CheckRecords(*pool_, {.read_by = read_by, .voids = state.gaps, .is_linked_into = nullptr},
               report);
  CurrentTables()->levels.ForEach([&](uint32_t, const auto& table) {
    report->tables++;
    table->Check(report);
  });
  CheckOwners(report);
  return Status::OK();
}

}  // namespace lamella
