#include "testing/toy/toy_engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/codec.h"
#include "base/concat.h"
#include "base/no_throw.h"
#include "iterator/merging_iterator.h"

namespace lamella::testing {

namespace {

constexpr uint64_t kEntryBytes = 96;  // of DRAM, beside its key
constexpr uint32_t kEditState = 1;    // the catalog's one kind of edit: the whole state
constexpr uint64_t kSpillShare = 8;   // of the memory budget
// Until a spill the log may take so much, or half as much as the table.
constexpr uint64_t kLogBytesMin = 2 << 20;

using Nodes = std::vector<ToyIndex::Node>;

uint64_t SpillBytes(const Options& options) {
  return options.memtable_bytes != 0 ? options.memtable_bytes
                                     : options.memory_budget_bytes / kSpillShare;
}

/// Walks the index, which changes meanwhile: each step is a search of its own.
class IndexIterator final : public InternalIterator {
 public:
  IndexIterator(const Pool* pool, std::shared_ptr<const ToyIndex> index, uint64_t above,
                uint64_t through)
      : pool_(pool), index_(std::move(index)), above_(above), through_(through) {}

  bool Valid() const override { return at_.has_value(); }
  void SeekToFirst() override { Seek({{}, kTagFirst}); }
  void SeekToLast() override { at_ = index_->Last(above_, through_); }
  void Seek(const InternalKey& target) override {
    at_ = index_->FindAtOrAfter(target, false, above_, through_);
  }
  void SeekForPrev(const InternalKey& target) override {
    at_ = index_->FindAtOrBefore(target, false, above_, through_);
  }
  void Next() override { at_ = index_->FindAtOrAfter(key(), true, above_, through_); }
  void Prev() override { at_ = index_->FindAtOrBefore(key(), true, above_, through_); }
  InternalKey key() const override { return {at_->key.user_key, at_->key.tag}; }
  std::string_view value() const override { return pool_->At<Record>(at_->place)->value(); }
  Status status() const override { return Status::OK(); }
  Status VerifyChecksum() const override { return VerifyRecord(*pool_, at_->place); }

