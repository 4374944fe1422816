#include "engine/zipperdb/zipperdb.h"

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "engine/zipperdb/type.h"
#include "index/skiplist_iterator.h"

namespace lamella {

namespace {

// The paper's level 0 is of 1 GB; it should fit what a small store has.
constexpr uint64_t kLevel0PerBudget = 4;
constexpr uint64_t kLevel0PerPool = 8;
constexpr uint64_t kLevel0BytesFloor = 64 << 10;

uint64_t Level0Bytes(const Options& options) {
  if (options.zipperdb.level0_bytes != 0) return options.zipperdb.level0_bytes;
  uint64_t bytes = options.memory_budget_bytes / kLevel0PerBudget;
  if (options.pool_bytes_max != 0) bytes = std::min(bytes, options.pool_bytes_max / kLevel0PerPool);
  return std::max(bytes, kLevel0BytesFloor);
}

uint64_t GuideShareOf(const Options& options) {
  return ShareOfBudget(options.memory_budget_bytes, options.zipperdb.guide_share);
}

TableMemory MemoryOf(const EngineContext& context) {
  return TableMemory(*context.options, GuideShareOf(*context.options), context.memory);
}

}  // namespace

ZipperDb::ZipperDb(const EngineContext& context)
    : BufferedEngine(context, MemoryOf(context).memtable_bytes()),
      options_(context.options->zipperdb),
      level0_bytes_(Level0Bytes(*context.options)),
      guide_bytes_(GuideShareOf(*context.options)),
      memory_(MemoryOf(context)),
      pending_frees_(context.pool),
      dead_(context.pool),
      bottom_(std::make_shared<ZipperList>(kBottomList, Around(true))),
      space_(context.pool, &bottom_->level, context.snapshots, &dead_, &pending_frees_, this,
             context.options->space_target),
      catalog_(context.pool),
      held_up_end_(context.pool),
      persister_(context.pool->gate(), WriteCause::kCompaction) {}

PmLevel::Surroundings ZipperDb::Around(bool is_last) {
  return {.pool = pool_,
          .snapshots = context_.snapshots,
          .dead = &dead_,
          .is_last = is_last,
          .memory = context_.memory,
          .second_chance_bytes_max = guide_bytes_};
}

// A rebuilding takes a missing number for the end of what survived, but for those up to the one
// that is noted here.
Status ZipperDb::SyncAll() {
  const uint64_t sequence = PublishedSequence();
  Status s = pool_->Sync();
  if (!s.ok() || !pool_->LosesUnsynced()) return s;
  s = catalog_.Edit(ZipperDbEdit::kSynced, [&](ZipperDbState* state) {
    state->synced_sequence = std::max(state->synced_sequence, sequence);
  });
  return s.ok() ? pool_->Sync() : s;  // the edit itself
}

Status ZipperDb::ChangeLists(ZipperDbEdit kind, const std::function<void(ZipperDbState*)>& change,
                             const MemTable* flushed, const std::shared_ptr<ZipperList>& fresh) {
  const MutexLock lock(&tables_mu_);
  ZipperDbState state = catalog_.Get();
  change(&state);
  const auto now = CurrentTables();
  auto tables = std::make_shared<ZipperDbTables>();
  tables->bottom_level = state.bottom()->level;
  for (size_t i = 0; i + 1 < state.lists.size(); i++) {
    const ZipperListState& list = state.lists[i];
    const auto known = std::ranges::find_if(
        now->uppers, [&](const auto& upper) { return upper.list->id == list.id; });
    tables->uppers.push_back(
        {list.level, list.frozen, known != now->uppers.end() ? known->list : fresh});
  }
  InstallMemory memory;
  Status s = catalog_.Edit(kind, change);
  if (s.ok()) Install(std::move(tables), flushed, std::move(memory));
  return s;
}

// All is in the pool: the pin stays.
Lookup ZipperDb::SearchTables(const TableSet& tables, const InternalKey& target, const Candidates&,
                              bool verify, EpochPin*) {
  const auto answer = [this](const PlacedVersion& found, StripedCounter* gets) {
    if (found.place.damaged()) return Damaged(found.place);
    gets->Add();
    return Found(found.place, found.kind);
  };
  for (const UpperList& upper : static_cast<const ZipperDbTables&>(tables).uppers) {
    const PlacedVersion found = upper.list->level.Find(target, verify, nullptr);
    if (found.place) return answer(found, &gets_uppers_);
  }
  const PlacedVersion found = bottom_->level.Find(target, verify, nullptr);
  return found.place ? answer(found, &gets_bottom_) : Lookup();
}

void ZipperDb::AddTableIterators(const std::shared_ptr<const TableSet>& tables, bool verify,
                                 std::vector<std::unique_ptr<InternalIterator>>* iterators) {
  const auto add = [&](ZipperList& list, const std::atomic<bool>* merged) {
    iterators->push_back(
        NewSkipListIterator(list.level.list(), list.level.second_chance(), verify, merged));
  };
  for (const UpperList& upper : static_cast<const ZipperDbTables&>(*tables).uppers)
    add(*upper.list, upper.list->in_bottom.get());
  add(*bottom_, nullptr);
}

// Nothing waits but MemTables: what they are merged into finds at once what they make obsolete of
// it. What is dead further down is guessed by the last.
std::optional<Unmerged> ZipperDb::UnmergedOf(const TableSet& tables) const {
  const double live_share = live_share_.load(std::memory_order_relaxed);
  Unmerged unmerged{.live_share_of_last = live_share};
  for (const UpperList& upper : static_cast<const ZipperDbTables&>(tables).uppers) {
    const auto bytes = static_cast<double>(upper.list->level.live_bytes());
    unmerged.live_bytes += static_cast<uint64_t>(bytes * live_share);
  }
  return unmerged;
}

// L0SlowDown (5.2.2): the paper's writers sleep a millisecond once level 0 is twice as large as it
// should be. Here they are held back a little long before.
uint32_t ZipperDb::CompactionDelayNs(const TableSet& tables) const {
  constexpr double kDelayNsMax = 1'000'000;
  const UpperList* const top = static_cast<const ZipperDbTables&>(tables).Filled(0);
  if (top == nullptr) return 0;
  const auto bytes = static_cast<double>(top->list->bytes.load(std::memory_order_relaxed));
  const double over = std::clamp(bytes / static_cast<double>(level0_bytes_) - 1, 0.0, 1.0);
  return static_cast<uint32_t>(kDelayNsMax * over * over * over);
}

uint64_t ZipperDb::GuideBytes() const {
  uint64_t bytes = bottom_->level.second_chance()->memory_bytes();
  const auto tables = CurrentTables();
  for (const UpperList& upper : tables->uppers)
    bytes += upper.list->level.second_chance()->memory_bytes();
  return bytes;
}

// Each list may have what the others leave; the upper ones, which are smaller and searched first,
// half of all together.
void ZipperDb::ShareGuides() {
  if (guide_bytes_ == 0) return;
  constexpr uint64_t kPartMin = 16;  // of all, whatever the others have
  const auto tables = CurrentTables();
  uint64_t uppers = 0;
  for (const UpperList& upper : tables->uppers)
    uppers += upper.list->level.second_chance()->memory_bytes();
  const auto left = [&](uint64_t all, uint64_t others) {
    return std::max(all > others ? all - others : 0, guide_bytes_ / kPartMin);
  };
  for (const UpperList& upper : tables->uppers) {
    SecondChanceCache* const guide = upper.list->level.second_chance();
    guide->SetBytesMax(left(guide_bytes_ / 2, uppers - guide->memory_bytes()));
  }
  bottom_->level.second_chance()->SetBytesMax(left(guide_bytes_, uppers));
  guides_bytes_.store(GuideBytes(), std::memory_order_relaxed);
}

// What a store gives back is found without it, if more slowly.
Status ZipperDb::Shrink() {
  const auto tables = CurrentTables();
  for (const UpperList& upper : tables->uppers) upper.list->level.second_chance()->Shrink();
  bottom_->level.second_chance()->Shrink();
  SwitchMemTable(false);
  return Status::OK();
}

Claims ZipperDb::Ways() {
  Claims claims{{kBottom, {}}};
  for (uint32_t level = 0; level < kZipperDbLevelsMax; level++)
    claims.push_back({kWayDown + level, {}});
  return claims;
}

bool ZipperDb::GoesToBottom(const UpperList& frozen, const ZipperDbTables& tables) const {
  return frozen.level + 1 >= tables.bottom_level || frozen.list->to_bottom.load();
}

Claims ZipperDb::WayOf(const UpperList& frozen, const ZipperDbTables& tables) const {
  Claims claims{{kWayDown + frozen.level, {}}};
  if (GoesToBottom(frozen, tables)) claims.push_back({kBottom, {}});
  return claims;
}

Claims ZipperDb::FillingOf(uint32_t level) {
  if (level == 0) return {{kTop, {}}};
  return {{kWayDown + level - 1, {}}};
}

// A merge into it that failed, or was cut by a crash, goes on first.
bool ZipperDb::MayBeFrozen(const UpperList& upper, const ZipperDbTables& tables) const {
  if (upper.frozen || tables.Frozen(upper.level) != nullptr) return false;
  const ZipperDbState state = catalog_.Get();
  const auto goes_there = [&](const MergeState& merge) { return merge.into == upper.list->id; };
  return !goes_there(state.flush.merge) && std::ranges::none_of(state.lists, [&](const auto& list) {
    return goes_there(list.merge);
  });
}

// What fills a list freezes it where its way down is free then (NoteMerged). Where it is not, and
// becomes free later, nothing else may come for long: writers are held back until a list is frozen
// that writing alone would fill further.
std::optional<uint32_t> ZipperDb::FullLevel(const ZipperDbTables& tables) const {
  for (const UpperList& upper : tables.uppers) {
    if (upper.list->bytes.load(std::memory_order_relaxed) >= BytesMax(upper.level) &&
        MayBeFrozen(upper, tables) && jobs_.MayBegin(FillingOf(upper.level)))
      return upper.level;
  }
  return std::nullopt;
}

bool ZipperDb::IsMergingIntoBottom() const {
  const ZipperDbState state = catalog_.Get();
  return state.flush.merge.into == kBottomList ||
         std::ranges::any_of(state.lists,
                             [](const auto& list) { return list.merge.into == kBottomList; });
}

std::optional<Job> ZipperDb::PickJob(JobClass job_class) {
  if (job_class == JobClass::kUrgent) return PickUrgentJob();
  const MutexLock lock(&jobs_.mu);
  return MakeJob(PickZipperDbJob(Picture()));
}

// What PickZipperDbJob goes by.
ZipperDbPicture ZipperDb::Picture() {
  // The lock before the tables: merge_all_ is then of no later MemTables than these.
  const auto read_set = CurrentReadSet();
  const auto& tables = static_cast<const ZipperDbTables&>(*read_set->tables);
  if (read_set->sealed.empty() && tables.uppers.empty()) merge_all_ = false;
  ZipperDbPicture now;
  for (const UpperList& upper : tables.uppers) {
    if (!upper.frozen) continue;
    now.frozen.push_back({.level = upper.level,
                          .to_bottom = GoesToBottom(upper, tables),
                          .may_begin = jobs_.MayBegin(WayOf(upper, tables))});
  }
  Claims all = Ways();
  all.push_back({kTop, {}});
  now.full = FullLevel(tables);
  now.uppers = !tables.uppers.empty();
  now.merge_all = merge_all_;
  now.uppers_take_too_much = UppersTakeTooMuch(tables);
  now.bottom_free = !jobs_.IsBusy(kBottom);
  now.half_merged = now.bottom_free && IsMergingIntoBottom();
  now.all_free = jobs_.MayBegin(all);
  now.flush_waits = !read_set->sealed.empty();
  now.must_shrink = context_.memory->MustShrink() && HoldsTooMuch(*read_set);
  now.guides_are_cold = guides_are_cold_;
  now.giving_back = jobs_.IsBusy(kPoolEnd);
  now.space_had_turn = space_.had_turn();
  now.space = space_.Picture(PublishedSequence());
  now.space.merges_wait = merge_all_ || now.flush_waits || !now.frozen.empty();
  return now;
}

// True of what Shrink makes false, so that it ends.
bool ZipperDb::HoldsTooMuch(const ReadSet& read_set) const {
  const auto& tables = static_cast<const ZipperDbTables&>(*read_set.tables);
  return bottom_->level.second_chance()->IsTooLarge() || IsFull(*read_set.active) ||
         std::ranges::any_of(tables.uppers, [](const UpperList& upper) {
           return upper.list->level.second_chance()->IsTooLarge();
         });
}

std::optional<Job> ZipperDb::MakeJob(const PickedZipperDbJob& picked) {
  Claims all = Ways();
  all.push_back({kTop, {}});
  switch (picked.job) {
    case ZipperDbJob::kNone:
      break;
    case ZipperDbJob::kShrink:
      return Begin(std::move(all), "shrink", [this] { return Shrink(); });
    case ZipperDbJob::kWarm: {
      Job warm = Begin(std::move(all), "warm", [this] {
        Warm();
        return Status::OK();
      });
      guides_are_cold_ = false;
      return warm;
    }
    case ZipperDbJob::kFreeze:
      return Begin(FillingOf(picked.level), "freeze",
                   [this, level = picked.level] { return FreezeFull(level); });
    case ZipperDbJob::kMerge: {
      const auto tables = CurrentTables();
      const UpperList* const frozen = tables->Frozen(picked.level);
      if (frozen == nullptr) break;
      const bool at_bottom = GoesToBottom(*frozen, *tables);
      Job merge = Begin(WayOf(*frozen, *tables), "merge",
                        [this, id = frozen->list->id, full = space_.pool_is_full()] {
                          return MergeDown(id, {.in_place = full});
                        });
      if (at_bottom) space_.NoteMerge();
      return merge;
    }
    case ZipperDbJob::kSpace: {
      LevelSpace::Work work = space_.Begin(picked.space, PublishedSequence());
      return Begin({{kBottom, {}}}, work.name, std::move(work.run));
    }
    case ZipperDbJob::kMergeAll:
      space_.NoteMerge();
      return Begin(Ways(), "merge all",
                   [this, full = space_.pool_is_full()] { return MergeAll(full); });
    case ZipperDbJob::kTrimEnd:
      if (pool_->CanGiveBack())
        return Begin({{kPoolEnd, {}}}, "give back", [this] { return pool_->GiveBack(); });
      if (held_up_end_.Due(merges() + space_.gc()->released()))
        return Begin({{kBottom, {}}}, "clear the pool's end", [this] { return ClearEnd(); });
      break;
  }
  return std::nullopt;
}

Job ZipperDb::Begin(Claims claims, const char* name, std::function<Status()> run) {
  return jobs_.Begin({.name = name, .claims = std::move(claims), .run = std::move(run)});
}

Status ZipperDb::Close() {
  Status s = FlushAllNow();
  if (!s.ok()) return s;
  log_->LeaveChunks([](const ChunkRef&) { return true; });
  space_.gc()->LeaveChunks([](const ChunkRef&) { return true; });
  s = catalog_.Edit(ZipperDbEdit::kCounted, [&](ZipperDbState* state) {
    state->uncounted = space_.is_uncounted();
    ZipperListState* const bottom = state->bottom();
    bottom->count = bottom_->level.count();
    bottom->live_bytes = bottom_->level.live_bytes();
  });
  return s.ok() ? SyncAll() : s;
}

void ZipperDb::AddStats(Stats* stats) const {
  BufferedEngine::AddStats(stats);
  stats->sources.push_back({"upper levels", gets_uppers_.Sum()});
  stats->sources.push_back({"bottom level", gets_bottom_.Sum()});
  stats->compactions += merges();
  stats->gc_runs += space_.gc().runs();
  stats->gc_bytes_relocated += space_.gc().bytes_relocated();
  const auto tables = CurrentTables();
  for (const UpperList& upper : tables->uppers) {
    stats->levels.push_back({.name = Concat("L", upper.level, upper.frozen ? " frozen" : ""),
                             .tables = 1,
                             .records = upper.list->level.count()});
    stats->live_bytes += upper.list->level.live_bytes();
  }
  stats->levels.push_back(
      {.name = Concat("L", tables->bottom_level), .tables = 1, .records = bottom_->level.count()});
  stats->live_bytes += bottom_->level.live_bytes();
  stats->dram_bytes += GuideBytes();
}

std::string ZipperDb::Describe() const {
  const auto tables = CurrentTables();
  std::string out = BufferedEngine::Describe();
  const auto describe = [&out](uint32_t level, const char* what, const ZipperList& list) {
    out += Concat("L", level, what, ": ", list.level.count(),
                  " records; guide: ", list.level.second_chance()->memory_bytes(),
                  " bytes, elements of height ", list.level.second_chance()->height_min(),
                  " and more\n");
  };
  for (const UpperList& upper : tables->uppers)
    describe(upper.level, upper.frozen ? " (going down)" : "", *upper.list);
  describe(tables->bottom_level, " (bottom)", *bottom_);
  return out + Concat("merges: ", in_place_.load(std::memory_order_relaxed), " in place, ",
                      copied_.load(std::memory_order_relaxed), " by copies\n");
}

}  // namespace lamella
