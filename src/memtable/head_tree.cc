#include "memtable/head_tree.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/raise_to.h"
#include "memtable/head_tree_node.h"

namespace lamella {

namespace {

constexpr size_t kSlabBytesMin = 8 << 10;
constexpr size_t kSlabBytesUsual = 128 << 10;
constexpr size_t kHugePageBytes = 2 << 20;
// Of inner nodes: no tree that fits in memory has more.
constexpr uint64_t kLevelsMax = 8;

constexpr size_t LinesOf(size_t bytes) { return (bytes + kLineBytes - 1) & ~(kLineBytes - 1); }

// Slabs grow with the tree, so that a small one costs little and a large one lies in huge pages: a
// search of a tree of 100 MiB would miss the TLB at every node.
size_t SlabBytes(size_t tree_bytes) {
  constexpr size_t kSlabPart = 4;  // what the last slab leaves unused is at most this of the tree
  const size_t wanted = std::max(tree_bytes / kSlabPart, std::min(tree_bytes, kSlabBytesUsual));
  const size_t bytes = std::clamp(wanted, kSlabBytesMin, kHugePageBytes);
  return bytes - bytes % kLineBytes;
}

// What follows the head; nothing where damage made a long key short.
std::string_view Tail(std::string_view key, size_t covered) {
  return key.substr(std::min(covered, key.size()));
}

}  // namespace

struct HeadTree::Probe {
  uint64_t high;
  uint64_t low;
  uint64_t tag;
  uint32_t key_class;
  size_t covered;        // bytes of a long key that its head stands for
  std::string_view key;  // only for long keys

  Probe(const HeadTree& tree, std::string_view k, uint64_t t)
      : Probe(KeyPrefixes::HeadOf(tree.prefixes_.get(), k), k, t) {}
  /// Of an entry of the tree; `k` is its key where that is long.
  Probe(const HeadTree& tree, const Entry& e, std::string_view k)
      : high(e.head_high),
        low(e.head_low),
        tag(e.tag),
        key_class(e.key_class()),
        covered(k.empty() ? 0 : KeyPrefixes::HeadOf(tree.prefixes_.get(), k).covered),
        key(k) {}
  /// After every entry: no key has a head of all ones and a class above the longest.
  struct Last {};
  explicit Probe(Last)
      : high(~uint64_t{0}), low(~uint64_t{0}), tag(0), key_class(kLongKeyClass + 1), covered(0) {}

