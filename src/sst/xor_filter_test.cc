#include "sst/xor_filter.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/random.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

using testing::TestSeed;

std::string FilterOf(std::vector<uint64_t> hashes) {
  std::string filter;
  AppendXorFilter(&filter, &hashes);
  return filter;
}

std::vector<uint64_t> RandomHashes(Random* random, size_t count) {
  std::vector<uint64_t> hashes(count);
  for (uint64_t& hash : hashes) hash = random->Next();
  return hashes;
}

// X1.
TEST(XorFilter, NeverDeniesWhatItHolds) {
  Random random(TestSeed());
  for (size_t count = 0; count < 300; count++) {
    const std::vector<uint64_t> hashes = RandomHashes(&random, count);
    const std::string filter = FilterOf(hashes);
    ASSERT_EQ(filter.size(), XorFilterBytes(count));
    for (const uint64_t hash : hashes) ASSERT_TRUE(XorFilterMayHold(filter, hash)) << count;
  }
  std::vector<uint64_t> hashes = RandomHashes(&random, 200000);
  hashes.insert(hashes.end(), hashes.begin(), hashes.begin() + 1000);  // equal hashes
  const std::string filter = FilterOf(hashes);
  ASSERT_EQ(filter.size(), XorFilterBytes(200000));
  for (const uint64_t hash : hashes) ASSERT_TRUE(XorFilterMayHold(filter, hash));
}

TEST(XorFilter, LetsFewerPassThanABloomFilterOf10BitsPerKey) {
  Random random(TestSeed());
  // Seven hash functions, the best for 10 bits.
  const double bloom = std::pow(1 - std::exp(-0.7), 7);
  for (const size_t count : {1500, 20000, 300000}) {
    const std::string filter = FilterOf(RandomHashes(&random, count));
    EXPECT_LE(static_cast<double>(filter.size()) * 8 / static_cast<double>(count), 10.1) << count;
    const int asked = 1000000;
    int passed = 0;
    for (int i = 0; i < asked; i++) passed += XorFilterMayHold(filter, random.Next()) ? 1 : 0;
    EXPECT_LT(static_cast<double>(passed) / asked, bloom * 0.6) << count;
    EXPECT_GT(passed, 0);  // what would pass nothing is not this filter
  }
}

TEST(XorFilter, BytesThatAreNoneLetAllPass) {
  Random random(TestSeed());
  const std::string filter = FilterOf(RandomHashes(&random, 100));
  int denied = 0;
  for (int i = 0; i < 200; i++) denied += XorFilterMayHold(filter, random.Next()) ? 0 : 1;
  EXPECT_GT(denied, 150);
  for (size_t size = 0; size < filter.size(); size++) {
    for (int i = 0; i < 20; i++)
      ASSERT_TRUE(XorFilterMayHold(std::string_view(filter).substr(0, size), random.Next()));
  }
}

}  // namespace
}  // namespace lamella
