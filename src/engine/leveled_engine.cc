#include "engine/leveled_engine.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "base/hash.h"
#include "base/no_throw.h"
#include "engine/needed_versions.h"
#include "engine/table_cuts.h"
#include "iterator/level_iterator.h"
#include "iterator/merging_iterator.h"
#include "iterator/range_iterator.h"

namespace lamella {

namespace {

// Of each a flush leaves the end unfilled, until it is merged and emptied.
constexpr uint64_t kRegionsPerFlush = 2;
// That the index of a table begins with: its ends, and what all of its keys begin with.
constexpr uint64_t kKeysOfIndex = 3;
// So many may come between the first write that finds too little room and the merge.
constexpr uint64_t kFlushesBefore = 3;

TableMemory MemoryOf(const EngineContext& context, const LeveledRules& rules) {
  const Options& options = *context.options;
  const uint64_t cache = rules.may_have_files ? ShareOfBudget(options.memory_budget_bytes,
                                                              options.files.block_cache_share)
                                              : 0;
  return TableMemory(options, cache, context.memory);
}

}  // namespace

LeveledEngine::LeveledEngine(const EngineContext& context, const LeveledRules& rules)
    : BufferedEngine(context, MemoryOf(context, rules).memtable_bytes(),
                     {.bytes_per_record = rules.index_bytes_per_record,
                      .ends = 2 * kRegionsPerFlush,
                      .keys_in_row = rules.index_in_row ? kKeysOfIndex : 1,
                      .in_all_parts = true,
                      .merges_copy = rules.copies_records}),
      rules_(rules),
      memory_(MemoryOf(context, rules)),
      pending_frees_(context.pool),
      catalog_(context.pool),
      files_(rules.may_have_files
                 ? std::make_shared<FileTables>(context, [this] { return NewNumber(); })
                 : nullptr),
      held_up_end_(context.pool) {}

namespace {

// Keeps a record in the pool for who let go of his pin. A PinnedValue may have it for long: so it
// is pinned as that is (Pool::holders), and the pool is there until the version is gone.
struct KeptVersion {
  EpochPin hold;
  std::shared_ptr<const LeveledTables> version;  // goes first
};

}  // namespace

// What each filter reads is on its way before the first is asked. What is in the pool the pin
// keeps; from the first table in a file on the version is held instead (L6).
Lookup LeveledEngine::SearchTables(const TableSet& tables, const InternalKey& target,
                                   const Candidates&, bool verify, EpochPin* pin) {
  const auto& version = static_cast<const LeveledTables&>(tables);
  const Levels& levels = version.levels;
  const uint64_t hash = Hash64(target.user_key);
  constexpr size_t kAskedMax = 128;
  const LevelTable* asked[kAskedMax];
  size_t count = 0;
  std::shared_ptr<const LeveledTables> held;
  Lookup lookup;
  const auto ask = [&] {
    for (size_t i = 0; i < count && lookup.state == LookupState::kAbsent; i++) {
      if (asked[i]->in_file() && held == nullptr) {
        held = version.shared_from_this();
        pin->LetGo();
      }
      lookup = asked[i]->Find(target, hash, verify);
      if (lookup.state != LookupState::kFound && lookup.state != LookupState::kDeleted) continue;
      (asked[i]->in_file() ? gets_files_ : gets_tables_).Add();
      NoteRead(*asked[i]);
    }
    count = 0;
    return lookup.state != LookupState::kAbsent;
  };
  const auto add = [&](const LevelTable* table) {
    table->Prefetch(hash);
    asked[count++] = table;
    return count < kAskedMax || !ask();
  };
  bool more = levels.ForEachNewest(target.user_key, add);
  for (size_t level = 1; more && level < levels.level_count(); level++) {
    const LevelTable* const table = levels.FindTable(level, target.user_key);
    if (table != nullptr) more = add(table);
  }
  ask();
  if (held != nullptr && lookup.owner == nullptr && lookup.place)
    lookup.owner = std::make_shared<const KeptVersion>(
        KeptVersion{EpochPin(pool_->holders()), std::move(held)});
  return lookup;
}

namespace {

using NewTableIterator = std::function<std::unique_ptr<InternalIterator>(const LevelTable& table)>;

void AddIteratorsOf(uint32_t level, std::shared_ptr<const Levels::Level> tables,
                    const NewTableIterator& make,
                    std::vector<std::unique_ptr<InternalIterator>>* iterators) {
  const Levels::Level& all = *tables;
  if (level == 0 || all.size() == 1) {
    for (const auto& table : all) iterators->push_back(make(*table));
    return;
  }
  if (all.empty()) return;
  iterators->push_back(NewLevelIterator(
      all.size(), [&all](size_t i) -> std::string_view { return all[i]->info().largest; },
      [tables = std::move(tables), make](size_t i) { return make(*(*tables)[i]); }));
}

}  // namespace

void LeveledEngine::AddIterators(uint32_t level, const Levels::Level& tables, bool verify,
                                 std::vector<std::unique_ptr<InternalIterator>>* iterators) {
  AddIteratorsOf(
      level, std::make_shared<const Levels::Level>(tables),
      [verify](const LevelTable& table) { return table.NewMergeIterator(verify); }, iterators);
}

// The read set, which the iterator holds, holds the tables.
void LeveledEngine::AddTableIterators(const std::shared_ptr<const TableSet>& tables, bool verify,
                                      std::vector<std::unique_ptr<InternalIterator>>* iterators) {
  const Levels& levels = static_cast<const LeveledTables&>(*tables).levels;
  const auto make = [this, verify](const LevelTable& table) {
    NoteRead(table);
    return table.NewIterator(verify);
  };
  for (uint32_t i = 0; i < levels.level_count(); i++)
    AddIteratorsOf(i, {tables, &levels.level(i)}, make, iterators);
}

std::optional<Unmerged> LeveledEngine::UnmergedOf(const TableSet& tables) const {
  const auto& now = static_cast<const LeveledTables&>(tables);
  // Garbage and what waits to be merged lie in the same space: the more there is of one, the less
  // there may be of the other.
  Unmerged unmerged{.bytes = garbage_bytes_.load(std::memory_order_relaxed)};
  for (const auto& table : now.levels.level(0)) {
    const TableInfo& info = table->info();
    // and what merging it makes, while it is there
    unmerged.bytes +=
        info.bytes +
        (rules_.copies_records ? info.bytes : info.records * rules_.index_bytes_per_record);
    unmerged.live_bytes +=
        static_cast<uint64_t>(static_cast<double>(table->info().bytes) * now.live_share_of_last);
  }
  if (!now.levels.level(0).empty()) unmerged.live_share_of_last = now.live_share_of_last;
  return unmerged;
}

// A read looks at each table of level 0. From twice as many on as are compacted writers wait, and
// at four times as many they stand still.
double LeveledEngine::ReadDebt(const TableSet& tables) const {
  constexpr double kTablesMaxPerCompacted = 4;
  const auto& level0 = static_cast<const LeveledTables&>(tables).levels.level(0);
  return static_cast<double>(level0.size()) /
         (kTablesMaxPerCompacted * static_cast<double>(rules_.levels.level0_tables));
}

LeveledRules LeveledEngine::rules() const {
  constexpr uint64_t kTableBytesLeast = 1 << 10;
  constexpr uint64_t kSmallTableBytes = 256 << 10;  // of a pool that may grow
  LeveledRules now = rules_;
  if (now.tables_of_pool == 0) return now;
  const uint64_t limit = context_.options->pool_bytes_max;
  const uint64_t part = limit != 0
                            ? limit / now.tables_of_pool
                            : std::max(pool_->pool_bytes() / now.tables_of_pool, kSmallTableBytes);
  now.table_bytes = std::min(now.table_bytes, std::max(part, kTableBytesLeast));
  return now;
}

void LeveledEngine::NoteUses(const Levels& levels, RegionUseEdit* edit) {
  uint64_t live = 0;
  uint64_t pool_live = 0;
  uint64_t pool_bytes = 0;
  levels.ForEach([&](uint32_t level, const auto& table) {
    if (level != 0) live += table->place().live_bytes;
    if (table->in_file()) return;
    if (level != 0) pool_live += table->place().live_bytes;
    pool_bytes += table->info().bytes;
  });
  live_bytes_.store(live, std::memory_order_relaxed);
  pool_live_bytes_.store(pool_live, std::memory_order_relaxed);
  pool_table_bytes_.store(pool_bytes, std::memory_order_relaxed);
  if (rules_.copies_records) {
    KeepForCopies(levels);
  } else {
    const uint64_t room = RoomToKeep(levels);
    KeepForMerge(room, room);
  }
  const MutexLock lock(&uses_mu_);
  edit->Apply(&uses_);
}

void LeveledEngine::KeepTables(const LevelsEdit& edit) {
  for (const auto& added : edit.added) added.table->Keep();
}

void LeveledEngine::NoteHeat(const Levels::Level& gone, const LevelsEdit& edit) const {
  if (rules_.pool_table_bytes == UINT64_MAX) return;
  for (const auto& added : edit.added) {
    const TableInfo& info = added.table->info();
    const KeyRange keys{info.smallest, info.largest};
    uint64_t read_at = added.table->read_at();
    for (const auto& table : gone) {
      if (keys.Overlaps(table->info().smallest, table->info().largest))
        read_at = std::max(read_at, table->read_at());
    }
    added.table->NoteRead(read_at);
  }
}

Levels::Level LeveledEngine::FindGone(const Levels& before, const LevelsEdit& edit) {
  std::set<uint64_t> removed(edit.removed.begin(), edit.removed.end());
  for (const auto& added : edit.added) removed.erase(added.table->info().number);  // it moved
  Levels::Level gone;
  before.ForEach([&](uint32_t, const auto& table) {
    if (removed.contains(table->info().number)) gone.push_back(table);
  });
  return gone;
}

// Persist order (L1, L2), of tables that are made and durable, on page media not yet synced:
//   1  sync            nothing names them: a crash leaves strays, which Mend frees
//   2  the edit        all of it counts, or, of a page medium that loses it, nothing
//   3  sync            it stays
//   4  what it replaced may be freed
// Memory may fail before the edit only.
Status LeveledEngine::Change(LeveledEdit kind, const LevelsEdit& edit, const MemTable* flushed,
                             const std::function<void(LeveledTables*, LeveledState*)>& also) {
  Status s = edit.added.empty() ? Status::OK() : pool_->Sync();
  if (!s.ok()) return s;
  const MutexLock lock(&change_mu_);
  const auto before = CurrentTables();
  auto next = std::make_shared<LeveledTables>(*before);
  const TableEdit<TableInfo> infos = InfosOf(edit);
  LAMELLA_CHECK(next->levels.Apply(edit) && next->infos.Apply(infos));
  next->levels.BuildFences();
  const Levels::Level gone = FindGone(before->levels, edit);
  NoteHeat(gone, edit);
  RegionUseEdit uses(before->levels, edit);
  InstallMemory memory;
  s = catalog_.Edit(kind, [&](LeveledState* state) {
    LAMELLA_CHECK(state->levels.Apply(infos));
    if (also) also(next.get(), state);
  });
  if (s.ok() || catalog_.is_in_doubt()) KeepTables(edit);
  if (!s.ok()) return s;
  NoteUses(next->levels, &uses);
  Install(std::move(next), flushed, std::move(memory));
  changes_.fetch_add(1, std::memory_order_relaxed);
  s = pool_->Sync();
  if (!s.ok()) return s;
  for (const auto& region : uses.unused()) region->Drop();
  for (const auto& table : gone) table->Drop();
  return s;
}

Status LeveledEngine::Build(InternalIterator* from, const Levels& levels, size_t below,
                            TableBuilder* builder, MadeTables* made, BuildSource source) {
  const auto sample = context_.snapshots->Now();
  const auto may_hold = [&](std::string_view key) { return levels.MayHold(below, key); };
  const auto add = [&](const NeededRecord& record) {
    return builder->Add({record.key, record.value, PmPtr(record.place_word), record.newer});
  };
  const auto end_key = [&] { return builder->EndKey(); };
  const auto drop = [&](uint64_t place_word) { return VerifyRecord(*pool_, PmPtr(place_word)); };
  Status s;
  switch (source) {  // keys that lie in the pool stay
    case BuildSource::kMemTable:
      s = ForEachNeeded<std::string_view>(from, sample, may_hold, add, end_key, drop);
      break;
    case BuildSource::kTables:
      s = ForEachNeeded<std::string_view>(from, sample, may_hold, add, end_key);
      break;
    case BuildSource::kFiles:
      s = ForEachNeeded<std::string>(from, sample, may_hold, add, end_key);
      break;
  }
  return s.ok() ? builder->Finish(made) : s;
}

Levels::Level LeveledEngine::TablesOf(const Levels& levels, uint32_t level,
                                      const std::vector<uint64_t>& numbers) {
  Levels::Level tables = levels.level(level);
  std::erase_if(tables, [&](const auto& table) {
    return std::ranges::find(numbers, table->info().number) == numbers.end();
  });
  return tables;
}

LeveledEngine::Sparse LeveledEngine::SparseNow() const {
  const MutexLock lock(&uses_mu_);
  return sparse_;
}

namespace {

// What is known of tables that are to be merged.
struct Inputs {
  BuildPlan plan;
  uint64_t bytes = 0;
  uint64_t copied = 0;  // bytes of sparse regions, and of tables in files
  std::vector<uint64_t> numbers;

