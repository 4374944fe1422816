// Conformance: snapshots, iterators, pinned values: one point in time, whatever is written or
// compacted since (P4).

#include <utility>

#include "base/concat.h"
#include "testing/conformance.h"

namespace lamella::testing {
namespace {

class ReadConformance : public ConformanceTest {
 protected:
  // Writes to store and model alike.
  void WriteBoth(std::string_view key, std::string_view value) {
    Put(key, value);
    model_.Put(++sequence_, key, value);
  }
  void DeleteBoth(std::string_view key) {
    Delete(key);
    model_.Delete(++sequence_, key);
  }
  void Churn(Random* random, int count, uint64_t keys = 300) {
    for (int i = 0; i < count; i++) {
      const std::string key = MakeKey(KeyShape::kMixed, random->Uniform(keys));
      if (random->OneIn(5)) {
        DeleteBoth(key);
      } else {
        WriteBoth(key, MakeValue(sequence_, ValueSize(random, 2000)));
      }
    }
  }

  ModelDb model_;
  uint64_t sequence_ = 0;
};
LAMELLA_CONFORMANCE_SUITE(ReadConformance, Shows::kAnswers);

TEST_P(ReadConformance, ASnapshotReadsTheSameWhateverHappensSince) {
  Random random(TestSeed());
  Churn(&random, 500);
  const Snapshot* snapshot = db()->GetSnapshot();
  const uint64_t at = sequence_;
  Churn(&random, 1500);
  ExpectMatches(model_, at, snapshot);
  Settle();
  ExpectMatches(model_, at, snapshot);
  Churn(&random, 1500);
  Settle();
  ExpectMatches(model_, at, snapshot);
  ExpectMatches(model_);
  db()->ReleaseSnapshot(snapshot);
  Settle();
  ExpectMatches(model_);
}

TEST_P(ReadConformance, ManySnapshotsEachSeeTheirOwnTime) {
  Random random(TestSeed());
  std::vector<std::pair<const Snapshot*, uint64_t>> snapshots;
  for (int i = 0; i < 8; i++) {
    Churn(&random, 200, 60);
    snapshots.emplace_back(db()->GetSnapshot(), sequence_);
    if (i % 3 == 1) Settle();
  }
  for (size_t i = 0; i < snapshots.size(); i += 2) {  // every other one goes
    db()->ReleaseSnapshot(snapshots[i].first);
    snapshots[i].first = nullptr;
  }
  Settle();
  for (size_t i = 1; i < snapshots.size(); i++) {
    if (snapshots[i].first == nullptr) continue;
    ExpectMatches(model_, snapshots[i].second, snapshots[i].first);
    if (i >= 3) {
      EXPECT_GT(snapshots[i].first->sequence(), snapshots[i - 2].first->sequence());
    }
  }
  for (auto& [snapshot, at] : snapshots) db()->ReleaseSnapshot(snapshot);
  ExpectMatches(model_);
}

TEST_P(ReadConformance, TwoSnapshotsOfOneTimeAreReleasedApart) {
  Put("a", "1");
  const Snapshot* first = db()->GetSnapshot();
  const Snapshot* second = db()->GetSnapshot();
  const auto none_of_them = db()->NewIterator({});
  EXPECT_EQ(db()->GetStats().snapshots, 2u);
  Put("a", "2");
  db()->ReleaseSnapshot(first);
  Settle();
  EXPECT_EQ(Get("a", second), "1");
  db()->ReleaseSnapshot(second);
  EXPECT_EQ(db()->GetStats().snapshots, 0u);
  EXPECT_EQ(Get("a"), "2");
  db()->ReleaseSnapshot(nullptr);
}

TEST_P(ReadConformance, ASnapshotOfTheEmptyStoreStaysEmpty) {
  const Snapshot* snapshot = db()->GetSnapshot();
  Put("a", "1");
  Settle();
  EXPECT_EQ(Get("a", snapshot), "[NotFound]");
  ReadOptions options;
  options.snapshot = snapshot;
  EXPECT_TRUE(ScanForward(options).empty());
  EXPECT_TRUE(ScanBackward(options).empty());
  db()->ReleaseSnapshot(snapshot);
}

TEST_P(ReadConformance, TheNewestOfManyVersionsIsFoundBothWays) {
  const Snapshot* snapshots[3];
  Put("a", "first");
  Put("z", "last");
  for (int third = 0; third < 3; third++) {
    for (int i = 0; i < 500; i++) Put("hot", Concat(third, "-", i));
    snapshots[third] = db()->GetSnapshot();
    if (third == 1) Settle();
  }
  for (int i = 0; i < 100; i++) Put("hot", "newer");
  for (int third = 0; third < 3; third++) {
    ReadOptions options;
    options.snapshot = snapshots[third];
    const Entries expected = {{"a", "first"}, {"hot", Concat(third, "-499")}, {"z", "last"}};
    EXPECT_TRUE(SameEntries(expected, ScanForward(options)));
    EXPECT_TRUE(SameEntries(expected, ScanBackward(options)));
    EXPECT_EQ(Get("hot", snapshots[third]), Concat(third, "-499"));
  }
  for (const Snapshot* snapshot : snapshots) db()->ReleaseSnapshot(snapshot);
}

TEST_P(ReadConformance, IteratorsOfTheEmptyStoreAreNotValid) {
  auto it = db()->NewIterator({});
  EXPECT_FALSE(it->Valid());
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  it->SeekToLast();
  EXPECT_FALSE(it->Valid());
  it->Seek("a");
  EXPECT_FALSE(it->Valid());
  it->SeekForPrev("a");
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().ok());
}

TEST_P(ReadConformance, BoundsHoldBothWays) {
  for (const char* key : {"a", "b", "c", "d", "e"}) Put(key, key);
  Settle();
  Put("bb", "bb");
  ReadOptions options;
  options.lower_bound = "b";
  options.upper_bound = "d";
  const Entries expected = {{"b", "b"}, {"bb", "bb"}, {"c", "c"}};
  EXPECT_TRUE(SameEntries(expected, ScanForward(options)));
  EXPECT_TRUE(SameEntries(expected, ScanBackward(options)));
  auto it = db()->NewIterator(options);
  it->Seek("a");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), "b");
  it->Seek("d");
  EXPECT_FALSE(it->Valid());
  it->SeekForPrev("e");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), "c");
  it->SeekForPrev("a");
  EXPECT_FALSE(it->Valid());
}

