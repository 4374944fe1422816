// Orphans: copies that a crash left without a link.
#ifndef LAMELLA_ENGINE_ORPHANS_H_
#define LAMELLA_ENGINE_ORPHANS_H_

#include <cstdint>

#include "engine/pm_level.h"

namespace lamella {

/// Whose the chunks of copies are.
struct ArenaOwners {
  ChunkKind kind;
  uint32_t flush = 0;
  uint32_t gc = 0;
};

/// Marks what gc copied in its last pass and did not link, and what a plain log's flush copied and
/// did not checkpoint: numbers after `flushed_sequence`. No list leads to them, so nobody would
/// mark them when a newer version comes, and once that was a delete and is dropped, a rebuilding
/// would bring them back. Not fenced: gc fences and syncs before it frees any delete's chunk.
/// Originals that were about to leave for a copy stay: a rebuilding finds them again.
/// Chunks that hold nothing but a flush's copies are freed at once: their originals will be copied
/// again, and a full pool has no room for both. What a sync reported.
/// Threads: the one that recovers.
Status MarkOrphans(Pool* pool, const ArenaOwners& owners, uint64_t flushed_sequence, PmLevel* level,
                   DeadBytes* dead);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ORPHANS_H_
