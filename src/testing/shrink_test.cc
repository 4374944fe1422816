#include "testing/shrink.h"

#include <numeric>

#include <gtest/gtest.h>

namespace lamella::testing {
namespace {

TEST(Shrink, KeepsWhatTheFailureNeedsAndNoMore) {
  std::vector<int> items(1000);
  std::iota(items.begin(), items.end(), 0);
  const auto has = [](const std::vector<int>& from, int item) {
    return std::find(from.begin(), from.end(), item) != from.end();
  };
  EXPECT_EQ(
      Shrink(items, 10,
             [&](const std::vector<int>& c) { return has(c, 3) && has(c, 500) && has(c, 999); }),
      (std::vector<int>{3, 500, 999}));
  EXPECT_EQ(Shrink(items, 10, [](const std::vector<int>&) { return true; }), std::vector<int>{});
  EXPECT_EQ(Shrink(items, 10, [&](const std::vector<int>& c) { return c.size() == items.size(); }),
            items);
}

}  // namespace
}  // namespace lamella::testing
