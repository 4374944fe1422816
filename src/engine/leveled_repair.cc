// Making an engine with levels anew from what is left of it: tables, their lists, and the records
// themselves.

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "engine/leveled_engine.h"
#include "engine/log_recovery.h"
#include "engine/lost_records.h"
#include "engine/needed_versions.h"
#include "engine/table_header.h"
#include "iterator/merging_iterator.h"

namespace lamella {

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
                                bool in_file, const TableRegions& regions,
                                const std::set<uint64_t>& replaced, LevelsEdit* edit) {
  if (records.empty()) return Status::OK();
  BuildPlan plan{.level = level,
                 .in_file = in_file,
                 .copy_all = copy_all,
                 .sparse = {},
                 .smallest = std::string(records.front().key.user_key),
                 .largest = std::string(records.back().key.user_key),
                 .table_bytes = level == 0 ? UINT64_MAX : rules().table_bytes,
                 .table_records_min = rules_.table_records_min,
                 .records_max = records.size(),
                 .regions = regions,
                 .replaced = {replaced.begin(), replaced.end()}};
  MadeTables made;
  Status s;
  do {
    const auto builder = BuilderOf(plan);
    uint64_t newer = 0;
    s = Status::OK();
    for (size_t i = 0; s.ok() && i < records.size(); i++) {
      MergedRecord& record = records[i];
      record.newer = newer;
      s = builder->Add(record);
      const bool ends =
          i + 1 == records.size() || records[i + 1].key.user_key != record.key.user_key;
      newer = ends ? 0 : TagSequence(record.key.tag);
      if (s.ok() && ends) s = builder->EndKey();
    }
    if (s.ok()) s = builder->Finish(&made);
  } while (s.IsNoSpace() && CutShorter(&plan));
  for (auto& table : made) edit->added.push_back({level, std::move(table)});
  return s;
}

namespace {

// Of a store without a catalog: from where compaction goes on.
constexpr uint32_t kLevelOfAll = 1;

struct SoundTable {
  uint32_t level = 0;
  std::shared_ptr<const LevelTable> table;
};

struct DamagedTable {
  uint32_t level = 0;
  std::shared_ptr<const TableInfo> info;
  LevelPlace place;
  std::vector<MergedRecord> kept;
  std::vector<LostRun> lost;
  // What `kept` views of a table in a file: it stays where it is as the table moves.
  std::unique_ptr<std::deque<std::string>> owned = std::make_unique<std::deque<std::string>>();

  bool in_file() const { return place.regions.empty(); }

  uint64_t lost_records() const {
    uint64_t records = 0;
    for (const LostRun& run : lost) records += run.records;
    return records;
  }
  bool has_damaged_records() const {
    return std::ranges::any_of(lost, [](const LostRun& run) { return run.damaged != 0; });
  }
  /// Of its records, as the catalog knows them.
  uint64_t record_bytes(const TableRegions& regions) const {
    uint64_t bytes = 0;
    for (const RegionShare& share : place.regions) {
      const auto region = regions.find(share.region);
      const bool is_index = share.region == info->number ||
                            (region != regions.end() && region->second->kind() == kIndexRegion);
      bytes += is_index ? 0 : share.bytes;
    }
    return bytes;
  }
};

// A vector that grows would copy it, and leave `kept` with views of what is gone.
static_assert(!std::is_copy_constructible_v<DamagedTable>);

uint64_t BytesOf(const std::vector<MergedRecord>& records) {
  uint64_t bytes = 0;
  for (const MergedRecord& record : records)
    bytes += RecordBytes(0, record.key.user_key.size(), record.value.size());
  return bytes;
}

// What is left of a table's file.
Status SalvageFile(const FileTables& files, DamagedTable* table) {
  if (files.ssts().IsAnother(*table->info)) {
    table->lost.push_back({{}, table->info->records});
    return Status::OK();
  }
  SstSalvage salvage;
  const Status s = files.ssts().Salvage(
      table->info->number,
      [table](const InternalKey& key, std::string_view value) {
        const std::string& own_key = table->owned->emplace_back(key.user_key);
        const std::string& own_value = table->owned->emplace_back(value);
        table->kept.push_back({{own_key, key.tag}, own_value, PmPtr(), 0});
        return Status::OK();
      },
      &salvage);
  if (const uint64_t lost = salvage.LostAtMost(table->info->records); lost != 0)
    table->lost.push_back({{}, lost});
  return s.IsNotFound() ? Status::OK() : s;
}

// Walks sorted records, forwards.
class RecordsIterator final : public InternalIterator {
 public:
  /// They outlive it.
  explicit RecordsIterator(const std::vector<MergedRecord>* records) : records_(records) {}
  bool Valid() const override { return at_ < records_->size(); }
  void SeekToFirst() override { at_ = 0; }
  void SeekToLast() override { LAMELLA_CHECK(false); }
  void Seek(const InternalKey&) override { LAMELLA_CHECK(false); }
  void SeekForPrev(const InternalKey&) override { LAMELLA_CHECK(false); }
  void Next() override { at_++; }
  void Prev() override { LAMELLA_CHECK(false); }
  InternalKey key() const override { return (*records_)[at_].key; }
  std::string_view value() const override { return (*records_)[at_].value; }
  Status status() const override { return Status::OK(); }

