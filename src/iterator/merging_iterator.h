// Merges several InternalIterators into one in internal-key order. Records that two children both
// show (the same internal key: a table seen while it is merged into the next) come once.
#ifndef LAMELLA_ITERATOR_MERGING_ITERATOR_H_
#define LAMELLA_ITERATOR_MERGING_ITERATOR_H_

#include <memory>
#include <vector>

#include "iterator/internal_iterator.h"

namespace lamella {

/// Where children show the same internal key, the one earlier in `children` is shown. One child is
/// returned as it is.
std::unique_ptr<InternalIterator> NewMergingIterator(
    std::vector<std::unique_ptr<InternalIterator>> children);

}  // namespace lamella

#endif  // LAMELLA_ITERATOR_MERGING_ITERATOR_H_
