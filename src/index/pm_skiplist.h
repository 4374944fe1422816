// PmSkipList is a skiplist whose nodes are the records themselves, where they lie in the pool.
// Plain: one list. Braided (dissertation 6.4): layer 0 spans all pool parts; the layers above link
// only records of one part (a lane), so that a search stays on one NUMA node, its reader's, until
// its last steps.
// I1: layer 0 is sorted by internal key and holds every element. Upper layers are shortcuts: each
//     is a sorted part of layer 0.
// I2: links change by single 8-byte release stores; an element's own links are set before a link to
//     it.
// I3: what was unlinked stays readable, and leads back into the list, until its chunk is freed. Its
//     links are those of the moment in which it was unlinked: they pass by what is linked after
//     that. A search starts from the head, or from an element that was still linked when the search
//     began.
// I4: a lane may have few elements, or none (who wrote was elsewhere). A search that walks far
//     along layer 0 goes up again where it comes by elements of upper layers, of whatever lane.
// Threads: one writer; readers at any time, pinned against reuse of chunks.
#ifndef LAMELLA_INDEX_PM_SKIPLIST_H_
#define LAMELLA_INDEX_PM_SKIPLIST_H_

#include <cstdint>

#include "iterator/internal_iterator.h"
#include "log/record.h"
#include "pool/pool.h"

namespace lamella {

/// The first links of a list, per lane and layer. Layer 0 is lane 0's for all. Media type where a
/// list is persistent in place.
struct SkipListHeads {
  PmWord next[kPoolPartsMax][kHeightMax];
};
static_assert(sizeof(SkipListHeads) == 1536);
/// Makes them those of an empty list. Durable on return.
void ClearHeads(SkipListHeads* heads, Persister* persister);

/// Hops along links, to records of the reader's pool part and of others.
struct HopTally {
  uint64_t local = 0;
  uint64_t remote = 0;
};

/// A version that a search found; null where there is none, damaged where damage stopped it.
struct PlacedVersion {
  PmPtr place;
  RecordKind kind = RecordKind::kPut;
};

class PmSkipList {
 public:
  PmSkipList(const Pool* pool, SkipListHeads* heads, bool braided)
      : pool_(pool), heads_(heads), braided_(braided) {}

  const Pool* pool() const { return pool_; }
  SkipListHeads* heads() const { return heads_; }
  uint32_t lane_count() const { return braided_ ? pool_->part_count() : 1; }
  uint32_t Lane(PmPtr place) const { return braided_ ? place.part() : 0; }
  /// The lane on the NUMA node that the caller runs on.
  uint32_t NearestLane() const { return lane_count() == 1 ? 0 : pool_->NearestPart(); }
  Record* At(PmPtr place) const { return pool_->At<Record>(place); }

  /// The word that links to the successor of `element` (null: the head) in a layer of a lane.
  PmWord* Link(PmPtr element, uint32_t lane, uint32_t layer) const {
    if (element) return At(element)->link(layer);
    return layer == 0 ? &heads_->next[0][0] : &heads_->next[lane][layer];
  }
  /// The successor in a layer; null at the end. A damaged link of layer 0 is told (PmPtr::damaged),
  /// in a layer above it only ends a shortcut (I1).
  PmPtr Next(PmPtr element, uint32_t lane, uint32_t layer) const {
    PmPtr next;
    const uint64_t word =
        Link(element, lane, layer)
            ->load(std::memory_order_acquire);  // pairs with the writer's release (I2)
    if (DecodeLink(word, &next) && (!next || pool_->Contains(next, sizeof(RecordHeader))))
        [[likely]]
      return next;
    return layer == 0 ? PmPtr::DamagedAt(element) : PmPtr();
  }
  PmPtr First() const { return Next(PmPtr(), 0, 0); }

  /// The first element at or after `target`; null at the end. `start`: an element before it that
  /// was linked in all its layers when the search began (I3), or null to start at the head, in the
  /// nearest lane. With
  /// `verify` the checksum of every record that the search looks at; what it answers for damage is
  /// PmPtr::damaged.
  PmPtr FindAtOrAfter(const InternalKey& target, PmPtr start, HopTally* tally,
                      bool verify = false) const;
  /// The last element before `target`; null where there is none. With `lowest`: the last one that
  /// the search for it came by in that layer or above, or `start`; so one that is not far from it.
  PmPtr FindBefore(const InternalKey& target, PmPtr start, HopTally* tally, bool verify = false,
                   uint32_t lowest = 0) const;
  /// The last element; null in an empty list.
  PmPtr FindLast() const;
  /// True if the element is before the target.
  bool IsBefore(PmPtr element, const InternalKey& target) const {
    pool_->gate()->OnRead(kMediaBlockBytes);
    return CompareInternal(At(element)->internal_key(), target) < 0;
  }

 private:
  // Hops along layer 0 until I4: where each lane has its share it takes fewer.
  static constexpr uint32_t kWalkPerLane = 8;
  enum class Passed : uint8_t { kYes, kNo, kDamaged };
  template <class Passes>
  PmPtr Descend(PmPtr start, uint32_t lowest, const Passes& passes) const;

  const Pool* const pool_;
  SkipListHeads* const heads_;
  const bool braided_;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_PM_SKIPLIST_H_
