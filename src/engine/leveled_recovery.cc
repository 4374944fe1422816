// Loading, mending, rebuilding and checking an engine with levels. What the catalog names is whole
// (LeveledEngine's L1), so a crash leaves nothing of it to be made anew: what it left beside is
// freed, and the log after the boundary is sorted as always.

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "base/no_throw.h"
#include "engine/leveled_engine.h"
#include "engine/skiplist_check.h"
#include "engine/table_header.h"
#include "log/gather.h"

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
  tables->infos = state.levels;
  const uint64_t seen = regions.empty() ? 0 : regions.rbegin()->first;
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
  if (pool_->state().catalog_chunk == 0) return Status::OK();
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

namespace {

// Of every key the newest version, unless that is a delete: nothing is further down.
void KeepNewest(std::vector<MergedRecord>* records) {
  std::vector<MergedRecord> kept;
  std::string_view key;
  for (const MergedRecord& record : *records) {
    const bool older = !key.empty() && record.key.user_key == key;
    key = record.key.user_key;
    if (!older && TagKind(record.key.tag) != RecordKind::kDelete) kept.push_back(record);
  }
  *records = std::move(kept);
}

// Of the same record once: a log and a table may both have it.
void Sort(std::vector<MergedRecord>* records) {
  std::ranges::sort(*records, [](const MergedRecord& a, const MergedRecord& b) {
    return CompareInternal(a.key, b.key) < 0;
  });
  const auto same = [](const MergedRecord& a, const MergedRecord& b) {
    return CompareInternal(a.key, b.key) == 0;
  };
  records->erase(std::unique(records->begin(), records->end(), same), records->end());
}

void AddAll(const LevelTable& table, std::vector<MergedRecord>* records) {
  const auto it = table.NewIterator(true);
  for (it->SeekToFirst(); it->Valid(); it->Next())
    records->push_back({it->key(), it->value(), PmPtr(it->place_word()), 0});
}

}  // namespace

Status LeveledEngine::BuildFrom(std::vector<MergedRecord> records, uint32_t level, bool copy_all,
                                const TableRegions& regions, LevelsEdit* edit) {
  if (records.empty()) return Status::OK();
  BuildPlan plan{.level = level,
                 .copy_all = copy_all,
                 .sparse = {},
                 .smallest = std::string(records.front().key.user_key),
                 .largest = std::string(records.back().key.user_key),
                 .table_bytes = level == 0 ? UINT64_MAX : rules_.table_bytes,
                 .table_records_min = rules_.table_records_min,
                 .records_max = records.size(),
                 .regions = regions,
                 .replaced = {}};
  for (const auto& [number, region] : regions) {
    if (region->kind() == kIndexRegion) plan.replaced.push_back(number);
  }
  const auto builder = NewBuilder(std::move(plan));
  MadeTables made;
  Status s;
  uint64_t newer = 0;
  for (size_t i = 0; s.ok() && i < records.size(); i++) {
    MergedRecord& record = records[i];
    record.newer = newer;
    s = builder->Add(record);
    const bool ends = i + 1 == records.size() || records[i + 1].key.user_key != record.key.user_key;
    newer = ends ? 0 : TagSequence(record.key.tag);
    if (s.ok() && ends) s = builder->EndKey();
  }
  if (s.ok()) s = builder->Finish(&made);
  for (auto& table : made) edit->added.push_back({level, std::move(table)});
  return s;
}

// A table whose index and records all validate stays; of any other what is certain is made anew, at
// its level; level 0 as a whole, whose order would be lost. Without a catalog all is made anew, in
// one level.
Status LeveledEngine::RebuildTables(const TableLevelsState& levels, bool catalog_lost,
                                    const TableRegions& regions, RepairReport* report,
                                    LevelsEdit* edit) {
  constexpr uint32_t kLevelOfAll = 1;                   // from where compaction goes on
  std::map<uint32_t, std::vector<MergedRecord>> found;  // by level, of what is made anew
  std::vector<std::shared_ptr<const LevelTable>> whole;
  const auto salvage = [&](uint32_t level, const TableInfo& info, bool must_be_made_anew) {
    std::shared_ptr<const LevelTable> table;
    CheckReport damage;
    if (OpenInfo(info, regions, &table).ok()) table->Check(&damage);
    const bool sound = table != nullptr && damage.clean();
    if (sound && !must_be_made_anew) {
      report->records_kept += info.records;
      return;
    }
    edit->removed.push_back(info.number);
    std::vector<MergedRecord>* const records = &found[catalog_lost ? kLevelOfAll : level];
    if (sound) {
      AddAll(*table, records);
      whole.push_back(table);
      return;
    }
    LevelPlace place;  // which was decoded, or its state would have been refused
    (void)LevelPlace::Decode(info.place, &place);
    uint64_t lost = 0;
    Salvage(info, place, regions, records, &lost);
    report->records_lost += lost;
    report->notes.push_back(Concat("table ", info.number, " of level ", level,
                                   " was damaged and is made anew; at most ", lost, " of its ",
                                   info.records, " records are lost"));
  };
  const auto is_damaged = [&](const auto& info) {
    std::shared_ptr<const LevelTable> table;
    CheckReport damage;
    if (!OpenInfo(*info, regions, &table).ok()) return true;
    table->Check(&damage);
    return !damage.clean();
  };
  const bool level0_damaged = std::ranges::any_of(levels.level(0), is_damaged);
  levels.ForEach([&](uint32_t level, const auto& info) {
    salvage(level, *info, catalog_lost || (level == 0 && level0_damaged));
  });
  Status s;
  for (auto& [level, records] : found) {
    Sort(&records);
    if (catalog_lost) KeepNewest(&records);
    report->records_kept += records.size();
    if (s.ok()) s = BuildFrom(std::move(records), level, false, regions, edit);
  }
  return s;
}