 private:
  const Pool* const pool_;
  const std::shared_ptr<const ToyIndex> index_;
  const uint64_t above_;
  const uint64_t through_;
  std::optional<ToyIndex::Entry> at_;
};

bool IsWithin(uint64_t tag, uint64_t above, uint64_t through) {
  return TagSequence(tag) > above && TagSequence(tag) <= through;
}

}  // namespace

ToyIndex::Node ToyIndex::NewNode(size_t key_bytes) {
  Map one;
  one.emplace(Key{std::string(key_bytes, '\0'), 0}, PmPtr());
  return one.extract(one.begin());
}

void ToyIndex::Enter(Node node, std::string_view key, uint64_t tag, PmPtr place) {
  node.key().user_key.assign(key);
  node.key().tag = tag;
  node.mapped() = place;
  const MutexLock lock(&mu_);
  map_.insert(std::move(node));
}

std::optional<ToyIndex::Entry> ToyIndex::FindAtOrAfter(const InternalKey& target, bool beyond,
                                                       uint64_t above, uint64_t through) const {
  const MutexLock lock(&mu_);
  auto at = beyond ? map_.upper_bound(target) : map_.lower_bound(target);
  while (at != map_.end() && !IsWithin(at->first.tag, above, through)) ++at;
  if (at == map_.end()) return std::nullopt;
  return Entry{at->first, at->second};
}

std::optional<ToyIndex::Entry> ToyIndex::FindAtOrBefore(const InternalKey& target, bool beyond,
                                                        uint64_t above, uint64_t through) const {
  const MutexLock lock(&mu_);
  auto at = beyond ? map_.lower_bound(target) : map_.upper_bound(target);
  while (at != map_.begin()) {
    --at;
    if (IsWithin(at->first.tag, above, through)) return Entry{at->first, at->second};
  }
  return std::nullopt;
}

std::optional<ToyIndex::Entry> ToyIndex::Last(uint64_t above, uint64_t through) const {
  const MutexLock lock(&mu_);
  for (auto at = map_.end(); at != map_.begin();) {
    --at;
    if (IsWithin(at->first.tag, above, through)) return Entry{at->first, at->second};
  }
  return std::nullopt;
}

void ToyIndex::EraseThrough(uint64_t sequence) {
  const MutexLock lock(&mu_);
  std::erase_if(map_, [&](const auto& e) { return TagSequence(e.first.tag) <= sequence; });
}

uint64_t ToyIndex::CountAbove(uint64_t sequence) const {
  const MutexLock lock(&mu_);
  return static_cast<uint64_t>(std::count_if(map_.begin(), map_.end(), [&](const auto& e) {
    return TagSequence(e.first.tag) > sequence;
  }));
}

uint64_t ToyIndex::count() const {
  const MutexLock lock(&mu_);
  return map_.size();
}

std::string ToyEngine::State::Encode() const {
  std::string out;
  AppendFixed(&out, table);
  AppendFixed(&out, next_file);
  AppendFixed(&out, through);
  AppendFixed<uint32_t>(&out, static_cast<uint32_t>(ends.size()));
  for (const LogPosition& end : ends) {
    AppendFixed(&out, end.ordinal);
    AppendFixed(&out, end.offset);
  }
  AppendFixed<uint32_t>(&out, static_cast<uint32_t>(gaps.size()));
  for (const SequenceGap& gap : gaps) {
    AppendFixed(&out, gap.first);
    AppendFixed(&out, gap.last);
  }
  return out;
}

Status ToyEngine::State::Decode(std::string_view payload, State* state) {
  Decoder in(payload);
  state->table = in.Fixed<uint64_t>();
  state->next_file = in.Fixed<uint64_t>();
  state->through = in.Fixed<uint64_t>();
  for (auto n = in.Fixed<uint32_t>(); n > 0 && in.ok(); n--) {
    const auto ordinal = in.Fixed<uint64_t>();
    state->ends.push_back({ordinal, in.Fixed<uint64_t>()});
  }
  for (auto n = in.Fixed<uint32_t>(); n > 0 && in.ok(); n--) {
    const auto first = in.Fixed<uint64_t>();
    state->gaps.push_back({first, in.Fixed<uint64_t>()});
  }
  return in.done() ? Status::OK() : Status::Corruption("the toy's state in the catalog is none");
}

ToyEngine::ToyEngine(const EngineContext& context)
    : context_(context), pool_(context.pool), spill_bytes_(SpillBytes(*context.options)) {}

Status ToyEngine::OpenState() {
  return Catalog::Open(
      pool_, [this] { return state_.Encode(); },
      [this](uint32_t, std::string_view payload) {
        State state;
        Status s = State::Decode(payload, &state);
        if (s.ok()) state_ = std::move(state);
        return s;
      },
      &catalog_);
}

// Tables that a crash left without a name in the catalog.
Status ToyEngine::RemoveStrays() {
  std::vector<std::string> names;
  Status s = context_.files->ListDirectory(context_.directory, &names);
  for (size_t i = 0; s.ok() && i < names.size(); i++) {
    const auto number = TableFileNumber(names[i]);
    if (number && *number != state_.table)
      s = context_.files->RemoveFile(context_.directory + "/" + names[i]);
  }
  return s;
}

Status ToyEngine::ReadBack() {
  const bool power_cut = pool_->state().pages_lost;
  LogContents contents;
  Status s = ReadLog(*pool_, state_.ends, state_.through, state_.gaps, power_cut, &contents);
  if (!s.ok()) return s;
  gaps_ = state_.gaps;
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
  View view{nullptr, state_.through};
  Status s;
  if (state_.table != 0) s = ToyTable::Open(context_.files, PathOf(state_.table), &view.table);
  if (s.ok()) s = ReadBack();
  if (!s.ok()) return s;
  const MutexLock lock(&view_mu_);
  table_bytes_.store(view.table != nullptr ? view.table->bytes() : 0, std::memory_order_relaxed);
  view_ = std::move(view);
  return Status::OK();
}

Status ToyEngine::Load() {
  if (pool_->state().catalog_chunk == 0) return Status::OK();
  Status s = OpenState();
  return s.ok() ? LoadStore() : s;
}

Status ToyEngine::Mend() {
  Status s;
  if (catalog_ == nullptr) {
    s = Catalog::Create(pool_, [this] { return state_.Encode(); }, &catalog_);
    if (s.ok()) s = LoadStore();
  } else {
    catalog_->Mend();
  }
  if (s.ok()) s = RemoveStrays();
  if (s.ok() && gaps_ != state_.gaps) {
    State state = state_;
    state.gaps = gaps_;
    s = Edit(std::move(state));
  }
  if (s.ok()) FreeLogBefore(state_.ends);
  return s;
}

ToyEngine::View ToyEngine::CurrentView() const {
  const MutexLock lock(&view_mu_);
  return view_;
}

Status ToyEngine::Edit(State state) {
  std::swap(state, state_);
  Status s = catalog_->Append(kEditState, state_.Encode());
  if (!s.ok()) {
    state_ = std::move(state);
    return s;
  }
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

bool ToyEngine::SpillDue() const {
  const uint64_t table = table_bytes_.load(std::memory_order_relaxed);
  return entry_bytes_.load(std::memory_order_relaxed) >= spill_bytes_ ||
         record_bytes_.load(std::memory_order_relaxed) >= std::max(kLogBytesMin, table / 2);
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
  if (view.table == nullptr) return lookup;
  const size_t number = view.table->FindBlock(target);
  if (number == view.table->block_count()) return lookup;
  std::shared_ptr<const ToyTable::Block> block;
  lookup.damage = view.table->ReadBlock(number, &block);
  if (!lookup.damage.ok()) {
    lookup.state = LookupState::kDamaged;
    return lookup;
  }
  const ToyTable::Record& record = block->records[FindInBlock(*block, target)];
  if (!is_of_key(record.key.user_key)) return lookup;
  gets_table_.Add();
  lookup.state =
      TagKind(record.key.tag) == RecordKind::kDelete ? LookupState::kDeleted : LookupState::kFound;
  lookup.value = record.value;
  lookup.owner = std::move(block);
  return lookup;
}

std::unique_ptr<InternalIterator> ToyEngine::NewIterator(bool) {
  View view = CurrentView();
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(std::make_unique<IndexIterator>(pool_, index_, view.through, kSequenceMax));
  if (view.table != nullptr) children.push_back(NewToyTableIterator(std::move(view.table)));
  return NewMergingIterator(std::move(children));
}

std::optional<Job> ToyEngine::PickJob(JobClass job_class) {
  const MutexLock lock(&job_mu_);
  if (job_class != JobClass::kNormal || busy_) return std::nullopt;
  const auto job = [this](const char* name, Status (ToyEngine::*run)()) LAMELLA_REQUIRES(job_mu_) {
    busy_ = true;
    return Job{name, [this, run] {
                 const Status s = NoThrow([&] { return (this->*run)(); });
                 const MutexLock done(&job_mu_);
                 busy_ = false;
                 changed_.notify_all();
                 return s;
               }};
  };
  const bool wanted = spills_wanted_ > spills_begun_ || SpillDue();
  if (marked_ && marked_->settled->load(std::memory_order_acquire))
    return job("spill", &ToyEngine::Spill);
  if (!marked_ && wanted) return job("mark", &ToyEngine::Mark);
  if (pool_->CanGiveBack()) return job("give back", &ToyEngine::GiveBack);
  return std::nullopt;
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
    record_bytes_.store(0, std::memory_order_relaxed);
  });
  pool_->readers()->Retire(std::move(settling));  // keeps Y3
  const MutexLock lock(&job_mu_);
  marked_ = std::move(marked);
  spills_begun_++;
  return Status::OK();
}

