#include "index/lookup_cache.h"

#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

#include <bit>

namespace lamella {

class LookupCache::BucketLock {
 public:
  // By bucket: of a cache with fewer buckets than locks, too, every one has a single lock.
  BucketLock(const LookupCache* cache, uint64_t hash)
      : lock_(cache->locks_[hash & (cache->bucket_count_ - 1) & (kLockCount - 1)]) {
    int spins = 0;
    while (lock_.exchange(true, std::memory_order_acquire)) {
      _mm_pause();
      if (++spins % 256 == 0) sched_yield();
    }
  }
  ~BucketLock() { lock_.store(false, std::memory_order_release); }
  BucketLock(const BucketLock&) = delete;
  BucketLock& operator=(const BucketLock&) = delete;

 private:
  std::atomic<bool>& lock_;
};

LookupCache::LookupCache(uint64_t bytes) {
  const uint64_t buckets = std::bit_floor(bytes / sizeof(Bucket));
  if (buckets == 0) return;
  // Anonymous pages are zero and cost memory when first written; huge ones save a TLB miss per probe.
  void* p = ::mmap(nullptr, buckets * sizeof(Bucket), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return;  // a cache may be absent
  ::madvise(p, buckets * sizeof(Bucket), MADV_HUGEPAGE);
  buckets_ = static_cast<Bucket*>(p);
  bucket_count_ = buckets;
}

LookupCache::~LookupCache() {
  if (buckets_ != nullptr) ::munmap(buckets_, bucket_count_ * sizeof(Bucket));
}

// Drops every slot whose hash bits are the same (it may be an older version of the key; rarely it is another key), and lets the
// newest in at the front: first in, first out.
void LookupCache::PutLocked(Bucket* bucket, uint64_t hash, PmPtr place) {
  uint64_t carried = Word(hash, place);
  for (auto& slot : bucket->slots) {
    const uint64_t word = slot.load(std::memory_order_relaxed);
    slot.store(carried, std::memory_order_release);
    if (word == 0 || (word & kMatchMask) == Match(hash)) {
      carried = 0;
      break;
    }
    carried = word;
  }
  // A later slot may still hold the same hash bits.
  bool first = true;
  for (auto& slot : bucket->slots) {
    const uint64_t word = slot.load(std::memory_order_relaxed);
    if ((word & kMatchMask) != Match(hash) || word == 0) continue;
    if (!first) slot.store(0, std::memory_order_release);
    first = false;
  }
}

void LookupCache::Put(uint64_t hash, PmPtr place) {
  if (bucket_count_ == 0) return;
  const BucketLock lock(this, hash);
  PutLocked(&BucketOf(hash), hash, place);
}

void LookupCache::PutFound(uint64_t hash, PmPtr place, uint64_t generation) {
  if (bucket_count_ == 0) return;
  const BucketLock lock(this, hash);
  if (generation_.load(std::memory_order_seq_cst) != generation) return;  // keeps I2 and I3
  PutLocked(&BucketOf(hash), hash, place);
}

void LookupCache::Remove(uint64_t hash, PmPtr place) { Replace(hash, place, PmPtr()); }

void LookupCache::Replace(uint64_t hash, PmPtr from, PmPtr to) {
  if (bucket_count_ == 0) return;
  const BucketLock lock(this, hash);
  for (auto& slot : BucketOf(hash).slots) {
    if (slot.load(std::memory_order_relaxed) == Word(hash, from)) {
      slot.store(to ? Word(hash, to) : 0, std::memory_order_release);
    }
  }
}

}  // namespace lamella
