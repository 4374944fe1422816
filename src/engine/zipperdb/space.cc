// How much space the store may take, and what to do about it. Of the bottom list's chunks gc takes
// care, as of any last level's: what is dead is counted in each chunk, evacuation empties the
// deadest. The paper has nothing for it: there the records of the last level are never freed. What
// is dead in the lists above it comes down with them, or is left behind by a copying compaction;
// where much may be, they are merged before they are full.

#include <algorithm>
#include <chrono>

#include "engine/skiplist_check.h"
#include "engine/zipperdb/zipperdb.h"

namespace lamella {

namespace {

bool HasRecords(const ChunkRef& chunk) {
  return chunk.kind == ChunkKind::kLog || chunk.kind == kZipperDbArena;
}

}  // namespace

// A run ends where it ends: what is left of its last chunk is sparse. Gc's chunks are not, but for
// those that a session left.
std::function<EvacuationOwner::Standing(const EvacuationOwner::Filled&)> ZipperDb::Standings()
    const {
  const ZipperDbState state = catalog_.Get();
  return [this, bottom = *state.bottom()](const Filled& filled) {
    if (filled.chunk.kind != kZipperDbArena) return Standing::kUnmerged;
    if (filled.chunk.owner == kGcRuns) {
      return filled.chunk.ordinal < gc_first_ordinal_ ? Standing::kMergedMaybeSparse
                                                      : Standing::kMerged;
    }
    return bottom.Owns(filled.chunk) ? Standing::kMergedMaybeSparse : Standing::kUnmerged;
  };
}

bool ZipperDb::IsLinkedInto(const std::vector<DamagedPlace>& places) const {
  if (places.empty()) return false;
  const auto leads = [&](const ZipperList& list) { return LeadsInto(*list.level.list(), places); };
  const auto tables = CurrentTables();
  return leads(*bottom_) ||
         std::ranges::any_of(tables->uppers, [&](const auto& upper) { return leads(*upper.list); });
}

SpacePicture ZipperDb::Space() {
  return {.pool_is_full = gc_wanted_,
          .recount_due = recount_.Due(gc_wanted_),
          .sweep_due = sweep_.Due(PublishedSequence(), gc_wanted_),
          .gc_again = gc_again_,
          .tombstones_settled = bottom_->level.HasSettledNews(),
          .garbage_bytes = dead_.fresh(),
          .chunk_bytes = pool_->chunk_bytes(),
          .used_bytes = pool_->used_bytes()};
}

// A pass of gc. On a full pool it is wanted until one frees nothing.
Status ZipperDb::CollectOnce(GcGoal goal) {
  bool progress = false;
  Status s = gc_.Collect(goal, &progress);
  const MutexLock lock(&jobs_.mu);
  gc_again_ = progress;
  if (goal == GcGoal::kAll && !progress) gc_wanted_ = false;
  return s;
}

// Where flushes merge into the bottom list itself, one after the other would leave gc no turn. What
// they made obsolete is known by then: there is nothing to be waited for.
Status ZipperDb::CollectAfterFlush() {
  PickedSpaceJob picked;
  {
    const MutexLock lock(&jobs_.mu);
    picked = PickSpaceJob(Space());
  }
  return picked.job == SpaceJob::kGc ? CollectOnce(picked.goal) : Status::OK();
}

// Of what the store takes beyond its target, what is dead in the upper lists is not known before
// they are merged: all of it may be.
bool ZipperDb::UppersTakeTooMuch(const ZipperDbTables& tables) const {
  constexpr uint64_t kChunksAllowed = 8;
  if (tables.uppers.empty()) return false;
  const double target =
      context_.options->space_target * static_cast<double>(bottom_->level.settled_live_bytes());
  return static_cast<double>(pool_->used_bytes()) >
         target + static_cast<double>(kChunksAllowed * pool_->chunk_bytes());
}

// Moves what is in the way to where there is room: chunks are claimed from the lowest place on.
Status ZipperDb::ClearEnd() {
  log_->LeaveChunks([this](const ChunkRef& chunk) { return pool_->IsInTheWay(chunk); });
  pending_frees_.FreeLogBefore(catalog_.Get().boundary);
  Status s = catalog_.LeaveEnd();
  return s.ok() ? gc_.ClearEnd() : s;
}

void ZipperDb::PrepareRecount(bool crashed) {
  recount_.Prepare(HasRecords, crashed);
  const MutexLock lock(&jobs_.mu);
  gc_again_ = true;
  dead_.NoteUnreclaimed();
}

// A crash may lose counts, and adds none.
Status ZipperDb::RecountSome() {
  const ZipperDbState state = catalog_.Get();
  recount_.Some([&](const ChunkRef& chunk, const Record* record, PmPtr place) {
    if (record->obsolete() || IsVoid(state.gaps, record->sequence())) return true;
    return chunk.kind == kZipperDbArena && state.OwnerOf(chunk) == kBottomList &&
           record->kind() == RecordKind::kDelete && bottom_->level.IsIdleDelete(place);
  });
  Status s;
  if (recount_.done() && uncounted_) {
    s = catalog_.Edit(ZipperDbEdit::kCounted,
                      [](ZipperDbState* edited) { edited->uncounted = false; });
    uncounted_ = !s.ok();
  }
  const MutexLock lock(&jobs_.mu);
  gc_again_ = true;
  return s;
}

bool ZipperDb::ReclaimSpace() {
  using std::chrono::steady_clock;
  SwitchMemTable(true);
  const auto nothing_left = [this]() LAMELLA_REQUIRES(jobs_.mu) {
    const auto read_set = CurrentReadSet();
    return read_set->sealed.empty() &&
           static_cast<const ZipperDbTables&>(*read_set->tables).uppers.empty() && !gc_wanted_ &&
           !sweep_.under_way() && recount_.done() && !jobs_.IsBusy(kBottom);
  };
  // Reclaiming again what the last writer has just failed to would only make every write on a full
  // pool slow.
  const bool has_deferred = pool_->CollectDeferred() != 0;
  {
    const MutexLock lock(&jobs_.mu);
    if (nothing_left() && !dead_.any_unreclaimed() && !has_deferred) return false;
    gc_wanted_ = true;
    merge_all_ = true;
  }
  // What is left is done by jobs that have the bottom list, the last of them after all others: its
  // end tells.
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

void ZipperDb::SetBackgroundError(const Status& status) {
  BufferedEngine::SetBackgroundError(status);
  jobs_.NotifyAll();  // ReclaimSpace
}

Status ZipperDb::CompactRange(std::string_view begin, std::string_view end) {
  Status s = Flush();
  if (!s.ok()) return s;
  const JobBoard::Held held = jobs_.Take(Ways());
  s = NoThrow([&] { return MergeAll(false); });
  if (!s.ok() && !s.IsNoSpace()) SetBackgroundError(s);  // a full pool is the caller's answer
  if (s.ok()) s = NoThrow([&] { return CompactBottom(begin, end); });
  jobs_.GiveBack(held);
  return s;
}

Status ZipperDb::CompactBottom(std::string_view begin, std::string_view end) {
  constexpr std::chrono::milliseconds kReadersAtMost{10};
  Status s;
  // Twice: a delete may go only once nobody can stand on a version that it hid (PmLevel I1); an
  // open iterator keeps it.
  for (int pass = 0; s.ok() && pass < 2; pass++) {
    if (pool_->readers()->AwaitRetired(kReadersAtMost))
      (void)pool_->holders()->AwaitRetired(kReadersAtMost);
    std::string rest;
    s = bottom_->level.Sweep(begin, end, UINT64_MAX, &rest);
  }
  const bool all = begin.empty() && end.empty();
  while (s.ok() && all && !recount_.done()) s = RecountSome();
  bool progress = true;
  while (s.ok() && progress) s = gc_.Collect(all ? GcGoal::kAll : GcGoal::kTarget, &progress);
  pool_->CollectDeferred();
  return s;
}

}  // namespace lamella
