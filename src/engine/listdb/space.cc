// How much space the store may take, and what to do about it: counting what is dead, surveying what
// gc may evacuate (victims.h chooses, Evacuation does it), and what the jobs do that keep the pool
// at Options::space_target (job_picker.h says when).
//
// What is counted (docs/LIMITS.md, Space):
//   - a record is counted dead in its chunk's descriptor when it is marked obsolete, a delete when
//     nothing older lies after it any more in L1: it goes when gc comes by (PmLevel I1);
//   - a crash may lose counts, and adds none: after one every chunk is counted anew from its
//     records' marks (RecountSome), in the background, and before a full pool is one;
//   - a version that a merge left for a snapshot is not dead before a sweep of L1 took it out.

#include <algorithm>

#include "engine/listdb/listdb.h"

namespace lamella {

namespace {

// A chunk that an earlier session left is sparse where less than this part of it is used.
constexpr uint64_t kSparsePart = 4;
// Passes over the pool's end in one job.
constexpr int kClearPassesMax = 4;
// What a sweep walks in one job.
constexpr uint64_t kSweepElements = 1 << 16;

}  // namespace

// The chunks that are filled, and those of them whose records are all in L1 or dead (I4).
ChunkSurvey ListDb::Survey() const {
  // The floor first, then the tables: a flush that ends between shows in one of them.
  uint64_t arena_floor = flush_arena_.floor();
  const auto tables = CurrentTables();
  for (const auto& table : tables->l0) {
    if (!unified_) arena_floor = std::min(arena_floor, table->state.arena_ordinal);
  }
  ChunkSurvey survey;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (!HasRecords(chunk) || pending_frees_.Contains(chunk)) return;
    const ChunkDescriptor* descriptor = pool_->Descriptor(chunk.part, chunk.index);
    const uint64_t used = descriptor->used_bytes.load(std::memory_order_relaxed);
    if (used == 0) return;  // being filled
    const uint64_t bytes = uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
    const bool in_the_way = pool_->IsInTheWay(chunk);
    // The last that a shard filled was left for good, and all of it is merged, too (ClearEnd).
    const LogPosition end{chunk.ordinal, in_the_way ? used : UINT64_MAX};
    const bool log = unified_ && chunk.kind == ChunkKind::kLog && chunk.owner < log_in_l1_.size() &&
                     end <= log_in_l1_[chunk.owner];
    const bool arena =
        chunk.kind == kListDbArena && (chunk.owner != kFlushArena || chunk.ordinal < arena_floor);
    if (!log && !arena) return;
    survey.filled_bytes += bytes;
    if (gc_.IsHeldBack(chunk)) return;
    const uint64_t dead = std::min(used, descriptor->dead_bytes.load(std::memory_order_relaxed));
    // What earlier sessions left half empty: the log that short ones wrote, the arena that each
    // began anew.
    const bool sparse = used < bytes / kSparsePart && (log || chunk.ordinal < arena_first_ordinal_);
    if (dead > 0 || sparse || in_the_way) {
      survey.candidates.push_back({chunk, bytes, used - dead, dead, sparse, in_the_way});
    }
  });
  return survey;
}

std::vector<SequenceGap> ListDb::VoidSequences() const { return catalog_.Get().gaps; }

bool ListDb::ReserveRoom(uint64_t bytes) {
  if (!gc_room_) gc_room_.emplace(this);
  return gc_room_->Reserve(bytes);
}

// What merges left for snapshots, for SweepNeed.
SweepNeed::Now ListDb::KeptVersions() const {
  return {.kept = l1_.kept_versions(),
          .records = l1_.count(),
          .published = PublishedSequence(),
          .snapshots_oldest = context_.snapshots->Oldest(),
          .snapshots_released = context_.snapshots->released()};
}

// A pass of gc. On a full pool it is wanted until one frees nothing.
Status ListDb::CollectOnce(GcGoal goal) {
  bool progress = false;
  Status s = gc_.Collect(goal, &progress);
  const MutexLock lock(&jobs_.mu);
  gc_again_ = progress;
  if (goal == GcGoal::kAll && !progress) gc_wanted_ = false;
  return s;
}

// Whether the pool could give much of itself back but for a few chunks. Once for each size of the
// pool, each merge, and each time that less is in use, as when a reader let go of something: so
// moving comes to an end.
bool ListDb::EndIsHeldUp() {
  const EndCleared now{pool_->pool_bytes(), pool_->used_bytes(),
                       compactions_.load(std::memory_order_relaxed)};
  const EndCleared& last = end_cleared_;
  if (now.pool_bytes == last.pool_bytes && now.merges == last.merges &&
      now.used_bytes >= last.used_bytes)
    return false;
  if (!pool_->IsHeldUp()) return false;
  end_cleared_ = now;
  return true;
}

// Moves what is in the way to where there is room: chunks are claimed from the lowest place on.
// What is being filled is left, and goes once it is merged.
Status ListDb::ClearEnd() {
  const auto leave = [this](const ChunkRef& chunk) { return pool_->IsInTheWay(chunk); };
  log_->LeaveChunks(leave);
  gc_.LeaveChunks(leave);
  Status s = catalog_.LeaveEnd();
  // More than once: what waited for readers in one pass may go in the next. Not for ever: copies
  // may lie in the way, too.
  bool progress = true;
  for (int pass = 0; pass < kClearPassesMax && progress && s.ok(); pass++)
    s = gc_.Collect(GcGoal::kEnd, &progress);
  return s;
}

Status ListDb::SweepSome() {
  std::string rest;
  Status s = l1_.Sweep(sweep_from_, {}, kSweepElements, &rest);
  sweep_from_ = s.ok() ? rest : "";
  const MutexLock lock(&jobs_.mu);
  sweeping_ = !sweep_from_.empty();
  return s;
}

// `all`, or what a session left open only. A mapped file has lost next to nothing unless the power
// was cut, and then its index is rebuilt: that can wait until space is needed. On DAX cache lines
// persist in any order.
void ListDb::PrepareRecount(bool all) {
  recount_.Prepare(HasRecords, !all                     ? Recount::Which::kLeftOpen
                               : pool_->LosesUnsynced() ? Recount::Which::kAllWhenNeeded
                                                        : Recount::Which::kAll);
  const MutexLock lock(&jobs_.mu);
  gc_again_ = true;
  dead_.NoteUnreclaimed();
}

Status ListDb::RecountSome() {
  const ListDbState state = catalog_.Get();
  recount_.Some([&](const ChunkRef& chunk, const Record* record, PmPtr place) {
    const bool of_gc = chunk.kind == kListDbArena && chunk.owner == kGcArena;
    const bool is_merged =
        record->height() > 0 && (of_gc || record->sequence() <= state.merged_sequence);
    return record->obsolete() || IsVoid(state.gaps, record->sequence()) ||
           (is_merged && record->kind() == RecordKind::kDelete && l1_.IsIdleDelete(place));
  });
  Status s;
  if (recount_.done() && uncounted_) {
    s = catalog_.Edit(ListDbEdit::kCounted, [](ListDbState* edited) { edited->uncounted = false; });
    uncounted_ = !s.ok();
  }
  const MutexLock lock(&jobs_.mu);
  gc_again_ = true;
  return s;
}

}  // namespace lamella
