#include "bench/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lamella::bench {
namespace {

constexpr uint64_t kTenTo16 = 10'000'000'000'000'000u;
constexpr uint64_t kHashedBits = 53;  // 2^53 < 10^16: every hashed id has 16 digits or fewer
constexpr uint64_t kHashedMask = (uint64_t{1} << kHashedBits) - 1;

// An odd factor and a shift-xor are bijections of the numbers below 2^53; two rounds leave no
// visible order.
uint64_t HashId(uint64_t id) {
  uint64_t x = id & kHashedMask;
  for (int round = 0; round < 2; round++) {
    x = (x * 0x9e3779b97f4a7c15u) & kHashedMask;
    x ^= x >> 27;
  }
  return x;
}

// By a constant, which costs a tenth of dividing by a variable: as much as a put's copying.
template <uint32_t base>
void WriteDigits(uint64_t number, char* digits, uint32_t count) {
  for (uint32_t i = count; i > 0; i--, number /= base)
    digits[i - 1] = static_cast<char>('0' + number % base);
}

}  // namespace

uint64_t KeyMaker::Keys() const {
  uint64_t keys = 1;
  for (uint32_t i = 0; i < digits_ && keys < kTenTo16; i++) keys *= base_;
  return std::min(keys, kTenTo16);
}

bool KeyMaker::CanHash() const { return Keys() > kHashedMask; }

uint64_t KeyMaker::IdsMax() const { return hashed_ ? kHashedMask + 1 : Keys(); }

std::string_view KeyMaker::Make(uint64_t id, std::string* buffer) const {
  if (buffer->size() != key_bytes_) buffer->assign(key_bytes_, '0');
  const uint64_t rest = hashed_ ? HashId(id) : id;
  char* const digits = buffer->data() + shared_bytes_;
  if (base_ == kDecimal) {
    WriteDigits<kDecimal>(rest, digits, digits_);
  } else {
    WriteDigits<kSextetBase>(rest, digits, digits_);
  }
  return *buffer;
}

std::string_view KeyMaker::MakeMissing(uint64_t id, std::string* buffer) const {
  Make(id, buffer);
  char& last = (*buffer)[shared_bytes_ + digits_ - 1];
  last = static_cast<char>(last + base_);  // no digit, and greater than each of them
  return *buffer;
}

ValueMaker::ValueMaker(uint32_t value_bytes, uint64_t seed) : value_bytes_(value_bytes) {
  Random rng(seed);
  pool_.resize(kPoolBytes + value_bytes + 8);
  for (size_t i = 0; i + 8 <= pool_.size(); i += 8) {
    const uint64_t bits = rng.Next();
    std::memcpy(pool_.data() + i, &bits, 8);
  }
}

Zipfian::Zipfian(uint64_t n, double theta) : n_(n), theta_(theta) {
  for (uint64_t i = 1; i <= n; i++) zeta_n_ += std::pow(static_cast<double>(i), -theta);
  const double zeta_2 = 1.0 + std::pow(0.5, theta);
  alpha_ = 1.0 / (1.0 - theta);
  eta_ = (1.0 - std::pow(2.0 / static_cast<double>(n), 1.0 - theta)) / (1.0 - zeta_2 / zeta_n_);
  second_ = zeta_2;
}

uint64_t Zipfian::Next(Random* rng) const {
  const double u = rng->NextDouble();
  const double scaled = u * zeta_n_;
  if (scaled < 1.0 || n_ == 1) return 0;
  if (scaled < second_ || n_ == 2) return 1;
  const double rank = static_cast<double>(n_) * std::pow(eta_ * u - eta_ + 1.0, alpha_);
  return std::min(static_cast<uint64_t>(rank), n_ - 1);
}

double Zipfian::Probability(uint64_t rank) const {
  return std::pow(static_cast<double>(rank + 1), -theta_) / zeta_n_;
}

std::vector<uint32_t> Permutation(uint32_t n, uint64_t seed) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  Random rng(seed);
  for (uint32_t i = n; i > 1; i--) std::swap(order[i - 1], order[rng.Uniform(i)]);
  return order;
}

}  // namespace lamella::bench
