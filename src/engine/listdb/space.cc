// How much space the store may take, and what to do about it: counting what is dead, choosing the
// chunks that gc evacuates (gc.cc), and the jobs that keep the pool at Options::space_target.
//
// What is counted (docs/LIMITS.md, Space):
//   - a record is counted dead in its chunk's descriptor when it is marked obsolete, a delete when
//     nothing older lies after it any more in L1: it goes when gc comes by (I4);
//   - a crash may lose counts, and adds none: after one every chunk is counted anew from its
//     records' marks (RecountSome), in the background, and before a full pool is one;
//   - a version that a merge left for a snapshot is not dead before a sweep of L1 took it out.

#include <algorithm>
#include <cmath>

#include "engine/listdb/listdb.h"

namespace lamella {

namespace {

// A chunk of which less is alive is evacuated whenever gc looks, whatever the target: it costs next
// to nothing.
constexpr uint64_t kNearlyDead = 32;
// While merges wait, the target may be passed by this.
constexpr double kBusyExcess = 1.5;
// What is not counted here, chunks that are being filled, tables and catalog, stays within the
// rest.
constexpr double kIdleShare = 15.0 / 16;
// A pool of few chunks is not worth copying in.
constexpr uint64_t kSlackChunks = 4;
// Of a chunk that is evacuated for nothing but space, so much must be dead.
constexpr double kDeadShareMin = 0.05;
// Gc looks once this part of what the pool uses has died since it looked last.
constexpr uint64_t kGarbagePart = 64;
// A chunk that an earlier session left is sparse where less than this part of it is used.
constexpr uint64_t kSparsePart = 4;
// Passes over the pool's end in one job.
constexpr int kClearPassesMax = 4;
// What a recount reads in one job, and a sweep walks.
constexpr uint64_t kRecountBytes = 16ull << 20;
constexpr uint64_t kSweepElements = 1 << 16;
// Versions kept for snapshots that are worth a sweep: so many, and this part of what L1 has.
constexpr uint64_t kKeptMin = 1024;
constexpr uint64_t kKeptPart = 8;

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

bool ListDb::IsPendingFree(const ChunkRef& chunk) const {
  const auto at = pending_free_.find(PlaceKey(chunk));
  return at != pending_free_.end() && at->second == chunk.epoch;
}

// A chunk stays its owner's until its readers are gone; it must not be freed twice meanwhile.
void ListDb::FreeOnce(const ChunkRef& chunk) {
  const MutexLock lock(&pending_free_mu_);
  if (IsPendingFree(chunk)) return;
  const auto at = pending_free_.insert_or_assign(PlaceKey(chunk), chunk.epoch).first;
  try {
    pool_->FreeDeferred(chunk);
  } catch (...) {  // the next gc frees it
    pending_free_.erase(at);
    throw;
  }
}

// The chunks that are filled, and those of them whose records are all in L1 or dead (I5).
ListDb::ChunkSurvey ListDb::Survey() const {
  // The floor first, then the tables: a flush that ends between shows in one of them.
  uint64_t arena_floor = flush_arena_floor_.load(std::memory_order_seq_cst);
  const auto tables = CurrentTables();
  for (const auto& table : tables->l0) {
    if (!unified_) arena_floor = std::min(arena_floor, table->state.arena_ordinal);
  }
  std::vector<LogPosition> merged;
  {
    const MutexLock lock(&catalog_mu_);
    merged = state_.merged;
  }
  ChunkSurvey survey;
  const MutexLock lock(&pending_free_mu_);
  pool_->ForEachChunk([&](const ChunkRef& chunk) LAMELLA_REQUIRES(pending_free_mu_) {
    if ((chunk.kind != ChunkKind::kLog && chunk.kind != kListDbArena) || IsPendingFree(chunk))
      return;
    const ChunkDescriptor* descriptor = pool_->Descriptor(chunk.part, chunk.index);
    const uint64_t used = descriptor->used_bytes.load(std::memory_order_relaxed);
    if (used == 0) return;  // being filled
    const uint64_t bytes = uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
    const bool in_the_way = pool_->IsInTheWay(chunk);
    // The last that a shard filled was left for good, and all of it is merged, too (ClearEnd).
    const LogPosition end{chunk.ordinal, in_the_way ? used : UINT64_MAX};
    const bool log = unified_ && chunk.kind == ChunkKind::kLog && chunk.owner < merged.size() &&
                     end <= merged[chunk.owner];
    const bool arena =
        chunk.kind == kListDbArena && (chunk.owner != kFlushArena || chunk.ordinal < arena_floor);
    if (!log && !arena) return;
    survey.filled_bytes += bytes;
    const auto held = held_back_.find(PlaceKey(chunk));
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

// The emptiest first, until the goal is met or a job's share of copying is: they cost least and
// give most.
std::vector<ChunkRef> ListDb::PickVictims(GcGoal goal, ChunkSurvey survey) const {
  const double target = context_.options->space_target;
  const double live = static_cast<double>(live_bytes_.load(std::memory_order_relaxed));
  const double allowed = target * live * (goal == GcGoal::kBusy ? kBusyExcess : kIdleShare) +
                         static_cast<double>(kSlackChunks * pool_->chunk_bytes());
  double excess = std::max(0.0, static_cast<double>(survey.filled_bytes) - allowed);
  if (goal == GcGoal::kAll || goal == GcGoal::kEnd) excess = HUGE_VAL;
  if (goal == GcGoal::kEnd)
    std::erase_if(survey.candidates, [](const Candidate& c) { return !c.in_the_way; });
  // At the target a share of 1 - 1/target is dead or waste. Chunks with half of that are worth
  // their copying.
  const double dead_share_min = goal == GcGoal::kAll ? kDeadShareMin : (1 - 1 / target) / 2;
  const auto live_share = [](const Candidate& c) {
    return static_cast<double>(c.live) / static_cast<double>(c.bytes);
  };
  std::sort(survey.candidates.begin(), survey.candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return live_share(a) < live_share(b); });
  std::vector<ChunkRef> victims;
  uint64_t copied = 0;
  double gained = 0;
  for (const Candidate& c : survey.candidates) {
    const bool nearly_dead = c.dead > 0 && c.live <= c.bytes / kNearlyDead;
    if (!nearly_dead && gained >= excess) break;
    const double dead_share = static_cast<double>(c.dead) / static_cast<double>(c.bytes);
    if (!nearly_dead && !c.sparse && goal != GcGoal::kEnd && dead_share < dead_share_min) continue;
    copied += c.live;
    if (!victims.empty() && copied > kCopyBytesMax) break;
    gained += static_cast<double>(c.bytes - c.live);
    victims.push_back(c.chunk);
  }
  return victims;
}

// Whether gc has something to look for.
bool ListDb::GcDue(bool merges_wait) const {
  const uint64_t garbage = garbage_bytes_.load(std::memory_order_relaxed);
  const uint64_t enough = std::max(2 * pool_->chunk_bytes(), pool_->used_bytes() / kGarbagePart);
  if (gc_again_ || garbage >= enough) return true;
  return !merges_wait && (garbage > 0 || settled_news_->load(std::memory_order_acquire));
}

Job ListDb::L1Job(const char* name, std::function<Status()> run) {
  Job job{name, [this, run = std::move(run)] {
            Status s = NoThrow(run);
            GiveL1Back();
            return s;
          }};
  l1_busy_ = true;  // when nothing is left that may want memory
  return job;
}

// What is to be done about space, if anything; nobody has L1. Where a merge is ready too they take
// turns, but a full pool's merges go first: they find what is dead.
std::optional<Job> ListDb::PickSpaceJob(bool merge_ready, bool merges_wait) {
  const bool full = gc_wanted_;
  if (merge_ready && (full || space_had_turn_)) {
    space_had_turn_ = false;
    return std::nullopt;
  }
  space_had_turn_ = true;
  if (recount_left_ > (full ? 0 : recount_later_)) {
    return L1Job("recount", [this] { return RecountSome(); });
  }
  if (SweepDue(full)) return L1Job("sweep", [this] { return SweepSome(); });
  if (!full && !GcDue(merges_wait)) return std::nullopt;
  const GcGoal goal = full ? GcGoal::kAll : merges_wait ? GcGoal::kBusy : GcGoal::kTarget;
  return L1Job("gc", [this, goal] {
    bool progress = false;
    Status s = CollectGarbage(goal, &progress);
    const MutexLock done(&job_mu_);
    gc_again_ = progress;
    if (goal == GcGoal::kAll && !progress) gc_wanted_ = false;
    return s;
  });
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

// Whether L1 should be swept of what merges left for snapshots that are released by now.
bool ListDb::SweepDue(bool full) {
  if (sweeping_) return true;
  const uint64_t kept = kept_versions_.load(std::memory_order_relaxed);
  const uint64_t enough = std::max(kKeptMin, l1_count_.load(std::memory_order_relaxed) / kKeptPart);
  if (sweep_after_ == 0 && kept >= enough) {
    kept_versions_.store(0, std::memory_order_relaxed);
    sweep_after_ = std::max<uint64_t>(1, PublishedSequence());
  }
  if (sweep_after_ != 0 && context_.snapshots->Oldest() >= sweep_after_) {
    sweep_after_ = 0;
    return sweeping_ = true;
  }
  const uint64_t released = context_.snapshots->released();
  if (!full || (kept == 0 && sweep_after_ == 0) || released == released_at_sweep_) return false;
  released_at_sweep_ = released;
  return sweeping_ = true;
}

Status ListDb::SweepSome() {
  std::string rest;
  Status s = SweepRange(sweep_from_, {}, kSweepElements, &rest);
  sweep_from_ = s.ok() ? rest : "";
  const MutexLock lock(&job_mu_);
  sweeping_ = !sweep_from_.empty();
  return s;
}

// What an open found filled is counted anew, chunk by chunk: `all`, or what a session left open
// only.
void ListDb::PrepareRecount(bool all) {
  std::vector<ChunkRef> later;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != ChunkKind::kLog && chunk.kind != kListDbArena) return;
    const ChunkDescriptor* descriptor = pool_->Descriptor(chunk.part, chunk.index);
    if (descriptor->used_bytes.load(std::memory_order_relaxed) == 0) {
      recount_.push_back(chunk);
    } else if (all) {
      // A mapped file has lost next to nothing unless the power was cut, and then its index is
      // rebuilt: that can wait until space is needed. Cache lines reach DAX in any order.
      (LosesUnsynced() ? later : recount_).push_back(chunk);
    }
  });
  const MutexLock lock(&job_mu_);
  recount_.insert(recount_.begin(), later.begin(), later.end());
  recount_later_ = later.size();
  recount_left_ = recount_.size();
  gc_again_ = true;
  unreclaimed_bytes_.store(1, std::memory_order_relaxed);
}

// The last of what is left, as much as one job should read.
Status ListDb::RecountSome() {
  uint64_t merged_sequence;
  std::vector<SequenceGap> gaps;
  {
    const MutexLock lock(&catalog_mu_);
    merged_sequence = state_.merged_sequence;
    gaps = state_.gaps;
  }
  for (uint64_t bytes = 0; !recount_.empty() && bytes < kRecountBytes; recount_.pop_back()) {
    const ChunkRef& chunk = recount_.back();
    ChunkRef now;
    const bool is_there =
        pool_->Describe(chunk.part, chunk.index, &now) && now.epoch == chunk.epoch;
    if (!is_there) continue;  // freed since
    RecountChunk(chunk, merged_sequence, gaps);
    bytes += uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
  }
  Status s;
  if (recount_.empty() && uncounted_) {
    s = Edit(ListDbEdit::kCounted, [](ListDbState* state) { state->uncounted = false; });
    uncounted_ = !s.ok();
  }
  const MutexLock lock(&job_mu_);
  recount_left_ = recount_.size();
  recount_later_ = std::min(recount_later_, recount_left_);
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

// Of a chunk with damage what is dead is not known: its counts stay.
void ListDb::RecountChunk(const ChunkRef& chunk, uint64_t merged_sequence,
                          const std::vector<SequenceGap>& gaps) {
  uint64_t dead = 0;
  bool damaged = false;
  const bool of_gc = chunk.kind == kListDbArena && chunk.owner == kGcArena;
  const uint64_t behind = ForEachRecord(
      *pool_, chunk, 0,
      [&](const Record* record, PmPtr place) {
        const bool is_merged =
            record->height() > 0 && (of_gc || record->sequence() <= merged_sequence);
        const bool is_dead =
            record->obsolete() || IsVoid(gaps, record->sequence()) ||
            (is_merged && record->kind() == RecordKind::kDelete && IsIdleDelete(place));
        if (is_dead) dead += record->bytes();
      },
      [&](PmPtr, PmPtr) { damaged = true; });
  ChunkDescriptor* descriptor = pool_->Descriptor(chunk.part, chunk.index);
  if (descriptor->used_bytes.load(std::memory_order_relaxed) == 0) {
    if (behind == 0) return FreeOnce(chunk);  // what holds no record
    descriptor->used_bytes.store(behind, std::memory_order_relaxed);
    // a power cut took it
    if (WholeBytes(*pool_, chunk) == 0) SetWholeBytes(*pool_, chunk, behind);
  }
  if (!damaged) descriptor->dead_bytes.store(dead, std::memory_order_relaxed);
}

}  // namespace lamella
