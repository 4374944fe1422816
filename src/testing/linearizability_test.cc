#include "testing/linearizability.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella::testing {
namespace {

KeyOperation Put(uint64_t value, uint64_t start, uint64_t end) {
  return {KeyOperation::kPut, 0, value, start, end};
}
KeyOperation Delete(uint64_t start, uint64_t end) {
  return {KeyOperation::kDelete, 0, 0, start, end};
}
KeyOperation Get(uint64_t value, uint64_t start, uint64_t end) {
  return {KeyOperation::kGet, 0, value, start, end};
}

TEST(Linearizability, OneThreadsHistoryIsItsOwnOrder) {
  EXPECT_EQ(CheckLinearizable({}), "");
  EXPECT_EQ(
      CheckLinearizable({Get(0, 1, 2), Put(7, 3, 4), Get(7, 5, 6), Delete(7, 8), Get(0, 9, 10)}),
      "");
}

TEST(Linearizability, AWriteUnderWayMayBeSeenOrNot) {
  EXPECT_EQ(CheckLinearizable({Put(1, 1, 2), Put(2, 3, 10), Get(1, 4, 5), Get(2, 6, 7)}), "");
  EXPECT_EQ(
      CheckLinearizable({Put(1, 1, 2), Delete(3, 10), Get(1, 4, 5), Get(0, 6, 7), Get(0, 11, 12)}),
      "");
  // Two writes at once, in either order.
  EXPECT_EQ(CheckLinearizable({Put(1, 1, 10), Put(2, 2, 9), Get(1, 11, 12)}), "");
  EXPECT_EQ(CheckLinearizable({Put(1, 1, 10), Put(2, 2, 9), Get(2, 11, 12)}), "");
}

TEST(Linearizability, AStaleReadIsFound) {
  EXPECT_NE(CheckLinearizable({Put(1, 1, 2), Put(2, 3, 4), Get(1, 5, 6)}), "");
  EXPECT_NE(CheckLinearizable({Put(1, 1, 2), Delete(3, 4), Get(1, 5, 6)}), "")
      << "a deleted value is back";
}

TEST(Linearizability, ALostUpdateIsFound) {
  EXPECT_NE(CheckLinearizable({Put(1, 1, 2), Get(0, 3, 4)}), "");
  // Each was there; then both are gone.
  EXPECT_NE(
      CheckLinearizable({Put(1, 1, 10), Put(2, 2, 9), Get(1, 3, 4), Get(2, 5, 6), Get(0, 11, 12)}),
      "");
}

TEST(Linearizability, AValueFromNowhereIsFound) {
  EXPECT_NE(CheckLinearizable({Put(1, 1, 2), Get(9, 3, 4)}), "");
  EXPECT_NE(CheckLinearizable({Get(1, 1, 2), Put(1, 3, 4)}), "") << "read before it was written";
}

TEST(Linearizability, AnInversionOfNewAndOldIsFound) {
  // A reader sees the write that is under way, and a later one does not.
  EXPECT_NE(CheckLinearizable({Put(1, 1, 2), Put(2, 3, 10), Get(2, 4, 5), Get(1, 6, 7)}), "");
  // Two readers see two writes in different orders.
  EXPECT_NE(
      CheckLinearizable({Put(1, 1, 20), Put(2, 2, 19), Get(1, 3, 4), Get(2, 5, 6), Get(1, 7, 8)}),
      "");
}

TEST(Linearizability, KeysAreCheckedOneByOneAndTheWrongOneIsNamed) {
  KeyOperation other = Get(1, 5, 6);
  other.key = 4;
  const std::string wrong = CheckLinearizable({Put(1, 1, 2), Get(1, 3, 4), other});
  EXPECT_TRUE(wrong.starts_with("key 4: ")) << wrong;
  EXPECT_NE(wrong.find("get: 1 [5, 6]"), std::string::npos) << wrong;
}

TEST(Linearizability, WhatWasTriedIsNotTriedAgain) {
  std::vector<KeyOperation> operations;  // 14! orders, none of them right
  for (uint64_t i = 0; i < 14; i++) operations.push_back(Put(1 + i, 1 + i, 100 + i));
  operations.push_back(Get(99, 200, 201));
  EXPECT_NE(CheckLinearizable(operations), "");
}

bool AnyOrderFits(const std::vector<KeyOperation>& operations) {
  std::vector<size_t> order(operations.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = i;
  do {
    uint64_t state = 0;
    bool fits = true;
    for (size_t i = 0; i < order.size() && fits; i++) {
      const KeyOperation& operation = operations[order[i]];
      for (size_t later = i + 1; later < order.size(); later++) {
        if (operations[order[later]].end < operation.start) fits = false;
      }
      if (operation.kind == KeyOperation::kGet) {
        fits = fits && operation.value == state;
      } else {
        state = operation.value;
      }
    }
    if (fits) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

TEST(Linearizability, AgreesWithTryingEveryOrder) {
  Random random(1);
  uint64_t fitting = 0;
  constexpr uint64_t kHistories = 4000;
  for (uint64_t i = 0; i < kHistories; i++) {
    std::vector<KeyOperation> operations(2 + random.Uniform(5));
    std::vector<uint64_t> stamps;
    for (uint64_t stamp = 1; stamp <= 2 * operations.size(); stamp++) stamps.push_back(stamp);
    for (size_t at = stamps.size() - 1; at > 0; --at)
      std::swap(stamps[at], stamps[random.Uniform(at + 1)]);
    for (size_t at = 0; at < operations.size(); ++at) {
      KeyOperation& operation = operations[at];
      operation.kind = static_cast<KeyOperation::Kind>(random.Uniform(3));
      if (operation.kind == KeyOperation::kPut) operation.value = 1 + at;
      if (operation.kind == KeyOperation::kGet)
        operation.value = random.Uniform(operations.size() + 1);
      operation.start = std::min(stamps[2 * at], stamps[2 * at + 1]);
      operation.end = std::max(stamps[2 * at], stamps[2 * at + 1]);
    }
    const bool fits = AnyOrderFits(operations);
    fitting += fits ? 1 : 0;
    ASSERT_EQ(CheckLinearizable(operations).empty(), fits) << "history " << i;
  }
  EXPECT_GT(fitting, kHistories / 20);
  EXPECT_LT(fitting, kHistories - kHistories / 20);
}

// Two groups; version 1 of both, then version 2 of group 0 and of group 1.
const std::vector<GroupWrite> kWrites = {
    {0, 1, 1, 2}, {1, 1, 3, 4}, {0, 2, 10, 20}, {1, 2, 30, 40}};

TEST(SnapshotOrder, SnapshotsOfOneOrderPass) {
  EXPECT_EQ(CheckSnapshots({}, kWrites), "");
  EXPECT_EQ(CheckSnapshots(
                {{5, 6, 7, {1, 1}}, {5, 11, 12, {1, 1}}, {9, 13, 14, {2, 1}}, {9, 25, 26, {2, 1}}},
                kWrites),
            "");
  // Taken at once, so in either order of their numbers.
  EXPECT_EQ(
      CheckSnapshots({{9, 11, 15, {2, 1}}, {5, 12, 14, {1, 1}}, {12, 50, 51, {2, 2}}}, kWrites),
      "");
}

TEST(SnapshotOrder, ASnapshotThatShowsLessThanAnEarlierOneIsFound) {
  EXPECT_NE(CheckSnapshots({{5, 11, 12, {2, 1}}, {9, 13, 14, {1, 1}}}, kWrites), "");
  // No order of the batches: each shows one that the other does not.
  EXPECT_NE(CheckSnapshots({{5, 31, 32, {2, 1}}, {9, 31, 33, {1, 2}}},
                           {{0, 1, 1, 2}, {1, 1, 3, 4}, {0, 2, 10, 40}, {1, 2, 10, 40}}),
            "");
}

TEST(SnapshotOrder, OneNumberShowsOneState) {
  EXPECT_NE(CheckSnapshots({{5, 11, 12, {1, 1}}, {5, 13, 14, {2, 1}}}, kWrites), "");
}

TEST(SnapshotOrder, ALaterSnapshotOfASmallerNumberIsFound) {
  EXPECT_NE(CheckSnapshots({{9, 11, 12, {1, 1}}, {5, 13, 14, {1, 1}}}, kWrites), "");
}

TEST(SnapshotOrder, AnAcknowledgedBatchThatIsMissingIsFound) {
  EXPECT_NE(CheckSnapshots({{9, 25, 26, {1, 1}}}, kWrites), "");
}

TEST(SnapshotOrder, ABatchFromTheFutureIsFound) {
  EXPECT_NE(CheckSnapshots({{9, 21, 22, {2, 2}}}, kWrites), "");
}

}  // namespace
}  // namespace lamella::testing
