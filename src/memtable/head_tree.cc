#include "memtable/head_tree.h"

#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/assert.h"
#include "base/sanitizer.h"

namespace lamella {

namespace {

// Optimistic readers race with writers on purpose, and throw away what they read when the version changed. Word-wise atomics
// say so. Acquire and release pair up, so that what a reference leads to is complete even before the validation.
uint64_t Load(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}
void Store(uint64_t& word, uint64_t value) { std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release); }

// Moves words up (towards higher addresses); a racing reader sees each word old or new.
void MoveUp(uint64_t* to, const uint64_t* from, size_t words) {
#if LAMELLA_THREAD_SANITIZER
  for (size_t i = words; i-- > 0;) Store(to[i], Load(from[i]));
#else
  std::memmove(to, from, words * sizeof(uint64_t));
#endif
}
void MoveDown(uint64_t* to, const uint64_t* from, size_t words) {
#if LAMELLA_THREAD_SANITIZER
  for (size_t i = 0; i < words; ++i) Store(to[i], Load(from[i]));
#else
  std::memmove(to, from, words * sizeof(uint64_t));
#endif
}

void Pause(int* spins) {
  _mm_pause();
  if (++*spins % 256 == 0) sched_yield();  // the lock's holder may have lost its processor
}

constexpr size_t kSlabBytesMin = 128 << 10;
constexpr size_t kHugePageBytes = 2 << 20;

// Slabs grow with the tree, so that a small one costs little and a large one lies in huge pages: a search of a tree of 100 MiB
// would miss the TLB at every node.
size_t SlabBytes(size_t tree_bytes) {
  const size_t bytes = std::clamp(tree_bytes / 4, kSlabBytesMin, kHugePageBytes);
  return bytes - bytes % kLineBytes;
}

// What follows the head; nothing where damage made a long key short.
std::string_view Tail(std::string_view key) { return key.substr(std::min<size_t>(HeadTree::kHeadBytes, key.size())); }

}  // namespace

struct HeadTree::Node {
  static constexpr uint64_t kLocked = 1;
  std::atomic<uint64_t> version{0};  // even: free; writers make it odd, and the next even number when done
  std::atomic<uint32_t> count{0};
  bool leaf = false;                 // constant after construction
  uint64_t heads[2 * kFanout] = {};  // head_high, head_low of each entry
  uint64_t tails[2 * kFanout] = {};  // tag, reference of each entry

  uint64_t ReadVersion() const {
    int spins = 0;
    uint64_t v;
    while ((v = version.load(std::memory_order_acquire)) & kLocked) Pause(&spins);
    return v;
  }
  // The fence orders the data loads before the version's second load; pairs with the release in Unlock.
  bool Validate(uint64_t v) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return version.load(std::memory_order_relaxed) == v;
  }
  bool TryLock(uint64_t v) {
    if (!version.compare_exchange_strong(v, v | kLocked, std::memory_order_acquire)) return false;
    std::atomic_thread_fence(std::memory_order_release);  // readers must not see our stores with the old version
    return true;
  }
  void Unlock() { version.store((version.load(std::memory_order_relaxed) | kLocked) + 1, std::memory_order_release); }

  Entry At(uint32_t i) const {
    return {Load(heads[2 * i]), Load(heads[2 * i + 1]), Load(tails[2 * i]), Load(tails[2 * i + 1])};
  }
  void Put(uint32_t i, const Entry& e) {
    Store(heads[2 * i], e.head_high);
    Store(heads[2 * i + 1], e.head_low);
    Store(tails[2 * i], e.tag);
    Store(tails[2 * i + 1], e.reference);
  }
  void InsertAt(uint32_t i, const Entry& e) {
    const uint32_t n = count.load(std::memory_order_relaxed);
    MoveUp(heads + 2 * (i + 1), heads + 2 * i, 2 * (n - i));
    MoveUp(tails + 2 * (i + 1), tails + 2 * i, 2 * (n - i));
    Put(i, e);
    count.store(n + 1, std::memory_order_relaxed);
  }
  void RemoveAt(uint32_t i) {
    const uint32_t n = count.load(std::memory_order_relaxed);
    MoveDown(heads + 2 * i, heads + 2 * (i + 1), 2 * (n - i - 1));
    MoveDown(tails + 2 * i, tails + 2 * (i + 1), 2 * (n - i - 1));
    Put(n - 1, Entry{});  // keeps I3
    count.store(n - 1, std::memory_order_relaxed);
  }
  // Moves entries [from, n) to the empty `right`.
  void MoveTailTo(Node* right, uint32_t from) {
    const uint32_t n = count.load(std::memory_order_relaxed);
    for (uint32_t i = from; i < n; ++i) {
      right->Put(i - from, At(i));
      Put(i, Entry{});  // keeps I3
    }
    right->count.store(n - from, std::memory_order_relaxed);
    count.store(from, std::memory_order_relaxed);
  }
};

