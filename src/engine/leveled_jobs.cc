// The jobs of an engine with levels: which are on offer, and what they do.

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/no_throw.h"
#include "engine/leveled_engine.h"

namespace lamella {

namespace {

// What jobs are worth, beside compactions, which are worth their level's score, about, over what
// they read: beyond these none of them is.
constexpr double kFirst = 1e9;
constexpr double kLast = 1e-9;
constexpr double kMoveCost = 1 << 10;  // of an edit, in bytes
// Making a table anew moves nothing down: beside a compaction it is worth so much less for its
// cost, and so many times more as the store is larger than it should be.
constexpr double kRewriteWorth = 0.25;
// Versions that snapshots left are taken out once they are this part of a table.
constexpr uint64_t kKeptPart = 16;

}  // namespace

Levels::Level LeveledEngine::SettledOf(const Levels::Level& level0) const {
  std::erase_if(settling_, [](const Settling& table) {
    return table.second->load(std::memory_order_acquire);
  });
  const auto is_settling = [this](const auto& table) LAMELLA_REQUIRES(jobs_.mu) {
    return std::ranges::find(settling_, table->info().number, &Settling::first) != settling_.end();
  };
  auto from = level0.end();
  while (from != level0.begin() && !is_settling(*std::prev(from))) --from;
  return {from, level0.end()};
}

Claims LeveledEngine::ClaimAll() const {
  Claims claims;
  for (uint32_t i = 0; i <= rules_.levels.last_level; i++) claims.push_back({kLevel0 + i, {}});
  return claims;
}

JobOffer LeveledEngine::OfferOf(Compaction compaction) {
  Claims claims = ClaimsOf(compaction, kLevel0);
  const double benefit = compaction.benefit;
  const double cost = static_cast<double>(compaction.read_bytes) + kMoveCost;
  return {.name = "compact",
          .claims = std::move(claims),
          .benefit = benefit,
          .cost = cost,
          .run = [this, compaction = std::move(compaction)] {
            return NoteRoom(RunCompaction(compaction));
          }};
}

JobOffer LeveledEngine::RewriteOf(uint32_t level, const LevelTable& table, const char* name,
                                  double benefit, const std::set<uint64_t>& sparse) {
  const TableInfo& info = table.info();
  return {.name = name,
          .claims = {{kLevel0 + level, {info.smallest, info.largest}}},
          .benefit = benefit,
          .cost = 1,
          .run = [this, level, number = info.number, sparse] {
            return NoteRoom(Rewrite(level, number, sparse));
          }};
}

SpaceGoal LeveledEngine::GoalNow(const LeveledTables& tables, bool pool_is_full) const {
  double live = static_cast<double>(LiveBytes());
  for (const auto& table : tables.levels.level(0))
    live += static_cast<double>(table->place().live_bytes) * tables.live_share_of_last;
  SpaceGoal goal{.bytes_per_live = context_.options->space_target,
                 .rewrite_share = rules_.rewrite_share,
                 .live_bytes = static_cast<uint64_t>(live),
                 .chunk_bytes = pool_->chunk_bytes(),
                 .copy_bytes_max = UINT64_MAX,
                 .pool_is_full = pool_is_full};
  if (pool_is_full) goal.copy_bytes_max = pool_->chunks_available() * pool_->chunk_bytes() / 2;
  return goal;
}

bool LeveledEngine::Refers(const LevelTable& table, const std::set<uint64_t>& regions) {
  return std::ranges::any_of(
      table.regions(), [&](const auto& region) { return regions.contains(region->number()); });
}

// What space there is to be had, once per version: records of sparse regions, and versions that no
// snapshot needs any more.
void LeveledEngine::OfferRewrites(const LeveledTables& tables, std::vector<JobOffer>* offers) {
  const SpaceGoal goal = GoalNow(tables, false);
  double share = 0;
  {
    const MutexLock lock(&uses_mu_);
    if (!rules_.copies_records) sparse_ = FindSparse(uses_, refs_, goal);
    uint64_t bytes = 0;
    for (const auto& [number, use] : uses_) bytes += use.bytes;
    share = static_cast<double>(bytes) /
            (goal.bytes_per_live * static_cast<double>(std::max<uint64_t>(goal.live_bytes, 1)));
  }
  const std::set<uint64_t> sparse = Sparse();
  const uint64_t oldest = context_.snapshots->Oldest();
  uint64_t awaited = 0;
  for (const auto& [level, number] : Gainful(tables, sparse)) {
    const auto table = TablesOf(tables.levels, level, {number}).front();
    offers->push_back(RewriteOf(level, *table, "empty", kRewriteWorth * share, sparse));
  }
  tables.levels.ForEach([&](uint32_t level, const auto& table) {
    if (level == 0) return;
    const LevelPlace& place = table->place();
    if (place.kept_bytes * kKeptPart < table->info().bytes || place.kept_versions == 0) return;
    if (oldest >= place.kept_until) {
      offers->push_back(RewriteOf(level, *table, "sweep", kRewriteWorth, {}));
    } else {
      awaited = awaited == 0 ? place.kept_until : std::min(awaited, place.kept_until);
    }
  });
  if (awaited != 0) context_.snapshots->AwaitPast(awaited);  // its release tells
  // What level 0 makes dead is found by merging alone.
  if (share > 1 && !tables.levels.level(0).empty()) {
    offers->push_back(OfferOf(CompactionOf(tables.levels, 0, tables.levels.level(0))));
    offers->back().benefit = kLast;
  }
}

void LeveledEngine::OfferJobs(std::vector<JobOffer>* offers) {
  // As of under the lock: what a job that is over changed is in it.
  const auto read_set = CurrentReadSet();
  const auto& tables = static_cast<const LeveledTables&>(*read_set->tables);
  if (reclaim_wanted_ && read_set->sealed.empty()) {
    offers->push_back(
        {.name = "reclaim", .claims = ClaimAll(), .benefit = kFirst, .cost = 1, .run = [this] {
           return Reclaim();
         }});
  }
  const bool starved = starved_at_ && pool_->chunks_available() <= *starved_at_;
  if (!starved) {
    starved_at_.reset();
    for (Compaction& compaction : FindWanted(tables))
      offers->push_back(OfferOf(std::move(compaction)));
    OfferRewrites(tables, offers);
  }
}

std::optional<Job> LeveledEngine::PickJob(JobClass job_class) {
  if (job_class == JobClass::kUrgent) {
    if (auto flush = PickFlush()) return flush;
    const MutexLock lock(&jobs_.mu);
    if (jobs_.IsBusy(kFreshChunks) || !pool_->NeedsProvision()) return std::nullopt;
    return jobs_.Begin({.name = "provision", .claims = {{kFreshChunks, {}}}, .run = [this] {
                          Status s = pool_->Provision();
                          // writers will find out, and wait for space
                          return s.IsNoSpace() ? Status::OK() : s;
                        }});
  }
  const MutexLock lock(&jobs_.mu);
  std::vector<JobOffer> offers;
  OfferJobs(&offers);
  const bool idle = offers.empty() && !jobs_.AnyBusy();
  const auto tables = CurrentTables();
  const Levels::Level& level0 = tables->levels.level(0);
  const bool is_settled = SettledOf(level0).size() == level0.size();
  if (idle && pool_->CanGiveBack()) {
    offers.push_back({.name = "give back", .claims = {{kPoolEnd, {}}}, .run = [this] {
                        return pool_->GiveBack();
                      }});
  } else if (idle &&
             is_settled &&  // Due says so once: it is not asked for a job that may not begin
             held_up_end_.Due(compactions_.load(std::memory_order_relaxed))) {
    Claims claims = ClaimAll();
    claims.push_back({kPoolEnd, {}});
    offers.push_back({.name = "clear the pool's end", .claims = std::move(claims), .run = [this] {
                        return NoteRoom(ClearEnd());
                      }});
  }
  if (!is_settled) {  // keeps L3
    std::erase_if(offers, [](const JobOffer& offer) {
      return std::ranges::any_of(offer.claims,
                                 [](const Claim& claim) { return claim.what == kLevel0; });
    });
  }
  return jobs_.BeginBest(std::move(offers));
}

// A job that found no room has changed nothing: it may come again once there is more.
Status LeveledEngine::NoteRoom(const Status& status) {
  if (!status.IsNoSpace()) return status;
  const MutexLock lock(&jobs_.mu);
  starved_at_ = pool_->chunks_available();
  return Status::OK();
}

Compaction LeveledEngine::CompactionOf(const Levels& levels, uint32_t level,
                                       const Levels::Level& tables) {
  Compaction compaction;
  compaction.level = level;
  compaction.keys = {tables.front()->info().smallest, tables.front()->info().largest};
  uint64_t bytes = 0;
  const auto add = [&](const LevelTable& table, std::vector<uint64_t>* numbers) {
    numbers->push_back(table.info().number);
    bytes += table.info().bytes;
    compaction.keys.Extend(table.info().smallest, table.info().largest);
  };
  for (const auto& table : tables) add(*table, &compaction.inputs);
  compaction.benefit = static_cast<double>(bytes);
  const Levels::Level next = levels.Overlapping(level + 1, compaction.keys);
  for (const auto& table : next) add(*table, &compaction.next);
  if (!next.empty() || tables.size() > 1) compaction.read_bytes = bytes;
  return compaction;
}

Status LeveledEngine::RunCompaction(const Compaction& compaction) {
  const auto tables = CurrentTables();
  LevelsEdit edit;
  Status s = NoThrow([&] { return Compact(compaction, tables->levels, &edit); });
  if (s.ok() && !edit.removed.empty()) s = Change(LeveledEdit::kCompact, edit, nullptr, nullptr);
  if (s.ok()) compactions_.fetch_add(1, std::memory_order_relaxed);
  return s;
}

Status LeveledEngine::Rewrite(uint32_t level, uint64_t number, const std::set<uint64_t>& sparse) {
  const auto tables = CurrentTables();
  std::vector<Levels::Level> inputs(level + 1);
  inputs[level] = TablesOf(tables->levels, level, {number});
  LevelsEdit edit;
  Status s = NoThrow([&] { return MergeEmptying(tables->levels, inputs, level, sparse, &edit); });
  if (s.ok() && !edit.removed.empty()) s = Change(LeveledEdit::kCompact, edit, nullptr, nullptr);
  if (s.ok()) rewrites_.fetch_add(1, std::memory_order_relaxed);
  return s;
}

// A piece at a time, each an edit of its own: so it takes little space at once.
Status LeveledEngine::PushDown(const KeyRange& keys) {
  Status s = BackgroundError();
  const size_t last = std::max<size_t>(CurrentTables()->levels.level_count(), 2) - 1;
  for (uint32_t level = 0; s.ok() && level < last; level++) {
    const auto tables = CurrentTables();
    std::vector<Levels::Level> pieces;
    if (level == 0) {
      const MutexLock lock(&jobs_.mu);
      pieces.push_back(SettledOf(tables->levels.level(0)));
      if (pieces.back().empty() || tables->levels.Overlapping(0, keys).empty()) pieces.clear();
    } else {
      for (const auto& table : tables->levels.Overlapping(level, keys)) pieces.push_back({table});
    }
    for (size_t i = 0; s.ok() && i < pieces.size(); i++)
      s = RunCompaction(CompactionOf(CurrentTables()->levels, level, pieces[i]));
  }
  // What is at the end hides nothing: what was left for readers who are gone by now may go.
  const auto tables = CurrentTables();
  for (const auto& table : tables->levels.Overlapping(last, keys)) {
    const LevelPlace& place = table->place();
    if (s.ok() && (place.kept_versions != 0 || place.deletes != 0 || !table->IsMerged()))
      s = Rewrite(static_cast<uint32_t>(last), table->info().number, {});
  }
  return s;
}

std::vector<std::pair<uint32_t, uint64_t>> LeveledEngine::Gainful(
    const LeveledTables& tables, const std::set<uint64_t>& sparse) const {
  std::vector<std::pair<uint32_t, uint64_t>> gainful;
  if (sparse.empty()) return gainful;
  const MutexLock lock(&uses_mu_);
  tables.levels.ForEach([&, &all_refs = refs_, &uses = uses_](uint32_t level, const auto& table) {
    const uint64_t number = table->info().number;
    const auto refs = all_refs.find(number);
    if (level != 0 && refs != all_refs.end() &&
        GainOf(refs->second, uses, sparse, pool_->chunk_bytes()) > 0)
      gainful.emplace_back(level, number);
  });
  return gainful;
}

// In pieces for which there is room: what one gives back is room for the next.
Status LeveledEngine::EmptySparse() {
  constexpr int kPassesMax = 32;
  uint64_t piece_max = UINT64_MAX;
  Status s;
  for (int pass = 0; s.ok() && pass < kPassesMax; pass++) {
    pool_->CollectDeferred();
    const auto tables = CurrentTables();
    SpaceGoal goal = GoalNow(*tables, true);
    goal.copy_bytes_max = std::min(goal.copy_bytes_max, piece_max);
    std::set<uint64_t> sparse;
    {
      const MutexLock lock(&uses_mu_);
      if (!rules_.copies_records) sparse = FindSparse(uses_, refs_, goal);
    }
    const auto gainful = Gainful(*tables, sparse);
    if (gainful.empty()) break;
    for (const auto& [level, number] : gainful) {
      if (s.ok()) s = Rewrite(level, number, sparse);
    }
    if (!s.IsNoSpace()) continue;
    piece_max = goal.copy_bytes_max / 2;
    if (piece_max >= pool_->chunk_bytes() / 8) s = Status::OK();
  }
  return s.IsNoSpace() ? Status::OK() : s;
}

// The pool is full: all that is dead is found, and what holds little is emptied.
Status LeveledEngine::Reclaim() {
  const uint64_t before = ReclaimState();
  AwaitSettled();
  Status s = PushDown({});
  if (s.ok()) s = EmptySparse();
  pool_->CollectDeferred();
  const MutexLock lock(&jobs_.mu);
  reclaim_wanted_ = false;
  reclaimed_at_ = changes_.load() == before ? before : ReclaimState();
  starved_at_.reset();
  return s.IsNoSpace() ? Status::OK() : s;
}

uint64_t LeveledEngine::ReclaimState() const {
  return changes_.load(std::memory_order_relaxed) + context_.snapshots->released();
}

// Until the tables that level 0 has now may be merged (L3), or for a moment: a reader may have lost
// the processor.
void LeveledEngine::AwaitSettled() {
  constexpr int kTurnsMax = 50;
  constexpr std::chrono::milliseconds kTurn{10};
  const auto tables = CurrentTables();
  const Levels::Level& level0 = tables->levels.level(0);
  for (int turn = 0; turn < kTurnsMax; turn++) {
    {
      const MutexLock lock(&jobs_.mu);
      if (SettledOf(level0).size() == level0.size()) return;
    }
    (void)pool_->readers()->AwaitRetired(kTurn);
  }
}

bool LeveledEngine::ReclaimSpace() {
  using std::chrono::steady_clock;
  SwitchMemTable(true);
  const bool has_deferred = pool_->CollectDeferred() != 0;
  const auto nothing_left = [this]() LAMELLA_REQUIRES(jobs_.mu) {
    return CurrentReadSet()->sealed.empty() && !reclaim_wanted_;
  };
  {
    // Reclaiming again what the last writer has just failed to would only make every write on a
    // full pool slow.
    const MutexLock lock(&jobs_.mu);
    if (nothing_left() && !has_deferred && reclaimed_at_ == ReclaimState()) return false;
    reclaim_wanted_ = true;
  }
  const auto deadline = steady_clock::now() + std::chrono::seconds(5);
  context_.wake();
  {
    const MutexLock lock(&jobs_.mu);
    while (!nothing_left() && BackgroundError().ok() && steady_clock::now() < deadline)
      jobs_.AwaitEnd(deadline - steady_clock::now());
  }
  pool_->CollectDeferred();
  return true;
}

Status LeveledEngine::CompactRange(std::string_view begin, std::string_view end) {
  Status s = Flush();
  if (!s.ok()) return s;
  AwaitSettled();
  const JobBoard::Held held = jobs_.Take(ClaimAll());
  s = NoThrow([&] { return PushDown(KeyRange::Of(begin, end)); });
  if (s.ok() && begin.empty() && end.empty()) s = NoThrow([this] { return EmptySparse(); });
  jobs_.GiveBack(held);
  pool_->CollectDeferred();
  return s;
}

// Moves what is in the way to where there is room: chunks are claimed from the lowest place on.
// What is being filled is left, and goes with its flush.
Status LeveledEngine::ClearEnd() {
  log_->LeaveChunks([this](const ChunkRef& chunk) { return pool_->IsInTheWay(chunk); });
  Status s = catalog_.LeaveEnd();
  if (!s.ok()) return s;
  const auto tables = CurrentTables();
  std::set<uint64_t> in_the_way;
  {
    const MutexLock lock(&uses_mu_);
    for (const auto& [number, use] : uses_) {
      if (std::ranges::any_of(use.region->extents(),
                              [this](const ChunkRef& c) { return pool_->IsInTheWay(c); }))
        in_the_way.insert(number);
    }
  }
  const bool in_level0 = std::ranges::any_of(
      tables->levels.level(0), [&](const auto& table) { return Refers(*table, in_the_way); });
  if (in_level0) s = RunCompaction(CompactionOf(tables->levels, 0, tables->levels.level(0)));
  CurrentTables()->levels.ForEach([&](uint32_t level, const auto& table) {
    if (s.ok() && level != 0 && Refers(*table, in_the_way))
      s = Rewrite(level, table->info().number, in_the_way);
  });
  return s;
}

}  // namespace lamella
