#include "testing/toy/toy_engine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "base/no_throw.h"
#include "engine/needed_versions.h"
#include "iterator/level_iterator.h"
#include "iterator/merging_iterator.h"

namespace lamella::testing {

namespace {

constexpr uint64_t kEntryBytes = 96;  // of DRAM, beside its key
constexpr uint32_t kEdit = 1;         // the catalog's one kind of edit
constexpr uint64_t kSpillShare = 8;   // of the memory budget
// Until a spill the log may take so much, or half as much as the table.
constexpr uint64_t kLogBytesMin = 2 << 20;
constexpr uint64_t kSpillsOfLogMax = 2;  // nobody writes once the log is twice that
constexpr uint64_t kLevel1BytesMin = 256 << 10;
constexpr uint64_t kTablesOfLevel1 = 4;
constexpr uint64_t kLevel0TablesMax = 24;  // nobody writes from so many on
constexpr uint64_t kDelayPerTableNs = 10'000;
// What jobs are worth, beside compactions, which are worth less than kFirst: none of them is so far
// beyond its target.
constexpr double kFirst = 1e9;
constexpr double kMoveCost = 1 << 10;  // of an edit, in bytes

using Nodes = std::vector<ToyIndex::Node>;

uint64_t SpillBytes(const Options& options) {
  return options.memtable_bytes != 0 ? options.memtable_bytes
                                     : options.memory_budget_bytes / kSpillShare;
}

LevelRules RulesFor(uint64_t spill_bytes) {
  return {.level0_tables = 4,
          .level1_bytes = std::max(4 * spill_bytes, kLevel1BytesMin),
          .level_factor = 4,
          .last_level = 3};
}

// False: the table has no version of it.
bool FindInTable(const ToyTable& table, const InternalKey& target, Lookup* lookup) {
  const size_t number = table.FindBlock(target);
  if (number == table.block_count()) return false;
  std::shared_ptr<const ToyTable::Block> block;
  lookup->damage = table.ReadBlock(number, &block);
  if (!lookup->damage.ok()) {
    lookup->state = LookupState::kDamaged;
    return true;
  }
  const ToyTable::Record& record = block->records[FindInBlock(*block, target)];
  if (record.key.user_key != target.user_key) return false;
  lookup->state =
      TagKind(record.key.tag) == RecordKind::kDelete ? LookupState::kDeleted : LookupState::kFound;
  lookup->value = record.value;
  lookup->owner = std::move(block);
  return true;
}

void AddIterators(uint32_t level, const TableLevels<ToyTable>::Level& tables,
                  std::vector<std::unique_ptr<InternalIterator>>* children) {
  if (level == 0) {
    for (const auto& table : tables) children->push_back(NewToyTableIterator(table));
    return;
  }
  const auto kept = std::make_shared<const TableLevels<ToyTable>::Level>(tables);
  children->push_back(NewLevelIterator(
      kept->size(), [kept](size_t i) -> std::string_view { return (*kept)[i]->info().largest; },
      [kept](size_t i) { return NewToyTableIterator((*kept)[i]); }));
}

}  // namespace

ToyEngine::ToyEngine(const EngineContext& context)
    : context_(context),
      pool_(context.pool),
      spill_bytes_(SpillBytes(*context.options)),
      rules_(RulesFor(spill_bytes_)),
      pending_frees_(context.pool),
      catalog_(context.pool),
      view_{std::make_shared<Tables>(), 0},
      jobs_(context.wake) {}

// Tables that a crash left without a name in the catalog.
Status ToyEngine::RemoveStrays() {
  std::set<uint64_t> named;
  CurrentView().tables->ForEach(
      [&](uint32_t, const auto& table) { named.insert(table->info().number); });
  std::vector<std::string> names;
  Status s = context_.files->ListDirectory(context_.directory, &names);
  for (size_t i = 0; s.ok() && i < names.size(); i++) {
    const auto number = TableFileNumber(names[i]);
    if (number && !named.contains(*number))
      s = context_.files->RemoveFile(context_.directory + "/" + names[i]);
  }
  return s;
}

Status ToyEngine::ReadBack() {
  const bool power_cut = pool_->LostUnsynced();
  const ToyState state = catalog_.Get();
  LogContents contents;
  Status s = ReadLog(*pool_, state.ends, state.through, state.gaps, power_cut, &contents);
  if (s.ok() && power_cut) s = CheckSynced(*pool_, state.gaps, contents);
  if (!s.ok()) return s;
  gaps_ = state.gaps;
  AddGap(&gaps_, contents.sequence_last, contents.sequence_seen);
  for (const LogEntry& entry : contents.entries) {
    const Record* record = pool_->At<Record>(entry.place);
    index_->Enter(ToyIndex::NewNode(record->key().size()), record->key(), entry.tag, entry.place);
  }
  recovered_.store(contents.entries.size(), std::memory_order_relaxed);
  const uint32_t shards = context_.options->log_shards;
  log_ = std::make_unique<PmLog>(pool_, shards != 0 ? shards : 2, contents.next_ordinal);
  write_path_.Start(log_.get(), false, contents.sequence_seen);
  return Status::OK();
}

Status ToyEngine::LoadStore() {
  const ToyState state = catalog_.Get();
  TableEdit<ToyTable> all;
  Status s;
  for (const auto& [level, info] : EditBetween({}, state.levels).added) {
    std::shared_ptr<const ToyTable> table;
    s = ToyTable::Open(context_.files, PathOf(info->number), *info, &table);
    if (!s.ok()) return s;
    all.added.push_back({level, std::move(table)});
  }
  const auto tables = std::make_shared<Tables>();
  LAMELLA_CHECK(tables->Apply(all));
  s = ReadBack();
  if (s.ok()) SetView({tables, state.through});
  return s;
}

Status ToyEngine::Load() {
  if (pool_->state().catalog_chunk == 0) return Status::OK();
  Status s = catalog_.Open();
  return s.ok() ? LoadStore() : s;
}

Status ToyEngine::Mend() {
  Status s;
  if (!catalog_.exists()) {
    s = catalog_.Create({});
    if (s.ok()) s = LoadStore();
  } else {
    s = catalog_.Mend();
  }
  if (s.ok()) s = RemoveStrays();
  if (s.ok() && gaps_ != catalog_.Get().gaps)
    s = Change({}, [this](ToyState* state) { state->gaps = gaps_; });
  if (s.ok()) pending_frees_.FreeLogBefore(catalog_.Get().ends);
  return s;
}

ToyEngine::View ToyEngine::CurrentView() const {
  const MutexLock lock(&view_mu_);
  return view_;
}

void ToyEngine::SetView(View view) {
  uint64_t bytes = 0;
  view.tables->ForEach([&](uint32_t, const auto& table) { bytes += table->info().bytes; });
  table_bytes_.store(bytes, std::memory_order_relaxed);
  level0_tables_.store(view.tables->level(0).size(), std::memory_order_relaxed);
  const MutexLock lock(&view_mu_);
  std::swap(view_, view);
}

Status ToyEngine::Change(const TableEdit<ToyTable>& edit,
                         const std::function<void(ToyState*)>& also) {
  const MutexLock lock(&change_mu_);
  View next = CurrentView();
  const auto tables = std::make_shared<Tables>(*next.tables);
  LAMELLA_CHECK(tables->Apply(edit));
  next.tables = tables;
  const TableEdit<TableInfo> infos = InfosOf(edit);
  Status s = catalog_.Edit(kEdit, [&](ToyState* state) {
    LAMELLA_CHECK(state->levels.Apply(infos));
    also(state);
    next.through = state->through;
  });
  if (!s.ok()) return s;
  SetView(std::move(next));
  return pool_->Sync();
}

Status ToyEngine::Write(std::span<const WriteOperation> operations) {
  Status s = error_.Get();
  return s.ok() ? write_path_.Write(operations) : s;
}

Status ToyEngine::Provide(const Needs& needs, SpareMemory*, uint64_t* reserved) {
  auto nodes = std::make_unique<Nodes>();
  for (size_t i = 0; i < needs.record_bytes.size(); i++)
    nodes->push_back(ToyIndex::NewNode(needs.key_bytes_max));
  *reserved = reinterpret_cast<uint64_t>(nodes.release());
  return Status::OK();
}

void ToyEngine::Abandon(uint64_t reserved) { delete reinterpret_cast<Nodes*>(reserved); }

bool ToyEngine::Enter(std::span<const WriteOperation> operations, uint64_t first,
                      std::span<const Location> locations, uint64_t reserved, SpareMemory*) {
  const std::unique_ptr<Nodes> nodes(reinterpret_cast<Nodes*>(reserved));
  for (size_t i = 0; i < operations.size(); i++) {
    const WriteOperation& op = operations[i];
    index_->Enter(std::move((*nodes)[i]), op.key, MakeTag(first + i, op.kind),
                  PlaceOf(locations[i]));
    entry_bytes_.fetch_add(kEntryBytes + op.key.size(), std::memory_order_relaxed);
    record_bytes_.fetch_add(RecordBytes(0, op.key.size(), op.value.size()),
                            std::memory_order_relaxed);
  }
  return SpillDue();
}

uint64_t ToyEngine::LogBytesOfSpill() const {
  return std::max(kLogBytesMin, table_bytes_.load(std::memory_order_relaxed) / 2);
}

bool ToyEngine::SpillDue() const {
  return entry_bytes_.load(std::memory_order_relaxed) >= spill_bytes_ ||
         record_bytes_.load(std::memory_order_relaxed) >= LogBytesOfSpill();
}

bool ToyEngine::LogIsFull() const {
  const uint64_t log = record_bytes_.load(std::memory_order_relaxed) +
                       spilling_bytes_.load(std::memory_order_relaxed);
  return entry_bytes_.load(std::memory_order_relaxed) > 4 * spill_bytes_ ||
         log > kSpillsOfLogMax * LogBytesOfSpill();
}

void ToyEngine::OnWritten(bool, bool) { context_.wake(); }

Status ToyEngine::MakeSpace() {
  const uint64_t through = CurrentView().through;
  Status s = SpillNow();
  if (!s.ok()) return s;
  pool_->CollectDeferred();
  return CurrentView().through != through ? s : Status::NoSpace("");
}

Lookup ToyEngine::Get(std::string_view key, uint64_t sequence, bool verify, EpochPin* pin) {
  const View view = CurrentView();
  const InternalKey target{key, SeekTag(sequence)};
  Lookup lookup;
  const auto is_of_key = [&](std::string_view found) { return found == key; };
  if (auto at = index_->FindAtOrAfter(target, false, view.through, kSequenceMax);
      at && is_of_key(at->key.user_key)) {
    gets_index_.Add();
    if (verify) lookup.damage = VerifyRecord(*pool_, at->place);
    if (!lookup.damage.ok()) {
      lookup.state = LookupState::kDamaged;
    } else if (TagKind(at->key.tag) == RecordKind::kDelete) {
      lookup.state = LookupState::kDeleted;
    } else {
      lookup.state = LookupState::kFound;
      lookup.value = pool_->At<Record>(at->place)->value();
    }
    return lookup;
  }
  pin->LetGo();
  for (const auto& table : view.tables->level(0)) {
    if (KeyRange{table->info().smallest, table->info().largest}.Contains(key) &&
        FindInTable(*table, target, &lookup)) {
      gets_tables_.Add();
      return lookup;
    }
  }
  for (size_t i = 1; i < view.tables->level_count(); i++) {
    const auto table = view.tables->Find(i, key);
    if (table != nullptr && FindInTable(*table, target, &lookup)) {
      gets_tables_.Add();
      return lookup;
    }
  }
  return lookup;
}

std::unique_ptr<InternalIterator> ToyEngine::NewIterator(bool) {
  const View view = CurrentView();
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(NewToyIndexIterator(pool_, index_, view.through, kSequenceMax));
  for (uint32_t i = 0; i < view.tables->level_count(); i++)
    AddIterators(i, view.tables->level(i), &children);
  return NewMergingIterator(std::move(children));
}

JobOffer ToyEngine::OfferOf(Compaction compaction) {
  Claims claims = ClaimsOf(compaction, kLevel0);
  const double benefit = compaction.benefit;
  const double cost = static_cast<double>(compaction.read_bytes) + kMoveCost;
  return {.name = "compact",
          .claims = std::move(claims),
          .benefit = benefit,
          .cost = cost,
          .run = [this, compaction = std::move(compaction)] { return Compact(compaction); }};
}

std::optional<Job> ToyEngine::PickJob(JobClass job_class) {
  if (job_class != JobClass::kNormal) return std::nullopt;
  const MutexLock lock(&jobs_.mu);
  std::vector<JobOffer> offers;
  const auto offer = [&](const char* name, uint32_t has, double worth, Status (ToyEngine::*run)()) {
    offers.push_back(
        {.name = name, .claims = {{has, {}}}, .benefit = worth, .cost = 1, .run = [this, run] {
           return (this->*run)();
         }});
  };
  // Who waits for space or for memory comes first.
  if (marked_ && marked_->settled->load(std::memory_order_acquire))
    offer("spill", kLog, kFirst, &ToyEngine::Spill);
  if (!marked_ && (spills_wanted_ > spills_begun_ || SpillDue()))
    offer("mark", kLog, kFirst, &ToyEngine::Mark);
  // The view of under the lock: what a job that is over changed is in it.
  for (Compaction& compaction : FindCompactions(InfosOf(*CurrentView().tables), rules_))
    offers.push_back(OfferOf(std::move(compaction)));
  if (pool_->CanGiveBack()) offer("give back", kPoolEnd, 0, &ToyEngine::GiveBack);
  return jobs_.BeginBest(std::move(offers));
}

Status ToyEngine::GiveBack() { return pool_->GiveBack(); }

Status ToyEngine::Mark() {
  if (pool_->IsHeldUp())  // by what this spill would leave where it is
    log_->LeaveChunks([this](const ChunkRef& chunk) { return pool_->IsInTheWay(chunk); });
  Marked marked;
  marked.settled = std::make_shared<std::atomic<bool>>(false);
  EpochDomain::Retirement settling(
      [settled = marked.settled] { settled->store(true, std::memory_order_release); });
  write_path_.BetweenWrites([&](uint64_t last, std::vector<LogPosition> ends) {
    marked.through = last;
    marked.ends = std::move(ends);
    entry_bytes_.store(0, std::memory_order_relaxed);
    spilling_bytes_.store(record_bytes_.exchange(0, std::memory_order_relaxed),
                          std::memory_order_relaxed);
  });
  pool_->readers()->Retire(std::move(settling));  // keeps Y3
  const MutexLock lock(&jobs_.mu);
  marked_ = std::move(marked);
  spills_begun_++;
  return Status::OK();
}

Status ToyEngine::FinishTable(ToyTableBuilder* builder, MadeTables* made) {
  Status s = builder->Finish(context_.directory);
  std::shared_ptr<const ToyTable> table;
  const TableInfo& info = builder->info();
  if (s.ok()) s = ToyTable::Open(context_.files, PathOf(info.number), info, &table);
  if (s.ok()) made->push_back(std::move(table));
  return s;
}

// Keeps the newest version of each key, and those that a snapshot sees; and a delete where what it
// hides is here or may lie further down (Y5). All versions of a key come into one table.
Status ToyEngine::WriteTables(InternalIterator* from, const Tables& view, size_t below,
                              uint64_t table_bytes, MadeTables* made) {
  std::optional<ToyTableBuilder> builder;
  Status s = ForEachNeeded(
      from, context_.snapshots->Now(),
      [&](std::string_view key) { return view.MayHold(below, key); },
      [&](const NeededRecord& record) {
        if (!builder) {
          const uint64_t number = catalog_.Note([](ToyState* state) { return state->next_file++; });
          builder.emplace(context_.files, PathOf(number), number);
        }
        return builder->Add(record.key, record.value);
      },
      [&] {
        if (!builder || builder->bytes() < table_bytes) return Status::OK();
        Status finished = FinishTable(&*builder, made);
        builder.reset();
        return finished;
      });
  return s.ok() && builder ? FinishTable(&*builder, made) : s;
}

Status ToyEngine::Spill() {
  Marked marked;
  {
    const MutexLock lock(&jobs_.mu);
    marked = *marked_;
  }
  const View view = CurrentView();
  MadeTables made;
  const auto from = NewToyIndexIterator(pool_, index_, view.through, marked.through);
  Status s = WriteTables(from.get(), *view.tables, 0, UINT64_MAX, &made);
  if (!s.ok()) return s;
  EpochDomain::Retirement erasing(pool_->AfterAllPins(
      [index = index_, through = marked.through] { index->EraseThrough(through); }));
  TableEdit<ToyTable> edit;
  for (auto& table : made) edit.added.push_back({0, std::move(table)});
  s = Change(edit, [&](ToyState* state) {  // keeps Y4
    state->through = marked.through;
    state->ends = marked.ends;
    while (!state->gaps.empty() && state->gaps.front().last <= marked.through)
      state->gaps.erase(state->gaps.begin());
  });
  if (s.ok()) s = catalog_.LeaveEnd();
  if (!s.ok()) return s;
  pool_->readers()->Retire(std::move(erasing));  // keeps Y2
  pending_frees_.FreeLogBefore(marked.ends);
  spilling_bytes_.store(0, std::memory_order_relaxed);
  const MutexLock lock(&jobs_.mu);
  marked_.reset();
  spills_done_++;
  return Status::OK();
}

Status ToyEngine::MergeInto(const View& view, uint32_t level,
                            const std::vector<Tables::Level>& inputs) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  TableEdit<ToyTable> edit;
  for (uint32_t i = 0; i < inputs.size(); i++) {
    AddIterators(i, inputs[i], &children);
    for (const auto& table : inputs[i]) edit.removed.push_back(table->info().number);
  }
  if (edit.removed.empty()) return Status::OK();
  const auto from = NewMergingIterator(std::move(children));
  MadeTables made;
  Status s = WriteTables(from.get(), *view.tables, level + 1, rules_.level1_bytes / kTablesOfLevel1,
                         &made);
  if (!s.ok()) return s;
  for (auto& table : made) edit.added.push_back({level, std::move(table)});
  s = Change(edit, [](ToyState*) {});
  if (!s.ok()) return s;
  for (const Tables::Level& tables : inputs) {
    for (const auto& table : tables) table->MakeObsolete();
  }
  compactions_.fetch_add(1, std::memory_order_relaxed);
  return s;
}