 private:
  const std::vector<MergedRecord>* const records_;
  size_t at_ = SIZE_MAX;
};

void NameAll(const std::vector<SoundTable>& sound, const std::vector<DamagedTable>& damaged,
             LostRecords* records) {
  for (const auto& [level, table] : sound) {
    const auto it = table->NewIterator(true);
    for (it->SeekToFirst(); it->Valid(); it->Next()) records->Name(it->key());
  }
  for (const DamagedTable& table : damaged) {
    for (const MergedRecord& record : table.kept) records->Name(record.key);
  }
}

// What a table is known to have had, and no list says: it is kept where it may be the newest. Where
// what is found adds up to what was lost, nothing is; else any of it may have been deleted since.
void FindAgain(const Pool& pool, const TableRegions& regions, const std::vector<SoundTable>& sound,
               std::vector<DamagedTable>* damaged, RepairReport* report) {
  LostRecords records(pool, regions);
  for (const DamagedTable& table : *damaged) {
    for (const RegionShare& share : table.place.regions) records.LookIn(share.region, table.lost);
  }
  NameAll(sound, *damaged, &records);
  const auto looks = records.Find();
  auto look = looks.begin();
  for (DamagedTable& table : *damaged) {
    const uint64_t lost = table.lost_records();
    if (table.in_file()) {
      report->records_lost += lost;
      report->notes.push_back(Concat("table ", table.info->number, " of level ", table.level,
                                     ", in a file, was damaged and is made anew; of its ",
                                     table.info->records, " records ", lost, " are lost"));
      continue;
    }
    const size_t before = table.kept.size();
    for (size_t i = 0; i < table.place.regions.size(); i++, ++look)
      table.kept.insert(table.kept.end(), look->begin(), look->end());
    const uint64_t found = table.kept.size() - before;
    const bool all = found == lost && !table.has_damaged_records() &&
                     (lost == 0 || BytesOf(table.kept) == table.record_bytes(regions));
    if (!all) report->records_lost += lost + found;
    report->notes.push_back(
        all ? Concat("table ", table.info->number, " of level ", table.level,
                     " was damaged and is made anew; all of its records are found")
            : Concat("table ", table.info->number, " of level ", table.level,
                     " was damaged and is made anew; of its ", table.info->records, " records ",
                     lost, " are in no list any more: ", found,
                     " that lie in its regions are kept, "
                     "of which some may have been deleted since"));
  }
}

// Without a catalog, where lists may be lost of which nothing is known: any record of a region that
// no list names.
std::vector<MergedRecord> FindAnywhere(const Pool& pool, const TableRegions& regions,
                                       const std::vector<SoundTable>& sound,
                                       const std::vector<DamagedTable>& damaged,
                                       RepairReport* report) {
  LostRecords records(pool, regions);
  for (const auto& [number, region] : regions) records.LookIn(number, {LostRun{}});
  NameAll(sound, damaged, &records);
  std::vector<MergedRecord> all;
  for (const auto& look : records.Find()) all.insert(all.end(), look.begin(), look.end());
  report->records_lost += all.size();
  for (const DamagedTable& table : damaged) report->records_lost += table.lost_records();
  if (!all.empty()) {
    report->notes.push_back(Concat(all.size(),
                                   " records that no list names are kept, of which "
                                   "some may have been deleted since"));
  }
  return all;
}

// All index regions that there are.
std::set<uint64_t> IndexesOf(const TableRegions& regions) {
  std::set<uint64_t> indexes;
  for (const auto& [number, region] : regions) {
    if (region->kind() == kIndexRegion) indexes.insert(number);
  }
  return indexes;
}

// Those of the tables with keys in a range.
std::set<uint64_t> IndexesOf(const TableRegions& regions,
                             const std::vector<std::pair<KeyRange, const LevelPlace*>>& tables,
                             std::string_view smallest, std::string_view largest) {
  std::set<uint64_t> indexes;
  for (const auto& [keys, place] : tables) {
    if (!keys.Overlaps(smallest, largest)) continue;
    for (const RegionShare& share : place->regions) {
      const auto region = regions.find(share.region);
      if (region != regions.end() && region->second->kind() == kIndexRegion)
        indexes.insert(share.region);
    }
  }
  return indexes;
}

// Sorted records of a level, cut where a table that stays lies between two of them. Of level 0 none
// does.
std::vector<std::vector<MergedRecord>> CutAt(const std::vector<SoundTable>& sound, uint32_t level,
                                             const std::vector<MergedRecord>& records) {
  std::set<std::string_view> starts;
  for (const SoundTable& at : sound) {
    if (at.level == level && level != 0) starts.insert(at.table->info().smallest);
  }
  std::vector<std::vector<MergedRecord>> pieces;
  std::string_view before;
  for (const MergedRecord& record : records) {
    const std::string_view key = record.key.user_key;
    const auto start = starts.upper_bound(before);
    if (pieces.empty() || (start != starts.end() && *start < key)) pieces.emplace_back();
    before = key;
    pieces.back().push_back(record);
  }
  return pieces;
}

}  // namespace

