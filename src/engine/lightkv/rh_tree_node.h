// The nodes of an RhTree: what a slot says, buckets, leaves, inner nodes, chains of versions.
//
// An inner node has a slot for all that sorts before its prefix, one for the key that ends with it,
// one for each byte that may follow, one for all that sorts after: every key has a slot, in key
// order, so no key ever changes a prefix. A child has a run of slots.
//
// N1: of an entry the signature and the cache are stored before its location, which is what says
//     that it is there. A location changes when a newer version comes, and is never 0 again.
// N2: a bucket's slots fill from the first on. An entry is in one of its two buckets; or, where
//     both were full, in the extra ones, which fill from the first on; or, where those were, in the
//     list.
// Threads: Find and ForEach from any; what changes a leaf under its lock.
#ifndef LAMELLA_ENGINE_LIGHTKV_RH_TREE_NODE_H_
#define LAMELLA_ENGINE_LIGHTKV_RH_TREE_NODE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/word_lock.h"
#include "engine/lightkv/rh_tree.h"

namespace lamella {

/// A slot of an inner node, or what a key has at some place: a byte, or its end.
using Symbol = uint32_t;
inline constexpr Symbol kBeforePrefix = 0;
inline constexpr Symbol kKeyEnd = 1;
inline constexpr Symbol kFirstByte = 2;  // and of byte b this and b more
inline constexpr Symbol kAfterPrefix = kFirstByte + 256;
inline constexpr Symbol kSymbolCount = kAfterPrefix + 1;
inline constexpr Symbol kUnknownSymbol = 511;

inline Symbol SymbolAt(std::string_view key, size_t at) {
  return at < key.size() ? kFirstByte + static_cast<unsigned char>(key[at]) : kKeyEnd;
}
constexpr bool IsByte(Symbol s) { return s >= kFirstByte && s < kAfterPrefix; }
constexpr char ByteOf(Symbol s) { return static_cast<char>(s - kFirstByte); }

/// A cache slot: an entry's slot in the leaf's inner node, and where that is a byte what follows it
/// in the key.
struct KeyCache {
  static constexpr size_t kSymbols = 3;
  static constexpr uint32_t kSymbolBits = 9;
  uint32_t word = 0;

  static KeyCache Of(Symbol first, Symbol second, Symbol third) {
    return {first | second << kSymbolBits | third << (2 * kSymbolBits)};
  }
  Symbol at(size_t i) const { return word >> (i * kSymbolBits) & ((1u << kSymbolBits) - 1); }
  /// How many of its symbols tell keys of one leaf apart: all up to the first that is not known.
  uint32_t known() const {
    uint32_t n = 1;
    while (n < kSymbols && at(n) != kUnknownSymbol) n++;
    return n;
  }
  /// RhTree::Slot's, by so many symbols: no more than any cache of the leaf knows that begins with
  /// a byte.
  uint32_t Order(uint32_t symbols) const {
    uint32_t order = 0;
    bool ended = false;  // nothing follows what is no byte
    for (uint32_t i = 0; i < kSymbols; i++) {
      order = order << kSymbolBits | (i < symbols && !ended ? at(i) : 0);
      ended = ended || !IsByte(at(i));
    }
    return order;
  }
  /// Without the first `n`.
  KeyCache Skip(size_t n) const {
    const auto symbol = [&](size_t i) { return i + n < kSymbols ? at(i + n) : kUnknownSymbol; };
    return Of(symbol(0), symbol(1), symbol(2));
  }
};

/// A location: a record's place, or, with this bit, a Version.
inline constexpr uint64_t kChainBit = uint64_t{1} << 63;

/// A version of a key that has several in the tree.
struct RhTree::Version {
  uint64_t tag = 0;
  PmPtr place;
  std::atomic<uint64_t> older{0};  // a location, or 0

