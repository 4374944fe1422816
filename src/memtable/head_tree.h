// HeadTree is a concurrent B+-tree in DRAM over records in the pool. It keeps 16 bytes of each key,
// its head (KeyPrefixes), beside the comparison, so that a search follows no persistent pointer
// unless keys have the same head.
//
// Nodes are wide (one search touches few lines) and are read by optimistic lock coupling (Leis et
// al., DaMoN 2016): readers take no lock, they validate a node's state after they have read it. Nor
// do they wait for one: a node can be read at every step of a change (head_tree_node.h), so a
// reader is held up by writers that get on, never by one that stands still.
// I1: entries are in internal-key order: user key ascending, then tag descending.
// I2: nodes are split, never merged or freed before the tree; a leaf's range only shrinks to the
//     left part of a split.
// I3: every word of an entry slot is zero or was written whole; a slot that no entry will be in
//     again soon is zero. A racing reader may combine words of two entries, which its validation
//     rejects, but it never follows a reference that is not a live record's.
// I4: a separator outlives the entry it was made from, so one of a long key refers to a copy of the
//     key in DRAM (class 18, 56 bits of address), never to a record.
// I5: a node that is split is cut short only when its right part can be reached from its parent,
//     and nobody changes the right part before that: until then both have the same entries.
// Threads: Insert, Find*, iterators from any at once; Remove and Replace from one thread at a time,
// beside readers.
#ifndef LAMELLA_MEMTABLE_HEAD_TREE_H_
#define LAMELLA_MEMTABLE_HEAD_TREE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/annotations.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/spare_memory.h"
#include "base/striped_counter.h"
#include "iterator/internal_iterator.h"
#include "log/record.h"
#include "memtable/key_prefixes.h"
#include "pool/pool.h"

namespace lamella {

class HeadTree {
 public:
  static constexpr uint32_t kHeadBytes = KeyPrefixes::kHeadBytes;
  static constexpr uint32_t kLongKeyClass = kHeadBytes + 1;

  /// One record: its key's head, its tag and where it is.
  struct Entry {
    uint64_t head_high = 0;  // KeyPrefixes::Head
    uint64_t head_low = 0;
    uint64_t tag = 0;
    // key class : 8 | height : 4 | pool part : 4 | offset : 48; 0 is none. Class 18: see I4
    uint64_t reference = 0;

    PmPtr place() const {
      return PmPtr(static_cast<uint32_t>((reference >> 48) & 0xf), reference & PmPtr::kOffsetMask);
    }
    uint32_t height() const { return static_cast<uint32_t>((reference >> 52) & 0xf); }
    /// Size of what the head is the beginning of, 17 standing for all longer ones.
    uint32_t key_class() const {
      return std::min(static_cast<uint32_t>(reference >> 56), kLongKeyClass);
    }
  };
  /// `memory` (may be null) is charged for its nodes, and outlives it. `prefixes` (may be null)
  /// says what heads leave out.
  /// Where entries are removed, leaves are emptied and stay (I2). After `emptied_leaves_max` of
  /// them in a row a search backwards gives up, as at the beginning: for those to whom an entry is
  /// a hint.
  explicit HeadTree(const Pool* pool, MemoryAccount* memory = nullptr,
                    std::shared_ptr<const KeyPrefixes> prefixes = nullptr,
                    uint32_t emptied_leaves_max = ~uint32_t{0});
  ~HeadTree();
  HeadTree(const HeadTree&) = delete;
  HeadTree& operator=(const HeadTree&) = delete;

  /// Adds the record at `place`. An entry of the same internal key gets the new place. Throws
  /// std::bad_alloc where there is no memory, nor any in `spare`; the tree is as before then.
  void Insert(std::string_view key, uint64_t tag, PmPtr place, uint32_t height = 0,
              SpareMemory* spare = nullptr);
  /// Provides for so many inserts, of keys no longer than that, so that they do not fail. False
  /// where the system has no memory.
  bool ProvideFor(uint64_t inserts, size_t key_bytes, SpareMemory* spare) const;
  /// Adds an entry of another tree over the same pool.
  void InsertEntry(const HeadTree& from, const Entry& entry);
  /// The first entry at or after `target` that has its user key: the newest version at or below the
  /// tag's sequence.
  bool FindVersion(const InternalKey& target, Entry* found) const;
  /// The same; says nothing where it would come by more emptied leaves than the tree's owner
  /// allows.
  std::optional<bool> FindVersionNear(const InternalKey& target, Entry* found) const;
  /// The last entry at or before `target` (of any key).
  bool FindAtOrBefore(const InternalKey& target, Entry* found) const;
  /// Takes the entry out. False where there is none, or where it has another place than `expected`.
  bool Remove(const InternalKey& key, PmPtr expected);

  uint64_t count() const { return count_.Sum(); }
  uint64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

