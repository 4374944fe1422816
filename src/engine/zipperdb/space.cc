// How much space the store may take, and what to do about it. Of the bottom list's chunks gc takes
// care, as of any last level's: what is dead is counted in each chunk, evacuation empties the
// deadest. The paper has nothing for it: there the records of the last level are never freed. What
// is dead in the lists above it comes down with them, or is left behind by a copying compaction;
// where much may be, they are merged before they are full.

#include <algorithm>

#include "engine/skiplist_check.h"
#include "engine/zipperdb/zipperdb.h"

namespace lamella {

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
  const EpochPin pin(pool_->readers());  // gc holds the bottom list; merges above it go on
  const auto tables = CurrentTables();
  return leads(*bottom_) ||
         std::ranges::any_of(tables->uppers, [&](const auto& upper) { return leads(*upper.list); });
}

// Where flushes merge into the bottom list itself, one after the other would leave gc no turn. What
// they made obsolete is known by then: there is nothing to be waited for.
Status ZipperDb::CollectAfterFlush() {
  PickedSpaceJob picked;
  {
    const MutexLock lock(&jobs_.mu);
    picked = PickSpaceJob(space_.Picture(PublishedSequence()));
  }
  return picked.job == SpaceJob::kGc ? space_.Collect(picked.goal) : Status::OK();
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
  std::vector<LogPosition> boundary;
  {
    const MutexLock lock(&tables_mu_);  // a flush's, until no reader goes by its MemTable any more
    boundary = catalog_.Get().boundary;
  }
  Status s = pool_->LosesUnsynced() ? SyncAll() : Status::OK();  // of the edit that says so
  if (!s.ok()) return s;
  pending_frees_.FreeLogBefore(boundary);
  s = catalog_.LeaveEnd();
  return s.ok() ? space_.gc()->ClearEnd() : s;
}

Recount::IsDead ZipperDb::WhatIsDead() const {
  return [this, state = catalog_.Get()](const ChunkRef& chunk, const Record* record, PmPtr place) {
    if (record->obsolete() || IsVoid(state.gaps, record->sequence())) return true;
    return chunk.kind == kZipperDbArena && state.OwnerOf(chunk) == kBottomList &&
           record->kind() == RecordKind::kDelete && bottom_->level.IsIdleDelete(place);
  };
}

Status ZipperDb::NoteCounted() {
  return catalog_.Edit(ZipperDbEdit::kCounted,
                       [](ZipperDbState* edited) { edited->uncounted = false; });
}

bool ZipperDb::ReclaimSpace() {
  // What is left is done by jobs that have the bottom list, the last of them after all others: its
  // end tells.
  const auto is_done = [this]() LAMELLA_REQUIRES(jobs_.mu) {
    return !HasUnflushed() && CurrentTables()->uppers.empty() && !space_.HasWork() &&
           !jobs_.IsBusy(kBottom);
  };
  const auto begin = [&](bool has_deferred) LAMELLA_REQUIRES(jobs_.mu) {
    // Reclaiming again what the last writer has just failed to would only make every write on a
    // full pool slow.
    if (is_done() && !space_.MayFreeMore(PublishedSequence()) && !has_deferred) return false;
    space_.Reclaim();
    merge_all_ = true;
    return true;
  };
  return AwaitReclaimed(begin, is_done);
}

Status ZipperDb::CompactRange(std::string_view begin, std::string_view end) {
  Status s = Flush();
  if (!s.ok()) return s;
  const JobBoard::Held held = jobs_.Take(Ways());
  s = NoThrow([&] { return MergeAll(false); });
  // a full pool is the caller's answer, and an IOError CompactRange makes the store's
  if (!s.ok() && !s.IsNoSpace() && !s.IsIOError()) SetBackgroundError(s);
  if (s.ok()) s = NoThrow([&] { return space_.Compact(begin, end); });
  return s;
}

}  // namespace lamella
