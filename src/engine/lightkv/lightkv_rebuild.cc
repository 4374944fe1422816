// Making a store anew from what is left of it: tables, and the records of the log.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "base/assert.h"
#include "engine/lightkv/lightkv.h"
#include "engine/log_recovery.h"
#include "engine/sst_repair.h"
#include "iterator/merging_iterator.h"
#include "log/pm_log.h"
#include "log/record.h"

namespace lamella {

namespace {

// Up to which number tables have all that the log had, where no catalog says it. `in_tables`, their
// newest, may be more: a flush that was cut, or a repair, left some of its tables, and has the rest
// of its records in the log alone. Of such a one all of the log is there. So what is there without
// a hole, up to that number and to what was published, is taken from the log: where tables have it,
// too, it is found twice, and so are the deletes that hide it.
uint64_t FlushedForSure(const Pool& pool, uint64_t in_tables) {
  std::vector<uint64_t> numbers;
  uint64_t through = in_tables;
  pool.ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != ChunkKind::kLog) return;
    ForEachRecord(
        pool, chunk, 0,
        [&](const Record* record, PmPtr) {
          numbers.push_back(record->sequence());
          through = std::max(through, PublishedBefore(record->header));
        },
        nullptr);
  });
  std::ranges::sort(numbers, std::greater());
  uint64_t whole_from = through + 1;
  for (const uint64_t number : numbers) {
    if (number + 1 < whole_from) break;
    whole_from = std::min(whole_from, number);
  }
  return std::min(in_tables, whole_from - 1);
}

}  // namespace

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
  std::vector<LogEntry> unflushed;
  s = GatherUnflushed(pool_, catalog_lost, report,
                      {&state.flushed_sequence, &state.boundary, &state.gaps}, &unflushed);
  if (!s.ok()) return s;
  state.flushed_sequence = std::max(state.flushed_sequence, found.last_sequence);
  for (const LogEntry& entry : unflushed)
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
