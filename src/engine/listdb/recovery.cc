// Recovery (6.7, Algorithm 8): the catalog names L1 and the checkpointed L0 tables; an interrupted
// zipper compaction is merged again; the log after the boundary is sorted into MemTables, which
// are flushed as usual. Every step can be cut by another crash: nothing in place changes before the
// step's own edit, except by Zipper, which may be repeated.

#include <algorithm>
#include <thread>

#include "engine/listdb/listdb.h"
#include "engine/listdb/type.h"
#include "engine/log_recovery.h"

namespace lamella {

uint32_t ListDb::ShardCount() const {
  constexpr uint32_t kShardsMax = 16;
  if (context_.options->log_shards != 0) return context_.options->log_shards;
  return std::clamp<uint32_t>(std::thread::hardware_concurrency(), 1, kShardsMax);
}

void ListDb::MakeArenas() {
  uint64_t next_ordinal = 1;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == kListDbArena) next_ordinal = std::max(next_ordinal, chunk.ordinal + 1);
  });
  flush_arena_ = std::make_unique<RecordAppender>(pool_, 0, kListDbArena, kFlushArena, next_ordinal,
                                                  WriteCause::kFlush);
  arena_first_ordinal_ = next_ordinal;
  flush_arena_floor_.store(next_ordinal, std::memory_order_seq_cst);
  gc_arenas_.clear();
  for (uint32_t part = 0; part < pool_->part_count(); part++) {
    gc_arenas_.push_back(std::make_unique<RecordAppender>(pool_, part, kListDbArena, kGcArena,
                                                          next_ordinal, WriteCause::kGc));
  }
}

// Persist order: heads, then the catalog, whose publication in the superblock makes both the
// store's. A crash before it leaves chunks without a live owner, which the next open frees.
Status ListDb::CreateEmpty(bool rebuilding) {
  FreeStrayChunks();
  ChunkRef heads;
  Status s =
      pool_->Claim(0, kListDbHeads, 0, 1, 1, Claimant::kIndex, &compaction_persister_, &heads);
  if (!s.ok()) return s;
  ClearHeads(reinterpret_cast<SkipListHeads*>(pool_->ChunkAddress(heads)), &compaction_persister_);
  const MutexLock lock(&catalog_mu_);
  state_ = ListDbState{};
  state_.lanes = (pool_->state().engine_flags & kListDbFlagBraided) != 0 ? pool_->part_count() : 1;
  state_.l1_heads = pool_->ChunkStart(heads);
  state_.rebuilding = rebuilding;
  return Catalog::Create(
      pool_, [this]() LAMELLA_REQUIRES(catalog_mu_) { return state_.Encode(); }, &catalog_);
}

Status ListDb::OpenCatalog() {
  const MutexLock lock(&catalog_mu_);
  Status s = Catalog::Open(
      pool_, [this]() LAMELLA_REQUIRES(catalog_mu_) { return state_.Encode(); },
      [this](uint32_t kind, std::string_view payload) LAMELLA_REQUIRES(catalog_mu_) {
        return kind == Catalog::kSnapshotKind ? ListDbState::Decode(payload, &state_)
                                              : state_.Apply(payload);
      },
      &catalog_);
  if (!s.ok()) return s;
  if (state_.l1_heads.part() >= pool_->part_count() ||
      !pool_->Contains(state_.l1_heads, sizeof(SkipListHeads)) ||
      state_.lanes > pool_->part_count()) {
    return Status::Corruption("the catalog names L1 heads at part " +
                              std::to_string(state_.l1_heads.part()) + " byte " +
                              std::to_string(state_.l1_heads.offset()) +
                              ", outside the pool; `lamella repair` rebuilds the index");
  }
  return Status::OK();
}

// Chunks of a catalog or list that a crash left without a live owner.
void ListDb::FreeStrayChunks() {
  PmPtr l1_heads;
  {
    const MutexLock lock(&catalog_mu_);
    l1_heads = state_.l1_heads;
  }
  std::vector<ChunkRef> stray;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    const bool dead_catalog = chunk.kind == ChunkKind::kCatalog &&
                              (chunk.part != 0 || chunk.index != pool_->state().catalog_chunk);
    const bool dead_heads = chunk.kind == kListDbHeads && pool_->ChunkStart(chunk) != l1_heads;
    if (dead_catalog || dead_heads) stray.push_back(chunk);
  });
  for (const ChunkRef& chunk : stray) pool_->Free(chunk, &gc_persister_);
}

