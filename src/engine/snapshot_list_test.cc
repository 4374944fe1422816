#include "engine/snapshot_list.h"

#include <chrono>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

TEST(SnapshotList, WithoutSnapshotsNoOlderVersionIsNeeded) {
  const SnapshotList list;
  EXPECT_EQ(list.count(), 0u);
  EXPECT_FALSE(list.Now().Needed(1, 2));
  EXPECT_FALSE(SnapshotList::Sample().Needed(0, ~uint64_t{0}));
}

TEST(SnapshotList, AVersionIsNeededFromItsNumberUntilTheNextOnes) {
  SnapshotList list;
  EXPECT_EQ(list.Take([] { return uint64_t{10}; }), 10u);
  const SnapshotList::Sample now = list.Now();
  EXPECT_TRUE(now.Needed(10, 11)) << "it sees the write of its own number";
  EXPECT_TRUE(now.Needed(3, 11));
  EXPECT_FALSE(now.Needed(3, 10)) << "it sees the newer one";
  EXPECT_FALSE(now.Needed(11, 12)) << "it sees neither";
}

TEST(SnapshotList, TheSamePointTakenTwiceLivesUntilBothAreReleased) {
  SnapshotList list;
  list.Take([] { return uint64_t{5}; });
  list.Take([] { return uint64_t{5}; });
  EXPECT_EQ(list.count(), 2u);
  list.Release(5);
  EXPECT_EQ(list.count(), 1u);
  EXPECT_TRUE(list.Now().Needed(5, 6));
  list.Release(5);
  EXPECT_EQ(list.count(), 0u);
  EXPECT_FALSE(list.Now().Needed(5, 6));
}

TEST(SnapshotList, ASampleStaysAsItWas) {
  SnapshotList list;
  list.Take([] { return uint64_t{5}; });
  const SnapshotList::Sample before = list.Now();
  list.Release(5);
  list.Take([] { return uint64_t{8}; });
  EXPECT_TRUE(before.Needed(5, 6));
  EXPECT_FALSE(before.Needed(8, 9));
}

TEST(SnapshotList, WhoWaitsForSnapshotsIsToldOnce) {
  SnapshotList list;
  int told = 0;
  list.OnPast([&told] { told++; });
  list.Take([] { return uint64_t{5}; });
  list.Take([] { return uint64_t{7}; });
  list.Take([] { return uint64_t{9}; });
  list.Release(9);
  list.AwaitPast(8);
  EXPECT_EQ(told, 0);
  list.Release(7);
  EXPECT_EQ(told, 0) << "an older one is left";
  list.Release(5);
  EXPECT_EQ(told, 1);
  list.Take([] { return uint64_t{5}; });
  list.Release(5);
  EXPECT_EQ(told, 1) << "once";
  list.AwaitPast(8);
  EXPECT_EQ(told, 2) << "there is none to wait for";
  list.Take([] { return uint64_t{8}; });
  list.AwaitPast(8);
  EXPECT_EQ(told, 3) << "one of that very moment is not before it";
  list.OnPast(nullptr);
  list.AwaitPast(8);
  EXPECT_EQ(told, 3);
}

TEST(SnapshotList, NeededAgreesWithLookingAtEverySnapshot) {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    SnapshotList list;
    std::multiset<uint64_t> model;
    for (int i = 0; i < 60; i++) {
      if (!model.empty() && random.OneIn(3)) {
        const auto at =
            std::next(model.begin(), static_cast<ptrdiff_t>(random.Uniform(model.size())));
        list.Release(*at);
        model.erase(at);
      } else {
        model.insert(list.Take([&] { return random.Uniform(40); }));
      }
      ASSERT_EQ(list.count(), model.size());
      const SnapshotList::Sample now = list.Now();
      for (uint64_t older = 0; older < 40; older++) {
        const uint64_t newer = older + 1 + random.Uniform(10);
        bool needed = false;
        for (const uint64_t s : model) needed = needed || (older <= s && s < newer);
        ASSERT_EQ(now.Needed(older, newer), needed) << older << " before " << newer;
      }
    }
  }
}

// No compaction may sample the list between a snapshot's number and its entry.
TEST(SnapshotList, ConcurrentSamplesWaitForASnapshotBeingTaken) {
  SnapshotList list;
  std::future<SnapshotList::Sample> sample;
  list.Take([&] {
    sample = std::async(std::launch::async, [&list] { return list.Now(); });
    EXPECT_EQ(sample.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
    return uint64_t{7};
  });
  EXPECT_TRUE(sample.get().Needed(7, 8));
}

}  // namespace
}  // namespace lamella
