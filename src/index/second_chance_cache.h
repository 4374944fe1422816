// SecondChanceCache is an ordered DRAM index over the tall elements of L1 (dissertation 6.6): a
// search that misses the lookup cache starts at the closest element before its key, a few hops from
// the end. The paper's is a skiplist; a wide tree over key heads answers in fewer cache misses. Its
// replacement is the paper's SIZE policy: short elements go first, half of all that it holds at a
// time. With memory enough for all heights it holds every element, and a search is one step.
// I1: it holds only elements that are linked in L1, in every layer that they reach up to: an
//     element leaves before it may be reused, and a search that starts at one goes along links that
//     are kept up. A crash may leave an element out of its upper layers (Zipper I5); its own links
//     there then stay as they are when what they lead to is unlinked.
// I2: whoever unlinks an element, or puts a copy in its place, tells the cache before anything new
//     is linked between it and what its links lead to. Until it is told, the element passes by
//     nothing: a search may start from whatever is named by the tree that is the cache's when the
//     search begins. An earlier tree is told of nothing more, and must not be asked again.
// I3: a tree that says so (Tree::complete) holds every element of L1, as long as it is the cache's:
//     from the moment at which the one that changes L1 has told of it, and before any read is sent
//     to L1 alone for it.
// I4: a complete tree has a filter, which holds the head of each entry before the tree has the
//     entry: what it does not hold the tree does not have.
// I5: the tree holds only what Keeps says, which goes by how often it has been halved: the two
//     change together or not at all, for of other elements the cache is told nothing.
// Threads: Insert, Remove, Warm, Clear, Shrink from the one thread that changes L1; reads from any,
// FindAtOrBefore pinned in `readers`.
#ifndef LAMELLA_INDEX_SECOND_CHANCE_CACHE_H_
#define LAMELLA_INDEX_SECOND_CHANCE_CACHE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/annotations.h"
#include "base/mutex.h"
#include "base/random.h"
#include "index/head_filter.h"
#include "index/interleaved_walk.h"
#include "index/pm_skiplist.h"
#include "memtable/head_tree.h"

namespace lamella {

class SecondChanceCache {
 public:
  /// Holds at most `bytes_max`, and what is fair of it while `memory` (may be null) must shrink.
  SecondChanceCache(Pool* pool, uint64_t bytes_max, MemoryAccount* memory = nullptr);

  bool enabled() const { return enabled_; }
  /// Holds at most so many from here on; what is more goes with the next Insert or Shrink. Any
  /// thread. REQUIRES: enabled().
  void SetBytesMax(uint64_t bytes) { bytes_max_.store(bytes, std::memory_order_relaxed); }
  /// All elements of so many layers are kept at present, while there is memory; of those of one
  /// layer less there may be some.
  uint32_t height_min() const { return HeightMin(halvings_.load(std::memory_order_relaxed)); }
  /// Whether elements like it are kept at present.
  bool Keeps(const Record* record) const {
    return Keeps(halvings_.load(std::memory_order_relaxed), record->height(), record->sequence());
  }
  uint64_t memory_bytes() const {
    const MutexLock lock(&mu_);
    return owned_->memory_bytes() + owned_->filter_bytes();
  }

  enum class Answer : uint8_t { kUnknown, kAbsent, kFound };
  /// Whether L1 has a version of the key at or below the target's, and which is the newest: known
  /// only while the cache holds all of L1 (I3), and then without a look at the pool unless keys are
  /// longer than their heads.
  Answer FindVersion(const InternalKey& target, HeadTree::Entry* found) const;
  /// The last kept element strictly before the target's place, or at it; null where there is none.
  PmPtr FindAtOrBefore(const InternalKey& target) const {
    HeadTree::Entry entry;
    if (!enabled_ || !tree_.load(std::memory_order_acquire)->FindAtOrBefore(target, &entry))
      return PmPtr();
    return entry.place();
  }
  /// The same, of the elements of at least `height_min` layers and, unless `part` is negative, of
  /// that pool part. Its reference is 0 where none of the `near` elements before it is one: one in
  /// four reaches a layer higher, so who needs many more than the usual starts at the list's head.
  static constexpr uint32_t kNear = 4096;
  HeadTree::Entry FindTallAtOrBefore(const InternalKey& target, uint32_t height_min, int part,
                                     uint32_t near = kNear) const;
  /// Makes *tree the current tree and keeps it alive; null while the cache is off. True if it was
  /// another before. For one search, and the fetching ahead after it (I2); cheap where the tree is
  /// the same.
  bool Renew(std::shared_ptr<const HeadTree>* tree) const;

