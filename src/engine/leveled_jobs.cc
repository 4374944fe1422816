// The jobs of an engine with levels: which are on offer, and what they do.

#include <algorithm>
#include <chrono>
#include <optional>
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
// Where tables hold less than so many chunks of a part, however many they lie in, what upper levels
// hide of lower ones is not looked for: a small store is larger than it may be by the ends of its
// chunks and its indexes, whatever lives, and all of it would come to lie in one level.
constexpr uint64_t kFewChunks = 16;
// Versions that snapshots left are taken out once they are this part of a table.
constexpr uint64_t kKeptPart = 16;

double CostOf(const Compaction& compaction) {
  return static_cast<double>(compaction.read_bytes) + kMoveCost;
}

double WorthOf(const Compaction& compaction) { return compaction.benefit / CostOf(compaction); }

}  // namespace

Claims LeveledEngine::ClaimAll() const {
  Claims claims;
  for (uint32_t i = 0; i <= rules_.levels.last_level; i++) claims.push_back({kLevel0 + i, {}});
  return claims;
}

JobOffer LeveledEngine::OfferOf(Compaction compaction) {
  Claims claims = ClaimsOf(compaction, kLevel0);
  const double benefit = compaction.benefit;
  const double cost = CostOf(compaction);
  return {.name = "compact",
          .claims = std::move(claims),
          .benefit = benefit,
          .cost = cost,
          .run = [this, compaction = std::move(compaction)] {
            if (!WaitsForFiles(compaction)) return NoteRoom(RunCompaction(compaction));
            return TryToWriteOut([&] { return RunCompaction(compaction); });
          }};
}

// It makes tables in files, and where those find no room the others go on without it. Not level 0:
// writers, whom it is in the way of, are to know.
bool LeveledEngine::WaitsForFiles(const Compaction& compaction) const {
  return compaction.level != 0 && compaction.level + 1 >= rules_.first_file_level;
}

bool LeveledEngine::MayBegin(const Compaction& compaction) const {
  return jobs_.MayBegin(ClaimsOf(compaction, kLevel0)) &&
         (!WaitsForFiles(compaction) || write_out_room_.MayHaveSome());
}

// Only the best that may begin: none of the others would.
void LeveledEngine::OfferBest(const std::vector<Compaction>& wanted,
                              std::vector<JobOffer>* offers) {
  const Compaction* best = nullptr;
  for (const Compaction& compaction : wanted) {
    if (best != nullptr && WorthOf(compaction) <= WorthOf(*best)) continue;
    if (MayBegin(compaction)) best = &compaction;
  }
  if (best != nullptr) offers->push_back(OfferOf(*best));
}

// With nothing left to flush, writers stand still for level 0 alone: by its bytes (BufferedEngine,
// I5) it may be too much with fewer tables than are compacted, and then nothing else would let them
// go on.
void LeveledEngine::OfferForWriters(const ReadSet& read_set, const LeveledTables& tables,
                                    std::vector<JobOffer>* offers) {
  if (WriteDelayNs() != kStopWriting || !read_set.sealed.empty()) return;
  for (Compaction& compaction : FindWanted(tables, 1)) {
    if (compaction.level != 0) continue;
    offers->push_back(OfferOf(std::move(compaction)));
    offers->back().benefit = kFirst;
  }
}

JobOffer LeveledEngine::RewriteOf(const Place& table, const char* name, double benefit,
                                  Sparse sparse, bool in_file) {
  return {.name = name,
          .claims = {{kLevel0 + table.level, table.keys}},
          .benefit = benefit,
          .cost = 1,
          .run = [this, level = table.level, number = table.number, in_file,
                  sparse = std::move(sparse)] {
            const auto rewrite = [&] { return Rewrite(level, number, sparse); };
            return in_file ? TryToWriteOut(rewrite) : NoteRoom(rewrite());
          }};
}

