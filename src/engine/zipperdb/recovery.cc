// Recovery (5.1.4). Loading: the catalog names the lists; the log after the boundary is sorted into
// MemTables, which are flushed as usual. Mending: merges that a crash cut are done; copies that
// nothing names are free space. What is in two adjacent lists then, or in a MemTable too, is the
// same version twice, and one of the two goes when they meet.
// Where in-place links cannot be trusted, all lists are made anew from the records, as one.

#include <algorithm>
#include <map>

#include "engine/level_rebuild.h"
#include "engine/list_heads.h"
#include "engine/orphans.h"
#include "engine/skiplist_check.h"
#include "engine/zipperdb/zipperdb.h"

namespace lamella {

namespace {

// No chunk has it: what flushes copied and no list owns is free, whatever is in it.
constexpr uint32_t kNoArena = UINT32_MAX;

}  // namespace

void ZipperDb::MakeArenas() {
  std::vector<uint64_t> next(kMergeRuns + kZipperDbLevelsMax, 1);
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == kZipperDbArena && chunk.owner < next.size())
      next[chunk.owner] = std::max(next[chunk.owner], chunk.ordinal + 1);
  });
  // A freed chunk's ordinal must not come back while a list's runs, or a merge's, reach over it.
  const ZipperDbState state = catalog_.Get();
  const auto reserve = [&next](const Runs& runs) {
    if (!runs.empty() && runs.owner < next.size())
      next[runs.owner] = std::max(next[runs.owner], runs.end);
  };
  reserve(state.flush.merge.copies);
  for (const ZipperListState& list : state.lists) {
    reserve(list.merge.copies);
    for (const Runs& runs : list.runs) reserve(runs);
  }
  flush_run_ = std::make_unique<RunWriter>(pool_, kFlushRuns, next[kFlushRuns], WriteCause::kFlush);
  merge_runs_.clear();
  for (uint32_t level = 0; level < kZipperDbLevelsMax; level++) {
    const uint32_t owner = kMergeRuns + level;
    merge_runs_.push_back(
        std::make_unique<RunWriter>(pool_, owner, next[owner], WriteCause::kCompaction));
  }
  gc_first_ordinal_ = next[kGcRuns];
  space_.gc()->Start(kZipperDbArena, kGcRuns, gc_first_ordinal_);
}

std::shared_ptr<ZipperList> ZipperDb::OpenList(const ZipperListState& state) {
  const std::shared_ptr<ZipperList> list =
      state.id == kBottomList ? bottom_ : std::make_shared<ZipperList>(state.id, Around(false));
  list->level.Open({.heads = pool_->At<SkipListHeads>(state.heads),
                    .count = state.count,
                    .live_bytes = state.live_bytes,
                    .merged_sequence = state.last_sequence});
  list->bytes.store(state.bytes, std::memory_order_relaxed);
  list->to_bottom.store(state.merge.into == kBottomList, std::memory_order_relaxed);
  return list;
}

// Persist order: heads, then the catalog, whose publication in the superblock makes both the
// store's. A crash before it leaves chunks without a live owner, which the next open frees.
Status ZipperDb::CreateEmpty(bool rebuilding) {
  // Of a catalog that is lost nothing is to be believed: not what it says of copies either.
  catalog_.FreeStrays(&persister_);
  FreeStrayHeads(pool_, kZipperDbHeads, {}, &persister_);
  ZipperListState bottom{.id = kBottomList};
  Status s = ClaimHeads(pool_, kZipperDbHeads, &persister_, &bottom.heads, kBottomList);
  if (!s.ok()) return s;
  if (rebuilding) AddAllArenas(&bottom);
  ZipperDbState state;
  state.lists.push_back(bottom);
  state.rebuilding = rebuilding;
  // Of a catalog that is lost it is not known, nor by who goes on where this rebuilding is cut.
  if (rebuilding) state.synced_sequence = kSyncedUnknown;
  return catalog_.Create(std::move(state));
}