TEST_P(ReadConformance, IteratorsWalkAsTheModelDoesWithinRandomBounds) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  constexpr uint64_t kKeys = 300;
  for (int round = 0; round < 6; round++) {
    Churn(&random, 400, kKeys);
    if (round % 2 == 1) Settle();
    for (int walk = 0; walk < 20; walk++) {
      const std::string lower =
          random.OneIn(2) ? MakeNearKey(KeyShape::kMixed, &random, kKeys) : "";
      const std::string upper =
          random.OneIn(2) ? MakeNearKey(KeyShape::kMixed, &random, kKeys) : "";
      ReadOptions options;
      options.lower_bound = lower;
      options.upper_bound = upper;
      auto it = db()->NewIterator(options);
      auto expected = model_.NewIterator(ModelDb::kNow, lower, upper);
      for (int step = 0; step < 60; step++) {
        const std::string target = MakeNearKey(KeyShape::kMixed, &random, kKeys);
        const uint64_t action = expected->Valid() ? random.Uniform(16) : random.Uniform(4);
        for (Iterator* i : {it.get(), expected.get()}) {
          if (action == 0) i->SeekToFirst();
          if (action == 1) i->SeekToLast();
          if (action == 2) i->Seek(target);
          if (action == 3) i->SeekForPrev(target);
          if (action >= 4 && action % 2 == 0) i->Next();
          if (action >= 4 && action % 2 == 1) i->Prev();
        }
        ASSERT_TRUE(it->status().ok()) << it->status().ToString();
        ASSERT_EQ(it->Valid(), expected->Valid()) << "step " << step;
        if (!it->Valid()) continue;
        ASSERT_EQ(Brief(it->key()), Brief(expected->key())) << "step " << step;
        ASSERT_TRUE(it->value() == expected->value()) << "step " << step;
      }
    }
  }
}