SpaceGoal LeveledEngine::GoalNow(const LeveledTables& tables, bool pool_is_full) const {
  double live = static_cast<double>(pool_live_bytes_.load(std::memory_order_relaxed));
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

// Copies of all records are made anyway where the design makes them.
LeveledEngine::Emptying LeveledEngine::FindEmptying(const LeveledTables& tables,
                                                    const RegionUses& uses,
                                                    const SpaceGoal& goal) const {
  if (rules_.copies_records) return {};
  std::vector<TableShares> shares;
  tables.levels.ForEach([&](uint32_t level, const auto& table) {
    if (level != 0) shares.push_back(table->place().regions);
  });
  const auto sparse = std::make_shared<const std::set<uint64_t>>(FindSparse(uses, shares, goal));
  if (sparse->empty()) return {};
  Emptying emptying{.sparse = sparse};
  for (const uint64_t number : *sparse) {
    const RegionUse& use = uses.at(number);
    emptying.dead_bytes += use.useful() - std::min(use.live, use.useful());
  }
  tables.levels.ForEach([&](uint32_t level, const auto& table) {
    if (level != 0 && GainOf(table->place().regions, uses, *sparse, pool_->chunk_bytes()) > 0)
      emptying.tables.push_back(PlaceOf(level, table->info()));
  });
  return emptying;
}

void LeveledEngine::LookAt(const std::shared_ptr<const TableSet>& version) {
  if (looked_.at.lock() == version) return;
  const auto& tables = static_cast<const LeveledTables&>(*version);
  const SpaceGoal goal = GoalNow(tables, false);
  SpaceGoal at_least = goal;
  at_least.live_bytes = LiveAtLeast(tables.levels);
  Looked looked{
      .at = version, .wanted = FindWanted(tables, rules_.levels.level0_tables), .emptying = {}};
  const MutexLock lock(&uses_mu_);
  looked.emptying = FindEmptying(tables, uses_, goal);
  uint64_t used_bytes = 0;
  uint64_t referred = 0;
  for (const auto& [number, use] : uses_) {
    used_bytes += use.bytes;
    referred += use.live;
  }
  const bool is_small = referred < kFewChunks * pool_->part_count() * pool_->chunk_bytes();
  looked.share = {goal.ShareOf(used_bytes), is_small ? 0 : at_least.ShareOf(used_bytes)};
  const double excess = std::max(0.0, static_cast<double>(used_bytes) - goal.BytesAllowed());
  const uint64_t garbage = std::min(static_cast<uint64_t>(excess), looked.emptying.dead_bytes);
  sparse_ = looked.emptying.sparse;
  looked_ = std::move(looked);
  if (garbage_bytes_.exchange(garbage, std::memory_order_relaxed) != garbage) ReviseWriteDelay();
}

// What space there is to be had: records of sparse regions, and versions that no snapshot needs any
// more.
void LeveledEngine::OfferRewrites(const LeveledTables& tables, std::vector<JobOffer>* offers) {
  for (const Place& table : looked_.emptying.tables) {
    offers->push_back(RewriteOf(table, "empty", kRewriteWorth * looked_.share.known,
                                looked_.emptying.sparse, false));
  }
  const uint64_t oldest = context_.snapshots->Oldest();
  uint64_t awaited = 0;
  const bool files_may_have_room = write_out_room_.MayHaveSome();
  tables.levels.ForEach([&](uint32_t level, const auto& table) {
    if (level == 0) return;
    const LevelPlace& place = table->place();
    if (place.kept_bytes * kKeptPart < table->info().bytes || place.kept_versions == 0) return;
    if (oldest >= place.kept_until) {
      if (table->in_file() && !files_may_have_room) return;
      offers->push_back(RewriteOf(PlaceOf(level, table->info()), "sweep", kRewriteWorth, nullptr,
                                  table->in_file()));
    } else {
      awaited = awaited == 0 ? place.kept_until : std::min(awaited, place.kept_until);
    }
  });
  if (awaited != 0) context_.snapshots->AwaitPast(awaited);  // its release tells
  const bool idle = offers->empty() && !jobs_.AnyBusy();
  for (Compaction& compaction : FindForSpace(tables, looked_.share, idle)) {
    if (!MayBegin(compaction)) continue;
    offers->push_back(OfferOf(std::move(compaction)));
    offers->back().benefit = kLast;
  }
}

// What upper levels make dead of lower ones is found by merging alone. It ends: tables go down,
// until there is one level.
std::vector<Compaction> LeveledEngine::FindForSpace(const LeveledTables& tables,
                                                    const SpaceShare& share, bool idle) const {
  const Levels& levels = tables.levels;
  const Levels::Level& level0 = levels.level(0);
  if (share.known > 1 && !level0.empty()) return {CompactionOf(levels, 0, level0)};
  if (share.at_most <= 1 || !idle) return {};
  std::vector<uint32_t> filled;
  for (uint32_t i = 0; i < levels.level_count(); i++) {
    if (!levels.level(i).empty()) filled.push_back(i);
  }
  std::vector<Compaction> pushes;
  if (filled.size() < 2) return pushes;
  if (filled.front() == 0) return {CompactionOf(levels, 0, level0)};
  for (const auto& table : levels.level(filled.front()))
    pushes.push_back(CompactionOf(levels, filled.front(), {table}));
  return pushes;
}

std::optional<LeveledEngine::Place> LeveledEngine::FindLongestNotRead(
    const LeveledTables& tables, const std::function<bool(const Place&)>& may) {
  std::optional<Place> found;
  uint64_t read_at = 0;
  tables.levels.ForEach([&](uint32_t level, const auto& table) {
    if (level == 0 || table->in_file()) return;
    // Of several that were not read since the same time the lowest goes, and of those the oldest.
    const bool is_longer = !found || table->read_at() < read_at ||
                           (table->read_at() == read_at &&
                            (level > found->level || table->info().number < found->number));
    if (!is_longer) return;
    Place place = PlaceOf(level, table->info());
    if (!may(place)) return;
    found = std::move(place);
    read_at = table->read_at();
  });
  return found;
}

void LeveledEngine::OfferWritingOut(const LeveledTables& tables, std::vector<JobOffer>* offers) {
  if (pool_table_bytes_.load(std::memory_order_relaxed) <= rules_.pool_table_bytes) return;
  if (!write_out_room_.MayHaveSome()) return;
  const auto claims_of = [](const Place& place) {
    return Claims{{kLevel0 + place.level, place.keys}};
  };
  const auto table = FindLongestNotRead(tables, [&](const Place& place) LAMELLA_REQUIRES(jobs_.mu) {
    return jobs_.MayBegin(claims_of(place));
  });
  if (!table) return;
  offers->push_back({.name = "write out",
                     .claims = claims_of(*table),
                     .benefit = kFirst / 2,
                     .cost = 1,
                     .run = [this, level = table->level, number = table->number] {
                       return TryToWriteOut([&] { return Rewrite(level, number, nullptr, true); });
                     }});
}

// Merges in the pool need no room in files.
Status LeveledEngine::TryToWriteOut(const std::function<Status()>& job) {
  uint64_t attempt;
  {
    const MutexLock lock(&jobs_.mu);
    attempt = write_out_room_.Begin();
  }
  const Status status = job();
  {
    const MutexLock lock(&jobs_.mu);
    if (write_out_room_.Note(attempt, status)) return Status::OK();
  }
  return NoteRoom(status);
}

void LeveledEngine::OfferJobs(std::vector<JobOffer>* offers) {
  // As of under the lock: what a job that is over changed is in it.
  const auto read_set = CurrentReadSet();
  const auto& tables = static_cast<const LeveledTables&>(*read_set->tables);
  if (reclaim_wanted_ && !HasUnflushed()) {
    offers->push_back(
        {.name = "reclaim", .claims = ClaimAll(), .benefit = kFirst, .cost = 1, .run = [this] {
           return Reclaim();
         }});
  }
  if (starved_at_ && pool_->chunks_available() > *starved_at_) SetNotStarved();
  if (MayFindRoom()) {
    LookAt(read_set->tables);
    OfferBest(looked_.wanted, offers);
    OfferForWriters(*read_set, tables, offers);
    OfferRewrites(tables, offers);
    OfferWritingOut(tables, offers);
  }
}

std::optional<Job> LeveledEngine::PickJob(JobClass job_class) {
  if (job_class == JobClass::kUrgent) return PickUrgentJob();
  const MutexLock lock(&jobs_.mu);
  std::vector<JobOffer> offers;
  OfferJobs(&offers);
  const bool idle = offers.empty() && !jobs_.AnyBusy();
  if (idle && pool_->CanGiveBack()) {
    offers.push_back({.name = "give back", .claims = {{kPoolEnd, {}}}, .run = [this] {
                        return pool_->GiveBack();
                      }});
  } else if (idle && held_up_end_.Due(compactions_.load(std::memory_order_relaxed))) {
    Claims claims = ClaimAll();
    claims.push_back({kPoolEnd, {}});
    offers.push_back({.name = "clear the pool's end", .claims = std::move(claims), .run = [this] {
                        return NoteRoom(ClearEnd());
                      }});
  }
  return jobs_.BeginBest(std::move(offers));
}

// A job that found no room has changed nothing: it may come again once there is more. One that was
// tried again, and found some in a file system, is the sign that there is.
Status LeveledEngine::NoteRoom(const Status& status) {
  if (!status.IsNoSpace()) {
    const MutexLock lock(&jobs_.mu);
    if (status.ok() && IsRoomUnknown()) SetNotStarved();
    return status;
  }
  pool_->AwaitDeferred();  // what it took is room again, and no reason to try it once more
  const MutexLock lock(&jobs_.mu);
  starved_at_ = pool_->chunks_available();
  starved_since_ = std::chrono::steady_clock::now();
  SetStarved(true);
  return Status::OK();
}

// What a file system has nobody knows, but by trying now and then.
bool LeveledEngine::IsRoomUnknown() const {
  return files_ != nullptr || pool_->MayStayBelowLimit();
}

// Until a try has found some, writers are not stopped for what jobs are behind with.
bool LeveledEngine::MayFindRoom() const {
  return !starved_at_ || (IsRoomUnknown() && std::chrono::steady_clock::now() - starved_since_ >=
                                                 FileRoom::kTryAgainAfter);
}

// Who resumes says that there may be room again.
void LeveledEngine::ClearBackgroundError() {
  {
    const MutexLock lock(&jobs_.mu);
    SetNotStarved();
    write_out_room_.Need();
  }
  BufferedEngine::ClearBackgroundError();
}

void LeveledEngine::SetNotStarved() {
  if (!starved_at_) return;
  starved_at_.reset();
  SetStarved(false);
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
  const bool may_be_cut = compaction.way == 0;
  for (size_t part = compaction.next.size() / 2; s.IsNoSpace() && may_be_cut && part != 0;
       part /= 2) {
    edit = {};  // what was made before the room came to its end is room
    pool_->AwaitDeferred();
    s = NoThrow([&] { return MergePart(compaction, tables->levels, part, &edit); });
  }
  if (s.ok() && !edit.removed.empty()) s = Change(LeveledEdit::kCompact, edit, nullptr, nullptr);
  if (s.ok()) compactions_.fetch_add(1, std::memory_order_relaxed);
  return s;
}

Status LeveledEngine::Rewrite(uint32_t level, uint64_t number, const Sparse& sparse,
                              bool write_out) {
  const auto tables = CurrentTables();
  std::vector<Levels::Level> inputs(level + 1);
  inputs[level] = TablesOf(tables->levels, level, {number});
  if (inputs[level].empty()) return Status::OK();
  const bool in_file = write_out || inputs[level].front()->in_file();
  LevelsEdit edit;
  Status s =
      NoThrow([&] { return MergeEmptying(tables->levels, inputs, level, sparse, in_file, &edit); });
  if (s.ok() && !edit.removed.empty()) s = Change(LeveledEdit::kCompact, edit, nullptr, nullptr);
  if (s.ok()) rewrites_.fetch_add(1, std::memory_order_relaxed);
  return s;
}

Status LeveledEngine::CompactRange(std::string_view begin, std::string_view end) {
  Status s = Flush();
  if (!s.ok()) return s;
  JobBoard::Held held = jobs_.Take(ClaimAll());
  const auto push_down = [&] {
    return NoThrow([&] { return PushDown(KeyRange::Of(begin, end)); });
  };
  s = push_down();
  const bool had_no_room = s.IsNoSpace();
  if (had_no_room || (s.ok() && begin.empty() && end.empty())) {
    const Status found =
        NoThrow([this] { return rules_.copies_records ? MergeForSpace() : EmptySparse(); });
    if (s.ok() || !found.ok()) s = found;
    if (had_no_room && found.ok()) s = push_down();
  }
  pool_->AwaitDeferred();
  held.GiveBack();  // tells of what is free by now
  return s;
}

// What was left of the log, and of which all is in tables: no flush comes by. One that is under way
// has moved the boundary before it installs the tables: until then readers go by its MemTable, and
// so to the log before the boundary. It has the lock for as long.
Status LeveledEngine::FreeLeftLog() {
  std::vector<LogPosition> boundary;
  {
    const MutexLock lock(&change_mu_);
    boundary = catalog_.Get().boundary;
  }
  Status s = pool_->Sync();  // the edit that says so: keeps L1
  if (s.ok()) pending_frees_.FreeLogBefore(boundary);
  return s;
}

// Moves what is in the way to where there is room: chunks are claimed from the lowest place on.
// What is being filled is left, and goes with its flush.
Status LeveledEngine::ClearEnd() {
  log_->LeaveChunks([this](const ChunkRef& chunk) { return pool_->IsInTheWay(chunk); });
  Status s = catalog_.LeaveEnd();
  if (s.ok()) s = FreeLeftLog();
  if (!s.ok()) return s;
  const auto tables = CurrentTables();
  const auto in_the_way = std::make_shared<std::set<uint64_t>>();
  {
    const MutexLock lock(&uses_mu_);
    for (const auto& [number, use] : uses_) {
      if (std::ranges::any_of(use.region->extents(),
                              [this](const ChunkRef& c) { return pool_->IsInTheWay(c); }))
        in_the_way->insert(number);
    }
  }
  const bool in_level0 = std::ranges::any_of(
      tables->levels.level(0), [&](const auto& table) { return Refers(*table, *in_the_way); });
  if (in_level0) s = RunCompaction(CompactionOf(tables->levels, 0, tables->levels.level(0)));
  CurrentTables()->levels.ForEach([&](uint32_t level, const auto& table) {
    if (s.ok() && level != 0 && Refers(*table, *in_the_way))
      s = Rewrite(level, table->info().number, in_the_way);
  });
  return s;
}

}  // namespace lamella
