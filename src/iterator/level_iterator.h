// Walks tables that are disjoint and in key order, one after the other: only the one it stands in
// is open.
#ifndef LAMELLA_ITERATOR_LEVEL_ITERATOR_H_
#define LAMELLA_ITERATOR_LEVEL_ITERATOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "iterator/internal_iterator.h"

namespace lamella {

/// Of `count` tables. `largest`: of table i its largest user key, all versions of which are in it.
/// The views, and what `open` makes an iterator of table i from, outlive the iterator.
std::unique_ptr<InternalIterator> NewLevelIterator(
    size_t count, std::function<std::string_view(size_t)> largest,
    std::function<std::unique_ptr<InternalIterator>(size_t)> open);

}  // namespace lamella

#endif  // LAMELLA_ITERATOR_LEVEL_ITERATOR_H_
