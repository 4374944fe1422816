// What a full pool gets back: an engine with levels finds all that is dead, merging with what room
// there is.

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/no_throw.h"
#include "engine/leveled_engine.h"
#include "engine/unhidden_iterator.h"
#include "iterator/merging_iterator.h"

namespace lamella {

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
  if (s.IsNoSpace()) {  // what upper tables and floors hide is room
    s = LeaveAllHidden(keys);
    if (s.ok()) s = MergeForSpace();
    if (s.ok()) s = PushFrom(0, keys);
  }
  return s.ok() ? RewriteLast(keys) : s;
}

// What a merge of the upper tables with this one would drop of it is dropped without making theirs
// anew, for which there may be no room.
Status LeveledEngine::LeaveHidden(const Place& place) {
  const auto tables = CurrentTables();
  const Levels::Level found = TablesOf(tables->levels, place.level, {place.number});
  if (found.empty() || found.front()->in_file()) return Status::OK();
  const bool verify = context_.options->verify_checksums;
  std::vector<std::unique_ptr<InternalIterator>> upper;
  std::vector<std::unique_ptr<InternalIterator>> own;
  for (uint32_t level = 0; level < place.level; level++)
    AddIterators(level, tables->levels.Overlapping(level, place.keys), verify, &upper);
  if (upper.empty()) return Status::OK();
  AddIterators(place.level, found, verify, &own);
  const auto all_upper = NewMergingIterator(std::move(upper));
  const SnapshotList::Sample snapshots = context_.snapshots->Now();
  UnhiddenIterator left(own.front().get(), all_upper.get(), &snapshots);
  LevelsEdit edit;
  Status s = NoThrow([&] { return BuildLeft(tables->levels, place.level, found, &left, &edit); });
  if (s.ok() && !edit.removed.empty()) s = Change(LeveledEdit::kCompact, edit, nullptr, nullptr);
  if (s.ok() && !edit.removed.empty()) rewrites_.fetch_add(1, std::memory_order_relaxed);
  return s;
}

// Those further down first: what one gives back is room for the next, and each hides as much of
// those after it as before.
Status LeveledEngine::LeaveAllHidden(const KeyRange& keys) {
  std::vector<Place> places;  // the tables are not held: what is replaced is to be freed
  {
    const auto tables = CurrentTables();
    for (auto level = static_cast<uint32_t>(tables->levels.level_count()); level-- > 1;) {
      for (const auto& table : tables->levels.Overlapping(level, keys))
        places.push_back(PlaceOf(level, table->info()));
    }
  }
  for (const Place& place : places) {
    // another may be smaller; and of damage who needs the table is told
    const Status s = LeaveHidden(place);
    if (!s.ok() && !s.IsNoSpace() && !s.IsCorruption()) return s;
    pool_->AwaitDeferred();
  }
  return Status::OK();
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
  if (s.ok() && had_no_room) {
    s = PushFrom(0, {});
    if (s.ok()) s = RewriteLast({});
  }
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
  return files_full_at_ &&
         std::chrono::steady_clock::now() - *files_full_at_ >= FileRoom::kTryAgainAfter;
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

}  // namespace lamella
