#include "index/leaf_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "base/key_head.h"

namespace lamella {

LeafLow LeafLow::Between(const InternalKey& before, const InternalKey& first, size_t bytes_min) {
  // Two versions of a key: nothing shorter is between them.
  if (before.user_key == first.user_key) return {std::string(first.user_key), first.tag};
  const size_t shared = SharedBytes(before.user_key, first.user_key);
  return OfFirst(first, std::max(shared + 1, bytes_min));
}

size_t LeafIndex::Node::ChildFor(const InternalKey& target) const {
  const int c = target.user_key.substr(0, prefix.size()).compare(prefix);
  if (c != 0) return c < 0 ? 0 : children.size() - 1;
  const uint64_t head = HeadAfter(target.user_key, prefix.size());
  size_t after = 0;  // children before it have low bounds that are not after the target
  for (size_t left = heads.size(); left > 0;) {
    const size_t half = left / 2;
    const size_t at = after + half;
    const bool not_after = heads[at] != head
                               ? heads[at] < head
                               : CompareInternal(children[at].low.view(), target) <= 0;
    if (not_after) {
      after = at + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  return after == 0 ? 0 : after - 1;
}

void LeafIndex::Cursor::Push(const Node* node, size_t at) {
  LAMELLA_CHECK(depth_ < kLevelsMax);
  path_[depth_++] = {node, at};
}

void LeafIndex::Cursor::Seek(const InternalKey& target) {
  depth_ = 0;
  for (const Node* node = root_; node != nullptr;) {
    Push(node, node->ChildFor(target));
    node = child().node.get();
  }
}

void LeafIndex::Cursor::Descend(const Node* node, bool to_first) {
  while (node != nullptr) {
    Push(node, to_first ? 0 : node->children.size() - 1);
    node = child().node.get();
  }
}

void LeafIndex::Cursor::SeekToEnd(bool first) {
  depth_ = 0;
  Descend(root_, first);
}

void LeafIndex::Cursor::Move(bool forward) {
  while (depth_ > 0) {
    Step& step = path_[depth_ - 1];
    if (forward ? step.at + 1 < step.node->children.size() : step.at > 0) {
      step.at += forward ? 1 : -1;
      Descend(child().node.get(), forward);
      return;
    }
    depth_--;
  }
}

// As few nodes over these children as there can be, all about as full.
std::vector<LeafIndex::Child> LeafIndex::Pack(std::vector<Child> children) {
  std::vector<Child> packed;
  const size_t nodes = (children.size() + kFanout - 1) / kFanout;
  for (size_t i = 0; i < nodes; i++) {
    const auto from = children.begin() + static_cast<ptrdiff_t>(children.size() * i / nodes);
    const auto to = children.begin() + static_cast<ptrdiff_t>(children.size() * (i + 1) / nodes);
    auto node = std::make_shared<Node>();
    node->children.assign(std::make_move_iterator(from), std::make_move_iterator(to));
    const std::string& first = node->children.front().low.key;
    const std::string& last = node->children.back().low.key;
    node->prefix = first.substr(0, SharedBytes(first, last));
    node->heads.reserve(node->children.size());
    for (const Child& child : node->children)
      node->heads.push_back(HeadAfter(child.low.key, node->prefix.size()));
    LeafLow low = node->children.front().low;
    packed.push_back({std::move(low), std::move(node), PmPtr()});
  }
  return packed;
}

LeafIndex::NodePtr LeafIndex::Build(std::vector<Child> leaves) {
  if (leaves.empty()) return nullptr;
  do {
    leaves = Pack(std::move(leaves));
  } while (leaves.size() > 1);
  return std::move(leaves.front().node);
}

// The nodes that take the place of `node`.
std::vector<LeafIndex::Child> LeafIndex::Rebuild(const Node& node, std::span<Edit> edits) {
  std::vector<Child> children;
  children.reserve(node.children.size() + edits.size());
  for (size_t i = 0; i < node.children.size(); i++) {
    const Child& child = node.children[i];
    size_t here = edits.size();
    if (i + 1 < node.children.size()) {
      const InternalKey next = node.children[i + 1].low.view();
      here = static_cast<size_t>(
          std::ranges::partition_point(
              edits, [&](const Edit& edit) { return CompareInternal(edit.low.view(), next) < 0; }) -
          edits.begin());
    }
    if (here == 0) {
      children.push_back(child);
    } else {
      std::vector<Child> replacing;
      if (node.lowest()) {
        LAMELLA_CHECK(here == 1);
        replacing = std::move(edits[0].leaves);
      } else {
        replacing = Rebuild(*child.node, edits.first(here));
      }
      children.insert(children.end(), std::make_move_iterator(replacing.begin()),
                      std::make_move_iterator(replacing.end()));
    }
    edits = edits.subspan(here);
  }
  return Pack(std::move(children));
}

LeafIndex::NodePtr LeafIndex::Apply(const NodePtr& root, std::span<Edit> edits) {
  NodePtr top = Build(Rebuild(*root, edits));
  // Where much was taken out, levels go.
  while (top != nullptr && top->children.size() == 1 && !top->lowest())
    top = top->children.front().node;
  return top;
}

}  // namespace lamella