  /// Null where the location is a record's place.
  static Version* At(uint64_t location) {
    return (location & kChainBit) == 0 ? nullptr
                                       : reinterpret_cast<Version*>(location & ~kChainBit);
  }
  static PmPtr PlaceAt(uint64_t location) {
    const Version* const version = At(location);
    return version == nullptr ? PmPtr(location) : version->place;
  }
  uint64_t location() const { return reinterpret_cast<uint64_t>(this) | kChainBit; }
};

/// What a leaf has of a key.
struct RhTree::Item {
  uint32_t signature = 0;
  KeyCache cache;
  uint64_t location = 0;
};

/// A child of an inner node, or the root.
struct RhTree::Node {
  Node(bool leaf, Symbol first, Symbol last) : is_leaf(leaf), low(first), high(last) {}
  const bool is_leaf;
  const Symbol low;  // the slots that it has in its parent
  const Symbol high;
};

struct RhTree::Inner : Node {
  Inner(Symbol first, Symbol last, size_t base_bytes, std::string shared)
      : Node(false, first, last), base(base_bytes), prefix(std::move(shared)) {}

  const size_t base;         // R1
  const std::string prefix;  // what follows, in most
  Inner* next = nullptr;     // in the tree's list
  std::array<std::atomic<Node*>, kSymbolCount> children{};

  /// Where, in keys that have a byte for a slot, that byte is.
  size_t slot_at() const { return base + prefix.size(); }
  Symbol SlotOf(std::string_view key) const {
    const int order = key.substr(base, prefix.size()).compare(prefix);
    if (order != 0) return order < 0 ? kBeforePrefix : kAfterPrefix;
    return SymbolAt(key, slot_at());
  }
  KeyCache CacheOf(std::string_view key) const {
    const Symbol slot = SlotOf(key);
    if (!IsByte(slot)) return KeyCache::Of(slot, kUnknownSymbol, kUnknownSymbol);
    return KeyCache::Of(slot, SymbolAt(key, slot_at() + 1), SymbolAt(key, slot_at() + 2));
  }
  /// Acquire: pairs with the release in SetChild, so that the child is complete.
  Node* Child(Symbol slot) const { return children[slot].load(std::memory_order_acquire); }
  void SetChild(Symbol first, Symbol last, Node* child) {
    for (Symbol s = first; s <= last; s++) children[s].store(child, std::memory_order_release);
  }
};

struct RhTree::Leaf : Node {
  static constexpr uint32_t kBucketEntries = 4;
  static constexpr uint32_t kBucketsMin = 4;
  static constexpr uint32_t kExtraShare = 20;  // the extra buckets are 5%

  struct alignas(64) Bucket {
    std::array<std::atomic<uint32_t>, kBucketEntries> signatures{};
    std::array<std::atomic<uint32_t>, kBucketEntries> caches{};
    std::array<std::atomic<uint64_t>, kBucketEntries> locations{};

    bool Put(const Item& item) {
      for (uint32_t i = 0; i < kBucketEntries; i++) {
        if (locations[i].load(std::memory_order_relaxed) != 0) continue;
        signatures[i].store(item.signature, std::memory_order_relaxed);
        caches[i].store(item.cache.word, std::memory_order_relaxed);
        locations[i].store(item.location, std::memory_order_release);  // keeps N1
        return true;
      }
      return false;
    }
    bool full() const { return locations.back().load(std::memory_order_acquire) != 0; }
  };
  static_assert(sizeof(Bucket) == 64);

  struct Listed {  // an entry of the list
    uint32_t signature;
    uint32_t cache;
    std::atomic<uint64_t> location;
    Listed* next;
  };

  Leaf(Symbol first, Symbol last, uint32_t buckets)
      : Node(true, first, last),
        bucket_count(buckets),
        extra_count(std::max(1u, buckets / kExtraShare)),
        buckets_(std::make_unique<Bucket[]>(buckets + extra_count)) {}

  const uint32_t bucket_count;  // a power of two
  const uint32_t extra_count;
  WordLock lock;
  bool replaced = false;  // under the lock, as the next
  uint32_t count = 0;     // entries

  uint64_t bytes() const { return sizeof(Leaf) + sizeof(Bucket) * (bucket_count + extra_count); }
  /// So many entries that twice the buckets would help.
  bool is_half_full() const { return 2 * count >= kBucketEntries * bucket_count; }