  Inputs(uint32_t into, const LeveledRules& rules) {
    plan.level = into;
    plan.table_bytes = rules.table_bytes;
    plan.table_records_min = rules.table_records_min;
  }
  void Add(const LevelTable& table) {
    const TableInfo& info = table.info();
    if (numbers.empty() || info.smallest < plan.smallest) plan.smallest = info.smallest;
    if (info.largest > plan.largest) plan.largest = info.largest;
    numbers.push_back(info.number);
    plan.records_max += info.records;
    bytes += table.pool_bytes();
    if (table.in_file()) {
      plan.from_files = true;
      copied += table.pool_bytes();
    }
    for (size_t i = 0; i < table.regions().size(); i++) {
      const auto& region = table.regions()[i];
      plan.regions[region->number()] = region;
      if (region->kind() == kIndexRegion) plan.replaced.push_back(region->number());
      if (plan.sparse.contains(region->number())) copied += table.place().regions[i].bytes;
    }
  }
};

}  // namespace

// Merging finds what is dead, and makes indexes anew while the old are there: those at least of
// what goes down, of one table that it overlaps, and of what is left of it (MergePart).
uint64_t LeveledEngine::RoomToKeep(const Levels& levels) const {
  if (rules_.writes_out) return 0;  // a merge that finds none writes to files
  struct Size {
    uint64_t records = 0;
    uint64_t bytes = 0;
  };
  Size level0;
  for (const auto& table : levels.level(0)) {
    level0.records += table->info().records;
    level0.bytes += table->info().bytes;
  }
  Size largest;
  for (size_t i = 1; i < levels.level_count(); i++) {
    for (const auto& table : levels.level(i)) {
      if (table->in_file()) continue;  // of other options
      largest.records = std::max(largest.records, table->info().records);
      largest.bytes = std::max(largest.bytes, table->info().bytes);
    }
  }
  const Size piece{std::max(level0.records, largest.records),
                   std::max(level0.bytes, largest.bytes)};
  const uint64_t room = MergeRoom(piece.records, piece.bytes, 0) +
                        MergeRoom(piece.records + largest.records, piece.bytes + largest.bytes, 0);
  return room == 0 ? 0 : room + kFlushesBefore * kRegionsPerFlush * pool_->chunk_bytes();
}

// Where merges copy, room for all of two levels would be half of the pool. Level 0 comes to lie on
// the tables below, each of which takes two chunks more; without room for all of that a few tables
// are merged with what comes for them, and what is left of level 0 is made anew (MergePart). Then a
// table is merged where it is. Deletes, and their copies, take of what writers leave beside the
// second.
void LeveledEngine::KeepForCopies(const Levels& levels) {
  constexpr uint64_t kPartForDeletes = 4;
  constexpr uint64_t kChunksForDeletes = 8;
  constexpr size_t kTablesAtOnce = 4;
  uint64_t level0 = 0;
  uint64_t most = 0;
  levels.ForEach([&](uint32_t level, const auto& table) {
    const TableInfo& info = table->info();
    const uint64_t room = MergeRoom(info.records, info.bytes, info.bytes);
    uint64_t& largest = level == 0 ? level0 : most;
    largest = std::max(largest, room);
  });
  const uint64_t least = 2 * level0 + most;
  const uint64_t ends = 2 * std::min(levels.level(1).size(), kTablesAtOnce);
  const uint64_t room =
      least + least / kPartForDeletes + (ends + kChunksForDeletes) * pool_->chunk_bytes();
  KeepForMerge(least == 0 ? 0 : room, least);
}

// Each table ends in a chunk that is not full, and so do the copies; those that are all copied have
// each their own.
uint64_t LeveledEngine::MergeRoom(uint64_t records, uint64_t bytes, uint64_t copied) const {
  if (records == 0) return 0;
  const LeveledRules now = rules();
  const uint64_t tables = 1 + std::min(bytes / now.table_bytes, records / now.table_records_min);
  const uint64_t of_copies = rules_.copies_records ? tables : copied == 0 ? 0 : 1;
  return records * rules_.index_bytes_per_record + copied +
         (tables + of_copies) * pool_->chunk_bytes();
}

// A merge most of whose records come from files goes back there where the pool has its share: else
// all of the lower levels would pass through it.
bool LeveledEngine::GoesToFiles(uint32_t level, const std::vector<Levels::Level>& inputs) const {
  if (level >= rules_.first_file_level) return true;
  if (rules_.pool_table_bytes == UINT64_MAX) return false;
  uint64_t in_pool = 0;
  uint64_t in_files = 0;
  for (const Levels::Level& tables : inputs) {
    for (const auto& table : tables) (table->in_file() ? in_files : in_pool) += table->pool_bytes();
  }
  return in_files > in_pool &&
         pool_table_bytes_.load(std::memory_order_relaxed) + in_files > rules_.pool_table_bytes;
}

Status LeveledEngine::MergeTables(const Levels& levels, const std::vector<Levels::Level>& inputs,
                                  uint32_t into, LevelsEdit* edit) {
  const Sparse sparse = SparseNow();
  const bool in_file = GoesToFiles(into, inputs);
  Status s = MergeEmptying(levels, inputs, into, sparse, in_file, edit);
  if (s.IsNoSpace() && !in_file && sparse != nullptr)
    s = MergeEmptying(levels, inputs, into, nullptr, false, edit);
  if (s.IsNoSpace() && !in_file && rules_.writes_out)
    s = MergeEmptying(levels, inputs, into, nullptr, true, edit);
  return s;
}

Status LeveledEngine::MergeEmptying(const Levels& levels, const std::vector<Levels::Level>& inputs,
                                    uint32_t into, const Sparse& sparse, bool in_file,
                                    LevelsEdit* edit) {
  *edit = {};
  Inputs of(into, rules());
  of.plan.in_file = in_file;
  if (sparse != nullptr) of.plan.sparse = *sparse;
  std::vector<std::unique_ptr<InternalIterator>> children;
  for (uint32_t i = 0; i < inputs.size(); i++) {
    AddIterators(i, inputs[i], context_.options->verify_checksums || in_file, &children);
    for (const auto& table : inputs[i]) {
      of.Add(*table);
      if (rules_.copies_records) of.copied += table->info().bytes;
    }
  }
  if (of.numbers.empty()) return Status::OK();
  edit->removed = std::move(of.numbers);
  const uint64_t room_bytes = in_file ? 0 : MergeRoom(of.plan.records_max, of.bytes, of.copied);
  return BuildInto(levels, std::move(of.plan), room_bytes,
                   NewMergingIterator(std::move(children)).get(), edit);
}

// Of `table`, which is alone, what the iterator has; room is asked for that alone. Nothing is done
// where it has nearly all.
Status LeveledEngine::BuildLeft(const Levels& levels, uint32_t level, const Levels::Level& table,
                                InternalIterator* left, LevelsEdit* edit) {
  Inputs of(level, rules());
  of.Add(*table.front());
  uint64_t records = 0;
  uint64_t bytes = 0;
  for (left->SeekToFirst(); left->Valid(); left->Next()) {
    records++;
    bytes += RecordBytes(0, left->key().user_key.size(), left->value().size());
  }
  constexpr uint64_t kWorthwhilePart = 16;
  if (!left->status().ok() ||
      records >= of.plan.records_max - of.plan.records_max / kWorthwhilePart)
    return left->status();
  of.plan.records_max = records;
  edit->removed = std::move(of.numbers);
  const uint64_t copied = rules_.copies_records ? bytes + bytes / kRegionUnusedPart : 0;
  const uint64_t room = MergeRoom(records, std::min(bytes, of.bytes), copied);
  return BuildInto(levels, std::move(of.plan), room, left, edit);
}

Status LeveledEngine::BuildInto(const Levels& levels, BuildPlan plan, uint64_t room_bytes,
                                InternalIterator* from, LevelsEdit* edit) {
  CompactionRoom room(this);
  const uint32_t level = plan.level;
  const bool from_files = plan.from_files;
  // What goes to files asks for none: it is how a full pool comes to have room again.
  Status s = room_bytes == 0
                 ? Status::OK()
                 : room.Take(room_bytes, Concat("the tables of a compaction into level ", level));
  if (!s.ok()) return s;
  MadeTables made;
  plan.claimed = [&room](int64_t bytes) { room.Claimed(bytes); };
  if (plan.in_file) plan.ends = TableCuts::EndsIn(levels, level + 1, {plan.smallest, plan.largest});
  const auto build = [&] {
    const auto builder = BuilderOf(plan);
    return Build(from, levels, level + 1, builder.get(), &made,
                 from_files ? BuildSource::kFiles : BuildSource::kTables);
  };
  s = build();
  // There is room: what is missing is a row for an index. Then of one chunk each, if need be.
  if (s.IsNoSpace() && rules_.index_in_row) {
    plan.table_records_max = pool_->chunk_bytes() / (2 * rules_.index_bytes_per_record);
    s = build();
  }
  for (auto& table : made) edit->added.push_back({level, std::move(table)});
  return s;
}

// The rest is made first: it says of no table that it replaces it, so that a store that loses its
// catalog in between has the records twice, and does not lack any.
Status LeveledEngine::MergePart(const Compaction& compaction, const Levels& levels, size_t count,
                                LevelsEdit* edit) {
  *edit = {};
  const bool verify = context_.options->verify_checksums;
  const Levels::Level tables = TablesOf(levels, compaction.level, compaction.inputs);
  Levels::Level next = TablesOf(levels, compaction.level + 1, compaction.next);
  next.resize(count);
  const std::string end = KeyAfter(next.back()->info().largest);
  std::vector<std::unique_ptr<InternalIterator>> upper;
  AddIterators(compaction.level, tables, verify, &upper);
  const auto all = NewMergingIterator(std::move(upper));
  const auto room_for = [this](const Inputs& of) {
    return MergeRoom(of.plan.records_max, of.bytes, rules_.copies_records ? of.bytes : of.copied);
  };
  Inputs rest(compaction.level, rules());
  for (const auto& table : tables) rest.Add(*table);
  if (compaction.level == 0) rest.plan.table_bytes = UINT64_MAX;
  rest.plan.smallest = next.back()->info().largest;
  rest.plan.replaced.clear();
  RangeIterator after(all.get(), end, {});
  Status s = BuildInto(levels, rest.plan, room_for(rest), &after, edit);
  if (!s.ok()) return s;
  Inputs of(compaction.level + 1, rules());
  for (const auto& table : tables) of.Add(*table);
  for (const auto& lower : next) of.Add(*lower);
  of.plan.largest = next.back()->info().largest;
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(std::make_unique<RangeIterator>(all.get(), std::string_view(), end));
  AddIterators(compaction.level + 1, next, verify, &children);
  edit->removed = of.numbers;
  return BuildInto(levels, of.plan, room_for(of), NewMergingIterator(std::move(children)).get(),
                   edit);
}

Status LeveledEngine::Compact(const Compaction& compaction, const Levels& levels,
                              LevelsEdit* edit) {
  const Levels::Level tables = TablesOf(levels, compaction.level, compaction.inputs);
  const bool is_to_be_written =
      compaction.level + 1 >= rules_.first_file_level && !tables.front()->in_file();
  if (compaction.moves_only() && !is_to_be_written) {
    edit->removed = compaction.inputs;
    edit->added = {{compaction.level + 1, tables.front()}};
    return Status::OK();
  }
  std::vector<Levels::Level> inputs(compaction.level + 2);
  inputs[compaction.level] = tables;
  inputs[compaction.level + 1] = TablesOf(levels, compaction.level + 1, compaction.next);
  return MergeTables(levels, inputs, compaction.level + 1, edit);
}

std::vector<Compaction> LeveledEngine::FindWanted(const LeveledTables& tables,
                                                  size_t level0_tables) const {
  LevelRules levels = rules_.levels;
  levels.level0_tables = level0_tables;
  return FindCompactions(tables.infos, levels);
}

Status LeveledEngine::Close() {
  Status s = FlushAllNow();
  if (!s.ok()) return s;
  log_->LeaveChunks([](const ChunkRef&) { return true; });
  LeaveForMerge();
  return s;
}

void LeveledEngine::AddStats(Stats* stats) const {
  BufferedEngine::AddStats(stats);
  stats->sources.push_back({"tables", gets_tables_.Sum()});
  if (files_ != nullptr) {
    stats->sources.push_back({"tables in files", gets_files_.Sum()});
    stats->dram_bytes += files_->cache_bytes();
    stats->file_bytes_written += files_->ssts().bytes_written();
  }
  stats->compactions += compactions_.load(std::memory_order_relaxed);
  // Where merges copy all records each of them leaves behind what is dead.
  const uint64_t copying = rules_.copies_records ? compactions_.load(std::memory_order_relaxed) : 0;
  stats->gc_runs += rewrites_.load(std::memory_order_relaxed) + copying;
  const auto tables = CurrentTables();
  for (size_t i = 0; i < tables->levels.level_count(); i++) {
    Stats::Level level{.name = Concat("L", i)};
    for (const auto& table : tables->levels.level(i)) {
      level.tables++;
      level.runs += table->run_count();
      level.records += table->info().records;
      stats->live_bytes += table->place().live_bytes;
      if (table->in_file()) stats->file_bytes += table->info().bytes;
    }
    stats->levels.push_back(level);
  }
}

std::string LeveledEngine::Describe() const {
  std::string out = BufferedEngine::Describe();
  const auto tables = CurrentTables();
  for (size_t i = 0; i < tables->levels.level_count(); i++) {
    const Levels::Level& level = tables->levels.level(i);
    const auto in_files =
        std::ranges::count_if(level, [](const auto& table) { return table->in_file(); });
    out += Concat("L", i, ": ", level.size(), " tables, ", tables->levels.BytesOf(i), " bytes");
    out += in_files == 0 ? std::string("\n") : Concat(", ", in_files, " of them in files\n");
  }
  const MutexLock lock(&uses_mu_);
  uint64_t bytes = 0;
  uint64_t live = 0;
  for (const auto& [number, use] : uses_) {
    bytes += use.bytes;
    live += use.live;
  }
  return out + Concat("regions: ", uses_.size(), ", ", bytes, " bytes, of which tables refer to ",
                      live, "\n");
}

}  // namespace lamella
