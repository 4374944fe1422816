#include "engine/list_heads.h"

#include <algorithm>
#include <vector>

#include "base/concat.h"

namespace lamella {

Status ClaimHeads(Pool* pool, ChunkKind kind, Persister* persister, PmPtr* heads) {
  ChunkRef chunk;
  Status s = pool->Claim(0, kind, 0, 1, 1, Claimant::kIndex, persister, &chunk);
  if (!s.ok()) return s;
  *heads = pool->ChunkStart(chunk);
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
