// LookupCache is a DRAM hash table of record addresses (dissertation 6.6): flush fills it, and
// reads that had to search do. It caches addresses, which do not change, not contents; a slot costs
// 8 bytes. It begins with no memory and grows with what it holds.
//
// The table is divided by hash into stripes, each with an array of buckets that doubles when it is
// half full. A slot has too few bits of its hash for that: the record's key says the rest.
// I1: what it returns for a key is a hint: the caller compares the record's key.
// I2: it never holds an older version of a key than the newest that a table holds. Flush, which
//     brings newer versions, puts them in unconditionally and drops what might be the same key; a
//     reader puts its find in only if no flush and no unlinking began since its search did (the
//     generation).
// I3: an address is removed before its chunk may be reused; a reader is pinned in `readers` while
//     it uses one.
// I4: an array does not change once its successor is published, and is freed when no reader is left
//     that could see it. Such a reader finds what was there when it was pinned; it took its tables
//     before, so I2 holds of what it finds.
// Threads: all calls from any. A reader never waits.
#ifndef LAMELLA_INDEX_LOOKUP_CACHE_H_
#define LAMELLA_INDEX_LOOKUP_CACHE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/annotations.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "pool/epoch.h"
#include "pool/pm_ptr.h"

namespace lamella {

class Pool;

class LookupCache {
 public:
  static constexpr uint32_t kWays = 8;  // one line a bucket
  /// Gives the hashes of the keys of the records at `places`; any value for one that cannot be
  /// read.
  using HashRecords = std::function<void(std::span<const PmPtr> places, uint64_t* hashes)>;

  /// At most `bytes_max`, rounded down to a power of two; 0 makes a cache that holds nothing.
  /// `memory` may be null.
  LookupCache(uint64_t bytes_max, EpochDomain* readers, HashRecords hash_records,
              MemoryAccount* memory = nullptr);
  ~LookupCache();
  LookupCache(const LookupCache&) = delete;
  LookupCache& operator=(const LookupCache&) = delete;

  bool enabled() const { return bytes_max_ != 0; }
  uint64_t bytes_max() const { return bytes_max_; }
  /// Of the arrays in use.
  uint64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

  /// The addresses that may be the key's; null ones fill up. Returns how many. REQUIRES: the caller
  /// is pinned in `readers`.
  uint32_t Find(uint64_t hash, std::array<PmPtr, kWays>* places) const {
    const Bucket* bucket = BucketAt(ArrayOf(hash), hash);
    if (bucket == nullptr) return 0;
    uint32_t n = 0;
    for (const auto& slot : bucket->slots) {
      // pairs with Put: the record is complete
      const uint64_t word = slot.load(std::memory_order_acquire);
      if ((word & kMatchMask) == Match(hash) && word != 0) (*places)[n++] = Place(word);
    }
    return n;
  }
  void Prefetch(uint64_t hash) const { __builtin_prefetch(BucketAt(ArrayOf(hash), hash)); }

  /// For flush, oldest table first: this is the newest version of its key in any table.
  void Put(uint64_t hash, PmPtr place);
  /// For readers: `generation` as it was before the search. Does nothing where another thread is in
  /// the way. True: Grow has become due.
  bool PutFound(uint64_t hash, PmPtr place, uint64_t generation);
  /// Forgets the address if it is there.
  void Remove(uint64_t hash, PmPtr place);
  /// Swaps a record's address after it was relocated; nothing if it is not there.
  void Replace(uint64_t hash, PmPtr from, PmPtr to);

  uint64_t generation() const { return generation_.load(std::memory_order_seq_cst); }
  /// To be called before a flush puts its records in, and after an element was unlinked and before
  /// it is removed here.
  void AdvanceGeneration() { generation_.fetch_add(1, std::memory_order_seq_cst); }

  /// Readers filled it and leave its growth to the background.
  bool GrowthDue() const { return growth_due_.load(std::memory_order_relaxed); }
  /// Grows what is due, as far as memory allows.
  void Grow();
  /// Halves it; what no longer fits goes, the oldest first.
  void Shrink();

