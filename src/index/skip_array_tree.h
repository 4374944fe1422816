// SkipArrayTree is the structure of Zhang and Du, "NVLSM: A Persistent Memory Key-Value Store Using
// Log-Structured Merge Tree with Accumulative Compaction" (2021): floors of sorted records over the
// same range of keys, the newest on top, each linked to those below, so that one binary search, in
// the floor where a search begins, leads to a few entries of each floor further down. A tree is a
// value: a floor more makes another tree, which shares the floors of the first.
// S1: of the versions of a key those of an upper floor are newer than those of a lower one. Whoever
//     adds floors keeps it.
// S2: a floor is number n of every tree that it is in, over the same floors: so its links (Floor
//     I3) hold in all of them.
// Without links it is what PebblesDB calls a guard (Raju et al., "PebblesDB: Building Key-Value
// Stores using Fragmented Log-Structured Merge Trees", 2017): every floor is searched by itself.
// Threads: any.
#ifndef LAMELLA_INDEX_SKIP_ARRAY_TREE_H_
#define LAMELLA_INDEX_SKIP_ARRAY_TREE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "index/floor.h"
#include "index/pm_skiplist.h"
#include "iterator/internal_iterator.h"

namespace lamella {

class SkipArrayTree {
 public:
  using FloorPtr = std::shared_ptr<const Floor>;

  /// `floors`: the bottom one first, one at least, kFloorsMax at most.
  SkipArrayTree(const Pool* pool, std::vector<FloorPtr> floors, bool linked)
      : pool_(pool), floors_(std::move(floors)), linked_(linked) {}

  const Pool* pool() const { return pool_; }
  bool linked() const { return linked_; }
  uint32_t floor_count() const { return static_cast<uint32_t>(floors_.size()); }
  const FloorPtr& floor(size_t i) const { return floors_[i]; }
  const std::vector<FloorPtr>& floors() const { return floors_; }

  /// Corruption: a floor does not validate. To be asked before anything below is; quick but for the
  /// first time.
  Status Ready() const {
    return ready_.load(std::memory_order_acquire) ? Status::OK() : VerifyFloors();
  }

  /// The newest version at or before the target of its user key, whose Hash64 is `hash`. With
  /// `verify` the checksum of every record that the search looks at. REQUIRES: Ready() was OK.
  PlacedVersion Find(const InternalKey& target, uint64_t hash, bool verify) const;
  /// positions[i]: the first entry of floor i at or after the target; its count where there is
  /// none. Null, or the damaged record that ended the search. REQUIRES: as Find.
  PmPtr Seek(const InternalKey& target, bool verify, uint32_t* positions) const;

  /// Looks for damage: floors, their records, order, links by their definition, filters. `report`
  /// is told of each problem. Returns how many records there are.
  uint64_t Check(const std::function<void(std::string)>& report) const;

 private:
  Status VerifyFloors() const;
  template <class Visit>
  PmPtr Cascade(const InternalKey& target, uint32_t from, bool verify, Visit&& visit) const;
  void CheckFloor(uint32_t number, const std::function<void(std::string)>& report) const;

  const Pool* const pool_;
  const std::vector<FloorPtr> floors_;
  const bool linked_;
  mutable std::atomic<bool> ready_{false};
};

/// Links for the entries of a floor that is to lie on top of `tree`, asked in internal-key order.
/// It walks a floor no further than up to the asked key, and steps to the next one down where that
/// ends (the paper's "Adding a new floor").
class FloorLinker {
 public:
  /// `tree` may be null: nothing is below. REQUIRES: it is Ready.
  explicit FloorLinker(const SkipArrayTree* tree);
  FloorLink LinkOf(const InternalKey& key);

 private:
  const SkipArrayTree* const tree_;
  FloorLink at_;  // the last answer: no later one is before it
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_SKIP_ARRAY_TREE_H_
