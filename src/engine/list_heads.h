// The heads of levels' lists, each at the start of a chunk that the catalog names.
// Threads: one, at open.
#ifndef LAMELLA_ENGINE_LIST_HEADS_H_
#define LAMELLA_ENGINE_LIST_HEADS_H_

#include <cstdint>
#include <span>

#include "index/pm_skiplist.h"
#include "lamella/status.h"
#include "pool/pool.h"

namespace lamella {

/// The heads of an empty list, in a chunk of this kind that no state names yet. Durable on return.
/// A store with several lists says whose they are: `list`, any number but 0, is kept beside them.
/// NoSpace, IOError.
Status ClaimHeads(Pool* pool, ChunkKind kind, Persister* persister, PmPtr* heads,
                  uint64_t list = 0);
/// Corruption where what a catalog names cannot be the heads of a list of so many lanes.
Status CheckHeads(const Pool& pool, PmPtr heads, uint32_t lanes);
/// Corruption where they are not the heads that were claimed for that list: another's lead through
/// sound records, too. REQUIRES: CheckHeads said OK.
Status CheckHeadsOf(const Pool& pool, PmPtr heads, uint64_t list);
/// Frees those of this kind that a crash left without an owner: all but `heads`.
void FreeStrayHeads(Pool* pool, ChunkKind kind, std::span<const PmPtr> heads, Persister* persister);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIST_HEADS_H_
