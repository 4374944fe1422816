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
// Files that were full are tried again, for a writer who is refused for want of room in the pool,
// and by jobs.
constexpr std::chrono::seconds kTryAgainAfter{1};
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
            const Status s = RunCompaction(compaction);
            return WaitsForFiles(compaction) ? NoteWrittenOut(s) : NoteRoom(s);
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
            const Status s = Rewrite(level, number, sparse);
            return in_file ? NoteWrittenOut(s) : NoteRoom(s);
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
                       return NoteWrittenOut(Rewrite(level, number, nullptr, true));
                     }});
}

// Merges in the pool need no room in files.
Status LeveledEngine::NoteWrittenOut(const Status& status) {
  {
    const MutexLock lock(&jobs_.mu);
    if (write_out_room_.Note(status)) return Status::OK();
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
// tried again, and found some in files, is the sign that there is.
Status LeveledEngine::NoteRoom(const Status& status) {
  if (!status.IsNoSpace()) {
    const MutexLock lock(&jobs_.mu);
    if (status.ok() && files_ != nullptr) SetNotStarved();
    return status;
  }
  pool_->AwaitDeferred();  // what it took is room again, and no reason to try it once more
  const MutexLock lock(&jobs_.mu);
  // Nothing is more than what has no end (where the file system does not say): then another thread
  // found room in the pool meanwhile, and it is tried again. Of files nobody knows, but by trying
  // now and then.
  const uint64_t most = files_ != nullptr ? UINT64_MAX : UINT64_MAX - 1;
  starved_at_ = std::min(pool_->chunks_available(), most);
  starved_since_ = std::chrono::steady_clock::now();
  SetStarved(true);
  return Status::OK();
}

// Until a try has found some, writers are not stopped for what jobs are behind with.
bool LeveledEngine::MayFindRoom() const {
  return !starved_at_ ||
         (files_ != nullptr && std::chrono::steady_clock::now() - starved_since_ >= kTryAgainAfter);
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

Status LeveledEngine::WithRoom(const std::function<Status()>& run) {
  Status s = run();
  if (!s.IsNoSpace()) return s;
  AwaitHeld();
  return run();
}

// A piece at a time, each an edit of its own: so it takes little space at once.
Status LeveledEngine::PushFrom(uint32_t level, const KeyRange& keys) {
  Status s = BackgroundError();
  size_t last = 1;
  uint64_t through = 0;
  {
    const auto first = CurrentTables();  // not held: what is replaced is to be freed
    last = std::max<size_t>(first->levels.level_count(), 2) - 1;
    const Levels::Level& level0 = first->levels.level(0);
    if (!level0.empty()) through = level0.front()->info().last_sequence;
  }
  while (s.ok() && level < last) {
    pool_->AwaitDeferred();
    auto tables = CurrentTables();
    Levels::Level found = tables->levels.Overlapping(level, keys);
    if (level == 0) {  // what is flushed meanwhile stays
      const auto is_new = [&](const auto& table) { return table->info().last_sequence > through; };
      std::erase_if(found, is_new);
      if (!found.empty()) found = tables->levels.level(0);
      std::erase_if(found, is_new);
    }
    if (found.empty()) {
      level++;
      continue;
    }
    if (level != 0) found.resize(1);
    const Compaction compaction = CompactionOf(tables->levels, level, found);
    const Compaction oldest = CompactionOf(tables->levels, level, {found.back()});
    found.clear();
    tables.reset();
    s = WithRoom([&] { return RunCompaction(compaction); });
    if (s.IsNoSpace() && oldest.inputs.size() < compaction.inputs.size()) {
      pool_->AwaitDeferred();
      s = RunCompaction(oldest);
    }
  }
  return s;
}

Status LeveledEngine::PushDown(const KeyRange& keys) {
  Status s = PushFrom(0, keys);
  if (s.IsNoSpace() && rules_.copies_records) {  // what upper floors hide is room
    s = MergeForSpace();
    if (s.ok()) s = PushFrom(0, keys);
  }
  return s.ok() ? RewriteLast(keys) : s;
}

// What is at the end hides nothing: what was left for readers who are gone by now may go. One table
// after the other: what one gives back is room for the next, or for one before it.
Status LeveledEngine::RewriteLast(const KeyRange& keys) {
  constexpr int kPassesMax = 8;
  Status no_room;
  for (int pass = 0; pass == 0 || (pass < kPassesMax && !no_room.ok()); pass++) {
    no_room = Status::OK();
    bool made_any = false;
    std::vector<Place> wanted;  // the tables are not held: what is replaced is to be freed
    {
      const auto tables = CurrentTables();
      const auto last =
          static_cast<uint32_t>(std::max<size_t>(tables->levels.level_count(), 2) - 1);
      for (const auto& table : tables->levels.Overlapping(last, keys)) {
        const LevelPlace& place = table->place();
        if (place.kept_versions != 0 || place.deletes != 0 || !table->IsMerged())
          wanted.push_back(PlaceOf(last, table->info()));
      }
    }
    for (const Place& table : wanted) {
      const Status s = WithRoom([&] { return Rewrite(table.level, table.number, nullptr); });
      if (!s.ok() && !s.IsNoSpace()) return s;
      made_any |= s.ok();
      if (!s.ok()) no_room = s;
      pool_->AwaitDeferred();
    }
    if (!made_any) break;
  }
  return no_room;
}

// In pieces for which there is room: what one gives back is room for the next.
Status LeveledEngine::EmptySparse() {
  constexpr int kPassesMax = 32;
  uint64_t piece_max = UINT64_MAX;
  Status s;
  for (int pass = 0; s.ok() && pass < kPassesMax; pass++) {
    AwaitHeld();
    const auto tables = CurrentTables();
    SpaceGoal goal = GoalNow(*tables, true);
    goal.copy_bytes_max = std::min(goal.copy_bytes_max, piece_max);
    Emptying emptying;
    {
      const MutexLock lock(&uses_mu_);
      emptying = FindEmptying(*tables, uses_, goal);
    }
    if (emptying.tables.empty()) break;
    for (const Place& table : emptying.tables) {
      if (s.ok()) s = Rewrite(table.level, table.number, emptying.sparse);
    }
    if (!s.IsNoSpace()) continue;
    piece_max = goal.copy_bytes_max / 2;
    if (piece_max >= pool_->chunk_bytes() / 8) s = Status::OK();
  }
  return s.IsNoSpace() ? Status::OK() : s;
}

// Where merges copy all, what the design finds for space, until there is nothing, or no room.
Status LeveledEngine::MergeForSpace() {
  constexpr int kPassesMax = 32;  // others flush meanwhile
  constexpr SpaceShare kTooMuch{.known = 2, .at_most = 0, .pool_is_full = true};
  Status s;
  for (int pass = rules_.copies_records ? 0 : kPassesMax; s.ok() && pass < kPassesMax; pass++) {
    AwaitHeld();
    const std::vector<Compaction> found = FindForSpace(*CurrentTables(), kTooMuch, false);
    if (found.empty()) break;
    bool made_any = false;
    for (const Compaction& compaction : found) {
      if (!s.ok()) break;
      s = RunCompaction(compaction);
      made_any |= s.ok();
      if (s.IsNoSpace()) s = Status::OK();  // another may be smaller
      pool_->AwaitDeferred();
    }
    if (!made_any) break;
  }
  return s;
}

// Level 0 is merged where it lies in the way: into files, where there is no room for it else.
Status LeveledEngine::WriteOutForRoom() {
  constexpr uint64_t kPartToFree = 8;
  pool_->AwaitDeferred();
  const uint64_t wanted =
      pool_->chunks_available() + pool_->pool_bytes() / pool_->chunk_bytes() / kPartToFree;
  const auto has_room = [&] {
    AwaitHeld();
    return pool_->chunks_available() >= wanted;
  };
  Status s;
  while (s.ok() && !has_room()) {
    auto tables = CurrentTables();
    const auto table = FindLongestNotRead(*tables, [](const Place&) { return true; });
    if (table) {
      tables.reset();  // what is replaced is to be freed
      s = Rewrite(table->level, table->number, nullptr, true);
      continue;
    }
    if (tables->levels.level(0).empty()) break;
    const Compaction compaction = CompactionOf(tables->levels, 0, tables->levels.level(0));
    tables.reset();
    s = RunCompaction(compaction);
  }
  return s;
}

// The pool is full: all that is dead is found, and what holds little is emptied. What merging small
// tables gives back may be the room that merging all of them takes. What others flush meanwhile it
// has not looked at, and their flush may hold what it replaced; nor did a snapshot count that was
// released since.
Status LeveledEngine::Reclaim() {
  const Reclaiming reclaiming(this);
  const uint64_t flushes = flush_count();
  const uint64_t released = context_.snapshots->released();
  Status s = rules_.writes_out ? WriteOutForRoom() : PushDown({});
  const bool had_no_room = s.IsNoSpace();
  if (had_no_room) s = Status::OK();
  if (s.ok()) s = MergeForSpace();
  if (s.ok() && had_no_room) s = PushDown({});
  std::optional<uint64_t> too_few;  // chunks that it could not do with
  if (s.IsNoSpace()) too_few = pool_->chunks_available();
  if (s.ok() || s.IsNoSpace()) s = EmptySparse();
  pool_->AwaitDeferred();
  const MutexLock lock(&jobs_.mu);
  reclaim_wanted_ = false;
  reclaimed_with_ = too_few.value_or(pool_->chunks_available());
  // First: of a flush that ends meanwhile one of the two tells.
  const uint64_t changes = changes_.load(std::memory_order_relaxed);
  reclaimed_at_ = HasNewlyFlushed(flushes) ? UINT64_MAX : changes + released;
  SetNotStarved();
  files_full_at_.reset();
  if (had_no_room && rules_.writes_out) files_full_at_ = std::chrono::steady_clock::now();
  return s.IsNoSpace() ? Status::OK() : s;
}

// A file system that was full tells nobody when there is room in it again.
bool LeveledEngine::FilesMayHaveRoom() const {
  return files_full_at_ && std::chrono::steady_clock::now() - *files_full_at_ >= kTryAgainAfter;
}

uint64_t LeveledEngine::ReclaimState() const {
  return changes_.load(std::memory_order_relaxed) + context_.snapshots->released();
}

bool LeveledEngine::ReclaimSpace() {
  const auto is_done = [this]() LAMELLA_REQUIRES(jobs_.mu) {
    return !HasUnflushed() && !reclaim_wanted_;
  };
  const auto begin = [&](bool has_deferred) LAMELLA_REQUIRES(jobs_.mu) {
    // First: what was tried is told by what the flushes changed that had ended by then.
    const bool done = is_done();
    // Reclaiming again what the last writer has just failed to would only make every write on a
    // full pool slow.
    // With more room than it had then it may get further.
    const bool was_tried = reclaimed_at_ == ReclaimState() && !FilesMayHaveRoom() &&
                           pool_->chunks_available() <= reclaimed_with_;
    // What is under way since has room of its own that will be free.
    if (done && !has_deferred && was_tried && !jobs_.AnyBusy()) return false;
    reclaim_wanted_ = true;
    return true;
  };
  return AwaitReclaimed(begin, is_done);
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