  /// The location of the entry with the signature for which `is_it(location)`; null where none is.
  template <class IsIt>
  std::atomic<uint64_t>* Find(uint32_t signature, IsIt&& is_it) {
    const uint32_t first = FirstOf(signature);
    const uint32_t second = SecondOf(signature);
    if (auto* at = FindIn(buckets_[first], signature, is_it)) return at;
    if (second != first) {
      if (auto* at = FindIn(buckets_[second], signature, is_it)) return at;
    }
    if (!buckets_[first].full() || !buckets_[second].full()) return nullptr;  // N2
    for (uint32_t i = bucket_count; i < bucket_count + extra_count; i++) {
      if (auto* at = FindIn(buckets_[i], signature, is_it)) return at;
      if (!buckets_[i].full()) return nullptr;
    }
    for (Listed* one = list_.load(std::memory_order_acquire); one != nullptr; one = one->next) {
      if (one->signature == signature && is_it(one->location.load(std::memory_order_acquire)))
        return &one->location;
    }
    return nullptr;
  }
  /// False where no slot is free.
  bool Put(const Item& item) {
    Bucket* a = &buckets_[FirstOf(item.signature)];
    Bucket* b = &buckets_[SecondOf(item.signature)];
    if (FillOf(*b) < FillOf(*a)) std::swap(a, b);
    bool put = a->Put(item) || b->Put(item);
    for (uint32_t i = bucket_count; !put && i < bucket_count + extra_count; i++)
      put = buckets_[i].Put(item);
    count += put ? 1 : 0;
    return put;
  }
  /// `memory`: of sizeof(Listed).
  void PutInList(const Item& item, void* memory) {
    auto* const next = list_.load(std::memory_order_relaxed);
    auto* const listed = new (memory) Listed{item.signature, item.cache.word, item.location, next};
    list_.store(listed, std::memory_order_release);  // after what it leads to
    count++;
  }
  bool has_list() const { return list_.load(std::memory_order_relaxed) != nullptr; }

  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (uint32_t i = 0; i < bucket_count + extra_count; i++) {
      const Bucket& bucket = buckets_[i];
      for (uint32_t k = 0; k < kBucketEntries; k++) {
        const uint64_t location = bucket.locations[k].load(std::memory_order_acquire);  // N1
        if (location == 0) break;
        visit(Item{bucket.signatures[k].load(std::memory_order_relaxed),
                   {bucket.caches[k].load(std::memory_order_relaxed)},
                   location});
      }
    }
    for (Listed* one = list_.load(std::memory_order_acquire); one != nullptr; one = one->next)
      visit(Item{one->signature, {one->cache}, one->location.load(std::memory_order_acquire)});
  }

 private:
  // The two hash functions, both of the signature: so that an entry moves without its key.
  uint32_t FirstOf(uint32_t signature) const { return signature & (bucket_count - 1); }
  uint32_t SecondOf(uint32_t signature) const {
    return signature * 0x9e3779b1u >> (32 - std::countr_zero(bucket_count));
  }
  static uint32_t FillOf(const Bucket& bucket) {
    uint32_t fill = 0;
    while (fill < kBucketEntries && bucket.locations[fill].load(std::memory_order_relaxed) != 0)
      fill++;
    return fill;
  }
  template <class IsIt>
  static std::atomic<uint64_t>* FindIn(Bucket& bucket, uint32_t signature, IsIt&& is_it) {
    for (uint32_t i = 0; i < kBucketEntries; i++) {
      const uint64_t location = bucket.locations[i].load(std::memory_order_acquire);  // N1
      if (location == 0) return nullptr;
      if (bucket.signatures[i].load(std::memory_order_relaxed) == signature && is_it(location))
        return &bucket.locations[i];
    }
    return nullptr;
  }

  const std::unique_ptr<Bucket[]> buckets_;  // the normal ones, then the extra ones
  std::atomic<Listed*> list_{nullptr};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIGHTKV_RH_TREE_NODE_H_
