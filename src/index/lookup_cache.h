// LookupCache is a DRAM hash table of record addresses (dissertation 6.6): flush fills it, and reads that had to search do.
// It caches addresses, which do not change, not contents; a slot costs 8 bytes.
// I1: what it returns for a key is a hint: the caller compares the record's key.
// I2: it never holds an older version of a key than the newest that a table holds. Flush, which brings newer versions, puts them
//     in unconditionally and drops what might be the same key; a reader puts its find in only if no flush and no unlinking
//     began since its search did (the generation).
// I3: an address is removed before its chunk may be reused; a reader is pinned while it uses one.
// Threads: all calls from any.
#ifndef LAMELLA_INDEX_LOOKUP_CACHE_H_
#define LAMELLA_INDEX_LOOKUP_CACHE_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "pool/pm_ptr.h"

namespace lamella {

class LookupCache {
 public:
  static constexpr uint32_t kWays = 8;  // one line a bucket

  /// At most `bytes`, rounded down to a power of two; 0 makes a cache that holds nothing.
  explicit LookupCache(uint64_t bytes);
  ~LookupCache();
  LookupCache(const LookupCache&) = delete;
  LookupCache& operator=(const LookupCache&) = delete;

  bool enabled() const { return bucket_count_ != 0; }
  uint64_t memory_bytes() const { return bucket_count_ * sizeof(Bucket); }

  /// The addresses that may be the key's; null ones fill up. Returns how many.
  uint32_t Find(uint64_t hash, std::array<PmPtr, kWays>* places) const {
    if (bucket_count_ == 0) return 0;
    const Bucket& bucket = BucketOf(hash);
    uint32_t n = 0;
    for (const auto& slot : bucket.slots) {
      const uint64_t word = slot.load(std::memory_order_acquire);  // pairs with Put: the record is complete
      if ((word & kMatchMask) == Match(hash) && word != 0) (*places)[n++] = Place(word);
    }
    return n;
  }
  void Prefetch(uint64_t hash) const {
    if (bucket_count_ != 0) __builtin_prefetch(&BucketOf(hash));
  }

  /// For flush, oldest table first: this is the newest version of its key in any table.
  void Put(uint64_t hash, PmPtr place);
  /// For readers: `generation` as it was before the search.
  void PutFound(uint64_t hash, PmPtr place, uint64_t generation);
  /// Forgets the address if it is there.
  void Remove(uint64_t hash, PmPtr place);
  /// Swaps a record's address after it was relocated; nothing if it is not there.
  void Replace(uint64_t hash, PmPtr from, PmPtr to);

  uint64_t generation() const { return generation_.load(std::memory_order_seq_cst); }
  /// To be called before a flush puts its records in, and after an element was unlinked and before it is removed here.
  void AdvanceGeneration() { generation_.fetch_add(1, std::memory_order_seq_cst); }

 private:
  struct alignas(64) Bucket {
    std::atomic<uint64_t> slots[kWays];  // hash bits : 12 | part : 4 | offset : 48
  };
  static constexpr uint64_t kMatchMask = ~uint64_t{0} << 52;
  static constexpr uint32_t kLockCount = 1024;

  static uint64_t Match(uint64_t hash) { return hash & kMatchMask; }
  static uint64_t Word(uint64_t hash, PmPtr place) {
    return Match(hash) | (uint64_t{place.part()} << 48) | place.offset();
  }
  static PmPtr Place(uint64_t word) {
    return PmPtr(static_cast<uint32_t>((word >> 48) & 0xf), word & PmPtr::kOffsetMask);
  }
  Bucket& BucketOf(uint64_t hash) const { return buckets_[hash & (bucket_count_ - 1)]; }

  class BucketLock;
  void PutLocked(Bucket* bucket, uint64_t hash, PmPtr place);

  uint64_t bucket_count_ = 0;  // constant after construction, a power of two or 0
  Bucket* buckets_ = nullptr;
  std::atomic<uint64_t> generation_{0};
  mutable std::array<std::atomic<bool>, kLockCount> locks_{};
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_LOOKUP_CACHE_H_
