// LookupCacheFiller puts many records into a LookupCache, each a few after it was named, so that
// the buckets' lines arrive in time.
// Threads: one.
#ifndef LAMELLA_INDEX_LOOKUP_CACHE_FILLER_H_
#define LAMELLA_INDEX_LOOKUP_CACHE_FILLER_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "index/lookup_cache.h"

namespace lamella {

/// `put(hash, place)` is what becomes of each.
template <class Put>
class LookupCacheFiller {
 public:
  /// The cache outlives it.
  LookupCacheFiller(const LookupCache* cache, Put put) : cache_(cache), put_(std::move(put)) {}
  /// All that was added is put.
  ~LookupCacheFiller() {
    for (size_t i = 0; i < kDelay; i++) Rotate(0, PmPtr());
  }
  LookupCacheFiller(const LookupCacheFiller&) = delete;
  LookupCacheFiller& operator=(const LookupCacheFiller&) = delete;

  void Add(uint64_t hash, PmPtr place) {
    cache_->Prefetch(hash);
    Rotate(hash, place);
  }

 private:
  static constexpr size_t kDelay = 8;

  void Rotate(uint64_t hash, PmPtr place) {
    auto& [old_hash, old_place] = ring_[next_++ % kDelay];
    if (old_place) put_(old_hash, old_place);
    old_hash = hash;
    old_place = place;
  }

  const LookupCache* const cache_;
  Put put_;
  std::pair<uint64_t, PmPtr> ring_[kDelay];
  size_t next_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_LOOKUP_CACHE_FILLER_H_