// What a rebuilding gathers may lie in any of them. One run of each owner, over ordinals that gc
// has freed, too, and that do not come back (MakeArenas): a run for each chunk beside them would be
// in every edit, and asked of every chunk.
void ZipperDb::AddAllArenas(ZipperListState* bottom) const {
  std::map<uint32_t, Runs> all;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != kZipperDbArena || chunk.owner == kGcRuns) return;
    const Runs one{chunk.owner, chunk.ordinal, chunk.ordinal + 1};
    Runs& runs = all.try_emplace(chunk.owner, one).first->second;
    runs.first = std::min(runs.first, one.first);
    runs.end = std::max(runs.end, one.end);
  });
  for (const auto& [owner, runs] : all) bottom->Add(runs);
}

Status ZipperDb::OpenCatalog() {
  Status s = catalog_.Open();
  if (!s.ok()) return s;
  const ZipperDbState state = catalog_.Get();
  if (state.lists.empty())
    return Status::Corruption(
        "the catalog names no list; `lamella repair` rebuilds it from the records");
  for (const ZipperListState& list : state.lists) {
    if (s.ok()) s = CheckHeads(*pool_, list.heads, 1);
  }
  return s;
}

// Catalogs, heads, and, where it is known what the lists have, copies (S2).
void ZipperDb::FreeStrayChunks() {
  catalog_.FreeStrays(&persister_);
  const ZipperDbState state = catalog_.Get();
  std::vector<PmPtr> heads;
  for (const ZipperListState& list : state.lists) heads.push_back(list.heads);
  FreeStrayHeads(pool_, kZipperDbHeads, heads, &persister_);
  std::vector<ChunkRef> stray;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == kZipperDbArena && state.OwnerOf(chunk) == 0 && !state.IsBeingMerged(chunk))
      stray.push_back(chunk);
  });
  for (const ChunkRef& chunk : stray) pool_->Free(chunk, &persister_);
}

Status ZipperDb::MendVoids() {
  std::vector<SequenceGap> gaps = catalog_.Get().gaps;
  if (!MendLog(&gaps, &persister_)) return Status::OK();
  return catalog_.Edit(ZipperDbEdit::kGap, [&](ZipperDbState* state) { state->gaps = gaps; });
}

// The copies of a flush that was cut short are all of its MemTable, wherever its merge stopped.
Status ZipperDb::LoadFlush(const FlushState& flush) {
  SortedRun run;
  Status s = RecordsOfRuns(*pool_, flush.merge.copies, &run);
  if (!s.ok()) return s;
  cut_flush_ = std::make_shared<MemTable>(pool_, 0, context_.memory);
  for (const PmPtr place : run.places) {
    const Record* record = pool_->At<Record>(place);
    cut_flush_->Add(record->key(), record->tag(), place, nullptr);
  }
  cut_flush_->Seal(flush.last_sequence, flush.boundary);
  return s;
}

// A merge that was under way needs no mending to be read: its list leads on into the one below
// (Zipper I1), and of copies the originals are there.
Status ZipperDb::LoadStore() {
  ZipperDbState state = catalog_.Get();
  for (const ZipperListState& list : state.lists) {
    Status s = CheckHeadsOf(*pool_, list.heads, list.id);
    if (!s.ok()) return s;
  }
  auto tables = std::make_shared<ZipperDbTables>();
  tables->bottom_level = state.bottom()->level;
  OpenList(*state.bottom());
  for (size_t i = 0; i + 1 < state.lists.size(); i++)
    tables->uppers.push_back(
        {state.lists[i].level, state.lists[i].frozen, OpenList(state.lists[i])});
  if (state.flush.merge.into != 0) {
    Status s = LoadFlush(state.flush);
    if (!s.ok()) return s;
    state.boundary = state.flush.boundary;
    state.flushed_sequence = state.flush.last_sequence;
  }
  return LoadLog({.unified = false,
                  .boundary = std::move(state.boundary),
                  .flushed_sequence = state.flushed_sequence,
                  .gaps = std::move(state.gaps)},
                 std::move(tables), cut_flush_);
}

