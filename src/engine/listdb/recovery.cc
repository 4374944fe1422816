// Recovery (6.7, Algorithm 8). Loading: the catalog names L1 and the checkpointed L0 tables; the
// log after the boundary is sorted into MemTables, which are flushed as usual. Mending: an
// interrupted zipper compaction is merged again, and so on; every step can be cut by another crash:
// nothing in place changes before the step's own edit, except by Zipper, which may be repeated.

#include <algorithm>

#include "engine/list_heads.h"
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
  space_.gc()->Start(kListDbArena, kGcArena, next_ordinal);
}

// Persist order: heads, then the catalog, whose publication in the superblock makes both the
// store's. A crash before it leaves chunks without a live owner, which the next open frees.
Status ListDb::CreateEmpty(bool rebuilding) {
  FreeStrayChunks();
  ListDbState state;
  Status s = ClaimHeads(pool_, kListDbHeads, &compaction_persister_, &state.l1_heads);
  if (!s.ok()) return s;
  state.lanes = (pool_->state().engine_flags & kListDbFlagBraided) != 0 ? pool_->part_count() : 1;
  state.rebuilding = rebuilding;
  // Of a catalog that is lost it is not known, nor by who goes on where this rebuilding is cut.
  if (rebuilding) state.synced_sequence = kSyncedUnknown;
  return catalog_.Create(std::move(state));
}

Status ListDb::OpenCatalog() {
  Status s = catalog_.Open();
  if (!s.ok()) return s;
  const ListDbState state = catalog_.Get();
  return CheckHeads(*pool_, state.l1_heads, state.lanes);
}

void ListDb::FreeStrayChunks() {
  catalog_.FreeStrays(l1_.persister());
  const PmPtr heads = catalog_.Get().l1_heads;
  FreeStrayHeads(pool_, kListDbHeads, {&heads, 1}, l1_.persister());
}

Status ListDb::MendVoids() {
  std::vector<SequenceGap> gaps = catalog_.Get().gaps;
  if (!MendLog(&gaps, &compaction_persister_)) return Status::OK();
  return catalog_.Edit(ListDbEdit::kGap, [&](ListDbState* state) { state->gaps = gaps; });
}

Status ListDb::LoadStore() {
  ListDbState state = catalog_.Get();
  l1_.Open({.heads = pool_->At<SkipListHeads>(state.l1_heads),
            .braided = state.lanes > 1,
            .count = state.l1_count,
            .live_bytes = state.live_bytes,
            .merged_sequence = state.merged_sequence});
  flushed_through_.store(state.flushed_sequence, std::memory_order_relaxed);
  log_in_l1_ = state.merged;
  auto tables = std::make_shared<ListDbTables>();
  Status s = OpenPmTables(pool_, state.l0, state.lanes, &tables->l0);
  if (!s.ok()) return s;
  return LoadLog({.unified = unified_,
                  .boundary = std::move(state.boundary),
                  .flushed_sequence = state.flushed_sequence,
                  .gaps = std::move(state.gaps)},
                 std::move(tables));
}

// After a power cut on page media links and records may be of different moments.
bool ListDb::MustRebuild() const { return pool_->LostUnsynced() || catalog_.Get().rebuilding; }

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
    s = catalog_.Mend();
  }
  if (!s.ok()) return s;
  const ListDbState found = catalog_.Get();
  if (rebuild) {
    RepairReport report;
    s = RebuildAll(false, &report);
    if (!s.ok()) return s;
  }
  FreeStrayChunks();
  MakeArenas();
  if (!create) space_.Prepare(crashed, found.uncounted && !rebuild);  // rebuilding counts
  if (create || rebuild) s = LoadStore();
  if (s.ok()) s = MendVoids();
  if (s.ok() && !rebuild && found.merging != 0) s = MergeOldest();
  if (s.ok() && crashed)
    s = MarkOrphans(pool_, {kListDbArena, kFlushArena, kGcArena}, found.flushed_sequence, &l1_,
                    &dead_);
  {
    const MutexLock lock(&jobs_.mu);
    caches_are_cold_ = !create;
  }
  if (create) l1_.BeginEmpty();
  return s;
}

}  // namespace lamella
