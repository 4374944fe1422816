// SkipListIterator walks a PmSkipList while it changes: elements are linked in, unlinked, and
// replaced by copies, under whoever stands on them.
//
// I1: a walk misses nothing that was linked when its last search began, and still is. Let a search
//     begin at a time t: at the head, or at an element that was linked at t or later. Each element
//     that it comes to was linked at t or later: the links of what is linked lead to what is linked
//     (an upper layer's to what is in layer 0: Zipper I4), and those of what is not are of the
//     moment in which it was unlinked (PmSkipList I3), which is not before t. So for each hop of
//     layer 0 there was a moment from t on in which its two ends were neighbours, and it passes by
//     nothing that was linked at t and stayed. What moves is replaced by its copy in one moment,
//     and stays so. Steps forward go on from where the search ended, and steps backward take what a
//     search of their own found: both inherit the argument.
// I2: what is linked after t may be passed by, for ever: unlinked elements are never told of it.
//     Whoever needs it has it from the table that it comes from, until that says that it is
//     superseded; then this is sought again, and t is new (MergingIterator M3).
// I3: so nothing that a search starts from is kept from one search to the next: the guide is asked
//     at each for its current tree (SecondChanceCache I2). An earlier tree would name what was
//     unlinked before t.
// Threads: one at a time, beside the one that changes the list; pinned against reuse of chunks from
// before the first search on.
#ifndef LAMELLA_INDEX_SKIPLIST_ITERATOR_H_
#define LAMELLA_INDEX_SKIPLIST_ITERATOR_H_

#include <atomic>
#include <memory>

#include "index/pm_skiplist.h"
#include "index/second_chance_cache.h"
#include "iterator/internal_iterator.h"

namespace lamella {

/// `guide` (may be null, and outlives the iterator) holds some of the list's elements: searches
/// start from them, and what lies ahead is fetched early by their addresses.
/// With `verify` it checks each record before it looks at its key. Damage ends the walk; status()
/// tells it.
/// `merged` (may be null) outlives the iterator: set, once all that the list had is in the list of
/// the iterator after this.
std::unique_ptr<InternalIterator> NewSkipListIterator(const PmSkipList* list,
                                                      const SecondChanceCache* guide, bool verify,
                                                      const std::atomic<bool>* merged = nullptr);

}  // namespace lamella

#endif  // LAMELLA_INDEX_SKIPLIST_ITERATOR_H_