// Keeps the newest version of each key, and those that a snapshot sees. A delete stays only where
// an older version does: there is nothing below.
Status ToyEngine::WriteTable(const Marked& marked, const View& view, ToyTableBuilder* builder) {
  const SnapshotList::Sample snapshots = context_.snapshots->Now();
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(std::make_unique<IndexIterator>(pool_, index_, view.through, marked.through));
  if (view.table != nullptr) children.push_back(NewToyTableIterator(view.table));
  const auto from = NewMergingIterator(std::move(children));
  std::string key;
  uint64_t newer = 0;             // the version before, of the same key; 0 is none
  std::vector<uint64_t> deletes;  // kept if an older version is
  Status s;
  for (from->SeekToFirst(); s.ok() && from->Valid(); from->Next()) {
    const InternalKey at = from->key();
    if (newer == 0 || at.user_key != key) {
      key = at.user_key;
      newer = 0;
      deletes.clear();
    }
    const uint64_t sequence = TagSequence(at.tag);
    const bool kept = newer == 0 || snapshots.Needed(sequence, newer);
    newer = sequence;
    if (!kept) continue;
    if (TagKind(at.tag) == RecordKind::kDelete) {
      deletes.push_back(at.tag);
      continue;
    }
    for (size_t i = 0; s.ok() && i < deletes.size(); i++) s = builder->Add({key, deletes[i]}, {});
    deletes.clear();
    if (s.ok()) s = builder->Add(at, from->value());
  }
  return s.ok() ? from->status() : s;
}

Status ToyEngine::Spill() {
  Marked marked;
  {
    const MutexLock lock(&job_mu_);
    marked = *marked_;
  }
  const View view = CurrentView();
  State state = state_;
  const uint64_t number = state.next_file++;
  state.table = 0;
  state.through = marked.through;
  state.ends = marked.ends;
  while (!state.gaps.empty() && state.gaps.front().last <= marked.through)
    state.gaps.erase(state.gaps.begin());
  ToyTableBuilder builder(context_.files, PathOf(number));
  View next{nullptr, marked.through};
  Status s = WriteTable(marked, view, &builder);
  if (s.ok() && builder.records() > 0) {
    state.table = number;
    s = builder.Finish(context_.directory);
    if (s.ok()) s = ToyTable::Open(context_.files, PathOf(number), &next.table);
  }
  EpochDomain::Retirement erasing(pool_->AfterAllPins(
      [index = index_, through = marked.through] { index->EraseThrough(through); }));
  if (s.ok()) s = Edit(std::move(state));  // keeps Y4
  if (s.ok() && pool_->IsInTheWay(catalog_->chunk())) s = catalog_->Rewrite();
  if (!s.ok()) return s;
  if (view.table != nullptr) view.table->MakeObsolete();
  {
    const MutexLock lock(&view_mu_);
    table_bytes_.store(next.table != nullptr ? next.table->bytes() : 0, std::memory_order_relaxed);
    view_ = std::move(next);
  }
  pool_->readers()->Retire(std::move(erasing));  // keeps Y2
  FreeLogBefore(marked.ends);
  const MutexLock lock(&job_mu_);
  marked_.reset();
  spills_done_++;
  return Status::OK();
}

