// Flushes and compactions, and what writers wait for.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/no_throw.h"
#include "engine/lightkv/lightkv.h"
#include "iterator/merging_iterator.h"

namespace lamella {

namespace {

// Until a flush the log may take so much, or half as much as the tables.
constexpr uint64_t kBufferBytesMin = 2 << 20;
// Less of the tree's memory is no reason for a flush, however short memory is.
constexpr uint64_t kIndexBytesMin = 64 << 10;
// Of level 0 for each leaf: nobody writes from there on. More than any CS: then some partition has
// more than CS of them, and they can be compacted.
constexpr uint64_t kCrowdMax = 24;
constexpr uint64_t kDelayPerSizeNs = 40'000;  // with CS of them
// What jobs are worth, beside compactions, which are worth less than kFirst.
constexpr double kFirst = 1e9;

}  // namespace

uint64_t LightKv::FlushBytes() const {
  const uint64_t tables = table_bytes_.load(std::memory_order_relaxed);
  return std::min(buffer_bytes_max_, std::max(kBufferBytesMin, tables / 2));
}

// Where memory is short, a store that has its share of it flushes early.
bool LightKv::IsFlushDue(const RhTree& top) const {
  const uint64_t bytes = record_bytes_.load(std::memory_order_relaxed);
  if (bytes >= FlushBytes()) return true;
  const uint64_t index_bytes = top.memory_bytes();
  if (bytes == 0 || index_bytes >= index_bytes_max_) return bytes != 0;
  const uint64_t empty = empty_bytes_.load(std::memory_order_relaxed);
  const uint64_t grown = index_bytes - std::min(empty, index_bytes);
  return grown >= kIndexBytesMin && context_.memory != nullptr && context_.memory->MustShrink() &&
         grown >= context_.memory->ShareOf(index_bytes_max_);
}

uint64_t LightKv::FlushedSequence() const {
  const MutexLock lock(&jobs_.mu);
  return flushed_sequence_;
}

JobOffer LightKv::OfferOf(PartitionCompaction compaction) {
  const auto tables = static_cast<double>(compaction.inputs.size());
  return {.name = "compact",
          .claims = {{kWeight0 + compaction.weight, compaction.keys},
                     {kWeight0 + compaction.into, compaction.keys}},
          .benefit = tables / compaction.size,
          .cost = 1 + static_cast<double>(compaction.read_bytes),
          .run = [this, compaction = std::move(compaction)] {
            return TryForRoom(kCompactions, [&] { return Compact(compaction); });
          }};
}

std::optional<Job> LightKv::PickJob(JobClass job_class) {
  const MutexLock lock(&jobs_.mu);
  const View view = CurrentView();  // what a job that is over changed is in it
  std::vector<JobOffer> offers;
  const auto offer = [&](const char* name, uint32_t has, double worth, Status (LightKv::*run)()) {
    offers.push_back(
        {.name = name, .claims = {{has, {}}}, .benefit = worth, .cost = 1, .run = [this, run] {
           return (this->*run)();
         }});
  };
  // Who waits for space or for memory comes first, and not after a compaction that is under way.
  // Whoever has let what a flush waits for settle is whom it is offered.
  if (rooms_[kFlushes].MayHaveSome() && sealed_ &&
      sealed_->settled->load(std::memory_order_acquire))
    offer("flush", kLog, kFirst, &LightKv::TryFlush);
  if (!sealed_ && (flushes_wanted_ > flushes_begun_ || IsFlushDue(*view.top)))
    offer("seal", kLog, kFirst, &LightKv::Seal);
  if (job_class == JobClass::kUrgent) return jobs_.BeginBest(std::move(offers));
  if (rooms_[kCompactions].MayHaveSome()) {
    for (PartitionCompaction& one : FindPartitionCompactions(*view.levels, rules_, yields_.Sizes()))
      offers.push_back(OfferOf(std::move(one)));
  }
  if (pool_->CanGiveBack()) offer("give back", kPoolEnd, 0, &LightKv::GiveBack);
  return jobs_.BeginBest(std::move(offers));
}

Status LightKv::GiveBack() { return pool_->GiveBack(); }

Status LightKv::TryForRoom(RoomFor what, const std::function<Status()>& job) {
  uint64_t attempt;
  {
    const MutexLock lock(&jobs_.mu);
    attempt = rooms_[what].Begin();
  }
  const Status status = NoThrow(job);
  const MutexLock lock(&jobs_.mu);
  const bool none = rooms_[what].Note(attempt, status);
  starved_[what].store(none, std::memory_order_relaxed);
  return none ? Status::OK() : status;
}

// Who resumes says that there may be room again.
void LightKv::ClearBackgroundError() {
  {
    const MutexLock lock(&jobs_.mu);
    for (FileRoom& room : rooms_) room.Need();
  }
  error_.Clear();
}

// The next write may find what this one asks for.
Status LightKv::RefuseForRoom() {
  Status s;
  {
    const MutexLock lock(&jobs_.mu);
    rooms_[kFlushes].Need();
    s = rooms_[kFlushes].none();
  }
  context_.nudge();
  return s;
}

Status LightKv::Seal() {
  if (pool_->IsHeldUp())  // by what this flush would leave where it is
    log_->LeaveChunks([this](const ChunkRef& chunk) { return pool_->IsInTheWay(chunk); });
  Sealed sealed;
  sealed.settled = std::make_shared<std::atomic<bool>>(false);
  EpochDomain::Retirement settling(
      [settled = sealed.settled] { settled->store(true, std::memory_order_release); });
  {
    const MutexLock lock(&change_mu_);
    View next = CurrentView();
    write_path_.BetweenWrites([&](uint64_t last, std::vector<LogPosition> ends) {
      next.older = next.top;
      next.older_bytes = record_bytes_.load(std::memory_order_relaxed);  // nobody enters anything
      most_leaves_.store(next.older->leaf_count(), std::memory_order_relaxed);
      next.top = next.older->EmptyCopy([this](std::string_view begin) { return IsBound(begin); });
      empty_bytes_.store(next.top->memory_bytes(), std::memory_order_relaxed);
      RhTree* const top = next.top.get();
      sealed.record_bytes = next.older_bytes;
      NextView view(this, std::move(next));
      record_bytes_.store(0, std::memory_order_relaxed);  // once nothing may throw any more
      std::move(view).Set();  // keeps L1: before anything enters the new tree
      top_ = top;
      sealed.through = last;
      sealed.ends = std::move(ends);
      sealed.at = std::chrono::steady_clock::now();
    });
  }
  has_sealed_.store(true, std::memory_order_relaxed);
  pool_->readers()->Retire(std::move(settling));  // keeps L2
  const MutexLock lock(&jobs_.mu);
  sealed_ = std::move(sealed);
  flushes_begun_++;
  return Status::OK();
}

// Of the leaves' bounds always the same ones, whatever leaves are split: so tables of a partition
// have its range for as long as it is none of several.
std::vector<std::string> LightKv::Bounds() const {
  std::vector<std::string> bounds;
  for (RhTree::Range& range : CurrentView().top->Ranges()) {
    if (IsBound(range.begin)) bounds.push_back(std::move(range.begin));
  }
  return bounds;
}

Status LightKv::TryFlush() {
  return TryForRoom(kFlushes, [this] { return FlushSealed(); });
}

Status LightKv::FlushSealed() {
  Sealed sealed;
  {
    const MutexLock lock(&jobs_.mu);
    sealed = *sealed_;
  }
  const View view = CurrentView();
  // Without it, an earlier try did all but sync.
  Status s = view.older != nullptr ? WriteSealed(view, sealed) : pool_->Sync();
  if (s.ok()) s = catalog_.LeaveEnd();
  if (!s.ok()) return s;
  pending_frees_.FreeLogBefore(sealed.ends);
  const auto took = std::chrono::steady_clock::now() - sealed.at;
  const auto took_ns = static_cast<uint64_t>(std::chrono::nanoseconds(took).count());
  pace_.Note(sealed.record_bytes, took_ns);
  flush_ns_.fetch_add(took_ns, std::memory_order_relaxed);
  const MutexLock lock(&jobs_.mu);
  flushed_sequence_ = sealed.through;
  sealed_.reset();
  has_sealed_.store(false, std::memory_order_relaxed);
  flushes_done_++;
  return Status::OK();
}

Status LightKv::WriteSealed(const View& view, const Sealed& sealed) {
  // What is damaged would be sound in a table, by that one's checksum.
  const auto from = NewRhTreeIterator(pool_, view.older, true);
  Made made;
  Status s = files_.Write(
      from.get(), context_.snapshots->Now(),
      [&](std::string_view key) { return view.levels->MayHold(0, key); },  // keeps L4
      &made.tables, Bounds(), true);
  if (!s.ok()) return s;
  s = Install(LightKvEdit::kFlush, made, true, [&](LightKvState* state) {
    state->flushed_sequence = sealed.through;
    state->boundary = sealed.ends;
    std::erase_if(state->gaps, [&](const SequenceGap& gap) { return gap.last <= sealed.through; });
  });
  if (!s.ok()) return s;
  for (const auto& table : made.tables)
    flushed_records_.fetch_add(table->info().records, std::memory_order_relaxed);
  return s;
}

void LightKv::NoteYield(const std::vector<SstLevels::Level>& inputs, const MadeSsts& outputs) {
  const auto last = static_cast<uint32_t>(inputs.size()) - 1;
  double before = 0;
  double after = 0;
  uint32_t first = last;
  uint64_t tables = 0;  // of a partition
  for (uint32_t i = 0; i < inputs.size(); i++) {
    if (inputs[i].empty()) continue;
    first = std::min(first, i);
    tables += i == 0 ? inputs[0].size() / CountPartitions(inputs[0]) : 1;  // there they overlap
    for (const auto& table : inputs[i]) before += static_cast<double>(table->info().records);
  }
  for (const auto& table : outputs) after += static_cast<double>(table->info().records);
  if (tables < 2 || rules_.WeightOf(first) != rules_.WeightOf(last)) return;
  const MutexLock lock(&jobs_.mu);
  yields_.Note(rules_.WeightOf(last), tables, 1 - after / before);
}

Status LightKv::Merge(const View& view, const std::vector<SstLevels::Level>& inputs,
                      uint32_t into) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  Made made{.removed = {}, .weight = into, .tables = {}};
  for (uint32_t i = 0; i < inputs.size(); i++) {
    if (inputs[i].empty()) continue;
    SstFiles::AddIterators(i, std::make_shared<const SstLevels::Level>(inputs[i]), kMergeScan,
                           &children);
    for (const auto& table : inputs[i]) made.removed.push_back(table->info().number);
  }
  if (made.removed.empty()) return Status::OK();
  const uint32_t below = rules_.LastLevel(rules_.WeightOf(inputs.size() - 1)) + 1;
  const auto from = NewMergingIterator(std::move(children));
  Status s = files_.Write(
      from.get(), context_.snapshots->Now(),
      [&](std::string_view key) { return view.levels->MayHold(below, key); },  // keeps L4
      &made.tables, Bounds());
  if (s.ok()) s = Install(LightKvEdit::kCompact, made, false, [](LightKvState*) {});
  if (!s.ok()) return s;
  for (const SstLevels::Level& tables : inputs) {
    for (const auto& table : tables) table->MakeObsolete();
  }
  NoteYield(inputs, made.tables);
  compactions_.fetch_add(1, std::memory_order_relaxed);
  return s;
}