// The log after the boundary becomes a table of level 0.
Status LeveledEngine::RebuildLog(bool catalog_lost, RepairReport* report, LeveledState* state,
                                 LevelsEdit* edit) {
  const bool power_cut = pool_->LostUnsynced() && !catalog_lost && report->records_lost == 0;
  const Gathered gathered = GatherRecords(
      pool_, {.power_cut = power_cut,
              .catalog_lost = catalog_lost,
              .flush_copies = true,
              .gaps = state->gaps,
              .boundary = state->boundary,
              .flushed_sequence = state->flushed_sequence,
              .synced_sequence = state->flushed_sequence,
              .records_of = [](const ChunkRef& chunk) {
                return chunk.kind == ChunkKind::kLog ? RecordsOf::kLog : RecordsOf::kNone;
              }});
  report->records_lost += gathered.lost;
  std::vector<MergedRecord> records;
  for (const LogEntry& entry : gathered.kept) {
    const Record* const record = pool_->At<Record>(entry.place);
    records.push_back({record->internal_key(), record->value(), entry.place, 0});
  }
  Sort(&records);
  report->records_kept += records.size();
  LogContents contents;  // for the shards' ordinals and the numbers that were seen
  Status s = ReadLog(*pool_, {}, 0, {}, true, &contents);
  if (s.ok()) s = BuildFrom(std::move(records), 0, true, {}, edit);
  state->boundary.clear();
  for (const uint64_t ordinal : contents.next_ordinal) state->boundary.push_back({ordinal, 0});
  const uint64_t last = gathered.kept.empty() ? 0 : TagSequence(gathered.kept.back().tag);
  state->flushed_sequence =
      std::max({state->flushed_sequence, last, contents.sequence_seen, gathered.sequence_seen,
                state->gaps.empty() ? 0 : state->gaps.back().last});
  state->gaps.clear();  // all are before it
  return s;
}

// All that can be told to be a table, as if of level 0, where tables may overlap.
TableLevelsState LeveledEngine::FindLostTables(const TableRegions& regions, RepairReport* report) {
  constexpr uint64_t kRecordBytesMin = 24;
  std::vector<uint64_t> unknown;
  TableEdit<TableInfo> all;
  for (TableInfo& info : FindTables(regions, &unknown))
    all.added.push_back({0, std::make_shared<const TableInfo>(std::move(info))});
  uint64_t bytes = 0;
  for (const uint64_t number : unknown) bytes += regions.at(number)->bytes();
  if (bytes != 0) {
    report->records_lost += bytes / kRecordBytesMin;
    report->notes.push_back(Concat("of ", unknown.size(), " regions of ", bytes,
                                   " bytes in all the header is damaged: what tables they hold is "
                                   "not known without a catalog"));
  }
  TableLevelsState levels;
  if (!levels.Apply(all)) report->notes.push_back("two tables say that they have one number");
  return levels;
}

// Nothing that a catalog names is changed before the one edit: a crash leaves what can be rebuilt
// again, and strays.
Status LeveledEngine::Rebuild(RepairReport* report) {
  bool catalog_lost = !catalog_.exists();
  if (catalog_lost && pool_->state().catalog_chunk != 0) {
    const Status opened = catalog_.Open();
    catalog_lost = !opened.ok();
    if (opened.ok()) {
      const Status mended = catalog_.Mend();
      if (!mended.ok()) return mended;
    } else {
      report->notes.push_back("the catalog is lost (" + opened.ToString() +
                              "); tables are told by what they say of themselves");
    }
  }
  const TableRegions regions = FindRegions(pool_);
  LeveledState state = catalog_lost ? LeveledState() : catalog_.Get();
  if (catalog_lost) state.levels = FindLostTables(regions, report);
  state.levels.ForEach([&](uint32_t, const auto& info) {
    state.flushed_sequence = std::max(state.flushed_sequence, info->last_sequence);
  });
  if (!regions.empty())
    state.next_number = std::max(state.next_number, regions.rbegin()->first + 1);
  catalog_.Note([&](LeveledState* noted) {
    if (catalog_lost) *noted = {};
    noted->next_number = state.next_number;
    return 0;
  });
  LevelsEdit edit;
  Status s = RebuildTables(state.levels, catalog_lost, regions, report, &edit);
  if (s.ok()) s = RebuildLog(catalog_lost, report, &state, &edit);
  if (s.ok()) s = pool_->Sync();
  if (!s.ok()) return s;
  if (catalog_lost) {
    state.levels = {};
    edit.removed.clear();
  }
  LAMELLA_CHECK(state.levels.Apply(InfosOf(edit)));
  const auto change = [&](LeveledState* rebuilt) {
    state.next_number = rebuilt->next_number;
    *rebuilt = state;
  };
  if (!catalog_lost) {
    s = catalog_.Edit(LeveledEdit::kRebuild, change);
  } else {
    catalog_.Note([&](LeveledState* rebuilt) {
      change(rebuilt);
      return 0;
    });
    s = catalog_.Create(catalog_.Get());
  }
  if (!s.ok()) return s;
  for (const auto& added : edit.added) {
    for (const auto& region : added.table->regions()) region->Keep();
  }
  return pool_->Sync();
}

// On page media a power cut may bring back the owner of a chunk that was freed before.
void LeveledEngine::CheckOwners(CheckReport* report) const {
  if (pool_->CollectDeferred() != 0 || pool_->holders()->pinned() != 0) return;
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
