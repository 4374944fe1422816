#include "testing/random_data.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lamella::testing {
namespace {

// The digits of `index` in base `base`, most significant first, at least one.
std::string Digits(uint64_t index, uint64_t base, const char* digits) {
  std::string out;
  do {
    out.push_back(digits[index % base]);
    index /= base;
  } while (index != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

uint64_t TestSeed() {
  constexpr uint64_t kEveryRun = 20261121;
  const char* set = std::getenv("LAMELLA_TEST_SEED");
  const uint64_t seed = set != nullptr ? std::strtoull(set, nullptr, 0) : kEveryRun;
  std::printf("seed: LAMELLA_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

std::string MakeKey(KeyShape shape, uint64_t index) {
  switch (shape) {
    case KeyShape::kShort:
      return Digits(index, 26, "abcdefghijklmnopqrstuvwxyz");
    case KeyShape::kCommonPrefix: {
      char number[24];
      std::snprintf(number, sizeof(number), "%08llu", static_cast<unsigned long long>(index));
      return "/tenant/eu/warehouse/0042/table/orders/" + std::string(number);
    }
    case KeyShape::kBinary: {
      // Four digits that stand at the ends of the byte range, where signed compares and C strings
      // go wrong.
      static const char kBytes[] = {'\0', '\x01', '\x7f', '\x80', '\xfe', '\xff'};
      return Digits(index, sizeof(kBytes), kBytes);
    }
    case KeyShape::kMixed:
      break;
  }
  // Different shapes get different first bytes, so that keys of different shapes differ.
  const uint64_t kind = index % 3;
  if (kind == 0) return "s" + MakeKey(KeyShape::kShort, index / 3);
  if (kind == 1) return MakeKey(KeyShape::kCommonPrefix, index / 3);
  return "\xff" + MakeKey(KeyShape::kBinary, index / 3);
}

std::string MakeNearKey(KeyShape shape, Random* random, uint64_t index_count) {
  std::string key = MakeKey(shape, random->Uniform(index_count + 2));
  switch (random->Uniform(4)) {
    case 0:
      key.push_back('\0');
      break;
    case 1:
      key.push_back('\xff');
      break;
    case 2:
      if (key.size() > 1) key.pop_back();
      break;
    default:
      key.back() = static_cast<char>(key.back() + 1);
      break;
  }
  return key;
}

std::string MakeValue(uint64_t id, size_t size) {
  std::string value(size, '\0');
  Random random(id);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::memcpy(value.data() + at, &word, std::min(sizeof(word), size - at));
  }
  return value;
}

uint64_t Between(Random* random, uint64_t low, uint64_t high) {
  return low + random->Uniform(high - low + 1);
}

size_t ValueSize(Random* random, size_t max) {
  const uint64_t kind = random->Uniform(8);
  if (kind == 0) return 0;
  if (kind < 7) return Between(random, 1, std::min<size_t>(100, max));
  return Between(random, 1, max);
}

}  // namespace lamella::testing