Status ListDb::OpenTables(ListDbTables* tables) {
  const MutexLock lock(&catalog_mu_);
  l1_ = std::make_unique<PmSkipList>(pool_, pool_->At<SkipListHeads>(state_.l1_heads),
                                     state_.lanes > 1);
  l1_count_.store(state_.l1_count, std::memory_order_relaxed);
  live_bytes_.store(state_.live_bytes, std::memory_order_relaxed);
  settled_live_bytes_.store(state_.live_bytes, std::memory_order_relaxed);
  settled_sequence_->store(state_.merged_sequence, std::memory_order_relaxed);
  flushed_through_.store(state_.flushed_sequence, std::memory_order_relaxed);
  log_in_l1_ = state_.merged;
  for (const L0TableState& state : state_.l0) {
    auto table = std::make_shared<L0Table>();
    table->state = state;
    table->checkpointed = true;
    table->settled->store(true, std::memory_order_relaxed);
    table->heads = std::make_shared<SkipListHeads>();
    if (state.heads.size() != size_t{state_.lanes} * kHeightMax) {
      return Status::Corruption("L0 table " + std::to_string(state.id) + " has " +
                                std::to_string(state.heads.size()) + " heads, expected " +
                                std::to_string(state_.lanes * kHeightMax));
    }
    for (size_t i = 0; i < state.heads.size(); i++) {
      table->heads->next[i / kHeightMax][i % kHeightMax].store(state.heads[i],
                                                               std::memory_order_relaxed);
    }
    table->list = std::make_shared<PmSkipList>(pool_, table->heads.get(), state_.lanes > 1);
    tables->l0.insert(tables->l0.begin(), table);
  }
  return Status::OK();
}

Status ListDb::RecoverLog(std::shared_ptr<const ListDbTables> tables) {
  LogContents contents;
  std::vector<LogPosition> boundary;
  std::vector<SequenceGap> gaps;
  uint64_t base;
  {
    const MutexLock lock(&catalog_mu_);
    boundary = state_.boundary;
    gaps = state_.gaps;
    base = state_.flushed_sequence;
  }
  Status s = ReadLog(*pool_, boundary, base, gaps, false, &contents);
  if (!s.ok()) return s;
  recovered_records_.store(contents.entries.size(), std::memory_order_relaxed);
  ClearStaleMarks(*pool_, contents.entries, &compaction_persister_);
  const uint64_t void_last = gaps.empty() ? 0 : gaps.back().last;
  AddGap(&gaps, contents.sequence_last, contents.sequence_seen);
  if (!gaps.empty() && gaps.back().last != void_last) {
    // Writes that never returned, beyond the first missing one. Their numbers are void from now on,
    // so that no later recovery takes them for the successors of what is written next.
    s = Edit(ListDbEdit::kGap, [&](ListDbState* state) { state->gaps = gaps; });
    if (!s.ok()) return s;
  }
  LogSorting sorting{.memtable_bytes = memtable_bytes_,
                     .memory = context_.memory,
                     .boundary = std::move(boundary),
                     .copy_bytes_max = nullptr};
  if (!unified_) sorting.copy_bytes_max = [this](uint64_t bytes) { return CopyBytesMax(bytes); };
  std::vector<std::shared_ptr<MemTable>> memtables = SortLog(pool_, contents, sorting);
  std::reverse(memtables.begin(), memtables.end());  // newest first
  StartWriting(ShardCount(), unified_, contents.next_ordinal, contents.sequence_seen,
               std::move(memtables), std::move(tables));
  return Status::OK();
}