TEST_P(ReadConformance, AnIteratorKeepsItsPointInTime) {
  Random random(TestSeed());
  Churn(&random, 600);
  auto untouched = db()->NewIterator({});
  auto midway = db()->NewIterator({});
  const Entries expected = model_.Scan();
  midway->SeekToFirst();
  size_t at = 0;
  for (int round = 0; round < 5; round++) {
    for (size_t step = 0; step < expected.size() / 10 && midway->Valid(); step++, ++at) {
      ASSERT_EQ(Brief(midway->key()), Brief(expected[at].first));
      ASSERT_TRUE(midway->value() == expected[at].second);
      midway->Next();
    }
    Churn(&random, 600);
    if (round % 2 == 0) Settle();
  }
  for (; midway->Valid(); midway->Next(), ++at) {
    ASSERT_LT(at, expected.size());
    ASSERT_EQ(Brief(midway->key()), Brief(expected[at].first));
    ASSERT_TRUE(midway->value() == expected[at].second);
  }
  EXPECT_EQ(at, expected.size());
  EXPECT_TRUE(SameEntries(expected, WalkBackward(midway.get())));
  EXPECT_TRUE(SameEntries(expected, WalkForward(untouched.get())));
  EXPECT_TRUE(SameEntries(expected, WalkBackward(untouched.get())));
  EXPECT_TRUE(SameEntries(model_.Scan(), ScanForward()));
}

TEST_P(ReadConformance, AnIteratorOutlivesTheSnapshotItWasMadeAt) {
  Random random(TestSeed());
  Churn(&random, 400);
  const Snapshot* snapshot = db()->GetSnapshot();
  const Entries expected = model_.Scan();
  Churn(&random, 400);
  ReadOptions options;
  options.snapshot = snapshot;
  auto it = db()->NewIterator(options);
  db()->ReleaseSnapshot(snapshot);
  Churn(&random, 400);
  Settle();
  EXPECT_TRUE(SameEntries(expected, WalkForward(it.get())));
  EXPECT_TRUE(SameEntries(expected, WalkBackward(it.get())));
}

TEST_P(ReadConformance, APinnedValueStaysWhateverHappensToItsKey) {
  std::vector<std::pair<PinnedValue, std::string>> pinned;
  for (uint64_t i = 0; i < 40; i++) {
    const std::string value = MakeValue(i, i == 7 ? 300000 : 100 + i);
    Put(MakeKey(KeyShape::kCommonPrefix, i), value);
    if (i % 10 == 0) Settle();
    pinned.emplace_back(PinnedValue(), value);
    ASSERT_TRUE(db()->Get({}, MakeKey(KeyShape::kCommonPrefix, i), &pinned.back().first).ok());
  }
  for (int round = 0; round < 4; round++) {
    for (uint64_t i = 0; i < 40; i++) {
      if ((i + static_cast<uint64_t>(round)) % 3 == 0) {
        Delete(MakeKey(KeyShape::kCommonPrefix, i));
      } else {
        Put(MakeKey(KeyShape::kCommonPrefix, i), MakeValue(1000 + i, 5000));
      }
    }
    Settle();
  }
  for (auto& [value, expected] : pinned) EXPECT_TRUE(value.view() == expected);
  PinnedValue moved = std::move(pinned[3].first);
  EXPECT_TRUE(moved.view() == pinned[3].second);
  moved.Reset();
  EXPECT_TRUE(moved.empty());
  pinned.clear();
}