  /// REQUIRES: the element is linked in every layer that it reaches up to. False: there was no
  /// memory for it; what the cache had of the key may name another place still.
  bool Insert(const Record* record, PmPtr place);
  void Remove(const Record* record, PmPtr place);
  /// After a restart: inserts the list's about `elements` elements, as many layers of them as there
  /// is memory for, but for those that a crash left out of one (I1). The walk tells `beside` (may
  /// be null) of each element's predecessor.
  void Warm(const PmSkipList& list, uint64_t elements, WalkVisitor* beside = nullptr);
  /// From here on heads are cut by these (may be null); where the present ones tell too few keys
  /// apart, a tree is made anew. REQUIRES: as Insert, and the elements' records stay.
  void Fit(std::shared_ptr<const KeyPrefixes> prefixes);
  /// L1 has no element yet: from here on the cache holds all of them, while it has room.
  /// Throws std::bad_alloc.
  void BeginWithAll();
  void Clear();
  /// More than it may hold now, and than an empty one does; the next Shrink or Insert makes room.
  bool IsTooLarge() const {
    return enabled_ && memory_bytes() > std::max(BytesMax(), kEmptyBytesMax);
  }
  void Shrink();

 private:
  static constexpr uint64_t kEmptyBytesMax = 16 << 10;  // an empty tree takes a part of it
  /// Changed by the one thread that changes L1; read by those who are pinned in the pool's readers.
  class Tree : public HeadTree {
   public:
    using HeadTree::HeadTree;
    /// From here on it holds all of L1 (I3), until BeIncomplete. Throws std::bad_alloc, and it is
    /// not.
    void BeComplete(EpochDomain* readers);
    void BeIncomplete();
    bool complete() const { return complete_.load(std::memory_order_acquire); }
    /// Throws std::bad_alloc, and the entry is not there.
    void InsertFiltered(const Record* record, PmPtr place, EpochDomain* readers);
    /// May say true of what the tree does not have. REQUIRES: it was complete.
    bool MayHold(std::string_view key) const;
    uint64_t filter_bytes() const { return filter_bytes_.load(std::memory_order_relaxed); }

   private:
    /// Of what the tree has.
    void RenewFilter(EpochDomain* readers);

    std::atomic<bool> complete_{false};
    std::atomic<const HeadFilter*> filter_{nullptr};  // I4; null: the tree was never complete
    std::shared_ptr<HeadFilter> owned_filter_;        // what filter_ points to
    std::atomic<uint64_t> filter_bytes_{0};           // of owned_filter_, for those who only ask
    uint64_t filtered_ = 0;                           // entries added to it
  };

  // After so many halvings the cache keeps one in 2^halvings of all elements. One in four reaches a
  // layer higher: a pair of halvings is a layer, a single one leaves a third of the layer that goes
  // next. By the sequence number, which a copy of the element has, too.
  static constexpr uint32_t kHalvingsMax = 2 * (kHeightMax - 1);
  static uint32_t HeightMin(uint32_t halvings) { return 1 + (halvings + 1) / 2; }
  static bool Keeps(uint32_t halvings, uint32_t height, uint64_t sequence) {
    const uint32_t height_min = HeightMin(halvings);
    return height >= height_min ||
           (halvings % 2 != 0 && height + 1 == height_min && MixBits(sequence) % 3 == 0);
  }

  uint64_t BytesMax() const;
  void MakeRoom();
  std::shared_ptr<Tree> NewTree() const;
  /// A new tree of the elements that are kept after so many halvings; one that is complete stays so
  /// unless it is to be without a filter. Throws std::bad_alloc, and nothing changed.
  void Rebuild(uint32_t halvings, bool with_filter = true);
  /// The same, or nothing where there is no memory.
  void RebuildIfMemory(uint32_t halvings);
  void Swap(std::shared_ptr<Tree> tree) LAMELLA_EXCLUDES(mu_);

  Pool* const pool_;
  const bool enabled_;
  std::atomic<uint64_t> bytes_max_;  // guards nothing
  MemoryAccount* const memory_;
  std::atomic<uint32_t> halvings_{0};  // I5
  uint64_t removed_ = 0;               // since the tree was built; of the thread that changes L1
  std::shared_ptr<const KeyPrefixes> prefixes_;  // of the next tree; of that thread, too
  uint64_t fitted_count_ = 0;                    // elements when Fit last made a tree
  std::atomic<Tree*> tree_;
  mutable Mutex mu_;
  std::shared_ptr<Tree> owned_ LAMELLA_GUARDED_BY(mu_);  // what tree_ points to
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_SECOND_CHANCE_CACHE_H_
