// How much space the store may take, and what to do about it: counting what is dead, surveying what
// gc may evacuate (victims.h chooses, gc.cc does it), and what the jobs do that keep the pool at
// Options::space_target (job_picker.h says when).
//
// What is counted (docs/LIMITS.md, Space):
//   - a record is counted dead in its chunk's descriptor when it is marked obsolete, a delete when
//     nothing older lies after it any more in L1: it goes when gc comes by (I4);
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

// Of a table's bytes, how much more will live once it is merged: by a sample, before the merge
// tells, which may be long after.
double ListDb::LiveShareOf(std::span<const Sampled> sample, const ListDbTables& older) const {
  const EpochPin pin(pool_->readers());
  uint64_t bytes = 0;
  uint64_t dead = 0;
  for (const auto& [place, replaced] : sample) {
    const Record* record = pool_->At<Record>(place);
    bytes += record->bytes();
    if (replaced || record->kind() == RecordKind::kDelete) dead += record->bytes();
    if (replaced) continue;
    bool in_l1 = false;
    const Lookup before = FindInTables(older, record->internal_key(), false, nullptr, &in_l1);
    if (before.state == LookupState::kFound) dead += pool_->At<Record>(before.place)->bytes();
  }
  return bytes == 0 ? 1 : 1 - std::min(1.0, static_cast<double>(dead) / static_cast<double>(bytes));
}

void ListDb::CountDead(PmPtr place, uint64_t bytes) {
  ChunkRef chunk;
  if (!OwningChunk(*pool_, place, &chunk)) return;
  ChunkDescriptor* descriptor = pool_->Descriptor(chunk.part, chunk.index);
  descriptor->dead_bytes.fetch_add(bytes, std::memory_order_relaxed);
  garbage_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  unreclaimed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void ListDb::AddLive(const Record* record) {
  live_bytes_.fetch_add(record->key().size() + record->value().size(), std::memory_order_relaxed);
}

// The figure may have lost something in a crash: it stops at nothing.
void ListDb::SubtractLive(const Record* record) {
  const uint64_t bytes = record->key().size() + record->value().size();
  const uint64_t now = live_bytes_.load(std::memory_order_relaxed);  // of the job that changes L1
  live_bytes_.store(now - std::min(now, bytes), std::memory_order_relaxed);
}

// The chunks that are filled, and those of them whose records are all in L1 or dead (I5).
ChunkSurvey ListDb::Survey() const {
  // The floor first, then the tables: a flush that ends between shows in one of them.
  uint64_t arena_floor = flush_arena_floor_.load(std::memory_order_seq_cst);
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
    const auto held = held_back_.find(ChunkKey(chunk));
    if (held != held_back_.end() && held->second.epoch == chunk.epoch) return;
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

// What merges left for snapshots, for SweepNeed.
SweepNeed::Now ListDb::KeptVersions() const {
  return {.kept = kept_versions_.load(std::memory_order_relaxed),
          .l1_records = l1_count_.load(std::memory_order_relaxed),
          .published = PublishedSequence(),
          .snapshots_oldest = context_.snapshots->Oldest(),
          .snapshots_released = context_.snapshots->released()};
}

// A pass of gc. On a full pool it is wanted until one frees nothing.
Status ListDb::CollectOnce(GcGoal goal) {
  bool progress = false;
  Status s = CollectGarbage(goal, &progress);
  const MutexLock lock(&job_mu_);
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
  for (const auto& arena : gc_arenas_) {
    if (arena->open_chunk().kind != ChunkKind::kFree && leave(arena->open_chunk()))
      arena->CloseChunk();
  }
  {
    const MutexLock lock(&catalog_mu_);
    if (pool_->IsInTheWay(catalog_->chunk())) {
      Status s = catalog_->Rewrite();
      if (!s.ok() && !s.IsNoSpace()) return s;
    }
  }
  // More than once: what waited for readers in one pass may go in the next. Not for ever: copies
  // may lie in the way, too.
  Status s;
  bool progress = true;
  for (int pass = 0; pass < kClearPassesMax && progress && s.ok(); pass++)
    s = CollectGarbage(GcGoal::kEnd, &progress);
  return s;
}

Status ListDb::SweepSome() {
  std::string rest;
  Status s = SweepRange(sweep_from_, {}, kSweepElements, &rest);
  sweep_from_ = s.ok() ? rest : "";
  const MutexLock lock(&job_mu_);
  sweeping_ = !sweep_from_.empty();
  return s;
}

// `all`, or what a session left open only. A mapped file has lost next to nothing unless the power
// was cut, and then its index is rebuilt: that can wait until space is needed. On DAX cache lines
// persist in any order.
void ListDb::PrepareRecount(bool all) {
  recount_.Prepare(HasRecords, !all              ? Recount::Which::kLeftOpen
                               : LosesUnsynced() ? Recount::Which::kAllWhenNeeded
                                                 : Recount::Which::kAll);
  const MutexLock lock(&job_mu_);
  gc_again_ = true;
  unreclaimed_bytes_.store(1, std::memory_order_relaxed);
}

Status ListDb::RecountSome() {
  uint64_t merged_sequence;
  std::vector<SequenceGap> gaps;
  {
    const MutexLock lock(&catalog_mu_);
    merged_sequence = state_.merged_sequence;
    gaps = state_.gaps;
  }
  recount_.Some([&](const ChunkRef& chunk, const Record* record, PmPtr place) {
    const bool of_gc = chunk.kind == kListDbArena && chunk.owner == kGcArena;
    const bool is_merged = record->height() > 0 && (of_gc || record->sequence() <= merged_sequence);
    return record->obsolete() || IsVoid(gaps, record->sequence()) ||
           (is_merged && record->kind() == RecordKind::kDelete && IsIdleDelete(place));
  });
  Status s;
  if (recount_.done() && uncounted_) {
    s = Edit(ListDbEdit::kCounted, [](ListDbState* state) { state->uncounted = false; });
    uncounted_ = !s.ok();
  }
  const MutexLock lock(&job_mu_);
  gc_again_ = true;
  return s;
}

// Whether a delete serves for nothing, though no mark says so: with nothing after it, or in no
// list. L1 is asked for the latter: what a rebuilding left out has the links of an earlier life,
// which may lead to where a record is being written now.
bool ListDb::IsIdleDelete(PmPtr place) const {
  PmPtr before;
  const InL1 in_l1 = FindInL1(place, &before);
  return in_l1 == InL1::kNotLinked || (in_l1 == InL1::kLinked && !HasOlderBehind(place));
}

}  // namespace lamella