Status LightKv::Compact(const PartitionCompaction& compaction) {
  const View view = CurrentView();
  std::vector<SstLevels::Level> inputs(rules_.LastLevel(compaction.weight) + 1);
  for (uint32_t i = 0; i < inputs.size(); i++) {
    for (const auto& table : view.levels->level(i)) {
      if (std::ranges::find(compaction.inputs, table->info().number) != compaction.inputs.end())
        inputs[i].push_back(table);
    }
  }
  return Merge(view, inputs, compaction.into);
}

// Of the range, all tables into the weight of the oldest.
Status LightKv::CompactRange(std::string_view begin, std::string_view end) {
  Status s = FlushNow();
  if (!s.ok()) return s;
  Claims claims;
  for (uint32_t i = 0; i < rules_.weight_count(); i++) claims.push_back({kWeight0 + i, {}});
  const JobBoard::Held held = jobs_.Take(std::move(claims));
  return NoThrow([&] {
    const View view = CurrentView();
    KeyRange keys = KeyRange::Of(begin, end);
    auto inputs = OverlappingAll(*view.levels, 0, kTableLevelsMax - 1, &keys);
    while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
    if (inputs.empty()) return Status::OK();
    const uint32_t oldest = rules_.WeightOf(static_cast<uint32_t>(inputs.size()) - 1);
    return Merge(view, inputs, std::max(1u, oldest));
  });
}

