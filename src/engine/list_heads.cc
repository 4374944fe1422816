#include "engine/list_heads.h"

#include <algorithm>
#include <vector>

#include "base/concat.h"

namespace lamella {

namespace {

// Right after the heads.
PmWord* ListOf(const Pool& pool, PmPtr heads) {
  return reinterpret_cast<PmWord*>(pool.At<SkipListHeads>(heads) + 1);
}

}  // namespace

Status ClaimHeads(Pool* pool, ChunkKind kind, Persister* persister, PmPtr* heads, uint64_t list) {
  ChunkRef chunk;
  Status s = pool->Claim(0, kind, 0, 1, 1, Claimant::kIndex, persister, &chunk);
  if (!s.ok()) return s;
  *heads = pool->ChunkStart(chunk);
  if (list != 0) {
    persister->Store(ListOf(*pool, *heads), list);
    persister->Flush(ListOf(*pool, *heads), sizeof(PmWord));
  }
  // its fence is that of both
  ClearHeads(pool->At<SkipListHeads>(*heads), persister);
  return s;
}

Status CheckHeads(const Pool& pool, PmPtr heads, uint32_t lanes) {
  if (heads.part() < pool.part_count() && pool.Contains(heads, sizeof(SkipListHeads)) &&
      lanes <= pool.part_count())
    return Status::OK();
  return Status::Corruption(
      Concat("the catalog names a list's heads at part ", heads.part(), " byte ", heads.offset(),
             ", with ", lanes, " lanes, outside the pool; `lamella repair` rebuilds the index"));
}

Status CheckHeadsOf(const Pool& pool, PmPtr heads, uint64_t list) {
  const uint64_t found = ListOf(pool, heads)->load();
  if (found == list) return Status::OK();
  return Status::Corruption(Concat("part ", heads.part(), " byte ", heads.offset(),
                                   ": the heads of list ", list, " were expected, and those of ",
                                   found, " found; `lamella repair` rebuilds the index"));
}

void FreeStrayHeads(Pool* pool, ChunkKind kind, std::span<const PmPtr> heads,
                    Persister* persister) {
  std::vector<ChunkRef> stray;
  pool->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == kind && std::ranges::find(heads, pool->ChunkStart(chunk)) == heads.end())
      stray.push_back(chunk);
  });
  for (const ChunkRef& chunk : stray) pool->Free(chunk, persister);
}

}  // namespace lamella
