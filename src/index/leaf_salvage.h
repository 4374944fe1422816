// SalvageLeaves reads what is left of a LeafTree that does not open: for a repair. A bit that
// flipped in a link or an order word is mended (L4 of leaf.h), so it costs no entry; one in a cell
// costs that entry.
// Threads: any; nobody changes the tree.
#ifndef LAMELLA_INDEX_LEAF_SALVAGE_H_
#define LAMELLA_INDEX_LEAF_SALVAGE_H_

#include <cstdint>
#include <functional>

#include "index/leaf.h"

namespace lamella {

struct LeafSalvage {
  uint64_t entries = 0;     // visited
  uint64_t lost = 0;        // at most so many others were in the leaves that were found
  bool to_the_end = false;  // else nothing is known of what is after the last one visited
};

/// Visits the entries that are left of the tree whose head that is, in their order. What `visit`
/// gets stays for as long as the pool does. Throws std::bad_alloc.
LeafSalvage SalvageLeaves(const Pool& pool, const PmWord& head,
                          const std::function<void(const LeafCell& cell)>& visit);

/// Visits all cells that validate in the chunks of this kind, in no order: where no tree leads
/// anywhere. What was taken out of trees is among them.
void ForEachCell(const Pool& pool, ChunkKind kind,
                 const std::function<void(const LeafCell& cell)>& visit);

}  // namespace lamella

#endif  // LAMELLA_INDEX_LEAF_SALVAGE_H_
