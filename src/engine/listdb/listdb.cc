#include "engine/listdb/listdb.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/concat.h"
#include "engine/cached_lookup.h"
#include "engine/listdb/type.h"

namespace lamella {

namespace {

TableMemory MemoryOf(const EngineContext& context) {
  const Options& options = *context.options;
  const double shares = options.listdb.lookup_cache_share + options.listdb.second_chance_share;
  return TableMemory(options, ShareOfBudget(options.memory_budget_bytes, shares), context.memory);
}

}  // namespace

ListDb::ListDb(const EngineContext& context)
    : BufferedEngine(context, MemoryOf(context).memtable_bytes()),
      options_(context.options->listdb),
      memory_(MemoryOf(context)),
      pending_frees_(context.pool),
      dead_(context.pool),
      lookup_cache_(
          ShareOfBudget(context.options->memory_budget_bytes, options_.lookup_cache_share),
          context.pool->readers(), HashesOfRecords(context.pool), context.memory),
      l1_({.pool = context.pool,
           .snapshots = context.snapshots,
           .dead = &dead_,
           .lookup_cache = &lookup_cache_,
           .memory = context.memory,
           .second_chance_bytes_max =
               ShareOfBudget(context.options->memory_budget_bytes, options_.second_chance_share)}),
      space_(context.pool, &l1_, context.snapshots, &dead_, &pending_frees_, this,
             context.options->space_target),
      catalog_(context.pool),
      held_up_end_(context.pool),
      compaction_persister_(context.pool->gate(), WriteCause::kCompaction),
      flush_arena_(context.pool, &dead_, &lookup_cache_),
      flush_persister_(context.pool->gate(), WriteCause::kFlush),
      checkpoint_persister_(context.pool->gate(), WriteCause::kFlush) {}

// A rebuilding takes a missing number for the end of what survived, but for those up to the one
// that is noted here: without the note nothing that was written may go.
Status ListDb::SyncAll() {
  const uint64_t sequence = PublishedSequence();
  Status s = pool_->Sync();
  if (!s.ok() || !pool_->LosesUnsynced()) return s;
  s = catalog_.Edit(ListDbEdit::kSynced, [&](ListDbState* state) {
    state->synced_sequence = std::max(state->synced_sequence, sequence);
  });
  return s.ok() ? pool_->Sync() : s;  // the edit itself
}

Candidates ListDb::FindCandidates(std::string_view key) {
  return AskCache(*pool_, lookup_cache_, key);
}

// Algorithm 7. All is in the pool: the pin stays.
Lookup ListDb::SearchTables(const TableSet& tables, const InternalKey& target,
                            const Candidates& candidates, bool verify, EpochPin*) {
  if (const PlacedVersion newest = NewestOf(*pool_, candidates, target); newest.place) {
    gets_lookup_cache_.Add();
    return Found(newest.place, newest.kind);
  }
  HopTally hops;
  bool in_l1 = false;
  Lookup found =
      FindInTables(static_cast<const ListDbTables&>(tables), target, verify, &hops, &in_l1);
  if (in_l1 && pool_->part_count() > 1) {
    hops_local_.Add(hops.local);
    hops_remote_.Add(hops.remote);
  }
  if (found.state == LookupState::kAbsent || found.state == LookupState::kDamaged) return found;
  (in_l1 ? gets_l1_ : gets_l0_).Add();
  // Only a read as of after the last flush may fill the cache: no table has a newer version than it
  // found. A flush since then moved the generation.
  if (in_l1 && TagSequence(target.tag) >= flushed_through_.load(std::memory_order_acquire)) {
    if (lookup_cache_.PutFound(candidates.hash, found.place, candidates.generation))
      context_.nudge();
  }
  return found;
}

// `in_l1` where all of level 0 was passed. The caller is pinned.
Lookup ListDb::FindInTables(const ListDbTables& tables, const InternalKey& target, bool verify,
                            HopTally* hops, bool* in_l1) const {
  PlacedVersion found = FindVersion(*pool_, tables.l0, target, verify);
  *in_l1 = !found.place;
  if (*in_l1) found = l1_.Find(target, verify, hops);
  if (found.place.damaged()) return Damaged(found.place);
  return found.place ? Found(found.place, found.kind) : Lookup();
}

void ListDb::AddTableIterators(const std::shared_ptr<const TableSet>& tables, bool verify,
                               std::vector<std::unique_ptr<InternalIterator>>* iterators) {
  AddIterators(pool_, static_cast<const ListDbTables&>(*tables).l0, verify, iterators);
  iterators->push_back(NewSkipListIterator(l1_.list(), l1_.second_chance(), verify));
}

// Without zipper compaction no table is ever merged, and what they hold is trimmed instead.
uint64_t ListDb::UncompactedBytes(const TableSet& tables) const {
  if (!options_.zipper_compaction) return 0;
  return TreeBytesOfAll(static_cast<const ListDbTables&>(tables).l0);
}

std::optional<Unmerged> ListDb::UnmergedOf(const TableSet& tables) const {
  if (!options_.zipper_compaction) return std::nullopt;
  const auto& l0 = static_cast<const ListDbTables&>(tables).l0;
  Unmerged unmerged{.bytes = PoolBytes(l0), .live_bytes = lamella::LiveBytes(l0)};
  if (!l0.empty()) unmerged.live_share_of_last = l0.front()->live_share;
  return unmerged;
}

std::optional<Job> ListDb::PickJob(JobClass job_class) {
  if (job_class == JobClass::kUrgent) return PickUrgentJob();
  const MutexLock lock(&jobs_.mu);
  return MakeJob(PickListDbJob(Picture()));
}

// What PickListDbJob goes by.
ListDbPicture ListDb::Picture() {
  // The lock before the tables: merge_all_ is then of no later MemTables than these.
  const auto read_set = CurrentReadSet();
  const auto& l0 = static_cast<const ListDbTables&>(*read_set->tables).l0;
  if (read_set->sealed.empty() && l0.empty()) merge_all_ = false;
  ListDbPicture picture;
  picture.tables = l0.size();
  for (const auto& table : l0) picture.fresh += table->checkpointed ? 0 : 1;
  picture.oldest_settled = l0.empty() || l0.back()->settled->load(std::memory_order_acquire);
  picture.checkpoint_group = options_.checkpoint_group_tables;
  picture.zipper_compaction = options_.zipper_compaction;
  picture.merge_all = merge_all_;
  picture.half_merged = half_merged_;
  picture.merge_wants_helper = merge_to_scan_ahead_ != nullptr;
  picture.checkpointing = jobs_.IsBusy(kCheckpoint);
  picture.growing_cache = jobs_.IsBusy(kLookupCache);
  picture.giving_back = jobs_.IsBusy(kPoolEnd);
  picture.l1_busy = jobs_.IsBusy(kL1);
  picture.l1_awaited = jobs_.IsAwaited(kL1);
  picture.cache_growth_due = lookup_cache_.GrowthDue();
  picture.must_shrink = MustShrink();
  picture.caches_are_cold = caches_are_cold_;
  picture.space_had_turn = space_.had_turn();
  picture.space = space_.Picture(PublishedSequence());
  return picture;
}

std::optional<Job> ListDb::MakeJob(const PickedJob& picked) {
  switch (picked.job) {
    case ListDbJob::kNone:
      break;
    case ListDbJob::kScanAhead:
      // A thread that has nothing else to do scans ahead of the merge under way.
      return Job{"scan ahead", [this, zipper = std::exchange(merge_to_scan_ahead_, nullptr)] {
                   zipper->ScanAhead(pool_->readers());
                   return Status::OK();
                 }};
    case ListDbJob::kCheckpoint:
      return Begin(kCheckpoint, "checkpoint", [this] { return Checkpoint(); });
    case ListDbJob::kGrowCache:
      return Begin(kLookupCache, "grow the lookup cache", [this] {
        lookup_cache_.Grow();
        return Status::OK();
      });
    case ListDbJob::kShrink:
      return L1Job("shrink", [this] { return Shrink(); });
    case ListDbJob::kWarm: {
      Job warm = L1Job("warm", [this] {
        WarmCaches();
        return Status::OK();
      });
      caches_are_cold_ = false;
      return warm;
    }
    case ListDbJob::kSpace: {
      LevelSpace::Work work = space_.Begin(picked.space, PublishedSequence());
      return L1Job(work.name, std::move(work.run));
    }
    case ListDbJob::kMerge:
      space_.NoteMerge();
      return L1Job("merge", [this] { return MergeOldest(); });
    case ListDbJob::kTrimEnd:
      if (pool_->CanGiveBack())
        return Begin(kPoolEnd, "give back", [this] { return pool_->GiveBack(); });
      if (held_up_end_.Due(compactions_.load(std::memory_order_relaxed) + space_.gc()->released()))
        return L1Job("clear the pool's end", [this] { return ClearEnd(); });
      break;
  }
  return std::nullopt;
}

Job ListDb::Begin(uint32_t has, const char* name, std::function<Status()> run) {
  return jobs_.Begin({.name = name, .claims = {{has, {}}}, .run = std::move(run)});
}

Job ListDb::L1Job(const char* name, std::function<Status()> run) {
  return Begin(kL1, name, std::move(run));  // keeps I5
}

bool ListDb::ReclaimSpace() {
  // What is left is done by jobs that have L1, the last of them after all others, and a checkpoint
  // may be about to give back the log: their ends tell.
  const auto is_done = [this]() LAMELLA_REQUIRES(jobs_.mu) {
    return !HasUnflushed() && CurrentTables()->l0.empty() && !space_.HasWork() &&
           !jobs_.IsBusy(kL1) && !jobs_.IsBusy(kCheckpoint);
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

Status ListDb::CompactRange(std::string_view begin, std::string_view end) {
  Status s = Flush();
  if (!s.ok()) return s;
  const JobBoard::Held held = jobs_.Take({{kL1, {}}});
  s = NoThrow([&] {
    Status merged = MergeCurrentTables();
    return merged.ok() ? space_.Compact(begin, end) : merged;
  });
  return s;
}

Status ListDb::Close() {
  Status s = FlushAllNow();
  if (s.ok()) s = Checkpoint();
  if (!s.ok()) return s;
  log_->LeaveChunks([](const ChunkRef&) { return true; });
  flush_arena_.Close();
  space_.gc()->LeaveChunks([](const ChunkRef&) { return true; });
  if (space_.is_uncounted() && !catalog_.Get().uncounted) {
    s = catalog_.Edit(ListDbEdit::kCounted, [](ListDbState* state) { state->uncounted = true; });
    if (!s.ok()) return s;
  }
  return SyncAll();
}

void ListDb::AddStats(Stats* stats) const {
  BufferedEngine::AddStats(stats);
  stats->sources.push_back({"lookup cache", gets_lookup_cache_.Sum()});
  stats->sources.push_back({"L0", gets_l0_.Sum()});
  stats->sources.push_back({"L1", gets_l1_.Sum()});
  stats->local_hops += hops_local_.Sum();
  stats->remote_hops += hops_remote_.Sum();
  stats->checkpoints += checkpoints_.load(std::memory_order_relaxed);
  stats->compactions += compactions_.load(std::memory_order_relaxed);
  stats->gc_runs += space_.gc().runs();
  stats->gc_bytes_relocated += space_.gc().bytes_relocated();
  const auto tables = CurrentTables();
  const PmTables& l0 = tables->l0;
  stats->dram_bytes += TreeBytes(l0);
  stats->levels.push_back(LevelOf(l0, "L0"));
  stats->levels.push_back({.name = "L1", .tables = 1, .records = l1_.count()});
  stats->live_bytes += l1_.live_bytes();
  stats->dram_bytes += lookup_cache_.memory_bytes() + l1_.second_chance()->memory_bytes();
}

std::string ListDb::Describe() const {
  const auto tables = CurrentTables();
  const auto lanes = l1_.list()->lane_count();
  return Concat(BufferedEngine::Describe(), "L0: ", tables->l0.size(), " PMTables\n",
                lamella::Describe(tables->l0), "L1: ", l1_.count(), " records, ", lanes,
                lanes == 1 ? " lane" : " lanes", "\nlookup cache: ", lookup_cache_.memory_bytes(),
                " bytes; second-chance cache: ", l1_.second_chance()->memory_bytes(),
                " bytes, elements of height ", l1_.second_chance()->height_min(), " and more\n");
}

}  // namespace lamella
