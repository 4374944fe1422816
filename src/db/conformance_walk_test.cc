// Iterators that walk while much is written: what they keep from being used again.

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "lamella/db.h"
#include "testing/conformance.h"

namespace lamella::testing {
namespace {

class WalkConformance : public ConformanceTest {
 protected:
  static constexpr size_t kValueBytes = 4000;

  // In the pool, and in files beside it.
  uint64_t Used() const {
    const Stats stats = db()->GetStats();
    return stats.pool_bytes_used + stats.file_bytes;
  }
};
LAMELLA_CONFORMANCE_SUITE(WalkConformance, Shows::kRoom);

// It sees all that was there when it began; what is written and overwritten while it goes on it
// never sees, and so does not hold back, however long it takes.
TEST_P(WalkConformance, AWalkHoldsBackWhatItSeesAndNoMore) {
  if (!GetParam().merges()) GTEST_SKIP() << "nothing comes back";
  const uint64_t keys = options_.chunk_bytes <= (64 << 10) ? 300 : 2'000;
  const auto put_all = [&](uint64_t from) {
    for (uint64_t i = 0; i < keys; i++)
      Put(MakeKey(KeyShape::kCommonPrefix, i), MakeValue(from + i, kValueBytes));
    Settle();
  };
  put_all(0);
  const std::unique_ptr<Iterator> it = db()->NewIterator({});
  it->SeekToFirst();
  uint64_t seen = 0;
  const auto expect_next = [&] {
    ASSERT_TRUE(it->Valid()) << it->status().ToString();
    ASSERT_EQ(it->key(), MakeKey(KeyShape::kCommonPrefix, seen));
    ASSERT_TRUE(it->value() == MakeValue(seen, kValueBytes)) << seen;
    seen++;
  };
  expect_next();
  uint64_t after_two = 0;
  constexpr uint64_t kRounds = 6;
  for (uint64_t round = 1; round <= kRounds; round++) {
    put_all(round * keys);
    // long enough to be told, and to do it
    for (int step = 0; step < 2; step++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      it->Next();
      ASSERT_NO_FATAL_FAILURE(expect_next());
    }
    Settle();
    if (round == 2) after_two = Used();
  }
  EXPECT_LE(Used(), after_two + after_two / 2 + 32 * options_.chunk_bytes);
  while (seen < keys) {
    it->Next();
    ASSERT_NO_FATAL_FAILURE(expect_next());
  }
  it->Next();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().ok()) << it->status().ToString();
}

}  // namespace
}  // namespace lamella::testing
