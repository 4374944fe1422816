#include "index/head_filter.h"

#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"

namespace lamella {
namespace {

KeyPrefixes::Head HeadOf(uint64_t i) { return KeyPrefixes::HeadOf(nullptr, Concat("key", i)); }

class HeadFilterTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(HeadFilterTest, HoldsWhatWasAddedAndFewOthers) {
  const uint64_t heads = GetParam();
  HeadFilter filter(heads);
  for (uint64_t i = 0; i < heads; i++) {
    EXPECT_FALSE(i == 0 && filter.MayHold(HeadOf(i))) << "an empty one";
    filter.Add(HeadOf(i));
  }
  for (uint64_t i = 0; i < heads; i++) ASSERT_TRUE(filter.MayHold(HeadOf(i))) << i;
  constexpr uint64_t kOthers = 100'000;
  uint64_t held = 0;
  for (uint64_t i = heads; i < heads + kOthers; i++) held += filter.MayHold(HeadOf(i)) ? 1 : 0;
  EXPECT_LT(held, kOthers / 40);
  EXPECT_LE(filter.memory_bytes(), heads * 3 / 2 + 64);
}

INSTANTIATE_TEST_SUITE_P(Heads, HeadFilterTest, ::testing::Values(1, 100, 10'000, 1'000'000));

// A tree's entry names its head as its key does, however long that is.
TEST(HeadFilter, EntriesAndKeysHaveTheSameHeads) {
  for (size_t size = 0; size <= 40; size++) {
    const std::string key(size, 'k');
    const KeyPrefixes::Head head = KeyPrefixes::HeadOf(nullptr, key);
    HeadTree::Entry entry;
    entry.head_high = head.high;
    entry.head_low = head.low;
    entry.reference = uint64_t{std::min<size_t>(size, HeadTree::kLongKeyClass)} << 56;
    HeadFilter filter(10);
    filter.Add(entry);
    EXPECT_TRUE(filter.MayHold(head)) << size;
    EXPECT_FALSE(filter.MayHold(KeyPrefixes::HeadOf(nullptr, Concat("x", key)))) << size;
  }
}

TEST(HeadFilter, ItsMemoryIsChargedWhileItLives) {
  MemoryBudget budget(1 << 20);
  MemoryAccount account(&budget);
  {
    const HeadFilter filter(1000, &account);
    EXPECT_EQ(account.held(), filter.memory_bytes());
  }
  EXPECT_EQ(account.held(), 0u);
}

}  // namespace
}  // namespace lamella