Status LightKv::AwaitFlush(Which which) {
  uint64_t wanted;
  uint64_t begun;
  {
    const MutexLock lock(&jobs_.mu);
    wanted = flushes_begun_ + (which == kNext ? 1 : 0);
    if (flushes_done_ >= wanted) return Status::OK();
    flushes_wanted_ = std::max(flushes_wanted_, wanted);
    rooms_[kCompactions].Need();
    begun = rooms_[kFlushes].Need();
  }
  context_.wake();
  const MutexLock lock(&jobs_.mu);
  while (flushes_done_ < wanted) {
    Status s = error_.Get();
    if (s.ok()) s = rooms_[kFlushes].NoneAfter(begun);
    if (!s.ok()) return s;
    jobs_.AwaitEnd();
  }
  return Status::OK();
}

// A flush counts from a little after its tree was sealed: the first may be one that this call's
// caller was too late for.
Status LightKv::FlushNow() {
  const uint64_t last = PublishedSequence();
  Status s = AwaitFlush(kNext);
  while (s.ok() && FlushedSequence() < last) s = AwaitFlush(kNext);
  return s;
}

Status LightKv::Flush() {
  return FlushedSequence() == PublishedSequence() ? Status::OK() : FlushNow();
}

// A flush may have ended, and given back the log, between the write that found no space and this:
// so that one tries again wherever something was flushed since the last one was told of none. The
// one that is under way is of most of the log: where it gives back any, no other is to be made of
// what little was written beside it.
Status LightKv::MakeSpace() {
  // Calls that are under way hold back what a flush gave back.
  const auto is_held_back = [this] {
    constexpr std::chrono::milliseconds kReadersAtMost(100);
    const bool readers_hold = !pool_->readers()->AwaitRetired(kReadersAtMost);
    const bool is_deferred = pool_->AwaitDeferred() != 0;
    context_.nudge();  // a flush may wait for what this thread has let settle
    return is_deferred || readers_hold;
  };
  const uint64_t free = pool_->free_chunks();
  const uint64_t before = FlushedSequence();
  Status s = AwaitFlush(kBegun);
  if (s.ok() && FlushedSequence() != before) {
    is_held_back();
    if (pool_->free_chunks() > free) return s;
  }
  if (s.ok()) s = FlushNow();
  if (!s.ok()) return s;
  const bool is_held = is_held_back();
  const uint64_t flushed = FlushedSequence();
  // What this call has waited for is news to it, whoever else has taken note.
  const bool is_new =
      exhausted_at_.exchange(flushed, std::memory_order_relaxed) != flushed || flushed != before;
  return is_new || is_held || pool_->free_chunks() > free ? s : Status::NoSpace("");
}

