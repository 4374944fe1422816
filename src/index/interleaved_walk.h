// WalkInterleaved visits a list's elements with many links under way at once. Along one link after
// the other each element costs a cache miss; the list's upper layers divide it into pieces that can
// be walked side by side.
// I1: an element counts as whole if it is linked in its highest layer, and so in every one that it
//     reaches up to (Zipper I5). Of a step that a crash cut short elements stay that are not.
// Threads: one, while nobody changes the list.
#ifndef LAMELLA_INDEX_INTERLEAVED_WALK_H_
#define LAMELLA_INDEX_INTERLEAVED_WALK_H_

#include <cstdint>

#include "index/pm_skiplist.h"

namespace lamella {

class WalkVisitor {
 public:
  virtual ~WalkVisitor() = default;
  /// An element, whole (I1) or not. False ends the walk.
  virtual bool OnElement(PmPtr place, bool whole) = 0;
  /// In layer 0 `place` follows `before` (null: it is the first).
  virtual void OnNeighbours(PmPtr /*before*/, PmPtr /*place*/) {}
  /// A link that leads nowhere: what lies after it in the layer may not be told of.
  virtual void OnDamage() {}
};

/// Tells the visitor of each element that is linked in layer `lowest` of the lane (layer 0 is that
/// of all lanes), once and in no order; where `lowest` is 0, also of each element's predecessor. A
/// damaged link ends the piece that it was met in.
void WalkInterleaved(const PmSkipList& list, uint32_t lane, uint32_t lowest, WalkVisitor* visitor);

}  // namespace lamella

#endif  // LAMELLA_INDEX_INTERLEAVED_WALK_H_