 private:
  Probe(const KeyPrefixes::Head& head, std::string_view k, uint64_t t)
      : high(head.high),
        low(head.low),
        tag(t),
        key_class(static_cast<uint32_t>(std::min<size_t>(head.size, kLongKeyClass))),
        covered(head.covered),
        key(k) {}
};

HeadTree::HeadTree(const Pool* pool, MemoryAccount* memory,
                   std::shared_ptr<const KeyPrefixes> prefixes, uint32_t emptied_leaves_max)
    : pool_(pool),
      memory_(memory),
      prefixes_(std::move(prefixes)),
      emptied_leaves_max_(emptied_leaves_max) {
  Leaf* leaf = Allocate<Leaf>(nullptr);
  if (leaf == nullptr) throw std::bad_alloc();
  leaf->leaf = true;
  root_.store(leaf, std::memory_order_release);
}

HeadTree::~HeadTree() {
  for (MemoryBlock* block = slabs_; block != nullptr;)
    MemoryBlock::Delete(std::exchange(block, block->next));
  if (memory_ != nullptr) memory_->Release(memory_bytes());
}

bool HeadTree::AddSlab(size_t bytes) {
  const size_t alignment = bytes == kHugePageBytes ? kHugePageBytes : kLineBytes;
  MemoryBlock* const block = MemoryBlock::New(bytes, alignment);
  if (block == nullptr) return false;
  if (alignment == kHugePageBytes) ::madvise(block, bytes, MADV_HUGEPAGE);  // a wish
  block->next = std::exchange(slabs_, block);
  slab_ = reinterpret_cast<char*>(block + 1);
  slab_left_ = bytes - sizeof(MemoryBlock);
  memory_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (memory_ != nullptr) memory_->Charge(bytes);
  return true;
}

char* HeadTree::AllocateBytes(size_t bytes, SpareMemory* spare) {
  bytes = LinesOf(bytes);
  const MutexLock lock(&arena_mu_);
  if (slab_left_ < bytes) {
    // The first slab is small, so that an empty table costs little.
    const size_t least = sizeof(MemoryBlock) + bytes;
    const size_t wanted = slabs_ == nullptr ? sizeof(MemoryBlock) + 4 * bytes
                                            : std::max(least, SlabBytes(memory_bytes()));
    if (!AddSlab(wanted) && !AddSlab(least)) {
      char* const taken = spare != nullptr ? spare->Take(bytes, &slabs_) : nullptr;
      if (taken == nullptr) return nullptr;
      memory_bytes_.fetch_add(bytes, std::memory_order_relaxed);
      if (memory_ != nullptr) memory_->Charge(bytes);
      return taken;
    }
  }
  slab_left_ -= bytes;
  return slab_ + slab_left_;
}

template <class NodeType>
NodeType* HeadTree::Allocate(SpareMemory* spare) {
  static_assert(std::is_trivially_destructible_v<NodeType>);
  char* const bytes = AllocateBytes(sizeof(NodeType), spare);
  if (bytes == nullptr) return nullptr;
  auto* const node = new (bytes) NodeType();
  (std::is_same_v<NodeType, Leaf> ? leaves_ : inners_).fetch_add(1, std::memory_order_relaxed);
  return node;
}

// A full node that is split leaves one that takes two entries at least (Split). So of n inserts
// each may split a leaf that was full before, and only every third any other; what splits leaves
// does the same to their parents, and to theirs. A few more: other threads may split before these
// do.
bool HeadTree::ProvideFor(uint64_t inserts, size_t key_bytes, SpareMemory* spare) const {
  constexpr uint64_t kOthers = 8;
  constexpr uint64_t kInsertsPerSplit = 3;
  uint64_t splits = 1;
  uint64_t inner_splits = kLevelsMax;
  if (inserts > 1) {
    splits =
        std::min(inserts, leaves_.load(std::memory_order_relaxed) + inserts / kInsertsPerSplit + 1);
    inner_splits = std::min(kLevelsMax * splits,
                            2 * inners_.load(std::memory_order_relaxed) + splits + kLevelsMax);
  }
  size_t longest = std::max(key_bytes, long_key_bytes_.load(std::memory_order_relaxed));
  const size_t number_bytes = prefixes_ != nullptr ? 1 : 0;  // a head's first, then
  longest = longest + number_bytes > kHeadBytes ? LinesOf(sizeof(uint32_t) + longest) : 0;
  return spare->Provide((splits + 1) * (LinesOf(sizeof(Leaf)) + longest) +
                        (inner_splits + kOthers) * LinesOf(sizeof(Inner)));
}

uint64_t HeadTree::CopyLongKey(std::string_view key, SpareMemory* spare) {
  const uint32_t size = static_cast<uint32_t>(key.size());
  char* copy = AllocateBytes(sizeof(size) + key.size(), spare);
  if (copy == nullptr) return 0;
  std::memcpy(copy, &size, sizeof(size));
  std::memcpy(copy + sizeof(size), key.data(), key.size());
  return (uint64_t{kCopiedKeyClass} << 56) | reinterpret_cast<uintptr_t>(copy);
}

std::string_view HeadTree::LongKey(uint64_t reference) const {
  if ((reference >> 56) == kCopiedKeyClass) {
    const char* copy = reinterpret_cast<const char*>(reference & ((uint64_t{1} << 56) - 1));
    uint32_t size;
    std::memcpy(&size, copy, sizeof(size));
    return {copy + sizeof(size), size};
  }
  pool_->gate()->OnRead(kLineBytes);
  return pool_->At<Record>(Entry{0, 0, 0, reference}.place())->key();
}

int HeadTree::CompareTail(uint64_t tag, uint64_t reference, const Probe& probe) const {
  const uint32_t key_class = Entry{0, 0, 0, reference}.key_class();
  // Equal heads: the padding is zeros, so of two different short keys the shorter is a prefix of
  // the other.
  if (key_class != probe.key_class) return key_class < probe.key_class ? -1 : 1;
  if (key_class == kLongKeyClass) {
    const int c = Tail(LongKey(reference), probe.covered).compare(Tail(probe.key, probe.covered));
    if (c != 0) return c;
  }
  return tag > probe.tag ? -1 : (tag < probe.tag ? 1 : 0);
}

template <bool kInclusive>
uint32_t HeadTree::CountBefore(const Node* node, NodeState state, const Probe& probe) const {
  const auto count = [&](auto slot_of) {
    uint32_t low = 0;
    uint32_t length = state.count();
    while (length > 0) {
      const uint32_t half = length / 2;
      const uint32_t middle = low + half;
      const uint32_t slot = slot_of(middle);
      const uint64_t high_word = Node::Load(node->heads[2 * slot]);
      const uint64_t low_word = Node::Load(node->heads[2 * slot + 1]);
      bool before;
      if (high_word == probe.high && low_word == probe.low) [[unlikely]] {
        const uint64_t reference = Node::Load(node->tails[2 * slot + 1]);
        if (reference == 0) {  // a torn read; validation will reject it
          before = false;
        } else {
          const int c = CompareTail(Node::Load(node->tails[2 * slot]), reference, probe);
          before = kInclusive ? c <= 0 : c < 0;
        }
      } else {
        const auto entry = (static_cast<unsigned __int128>(high_word) << 64) | low_word;
        const auto wanted = (static_cast<unsigned __int128>(probe.high) << 64) | probe.low;
        before = entry < wanted;
      }
      low = before ? middle + 1 : low;
      length = before ? length - half - 1 : half;
    }
    return low;
  };
  if (state.hole() == Node::kNoHole) [[likely]]
    return count([](uint32_t i) { return i; });
  return count([&](uint32_t i) { return state.slot(i); });
}

const HeadTree::Leaf* HeadTree::FindLeaf(const Probe& probe, bool before, NodeState* state,
                                         Entry* fence, bool* has_fence) const {
  for (;;) {
    const Node* node = root_.load(std::memory_order_acquire);
    NodeState s = node->Read();
    if (node != root_.load(std::memory_order_acquire)) continue;
    if (has_fence != nullptr) *has_fence = false;
    bool restart = false;
    while (!node->leaf) {
      const Inner* inner = static_cast<const Inner*>(node);
      const uint32_t i =
          before ? CountBefore<false>(inner, s, probe) : CountBefore<true>(inner, s, probe);
      const Node* child = inner->Child(s, i);
      Entry lower;
      if (fence != nullptr && i > 0) lower = inner->At(s, i - 1);
      if (!inner->Validate(s)) {
        restart = true;
        break;
      }
      if (fence != nullptr && i > 0) {
        *fence = lower;
        *has_fence = true;
      }
      child->PrefetchHeads();
      const NodeState child_state = child->Read();
      if (!inner->Validate(s)) {  // the child may have been cut short before we read its state (I5)
        restart = true;
        break;
      }
      node = child;
      s = child_state;
    }
    if (restart) continue;
    *state = s;
    return static_cast<const Leaf*>(node);
  }
}

bool HeadTree::FindVersion(const InternalKey& target, Entry* found) const {
  return *FindVersionWithin(target, ~uint32_t{0}, found);
}

std::optional<bool> HeadTree::FindVersionNear(const InternalKey& target, Entry* found) const {
  return FindVersionWithin(target, emptied_leaves_max_, found);
}

std::optional<bool> HeadTree::FindVersionWithin(const InternalKey& target, uint32_t leaves_max,
                                                Entry* found) const {
  const Probe probe(*this, target.user_key, target.tag);
  for (;;) {
    NodeState s;
    const Leaf* leaf = FindLeaf(probe, false, &s, nullptr, nullptr);
    for (uint32_t leaves = 0;; leaves++) {
      if (leaves > leaves_max) return std::nullopt;
      const uint32_t i = CountBefore<false>(leaf, s, probe);
      if (i < s.count()) {
        const Entry e = leaf->At(s, i);
        if (!leaf->Validate(s)) break;
        if (e.head_high != probe.high || e.head_low != probe.low ||
            e.key_class() != probe.key_class)
          return false;
        if (probe.key_class == kLongKeyClass && LongKey(e.reference) != target.user_key)
          return false;
        *found = e;
        return true;
      }
      const Leaf* next = leaf->Next(s);
      if (!leaf->Validate(s)) break;
      if (next == nullptr) return false;
      leaf = next;  // the first entry at or after the probe begins the next leaf
      s = leaf->Read();
    }
  }
}

// Copies the rightmost leaf with an entry before the probe (or, inclusive, at it): only those
// entries.
bool HeadTree::CopyLeafBefore(Probe probe, Entry* entries, uint32_t* count, Leaf const** next,
                              bool inclusive) const {
  for (uint32_t emptied = 0;;) {
    NodeState s;
    Entry fence;
    bool has_fence = false;
    const Leaf* leaf = FindLeaf(probe, !inclusive, &s, &fence, &has_fence);
    const uint32_t n =
        inclusive ? CountBefore<true>(leaf, s, probe) : CountBefore<false>(leaf, s, probe);
    for (uint32_t i = 0; i < n; i++) entries[i] = leaf->At(s, i);
    *next = leaf->Next(s);
    if (!leaf->Validate(s)) continue;
    *count = n;
    if (n > 0) return true;
    if (!has_fence || emptied++ == emptied_leaves_max_) return false;
    // All of this leaf is after the probe (or it is empty): go on before its lower fence.
    probe =
        Probe(*this, fence,
              fence.key_class() == kLongKeyClass ? LongKey(fence.reference) : std::string_view());
    inclusive = false;
  }
}

bool HeadTree::FindAtOrBefore(const InternalKey& target, Entry* found) const {
  const Probe probe(*this, target.user_key, target.tag);
  NodeState s;
  const Leaf* leaf = FindLeaf(probe, false, &s, nullptr, nullptr);
  const uint32_t n = CountBefore<true>(leaf, s, probe);
  if (n > 0) {
    const Entry e = leaf->At(s, n - 1);
    if (leaf->Validate(s)) {
      *found = e;
      return true;
    }
  }
  Entry entries[kFanout];
  uint32_t count;
  const Leaf* next;
  if (!CopyLeafBefore(probe, entries, &count, &next, true)) return false;
  *found = entries[count - 1];
  return true;
}

static_assert(kPoolPartsMax <= 16 && kHeightMax < 16,
              "an entry's reference has four bits for each");

void HeadTree::Insert(std::string_view key, uint64_t tag, PmPtr place, uint32_t height,
                      SpareMemory* spare) {
  const Probe probe(*this, key, tag);
  const uint64_t reference = (uint64_t{probe.key_class} << 56) | (uint64_t{height} << 52) |
                             (uint64_t{place.part()} << 48) | place.offset();
  if (probe.key_class == kLongKeyClass &&
      key.size() > long_key_bytes_.load(std::memory_order_relaxed)) [[unlikely]]
    RaiseTo(&long_key_bytes_, key.size());
  while (!TryInsert(probe, tag, reference, spare)) {
  }
}

void HeadTree::InsertEntry(const HeadTree& from, const Entry& entry) {
  if (from.prefixes_ != prefixes_) {
    pool_->gate()->OnRead(kLineBytes);
    return Insert(pool_->At<Record>(entry.place())->key(), entry.tag, entry.place(),
                  entry.height());
  }
  const Probe probe(
      *this, entry,
      entry.key_class() == kLongKeyClass ? LongKey(entry.reference) : std::string_view());
  while (!TryInsert(probe, entry.tag, entry.reference, nullptr)) {
  }
}

// Full nodes are split on the way down, so that a parent always has room. False: start again.
bool HeadTree::TryInsert(const Probe& probe, uint64_t tag, uint64_t reference, SpareMemory* spare) {
  Node* node = root_.load(std::memory_order_acquire);
  NodeState s = node->Read();
  if (node != root_.load(std::memory_order_acquire)) return false;
  Inner* parent = nullptr;
  NodeState parent_state;
  for (;;) {
    if (s.count() == kFanout) {
      const bool at_end = CountBefore<true>(node, s, probe) == kFanout;
      if (parent != nullptr && !parent->LockIf(parent_state)) return false;
      bool has_memory = true;
      if (node->LockIf(s)) {
        const bool is_root = node == root_.load(std::memory_order_relaxed);
        if (parent != nullptr || is_root) has_memory = Split(parent, node, at_end, spare);
        node->lock.unlock();
      }
      if (parent != nullptr) parent->lock.unlock();
      if (!has_memory) throw std::bad_alloc();
      return false;
    }
    if (node->leaf) break;
    Inner* inner = static_cast<Inner*>(node);
    Node* child = const_cast<Node*>(inner->Child(s, CountBefore<true>(inner, s, probe)));
    if (!inner->Validate(s)) return false;
    child->PrefetchHeads();
    const NodeState child_state = child->Read();
    if (!inner->Validate(s)) return false;
    parent = inner;
    parent_state = s;
    node = child;
    s = child_state;
  }
  if (!node->LockIf(s)) return false;
  const uint32_t i = CountBefore<false>(node, s, probe);
  const bool same =
      i < s.count() && Node::Load(node->heads[2 * i]) == probe.high &&
      Node::Load(node->heads[2 * i + 1]) == probe.low &&
      CompareTail(Node::Load(node->tails[2 * i]), Node::Load(node->tails[2 * i + 1]), probe) == 0;
  if (same) {
    Node::Store(node->tails[2 * i + 1], reference);
  } else {
    node->InsertAt(i, {probe.high, probe.low, tag, reference});
    count_.Add();
  }
  node->lock.unlock();
  return true;
}

// Two neighbours of one head; not two versions of one key.
bool HeadTree::IsAlike(const Entry& before, const Entry& entry, std::string_view key) const {
  return before.head_high == entry.head_high && before.head_low == entry.head_low &&
         before.key_class() == kLongKeyClass && LongKey(before.reference) != key;
}

// REQUIRES: node and parent (null for the root) are locked; the parent has room. All memory is
// taken before anything is changed. False: there is none.
bool HeadTree::Split(Inner* parent, Node* node, bool at_end, SpareMemory* spare) {
  // ascending inserts leave full leaves behind
  const uint32_t from = at_end ? kFanout - 2 : kFanout / 2;
  Entry separator = node->AtSlot(from);
  std::string_view long_key;
  if (separator.key_class() == kLongKeyClass) {
    long_key = LongKey(separator.reference);
    if (node->leaf) separator.reference = CopyLongKey(long_key, spare);  // keeps I4
    if (separator.reference == 0) return false;
  }
  if (node->leaf && !long_key.empty() && IsAlike(node->AtSlot(from - 1), separator, long_key))
    alike_.fetch_add(1, std::memory_order_relaxed);
  Node* right = MakeRight(node, from, spare);
  Inner* const root = parent == nullptr ? Allocate<Inner>(spare) : nullptr;
  if (right == nullptr || (parent == nullptr && root == nullptr)) return false;
  right->lock.lock();  // keeps I5
  if (root != nullptr) {
    root->children[0].store(node, std::memory_order_relaxed);
    root->InsertAt(0, separator, root->children, right);
    root_.store(root, std::memory_order_release);
  } else {
    const uint32_t i = CountBefore<true>(parent, parent->mine(), Probe(*this, separator, long_key));
    parent->InsertAt(i, separator, parent->children, right);
  }
  CutAt(node, from, right);
  right->lock.unlock();
  return true;
}

// What a split at `from` moves to the right; null where there is no memory.
HeadTree::Node* HeadTree::MakeRight(const Node* node, uint32_t from, SpareMemory* spare) {
  const auto fill = [&](Node* right, uint32_t first) {
    for (uint32_t slot = first; slot < kFanout; slot++)
      right->PutSlot(slot - first, node->AtSlot(slot));
    right->Set(right->mine().Next(kFanout - first, Node::kNoHole, 0));
  };
  if (node->leaf) {
    Leaf* right = Allocate<Leaf>(spare);
    if (right == nullptr) return nullptr;
    right->leaf = true;
    right->next[0].store(const_cast<Leaf*>(static_cast<const Leaf*>(node)->Next(node->mine())),
                         std::memory_order_relaxed);
    fill(right, from);
    return right;
  }
  const Inner* inner = static_cast<const Inner*>(node);
  Inner* right = Allocate<Inner>(spare);
  if (right == nullptr) return nullptr;
  for (uint32_t i = from + 1; i <= kFanout; i++) {  // the separator itself moves up
    right->children[i - from - 1].store(inner->children[i].load(std::memory_order_relaxed),
                                        std::memory_order_relaxed);
  }
  fill(right, from + 1);
  return right;
}

// Takes from `node` what its right part has by now.
void HeadTree::CutAt(Node* node, uint32_t from, Node* right) {
  uint32_t side = 0;
  if (node->leaf) {
    side = 1 - node->mine().side();
    static_cast<Leaf*>(node)->next[side].store(static_cast<Leaf*>(right),
                                               std::memory_order_release);
  }
  node->Truncate(from, side, kFanout);
}

bool HeadTree::Remove(const InternalKey& key, PmPtr expected) {
  const Probe probe(*this, key.user_key, key.tag);
  for (;;) {
    NodeState s;
    Leaf* leaf = const_cast<Leaf*>(FindLeaf(probe, false, &s, nullptr, nullptr));
    if (!leaf->LockIf(s)) continue;
    // an exact match lies in this leaf: separators go right
    const uint32_t n = CountBefore<true>(leaf, s, probe);
    bool removed = false;
    if (n > 0) {
      const Entry e = leaf->AtSlot(n - 1);
      if (e.head_high == probe.high && e.head_low == probe.low &&
          CompareTail(e.tag, e.reference, probe) == 0 && e.place() == expected) {
        leaf->RemoveAt(n - 1);
        count_.Add(~uint64_t{0});  // minus one
        removed = true;
      }
    }
    leaf->lock.unlock();
    return removed;
  }
}

std::vector<std::string> HeadTree::SampleKeys(size_t count) const {
  const uint64_t each = leaves_.load(std::memory_order_relaxed) / count + 1;
  std::vector<std::string> keys;
  Iterator at(this);
  uint64_t leaf = 0;
  for (at.SeekToFirst(); at.Valid(); at.NextLeaf(), leaf++) {
    if (leaf % each == 0) keys.emplace_back(pool_->At<Record>(at.entry().place())->key());
  }
  return keys;
}

void HeadTree::Iterator::EnterLeaf(const Leaf* leaf) {
  index_ = count_ = 0;
  while (leaf != nullptr) {
    NodeState s;
    const Leaf* next;
    do {
      s = leaf->Read();
      for (uint32_t i = 0; i < s.count(); i++) entries_[i] = leaf->At(s, i);
      next = leaf->Next(s);
    } while (!leaf->Validate(s));
    count_ = s.count();
    next_ = next;
    if (count_ > 0) return;
    leaf = next;
  }
}

void HeadTree::Iterator::SeekToFirst() {
  for (;;) {
    const Node* node = tree_->root_.load(std::memory_order_acquire);
    while (!node->leaf) {  // the leftmost child of a node never changes
      node = static_cast<const Inner*>(node)->children[0].load(std::memory_order_acquire);
    }
    EnterLeaf(static_cast<const Leaf*>(node));
    return;
  }
}

void HeadTree::Iterator::SeekToLast() {
  if (!tree_->CopyLeafBefore(Probe(Probe::Last()), entries_, &count_, &next_, true)) count_ = 0;
  index_ = count_ == 0 ? 0 : count_ - 1;
}

void HeadTree::Iterator::Seek(const InternalKey& target) {
  const Probe probe(*tree_, target.user_key, target.tag);
  for (;;) {
    NodeState s;
    const Leaf* leaf = tree_->FindLeaf(probe, false, &s, nullptr, nullptr);
    const uint32_t at = tree_->CountBefore<false>(leaf, s, probe);
    for (uint32_t i = 0; i < s.count(); i++) entries_[i] = leaf->At(s, i);
    next_ = leaf->Next(s);
    if (!leaf->Validate(s)) continue;
    count_ = s.count();
    index_ = at;
    if (index_ >= count_) EnterLeaf(next_);
    return;
  }
}

void HeadTree::Iterator::SeekForPrev(const InternalKey& target) {
  if (!tree_->CopyLeafBefore(Probe(*tree_, target.user_key, target.tag), entries_, &count_, &next_,
                             true))
    count_ = 0;
  index_ = count_ == 0 ? 0 : count_ - 1;
}

void HeadTree::Iterator::Next() {
  if (++index_ >= count_) EnterLeaf(next_);
}

void HeadTree::Iterator::Prev() {
  if (index_ > 0) {
    index_--;
    return;
  }
  const Entry first = entries_[0];
  const std::string_view key =
      first.key_class() == kLongKeyClass ? tree_->LongKey(first.reference) : std::string_view();
  if (!tree_->CopyLeafBefore(Probe(*tree_, first, key), entries_, &count_, &next_, false))
    count_ = 0;
  index_ = count_ == 0 ? 0 : count_ - 1;
}

}  // namespace lamella