Status ToyEngine::Compact(const Compaction& compaction) {
  const View view = CurrentView();
  const auto of = [&](uint32_t level, const std::vector<uint64_t>& numbers) {
    Tables::Level tables = view.tables->level(level);
    std::erase_if(tables, [&](const auto& table) {
      return std::ranges::find(numbers, table->info().number) == numbers.end();
    });
    return tables;
  };
  const Tables::Level tables = of(compaction.level, compaction.inputs);
  if (compaction.moves_only()) {
    return Change({.removed = compaction.inputs, .added = {{compaction.level + 1, tables.front()}}},
                  [](ToyState*) {});
  }
  std::vector<Tables::Level> inputs(compaction.level + 2);
  inputs[compaction.level] = tables;
  inputs[compaction.level + 1] = of(compaction.level + 1, compaction.next);
  return MergeInto(view, compaction.level + 1, inputs);
}

// Of the range, all levels into the last that has something.
Status ToyEngine::CompactRange(std::string_view begin, std::string_view end) {
  Status s = SpillNow();
  if (!s.ok()) return s;
  Claims claims;
  for (uint32_t i = 0; i <= rules_.last_level; i++) claims.push_back({kLevel0 + i, {}});
  const JobBoard::Held held = jobs_.Take(std::move(claims));
  s = NoThrow([&] {
    const View view = CurrentView();
    KeyRange keys = KeyRange::Of(begin, end);
    std::vector<Tables::Level> inputs(std::max<size_t>(view.tables->level_count(), 2));
    for (size_t count = 0, before = SIZE_MAX; count != before;) {  // until no table is cut
      before = count;
      count = 0;
      for (size_t i = 0; i < inputs.size(); i++) {
        inputs[i] = view.tables->Overlapping(i, keys);
        count += inputs[i].size();
        for (const auto& table : inputs[i])
          keys.Extend(table->info().smallest, table->info().largest);
      }
    }
    return MergeInto(view, static_cast<uint32_t>(inputs.size() - 1), inputs);
  });
  return s;
}

