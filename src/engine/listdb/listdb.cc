#include "engine/listdb/listdb.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/hash.h"
#include "engine/listdb/type.h"

namespace lamella {

namespace {

// Of the budget, what MemTables and L0's trees have at least, whatever the caches are given.
constexpr uint64_t kTablesPart = 8;
// MemTables that they hold: one is filled, some wait for their flush or are tables not yet merged.
constexpr uint64_t kMemTablesHeld = 8;

uint64_t Share(uint64_t bytes, double share) {
  const double allowed = std::clamp(share, 0.0, kCacheShareMax);
  return static_cast<uint64_t>(static_cast<double>(bytes) * allowed);
}

// MemTables and L0's trees get what the caches leave.
uint64_t TablesBytes(const Options& options) {
  const uint64_t caches = Share(options.memory_budget_bytes, options.listdb.lookup_cache_share) +
                          Share(options.memory_budget_bytes, options.listdb.second_chance_share);
  const uint64_t left =
      options.memory_budget_bytes > caches ? options.memory_budget_bytes - caches : 0;
  return std::max(left, options.memory_budget_bytes / kTablesPart);
}

uint64_t MemTableBytes(const Options& options) {
  if (options.memtable_bytes != 0) return std::max(options.memtable_bytes, kMemTableBytesMin);
  return std::max(TablesBytes(options) / kMemTablesHeld, kMemTableBytesMin);
}

// Damage may have made a record's size one that leads out of the pool.
void HashRecords(const Pool& pool, std::span<const PmPtr> places, uint64_t* hashes) {
  for (const PmPtr place : places) {
    const char* const record = pool.Address(place);
    __builtin_prefetch(record);
    __builtin_prefetch(record + kLineBytes);
  }
  for (size_t i = 0; i < places.size(); i++) {
    const Record* const record = pool.At<Record>(places[i]);
    hashes[i] = pool.Contains(places[i], record->bytes()) ? Hash64(record->key()) : 0;
  }
}

// DRAM of a record's entry in a tree, at the usual fill of leaves.
constexpr uint64_t kTreeBytesPerRecord = 48;

}  // namespace

ListDb::ListDb(const EngineContext& context)
    : BufferedEngine(context, MemTableBytes(*context.options)),
      options_(context.options->listdb),
      tables_bytes_max_(TablesBytes(*context.options)),
      memtable_bytes_(MemTableBytes(*context.options)),
      pending_frees_(context.pool),
      recount_(context.pool, &pending_frees_),
      lookup_cache_(
          Share(context.options->memory_budget_bytes, options_.lookup_cache_share),
          context.pool->readers(),
          [pool = context.pool](auto places, uint64_t* hashes) {
            HashRecords(*pool, places, hashes);
          },
          context.memory),
      second_chance_(context.pool,
                     Share(context.options->memory_budget_bytes, options_.second_chance_share),
                     context.memory),
      compaction_persister_(context.pool->gate(), WriteCause::kCompaction),
      gc_persister_(context.pool->gate(), WriteCause::kGc),
      settled_sequence_(std::make_shared<std::atomic<uint64_t>>(0)),
      pinned_tombstones_(std::make_shared<PinnedTombstones>()),
      settled_news_(std::make_shared<std::atomic<bool>>(false)),
      flush_persister_(context.pool->gate(), WriteCause::kFlush),
      checkpoint_persister_(context.pool->gate(), WriteCause::kFlush) {}

ListDb::~ListDb() = default;

std::shared_ptr<const ListDbTables> ListDb::CurrentTables() const {
  return std::static_pointer_cast<const ListDbTables>(CurrentReadSet()->tables);
}

// A rebuilding takes a missing number for the end of what survived, but for those up to the one
// that is noted here: without the note nothing that was written may go.
Status ListDb::SyncAll() {
  const uint64_t sequence = PublishedSequence();
  Status s = pool_->Sync();
  if (!s.ok() || !LosesUnsynced()) return s;
  s = Edit(ListDbEdit::kSynced, [&](ListDbState* state) {
    state->synced_sequence = std::max(state->synced_sequence, sequence);
  });
  return s.ok() ? pool_->Sync() : s;  // the edit itself
}

// The lookup cache is asked for the tables of a ReadSet that was taken before: it never holds an
// older version than they do.
Candidates ListDb::FindCandidates(std::string_view key) {
  Candidates found;
  found.hash = lookup_cache_.enabled() ? Hash64(key) : 0;
  found.generation = lookup_cache_.generation();
  found.count = lookup_cache_.Find(found.hash, &found.places);
  for (uint32_t i = 0; i < found.count; i++) {
    const char* record = pool_->Address(found.places[i]);
    for (size_t line = 0; line < 3; line++)
      __builtin_prefetch(record + line * kLineBytes);  // header, links, key, a small value
  }
  return found;
}

// Algorithm 7. All is in the pool: the pin stays.
Lookup ListDb::SearchTables(const TableSet& tables, const InternalKey& target,
                            const Candidates& candidates, bool verify, EpochPin*) {
  for (uint32_t i = 0; i < candidates.count; i++) {
    const PmPtr place = candidates.places[i];
    const Record* record = pool_->At<Record>(place);
    pool_->gate()->OnRead(kMediaBlockBytes);
    // The newest version in any table; a snapshot may ask for an older one.
    if (record->key() == target.user_key && record->tag() <= target.tag) {
      gets_lookup_cache_.Add();
      return Found(place, record->kind());
    }
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

// From the newest table on; `in_l1` where all those of level 0 were passed. The caller is pinned.
Lookup ListDb::FindInTables(const ListDbTables& tables, const InternalKey& target, bool verify,
                            HopTally* hops, bool* in_l1) const {
  for (const auto& table : tables.l0) {
    if (table->tree != nullptr) {
      HeadTree::Entry entry;
      if (!table->tree->FindVersion(target, &entry)) continue;
      return Found(entry.place(), TagKind(entry.tag));
    }
    const PmPtr place = table->list->FindAtOrAfter(target, PmPtr(), nullptr, verify);
    if (place.damaged()) return Damaged(place);
    if (!place || pool_->At<Record>(place)->key() != target.user_key) continue;
    return Found(place, pool_->At<Record>(place)->kind());
  }
  *in_l1 = true;
  if (!verify) {  // else the neighbours' checksums are asked for, too
    HeadTree::Entry entry;
    const SecondChanceCache::Answer answer = second_chance_.FindVersion(target, &entry);
    if (answer == SecondChanceCache::Answer::kAbsent) return {};
    if (answer == SecondChanceCache::Answer::kFound)
      return Found(entry.place(), TagKind(entry.tag));
  }
  const PmPtr place = l1_->FindAtOrAfter(target, StartOf(target), hops, verify);
  if (place.damaged()) return Damaged(place);
  if (!place) return {};
  const Record* record = pool_->At<Record>(place);
  return record->key() == target.user_key ? Found(place, record->kind()) : Lookup();
}

// Where a search of L1 starts: from the nearest element before it that the second-chance cache has;
// of a braided list, on the reader's NUMA node (dissertation 6.4), unless the cache has all of L1.
PmPtr ListDb::StartOf(const InternalKey& target) const {
  if (l1_->lane_count() == 1 || second_chance_.height_min() == 1)
    return second_chance_.FindAtOrBefore(target);
  const auto lane = static_cast<int>(l1_->NearestLane());
  return second_chance_.FindTallAtOrBefore(target, second_chance_.height_min(), lane).place();
}

void ListDb::AddTableIterators(const std::shared_ptr<const TableSet>& tables, bool verify,
                               std::vector<std::unique_ptr<InternalIterator>>* iterators) {
  for (const auto& table : static_cast<const ListDbTables&>(*tables).l0) {
    iterators->push_back(table->tree != nullptr ? NewHeadTreeIterator(pool_, table->tree.get())
                                                : NewSkipListIterator(table->list.get(), nullptr,
                                                                      verify, table->merged.get()));
  }
  iterators->push_back(NewSkipListIterator(l1_.get(), &second_chance_, verify));
}

// A table without its tree is as much to be merged as one that has it. Without zipper compaction no
// table is ever merged, and what they hold is trimmed instead (TrimTrees).
uint64_t ListDb::UncompactedBytes(const TableSet& tables) const {
  if (!options_.zipper_compaction) return 0;
  uint64_t bytes = 0;
  for (const auto& table : static_cast<const ListDbTables&>(tables).l0) {
    bytes += table->tree != nullptr ? table->tree->memory_bytes()
                                    : table->state.count * kTreeBytesPerRecord;
  }
  return bytes;
}

std::optional<Unmerged> ListDb::UnmergedOf(const TableSet& tables) const {
  if (!options_.zipper_compaction) return std::nullopt;
  Unmerged unmerged;
  const auto& l0 = static_cast<const ListDbTables&>(tables).l0;
  for (const auto& table : l0) {
    unmerged.bytes += table->bytes;
    unmerged.live_bytes +=
        static_cast<uint64_t>(static_cast<double>(table->bytes) * table->live_share);
  }
  if (!l0.empty()) unmerged.live_share_of_last = l0.front()->live_share;
  return unmerged;
}

// Their share of the budget, and, where no other store draws on it, what the caches have not taken
// yet of theirs.
uint64_t ListDb::BufferedBytesMax() const {
  const uint64_t least = std::max(tables_bytes_max_, 4 * memtable_bytes_);
  const uint64_t budget = context_.options->memory_budget_bytes;
  if (context_.memory->ShareOf(budget) < budget) return least;
  const uint64_t caches = lookup_cache_.memory_bytes() + second_chance_.memory_bytes();
  return std::max(budget > caches ? budget - caches : 0, least);
}

std::optional<Job> ListDb::PickJob(JobClass job_class) {
  if (job_class == JobClass::kUrgent) {
    if (auto flush = PickFlush()) return flush;
    const MutexLock lock(&job_mu_);
    if (provisioning_ || !pool_->NeedsProvision()) return std::nullopt;
    return SideJob("provision", &provisioning_, [this] {
      Status s = pool_->Provision();
      return s.IsNoSpace() ? Status::OK() : s;  // writers will find out, and wait for space
    });
  }
  const MutexLock lock(&job_mu_);
  return MakeJob(PickListDbJob(Picture()));
}

// What PickListDbJob goes by.
ListDbPicture ListDb::Picture() {
  // The lock before the tables: merge_all_ is then of no later MemTables than these.
  const auto read_set = CurrentReadSet();
  const auto& l0 = static_cast<const ListDbTables&>(*read_set->tables).l0;
  if (read_set->sealed.empty() && l0.empty()) merge_all_ = false;
  const SweepNeed::Now versions = KeptVersions();
  if (sweep_need_.Note(versions)) kept_versions_.store(0, std::memory_order_relaxed);
  ListDbPicture picture;
  picture.tables = l0.size();
  for (const auto& table : l0) picture.fresh += table->checkpointed ? 0 : 1;
  picture.oldest_settled = l0.empty() || l0.back()->settled->load(std::memory_order_acquire);
  picture.checkpoint_group = options_.checkpoint_group_tables;
  picture.zipper_compaction = options_.zipper_compaction;
  picture.merge_all = merge_all_;
  picture.merge_wants_helper = merge_to_scan_ahead_ != nullptr;
  picture.checkpointing = checkpointing_;
  picture.growing_cache = growing_cache_;
  picture.giving_back = giving_back_;
  picture.l1_busy = l1_busy_;
  picture.l1_awaited = l1_waiting_ > 0;
  picture.cache_growth_due = lookup_cache_.GrowthDue();
  picture.must_shrink = MustShrink();
  picture.caches_are_cold = caches_are_cold_;
  picture.pool_is_full = gc_wanted_;
  picture.space_had_turn = space_had_turn_;
  picture.recount_due = recount_.Due(gc_wanted_);
  picture.sweep_due = sweeping_ || sweep_need_.Due(versions, gc_wanted_);
  picture.gc_again = gc_again_;
  picture.garbage_bytes = garbage_bytes_.load(std::memory_order_relaxed);
  picture.tombstones_settled = settled_news_->load(std::memory_order_acquire);
  picture.chunk_bytes = pool_->chunk_bytes();
  picture.used_bytes = pool_->used_bytes();
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
      return SideJob("checkpoint", &checkpointing_, [this] { return Checkpoint(); });
    case ListDbJob::kGrowCache:
      return SideJob("grow the lookup cache", &growing_cache_, [this] {
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
    case ListDbJob::kRecount:
      return SpaceJob("recount", [this] { return RecountSome(); });
    case ListDbJob::kSweep: {
      Job sweep = SpaceJob("sweep", [this] { return SweepSome(); });
      if (!std::exchange(sweeping_, true)) sweep_need_.Begin(KeptVersions());
      return sweep;
    }
    case ListDbJob::kGc:
      return SpaceJob("gc", [this, goal = picked.goal] { return CollectOnce(goal); });
    case ListDbJob::kSettle:
      return L1Job("settle", [this] {
        AwaitGets();
        return Status::OK();
      });
    case ListDbJob::kMerge:
      return L1Job("merge", [this] { return MergeOldest(); });
    case ListDbJob::kTrimEnd:
      if (pool_->CanGiveBack())
        return SideJob("give back", &giving_back_, [this] { return pool_->GiveBack(); });
      if (EndIsHeldUp()) return L1Job("clear the pool's end", [this] { return ClearEnd(); });
      break;
  }
  return std::nullopt;
}

// A job that has L1 until it ends (keeps I6).
Job ListDb::L1Job(const char* name, std::function<Status()> run) {
  Job job{name, [this, run = std::move(run)] {
            Status s = NoThrow(run);
            GiveL1Back();
            return s;
          }};
  l1_busy_ = true;  // when nothing is left that may want memory
  space_had_turn_ = false;
  return job;
}

Job ListDb::SpaceJob(const char* name, std::function<Status()> run) {
  Job job = L1Job(name, std::move(run));
  space_had_turn_ = true;
  return job;
}

// A job beside the one that has L1, and not beside itself: *under_way says so until it ends.
Job ListDb::SideJob(const char* name, bool* under_way, std::function<Status()> run) {
  Job job{name, [this, under_way, run = std::move(run)] {
            Status s = NoThrow(run);
            EndSideJob(under_way);
            return s;
          }};
  *under_way = true;
  return job;
}

void ListDb::EndSideJob(bool* under_way) {
  {
    const MutexLock lock(&job_mu_);
    *under_way = false;
  }
  job_done_.notify_all();
}

bool ListDb::ReclaimSpace() {
  using std::chrono::steady_clock;
  SwitchMemTable(true);
  const auto nothing_left = [this]() LAMELLA_REQUIRES(job_mu_) {
    const auto read_set = CurrentReadSet();
    return read_set->sealed.empty() &&
           static_cast<const ListDbTables&>(*read_set->tables).l0.empty() && !gc_wanted_ &&
           !sweeping_ && recount_.done() && !l1_busy_;
  };
  // Reclaiming again what the last writer has just failed to would only make every write on a full
  // pool slow.
  const bool has_deferred = pool_->CollectDeferred() != 0;
  {
    const MutexLock lock(&job_mu_);
    if (nothing_left() && unreclaimed_bytes_.load(std::memory_order_relaxed) == 0 && !has_deferred)
      return false;
    gc_wanted_ = true;
    merge_all_ = true;
  }
  // What is left is done by jobs that have L1, and each tells when it is through. A look now and
  // then beside: one that found the pool full is offered again without a word.
  constexpr std::chrono::milliseconds kLook{100};
  const auto deadline = steady_clock::now() + std::chrono::seconds(5);
  while (BackgroundError().ok() && steady_clock::now() < deadline) {
    context_.wake();
    const MutexLock lock(&job_mu_);
    if (nothing_left()) break;
    job_done_.wait_for(job_mu_, kLook);
  }
  pool_->CollectDeferred();
  return true;
}

Status ListDb::CompactRange(std::string_view begin, std::string_view end) {
  Status s = Flush();
  if (!s.ok()) return s;
  TakeL1();
  s = NoThrow([&] { return CompactL1(begin, end); });
  GiveL1Back();
  return s;
}

Status ListDb::CompactL1(std::string_view begin, std::string_view end) {
  constexpr std::chrono::milliseconds kReadersAtMost{10};
  Status s = MergeTablesOfNow();
  // Twice: a delete may go only once nobody can stand on a version that it hid (I4); an open
  // iterator keeps it.
  for (int pass = 0; s.ok() && pass < 2; pass++) {
    if (pool_->readers()->AwaitRetired(kReadersAtMost))
      (void)pool_->holders()->AwaitRetired(kReadersAtMost);
    std::string rest;
    s = SweepRange(begin, end, UINT64_MAX, &rest);
  }
  const bool all = begin.empty() && end.empty();
  while (s.ok() && all && !recount_.done()) s = RecountSome();
  bool progress = true;
  while (s.ok() && progress) s = CollectGarbage(all ? GcGoal::kAll : GcGoal::kTarget, &progress);
  pool_->CollectDeferred();
  return s;
}

void ListDb::TakeL1() {
  const MutexLock lock(&job_mu_);
  l1_waiting_++;
  while (l1_busy_) job_done_.wait(job_mu_);
  l1_waiting_--;
  l1_busy_ = true;
}

void ListDb::GiveL1Back() {
  {
    const MutexLock lock(&job_mu_);
    l1_busy_ = false;
  }
  job_done_.notify_all();
  context_.wake();  // jobs were held back
}

void ListDb::BeginCheckpoint() {
  const MutexLock lock(&job_mu_);
  while (checkpointing_) job_done_.wait(job_mu_);
  checkpointing_ = true;
}

void ListDb::EndCheckpoint() { EndSideJob(&checkpointing_); }

Status ListDb::Close() {
  Status s = FlushAllNow();
  if (s.ok()) s = Checkpoint();
  if (!s.ok()) return s;
  log_->LeaveChunks([](const ChunkRef&) { return true; });
  flush_arena_->CloseChunk();
  for (auto& arena : gc_arenas_) arena->CloseChunk();
  if (!recount_.done() && !uncounted_) {
    s = Edit(ListDbEdit::kCounted, [](ListDbState* state) { state->uncounted = true; });
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
  stats->gc_runs += gc_runs_.load(std::memory_order_relaxed);
  stats->gc_bytes_relocated += gc_bytes_relocated_.load(std::memory_order_relaxed);
  stats->recovered_records += recovered_records_.load(std::memory_order_relaxed);
  const auto tables = CurrentTables();
  Stats::Level l0{.name = "L0"};
  for (const auto& table : tables->l0) {
    l0.tables++;
    l0.records += table->state.count;
    if (table->tree != nullptr) stats->dram_bytes += table->tree->memory_bytes();
  }
  stats->levels.push_back(l0);
  stats->levels.push_back(
      {.name = "L1", .tables = 1, .records = l1_count_.load(std::memory_order_relaxed)});
  stats->live_bytes += live_bytes_.load(std::memory_order_relaxed);
  stats->dram_bytes += lookup_cache_.memory_bytes() + second_chance_.memory_bytes();
}

std::string ListDb::Describe() const {
  const auto read_set = CurrentReadSet();
  const auto& tables = static_cast<const ListDbTables&>(*read_set->tables);
  std::string out;
  out += "MemTables: active " + std::to_string(read_set->active->count()) + " records, " +
         std::to_string(read_set->active->memory_bytes()) + " bytes of DRAM; sealed " +
         std::to_string(read_set->sealed.size()) + "\n";
  out += "L0: " + std::to_string(tables.l0.size()) + " PMTables\n";
  for (const auto& table : tables.l0) {
    out += "  table " + std::to_string(table->state.id) + ": " +
           std::to_string(table->state.count) + " records, up to sequence " +
           std::to_string(table->state.last_sequence) +
           (table->checkpointed ? ", checkpointed" : ", after the log boundary") +
           (table->tree != nullptr ? ", order cached in DRAM\n" : "\n");
  }
  out += "L1: " + std::to_string(l1_count_.load(std::memory_order_relaxed)) + " records, " +
         std::to_string(l1_->lane_count()) + (l1_->lane_count() == 1 ? " lane" : " lanes") + "\n";
  out += "lookup cache: " + std::to_string(lookup_cache_.memory_bytes()) +
         " bytes; second-chance cache: " + std::to_string(second_chance_.memory_bytes()) +
         " bytes, elements of height " + std::to_string(second_chance_.height_min()) +
         " and more\n";
  return out;
}

}  // namespace lamella