// Who follows a chain gives what it holds for what it is to get.
TEST_P(ReadConformance, AKeyMayBeAViewOfThePinnedValueThatItReplaces) {
  constexpr uint64_t kLinks = 30;
  const auto link = [](uint64_t i) { return MakeKey(KeyShape::kCommonPrefix, i); };
  const size_t key_bytes = link(0).size();
  for (uint64_t i = 0; i < kLinks; i++) {
    ASSERT_EQ(link(i).size(), key_bytes);
    Put(link(i), link(i + 1) + MakeValue(i, i % 10 == 7 ? 300000 : 2000));
  }
  for (const bool settled : {false, true}) {
    if (settled) Settle();
    PinnedValue value;
    ASSERT_TRUE(db()->Get({}, link(0), &value).ok());
    for (uint64_t i = 1; i < kLinks; i++) {
      ASSERT_EQ(value.view().substr(0, key_bytes), link(i));
      ASSERT_TRUE(db()->Get({}, value.view().substr(0, key_bytes), &value).ok()) << i;
    }
    EXPECT_TRUE(db()->Get({}, value.view().substr(0, key_bytes), &value).IsNotFound());
    EXPECT_TRUE(value.empty());
  }
}

// Families of keys that share more bytes than a tree keeps of one, enough of each that tables learn
// what to leave out; then of other families, for which that does not hold.
TEST_P(ReadConformance, KeysThatShareLongBeginningsAreToldApart) {
  Random random(TestSeed());
  constexpr std::string_view kFamilies[] = {"user0000000000000000", "https://www.example/articles/",
                                            "https://www.example/art", "zzzzzzzzzzzzzzzzzzzzzzzzz"};
  for (size_t round = 0; round < 4; round++) {
    for (int i = 0; i < 1500; i++) {
      // The last family comes late: beyond every prefix that was learned.
      const size_t family = random.Uniform(round == 3 ? 4 : 2 + round / 2);
      const std::string key =
          Concat(kFamilies[family], 1'000'000 + random.Uniform(900) * (1 + 7919 * (family % 2)));
      if (random.OneIn(6)) {
        DeleteBoth(key);
      } else {
        WriteBoth(key, MakeValue(sequence_, random.Uniform(40)));
      }
    }
    for (const std::string_view family : kFamilies) {  // none of them is a key
      EXPECT_EQ(Get(family), "[NotFound]") << family;
      EXPECT_EQ(Get(Concat(family, "1000000x")), "[NotFound]") << family;
    }
    ExpectMatches(model_);
    if (round == 1) Settle();
    if (round == 2) Reopen();
    ExpectMatches(model_);
  }
}

TEST_P(ReadConformance, MultiGetReadsAtASnapshot) {
  Random random(TestSeed());
  Churn(&random, 500, 50);
  const Snapshot* snapshot = db()->GetSnapshot();
  const uint64_t at = sequence_;
  Churn(&random, 500, 50);
  Settle();
  std::vector<std::string> names;
  for (uint64_t i = 0; i < 50; i++) names.push_back(MakeKey(KeyShape::kMixed, i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  ReadOptions options;
  options.snapshot = snapshot;
  std::vector<std::string> values;
  const std::vector<Status> statuses = db()->MultiGet(options, keys, &values);
  for (size_t i = 0; i < keys.size(); i++) {
    const std::optional<std::string> expected = model_.Get(keys[i], at);
    EXPECT_EQ(statuses[i].ok(), expected.has_value());
    EXPECT_EQ(statuses[i].IsNotFound(), !expected.has_value());
    EXPECT_TRUE(values[i] == expected.value_or(""));
  }
  db()->ReleaseSnapshot(snapshot);
}

TEST_P(ReadConformance, VerifiedReadsAnswerTheSame) {
  Random random(TestSeed());
  Churn(&random, 500);
  Settle();
  Churn(&random, 200);
  ReadOptions options;
  options.verify_checksums = true;
  const Entries expected = model_.Scan();
  EXPECT_TRUE(SameEntries(expected, ScanForward(options)));
  EXPECT_TRUE(SameEntries(expected, ScanBackward(options)));
  for (const auto& [key, value] : expected) {
    std::string found;
    ASSERT_TRUE(db()->Get(options, key, &found).ok());
    ASSERT_TRUE(found == value);
  }
}

}  // namespace
}  // namespace lamella::testing
