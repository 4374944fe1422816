// Making a store anew from what is left of it: tables, and the records of the log.
#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "base/assert.h"
#include "engine/lightkv/lightkv.h"
#include "engine/log_recovery.h"
#include "engine/sst_repair.h"
#include "iterator/merging_iterator.h"

namespace lamella {

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
  if (s.ok()) s = files_.FindNumbers(&files);
  if (!s.ok()) return s;
  LightKvState state = catalog_lost ? LightKvState() : catalog_.Get();
  catalog_.Note([&](LightKvState* noted) {
    if (catalog_lost) *noted = {};
    if (!files.empty()) noted->next_number = std::max(noted->next_number, files.back() + 1);
    return 0;
  });
  FoundTables found;
  s = FindTables(files_, state.levels, files, catalog_lost, report, &found);
  if (!s.ok()) return s;
  if (catalog_lost) state.flushed_sequence = FlushedForSure(*pool_, found.last_sequence);
  const bool merge_all = catalog_lost || found.damaged != 0;
  const TreePtr tree = NewTree();
  Gathered unflushed;
  s = GatherUnflushed(pool_, catalog_lost, report,
                      {&state.flushed_sequence, &state.boundary, &state.gaps}, &unflushed);
  if (!s.ok()) return s;
  state.flushed_sequence = std::max(state.flushed_sequence, found.last_sequence);
  for (const LogEntry& entry : unflushed.kept)
    tree->Insert(pool_->At<Record>(entry.place)->key(), entry.tag, entry.place);

  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(NewRhTreeIterator(pool_, tree));
  for (const auto& table : found.tables) {
    if (merge_all) children.push_back(Sst::NewIterator(table->sst(), kMergeScan));
  }
  MadeSsts made;
  s = files_.Write(
      NewMergingIterator(std::move(children)).get(), {},
      [&](std::string_view key) { return !merge_all && state.levels.MayHold(0, key); }, &made);
  if (s.ok()) s = pool_->Sync();
  if (!s.ok()) return s;
  // Whether a catalog that cannot be written names them is not known before the next open.
  for (const auto& table : made) table->Keep();
  if (merge_all) state.levels = {};
  for (const auto& table : made) {
    const KeyRange keys{table->info().smallest, table->info().largest};
    const auto level = LevelFor(state.levels, rules_, merge_all ? 1 : 0, keys);
    LAMELLA_CHECK(level.has_value());
    LAMELLA_CHECK(state.levels.Apply(InfosOf(SstEdit{.removed = {}, .added = {{*level, table}}})));
  }
  state.levels.ForEach([&](uint32_t, const auto& info) { report->records_kept += info->records; });
  s = NameRebuilt(state, catalog_lost);
  if (s.ok()) NoteReach(*pool_, unflushed.reach);
  // A later repair without a catalog would take the others for the store's, and bring back what was
  // deleted since.
  std::set<uint64_t> named;
  state.levels.ForEach([&](uint32_t, const auto& info) { named.insert(info->number); });
  return s.ok() ? files_.RemoveStrays(named) : s;
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

}  // namespace lamella
