// Zipper compaction (dissertation 5.1.2 and 6.5, Algorithm 6): merges an upper skiplist's elements
// into a lower one in place. A scan finds each element's place; a backward merge, from the tail,
// links them in.
//
// Both phases are taken in windows of neighbouring elements, the last window first, so that what
// the scan fetched is still in the processor's cache when the merge links it. The searches of a
// scan do not depend on each other: many are under way at once, each waiting for the line that it
// asked for while the others go on.
//
// I1: at every moment every element of the upper list can be reached along the upper list, which
//     runs on into the lower one: an element is linked into the lower list before the one ahead of
//     it is. Readers miss nothing and wait for nothing.
// I2: after a crash the elements merged are a tail of the upper list; a redo stops at the first
//     element that the lower list holds already.
// I3: an older version that no snapshot needs is unlinked where the newer one is linked in, and
//     marked obsolete; the mark is durable before the merge is reported done. A delete stays
//     linked, whoever owns the list drops it when nothing can lie after it.
// I4: an element is linked in an upper layer only while layer 0 holds it, after any crash too:
//     upper links go, durably, before the layer-0 link does, and come after it.
// I5: an element that is linked in an upper layer is linked in every layer below it, after any
//     crash too: a search that comes down on it is in each layer's list, and finds there the one
//     link that leads to an element. Of a step that a crash cut short an element stays that is
//     missing from its upper layers: a search may come down on it, but not start from it
//     (SecondChanceCache I1).
// I6: with `verify`, nothing changes before each element and its neighbours in each of its layers
//     matched their checksums: a damaged key is reported, and leads no element to a place where
//     it would not be found.
// I7: a window's places may be searched while the windows after it are merged: that changes nothing
//     before them. So a second thread can scan ahead of the merge (ScanAhead).
// Threads: one merge at a time per lower list, and beside it one that scans ahead; readers at any
// time.
#ifndef LAMELLA_INDEX_ZIPPER_H_
#define LAMELLA_INDEX_ZIPPER_H_

#include <condition_variable>
#include <cstdint>
#include <span>
#include <vector>

#include "base/annotations.h"
#include "base/mutex.h"
#include "index/pm_skiplist.h"

namespace lamella {

/// Told of what a merge does, and asked what it may do.
class ZipperObserver {
 public:
  /// A record that a merge took out of the lower list, or (`was_linked` false) left out of it.
  struct Obsolete {
    PmPtr place;
    bool was_linked;
  };
  /// An element of the lower list to start a search from, and how many layers it reaches up to.
  struct Near {
    PmPtr place;  // null: start at the head
    uint32_t height = 0;
  };

  virtual ~ZipperObserver() = default;
  /// True if a live snapshot sees the version `older` although `newer`, the next version of the
  /// key, exists.
  virtual bool Needed(uint64_t older, uint64_t newer) const = 0;
  virtual void OnLinked(Record* record, PmPtr place) = 0;
  /// These records are unlinked, and marked. They may still be read until their chunks are freed.
  /// Told before the next search for a place begins.
  virtual void OnObsolete(std::span<const Obsolete> records) = 0;
  /// The last lower-list element at or before the key that is known, of those of at least
  /// `height_min` layers and, where the list has lanes, in `lane`. With `height_min` 1 any lane
  /// will do.
  virtual Near Nearby(const InternalKey& key, uint32_t height_min, uint32_t lane) const = 0;
};

class Zipper {
 public:
  Zipper(PmSkipList* lower, Persister* persister, ZipperObserver* observer, bool verify = false)
      : lower_(lower), persister_(persister), observer_(observer), verify_(verify) {}

  /// Merges the upper list's elements, given in its order. Durable on return. Corruption: the lower
  /// list has a damaged link, or (with `verify`) a record is damaged; a tail of the elements may be
  /// merged.
  Status Merge(std::span<const PmPtr> elements);
  /// For another thread, while Merge is running or yet to come: scans windows ahead of the merge,
  /// each pinned in `readers` against what the observer lets go of. Returns when none is left, or
  /// the merge has ended.
  void ScanAhead(EpochDomain* readers);

  /// Unlinks `element`, whose predecessor in layer 0 is `before` (null: head), from every layer.
  /// Flushed, not fenced. False, and nothing is changed, where its link is damaged, or one that
  /// leads there in an upper layer.
  bool Unlink(PmPtr before, PmPtr element);

