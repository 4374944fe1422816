// RhTree is LightKV's index (S. Han and others, "LightKV: A Cross Media Key Value Store with
// Persistent Memory to Cut Long Tail Latency", MSST 2020): a radix tree in DRAM over the first
// bytes of keys, whose leaves are hash tables. A leaf is a partition: all keys of one range, and so
// of one prefix. A lookup follows the prefix to its leaf, looks at the two buckets that the key's
// hash may be in, and reads the record whose 4-byte signature is the key's. A walk takes partition
// after partition and sorts each.
//
// A leaf that is full grows, up to a size; then it is split in two where half of its entries are
// before and half after, which the caches beside them tell without a look at their keys: a normal
// split cuts the range of slots that the leaf has in its inner node, a level split puts an inner
// node over entries that have one slot there. An inner node leaves out the bytes that they share.
//
// R1: all keys that come to an inner node are the same in their first `base` bytes.
// R2: the partitions are disjoint, in key order, and together hold every key there is. A bound
//     between two of them stays one for as long as the tree lives: splits only add some.
// R3: what a leaf has stays in it, in the slot it was put in, until the leaf is replaced as a whole
//     by one or two that have all of it. Who reached the old one sees what had been inserted when
//     they did; it goes once they let go of their pins.
// R4: a writer changes a leaf under its lock, and none that was replaced. Whatever replaces one is
//     locked until every slot of the inner node leads to it: nobody inserts there what a walk
//     that finds the old one lacks.
// R5: a key has one entry, which leads to its newest version; older ones follow in a chain, newest
//     first, whatever the order they came in.
// R6: an insert for which memory was provided does not fail: where a leaf is full and memory for a
//     greater one is refused, or all keys in it have one signature, its entry goes to a list.
//
// What differs from the paper: leaves are cut where their entries are halved, so that skewed keys
// make no empty partitions, and only a leaf whose keys share the slot takes a level split
// (T_normal = 2); when there are MAX_LEAF_NODES the leaves grow, and the engine decides when to
// flush. A cache holds 3 symbols, of 9 bits, instead of 4 bytes: a key's end is one, too.
// Threads: any, but for EmptyCopy. Records that entries lead to outlive them.
#ifndef LAMELLA_ENGINE_LIGHTKV_RH_TREE_H_
#define LAMELLA_ENGINE_LIGHTKV_RH_TREE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/spare_memory.h"
#include "base/striped_counter.h"
#include "iterator/internal_iterator.h"
#include "log/record.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace lamella {

struct RhTreeOptions {
  uint32_t leaf_nodes_max = 2048;  // MAX_LEAF_NODES: no leaf is split once there are about so many
  uint32_t leaf_buckets_max = 1024;  // so many a leaf has before it is split; a power of two, >= 4
  uint32_t signature_bits = 32;      // of a key's hash; fewer make keys look alike, for tests
};

class RhTree {
 public:
  struct Entry {
    InternalKey key;  // its user key lies in the record
    PmPtr place;
  };
  /// A partition's keys: from `begin` to before `end`, or all from `begin` on.
  struct Range {
    std::string begin;
    std::optional<std::string> end;
    bool Contains(std::string_view key) const { return begin <= key && (!end || key < *end); }
  };
  /// What a partition has of a key. Its order is what the cache beside it tells: of two slots that
  /// differ in it, the one with less has the lesser key.
  struct Slot {
    uint32_t order = 0;
    uint64_t location = 0;
  };
  /// A copy of a partition, which says of its keys where they are, in no order: to sort them all is
  /// to read them all. Good for as long as the tree lives.
  struct Partition {
    Range range;
    std::vector<Slot> slots;
    const void* parent = nullptr;  // for OrderOf
    uint32_t symbols = 0;
  };
  /// What splits did.
  struct Splits {
    uint64_t normal = 0;
    uint64_t level = 0;
    uint64_t key_reads = 0;  // of keys that the caches did not tell apart
  };

  /// `pool`, `readers` and `memory` (may be null), which is charged, outlive the tree.
  RhTree(const Pool* pool, EpochDomain* readers, const RhTreeOptions& options,
         MemoryAccount* memory = nullptr);
  ~RhTree();
  RhTree(const RhTree&) = delete;
  RhTree& operator=(const RhTree&) = delete;

  /// Makes `spare` hold what so many inserts may need beyond what the system has (R6). False where
  /// it has not even that.
  static bool ProvideFor(uint64_t inserts, SpareMemory* spare);
  /// Enters the record at `place`, whose number no version of the key in here has. Throws
  /// std::bad_alloc where there is no memory, nor any in `spare`: then it is not in here.
  void Insert(std::string_view key, uint64_t tag, PmPtr place, SpareMemory* spare = nullptr);
  /// The newest version of target's user key at or below its tag. REQUIRES: the caller is pinned.
  bool FindVersion(const InternalKey& target, Entry* found) const;