// A table whose index and records all validate stays; any other is made anew at its level, of what
// is left of it; level 0 as a whole, whose order would be lost. Without a catalog all is made anew,
// in one level.
Status LeveledEngine::RebuildTables(const TableLevelsState& levels, bool catalog_lost,
                                    const TableRegions& regions, RepairReport* report,
                                    LevelsEdit* edit) {
  std::vector<SoundTable> sound;
  std::vector<DamagedTable> damaged;
  Status s;
  const auto sort_out = [&](uint32_t level, const std::shared_ptr<const TableInfo>& info,
                            const Status& opened, std::shared_ptr<const LevelTable> table) {
    CheckReport problems;
    if (opened.ok()) table->Check(&problems);
    if (opened.ok() && problems.clean()) {
      sound.push_back({level, std::move(table)});
      return;
    }
    if (!opened.ok() && !opened.IsCorruption()) s = opened;  // what may be whole is not given up
    DamagedTable& at = damaged.emplace_back(DamagedTable{.level = level, .info = info});
    // It was decoded, or its state would have been refused.
    (void)LevelPlace::Decode(info->place, &at.place);
    if (!at.in_file()) {
      Salvage(*info, at.place, regions, &at.kept, &at.lost);
    } else if (s.ok() && files_ != nullptr) {
      s = SalvageFile(*files_, &at);
    }
  };
  levels.ForEach([&](uint32_t level, const auto& info) {
    std::shared_ptr<const LevelTable> table;
    const Status opened = OpenInfo(*info, regions, &table);
    sort_out(level, info, opened, std::move(table));
  });
  std::vector<uint64_t> numbers;
  if (s.ok() && catalog_lost && files_ != nullptr) s = files_->ssts().FindNumbers(&numbers);
  for (size_t i = 0; s.ok() && i < numbers.size(); i++) {
    std::shared_ptr<const LevelTable> table;
    const Status opened = files_->OpenLost(numbers[i], &table);
    TableInfo info;
    info.number = numbers[i];
    info.place = LevelPlace().Encode();
    sort_out(0, std::make_shared<const TableInfo>(std::move(info)), opened, std::move(table));
  }
  if (!s.ok()) return s;
  const bool lists_lost = report->records_lost != 0 || !damaged.empty();
  std::map<uint32_t, std::vector<MergedRecord>> found;  // by level, of what is made anew
  std::set<uint32_t> in_files;                          // of these levels to files
  Levels::Level files;                                  // without a catalog
  if (!catalog_lost) {
    FindAgain(*pool_, regions, sound, &damaged, report);
  } else if (lists_lost) {
    found[kLevelOfAll] = FindAnywhere(*pool_, regions, sound, damaged, report);
  }
  // The tables of which those of a level are made anew. None that stays, and of each piece none of
  // another: a later repair, without the catalog, would take it for one without records.
  std::map<uint32_t, std::vector<std::pair<KeyRange, const LevelPlace*>>> replaced;
  const bool level0_damaged = std::ranges::count(damaged, 0u, &DamagedTable::level) != 0;
  for (const auto& [level, table] : sound) {
    if (!catalog_lost && (level != 0 || !level0_damaged)) {
      report->records_kept += table->info().records;
      continue;
    }
    replaced[level].push_back({{table->info().smallest, table->info().largest}, &table->place()});
    edit->removed.push_back(table->info().number);
    if (table->in_file()) {
      files.push_back(table);
    } else {
      AddAll(*table, &found[catalog_lost ? kLevelOfAll : level]);
    }
  }
  for (const DamagedTable& table : damaged) {
    const uint32_t level = catalog_lost ? kLevelOfAll : table.level;
    edit->removed.push_back(table.info->number);
    KeyRange keys;  // all: any piece may stand for a table of which nothing is left
    if (!table.kept.empty()) keys = {table.info->smallest, table.info->largest};
    replaced[level].push_back({std::move(keys), &table.place});
    std::vector<MergedRecord>& records = found[level];
    records.insert(records.end(), table.kept.begin(), table.kept.end());
    if (table.in_file()) in_files.insert(level);
  }
  if (!files.empty()) return MergeFiles(files, std::move(found[kLevelOfAll]), report, edit);
  for (auto& [level, records] : found) {
    Sort(&records);
    if (catalog_lost) KeepNewest(&records);
    report->records_kept += records.size();
    for (auto& piece : CutAt(sound, level, records)) {
      const std::set<uint64_t> indexes =
          catalog_lost ? IndexesOf(regions)
                       : IndexesOf(regions, replaced[level], piece.front().key.user_key,
                                   piece.back().key.user_key);
      if (s.ok())
        s = BuildFrom(std::move(piece), level, false, in_files.contains(level), regions, indexes,
                      edit);
    }
  }
  return s;
}

