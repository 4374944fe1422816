#include "tools/key_range.h"

#include <gtest/gtest.h>

namespace lamella::tools {
namespace {

TEST(KeyRange, PrefixEndsBeforeItsSuccessor) {
  EXPECT_EQ(AfterPrefix("ab"), "ac");
  EXPECT_EQ(AfterPrefix("a\xff"), "b");
  EXPECT_EQ(AfterPrefix("a\x7f"), "a\x80");
  EXPECT_EQ(AfterPrefix("\xff\xff"), "");
  EXPECT_EQ(AfterPrefix(""), "");
}

TEST(KeyRange, BoundsAndPrefixIntersect) {
  const KeyRange inside = KeyRange::Of("abc", "abx", "ab");
  EXPECT_EQ(inside.lower, "abc");
  EXPECT_EQ(inside.upper, "abx");
  const KeyRange around = KeyRange::Of("a", "b", "ab");
  EXPECT_EQ(around.lower, "ab");
  EXPECT_EQ(around.upper, "ac");
  const KeyRange open = KeyRange::Of("", "", "");
  EXPECT_TRUE(open.lower.empty() && open.upper.empty() && !open.empty);
}

TEST(KeyRange, HighBytesComeAfterLowOnes) {
  EXPECT_EQ(KeyRange::Of("\x80", "", "\x7f").lower, "\x80");
  EXPECT_TRUE(KeyRange::Of("\x80", "", "\x7f").empty);
}

TEST(KeyRange, DisjointBoundsAndPrefixHoldNoKey) {
  EXPECT_TRUE(KeyRange::Of("", "b", "c").empty);
  EXPECT_TRUE(KeyRange::Of("d", "", "c").empty);
  EXPECT_TRUE(KeyRange::Of("k", "k", "").empty);
  EXPECT_FALSE(KeyRange::Of("\xff", "", "\xff").empty);
}

}  // namespace
}  // namespace lamella::tools
