#include "bench/generator.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace lamella::bench {
namespace {

TEST(KeyMaker, KeysSortAsIdsDo) {
  const KeyMaker keys(16, false);
  std::string a, b;
  for (uint64_t id : {uint64_t{0}, uint64_t{9}, uint64_t{10}, uint64_t{99}, uint64_t{123456},
                      uint64_t{9999999999}}) {
    EXPECT_LT(keys.Make(id, &a), keys.Make(id + 1, &b));
    EXPECT_EQ(a.size(), 16u);
  }
  EXPECT_EQ(keys.Make(42, &a), "0000000000000042");
}

TEST(KeyMaker, WideKeysEndInZeros) {
  const KeyMaker keys(20, false);
  std::string a;
  EXPECT_EQ(keys.Make(7, &a), "00000000000000070000");
}

TEST(KeyMaker, KeysThatShareBytesSortAsIdsDo) {
  const KeyMaker keys(24, false, 20);
  EXPECT_EQ(keys.IdsMax(), uint64_t{64} * 64 * 64 * 64);
  std::string key, before, missing;
  for (uint64_t id = 0; id < 5000; id++) {
    before = key;
    keys.Make(id * 3001, &key);
    ASSERT_EQ(key.size(), 24u);
    EXPECT_EQ(key.substr(0, 20), std::string(20, '0'));
    EXPECT_GT(key, before);
    EXPECT_GT(keys.MakeMissing(id * 3001, &missing), key);
  }
  EXPECT_TRUE(KeyMaker(29, true, 20).CanHash());
  EXPECT_FALSE(KeyMaker(28, true, 20).CanHash());
}

TEST(KeyMaker, HashedKeysAreDistinctAndFallAnywhere) {
  const KeyMaker keys(16, true);
  std::set<std::string> seen;
  std::string key;
  uint64_t rising = 0;
  std::string last;
  for (uint64_t id = 0; id < 20000; id++) {
    keys.Make(id, &key);
    EXPECT_TRUE(std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; }))
        << key;
    seen.insert(key);
    rising += key > last ? 1 : 0;
    last = key;
  }
  EXPECT_EQ(seen.size(), 20000u);
  EXPECT_NEAR(static_cast<double>(rising), 10000.0, 600.0);
}

TEST(KeyMaker, MissingKeysAreNoIdsKeys) {
  const KeyMaker keys(16, false);
  std::set<std::string> all;
  std::string key, missing, next;
  for (uint64_t id = 0; id < 1000; id++) all.emplace(keys.Make(id, &key));
  for (uint64_t id = 0; id < 1000; id++) {
    keys.MakeMissing(id, &missing);
    EXPECT_EQ(missing.size(), 16u);
    EXPECT_EQ(all.count(missing), 0u);
    EXPECT_GT(missing, keys.Make(id, &key));
  }
  keys.MakeMissing(3, &missing);
  EXPECT_LT(missing, keys.Make(10, &next));
}

TEST(ValueMaker, ValuesMatchTheirIdAndNoOther) {
  const ValueMaker values(100, 1);
  uint64_t confused = 0;
  for (uint64_t id = 0; id < 1000; id++) {
    EXPECT_TRUE(values.Matches(id, values.Make(id)));
    confused += values.Matches(id, values.Make(id + 1)) ? 1 : 0;
    EXPECT_FALSE(values.Matches(id, values.Make(id).substr(0, 99)));
  }
  EXPECT_LE(confused, 3u);  // two ids may be cut at the same place: 1 in 65,536
}

TEST(ValueMaker, BytesAreSpreadEvenly) {
  const ValueMaker values(4096, 2);
  std::array<uint64_t, 256> counts{};
  for (uint64_t id = 0; id < 256; id++) {
    for (char c : values.Make(id)) counts[static_cast<unsigned char>(c)]++;
  }
  double entropy = 0;
  for (uint64_t count : counts) {
    const double p = static_cast<double>(count) / (256.0 * 4096.0);
    if (p > 0) entropy -= p * std::log2(p);
  }
  EXPECT_GT(entropy, 7.9);  // of 8 bits: nothing for a compressor to find
}

TEST(Zipfian, FrequenciesAreThoseOfTheory) {
  constexpr uint64_t kItems = 1000, kDraws = 400'000;
  const Zipfian zipfian(kItems);
  Random random(3);
  std::vector<uint64_t> counts(kItems);
  for (uint64_t i = 0; i < kDraws; i++) counts[zipfian.Next(&random)]++;
  const auto share = [&](uint64_t rank) { return static_cast<double>(counts[rank]) / kDraws; };
  // The two that the method draws exactly: within five standard deviations.
  for (uint64_t rank : {uint64_t{0}, uint64_t{1}}) {
    const double p = zipfian.Probability(rank);
    EXPECT_NEAR(share(rank), p, 5 * std::sqrt(p * (1 - p) / kDraws)) << rank;
  }
  // The others by their cumulative share.
  double seen = 0, expected = 0;
  for (uint64_t rank = 0; rank < kItems; rank++) {
    seen += share(rank);
    expected += zipfian.Probability(rank);
    if (rank == 9 || rank == 99 || rank == 499) {
      EXPECT_NEAR(seen, expected, 0.02) << rank;
    }
  }
  EXPECT_NEAR(seen, 1.0, 1e-9);
}

TEST(Zipfian, UniformDrawsWouldFailTheSameTest) {  // the negative control of the test above
  const Zipfian zipfian(1000);
  EXPECT_GT(std::fabs(zipfian.Probability(0) - 1.0 / 1000), 0.1);
}

TEST(Zipfian, TinySetsStayInRange) {
  for (uint64_t items : {1u, 2u, 3u}) {
    const Zipfian zipfian(items);
    Random random(4);
    for (int i = 0; i < 1000; i++) EXPECT_LT(zipfian.Next(&random), items);
  }
}

TEST(Scramble, PopularRanksLieApart) {
  std::set<uint64_t> places;
  for (uint64_t rank = 0; rank < 100; rank++) places.insert(Scramble(rank, 1'000'000) / 10'000);
  EXPECT_GT(places.size(), 50u);
}

TEST(Permutation, HoldsEveryNumberOnceInAnOrderOfItsSeed) {
  std::vector<uint32_t> a = Permutation(10'000, 1);
  EXPECT_EQ(a, Permutation(10'000, 1));
  EXPECT_NE(a, Permutation(10'000, 2));
  EXPECT_FALSE(std::is_sorted(a.begin(), a.end()));
  std::sort(a.begin(), a.end());
  for (uint32_t i = 0; i < a.size(); i++) EXPECT_EQ(a[i], i);
}

}  // namespace
}  // namespace lamella::bench