struct HeadTree::Inner : HeadTree::Node {
  std::atomic<Node*> children[kFanout + 1] = {};
};

struct HeadTree::Leaf : HeadTree::Node {
  std::atomic<Leaf*> next{nullptr};
};

struct HeadTree::Probe {
  uint64_t high;
  uint64_t low;
  uint64_t tag;
  uint32_t key_class;
  std::string_view key;  // only for keys longer than the head

  Probe(std::string_view k, uint64_t t)
      : tag(t), key_class(static_cast<uint32_t>(k.size() < kLongKeyClass ? k.size() : kLongKeyClass)), key(k) {
    uint64_t words[2] = {0, 0};
    if (k.size() >= kHeadBytes) {
      std::memcpy(words, k.data(), kHeadBytes);
    } else {
      std::copy(k.begin(), k.end(), reinterpret_cast<char*>(words));
    }
    high = __builtin_bswap64(words[0]);
    low = __builtin_bswap64(words[1]);
  }
  Probe(const Entry& e, std::string_view k)
      : high(e.head_high), low(e.head_low), tag(e.tag), key_class(e.key_class()), key(k) {}
};

HeadTree::HeadTree(const Pool* pool, uint32_t emptied_leaves_max)
    : pool_(pool), emptied_leaves_max_(emptied_leaves_max) {
  Leaf* leaf = Allocate<Leaf>();
  leaf->leaf = true;
  root_.store(leaf, std::memory_order_release);
}

HeadTree::~HeadTree() {
  for (char* slab : slabs_) std::free(slab);
}

char* HeadTree::AllocateBytes(size_t bytes) {
  bytes = (bytes + kLineBytes - 1) & ~(kLineBytes - 1);
  const std::lock_guard lock(arena_mu_);
  if (slab_left_ < bytes) {
    // The first slab is small, so that an empty table costs little.
    const size_t slab_bytes = slabs_.empty() ? 4 * bytes : std::max(bytes, SlabBytes(memory_bytes()));
    const size_t alignment = slab_bytes == kHugePageBytes ? kHugePageBytes : kLineBytes;
    slabs_.push_back(static_cast<char*>(std::aligned_alloc(alignment, slab_bytes)));
    LAMELLA_CHECK(slabs_.back() != nullptr);
    if (alignment == kHugePageBytes) ::madvise(slabs_.back(), slab_bytes, MADV_HUGEPAGE);  // a wish
    slab_left_ = slab_bytes;
    memory_bytes_.fetch_add(slab_bytes, std::memory_order_relaxed);
  }
  slab_left_ -= bytes;
  return slabs_.back() + slab_left_;
}

template <class NodeType>
NodeType* HeadTree::Allocate() {
  static_assert(std::is_trivially_destructible_v<NodeType>);
  return new (AllocateBytes(sizeof(NodeType))) NodeType();
}

uint64_t HeadTree::CopyLongKey(std::string_view key) {
  const uint32_t size = static_cast<uint32_t>(key.size());
  char* copy = AllocateBytes(sizeof(size) + key.size());
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
  // Equal heads: the padding is zeros, so of two different short keys the shorter is a prefix of the other.
  if (key_class != probe.key_class) return key_class < probe.key_class ? -1 : 1;
  if (key_class == kLongKeyClass) {
    const int c = Tail(LongKey(reference)).compare(Tail(probe.key));
    if (c != 0) return c;
  }
  return tag > probe.tag ? -1 : (tag < probe.tag ? 1 : 0);
}