// Of every key the newest, of tables in files, which may be more than DRAM has, and of what was
// found beside them. No catalog says what their tables replaced: what was deleted and then dropped
// may be back from a file that a crash left.
Status LeveledEngine::MergeFiles(const Levels::Level& files, std::vector<MergedRecord> records,
                                 RepairReport* report, LevelsEdit* edit) {
  Sort(&records);
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(std::make_unique<RecordsIterator>(&records));
  for (const auto& table : files) children.push_back(table->NewMergeIterator(true));
  const auto all = NewMergingIterator(std::move(children));
  const auto builder = files_->NewBuilder(
      {.level = kLevelOfAll, .in_file = true, .table_bytes = rules().table_bytes});
  MadeTables made;
  Status s = ForEachNeeded(
      all.get(), context_.snapshots->Now(), [](std::string_view) { return false; },
      [&](const NeededRecord& record) {
        report->records_kept++;
        return builder->Add({record.key, record.value, PmPtr(), record.newer});
      },
      [&] { return builder->EndKey(); });
  if (s.ok()) s = builder->Finish(&made);
  for (auto& table : made) edit->added.push_back({kLevelOfAll, std::move(table)});
  report->notes.push_back(Concat("the records of ", files.size(),
                                 " tables in files are kept; without a catalog it is not known "
                                 "whether one of them was to go, and what was deleted is back"));
  return s;
}

namespace {

// `have`: a table that was made anew has that version, or a newer one of its key. What is damaged
// there it has not.
Status HaveIt(const LevelsEdit& made, const InternalKey& key, bool* have) {
  *have = false;
  for (const auto& added : made.added) {
    const TableInfo& info = added.table->info();
    if (key.user_key < info.smallest || info.largest < key.user_key) continue;
    const auto it = added.table->NewIterator(true);
    it->Seek({key.user_key, kTagFirst});
    if (!it->status().ok() && !it->status().IsCorruption()) return it->status();
    if (!it->Valid() || it->key().user_key != key.user_key || it->key().tag < key.tag) continue;
    *have = true;
    break;
  }
  return Status::OK();
}

}  // namespace

