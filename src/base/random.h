// Random is a small fast pseudo-random generator (xoshiro256**, seeded through SplitMix64): tower
// heights, tests, workloads. The same seed gives the same numbers on every machine. Not for
// secrets.
// Threads: one thread at a time.
#ifndef LAMELLA_BASE_RANDOM_H_
#define LAMELLA_BASE_RANDOM_H_

#include <bit>
#include <cstdint>

namespace lamella {

/// One step of SplitMix64: a bijection that spreads every input bit over the output.
constexpr uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit constexpr Random(uint64_t seed) {
    for (uint64_t& word : state_) {
      word = MixBits(seed);
      seed += 0x9e3779b97f4a7c15ull;
    }
  }

  /// 64 random bits.
  constexpr uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  /// Uniform in [0, n). REQUIRES: n > 0. The bias is below n / 2^64.
  constexpr uint64_t Uniform(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
  }
  /// True once in n times.
  constexpr bool OneIn(uint64_t n) { return Uniform(n) == 0; }
  /// Uniform in [0, 1).
  constexpr double NextDouble() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_[4] = {};
};

}  // namespace lamella

#endif  // LAMELLA_BASE_RANDOM_H_
