// Recovery (6.7, Algorithm 8). Loading: the catalog names L1 and the checkpointed L0 tables; the
// log after the boundary is sorted into MemTables, which are flushed as usual. Mending: an
// interrupted zipper compaction is merged again, and so on; every step can be cut by another crash:
// nothing in place changes before the step's own edit, except by Zipper, which may be repeated.

#include <algorithm>

#include "base/concat.h"
#include "engine/listdb/listdb.h"
#include "engine/listdb/type.h"
#include "engine/orphans.h"

namespace lamella {

void ListDb::MakeArenas() {
  uint64_t next_ordinal = 1;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == kListDbArena) next_ordinal = std::max(next_ordinal, chunk.ordinal + 1);
  });
  flush_arena_.Start(kListDbArena, kFlushArena, next_ordinal);
  arena_first_ordinal_ = next_ordinal;
  gc_.Start(kListDbArena, kGcArena, next_ordinal);
}

// The heads of an empty list, in a chunk that no state names yet.
Status ListDb::ClaimHeads(ChunkRef* chunk) {
  Status s =
      pool_->Claim(0, kListDbHeads, 0, 1, 1, Claimant::kIndex, &compaction_persister_, chunk);
  if (s.ok()) {
    ClearHeads(reinterpret_cast<SkipListHeads*>(pool_->ChunkAddress(*chunk)),
               &compaction_persister_);
  }
  return s;
}

// Persist order: heads, then the catalog, whose publication in the superblock makes both the
// store's. A crash before it leaves chunks without a live owner, which the next open frees.
Status ListDb::CreateEmpty(bool rebuilding) {
  FreeStrayChunks();
  ChunkRef heads;
  Status s = ClaimHeads(&heads);
  if (!s.ok()) return s;
  ListDbState state;
  state.lanes = (pool_->state().engine_flags & kListDbFlagBraided) != 0 ? pool_->part_count() : 1;
  state.l1_heads = pool_->ChunkStart(heads);
  state.rebuilding = rebuilding;
  return catalog_.Create(std::move(state));
}

Status ListDb::OpenCatalog() {
  Status s = catalog_.Open();
  if (!s.ok()) return s;
  const ListDbState state = catalog_.Get();
  const PmPtr heads = state.l1_heads;
  if (heads.part() < pool_->part_count() && pool_->Contains(heads, sizeof(SkipListHeads)) &&
      state.lanes <= pool_->part_count())
    return Status::OK();
  return Status::Corruption(Concat("the catalog names L1 heads at part ", heads.part(), " byte ",
                                   heads.offset(),
                                   ", outside the pool; `lamella repair` rebuilds the index"));
}

// Chunks of a catalog or list that a crash left without a live owner.
void ListDb::FreeStrayChunks() {
  const PmPtr l1_heads = catalog_.Get().l1_heads;
  std::vector<ChunkRef> stray;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    const bool dead_catalog = chunk.kind == ChunkKind::kCatalog &&
                              (chunk.part != 0 || chunk.index != pool_->state().catalog_chunk);
    const bool dead_heads = chunk.kind == kListDbHeads && pool_->ChunkStart(chunk) != l1_heads;
    if (dead_catalog || dead_heads) stray.push_back(chunk);
  });
  for (const ChunkRef& chunk : stray) pool_->Free(chunk, l1_.persister());
}

Status ListDb::LoadTables(ListDbTables* tables) {
  const ListDbState state = catalog_.Get();
  l1_.Open({.heads = pool_->At<SkipListHeads>(state.l1_heads),
            .braided = state.lanes > 1,
            .count = state.l1_count,
            .live_bytes = state.live_bytes,
            .merged_sequence = state.merged_sequence});
  flushed_through_.store(state.flushed_sequence, std::memory_order_relaxed);
  log_in_l1_ = state.merged;
  for (const PmTableState& l0 : state.l0) {
    std::shared_ptr<PmTable> table;
    Status s = OpenPmTable(pool_, l0, state.lanes, &table);
    if (!s.ok()) return s;
    tables->l0.insert(tables->l0.begin(), table);
  }
  return Status::OK();
}

Status ListDb::MendVoids() {
  std::vector<SequenceGap> gaps = catalog_.Get().gaps;
  if (!MendLog(&gaps, &compaction_persister_)) return Status::OK();
  return catalog_.Edit(ListDbEdit::kGap, [&](ListDbState* state) { state->gaps = gaps; });
}

Status ListDb::LoadStore() {
  auto tables = std::make_shared<ListDbTables>();
  Status s = LoadTables(tables.get());
  if (!s.ok()) return s;
  ListDbState state = catalog_.Get();
  return LoadLog({.unified = unified_,
                  .boundary = std::move(state.boundary),
                  .flushed_sequence = state.flushed_sequence,
                  .gaps = std::move(state.gaps)},
                 std::move(tables));
}

// The kernel wrote pages back in any order: after a power cut links and records may be of different
// moments.
bool ListDb::MustRebuild() const {
  const bool power_cut =
      pool_->LosesUnsynced() && !pool_->state().clean && !pool_->state().same_boot;
  return power_cut || catalog_.Get().rebuilding;
}

// A merge that was under way needs no mending to be read: its table leads on into L1 (Zipper I1).
Status ListDb::Load() {
  unified_ = (pool_->state().engine_flags & kListDbFlagUnifiedLog) != 0;
  if (pool_->state().catalog_chunk == 0) return Status::OK();
  Status s = OpenCatalog();
  return s.ok() && !MustRebuild() ? LoadStore() : s;
}

Status ListDb::Mend() {
  const bool create = !catalog_.exists();
  const bool rebuild = !create && MustRebuild();
  const bool crashed = !create && !rebuild && !pool_->state().clean;
  Status s;
  if (create) {
    s = CreateEmpty(false);
  } else {
    catalog_.Mend();
  }
  if (!s.ok()) return s;
  const ListDbState found = catalog_.Get();
  uncounted_ = found.uncounted && !rebuild;  // rebuilding counts
  if (rebuild) {
    RepairReport report;
    s = Rebuild(&report);
    if (!s.ok()) return s;
  }
  FreeStrayChunks();
  MakeArenas();
  if (!create) PrepareRecount(crashed || uncounted_);
  if (create || rebuild) s = LoadStore();
  if (s.ok()) s = MendVoids();
  if (s.ok() && !rebuild && found.merging != 0) s = MergeOldest();
  if (s.ok() && crashed)
    MarkOrphans(pool_, {kListDbArena, kFlushArena, kGcArena}, found.flushed_sequence, &l1_, &dead_);
  {
    const MutexLock lock(&jobs_.mu);
    caches_are_cold_ = !create;
  }
  if (create) l1_.BeginEmpty();
  return s;
}

}  // namespace lamella