void ToyEngine::FreeLogBefore(const std::vector<LogPosition>& ends) {
  freed_below_.resize(std::max(freed_below_.size(), ends.size()), 0);
  std::vector<ChunkRef> chunks;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != ChunkKind::kLog || chunk.owner >= ends.size()) return;
    if (chunk.ordinal < ends[chunk.owner].ordinal && chunk.ordinal >= freed_below_[chunk.owner])
      chunks.push_back(chunk);
  });
  for (size_t i = 0; i < ends.size(); i++) freed_below_[i] = ends[i].ordinal;
  for (const ChunkRef& chunk : chunks) pool_->FreeDeferred(chunk);
}

Status ToyEngine::SpillNow() {
  uint64_t wanted;
  {
    const MutexLock lock(&job_mu_);
    wanted = spills_begun_ + 1;
    spills_wanted_ = std::max(spills_wanted_, wanted);
  }
  context_.wake();
  const MutexLock lock(&job_mu_);
  while (spills_done_ < wanted) {
    Status s = error_.Get();
    if (!s.ok()) return s;
    changed_.wait(job_mu_);
  }
  return Status::OK();
}

Status ToyEngine::Flush() {
  return CurrentView().through == PublishedSequence() ? Status::OK() : SpillNow();
}

Status ToyEngine::CompactRange(std::string_view, std::string_view) { return SpillNow(); }

uint32_t ToyEngine::WriteDelayNs() const {
  return entry_bytes_.load(std::memory_order_relaxed) > 4 * spill_bytes_ ? kStopWriting : 0;
}

void ToyEngine::AwaitWriteDelayChange(std::chrono::nanoseconds at_most) {
  const MutexLock lock(&job_mu_);
  changed_.wait_for(job_mu_, at_most,
                    [this] { return WriteDelayNs() != kStopWriting || error_.is_set(); });
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
    const MutexLock lock(&job_mu_);
    stats->flushes += spills_done_;  // each is both
    stats->compactions += spills_done_;
  }
  stats->recovered_records = recovered_.load(std::memory_order_relaxed);
  stats->dram_bytes += index_->count() * kEntryBytes;
  stats->sources.push_back({"index", gets_index_.Sum()});
  stats->sources.push_back({"table", gets_table_.Sum()});
  stats->levels.push_back({"log", 0, index_->CountAbove(view.through)});
  if (view.table != nullptr) {
    stats->levels.push_back({"table", 1, view.table->records()});
    stats->file_bytes += view.table->bytes();
  }
}

std::string ToyEngine::Describe() const {
  const View view = CurrentView();
  return Concat("log: ", index_->CountAbove(view.through),
                " records; table: ", view.table == nullptr ? 0 : view.table->records(),
                " records\n");
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
  if (view.table == nullptr) return Status::OK();
  report->tables = 1;
  const auto it = NewToyTableIterator(view.table);
  for (it->SeekToFirst(); it->Valid(); it->Next()) report->records++;
  if (!it->status().ok()) report->problems.push_back(it->status().ToString());
  return Status::OK();
}

// It has no index to rebuild: what validates is found by Load.
Status ToyEngine::Rebuild(RepairReport* report) {
  Status s = Load();
  if (s.ok()) s = Mend();
  if (!s.ok()) return s;
  const View view = CurrentView();
  report->records_kept = index_->count() + (view.table != nullptr ? view.table->records() : 0);
  return s;
}

void ToyEngine::SetBackgroundError(const Status& status) {
  const MutexLock lock(&job_mu_);
  if (error_.Set(status)) changed_.notify_all();
}

const EngineType kToyType = {.kind = kToyKind,
                             .name = "toy",
                             .tables_in_files = true,
                             .check_options = [](const Options&) { return Status::OK(); },
                             .flags = [](const Options&) { return uint64_t{0}; },
                             .make = [](const EngineContext& context) -> std::unique_ptr<Engine> {
                               return std::make_unique<ToyEngine>(context);
                             }};

}  // namespace lamella::testing
