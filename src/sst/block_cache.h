// BlockCache keeps blocks of a store's SSTs in DRAM, verified and decompressed, up to so many
// bytes, and within the store's memory budget.
//
// It is divided by hash into shards. Each has two lists: a block enters the first, and comes into
// the second when it is asked for again; what falls out of the second, which has up to four fifths
// of the shard, goes through the first once more; what falls out of the first is gone. So a scan,
// which asks for each block once, takes little of what others use (R. Karedla and others, "Caching
// Strategies to Improve Disk System Performance", 1994: segmented LRU). In the second a block that
// is asked for moves nowhere, and is only marked; one with a mark that comes to the end begins
// again without it: a hit writes to no other block's entry (F. Corbató, "A Paging Experiment with
// the Multics System", 1968: the clock). A block that comes back soon after it fell out enters the
// second at once, so that what is used now takes the place of what was used then, however small the
// first list is (T. Johnson and D. Shasha, "2Q: A Low Overhead High Performance Buffer Management
// Replacement Algorithm", 1994). Index blocks enter the second, too: a read needs one whatever it
// looks for.
//
// C1: bytes() is what its blocks take, and is charged to the account. A block that somebody holds
//     stays in DRAM after it left the cache, and is that holder's to count.
// C2: a block that is larger than half a shard is not kept.
// C3: where the budget is short of memory the cache gives back: a block comes in place of others.
// Threads: all calls from any.
#ifndef LAMELLA_SST_BLOCK_CACHE_H_
#define LAMELLA_SST_BLOCK_CACHE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/annotations.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/random.h"
#include "sst/block.h"

namespace lamella {

class BlockCache {
 public:
  static constexpr size_t kShardCount = 16;

  struct Figures {
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t evictions = 0;  // of blocks that made room for others
    uint64_t bytes = 0;
    uint64_t blocks = 0;
  };

  /// `memory` (may be null) outlives it, and is charged what the blocks take.
  explicit BlockCache(uint64_t bytes_max, MemoryAccount* memory = nullptr);
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// A number for an open table, never given again: what another table left is not found by it.
  uint64_t NewTable() { return next_table_.fetch_add(1, std::memory_order_relaxed); }
  /// Null: it is not here. What was found stays while it is held.
  std::shared_ptr<const Block> Find(uint64_t table, uint64_t offset);
  /// The same, and as if nobody had asked.
  std::shared_ptr<const Block> Peek(uint64_t table, uint64_t offset) const;
  /// Keeps the block, if it may; one that is here stays. `needed_often`: it is known that it will
  /// be asked for again, as an index block is.
  void Insert(uint64_t table, uint64_t offset, std::shared_ptr<const Block> block,
              bool needed_often);
  /// Keeps the block, if it may: in the place of the one that is here, or else as Insert does.
  void Replace(uint64_t table, uint64_t offset, std::shared_ptr<const Block> block,
               bool needed_often);
  /// The table's blocks go.
  void Drop(uint64_t table);
  /// From now on at most so many bytes.
  void Resize(uint64_t bytes_max);
  uint64_t bytes_max() const { return bytes_max_.load(std::memory_order_relaxed); }
  Figures figures() const;
  MemoryAccount* memory() const { return memory_; }

 private:
  struct Key {
    uint64_t table = 0;
    uint64_t offset = 0;
    bool operator==(const Key&) const = default;
    uint64_t Hash() const { return MixBits(table ^ MixBits(offset)); }
  };
  /// It carries the links of what it is in: a hit reads a slot and the first of these.
  struct Entry {
    Key key;
    std::shared_ptr<const Block> block;
    Entry* next_of_slot = nullptr;
    bool reused = false;  // it is in the second list
    bool asked = false;   // for, since it began there
    Entry* next_of_table = nullptr;
    Entry** of_table = nullptr;  // what leads to it there
    Entry* newer = nullptr;
    Entry* older = nullptr;
    uint64_t bytes() const { return block->memory_bytes() + kEntryBytes; }
  };
  /// Entries that it owns, the newest first.
  class EntryList {
   public:
    EntryList() = default;
    ~EntryList();
    EntryList(const EntryList&) = delete;
    EntryList& operator=(const EntryList&) = delete;
    bool empty() const { return newest_ == nullptr; }
    Entry* oldest() const { return oldest_; }
    void Add(Entry* entry);
    /// The caller's from now on.
    void Take(Entry* entry);

