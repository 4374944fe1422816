#include "engine/orphans.h"

#include <algorithm>
#include <vector>

#include "engine/victims.h"
#include "log/pm_log.h"

namespace lamella {

namespace {

enum class Orphans : uint8_t { kNone, kSome, kAll };

// Of gc's last pass, and maybe others. Where a copy is not linked its original is, and may be
// marked as leaving: a rebuilding goes by the copy until that is taken back; so it is, durably,
// before any copy is marked.
Status MarkCopies(Pool* pool, const std::vector<ChunkRef>& chunks, PmLevel* level,
                  DeadBytes* dead) {
  std::vector<PmPtr> unlinked;
  bool cleared = false;
  const auto look = [&](const Record* copy, PmPtr place) {
    PmPtr before;
    if (copy->obsolete() || level->FindLinked(place, &before) != PmLevel::Linked::kNotLinked)
      return;
    unlinked.push_back(place);
    const PmPtr next = level->list()->Next(before, 0, 0);
    if (!next) return;
    Record* const original = pool->At<Record>(next);
    if (!original->hidden() || CompareInternal(original->internal_key(), copy->internal_key()) != 0)
      return;
    original->ClearMark(level->persister());
    cleared = true;
  };
  for (const ChunkRef& chunk : chunks) ForEachRecord(*pool, chunk, 0, look, [](PmPtr, PmPtr) {});
  if (cleared) {
    level->persister()->Fence();
    const Status s = pool->LosesUnsynced() ? pool->Sync() : Status::OK();
    if (!s.ok()) return s;
  }
  for (const PmPtr place : unlinked) {
    pool->At<Record>(place)->MarkObsolete(level->persister());
    dead->Count(place);
  }
  return Status::OK();
}

template <class IsOrphan>
Orphans MarkIn(Pool* pool, const ChunkRef& chunk, Persister* persister, DeadBytes* dead,
               const IsOrphan& is_orphan) {
  uint64_t records = 0;
  uint64_t orphans = 0;
  uint64_t marked = 0;
  bool damaged = false;
  ForEachRecord(
      *pool, chunk, 0,
      [&](const Record* record, PmPtr place) {
        records++;
        if (!is_orphan(record, place)) return;
        orphans++;
        if (record->obsolete()) return;  // marked before another crash
        pool->At<Record>(place)->MarkObsolete(persister);
        dead->Count(place);
        marked++;
      },
      [&](PmPtr, PmPtr) { damaged = true; });
  if (records != 0 && orphans == records && !damaged) return Orphans::kAll;
  return records == 0 || marked > 0 ? Orphans::kSome : Orphans::kNone;
}

}  // namespace

Status MarkOrphans(Pool* pool, const ArenaOwners& owners, uint64_t flushed_sequence, PmLevel* level,
                   DeadBytes* dead) {
  std::vector<ChunkRef> arenas;
  uint64_t largest = pool->chunk_bytes();
  pool->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != owners.kind) return;
    arenas.push_back(chunk);
    largest = std::max(largest, uint64_t{chunk.run_chunks} * pool->chunk_bytes());
  });
  std::sort(arenas.begin(), arenas.end(),
            [](const ChunkRef& a, const ChunkRef& b) { return a.ordinal > b.ordinal; });
  std::vector<ChunkRef> copies;
  for (uint32_t part = 0; part < pool->part_count(); part++) {
    uint64_t looked = 0;
    bool flushes_over = false;
    for (const ChunkRef& chunk : arenas) {  // newest first
      if (chunk.part != part) continue;
      if (chunk.owner == owners.gc && looked < kCopyBytesMax + 2 * largest) {
        looked += uint64_t{chunk.run_chunks} * pool->chunk_bytes();
        copies.push_back(chunk);
      } else if (chunk.owner == owners.flush && !flushes_over) {
        const Orphans orphans = MarkIn(
            pool, chunk, level->persister(), dead,
            [&](const Record* record, PmPtr) { return record->sequence() > flushed_sequence; });
        flushes_over = orphans == Orphans::kNone;
        if (orphans == Orphans::kAll) pool->Free(chunk, level->persister());
      }
    }
  }
  return MarkCopies(pool, copies, level, dead);
}

}  // namespace lamella
