#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lamella {
namespace {

// A value below 128 has a bucket of its own. Above, its highest seven bits and their shift name the
// bucket.
constexpr int kSubBits = 6;
constexpr uint64_t kSubCount = uint64_t{1} << kSubBits;
constexpr size_t kBucketCount = (64 - kSubBits) * kSubCount + kSubCount;

size_t BucketOf(uint64_t value) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kSubBits - 1);
  return static_cast<size_t>(static_cast<uint64_t>(shift) * kSubCount + (value >> shift));
}

// The largest value of a bucket.
uint64_t BucketEnd(size_t bucket) {
  if (bucket < 2 * kSubCount) return bucket;
  const uint64_t shift = bucket / kSubCount - 1;
  const uint64_t head = bucket % kSubCount + kSubCount;
  return ((head + 1) << shift) - 1;
}

}  // namespace

Histogram::Histogram() : buckets_(kBucketCount) {}

void Histogram::Add(uint64_t value) {
  buckets_[BucketOf(value)]++;
  count_++;
  sum_ += value;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBucketCount; i++) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

void Histogram::Clear() { *this = Histogram(); }

uint64_t Histogram::Quantile(double q) const {
  if (count_ == 0) return 0;
  if (q <= 0) return min_;
  if (q >= 1) return max_;
  const auto rank =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(q * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBucketCount; i++) {
    seen += buckets_[i];
    if (seen >= rank) return std::clamp(BucketEnd(i), min_, max_);
  }
  return max_;
}

}  // namespace lamella
