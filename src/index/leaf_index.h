// LeafIndex is what a LeafTree keeps in DRAM: the way from a key to its leaf. It is a B+-tree whose
// nodes never change. A change of the leaves makes new nodes, from those above the changed leaves
// up to a new root, and shares all others with the old tree: so who reads from a root on sees one
// state of it, without locks, and a change is one store of the root.
// X1: every leaf has a low bound: all keys of the leaves before it are before that, and no key of
//     its own is, but in the first leaf, whose range has no beginning. Low bounds are short: of two
//     neighbours' keys as much as tells them apart.
// X2: a leaf's prefix (Leaf L3) is the beginning of its low bound, so that it is compared in DRAM.
// Threads: nodes from any.
#ifndef LAMELLA_INDEX_LEAF_INDEX_H_
#define LAMELLA_INDEX_LEAF_INDEX_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "iterator/internal_iterator.h"
#include "pool/pm_ptr.h"

namespace lamella {

/// A low bound.
struct LeafLow {
  std::string key;
  uint64_t tag = kTagFirst;

  InternalKey view() const { return {key, tag}; }
  /// One that is after `before` and not after `first`, and begins with at least the first
  /// `bytes_min` bytes of that. REQUIRES: before < first.
  static LeafLow Between(const InternalKey& before, const InternalKey& first, size_t bytes_min);
  /// One that is not after `first`, the first key of all.
  static LeafLow OfFirst(const InternalKey& first, size_t bytes_min) {
    return {std::string(first.user_key.substr(0, bytes_min)), kTagFirst};
  }
};

class LeafIndex {
 public:
  static constexpr size_t kFanout = 64;
  static constexpr size_t kLevelsMax = 16;

  struct Node;
  using NodePtr = std::shared_ptr<const Node>;
  struct Child {
    LeafLow low;
    NodePtr node;  // null in the lowest level
    PmPtr leaf;    // null above it
  };
  struct Node {
    std::string prefix;           // what all low bounds begin with
    std::vector<uint64_t> heads;  // of the low bounds, after it
    std::vector<Child> children;  // one at least

    bool lowest() const { return children.front().node == nullptr; }
    /// The last child whose low bound is not after the target, or the first one.
    size_t ChildFor(const InternalKey& target) const;
  };

  /// Stands on a leaf, as of one root, or on none.
  class Cursor {
   public:
    explicit Cursor(const Node* root) : root_(root) {}
    bool Valid() const { return depth_ != 0; }
    /// To the leaf in whose range the target is; none only where there is no leaf at all.
    void Seek(const InternalKey& target);
    void SeekToFirst() { SeekToEnd(true); }
    void SeekToLast() { SeekToEnd(false); }
    void Next() { Move(true); }
    void Prev() { Move(false); }
    const LeafLow& low() const { return child().low; }
    PmPtr leaf() const { return child().leaf; }

   private:
    struct Step {
      const Node* node;
      size_t at;
    };
    const Child& child() const { return path_[depth_ - 1].node->children[path_[depth_ - 1].at]; }
    void Push(const Node* node, size_t at);
    void Descend(const Node* node, bool to_first);
    void SeekToEnd(bool first);
    void Move(bool forward);

    const Node* root_;  // null: no leaves
    size_t depth_ = 0;
    std::array<Step, kLevelsMax> path_;
  };

  /// Leaves that take the place of one; none: it goes.
  struct Edit {
    LeafLow low;  // of the leaf that goes
    std::vector<Child> leaves;
  };
  /// Over these leaves; null where there are none.
  static NodePtr Build(std::vector<Child> leaves);
  /// The tree of `root` after these edits, in the order of their leaves. REQUIRES: the low bounds
  /// of edits are those of leaves of `root`; it has one.
  static NodePtr Apply(const NodePtr& root, std::span<Edit> edits);

 private:
  static std::vector<Child> Rebuild(const Node& node, std::span<Edit> edits);
  static std::vector<Child> Pack(std::vector<Child> children);
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_LEAF_INDEX_H_
