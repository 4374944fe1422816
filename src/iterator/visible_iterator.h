// Collapses versions to one point in time: of each user key the newest record at or below a
// sequence number, left out where that is a delete; within the bounds of ReadOptions.
#ifndef LAMELLA_ITERATOR_VISIBLE_ITERATOR_H_
#define LAMELLA_ITERATOR_VISIBLE_ITERATOR_H_

#include <functional>
#include <memory>

#include "iterator/internal_iterator.h"
#include "lamella/iterator.h"
#include "lamella/options.h"

namespace lamella {

/// `verify` has each returned record's checksum verified. `on_destroy` (may be null) runs after
/// `source` is destroyed: it lets go of the pins and the snapshot that the iterator stands on.
std::unique_ptr<Iterator> NewVisibleIterator(std::unique_ptr<InternalIterator> source,
                                             uint64_t sequence, const ReadOptions& options,
                                             bool verify, std::function<void()> on_destroy);

}  // namespace lamella

#endif  // LAMELLA_ITERATOR_VISIBLE_ITERATOR_H_