Status ToyEngine::SpillNow() {
  uint64_t wanted;
  {
    const MutexLock lock(&jobs_.mu);
    wanted = spills_begun_ + 1;
    spills_wanted_ = std::max(spills_wanted_, wanted);
  }
  context_.wake();
  const MutexLock lock(&jobs_.mu);
  while (spills_done_ < wanted) {
    Status s = error_.Get();
    if (!s.ok()) return s;
    jobs_.AwaitEnd();
  }
  return Status::OK();
}

Status ToyEngine::Flush() {
  return CurrentView().through == PublishedSequence() ? Status::OK() : SpillNow();
}

// Each table of level 0 beyond what a compaction takes is one more that reads look at.
uint32_t ToyEngine::WriteDelayNs() const {
  const uint64_t tables = level0_tables_.load(std::memory_order_relaxed);
  if (tables >= kLevel0TablesMax || LogIsFull()) return kStopWriting;
  const uint64_t beyond = tables - std::min<uint64_t>(tables, 2 * rules_.level0_tables);
  return static_cast<uint32_t>(beyond * kDelayPerTableNs);
}

// What it goes by is changed by jobs alone, which tell when they end.
void ToyEngine::AwaitWriting() {
  const MutexLock lock(&jobs_.mu);
  while (WriteDelayNs() == kStopWriting && !error_.is_set()) jobs_.AwaitEnd();
}