  /// A record, and what is linked in layer 0 where it belongs.
  struct Place {
    PmPtr element;
    PmPtr before;  // the last that is before it; null: none
    // what follows that: itself where it is linked. Damaged where a link on the way is
    PmPtr next;
  };
  /// Finds the places, many at once. Nothing may change in the lower list meanwhile.
  void FindPlaces(std::span<Place> places) const;

  /// An element and its copy, of the same height.
  struct Move {
    PmPtr from;
    PmPtr to;
  };
  /// Puts the copies in the places of their originals. REQUIRES: the copies are durable; `moves`
  /// are in the list's order. Layer 0 is durable on return, so that the originals may be marked;
  /// upper links are flushed. Corruption: a link or a key on the way is damaged; nothing is
  /// changed.
  Status Replace(std::span<const Move> moves);

 private:
  /// An element, and where it belongs in the lower list.
  struct Step {
    PmPtr element;
    uint32_t lane = 0;
    uint16_t layers = 1;  // of which the predecessor is wanted
    uint16_t known = 0;   // of which `befores` holds it: those, or more
    PmPtr next;           // what follows its place in layer 0; damaged where a link on the way is
    PmPtr befores[kHeightMax];
  };
  /// Neighbouring elements [begin, end) of the merge.
  struct Window {
    size_t begin = 0;
    size_t end = 0;
    enum State : uint8_t { kUnscanned, kScanning, kScanned } state = kUnscanned;
    Status status;               // of the scan
    std::vector<Step> steps;     // what is to be linked
    std::vector<PmPtr> skipped;  // what a newer element made obsolete
  };
  /// A search for a step's place that is under way.
  struct Search {
    Step* step = nullptr;  // null: none
    InternalKey key;
    PmPtr at;
    PmPtr next;    // of `at` in `layer`; on its way into the cache
    PmPtr bound;   // not before the key, as a layer above showed
    PmPtr bottom;  // a place to go on from in layer 0, where it is further than `at`
    uint32_t layer = 0;
    uint32_t hops = 0;    // in this layer
    bool guided = false;  // started from an element, not from the head
  };

  size_t CountUnmerged(std::span<const PmPtr> elements) const;
  size_t WindowBegin(size_t end) const;
  Window* AwaitScanned(size_t index);
  class EndOfWindows;
  void EndWindows();
  Status Scan(Window* window) const;
  void TakeSteps(Window* window) const;
  template <class Found>
  Status FindSteps(std::span<Step> steps, const Found& found) const;
  void Begin(Step* step, Search* search) const;
  void BeginAtHead(Search* search) const;
  bool Advance(Search* search) const;
  Status VerifyNeighbours(const Step& step) const;
  Status DescribeAstray(const Place& found) const;
  Status MergeWindow(Window* window);
  void FetchStep(const Step& step) const;
  Status MergeStep(const Step& step);
  PmPtr DropObsolete(const Step& step, PmPtr older);
  bool UnlinkUpper(PmPtr element, const PmPtr* befores);
  void LinkUpper(PmPtr element, const Step& near);
  void LinkInLayers(PmPtr element, const PmPtr* befores);
  /// Predecessors of `element` in the layers above 0 of its lane. `near` (may be null): a step
  /// whose place is right before it.
  void FindUpper(PmPtr element, const Step* near, PmPtr* befores) const;
  /// The same; Corruption where something else than a crash keeps one of them from leading there.
  Status FindLinks(PmPtr element, const Step* near, PmPtr* befores) const;

  PmSkipList* const lower_;
  Persister* const persister_;
  ZipperObserver* const observer_;
  const bool verify_;
  // of the merge, without those that a crash left merged
  std::span<const PmPtr> elements_;
  std::vector<PmPtr>* skipped_ = nullptr;           // of the window being merged
  std::vector<ZipperObserver::Obsolete> obsolete_;  // of it; not told yet

  Mutex mu_;
  // the last first; their contents are the scanner's, then the merge's
  std::vector<Window> windows_ LAMELLA_GUARDED_BY(mu_);
  size_t merging_ LAMELLA_GUARDED_BY(mu_) = 0;  // index of the window being merged
  bool cut_ LAMELLA_GUARDED_BY(mu_) = false;    // windows_ is complete
  bool scanning_ahead_ LAMELLA_GUARDED_BY(mu_) = false;
  bool ended_ LAMELLA_GUARDED_BY(mu_) = false;
  std::condition_variable_any changed_;  // with mu_
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_ZIPPER_H_
