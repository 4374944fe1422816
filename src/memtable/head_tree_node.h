// The nodes of a HeadTree, and how one changes while others read it.
//
// A node's State is one word that changes at every step of every change. A reader loads it, reads
// what it says is there, and loads it again: the same word means that what was read is what the
// node held. A thread that stops anywhere in the middle of a change leaves a word that does not
// change any more, and a node that reads as before the change or as after it: so a reader goes
// round again only when a writer got on. The lock is between writers.
// N1: at every step the entries that the State counts are whole, in order, in the slots that it
//     says. Entries are shifted one at a time into the hole between them, which moves by one then.
// N2: a slot that holds no entry is not written before a State that says so is stored.
#ifndef LAMELLA_MEMTABLE_HEAD_TREE_NODE_H_
#define LAMELLA_MEMTABLE_HEAD_TREE_NODE_H_

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/sanitizer.h"
#include "base/word_lock.h"
#include "memtable/head_tree.h"

namespace lamella {

/// steps : 47 | side : 1 | hole : 8 | count : 8. Entry i is in slot i, or one further where the
/// hole is at i or before.
struct HeadTree::NodeState {
  static constexpr uint32_t kNoHole = 0xff;
  uint64_t word = uint64_t{kNoHole} << 8;

  uint32_t count() const { return static_cast<uint32_t>(word & 0xff); }
  uint32_t hole() const { return static_cast<uint32_t>(word >> 8 & 0xff); }
  uint32_t side() const { return static_cast<uint32_t>(word >> 16 & 1); }
  uint32_t slot(uint32_t i) const { return i + (i >= hole() ? 1 : 0); }
  NodeState Next(uint32_t new_count, uint32_t new_hole, uint32_t new_side) const {
    return {((word >> 17) + 1) << 17 | uint64_t{new_side} << 16 | uint64_t{new_hole} << 8 |
            new_count};
  }
};

struct HeadTree::Node {
  using State = NodeState;
  static constexpr uint32_t kNoHole = NodeState::kNoHole;

  std::atomic<uint64_t> state{State().word};
  WordLock lock;                     // held by who changes the node
  bool leaf = false;                 // constant after construction
  uint64_t heads[2 * kFanout] = {};  // head_high, head_low of each slot's entry
  uint64_t tails[2 * kFanout] = {};  // tag, reference

  // Optimistic readers race with writers on purpose. Word-wise atomics say so; acquire and release
  // pair up, so that what a reference leads to is complete even before the validation.
  static uint64_t Load(const uint64_t& word) {
    return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
  }
  static void Store(uint64_t& word, uint64_t value) {
    std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
  }

  /// Acquire: pairs with the release in Set, so that what the State says is there to be read.
  State Read() const { return {state.load(std::memory_order_acquire)}; }
  /// True if what was read since Read gave `seen` is what the node held. The fence orders those
  /// loads before this one; it pairs with the one in Set.
  bool Validate(State seen) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return state.load(std::memory_order_relaxed) == seen.word;
  }
  /// Locks the node if it is as it was when `seen` was read.
  bool LockIf(State seen) {
    lock.lock();
    if (state.load(std::memory_order_relaxed) == seen.word) return true;
    lock.unlock();
    return false;
  }
  // The rest is the lock's holder's.
  State mine() const { return {state.load(std::memory_order_relaxed)}; }
  void Set(State next) {
    state.store(next.word, std::memory_order_release);    // after the stores before it
    std::atomic_thread_fence(std::memory_order_release);  // and before those after it: keeps N2
  }

  /// What a search looks at first, but for the state's own line.
  void PrefetchHeads() const {
    __builtin_prefetch(&heads[kFanout / 2]);
    __builtin_prefetch(&heads[kFanout]);
    __builtin_prefetch(&heads[kFanout + kFanout / 2]);
  }

  Entry AtSlot(uint32_t slot) const {
    return {Load(heads[2 * slot]), Load(heads[2 * slot + 1]), Load(tails[2 * slot]),
            Load(tails[2 * slot + 1])};
  }
  Entry At(State s, uint32_t i) const { return AtSlot(s.slot(i)); }
  void PutSlot(uint32_t slot, const Entry& e) {
    Store(heads[2 * slot], e.head_high);
    Store(heads[2 * slot + 1], e.head_low);
    Store(tails[2 * slot], e.tag);
    Store(tails[2 * slot + 1], e.reference);
  }
  void CopySlot(uint32_t from, uint32_t to) {
#if LAMELLA_THREAD_SANITIZER
    PutSlot(to, AtSlot(from));
#else  // two words at a time, which are written whole each
    std::memcpy(&heads[2 * to], &heads[2 * from], 2 * sizeof(uint64_t));
    std::memcpy(&tails[2 * to], &tails[2 * from], 2 * sizeof(uint64_t));
#endif
  }

  /// Shifts entries up, from the last on, until the hole is at slot `to`. `children`: of an inner
  /// node, each entry's right child goes with it; null for a leaf.
  void MoveHoleDown(uint32_t to, std::atomic<Node*>* children) {
    State s = mine();
    for (uint32_t hole = s.hole() == kNoHole ? s.count() : s.hole(); hole > to; hole--) {
      CopySlot(hole - 1, hole);
      if (children != nullptr) {
        children[hole + 1].store(children[hole].load(std::memory_order_relaxed),
                                 std::memory_order_release);
      }
      Set(s = s.Next(s.count(), hole - 1, s.side()));
    }
  }
  /// Shifts entries down until the hole is at slot `to`.
  void MoveHoleUp(uint32_t to) {
    State s = mine();
    for (uint32_t hole = s.hole(); hole < to; hole++) {
      CopySlot(hole + 1, hole);
      Set(s = s.Next(s.count(), hole + 1, s.side()));
    }
  }
  /// REQUIRES: no hole, and a slot is free.
  void InsertAt(uint32_t i, const Entry& e, std::atomic<Node*>* children = nullptr,
                Node* right = nullptr) {
    MoveHoleDown(i, children);
    PutSlot(i, e);
    if (children != nullptr) children[i + 1].store(right, std::memory_order_release);
    const State s = mine();
    Set(s.Next(s.count() + 1, kNoHole, s.side()));
  }
  /// Of a leaf. REQUIRES: no hole.
  void RemoveAt(uint32_t i) {
    const State s = mine();
    Set(s.Next(s.count() - 1, i, s.side()));
    MoveHoleUp(s.count() - 1);
    Truncate(s.count() - 1, s.side(), s.count());
  }
  /// Leaves the first `count` of what is in the slots up to `used`. The slots after them become
  /// zero (I3).
  void Truncate(uint32_t count, uint32_t side, uint32_t used) {
    Set(mine().Next(count, kNoHole, side));
    for (uint32_t slot = count; slot < used; slot++) PutSlot(slot, Entry{});
  }
};

struct HeadTree::Inner : HeadTree::Node {
  std::atomic<Node*> children[kFanout + 1] = {};  // children[slot + 1] is right of the slot's entry

  const Node* Child(State s, uint32_t i) const {
    return children[i == 0 ? 0 : s.slot(i - 1) + 1].load(std::memory_order_acquire);
  }
};

struct HeadTree::Leaf : HeadTree::Node {
  // by the State's side, so that a split changes it and the count at once
  std::atomic<Leaf*> next[2] = {};

  const Leaf* Next(State s) const { return next[s.side()].load(std::memory_order_acquire); }
};

}  // namespace lamella

#endif  // LAMELLA_MEMTABLE_HEAD_TREE_NODE_H_