Status ZipperDb::Load() {
  if (pool_->state().catalog_chunk == 0) return Status::OK();
  Status s = OpenCatalog();
  return s.ok() && !MustRebuild() ? LoadStore() : s;
}

Status ZipperDb::RedoMerges() {
  Status s = FinishMerges();
  if (s.ok() && cut_flush_ != nullptr) s = MergeMemTable(*cut_flush_);
  if (s.ok()) cut_flush_ = nullptr;
  return s;
}

Status ZipperDb::Mend() {
  const bool create = !catalog_.exists();
  const bool rebuild = !create && MustRebuild();
  const bool crashed = !create && !rebuild && !pool_->state().clean;
  Status s;
  if (create) {
    s = CreateEmpty(false);
  } else {
    s = catalog_.Mend();
  }
  if (!s.ok()) return s;
  const bool uncounted = catalog_.Get().uncounted && !rebuild;  // rebuilding counts
  if (rebuild) {
    RepairReport report;
    s = RebuildAll(false, &report);
    if (!s.ok()) return s;
  }
  FreeStrayChunks();
  MakeArenas();
  if (!create) space_.Prepare(crashed, uncounted);
  if (create || rebuild) s = LoadStore();
  if (s.ok()) s = MendVoids();
  if (s.ok()) s = RedoMerges();
  if (s.ok() && crashed) {
    s = MarkOrphans(pool_, {kZipperDbArena, kNoArena, kGcRuns}, catalog_.Get().flushed_sequence,
                    &bottom_->level, &dead_);
  }
  {
    const MutexLock lock(&jobs_.mu);
    guides_are_cold_ = !create && guide_bytes_ != 0;
  }
  if (create && guide_bytes_ != 0) bottom_->level.BeginEmpty();
  return s;
}

// Each list's guide from one walk, while nobody changes it.
void ZipperDb::Warm() {
  if (prefixes() == nullptr) SetPrefixes(KeyPrefixes::Learn(bottom_->level.SampleKeys()));
  ShareGuides();
  const auto warm = [this](PmLevel* level) {
    level->second_chance()->Fit(prefixes());
    level->Warm(std::nullopt);
  };
  const auto tables = CurrentTables();
  for (const UpperList& upper : tables->uppers) warm(&upper.list->level);
  ShareGuides();
  warm(&bottom_->level);
  ShareGuides();
}

GatherBasis ZipperDb::BasisOfGathering(bool power_cut, bool catalog_lost) const {
  ZipperDbState state = catalog_.Get();
  GatherBasis basis{.power_cut = power_cut,
                    .catalog_lost = catalog_lost,
                    .flush_copies = true,
                    .gaps = state.gaps,
                    .boundary = state.boundary,
                    .flushed_sequence = state.flushed_sequence,
                    .synced_sequence = std::max(state.synced_sequence, pool_->SyncedThrough()),
                    .records_of = nullptr};
  basis.records_of = [state = std::move(state), catalog_lost](const ChunkRef& chunk) {
    if (chunk.kind == ChunkKind::kLog) return RecordsOf::kLog;
    if (chunk.kind != kZipperDbArena) return RecordsOf::kNone;
    // Copies are whole before anything names them.
    const bool named = catalog_lost || state.OwnerOf(chunk) != 0 || state.IsBeingMerged(chunk);
    return named ? RecordsOf::kGarbageCollection : RecordsOf::kNone;
  };
  return basis;
}

Status ZipperDb::Rebuild(RepairReport* report) { return RebuildAll(true, report); }