  const std::shared_ptr<const KeyPrefixes>& prefixes() const { return prefixes_; }
  /// What its nodes are charged to; may be null.
  MemoryAccount* memory() const { return memory_; }
  /// True once there are keys enough to tell that many have the same head as others: searches
  /// compare records in the pool, then.
  bool HeadsAlike() const {
    constexpr uint64_t kLeavesMin = 32;
    constexpr uint64_t kAlikePart = 4;  // from this part of the leaves on, learning pays
    const uint64_t leaves = leaves_.load(std::memory_order_relaxed);
    return leaves >= kLeavesMin && alike_.load(std::memory_order_relaxed) > leaves / kAlikePart;
  }
  /// About `count` keys, ascending, for KeyPrefixes::Learn. REQUIRES: the records stay.
  std::vector<std::string> SampleKeys(size_t count) const;

  /// Walks entries, a leaf at a time: what it shows is each leaf as of the moment it was entered.
  class Iterator;

 private:
  friend class HeadTreeTest;
  static constexpr uint32_t kFanout = 32;
  static constexpr uint32_t kCopiedKeyClass = kLongKeyClass + 1;
  struct NodeState;
  struct Node;
  struct Inner;
  struct Leaf;
  struct Probe;

  char* AllocateBytes(size_t bytes, SpareMemory* spare);
  bool AddSlab(size_t bytes) LAMELLA_REQUIRES(arena_mu_);
  template <class NodeType>
  NodeType* Allocate(SpareMemory* spare);
  uint64_t CopyLongKey(std::string_view key, SpareMemory* spare);
  std::string_view LongKey(uint64_t reference) const;
  /// Entries of `node` before the probe: in a strict count those less than it, else those not
  /// greater.
  template <bool kInclusive>
  uint32_t CountBefore(const Node* node, NodeState state, const Probe& probe) const;
  bool IsAlike(const Entry& before, const Entry& entry, std::string_view key) const;
  int CompareTail(uint64_t tag, uint64_t reference, const Probe& probe) const;
  /// The leaf that holds the probe's place, with its state; where `fence` is given, the leaf's
  /// lowest possible entry.
  const Leaf* FindLeaf(const Probe& probe, bool before, NodeState* state, Entry* fence,
                       bool* has_fence) const;
  std::optional<bool> FindVersionWithin(const InternalKey& target, uint32_t leaves_max,
                                        Entry* found) const;
  bool CopyLeafBefore(Probe probe, Entry* entries, uint32_t* count, Leaf const** next,
                      bool inclusive) const;
  bool TryInsert(const Probe& probe, uint64_t tag, uint64_t reference, SpareMemory* spare);
  bool Split(Inner* parent, Node* node, bool at_end, SpareMemory* spare);
  Node* MakeRight(const Node* node, uint32_t from, SpareMemory* spare);
  static void CutAt(Node* node, uint32_t from, Node* right);

  // Read by every search, changed rarely.
  const Pool* const pool_;
  MemoryAccount* const memory_;
  const std::shared_ptr<const KeyPrefixes> prefixes_;
  const uint32_t emptied_leaves_max_;
  std::atomic<Node*> root_;
  // of the longest; as leaves_ and inners_ for ProvideFor: they guard nothing
  std::atomic<size_t> long_key_bytes_{0};
  std::atomic<uint64_t> memory_bytes_{0};
  StripedCounter count_;  // of lines of its own: every insert changes it
  std::atomic<uint64_t> leaves_{0};
  std::atomic<uint64_t> inners_{0};
  // leaves that were split between two keys of the same head; guards nothing
  std::atomic<uint64_t> alike_{0};
  Mutex arena_mu_;
  MemoryBlock* slabs_ LAMELLA_GUARDED_BY(arena_mu_) = nullptr;
  char* slab_ LAMELLA_GUARDED_BY(arena_mu_) = nullptr;  // what is being handed out, from its end on
  size_t slab_left_ LAMELLA_GUARDED_BY(arena_mu_) = 0;
};

class HeadTree::Iterator {
 public:
  explicit Iterator(const HeadTree* tree) : tree_(tree) {}
  bool Valid() const { return index_ < count_; }
  void SeekToFirst();
  void SeekToLast();
  void Seek(const InternalKey& target);         // first at or after
  void SeekForPrev(const InternalKey& target);  // last at or before
  void Next();
  void Prev();
  void NextLeaf() { EnterLeaf(next_); }  // its first entry
  const Entry& entry() const { return entries_[index_]; }
  /// Entries of this leaf after the current one, for prefetching.
  uint32_t ahead() const { return count_ - index_ - 1; }
  const Entry& entry_ahead(uint32_t n) const { return entries_[index_ + n]; }

 private:
  void EnterLeaf(const Leaf* leaf);

  const HeadTree* tree_;
  const Leaf* next_ = nullptr;
  uint32_t index_ = 0;
  uint32_t count_ = 0;
  Entry entries_[kFanout];
};

}  // namespace lamella

#endif  // LAMELLA_MEMTABLE_HEAD_TREE_H_
