#include "index/lookup_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <optional>

#include "base/hash.h"
#include "log/record.h"
#include "pool/pool.h"

namespace lamella {

LookupCache::LookupCache(uint64_t bytes_max, EpochDomain* readers, HashRecords hash_records,
                         MemoryAccount* memory)
    : readers_(readers), hash_records_(std::move(hash_records)), memory_(memory) {
  const uint64_t buckets = std::bit_floor(bytes_max / sizeof(Bucket));
  if (buckets == 0) return;
  const uint64_t stripes = std::min<uint64_t>(buckets, kStripesMax);
  bytes_max_ = buckets * sizeof(Bucket);
  stripe_buckets_max_ = buckets / stripes;
  stripe_mask_ = static_cast<uint32_t>(stripes - 1);
  stripe_bits_ = static_cast<uint32_t>(std::countr_zero(stripes));
}

LookupCache::~LookupCache() {
  for (const auto& word : arrays_) FreeArray(word.load(std::memory_order_relaxed));
  if (memory_ != nullptr) memory_->Release(memory_bytes());
}

// 0 where there is no memory: a cache may do without. Large arrays lie in huge pages, which saves a
// TLB miss per probe.
LookupCache::Array LookupCache::NewArray(uint64_t buckets) {
  constexpr size_t kHugePageBytes = 2 << 20;
  const size_t bytes = buckets * sizeof(Bucket);
  const bool huge = bytes % kHugePageBytes == 0;
  void* p = std::aligned_alloc(huge ? kHugePageBytes : alignof(Bucket), bytes);
  if (p == nullptr) return 0;
  if (huge) ::madvise(p, bytes, MADV_HUGEPAGE);  // a wish
  auto* const array = static_cast<Bucket*>(p);
  for (uint64_t i = 0; i < buckets; i++) new (array + i) Bucket{};
  return reinterpret_cast<Array>(p) | static_cast<uint64_t>(std::countr_zero(buckets));
}

void LookupCache::FreeArray(Array array) { std::free(Buckets(array)); }

EpochDomain::Retirement LookupCache::RetirementOf(Array old) const {
  return EpochDomain::Retirement([old, memory = memory_] {  // keeps I4
    FreeArray(old);
    if (memory != nullptr) memory->Release(BucketCount(old) * sizeof(Bucket));
  });
}

void LookupCache::Publish(uint32_t index, Array array, EpochDomain::Retirement retirement) {
  const Array old = arrays_[index].load(std::memory_order_relaxed);
  const uint64_t old_bytes = BucketCount(old) * sizeof(Bucket);
  memory_bytes_.fetch_add(BucketCount(array) * sizeof(Bucket) - old_bytes,
                          std::memory_order_relaxed);
  arrays_[index].store(array, std::memory_order_release);  // pairs with ArrayOf
  if (old != 0) readers_->Retire(std::move(retirement));
}

// Every bucket becomes two. Its entries are living records' (I3), and their keys say which of the
// two is theirs. What does not belong into the bucket is damage that came since it was put in, and
// goes. False where there is no memory, or too little.
bool LookupCache::GrowStripe(uint32_t index, Stripe* stripe) {
  const Array old = arrays_[index].load(std::memory_order_relaxed);
  const uint64_t count = std::max<uint64_t>(1, 2 * BucketCount(old));
  if (count > stripe_buckets_max_) return false;
  const uint64_t bytes = count * sizeof(Bucket);
  std::optional<EpochDomain::Retirement> retirement;
  try {
    retirement = RetirementOf(old);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (memory_ != nullptr && !memory_->TryCharge(bytes)) return false;
  const Array fresh = NewArray(count);
  if (fresh == 0) {
    if (memory_ != nullptr) memory_->Release(bytes);
    return false;
  }
  constexpr uint64_t kBucketsAtOnce = 8;  // their records' lines arrive side by side
  stripe->used = 0;
  for (uint64_t first = 0; first < BucketCount(old); first += kBucketsAtOnce) {
    std::array<PmPtr, kBucketsAtOnce * kWays> places;
    std::array<uint64_t, kBucketsAtOnce * kWays> words;
    std::array<uint64_t, kBucketsAtOnce * kWays> hashes;
    std::array<uint64_t, kBucketsAtOnce * kWays> from;
    size_t n = 0;
    for (uint64_t b = first; b < std::min(first + kBucketsAtOnce, BucketCount(old)); b++) {
      for (const auto& slot : Buckets(old)[b].slots) {
        const uint64_t word = slot.load(std::memory_order_relaxed);
        if (word == 0) continue;
        from[n] = b;
        words[n] = word;
        places[n++] = Place(word);
      }
    }
    hash_records_(std::span(places).first(n), hashes.data());
    for (size_t i = 0; i < n; i++) {
      const uint64_t hash = hashes[i];
      if (Match(hash) != (words[i] & kMatchMask) || StripeOf(hash) != index ||
          IndexOf(hash, old) != from[i])
        continue;
      for (auto& slot : BucketAt(fresh, hash)->slots) {  // newest first, as they were
        if (slot.load(std::memory_order_relaxed) != 0) continue;
        slot.store(words[i], std::memory_order_relaxed);
        stripe->used++;
        break;
      }
    }
  }
  Publish(index, fresh, std::move(*retirement));
  return true;
}

void LookupCache::Grow() {
  growth_due_.store(false, std::memory_order_relaxed);
  for (uint32_t i = 0; enabled() && i <= stripe_mask_; i++) {
    Stripe& stripe = stripes_[i];
    MutexLock lock(&stripe.mu);
    while (IsHalfFull(stripe, arrays_[i].load(std::memory_order_relaxed)) &&
           GrowStripe(i, &stripe)) {
    }
  }
}

// Two buckets become one, which takes the newest of both: those at the front of each.
void LookupCache::Shrink() {
  for (uint32_t i = 0; enabled() && i <= stripe_mask_; i++) {
    Stripe& stripe = stripes_[i];
    MutexLock lock(&stripe.mu);
    const Array old = arrays_[i].load(std::memory_order_relaxed);
    if (old == 0) continue;
    const uint64_t count = BucketCount(old) / 2;
    EpochDomain::Retirement retirement = RetirementOf(old);
    const Array fresh = count == 0 ? 0 : NewArray(count);
    // for what goes, which is more
    if (fresh != 0 && memory_ != nullptr) memory_->Charge(count * sizeof(Bucket));
    stripe.used = 0;
    for (uint64_t b = 0; fresh != 0 && b < count; b++) {
      std::array<uint64_t, kWays> kept{};
      size_t n = 0;
      for (uint32_t way = 0; way < kWays; way++) {
        for (const uint64_t half : {b, b + count}) {
          const uint64_t word = Buckets(old)[half].slots[way].load(std::memory_order_relaxed);
          if (word != 0 && n < kWays) kept[n++] = word;
        }
      }
      for (size_t way = 0; way < n; way++)
        Buckets(fresh)[b].slots[way].store(kept[way], std::memory_order_relaxed);
      stripe.used += n;
    }
    Publish(i, fresh, std::move(retirement));
  }
}

// Drops every slot whose hash bits are the same (it may be an older version of the key; rarely it
// is another key), and lets the newest in at the front: first in, first out.
bool LookupCache::PutLocked(Stripe* stripe, uint64_t hash, PmPtr place) {
  const Array array = ArrayOf(hash);
  Bucket* const bucket = BucketAt(array, hash);
  if (bucket == nullptr) return true;
  uint64_t carried = Word(hash, place);
  bool entered_empty = false;
  for (auto& slot : bucket->slots) {
    const uint64_t word = slot.load(std::memory_order_relaxed);
    slot.store(carried, std::memory_order_release);
    if (word == 0 || (word & kMatchMask) == Match(hash)) {
      entered_empty = word == 0;
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
    if (!first) {
      slot.store(0, std::memory_order_release);
      stripe->used--;
    }
    first = false;
  }
  // Where growing was refused, it is tried again now and then.
  constexpr uint64_t kRetryEvery = 64;
  if (entered_empty) stripe->used++;
  if (!entered_empty && (carried == 0 || ++stripe->displaced % kRetryEvery != 0)) return false;
  return IsHalfFull(*stripe, array);
}

void LookupCache::Put(uint64_t hash, PmPtr place) {
  if (!enabled()) return;
  const uint32_t index = StripeOf(hash);
  Stripe& stripe = stripes_[index];
  MutexLock lock(&stripe.mu);
  const bool was_empty = ArrayOf(hash) == 0;
  if (PutLocked(&stripe, hash, place) && GrowStripe(index, &stripe) && was_empty)
    PutLocked(&stripe, hash, place);
}

bool LookupCache::PutFound(uint64_t hash, PmPtr place, uint64_t generation) {
  if (!enabled()) return false;
  Stripe& stripe = stripes_[StripeOf(hash)];
  if (!stripe.mu.try_lock()) return false;
  bool due = false;
  if (generation_.load(std::memory_order_seq_cst) == generation) {  // keeps I2 and I3
    due = PutLocked(&stripe, hash, place);
  }
  stripe.mu.unlock();
  return due && !growth_due_.exchange(true, std::memory_order_relaxed);
}

void LookupCache::Remove(uint64_t hash, PmPtr place) { Replace(hash, place, PmPtr()); }

void LookupCache::Replace(uint64_t hash, PmPtr from, PmPtr to) {
  if (!enabled()) return;
  Stripe& stripe = stripes_[StripeOf(hash)];
  MutexLock lock(&stripe.mu);
  Bucket* const bucket = BucketAt(ArrayOf(hash), hash);
  if (bucket == nullptr) return;
  for (auto& slot : bucket->slots) {
    if (slot.load(std::memory_order_relaxed) != Word(hash, from)) continue;
    slot.store(to ? Word(hash, to) : 0, std::memory_order_release);
    if (!to) stripe.used--;
  }
}

// Damage may have made a record's size one that leads out of the pool.
LookupCache::HashRecords HashesOfRecords(const Pool* pool) {
  return [pool](std::span<const PmPtr> places, uint64_t* hashes) {
    for (const PmPtr place : places) PrefetchRecord<2>(pool->Address(place));
    for (size_t i = 0; i < places.size(); i++) {
      const Record* const record = pool->At<Record>(places[i]);
      hashes[i] = pool->Contains(places[i], record->bytes()) ? Hash64(record->key()) : 0;
    }
  };
}

}  // namespace lamella