 private:
  struct alignas(64) Bucket {
    std::atomic<uint64_t> slots[kWays];  // hash bits : 12 | part : 4 | offset : 48
  };
  /// Address of an array of buckets, which lies on a line, and in its low bits the log2 of their
  /// number; 0 is none.
  using Array = uint64_t;
  struct alignas(64) Stripe {
    Mutex mu;
    uint64_t used LAMELLA_GUARDED_BY(mu) = 0;       // slots that are not empty
    uint64_t displaced LAMELLA_GUARDED_BY(mu) = 0;  // entries that had no room
  };
  static constexpr uint64_t kMatchMask = ~uint64_t{0} << 52;
  static constexpr uint32_t kStripesMax = 16;
  static constexpr uint64_t kArrayLog2Mask = 63;

  static uint64_t Match(uint64_t hash) { return hash & kMatchMask; }
  static uint64_t Word(uint64_t hash, PmPtr place) {
    return Match(hash) | (uint64_t{place.part()} << 48) | place.offset();
  }
  static PmPtr Place(uint64_t word) {
    return PmPtr(static_cast<uint32_t>((word >> 48) & 0xf), word & PmPtr::kOffsetMask);
  }
  static uint64_t BucketCount(Array array) {
    return array == 0 ? 0 : uint64_t{1} << (array & kArrayLog2Mask);
  }
  static Bucket* Buckets(Array array) { return reinterpret_cast<Bucket*>(array & ~kArrayLog2Mask); }

  uint32_t StripeOf(uint64_t hash) const { return static_cast<uint32_t>(hash) & stripe_mask_; }
  uint64_t IndexOf(uint64_t hash, Array array) const {
    return (hash >> stripe_bits_) & (BucketCount(array) - 1);
  }
  // acquire pairs with Publish: the array is complete.
  Array ArrayOf(uint64_t hash) const {
    return arrays_[StripeOf(hash)].load(std::memory_order_acquire);
  }
  Bucket* BucketAt(Array array, uint64_t hash) const {
    return array == 0 ? nullptr : Buckets(array) + IndexOf(hash, array);
  }

  static Array NewArray(uint64_t buckets);
  static void FreeArray(Array array);
  /// True: the stripe should grow.
  bool PutLocked(Stripe* stripe, uint64_t hash, PmPtr place) LAMELLA_REQUIRES(stripe->mu);
  bool GrowStripe(uint32_t index, Stripe* stripe) LAMELLA_REQUIRES(stripe->mu);
  /// REQUIRES: the stripe's lock is held.
  EpochDomain::Retirement RetirementOf(Array old) const;
  void Publish(uint32_t index, Array array, EpochDomain::Retirement retirement);
  bool IsHalfFull(const Stripe& stripe, Array array) const LAMELLA_REQUIRES(stripe.mu) {
    return 2 * stripe.used >= kWays * BucketCount(array) &&
           BucketCount(array) < stripe_buckets_max_;
  }

  EpochDomain* const readers_;
  const HashRecords hash_records_;
  MemoryAccount* const memory_;
  uint64_t bytes_max_ = 0;           // constant after construction, as the next three
  uint64_t stripe_buckets_max_ = 0;  // a power of two or 0
  uint32_t stripe_mask_ = 0;
  uint32_t stripe_bits_ = 0;
  std::array<std::atomic<Array>, kStripesMax> arrays_{};  // changed under the stripe's lock
  std::atomic<uint64_t> memory_bytes_{0};
  std::atomic<bool> growth_due_{false};
  alignas(64) std::atomic<uint64_t> generation_{0};
  std::array<Stripe, kStripesMax> stripes_;
};

/// Of the keys of records in the pool, which outlives it.
LookupCache::HashRecords HashesOfRecords(const Pool* pool);

}  // namespace lamella

#endif  // LAMELLA_INDEX_LOOKUP_CACHE_H_