// Copies that a crash left without a link: what gc copied in its last pass and did not link, and
// what a plain log's flush copied and did not checkpoint. No list leads to them, so nobody would
// mark them when a newer version comes, and once that was a delete and is dropped, a rebuilding
// would bring them back. Not fenced: gc fences and syncs before it frees any delete's chunk.
// Chunks that hold nothing but a flush's copies are freed at once: their originals will be copied
// again, and a full pool has no room for both (keeps BufferedEngine's I6).
void ListDb::MarkOrphans() {
  uint64_t flushed;
  {
    const MutexLock lock(&catalog_mu_);
    flushed = state_.flushed_sequence;
  }
  std::vector<ChunkRef> arenas;
  uint64_t largest = pool_->chunk_bytes();
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != kListDbArena) return;
    arenas.push_back(chunk);
    largest = std::max(largest, uint64_t{chunk.run_chunks} * pool_->chunk_bytes());
  });
  std::sort(arenas.begin(), arenas.end(),
            [](const ChunkRef& a, const ChunkRef& b) { return a.ordinal > b.ordinal; });
  enum class Orphans : uint8_t { kNone, kSome, kAll };
  const auto mark = [&](const ChunkRef& chunk, const auto& is_orphan) {
    uint64_t records = 0;
    uint64_t orphans = 0;
    uint64_t marked = 0;
    bool damaged = false;
    ForEachRecord(
        *pool_, chunk, 0,
        [&](const Record* record, PmPtr place) {
          records++;
          if (!is_orphan(record, place)) return;
          orphans++;
          if (record->obsolete()) return;  // marked before another crash
          pool_->At<Record>(place)->MarkObsolete(&gc_persister_);
          CountDead(place, record->bytes());
          marked++;
        },
        [&](PmPtr, PmPtr) { damaged = true; });
    if (records != 0 && orphans == records && !damaged) return Orphans::kAll;
    return records == 0 || marked > 0 ? Orphans::kSome : Orphans::kNone;
  };
  for (uint32_t part = 0; part < pool_->part_count(); part++) {
    uint64_t looked = 0;
    bool flushes_over = false;
    for (const ChunkRef& chunk : arenas) {  // newest first
      if (chunk.part != part) continue;
      if (chunk.owner == kGcArena && looked < kCopyBytesMax + 2 * largest) {
        looked += uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
        mark(chunk, [&](const Record* record, PmPtr place) {
          if (record->obsolete()) return false;
          PmPtr before;
          return FindInL1(place, &before) == InL1::kNotLinked;
        });
      } else if (chunk.owner == kFlushArena && !flushes_over) {
        const Orphans orphans =
            mark(chunk, [&](const Record* record, PmPtr) { return record->sequence() > flushed; });
        flushes_over = orphans == Orphans::kNone;
        if (orphans == Orphans::kAll) pool_->Free(chunk, &gc_persister_);
      }
    }
  }
}

Status ListDb::Recover() {
  unified_ = (pool_->state().engine_flags & kListDbFlagUnifiedLog) != 0;
  const bool created = pool_->state().catalog_chunk == 0;
  Status s = created ? CreateEmpty(false) : OpenCatalog();
  if (!s.ok()) return s;
  bool rebuild;
  uint64_t merging;
  {
    const MutexLock lock(&catalog_mu_);
    // The kernel wrote pages back in any order: after a power cut links and records may be of
    // different moments.
    const bool power_cut = LosesUnsynced() && !pool_->state().clean && !pool_->state().same_boot;
    rebuild = !created && (state_.rebuilding || power_cut);
    merging = state_.merging;
    uncounted_ = state_.uncounted && !rebuild;  // rebuilding counts
  }
  if (rebuild) {
    RepairReport report;
    s = Rebuild(&report);
    if (!s.ok()) return s;
    merging = 0;
  }
  FreeStrayChunks();
  MakeArenas();
  if (!created) PrepareRecount((!pool_->state().clean && !rebuild) || uncounted_);
  auto tables = std::make_shared<ListDbTables>();
  s = OpenTables(tables.get());
  if (s.ok()) s = RecoverLog(tables);
  if (s.ok() && merging != 0) s = MergeOldest();
  if (s.ok() && !created && !rebuild && !pool_->state().clean) MarkOrphans();
  {
    const MutexLock lock(&job_mu_);
    caches_are_cold_ = !created;
  }
  if (created) second_chance_.BeginWithAll();
  return s;
}

}  // namespace lamella