Status ToyEngine::Close() {
  log_->LeaveChunks([](const ChunkRef&) { return true; });
  if (CurrentView().through == PublishedSequence()) return pool_->Sync();
  Status s = Mark();
  pool_->readers()->Collect();  // no call is under way
  return s.ok() ? Spill() : s;
}

void ToyEngine::AddStats(Stats* stats) const {
  write_path_.AddStats(stats);
  const View view = CurrentView();
  {
    const MutexLock lock(&jobs_.mu);
    stats->flushes += spills_done_;
  }
  stats->compactions += compactions_.load(std::memory_order_relaxed);
  stats->recovered_records = recovered_.load(std::memory_order_relaxed);
  stats->dram_bytes += index_->count() * kEntryBytes;
  stats->sources.push_back({"index", gets_index_.Sum()});
  stats->sources.push_back({"tables", gets_tables_.Sum()});
  stats->levels.push_back({"log", 0, index_->count()});
  for (size_t i = 0; i < view.tables->level_count(); i++) {
    Stats::Level level{.name = Concat("L", i)};
    for (const auto& table : view.tables->level(i)) {
      level.tables++;
      level.records += table->info().records;
      stats->file_bytes += table->info().bytes;
    }
    stats->levels.push_back(level);
  }
}

std::string ToyEngine::Describe() const {
  const View view = CurrentView();
  std::string out = Concat("log: ", index_->count(), " records\n");
  for (size_t i = 0; i < view.tables->level_count(); i++) {
    out += Concat("L", i, ": ", view.tables->level(i).size(), " tables, ", view.tables->BytesOf(i),
                  " bytes\n");
  }
  return out;
}

