// SkipArrayIterator walks a SkipArrayTree: all its floors at once, in internal-key order. Where it
// stands is a number for each floor, of the entries before it there; so it turns around wherever it
// is, and only seeking searches, by one cascade.
// Threads: one at a time; pinned against reuse of the floors' chunks.
#ifndef LAMELLA_INDEX_SKIP_ARRAY_ITERATOR_H_
#define LAMELLA_INDEX_SKIP_ARRAY_ITERATOR_H_

#include <memory>

#include "index/skip_array_tree.h"
#include "iterator/internal_iterator.h"

namespace lamella {

/// With `verify` it checks each record before it looks at its key. Damage ends the walk; status()
/// tells it. The iterator keeps the tree, not its chunks.
std::unique_ptr<InternalIterator> NewSkipArrayIterator(std::shared_ptr<const SkipArrayTree> tree,
                                                       bool verify);

}  // namespace lamella

#endif  // LAMELLA_INDEX_SKIP_ARRAY_ITERATOR_H_