  /// The partition that holds the key. While a split is under way the copy may be of the leaf that
  /// was split: it reaches further, and so does that of CopyPartitionBefore.
  void CopyPartition(std::string_view key, Partition* partition) const;
  /// The one that ends where the one beginning with `bound`, not "", begins; without it, the last.
  void CopyPartitionBefore(std::optional<std::string_view> bound, Partition* partition) const;
  /// The order that a slot of the key would have. REQUIRES: the range holds the key.
  static uint32_t OrderOf(const Partition& partition, std::string_view key);
  /// All versions of the keys of these slots, in internal-key order.
  void Sort(const Slot* first, const Slot* last, std::vector<Entry>* entries) const;
  /// All partitions' ranges, in key order; as they are where they end beside splits.
  std::vector<Range> Ranges() const;
  /// A tree with these partitions and nothing in them: those that begin where `keeps` says, and the
  /// others as far as one node has them together. REQUIRES: nobody inserts.
  std::unique_ptr<RhTree> EmptyCopy(
      const std::function<bool(std::string_view begin)>& keeps = nullptr) const;

  uint64_t count() const { return count_.Sum(); }  // versions
  uint64_t leaf_count() const { return leaves_.load(std::memory_order_relaxed); }
  uint64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  Splits splits() const;

 private:
  struct Node;
  struct Inner;
  struct Leaf;
  struct Version;
  struct Item;
  using Items = std::vector<Item>;
  struct Way {  // where a key led to
    Inner* parent = nullptr;
    Leaf* leaf = nullptr;
  };

  uint32_t SignatureOf(std::string_view key) const;
  Way Descend(std::string_view key) const;
  /// The leaf whose partition holds the key (the last one, where there is none), or, with `before`,
  /// the one before the partition that begins with it.
  Way FindPartition(std::optional<std::string_view> key, bool before, Range* range) const;
  static void CopySlots(const Way& way, Partition* partition);
  static Range Narrow(const std::string& path, const Node* child, const Range& range);
  const Record* RecordAt(uint64_t location) const;
  uint64_t TagAt(uint64_t location) const;
  void AddVersion(std::atomic<uint64_t>* slot, uint64_t tag, PmPtr place, SpareMemory* spare);

  // rh_tree_split.cc. REQUIRES of all: the leaf's lock.
  /// False where the leaf stays what it is.
  bool MakeRoom(const Way& way);
  void Grow(const Way& way);
  void Split(const Way& way);
  std::unique_ptr<Inner> NewLevel(const Way& way, Items* items);
  std::unique_ptr<Leaf> NewLeaf(uint32_t low, uint32_t high, size_t entries) const;
  void Fill(Leaf* leaf, const Item* first, const Item* last);
  void Replace(const Way& way, std::unique_ptr<Leaf> left, std::unique_ptr<Leaf> right,
               std::unique_ptr<Inner> inner);
  static bool CacheTells(const Items& items, size_t at);

  /// `kept`: of the leaves yet to come, in key order, whether each begins one of the copy's.
  void CopyShape(const Inner& from, std::vector<bool>::const_iterator* kept, Inner* to);
  char* AllocateBytes(size_t bytes, SpareMemory* spare);
  void Charge(uint64_t bytes);
  void Release(uint64_t bytes);
  void Adopt(Inner* inner);

  // constant after construction
  const Pool* const pool_;
  EpochDomain* const readers_;
  const RhTreeOptions options_;
  MemoryAccount* const memory_;
  Inner* root_ = nullptr;

  StripedCounter count_;
  // figures; they guard nothing
  std::atomic<uint64_t> leaves_{1};
  std::atomic<uint64_t> memory_bytes_{0};
  std::atomic<uint64_t> normal_splits_{0};
  std::atomic<uint64_t> level_splits_{0};
  std::atomic<uint64_t> key_reads_{0};

  Mutex arena_mu_;
  Inner* inners_ LAMELLA_GUARDED_BY(arena_mu_) = nullptr;  // all of them, through Inner::next
  MemoryBlock* slabs_ LAMELLA_GUARDED_BY(arena_mu_) = nullptr;
  char* slab_ LAMELLA_GUARDED_BY(arena_mu_) = nullptr;  // what is being handed out, from its end on
  size_t slab_left_ LAMELLA_GUARDED_BY(arena_mu_) = 0;
};

/// Walks the versions in the tree, which it keeps. It sees what had been inserted when it was made,
/// and of later ones some. A search within the partition it is in copies nothing. With `verify` it
/// checks each record that it comes to: Corruption ends the walk.
std::unique_ptr<InternalIterator> NewRhTreeIterator(const Pool* pool,
                                                    std::shared_ptr<const RhTree> tree,
                                                    bool verify = false);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIGHTKV_RH_TREE_H_
