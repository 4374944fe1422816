// Keys, values and the distributions that workloads draw from. All of it is deterministic in its
// seed.
#ifndef LAMELLA_BENCH_GENERATOR_H_
#define LAMELLA_BENCH_GENERATOR_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace lamella::bench {

/// Makes the key of an id: its decimal digits, zeros before them, so that ids and keys are in the
/// same order; a key wider than 16 bytes ends in zeros. Hashed, the id goes through a bijection
/// first, so that new ids fall anywhere. With `shared_bytes` all keys begin with so many equal
/// ones, and go on with digits to the base 64, so that few bytes have room for many ids.
class KeyMaker {
 public:
  static constexpr uint32_t kDigits = 16;
  KeyMaker(uint32_t key_bytes, bool hashed, uint32_t shared_bytes = 0)
      : key_bytes_(key_bytes),
        shared_bytes_(shared_bytes),
        digits_(std::min(key_bytes - shared_bytes, kDigits)),
        base_(shared_bytes == 0 ? kDecimal : kSextetBase),
        hashed_(hashed) {}

  uint32_t key_bytes() const { return key_bytes_; }
  /// True where there are as many keys as hashed ids.
  bool CanHash() const;
  /// The number of ids that have a key of this width, at most 10^16.
  uint64_t IdsMax() const;
  /// The view is of *buffer, which keeps it until the next call.
  std::string_view Make(uint64_t id, std::string* buffer) const;
  /// A key of the same width that no id has, beside that of `id` in the order.
  std::string_view MakeMissing(uint64_t id, std::string* buffer) const;

 private:
  static constexpr uint32_t kDecimal = 10;
  static constexpr uint32_t kSextetBase = 64;

  uint64_t Keys() const;

  const uint32_t key_bytes_;
  const uint32_t shared_bytes_;
  const uint32_t digits_;
  const uint32_t base_;
  const bool hashed_;
};

/// Values of one size cut from a pool of random bytes, which no compressor makes smaller; where the
/// cut is depends on the id, so that a value read can be checked against the id it was read by.
class ValueMaker {
 public:
  ValueMaker(uint32_t value_bytes, uint64_t seed);
  uint32_t value_bytes() const { return value_bytes_; }
  std::string_view Make(uint64_t id) const {
    return {pool_.data() + (MixBits(id) & (kPoolBytes - 1)), value_bytes_};
  }
  /// True where `value` has the size and begins with the bytes of the value of `id`.
  bool Matches(uint64_t id, std::string_view value) const {
    const std::string_view expected = Make(id);
    return value.size() == expected.size() &&
           std::memcmp(value.data(), expected.data(), value.size() < 8 ? value.size() : 8) == 0;
  }

 private:
  // stays in the second-level cache: values cost their copy, not their making
  static constexpr size_t kPoolBytes = 1 << 16;
  const uint32_t value_bytes_;
  std::string pool_;
};

enum class Distribution : uint8_t { kUniform, kZipfian, kLatest };

/// Ranks in [0, n), rank r about 1 / (r + 1)^theta as often as rank 0, by the method of Gray et al.
/// (SIGMOD 1994) that YCSB uses: exact for ranks 0 and 1, close for the others.
class Zipfian {
 public:
  static constexpr double kTheta = 0.99;  // YCSB's
  explicit Zipfian(uint64_t n, double theta = kTheta);
  uint64_t Next(Random* rng) const;
  /// The probability of `rank` in a true Zipfian distribution.
  double Probability(uint64_t rank) const;

 private:
  const uint64_t n_;
  const double theta_;
  double zeta_n_ = 0;
  double alpha_ = 0;
  double eta_ = 0;
  double second_ = 0;  // u * zeta below this is rank 1
};

/// Spreads ranks over [0, n), as YCSB's scrambled Zipfian does: popular keys lie anywhere.
inline uint64_t Scramble(uint64_t rank, uint64_t n) { return MixBits(rank + 0x5bd1e995u) % n; }

/// The numbers [0, n) in an order that `seed` gives.
std::vector<uint32_t> Permutation(uint32_t n, uint64_t seed);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_GENERATOR_H_