// Persist order, and what a crash after each step leaves:
//   1  the edit kRebuildBegin    the next open rebuilds again
//   2  links and marks           the same; the new heads are in a chunk that no state names
//   3  the edit kRebuildDone     the bottom list has all; no other list, no log after the boundary
Status ZipperDb::RebuildAll(bool may_lose, RepairReport* report) {
  bool catalog_lost = false;
  Status s =
      catalog_.OpenOrLose([this] { return OpenCatalog(); },
                          "numbers declared void are not known, and what was deleted may be back",
                          &report->notes, &catalog_lost);
  if (!s.ok()) return s;
  // Without a catalog it is not known what was synced; and where chunks are lost, a number that is
  // missing does not tell that what follows never was. Then everything that validates is kept.
  const bool is_unknown =
      IsSyncedUnknown(*pool_, catalog_lost, catalog_.Get().synced_sequence, report);
  const bool power_cut = pool_->LostUnsynced() && report->records_lost == 0 && !is_unknown;
  if (catalog_lost) {
    s = CreateEmpty(true);  // with rebuilding in it: a crash must not leave an empty store
  } else {
    FreeStrayChunks();  // what they hold is in other chunks, or gone
  }
  if (s.ok()) {
    s = catalog_.Edit(ZipperDbEdit::kRebuildBegin,
                      [](ZipperDbState* state) { state->rebuilding = true; });
  }
  if (s.ok()) s = pool_->Sync();
  if (!s.ok()) return s;
  MakeArenas();
  RebuiltLevel rebuilt;
  s = RebuildLevel(pool_, BasisOfGathering(power_cut, catalog_lost || is_unknown), may_lose,
                   kZipperDbHeads, false, space_.gc(), &dead_, &persister_, &rebuilt, kBottomList);
  report->records_lost += rebuilt.records_lost;
  if (!s.ok()) return s;
  s = catalog_.Edit(ZipperDbEdit::kRebuildDone, [&](ZipperDbState* state) {
    const uint64_t seen = DeclareVoid(rebuilt, state->flushed_sequence, &state->gaps);
    ZipperListState bottom{.id = kBottomList,
                           .heads = rebuilt.heads,
                           .count = rebuilt.linked.count,
                           .live_bytes = rebuilt.linked.live_bytes,
                           .last_sequence = seen};
    bottom.level = LevelOf(bottom.live_bytes + bottom.count * kRecordOverhead);
    AddAllArenas(&bottom);
    state->lists.assign(1, bottom);
    state->flush = {};
    state->uncounted = false;
    state->boundary = rebuilt.log_end;
    state->flushed_sequence = state->synced_sequence = seen;
    state->rebuilding = false;
  });
  if (s.ok()) s = pool_->Sync();
  if (s.ok()) NoteReach(*pool_, rebuilt.reach);
  report->records_kept += rebuilt.linked.count;
  return s;
}

Status ZipperDb::Check(CheckReport* report) {
  Status s = FlushAllNow();
  if (!s.ok()) return s;
  const ZipperDbState state = catalog_.Get();
  const auto read_by = [&](const ChunkRef& chunk) {
    if (chunk.kind == kZipperDbArena)
      return state.OwnerOf(chunk) != 0 ? ReadBy::kLinks : ReadBy::kNone;
    if (chunk.kind != ChunkKind::kLog) return ReadBy::kNone;
    const bool is_copied =
        chunk.owner < state.boundary.size() && chunk.ordinal < state.boundary[chunk.owner].ordinal;
    return is_copied ? ReadBy::kLinks : ReadBy::kScan;
  };
  const uint64_t records = CheckRecords(
      *pool_,
      {.read_by = read_by,
       .voids = state.gaps,
       .is_linked_into = [this](const DamagedPlace& at) { return IsLinkedInto({at}); }},
      report);
  const auto check = [&](const ZipperList& list, const char* name) {
    // What a merge that was cut short left out is marked, and in its list still.
    const bool merging = list.to_bottom.load(std::memory_order_relaxed);
    CheckSkipList(*pool_, *list.level.list(),
                  {.name = name, .elements_max = records, .obsolete_is_damage = !merging}, report);
  };
  const auto tables = CurrentTables();
  for (const UpperList& upper : tables->uppers) check(*upper.list, "an upper list");
  check(*bottom_, "the bottom list");
  return Status::OK();
}

}  // namespace lamella
