#include "base/histogram.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (uint64_t value = 1; value <= 100; value++) histogram.Add(value);
  EXPECT_EQ(histogram.count(), 100u);
  EXPECT_EQ(histogram.min(), 1u);
  EXPECT_EQ(histogram.max(), 100u);
  EXPECT_DOUBLE_EQ(histogram.Mean(), 50.5);
  EXPECT_EQ(histogram.Quantile(0.5), 50u);
  EXPECT_EQ(histogram.Quantile(0.99), 99u);
  EXPECT_EQ(histogram.Quantile(0.0), 1u);
  EXPECT_EQ(histogram.Quantile(1.0), 100u);
}

TEST(Histogram, QuantilesAreWithinOnePointSixPercent) {
  Random random(11);
  Histogram histogram;
  std::vector<uint64_t> values;
  for (int i = 0; i < 20000; i++) {
    values.push_back(random.Next() >> random.Uniform(60));  // all magnitudes
    histogram.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999}) {
    const auto rank = static_cast<size_t>(q * static_cast<double>(values.size()) + 0.9999);
    const auto exact = static_cast<double>(values[std::max<size_t>(rank, 1) - 1]);
    const auto found = static_cast<double>(histogram.Quantile(q));
    EXPECT_GE(found, exact) << q;
    EXPECT_LE(found, exact * (1 + 1.0 / 64) + 1) << q;
  }
}

TEST(Histogram, ExtremesHaveBuckets) {
  Histogram histogram;
  histogram.Add(0);
  histogram.Add(~uint64_t{0});
  EXPECT_EQ(histogram.Quantile(0.5), 0u);
  EXPECT_EQ(histogram.Quantile(0.99), ~uint64_t{0});
}

TEST(Histogram, MergeEqualsOneHistogramOfAll) {
  Random random(12);
  Histogram all;
  Histogram parts[3];
  for (int i = 0; i < 3000; i++) {
    const uint64_t value = random.Uniform(1'000'000);
    all.Add(value);
    parts[i % 3].Add(value);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.Merge(part);
  EXPECT_EQ(merged.count(), all.count());
  EXPECT_EQ(merged.min(), all.min());
  EXPECT_EQ(merged.max(), all.max());
  EXPECT_DOUBLE_EQ(merged.Mean(), all.Mean());
  for (double q = 0; q <= 1.0; q += 0.01) EXPECT_EQ(merged.Quantile(q), all.Quantile(q));
}

TEST(Histogram, EmptyAnswersZero) {
  Histogram histogram;
  histogram.Add(5);
  histogram.Clear();
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.Quantile(0.5), 0u);
  EXPECT_EQ(histogram.Mean(), 0.0);
}

}  // namespace
}  // namespace lamella