template <bool kInclusive, class NodeType>
uint32_t HeadTree::CountBefore(const NodeType* node, const Probe& probe) const {
  const uint32_t n = std::min(node->count.load(std::memory_order_relaxed), kFanout);
  uint32_t low = 0;
  uint32_t length = n;
  while (length > 0) {
    const uint32_t half = length / 2;
    const uint32_t middle = low + half;
    const uint64_t high_word = Load(node->heads[2 * middle]);
    const uint64_t low_word = Load(node->heads[2 * middle + 1]);
    bool before;
    if (high_word == probe.high && low_word == probe.low) [[unlikely]] {
      const uint64_t reference = Load(node->tails[2 * middle + 1]);
      if (reference == 0) {  // a torn read; validation will reject it
        before = false;
      } else {
        const int c = CompareTail(Load(node->tails[2 * middle]), reference, probe);
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
}

const HeadTree::Leaf* HeadTree::FindLeaf(const Probe& probe, bool before, uint64_t* version, Entry* fence,
                                         bool* has_fence) const {
  for (;;) {
    const Node* node = root_.load(std::memory_order_acquire);
    uint64_t v = node->ReadVersion();
    if (node != root_.load(std::memory_order_acquire)) continue;
    if (has_fence != nullptr) *has_fence = false;
    bool restart = false;
    while (!node->leaf) {
      const Inner* inner = static_cast<const Inner*>(node);
      const uint32_t i = before ? CountBefore<false>(inner, probe) : CountBefore<true>(inner, probe);
      const Node* child = inner->children[i].load(std::memory_order_acquire);
      Entry lower;
      if (fence != nullptr && i > 0) lower = inner->At(i - 1);
      if (!inner->Validate(v)) {
        restart = true;
        break;
      }
      if (fence != nullptr && i > 0) {
        *fence = lower;
        *has_fence = true;
      }
      __builtin_prefetch(&child->heads[kFanout / 2]);
      __builtin_prefetch(&child->heads[kFanout]);
      __builtin_prefetch(&child->heads[kFanout + kFanout / 2]);
      const uint64_t child_version = child->ReadVersion();
      if (!inner->Validate(v)) {  // the child may have been split before we read its version
        restart = true;
        break;
      }
      node = child;
      v = child_version;
    }
    if (restart) continue;
    *version = v;
    return static_cast<const Leaf*>(node);
  }
}

bool HeadTree::FindVersion(const InternalKey& target, Entry* found) const {
  const Probe probe(target.user_key, target.tag);
  for (;;) {
    uint64_t version;
    const Leaf* leaf = FindLeaf(probe, false, &version, nullptr, nullptr);
    for (;;) {
      const uint32_t i = CountBefore<false>(leaf, probe);
      const uint32_t n = leaf->count.load(std::memory_order_relaxed);
      if (i < n && i < kFanout) {
        const Entry e = leaf->At(i);
        if (!leaf->Validate(version)) break;
        if (e.head_high != probe.high || e.head_low != probe.low || e.key_class() != probe.key_class) return false;
        if (probe.key_class == kLongKeyClass && LongKey(e.reference) != target.user_key) return false;
        *found = e;
        return true;
      }
      const Leaf* next = leaf->next.load(std::memory_order_acquire);
      if (!leaf->Validate(version)) break;
      if (next == nullptr) return false;
      leaf = next;  // the first entry at or after the probe begins the next leaf
      version = leaf->ReadVersion();
    }
  }
}

// Copies the rightmost leaf with an entry before the probe (or, inclusive, at it): only those entries.
bool HeadTree::CopyLeafBefore(Probe probe, Entry* entries, uint32_t* count, Leaf const** next, bool inclusive) const {
  for (uint32_t emptied = 0;;) {
    uint64_t version;
    Entry fence;
    bool has_fence = false;
    const Leaf* leaf = FindLeaf(probe, !inclusive, &version, &fence, &has_fence);
    const uint32_t n = inclusive ? CountBefore<true>(leaf, probe) : CountBefore<false>(leaf, probe);
    for (uint32_t i = 0; i < n; ++i) entries[i] = leaf->At(i);
    *next = leaf->next.load(std::memory_order_acquire);
    if (!leaf->Validate(version)) continue;
    *count = n;
    if (n > 0) return true;
    if (!has_fence || emptied++ == emptied_leaves_max_) return false;
    // All of this leaf is behind the probe (or it is empty): go on before its lower fence.
    probe = Probe(fence, fence.key_class() == kLongKeyClass ? LongKey(fence.reference) : std::string_view());
    inclusive = false;
  }
}

bool HeadTree::FindAtOrBefore(const InternalKey& target, Entry* found) const {
  const Probe probe(target.user_key, target.tag);
  uint64_t version;
  const Leaf* leaf = FindLeaf(probe, false, &version, nullptr, nullptr);
  const uint32_t n = CountBefore<true>(leaf, probe);
  if (n > 0) {
    const Entry e = leaf->At(n - 1);
    if (leaf->Validate(version)) {
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

static_assert(kPoolPartsMax <= 16 && kHeightMax < 16, "an entry's reference has four bits for each");

void HeadTree::Insert(std::string_view key, uint64_t tag, PmPtr place, uint32_t height) {
  const Probe probe(key, tag);
  const uint64_t reference =
      (uint64_t{probe.key_class} << 56) | (uint64_t{height} << 52) | (uint64_t{place.part()} << 48) | place.offset();
  while (!TryInsert(probe, tag, reference)) {
  }
}

void HeadTree::InsertEntry(const Entry& entry) {
  const Probe probe(entry, entry.key_class() == kLongKeyClass ? LongKey(entry.reference) : std::string_view());
  while (!TryInsert(probe, entry.tag, entry.reference)) {
  }
}

// Full nodes are split on the way down, so that a parent always has room. False: start again.
bool HeadTree::TryInsert(const Probe& probe, uint64_t tag, uint64_t reference) {
  Node* node = root_.load(std::memory_order_acquire);
  uint64_t v = node->ReadVersion();
  if (node != root_.load(std::memory_order_acquire)) return false;
  Inner* parent = nullptr;
  uint64_t parent_version = 0;
  for (;;) {
    if (node->count.load(std::memory_order_relaxed) == kFanout) {
      const bool at_end = CountBefore<true>(node, probe) == kFanout;
      if (parent != nullptr && !parent->TryLock(parent_version)) return false;
      if (!node->TryLock(v)) {
        if (parent != nullptr) parent->Unlock();
        return false;
      }
      if (parent != nullptr || node == root_.load(std::memory_order_relaxed)) SplitChild(parent, node, at_end);
      node->Unlock();
      if (parent != nullptr) parent->Unlock();
      return false;
    }
    if (node->leaf) break;
    Inner* inner = static_cast<Inner*>(node);
    Node* child = inner->children[CountBefore<true>(inner, probe)].load(std::memory_order_acquire);
    if (!inner->Validate(v)) return false;
    __builtin_prefetch(&child->heads[kFanout / 2]);
    __builtin_prefetch(&child->heads[kFanout]);
    __builtin_prefetch(&child->heads[kFanout + kFanout / 2]);
    const uint64_t child_version = child->ReadVersion();
    if (!inner->Validate(v)) return false;
    parent = inner;
    parent_version = v;
    node = child;
    v = child_version;
  }
  if (!node->TryLock(v)) return false;
  const uint32_t i = CountBefore<false>(node, probe);
  const uint32_t n = node->count.load(std::memory_order_relaxed);
  const bool same = i < n && Load(node->heads[2 * i]) == probe.high && Load(node->heads[2 * i + 1]) == probe.low &&
                    CompareTail(Load(node->tails[2 * i]), Load(node->tails[2 * i + 1]), probe) == 0;
  if (same) {
    Store(node->tails[2 * i + 1], reference);
  } else {
    node->InsertAt(i, {probe.high, probe.low, tag, reference});
    count_.Add();
  }
  node->Unlock();
  return true;
}

// REQUIRES: node and parent (null for the root) are locked; the parent has room.
void HeadTree::SplitChild(Inner* parent, Node* node, bool at_end) {
  const uint32_t n = kFanout;
  const uint32_t from = at_end ? n - 2 : n / 2;  // ascending inserts leave full leaves behind
  Entry separator = node->At(from);
  std::string_view long_key;
  if (separator.key_class() == kLongKeyClass) {
    long_key = LongKey(separator.reference);
    if (node->leaf) separator.reference = CopyLongKey(long_key);  // keeps I4
  }
  Node* right;
  if (node->leaf) {
    Leaf* leaf = static_cast<Leaf*>(node);
    Leaf* right_leaf = Allocate<Leaf>();
    right_leaf->leaf = true;
    leaf->MoveTailTo(right_leaf, from);
    right_leaf->next.store(leaf->next.load(std::memory_order_relaxed), std::memory_order_relaxed);
    leaf->next.store(right_leaf, std::memory_order_release);
    right = right_leaf;
  } else {
    Inner* inner = static_cast<Inner*>(node);
    Inner* right_inner = Allocate<Inner>();
    for (uint32_t i = from + 1; i <= n; ++i) {  // the separator itself moves up
      right_inner->children[i - from - 1].store(inner->children[i].load(std::memory_order_relaxed),
                                                std::memory_order_relaxed);
    }
    inner->MoveTailTo(right_inner, from + 1);
    inner->Put(from, Entry{});
    inner->count.store(from, std::memory_order_relaxed);
    right = right_inner;
  }
  if (parent == nullptr) {
    Inner* root = Allocate<Inner>();
    root->children[0].store(node, std::memory_order_relaxed);
    root->children[1].store(right, std::memory_order_relaxed);
    root->InsertAt(0, separator);
    root_.store(root, std::memory_order_release);
    return;
  }
  const Probe probe(separator, long_key);
  const uint32_t i = CountBefore<true>(parent, probe);
  for (uint32_t c = parent->count.load(std::memory_order_relaxed) + 1; c > i + 1; --c) {
    parent->children[c].store(parent->children[c - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  parent->children[i + 1].store(right, std::memory_order_release);
  parent->InsertAt(i, separator);
}

bool HeadTree::Remove(const InternalKey& key, PmPtr expected) {
  const Probe probe(key.user_key, key.tag);
  for (;;) {
    uint64_t version;
    Leaf* leaf = const_cast<Leaf*>(FindLeaf(probe, false, &version, nullptr, nullptr));
    if (!leaf->TryLock(version)) continue;
    const uint32_t n = CountBefore<true>(leaf, probe);  // an exact match lies in this leaf: separators go right
    bool removed = false;
    if (n > 0) {
      const Entry e = leaf->At(n - 1);
      if (e.head_high == probe.high && e.head_low == probe.low && CompareTail(e.tag, e.reference, probe) == 0 &&
          e.place() == expected) {
        leaf->RemoveAt(n - 1);
        count_.Add(~uint64_t{0});  // minus one
        removed = true;
      }
    }
    leaf->Unlock();
    return removed;
  }
}

void HeadTree::Iterator::EnterLeaf(const Leaf* leaf) {
  index_ = count_ = 0;
  while (leaf != nullptr) {
    uint32_t n;
    const Leaf* next;
    uint64_t version;
    do {
      version = leaf->ReadVersion();
      n = std::min(leaf->count.load(std::memory_order_relaxed), kFanout);
      for (uint32_t i = 0; i < n; ++i) entries_[i] = leaf->At(i);
      next = leaf->next.load(std::memory_order_acquire);
    } while (!leaf->Validate(version));
    count_ = n;
    next_ = next;
    if (n > 0) return;
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
  // No key has a head of all ones and a class above the longest.
  Probe last(std::string_view(), 0);
  last.high = last.low = ~uint64_t{0};
  last.key_class = kLongKeyClass + 1;
  if (!tree_->CopyLeafBefore(last, entries_, &count_, &next_, true)) count_ = 0;
  index_ = count_ == 0 ? 0 : count_ - 1;
}

void HeadTree::Iterator::Seek(const InternalKey& target) {
  const Probe probe(target.user_key, target.tag);
  for (;;) {
    uint64_t version;
    const Leaf* leaf = tree_->FindLeaf(probe, false, &version, nullptr, nullptr);
    const uint32_t at = tree_->CountBefore<false>(leaf, probe);
    const uint32_t n = std::min(leaf->count.load(std::memory_order_relaxed), kFanout);
    for (uint32_t i = 0; i < n; ++i) entries_[i] = leaf->At(i);
    next_ = leaf->next.load(std::memory_order_acquire);
    if (!leaf->Validate(version)) continue;
    count_ = n;
    index_ = at;
    if (index_ >= count_) EnterLeaf(next_);
    return;
  }
}

void HeadTree::Iterator::SeekForPrev(const InternalKey& target) {
  if (!tree_->CopyLeafBefore(Probe(target.user_key, target.tag), entries_, &count_, &next_, true)) count_ = 0;
  index_ = count_ == 0 ? 0 : count_ - 1;
}

void HeadTree::Iterator::Next() {
  if (++index_ >= count_) EnterLeaf(next_);
}

void HeadTree::Iterator::Prev() {
  if (index_ > 0) {
    --index_;
    return;
  }
  const Entry first = entries_[0];
  const std::string_view key =
      first.key_class() == kLongKeyClass ? tree_->LongKey(first.reference) : std::string_view();
  if (!tree_->CopyLeafBefore(Probe(first, key), entries_, &count_, &next_, false)) count_ = 0;
  index_ = count_ == 0 ? 0 : count_ - 1;
}

}  // namespace lamella