double LightKv::OverFlush(const View& view) const {
  if (view.older == nullptr) return -1;
  const auto beside = BesideFlush::Of(view.older_bytes, FlushBytes(), log_bytes_max_);
  const double index =
      static_cast<double>(view.top->memory_bytes()) / static_cast<double>(index_bytes_max_);
  return std::max(index - 1, beside.Over(record_bytes_.load(std::memory_order_relaxed)));
}

// Each table of level 0 is one that compaction has not caught up with, and reads look at, beside
// those of each weight. It waits for merges of weight 0, so it counts by that one's CS. All
// partitions of a new store fill in step, and are merged one after the other: the larger CS, the
// more is flushed meanwhile. What is written beside a flush is what writers would be stopped for.
uint32_t LightKv::WriteDelayNs() const {
  // Nobody waits for compactions that find no room.
  const uint64_t crowd = IsStarved(kCompactions) ? 0 : crowd_.load(std::memory_order_relaxed);
  const EpochPin pin(pool_->readers());
  const View& view = *view_.load(std::memory_order_acquire);
  if (IsStarved(kFlushes)) return 0;  // Provide refuses
  if (crowd >= kCrowdMax || IsFull(view)) return kStopWriting;
  const auto crowd_ns = static_cast<uint32_t>(crowd * kDelayPerSizeNs / rules_.compaction_size);
  const double over = OverFlush(view);
  if (over <= 0) return crowd_ns;
  const double record_bytes = static_cast<double>(record_bytes_.load(std::memory_order_relaxed)) /
                              static_cast<double>(view.top->count() + 1);
  return std::max(crowd_ns, pace_.DelayNs(over, record_bytes));
}

// What it goes by is changed by jobs alone, which tell when they end.
void LightKv::AwaitWriting() {
  const MutexLock lock(&jobs_.mu);
  while (WriteDelayNs() == kStopWriting && !error_.is_set()) jobs_.AwaitEnd();
}

Status LightKv::FlushAlone() {
  Status s;
  if (CurrentView().older == nullptr) s = Seal();
  pool_->readers()->Collect();
  return s.ok() ? FlushSealed() : s;
}

Status LightKv::Close() {
  log_->LeaveChunks([](const ChunkRef&) { return true; });
  Status s;
  while (s.ok() && FlushedSequence() != PublishedSequence()) s = FlushAlone();
  return s.ok() ? pool_->Sync() : s;
}

}  // namespace lamella