// The log after the boundary becomes a table of level 0; without a catalog what is not in tables.
Status LeveledEngine::RebuildLog(bool catalog_lost, RepairReport* report, LeveledState* state,
                                 LevelsEdit* edit, std::vector<ChunkReach>* reach) {
  Gathered gathered;
  Status s = GatherUnflushed(pool_, catalog_lost, report,
                             {&state->flushed_sequence, &state->boundary, &state->gaps}, &gathered);
  if (!s.ok()) return s;
  *reach = std::move(gathered.reach);
  std::vector<MergedRecord> records;
  for (const LogEntry& entry : gathered.kept) {
    const Record* const record = pool_->At<Record>(entry.place);
    bool have = false;
    if (catalog_lost) s = HaveIt(*edit, record->internal_key(), &have);
    if (!s.ok()) return s;
    if (!have) records.push_back({record->internal_key(), record->value(), entry.place, 0});
  }
  Sort(&records);
  report->records_kept += records.size();
  return BuildFrom(std::move(records), 0, true, false, {}, {}, edit);
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

namespace {

// Those that tables refer to: others a crash left, with what may never have been written.
TableRegions RegionsOf(const TableLevelsState& levels, const TableRegions& all) {
  TableRegions regions;
  levels.ForEach([&](uint32_t, const auto& info) {
    LevelPlace place;
    if (!LevelPlace::Decode(info->place, &place)) return;
    for (const RegionShare& share : place.regions) {
      const auto at = all.find(share.region);
      if (at != all.end()) regions.insert(*at);
    }
  });
  return regions;
}

}  // namespace

// Nothing that a catalog names is changed before the one edit: a crash leaves what can be rebuilt
// again, and strays.
Status LeveledEngine::Rebuild(RepairReport* report) {
  bool catalog_lost = false;
  Status s = catalog_.OpenOrLose([this] { return catalog_.Open(); },
                                 "tables are told by what they say of themselves", &report->notes,
                                 &catalog_lost);
  if (!s.ok()) return s;
  const TableRegions regions = FindRegions(pool_);
  LeveledState state = catalog_lost ? LeveledState() : catalog_.Get();
  if (catalog_lost) state.levels = FindLostTables(regions, report);
  state.levels.ForEach([&](uint32_t, const auto& info) {
    state.flushed_sequence = std::max(state.flushed_sequence, info->last_sequence);
  });
  if (!regions.empty())
    state.next_number = std::max(state.next_number, regions.rbegin()->first + 1);
  if (files_ != nullptr) {
    uint64_t last = 0;
    s = files_->ssts().FindLastNumber(&last);
    if (!s.ok()) return s;
    state.next_number = std::max(state.next_number, last + 1);
  }
  catalog_.Note([&](LeveledState* noted) {
    if (catalog_lost) *noted = {};
    noted->next_number = state.next_number;
    return 0;
  });
  LevelsEdit edit;
  s = RebuildTables(state.levels, catalog_lost,
                    catalog_lost ? regions : RegionsOf(state.levels, regions), report, &edit);
  uint64_t in_tables = state.flushed_sequence;
  for (const auto& added : edit.added)  // of files, too, that no catalog told of
    in_tables = std::max(in_tables, added.table->info().last_sequence);
  if (s.ok() && catalog_lost) state.flushed_sequence = FlushedForSure(*pool_, in_tables);
  std::vector<ChunkReach> reach;
  if (s.ok()) s = RebuildLog(catalog_lost, report, &state, &edit, &reach);
  state.flushed_sequence = std::max(state.flushed_sequence, in_tables);
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
  // Whether one that was to be made is there where it failed is not known before the next open.
  if (s.ok() || catalog_lost || catalog_.is_in_doubt()) KeepTables(edit);
  if (s.ok()) s = pool_->Sync();
  if (s.ok()) NoteReach(*pool_, reach);
  return s;
}

}  // namespace lamella
