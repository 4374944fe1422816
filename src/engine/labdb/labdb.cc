#include "engine/labdb/labdb.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "iterator/merging_iterator.h"

namespace lamella {

namespace {

constexpr uint64_t kTreeBytesUsual = 64 << 20;
constexpr uint64_t kTreePart = 4;  // of a pool that has an end
// Of a record in a tree: a cell's fixed part, its slot, and what is left empty of leaves.
constexpr uint64_t kTreeBytesPerRecord = 64;

uint64_t TreeBytes(const Options& options) {
  if (options.labdb.tree_bytes != 0) return options.labdb.tree_bytes;
  return options.pool_bytes_max == 0 ? kTreeBytesUsual : options.pool_bytes_max / kTreePart;
}

SstFilesOptions FilesOptions(const EngineContext& context, std::shared_ptr<BlockCache> cache,
                             RateLimiter* limiter, std::function<uint64_t()> new_number) {
  SstFilesOptions files =
      SstFilesOptionsOf(context, std::move(cache), limiter, std::move(new_number));
  files.table_bytes = context.options->labdb.table_bytes;
  return files;
}

uint64_t MemTableBytes(const EngineContext& context) {
  return TableMemory(*context.options, BlockCacheBytes(*context.options), context.memory)
      .memtable_bytes();
}

}  // namespace

LabDb::LabDb(const EngineContext& context)
    : BufferedEngine(context, MemTableBytes(context),
                     {.bytes_per_record = kTreeBytesPerRecord,
                      .value_bytes_max = kAddressBytes,
                      .in_all_parts = true}),  // as LeafSpace takes its chunks
      options_(context.options->labdb),
      tree_bytes_(TreeBytes(*context.options)),
      rules_{.level1_bytes = options_.level1_bytes},
      cache_(NewBlockCache(context)),
      runs_(cache_),
      limiter_(context.options->files.compaction_bytes_per_second),
      files_(FilesOptions(context, cache_, &limiter_, [this] { return NewNumber(); })),
      records_(*files_.records()),
      memory_(*context.options, BlockCacheBytes(*context.options), context.memory),
      space_(std::make_shared<LeafSpace>(pool_, kTreeLeaves, 0)),
      pending_frees_(context.pool),
      catalog_(context.pool),
      hot_(options_.hot_updates),
      held_up_end_(context.pool) {}

uint64_t LabDb::NewNumber() {
  return catalog_.Note([](LabDbState* state) { return state->next_number++; });
}

PmWord* LabDb::HeadOf(uint32_t tree) const { return pool_->At<PmWord>(heads_) + tree; }

LabDb::TreePtr LabDb::NewTree(uint32_t tree) const {
  return std::make_shared<LeafTree>(pool_, space_, HeadOf(tree));
}

// From three quarters of what trees may take on writers wait for compaction, where the other tree
// is not empty yet.
double LabDb::ReadDebt(const TableSet& set) const {
  const auto& tables = static_cast<const Tables&>(set);
  if (tables.older == nullptr || tables.tree == nullptr) return 0;
  return static_cast<double>(tables.tree->Bytes()) / static_cast<double>(tree_bytes_);
}

// Persist order, of tables that are made and durable (SstFiles F1), on page media not yet synced:
//   1  sync      what a tree has instead of the log, or of the other tree
//   2  the edit  all of it counts, or, of a page medium that loses it, nothing
//   3  sync      it stays; then what it replaced may go
// Memory may fail before the edit only.
Status LabDb::Install(LabDbEdit kind, const SstEdit& edit, const MemTable* flushed,
                      const std::function<void(Tables*)>& change,
                      const std::function<void(LabDbState*)>& also) {
  Status s = pool_->Sync();
  if (!s.ok()) return s;
  const MutexLock lock(&change_mu_);
  auto next = std::make_shared<Tables>(*CurrentTables());
  auto levels = std::make_shared<SstLevels>(*next->levels);
  const TableEdit<TableInfo> infos = InfosOf(edit);
  LAMELLA_CHECK(levels->Apply(edit) && next->infos.Apply(infos));
  levels->BuildFences();
  next->levels = std::move(levels);
  if (change) change(next.get());
  uint64_t live = 0;
  next->levels->ForEach([&](uint32_t, const auto& table) { live += table->info().bytes; });
  for (const ValueFileInfo& file : values_->Files()) live += file.bytes;
  InstallMemory memory;
  s = catalog_.Edit(kind, [&](LabDbState* state) {
    LAMELLA_CHECK(state->levels.Apply(infos));
    if (also) also(state);
  });
  if (s.ok() || catalog_.is_in_doubt()) {
    for (const auto& added : edit.added) added.table->Keep();
  }
  if (!s.ok()) return s;
  live_bytes_.store(live, std::memory_order_relaxed);
  changes_.fetch_add(1, std::memory_order_relaxed);
  BufferedEngine::Install(std::move(next), flushed, std::move(memory));
  return pool_->Sync();
}

Lookup LabDb::ReadValue(const InternalKey& of, const ValueAddress& address, EpochPin* pin) const {
  Lookup lookup;
  RecordCache::Found kept;
  if (records_.Find(of.user_key, RecordPlaceOf(address), &kept)) {
    lookup.state = LookupState::kFound;
    lookup.value = kept.value;
    lookup.owner = std::move(kept.owner);
    return lookup;
  }
  ValueRead read;
  lookup.damage = values_->Read(address, pin, &read);
  lookup.state = lookup.damage.ok() ? LookupState::kFound : LookupState::kDamaged;
  lookup.value = read.value;
  lookup.owner = std::move(read.owner);
  if (!lookup.damage.ok()) return lookup;
  // What lies in the pool will be in a file soon: who is asked for again there stays in DRAM then.
  const bool before = records_.NoteRead(of.user_key);
  if (before || lookup.owner != nullptr)
    records_.Keep(of.user_key, RecordPlaceOf(address), of.tag, lookup.value, before);
  return lookup;
}

// What a MemTable answered has a place.
Lookup LabDb::Get(std::string_view key, uint64_t sequence, bool verify, EpochPin* pin) {
  Lookup lookup = BufferedEngine::Get(key, sequence, verify, pin);
  if (lookup.state != LookupState::kFound || !lookup.place) return lookup;
  const uint64_t tag = pool_->At<Record>(lookup.place)->tag();
  const bool apart = TagKind(tag) == RecordKind::kPutElsewhere;
  return apart ? ReadValue({key, tag}, DecodeUnverified(lookup.value), pin) : lookup;
}

Lookup LabDb::SearchTables(const TableSet& set, const InternalKey& target, const Candidates&,
                           bool verify, EpochPin* pin) {
  const auto& tables = static_cast<const Tables&>(set);
  for (const LeafTree* tree : {tables.tree.get(), tables.older.get()}) {
    if (tree == nullptr) continue;
    LeafVersion found;
    Lookup lookup;
    lookup.damage = tree->Find(target, verify, &found);
    if (!lookup.damage.ok()) {
      lookup.state = LookupState::kDamaged;
      return lookup;
    }
    if (!found.place) continue;
    gets_trees_.Add();
    if (IsPut(found.kind())) {
      const InternalKey of{target.user_key, found.tag};
      return ReadValue(of, {found.location, found.value_size}, pin);
    }
    lookup.state = LookupState::kDeleted;
    return lookup;
  }
  const std::shared_ptr<const SstLevels> levels = tables.levels;
  pin->LetGo();
  Lookup lookup = SstFiles::Find(*levels, target.user_key, TagSequence(target.tag));
  if (lookup.state != LookupState::kAbsent) gets_tables_.Add();
  return lookup;
}

void LabDb::AddTableIterators(const std::shared_ptr<const TableSet>& set, bool verify,
                              std::vector<std::unique_ptr<InternalIterator>>* iterators) {
  const auto& tables = static_cast<const Tables&>(*set);
  iterators->push_back(tables.tree->NewIterator(verify));
  if (tables.older != nullptr) iterators->push_back(tables.older->NewIterator(verify));
  for (uint32_t i = 1; i < tables.levels->level_count(); i++)
    SstFiles::AddIterators(i, {tables.levels, &tables.levels->level(i)}, {}, iterators);
}

// Whoever has it is pinned in holders(): trees that go meanwhile stay where they are.
std::shared_ptr<InternalIterator> LabDb::NewTreesIterator() const {
  struct Walk {
    std::shared_ptr<const Tables> tables;
    std::unique_ptr<InternalIterator> iterator;
  };
  const auto walk = std::make_shared<Walk>(Walk{.tables = CurrentTables(), .iterator = nullptr});
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(walk->tables->tree->NewIterator(false));
  if (walk->tables->older != nullptr) children.push_back(walk->tables->older->NewIterator(false));
  walk->iterator = NewMergingIterator(std::move(children));
  return {walk, walk->iterator.get()};
}

std::unique_ptr<InternalIterator> LabDb::NewIterator(bool verify) {
  const ScanRuns* const runs = records_.enabled() ? nullptr : &runs_;
  return NewStoredValues(
      BufferedEngine::NewIterator(verify), values_.get(), runs, &records_,
      [this] { return NewTreesIterator(); },
      context_.options->files.parallel_reads ? &value_cost_ : nullptr);
}

void LabDb::AddStats(Stats* stats) const {
  BufferedEngine::AddStats(stats);
  const auto tables = CurrentTables();
  stats->recovery_index_us += recovery_index_us_.load(std::memory_order_relaxed);
  stats->compactions += compactions_.load(std::memory_order_relaxed);
  stats->dram_bytes += cache_->figures().bytes;
  stats->file_bytes_written += files_.bytes_written() + values_->bytes_written();
  stats->sources.push_back({"trees", gets_trees_.Sum()});
  stats->sources.push_back({"tables", gets_tables_.Sum()});
  Stats::Level trees{.name = "L0, trees"};
  for (const TreePtr& tree : {tables->tree, tables->older}) {
    if (tree == nullptr) continue;
    trees.tables++;
    trees.records += tree->entry_count();
  }
  stats->levels.push_back(std::move(trees));
  for (uint32_t i = 1; i < tables->levels->level_count(); i++) {
    Stats::Level level{.name = Concat("L", i)};
    for (const auto& table : tables->levels->level(i)) {
      level.tables++;
      level.records += table->info().records;
      stats->file_bytes += table->info().bytes;
      stats->dram_bytes += table->sst()->memory_bytes();
    }
    stats->levels.push_back(std::move(level));
  }
  for (const ValueFileInfo& file : values_->Files()) stats->file_bytes += file.bytes;
}

std::string LabDb::Describe() const {
  std::string out = BufferedEngine::Describe();
  const auto tables = CurrentTables();
  const auto describe = [&](const char* name, const TreePtr& tree) {
    if (tree == nullptr) return;
    out += Concat(name, ": ", tree->entry_count(), " entries in ", tree->leaf_count(), " leaves, ",
                  tree->Bytes(), " of ", tree_bytes_, " bytes\n");
  };
  describe("tree", tables->tree);
  describe("immutable tree", tables->older);
  for (uint32_t i = 1; i < tables->levels->level_count(); i++) {
    out += Concat("L", i, ": ", tables->levels->level(i).size(), " tables, ",
                  tables->levels->BytesOf(i), " bytes\n");
  }
  uint64_t bytes = 0;
  const std::vector<ValueFileInfo> files = values_->Files();
  for (const ValueFileInfo& file : files) bytes += file.bytes;
  return out + Concat("values: ", values_->segments_in_pool(), " segments in the pool, ",
                      files.size(), " files, ", bytes, " bytes\n");
}

}  // namespace lamella
