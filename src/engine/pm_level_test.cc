#include "engine/pm_level.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "engine/pm_level_test_base.h"

namespace lamella {
namespace {

/// With and without a cache that holds all of the level.
class PmLevelTest : public PmLevelTestBase, public ::testing::WithParamInterface<uint64_t> {
 protected:
  PmLevelTest() : PmLevelTestBase(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(, PmLevelTest, ::testing::Values(0, 1 << 20), [](const auto& shape) {
  return shape.param == 0 ? std::string("NoCache") : std::string("Cached");
});

TEST_P(PmLevelTest, HoldsTheNewestOfEachKeyAndCountsIt) {
  std::map<std::string, std::string> model;
  for (int table = 0; table < 6; table++) {
    for (int i = 0; i < 300; i++) {
      const std::string key = Concat("key", random_.Uniform(400));
      if (random_.OneIn(5)) {
        Write(key, RecordKind::kDelete);
        model[key] = "(deleted)";
      } else {
        model[key] = Concat(table, ".", i);
        Write(key, RecordKind::kPut, model[key]);
      }
    }
    Merge();
    uint64_t live = 0;
    for (const auto& [key, value] : model) {
      ASSERT_EQ(Find(key), value) << key;
      if (value != "(deleted)") live += key.size() + value.size();
    }
    EXPECT_EQ(Find("kez"), "(absent)");
    EXPECT_EQ(level_->live_bytes(), live);
    EXPECT_EQ(level_->settled_live_bytes(), live);
  }
  EXPECT_EQ(level_->count(), model.size()) << "deletes stay until a sweep";
  EXPECT_GT(dead_->fresh(), 0u);
  Settle();
  Sweep();
  std::erase_if(model, [](const auto& entry) { return entry.second == "(deleted)"; });
  EXPECT_EQ(level_->count(), model.size());
  for (const auto& [key, value] : model) ASSERT_EQ(Find(key), value) << key;
}

TEST_P(PmLevelTest, ACountThatWasBelowZeroIsNotBelieved) {
  for (int i = 0; i < 20; i++) Write(Concat("key", i), RecordKind::kPut);
  level_->Open({.heads = heads_, .count = UINT64_MAX - 50});
  EXPECT_EQ(level_->count(), 0u);
  Merge();
  EXPECT_EQ(level_->count(), 20u);
}

TEST_P(PmLevelTest, ADeleteStaysWhileSomebodySeesItsTableApart) {  // I1
  Write("key");
  Merge();
  Write("key", RecordKind::kDelete);
  Merge();
  EXPECT_EQ(level_->count(), 1u) << "the put is gone";
  Sweep();
  EXPECT_EQ(Find("key"), "(deleted)");
  Settle();
  EXPECT_TRUE(level_->HasSettledNews());
  Sweep();
  EXPECT_EQ(Find("key"), "(absent)");
  EXPECT_EQ(level_->count(), 0u);
  EXPECT_EQ(level_->live_bytes(), 0u);
}

// Two threads may settle two merges side by side, the later one first.
TEST_P(PmLevelTest, ADeleteGoesInWhateverOrderMergesAreSettled) {  // I1
  Write("key");
  Merge();
  EpochDomain::Retirement earlier = level_->Settling(sequence_);
  Write("key", RecordKind::kDelete);
  Merge();
  pool_->readers()->Retire(level_->Settling(sequence_));
  for (int i = 0; i < 8; i++) pool_->CollectDeferred();
  pool_->readers()->Retire(std::move(earlier));
  for (int i = 0; i < 8; i++) pool_->CollectDeferred();
  Sweep();
  Sweep();
  EXPECT_EQ(level_->count(), 0u);
}

TEST_P(PmLevelTest, ADeleteStaysWhileAnIteratorMayStandOnWhatItHid) {  // I1
  const uint64_t snapshot = snapshots_.Take([this] { return sequence_ + 1; });
  Write("key");
  Merge();
  Write("key", RecordKind::kDelete);
  Merge();
  Settle();
  EXPECT_EQ(level_->kept_versions(), 1u);
  EXPECT_EQ(Find("key", snapshot), "value");
  {
    const EpochPin iterator(pool_->holders());
    snapshots_.Release(snapshot);
    Sweep();
    EXPECT_EQ(level_->count(), 1u) << "the put is gone, the delete is pinned";
    Sweep();
    EXPECT_EQ(Find("key"), "(deleted)");
  }
  Sweep();  // lets go of it
  Sweep();
  EXPECT_EQ(level_->count(), 0u);
}

TEST_P(PmLevelTest, VersionsStayForSnapshotsAndASweepTakesThemOut) {
  Write("key", RecordKind::kPut, "old");
  Merge();
  const uint64_t snapshot = snapshots_.Take([this] { return sequence_; });
  Write("key", RecordKind::kPut, "new");
  Merge();
  EXPECT_EQ(level_->kept_versions(), 1u);
  level_->ForgetKeptVersions();
  EXPECT_EQ(level_->kept_versions(), 0u);
  Sweep();
  EXPECT_EQ(Find("key", snapshot), "old");
  EXPECT_EQ(Find("key"), "new");
  EXPECT_EQ(level_->live_bytes(), 2 * std::string("keynew").size());
  snapshots_.Release(snapshot);
  Sweep();
  EXPECT_EQ(level_->count(), 1u);
  EXPECT_EQ(Find("key", snapshot), "(absent)");
  EXPECT_EQ(level_->live_bytes(), std::string("keynew").size());
}

// What a crash cut short had linked is not counted: what goes then is more than there was.
TEST_P(PmLevelTest, ACountThatACrashLostStopsAtNothing) {
  constexpr int kKeys = 50;
  for (int i = 0; i < kKeys; i++) Write(Concat("key", i));
  Merge();
  OpenLevel();
  ASSERT_EQ(level_->count(), 0u) << "as before that merge";
  for (int i = 0; i < kKeys; i++) Write(Concat("key", i), RecordKind::kDelete);
  Merge();
  Settle();
  Sweep();
  EXPECT_EQ(level_->list()->First(), PmPtr());
  EXPECT_EQ(level_->count(), 0u);
  Write("key");
  Merge();
  EXPECT_EQ(level_->count(), 1u);
}

TEST_P(PmLevelTest, ASweepStopsBetweenKeysAndGoesOn) {
  for (int i = 0; i < 100; i++) Write(Concat("key", 100 + i), RecordKind::kDelete);
  Merge();
  Settle();
  std::string from;
  int walks = 0;
  do {
    std::string rest;
    ASSERT_TRUE(level_->Sweep(from, {}, 10, &rest).ok());
    EXPECT_TRUE(rest.empty() || from < rest);
    from = rest;
    walks++;
  } while (!from.empty());
  EXPECT_EQ(walks, 10);
  EXPECT_EQ(level_->count(), 0u);
}

TEST_P(PmLevelTest, CopiesTakeThePlaceOfTheirOriginals) {  // I2
  std::vector<PmPtr> places;
  for (int i = 0; i < 200; i++) places.push_back(Write(Concat("key", 100 + i)));
  Merge();
  std::vector<Zipper::Move> moves;
  for (size_t i = 50; i < 150; i++) {
    const Record* const from = At(places[i]);
    lookup_cache_->Put(Hash64(from->key()), places[i]);
    moves.push_back({places[i], Add({.tag = from->tag(),
                                     .key = from->key(),
                                     .value = from->value(),
                                     .height = from->height()})});
  }
  for (auto& appender : appenders_) appender->Seal();
  ASSERT_TRUE(level_->Relocate(moves).ok());
  for (const auto& [from, to] : moves) {
    PmPtr before;
    EXPECT_EQ(level_->FindLinked(to, &before), PmLevel::Linked::kLinked);
    std::array<PmPtr, LookupCache::kWays> cached;
    const uint32_t count = lookup_cache_->Find(Hash64(At(to)->key()), &cached);
    const auto end = cached.begin() + count;
    EXPECT_EQ(std::find(cached.begin(), end, from), end);
    EXPECT_NE(std::find(cached.begin(), end, to), end);
    EXPECT_EQ(level_->Find(At(to)->internal_key(), false, nullptr).place, to);
  }
  EXPECT_EQ(level_->count(), 200u);
}

TEST_P(PmLevelTest, WhatIsNotLinkedIsTold) {
  const PmPtr put = Write("a");
  const PmPtr lonely = Write("b", RecordKind::kDelete);
  Merge();
  const PmPtr never = Write("c", RecordKind::kDelete);
  PmPtr before;
  EXPECT_EQ(level_->FindLinked(lonely, &before), PmLevel::Linked::kLinked);
  EXPECT_EQ(before, put);
  EXPECT_EQ(level_->FindLinked(never, &before), PmLevel::Linked::kNotLinked);
  EXPECT_TRUE(level_->IsIdleDelete(lonely));
  EXPECT_TRUE(level_->IsIdleDelete(never));
  Flip(lonely, 8 * offsetof(RecordHeader, tag) + 9);
  EXPECT_EQ(level_->FindLinked(never, &before), PmLevel::Linked::kUnknown);
}

TEST_P(PmLevelTest, ANewSessionFindsItByAWalk) {
  for (int i = 0; i < 2000; i++) Write(Concat("key", 10'000 + i), RecordKind::kPut, Concat(i));
  Merge();
  PmLevel again({.pool = pool_.get(),
                 .snapshots = &snapshots_,
                 .dead = &*dead_,
                 .lookup_cache = &*lookup_cache_,
                 .second_chance_bytes_max = GetParam()});
  again.Open({.heads = level_->list()->heads(), .count = level_->count()});
  const std::vector<std::string> sample = again.SampleKeys();
  EXPECT_GT(sample.size(), 50u);
  EXPECT_LE(sample.size(), 1024u);
  EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
  again.Warm(lookup_cache_->generation());
  const EpochPin pin(pool_->readers());
  int in_lookup_cache = 0;
  for (int i = 0; i < 2000; i++) {
    const std::string key = Concat("key", 10'000 + i);
    const PlacedVersion found = again.Find({key, kTagFirst}, false, nullptr);
    ASSERT_TRUE(found.place) << key;
    ASSERT_EQ(At(found.place)->value(), Concat(i));
    std::array<PmPtr, LookupCache::kWays> cached;
    const auto end = cached.begin() + lookup_cache_->Find(Hash64(key), &cached);
    in_lookup_cache += std::find(cached.begin(), end, found.place) != end ? 1 : 0;
  }
  EXPECT_GT(in_lookup_cache, 1'000);
  EXPECT_EQ(again.second_chance()->memory_bytes() > 100'000, GetParam() != 0);
}

}  // namespace
}  // namespace lamella