Status ToyEngine::Check(CheckReport* report) {
  const View view = CurrentView();
  pool_->Check(&report->problems);
  pool_->ForEachChunk([&](const ChunkRef&) { report->chunks++; });
  for (auto at = index_->FindAtOrAfter({{}, kTagFirst}, false, view.through, kSequenceMax); at;
       at = index_->FindAtOrAfter({at->key.user_key, at->key.tag}, true, view.through,
                                  kSequenceMax)) {
    const Status s = VerifyRecord(*pool_, at->place);
    if (!s.ok()) report->problems.push_back(s.ToString());
    report->records++;
  }
  view.tables->ForEach([&](uint32_t, const auto& table) {
    report->tables++;
    const auto it = NewToyTableIterator(table);
    for (it->SeekToFirst(); it->Valid(); it->Next()) report->records++;
    if (!it->status().ok()) report->problems.push_back(it->status().ToString());
  });
  return Status::OK();
}

// It has no index to rebuild: what validates is found by Load.
Status ToyEngine::Rebuild(RepairReport* report) {
  Status s = Load();
  if (s.ok()) s = Mend();
  if (!s.ok()) return s;
  report->records_kept = index_->count();
  CurrentView().tables->ForEach(
      [&](uint32_t, const auto& table) { report->records_kept += table->info().records; });
  return s;
}

void ToyEngine::SetBackgroundError(const Status& status) {
  if (error_.Set(status)) jobs_.NotifyAll();
}

const EngineType kToyType = {.kind = kToyKind,
                             .name = "toy",
                             .tables_in_files = [](const Options&) { return true; },
                             .check_options = [](const Options&) { return Status::OK(); },
                             .flags = [](const Options&) { return uint64_t{0}; },
                             .make = [](const EngineContext& context) -> std::unique_ptr<Engine> {
                               return std::make_unique<ToyEngine>(context);
                             }};

}  // namespace lamella::testing
