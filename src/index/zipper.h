// Zipper compaction (dissertation 5.1.2 and 6.5, Algorithm 6): merges an upper skiplist's elements into a lower one in place.
// A forward scan finds each element's place and pushes it on a stack; a backward merge, from the tail, links them in.
//
// I1: at every moment every element of the upper list can be reached along the upper list, which runs on into the lower one:
//     an element is linked into the lower list before the one ahead of it is. Readers miss nothing and wait for nothing.
// I2: after a crash the elements merged are a tail of the upper list; a redo stops at the first element that the lower list
//     holds already.
// I3: an older version that no snapshot needs is unlinked where the newer one is linked in, and marked obsolete; the
//     mark is durable before the merge is reported done. A delete stays linked, whoever owns the list drops it when nothing can lie
//     behind it.
// I4: an element is linked in an upper layer only while layer 0 holds it, after any crash too: upper links go, durably, before
//     the layer-0 link does, and come after it.
// I5: an element that is linked in an upper layer is linked in every layer below it, after any crash too: a search that comes down on
//     it is in each layer's list, and finds there the one link that leads to an element. Of a step that a crash cut short an element
//     stays that is missing from its upper layers: a search may come down on it, but not start from it (SecondChanceCache I1).
// I6: with `verify`, nothing changes before each element and its neighbours in layer 0 matched their checksums: a damaged key is
//     reported, and leads no element to a place where it would not be found.
// Threads: one merge at a time per lower list; readers at any time.
#ifndef LAMELLA_INDEX_ZIPPER_H_
#define LAMELLA_INDEX_ZIPPER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "index/pm_skiplist.h"

namespace lamella {

/// Told of what a merge does, and asked what it may do.
class ZipperObserver {
 public:
  virtual ~ZipperObserver() = default;
  /// True if a live snapshot sees the version `older` although `newer`, the next version of the key, exists.
  virtual bool Needed(uint64_t older, uint64_t newer) const = 0;
  virtual void OnLinked(Record* record, PmPtr place) = 0;
  /// The record was unlinked (or, `was_linked` false, is left out) and marked. It may still be read until its chunk is freed.
  virtual void OnObsolete(Record* record, PmPtr place, bool was_linked) = 0;
  /// A lower-list element at or before the key, to start a search from; null to start at the head.
  virtual PmPtr Nearby(const InternalKey& key) const = 0;
};

class Zipper {
 public:
  Zipper(PmSkipList* lower, Persister* persister, ZipperObserver* observer, bool verify = false)
      : lower_(lower), persister_(persister), observer_(observer), verify_(verify) {}

  /// Merges the upper list's elements, given in its order. Durable on return. Corruption: the lower list has a damaged link, or
  /// (with `verify`) a record is damaged; a tail of the elements may be merged.
  Status Merge(std::span<const PmPtr> elements);

  /// Unlinks `element`, whose predecessor in layer 0 is `before` (null: head), from every layer. Flushed, not fenced. False, and
  /// nothing is changed, where the element's link is damaged.
  bool Unlink(PmPtr before, PmPtr element);

  /// An element and its copy, of the same height.
  struct Move {
    PmPtr from;
    PmPtr to;
  };
  /// Puts the copies in the places of their originals. REQUIRES: the copies are durable; `moves` are in the list's order.
  /// Flushed, not fenced. Corruption: a link on the way is damaged; nothing is changed.
  Status Replace(std::span<const Move> moves);

 private:
  struct Step {
    PmPtr element;
    uint32_t lane;
    uint32_t befores;  // index into befores_ of this element's predecessors, by layer
  };
  Status Scan(std::span<const PmPtr> elements);
  PmPtr ScanLayers(const Record* element, uint32_t lane, PmPtr nearby);
  Status VerifyNeighbours(PmPtr before, PmPtr next) const;
  Status MergeStep(const Step& step);
  PmPtr DropObsolete(const Record* newer, PmPtr older);
  bool UnlinkUpper(PmPtr element);
  void LinkUpper(PmPtr element);
  void LinkInLayers(PmPtr element, const PmPtr* befores);
  /// Predecessors of `element` in the layers above 0 of its lane.
  void FindUpper(PmPtr element, PmPtr* befores) const;

  PmSkipList* const lower_;
  Persister* const persister_;
  ZipperObserver* const observer_;
  const bool verify_;
  PmPtr rightmost_[kPoolPartsMax][kHeightMax];  // the last element before the scan's place, by lane and layer
  PmPtr bottom_;                                // the same in layer 0
  std::vector<Step> steps_;
  std::vector<PmPtr> befores_;
  std::vector<PmPtr> dropped_;  // older versions that the present step takes out
  std::vector<PmPtr> skipped_;  // elements that a newer one of the same merge made obsolete
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_ZIPPER_H_
