// HeadFilter tells of most keys that no entry of a tree has their head, by a look at one cache
// line: a blocked Bloom filter (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom
// Filters, 2007).
// I1: what was added is held, for whoever came to know of it after Add returned.
// Threads: Add from one at a time, MayHold from any beside it.
#ifndef LAMELLA_INDEX_HEAD_FILTER_H_
#define LAMELLA_INDEX_HEAD_FILTER_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/hash.h"
#include "base/memory_budget.h"
#include "base/prefetch.h"
#include "memtable/head_tree.h"

namespace lamella {

class HeadFilter {
 public:
  /// For so many heads: more are held, too, but ever fewer others are told apart from them.
  /// `memory` (may be null) is charged, and outlives it. Throws std::bad_alloc.
  explicit HeadFilter(uint64_t heads_max, MemoryAccount* memory = nullptr)
      : heads_max_(heads_max),
        block_count_(static_cast<uint32_t>(heads_max * kBitsPerHead / kBlockBits + 1)),
        blocks_(std::make_unique<Block[]>(block_count_)),
        memory_(memory) {
    if (memory_ != nullptr) memory_->Charge(memory_bytes());
  }
  ~HeadFilter() {
    if (memory_ != nullptr) memory_->Release(memory_bytes());
  }
  HeadFilter(const HeadFilter&) = delete;
  HeadFilter& operator=(const HeadFilter&) = delete;

  uint64_t heads_max() const { return heads_max_; }
  uint64_t memory_bytes() const { return uint64_t{block_count_} * sizeof(Block); }

  void Add(const KeyPrefixes::Head& head) { Add(head.high, head.low, head.size); }
  void Add(const HeadTree::Entry& entry) {
    Add(entry.head_high, entry.head_low, entry.key_class());
  }
  /// The entry's line is on its way: it will be added soon.
  void Prefetch(const HeadTree::Entry& entry) const {
    PrefetchForWrite(reinterpret_cast<const char*>(
        &BlockOf(Hash(entry.head_high, entry.head_low, entry.key_class()))));
  }
  /// False: no head like this was added.
  bool MayHold(const KeyPrefixes::Head& head) const {
    const uint64_t hash = Hash(head.high, head.low, head.size);
    const Block& block = BlockOf(hash);
    for (uint32_t i = 0; i < kBitsSet; i++) {
      // relaxed: I1 is kept by what told the reader of it
      const uint64_t word = block.words[WordOf(hash, i)].load(std::memory_order_relaxed);
      if ((word & MaskOf(hash, i)) == 0) return false;
    }
    return true;
  }

 private:
  static constexpr uint64_t kBlockBits = 512;
  static constexpr uint64_t kBitsPerHead =
      12;  // of others one in a hundred is held for one of them
  static constexpr uint32_t kBitsSet = 5;
  struct alignas(64) Block {
    std::atomic<uint64_t> words[kBlockBits / 64];
  };

  static uint64_t Hash(uint64_t high, uint64_t low, uint64_t size) {
    const std::array<uint64_t, 3> bytes{high, low,
                                        std::min<uint64_t>(size, HeadTree::kLongKeyClass)};
    return Hash64({reinterpret_cast<const char*>(bytes.data()), sizeof(bytes)});
  }
  // The hash's highest bits choose the block, the lowest 45 the bits, nine for each.
  Block& BlockOf(uint64_t hash) const { return blocks_[(hash >> 32) * block_count_ >> 32]; }
  static uint32_t WordOf(uint64_t hash, uint32_t i) { return (hash >> (9 * i + 6)) & 7; }
  static uint64_t MaskOf(uint64_t hash, uint32_t i) {
    return uint64_t{1} << ((hash >> (9 * i)) & 63);
  }

  void Add(uint64_t high, uint64_t low, uint64_t size) {
    const uint64_t hash = Hash(high, low, size);
    Block& block = BlockOf(hash);
    for (uint32_t i = 0; i < kBitsSet; i++) {
      std::atomic<uint64_t>& word = block.words[WordOf(hash, i)];
      const uint64_t before = word.load(std::memory_order_relaxed);
      word.store(before | MaskOf(hash, i), std::memory_order_relaxed);  // one thread adds
    }
  }

  const uint64_t heads_max_;
  const uint32_t block_count_;
  const std::unique_ptr<Block[]> blocks_;
  MemoryAccount* const memory_;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_HEAD_FILTER_H_
