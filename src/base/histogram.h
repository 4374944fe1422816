// Histogram counts durations (or sizes) in log-linear buckets: 64 per power of two, so a quantile
// is within 1.6 %. The layout is HdrHistogram's with two significant figures; Debian 12 has no
// package of it for C++.
// Threads: one thread at a time; Merge to combine the histograms of several.
#ifndef LAMELLA_BASE_HISTOGRAM_H_
#define LAMELLA_BASE_HISTOGRAM_H_

#include <cstdint>
#include <vector>

namespace lamella {

class Histogram {
 public:
  Histogram();
  void Add(uint64_t value);
  void Merge(const Histogram& other);
  void Clear();
  uint64_t count() const { return count_; }
  uint64_t min() const { return count_ == 0 ? 0 : min_; }
  uint64_t max() const { return max_; }
  double Mean() const {
    return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  /// The value that a share `q` (0..1) of the added values is at or below; 0 when empty.
  uint64_t Quantile(double q) const;

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t min_ = ~uint64_t{0};
  uint64_t max_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_BASE_HISTOGRAM_H_
