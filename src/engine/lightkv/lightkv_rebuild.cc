// Making a store anew from what is left of it: tables, and the records of the log.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "engine/lightkv/lightkv.h"
#include "file/table_file_name.h"
#include "iterator/merging_iterator.h"
#include "log/gather.h"
#include "sst/sst_salvage.h"

namespace lamella {

namespace {

constexpr uint64_t kRecordBytesMin = 24;

}  // namespace

Status LightKv::ListTables(std::vector<uint64_t>* numbers) const {
  std::vector<std::string> names;
  Status s = context_.files->ListDirectory(context_.directory, &names);
  for (const std::string& name : names) {
    if (const auto number = TableFileNumber(name)) numbers->push_back(*number);
  }
  return s;
}

SstIdentity LightKv::IdentityOf(uint64_t number) const {
  return {.store = pool_->state().uuid, .number = number};
}

Status LightKv::Salvage(uint64_t number, uint64_t records, RepairReport* report,
                        std::shared_ptr<const Sst>* table) {
  const uint64_t into = NewNumber();
  SstBuilder builder(context_.files, context_.directory, IdentityOf(into), {});
  SstSalvage salvage;
  Status s = SalvageSst(
      context_.files, context_.directory, IdentityOf(number),
      [&](const InternalKey& key, std::string_view value) { return builder.Add(key, value); },
      &salvage);
  if (!s.ok() && !s.IsNotFound()) return s;
  const uint64_t lost = records != 0 ? records - std::min(records, salvage.records)
                                     : salvage.lost_bytes / kRecordBytesMin;
  report->records_lost += lost;
  report->notes.push_back(Concat("table ", number, " is damaged or missing; ", salvage.records,
                                 " of its records are kept, at most ", lost, " are lost"));
  if (builder.records() == 0) return Status::OK();
  s = builder.Finish();
  return s.ok() ? Sst::Open(context_.files, context_.directory, IdentityOf(into), {}, table) : s;
}

Status LightKv::FindTable(uint64_t number, uint64_t records, RepairReport* report, bool* sound,
                          std::shared_ptr<const Sst>* table) {
  Status s = Sst::Open(context_.files, context_.directory, IdentityOf(number), {}, table);
  if (!s.ok() && !s.IsCorruption() && !s.IsNotFound()) return s;
  Status read;
  *sound = s.ok();
  if (s.ok()) {
    (*table)->Check([&](const Status& problem) {
      *sound = false;
      if (!problem.IsCorruption()) read = problem;
    });
  }
  if (!read.ok() || *sound) return read;
  table->reset();
  return Salvage(number, records, report, table);
}

Status LightKv::FindTables(const TableLevelsState& levels, const std::vector<uint64_t>& files,
                           bool catalog_lost, RepairReport* report, FoundTables* found) {
  std::vector<std::pair<uint64_t, uint64_t>> wanted;  // numbers, and records where that is known
  levels.ForEach(
      [&](uint32_t, const auto& info) { wanted.emplace_back(info->number, info->records); });
  for (size_t i = 0; catalog_lost && i < files.size(); i++) wanted.emplace_back(files[i], 0);
  for (const auto& [number, records] : wanted) {
    std::shared_ptr<const Sst> table;
    bool sound = false;
    Status s = FindTable(number, records, report, &sound, &table);
    if (!s.ok()) return s;
    found->damaged += sound ? 0 : 1;
    if (table == nullptr) continue;
    found->last_sequence = std::max(found->last_sequence, table->info().properties.last_sequence);
    found->tables.push_back(std::move(table));
  }
  return Status::OK();
}

// The log after what tables have becomes tables of weight 0. Where the catalog or a table is
// damaged all is merged into new tables: then no delete is needed, and without a catalog nothing
// else would tell what is newer. Nothing that the catalog names is changed before the one edit: a
// crash leaves what can be rebuilt again.
Status LightKv::Rebuild(RepairReport* report) {
  bool catalog_lost = false;
  Status s = catalog_.OpenOrLose([this] { return catalog_.Open(); },
                                 "all tables that there are are taken for it", &report->notes,
                                 &catalog_lost);
  std::vector<uint64_t> files;
  if (s.ok()) s = ListTables(&files);
  if (!s.ok()) return s;
  LightKvState state = catalog_lost ? LightKvState() : catalog_.Get();
  catalog_.Note([&](LightKvState* noted) {
    if (catalog_lost) *noted = {};
    for (const uint64_t number : files)
      noted->next_number = std::max(noted->next_number, number + 1);
    return 0;
  });
  FoundTables found;
  s = FindTables(state.levels, files, catalog_lost, report, &found);
  if (!s.ok()) return s;
  state.flushed_sequence = std::max(state.flushed_sequence, found.last_sequence);
  const bool merge_all = catalog_lost || found.damaged != 0;
  const TreePtr tree = NewTree();
  s = GatherLog(catalog_lost, report, &state, tree.get());
  if (!s.ok()) return s;

  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(NewRhTreeIterator(pool_, tree));
  for (const auto& table : found.tables) {
    if (merge_all) children.push_back(Sst::NewIterator(table, {.fill_cache = false}));
  }
  MadeSsts made;
  s = files_.Write(
      NewMergingIterator(std::move(children)).get(), {},
      [&](std::string_view key) { return !merge_all && state.levels.MayHold(0, key); }, &made);
  if (s.ok()) s = pool_->Sync();
  if (!s.ok()) return s;
  if (merge_all) state.levels = {};
  for (const auto& table : made) {
    const KeyRange keys{table->info().smallest, table->info().largest};
    const auto level = LevelFor(state.levels, rules_, merge_all ? 1 : 0, keys);
    LAMELLA_CHECK(level.has_value());
    LAMELLA_CHECK(state.levels.Apply(InfosOf(SstEdit{.removed = {}, .added = {{*level, table}}})));
  }
  state.levels.ForEach([&](uint32_t, const auto& info) { report->records_kept += info->records; });
  s = NameRebuilt(state, catalog_lost);
  return s.ok() ? RemoveOthers(state.levels) : s;
}

// What of the log tables do not have, and where it ends.
Status LightKv::GatherLog(bool catalog_lost, RepairReport* report, LightKvState* state,
                          RhTree* tree) {
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
  for (const LogEntry& entry : gathered.kept)
    tree->Insert(pool_->At<Record>(entry.place)->key(), entry.tag, entry.place);
  LogContents contents;  // for the shards' ordinals and the numbers that were seen
  Status s = ReadLog(*pool_, {}, 0, {}, true, &contents);
  state->boundary.clear();
  for (const uint64_t ordinal : contents.next_ordinal) state->boundary.push_back({ordinal, 0});
  state->flushed_sequence =
      std::max({state->flushed_sequence, contents.sequence_seen, gathered.sequence_seen,
                state->gaps.empty() ? 0 : state->gaps.back().last});
  state->gaps.clear();  // all are before it
  return s;
}

Status LightKv::NameRebuilt(const LightKvState& state, bool catalog_lost) {
  const auto change = [&](LightKvState* rebuilt) {
    const uint64_t next_number = rebuilt->next_number;
    *rebuilt = state;
    rebuilt->next_number = next_number;
    return 0;
  };
  Status s;
  if (catalog_lost) {
    catalog_.Note(change);
    s = catalog_.Create(catalog_.Get());
  } else {
    s = catalog_.Edit(LightKvEdit::kRebuild, change);
  }
  return s.ok() ? pool_->Sync() : s;
}

// A later repair without a catalog would take them for the store's, and bring back what was deleted
// since.
Status LightKv::RemoveOthers(const TableLevelsState& levels) const {
  std::vector<uint64_t> files;
  Status s = ListTables(&files);
  levels.ForEach([&](uint32_t, const auto& info) { std::erase(files, info->number); });
  for (size_t i = 0; s.ok() && i < files.size(); i++)
    s = context_.files->RemoveFile(Concat(context_.directory, "/", TableFileName(files[i])));
  return s;
}

}  // namespace lamella