   private:
    Entry* newest_ = nullptr;
    Entry* oldest_ = nullptr;
  };
  /// By key; owns nothing.
  class EntryTable {
   public:
    size_t size() const { return size_; }
    /// `hash`: the key's.
    Entry* Find(const Key& key, uint64_t hash) const;
    /// REQUIRES: there is none of the key. Throws std::bad_alloc, and then it is as it was.
    void Add(Entry* entry);
    /// REQUIRES: it is here.
    void Take(const Entry* entry);

   private:
    Entry*& SlotOf(const Key& key) { return slots_[key.Hash() & (slots_.size() - 1)]; }
    void Grow();

    std::vector<Entry*> slots_;  // none, or a power of two
    size_t size_ = 0;
  };
  /// By table, so that one that goes costs no walk through the others' entries; owns nothing.
  class TableChains {
   public:
    /// The first of a chain that has the table's entries, and may have others'.
    Entry* FirstOf(uint64_t table) const {
      return slots_.empty() ? nullptr : slots_[SlotOf(table)];
    }
    /// Makes room for another. Throws std::bad_alloc, and then it is as it was.
    void Reserve();
    /// REQUIRES: there is room for it.
    void Add(Entry* entry);
    void Take(Entry* entry);

   private:
    size_t SlotOf(uint64_t table) const { return MixBits(table) & (slots_.size() - 1); }

    std::vector<Entry*> slots_;  // none, or a power of two
    size_t size_ = 0;
  };
  struct alignas(64) Shard {
    mutable Mutex mu;
    EntryList entered LAMELLA_GUARDED_BY(mu);
    EntryList reused LAMELLA_GUARDED_BY(mu);
    EntryTable found LAMELLA_GUARDED_BY(mu);
    TableChains of_tables LAMELLA_GUARDED_BY(mu);
    // Of blocks that fell out, bits of their hashes, at the places that other bits of them say: as
    // many as there are blocks, once one fell out.
    std::vector<uint32_t> fallen LAMELLA_GUARDED_BY(mu);
    uint64_t bytes LAMELLA_GUARDED_BY(mu) = 0;
    uint64_t reused_bytes LAMELLA_GUARDED_BY(mu) = 0;
    uint64_t hits LAMELLA_GUARDED_BY(mu) = 0;
    uint64_t misses LAMELLA_GUARDED_BY(mu) = 0;
    uint64_t evictions LAMELLA_GUARDED_BY(mu) = 0;
  };
  // Beside the block: the entry, its slots, and what the system keeps for both, about.
  static constexpr uint64_t kEntryBytes = 160;

  /// Of the key with that hash.
  Shard& ShardOf(uint64_t hash) { return shards_[hash >> 60]; }
  const Shard& ShardOf(uint64_t hash) const { return shards_[hash >> 60]; }
  uint64_t ShardBytesMax() const { return bytes_max() / kShardCount; }
  /// Takes the entry out; what is to be freed once the lock is gone comes to `gone`.
  void Remove(Shard* shard, Entry* entry, EntryList* gone) LAMELLA_REQUIRES(shard->mu);
  /// Where it is kept that the block of that hash fell out, or is to be; REQUIRES: there is room.
  static uint32_t& FallenAt(std::vector<uint32_t>* fallen, uint64_t hash) {
    return (*fallen)[(hash >> 32) & (fallen->size() - 1)];
  }
  /// Makes the shard no larger than `bytes`.
  void Trim(Shard* shard, uint64_t bytes, EntryList* gone) LAMELLA_REQUIRES(shard->mu);
  /// The second list gives its oldest ones to the first while it has more than its part.
  void Balance(Shard* shard) LAMELLA_REQUIRES(shard->mu);
  /// False: there is no memory for the entry, however much of the shard goes.
  bool Charge(Shard* shard, uint64_t bytes, EntryList* gone) LAMELLA_REQUIRES(shard->mu);

  MemoryAccount* const memory_;  // may be null
  std::atomic<uint64_t> bytes_max_;
  std::atomic<uint64_t> next_table_{1};
  std::array<Shard, kShardCount> shards_;
};

}  // namespace lamella

#endif  // LAMELLA_SST_BLOCK_CACHE_H_
