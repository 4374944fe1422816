// LeafTree is LAB-DB's level 0 (Kim et al., "An LSM Tree Augmented with B+ Tree on Nonvolatile
// Memory", 2024): a B+-tree whose leaves lie in persistent memory (Leaf) and whose inner nodes lie
// in DRAM (LeafIndex), made anew from the leaves at each open. It maps versions of keys to where
// their values lie, for up to a whole flush of a MemTable at once (LeafChange).
// T1: the leaves' list has every entry once, in internal-key order, at every cut. No leaf is empty.
// T2: a version that goes in takes the place of those that it makes unneeded: so a key that is
//     written again takes no more room, where no snapshot holds its versions. Versions that are
//     needed lie beside each other. A delete is a version, too; one that leaves nothing (LeafPut)
//     goes with what it hides, but for the last entry of a leaf: that may stay.
// T3: a reader goes by one root: it finds what was in the tree when its pin was taken, but for what
//     a change took out, which nobody needs by the word of whoever made it; and perhaps what came
//     later.
// T4: what a reader sees of a change under way may not be durable in the tree: it is in the log
//     until the change has returned.
// Threads: one that changes it; readers at any time, pinned (Pool::readers or holders) for as long
// as they use what they found.
#ifndef LAMELLA_INDEX_LEAF_TREE_H_
#define LAMELLA_INDEX_LEAF_TREE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "index/leaf.h"
#include "index/leaf_change.h"
#include "index/leaf_index.h"
#include "index/leaf_space.h"
#include "iterator/internal_iterator.h"
#include "lamella/status.h"
#include "pool/pool.h"

namespace lamella {

/// A version that a search found.
struct LeafVersion {
  PmPtr place;  // of its cell; null: none
  uint64_t tag = 0;
  uint64_t location = 0;
  uint32_t value_size = 0;

  RecordKind kind() const { return TagKind(tag); }
};

class LeafTree {
 public:
  /// `head`, in the pool, links to the first leaf. It outlives the tree, as does the pool.
  LeafTree(Pool* pool, std::shared_ptr<LeafSpace> space, PmWord* head)
      : pool_(pool), space_(std::move(space)), head_(head) {}
  LeafTree(const LeafTree&) = delete;
  LeafTree& operator=(const LeafTree&) = delete;

  /// Makes a head that of an empty tree. Durable on return, but on page media with the next Sync.
  static void Clear(PmWord* head, Persister* persister) { persister->Publish(head, kLeafEndLink); }
  /// At open, once: walks the leaves, verifies each and its cells, and tells the space of them
  /// (LeafSpace::MarkTaken); LeafSpace::Opened follows when all trees of the space are open.
  /// Changes nothing on the medium. Corruption, naming the place.
  Status Open();

  /// The newest version at or before the target of its user key. With `verify` the checksum of
  /// every cell that the search looks at. Corruption.
  Status Find(const InternalKey& target, bool verify, LeafVersion* found) const;
  /// Puts versions in: durable on return, and in part on the medium before. Those that are not
  /// needed are left out, and taken out. To put in again what is there changes nothing, and takes
  /// no room: so a batch that a cut left in part is completed, and several batches of which one
  /// found no room. REQUIRES: they are in internal-key order, no two equal, keys of kKeyBytesMax at
  /// most. NoSpace, Corruption, IOError; but for an IOError of a sync nothing is changed then, nor
  /// where it throws std::bad_alloc; where leaves are left with a delete that leaves nothing, and
  /// go, all that was put in is there.
  Status Insert(std::span<const LeafPut> puts, const VersionNeeded& needed, Persister* persister);
  /// Takes out what is not before `from`, nor (where it is not null) after `last`; errors as above.
  /// REQUIRES: readers find it elsewhere, or do not want it.
  Status Remove(const InternalKey& from, const InternalKey* last, Persister* persister);

  /// Gives back all that it has, and leaves the medium as it is: of a tree that nothing on the
  /// medium leads to any more, and nobody reads. What is damaged stays taken until the next open.
  /// Throws std::bad_alloc, and goes on from there when it is called again. Of a space that is
  /// closed nothing is given back.
  void GiveBack();

  /// Walks the tree both ways; key and value (LeafCell::value_words) live as long as the pin. With
  /// `verify` the checksum of every cell that it looks at. Damage ends the walk; status() tells it.
  std::unique_ptr<InternalIterator> NewIterator(bool verify) const;

  /// The greatest location of a kPutElsewhere that Open came by; 0: of none.
  uint64_t elsewhere_last() const { return elsewhere_last_; }
  uint64_t leaf_count() const { return leaves_.load(std::memory_order_relaxed); }
  uint64_t entry_count() const { return entries_.load(std::memory_order_relaxed); }
  /// Of its leaves and cells in the pool.
  uint64_t Bytes() const {
    return leaf_count() * sizeof(Leaf) + cell_bytes_.load(std::memory_order_relaxed);
  }

 private:
  friend class LeafTreeIterator;

  const LeafIndex::Node* Root() const {
    return root_.load(std::memory_order_acquire);  // pairs with the release in Publish
  }
  Status OpenLeaf(PmPtr place, std::string* last_key, uint64_t* last_tag, LeafIndex::Child* child);
  void Count(const LeafTally& tally);
  Status Make(LeafChange* change);
  std::vector<LeafSpace::Block> Blocks() const;

  Pool* const pool_;
  const std::shared_ptr<LeafSpace> space_;
  PmWord* const head_;
  LeafIndex::NodePtr owned_root_;          // the writer's, as the next
  std::vector<LeafSpace::Block> leaving_;  // GiveBack has yet to
  uint64_t elsewhere_last_ = 0;            // constant after Open
  std::atomic<const LeafIndex::Node*> root_{nullptr};
  // figures; they guard nothing
  std::atomic<uint64_t> leaves_{0};
  std::atomic<uint64_t> entries_{0};
  std::atomic<uint64_t> cell_bytes_{0};
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_LEAF_TREE_H_
