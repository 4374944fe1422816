#include "iterator/merging_iterator.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "iterator/test_iterators.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

constexpr uint64_t Tag(uint64_t sequence) { return MakeTag(sequence, RecordKind::kPut); }

struct Merged {
  explicit Merged(const std::vector<LiveTable>& tables) {
    std::vector<std::unique_ptr<InternalIterator>> list;
    for (const LiveTable& table : tables) {
      list.push_back(std::make_unique<LiveIterator>(&table));
      children.push_back(static_cast<LiveIterator*>(list.back().get()));
    }
    iterator = NewMergingIterator(std::move(list));
  }
  std::vector<LiveIterator*> children;
  std::unique_ptr<InternalIterator> iterator;
};

std::string Show(const InternalIterator& it) {
  if (!it.Valid()) return "end";
  return Concat(it.key().user_key, "@", TagSequence(it.key().tag), "=", it.value());
}

std::string WalkForward(InternalIterator* it) {
  std::string out;
  for (it->SeekToFirst(); it->Valid(); it->Next()) out += Show(*it) + " ";
  return out;
}

std::string WalkBackward(InternalIterator* it) {
  std::string out;
  for (it->SeekToLast(); it->Valid(); it->Prev()) out += Show(*it) + " ";
  return out;
}

TEST(MergingIterator, NoChildrenIsAnEmptyWalk) {
  auto it = NewMergingIterator({});
  EXPECT_FALSE(it->Valid());
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  it->SeekForPrev({"a", 1});
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().ok());
}

TEST(MergingIterator, OneChildIsReturnedAsItIs) {
  LiveTable table;
  auto child = std::make_unique<LiveIterator>(&table);
  InternalIterator* raw = child.get();
  std::vector<std::unique_ptr<InternalIterator>> list;
  list.push_back(std::move(child));
  EXPECT_EQ(NewMergingIterator(std::move(list)).get(), raw);
}

TEST(MergingIterator, MergesBothWaysInInternalKeyOrder) {
  std::vector<LiveTable> tables(3);
  tables[0].records = {{{"b", Tag(9)}, "b9"}, {{"d", Tag(8)}, "d8"}};
  tables[1].records = {{{"a", Tag(1)}, "a1"}, {{"b", Tag(2)}, "b2"}, {{"d", Tag(3)}, "d3"}};
  Merged merged(tables);
  EXPECT_EQ(WalkForward(merged.iterator.get()), "a@1=a1 b@9=b9 b@2=b2 d@8=d8 d@3=d3 ");
  EXPECT_EQ(WalkBackward(merged.iterator.get()), "d@3=d3 d@8=d8 b@2=b2 b@9=b9 a@1=a1 ");
}

TEST(MergingIterator, ARecordInTwoChildrenComesOnceFromTheEarlier) {
  std::vector<LiveTable> tables(3);
  tables[1].records = {{{"a", Tag(1)}, "early"}, {{"b", Tag(2)}, "early"}};
  tables[2].records = {{{"a", Tag(1)}, "late"}, {{"b", Tag(2)}, "late"}, {{"b", Tag(1)}, "other"}};
  Merged merged(tables);
  EXPECT_EQ(WalkForward(merged.iterator.get()), "a@1=early b@2=early b@1=other ");
  EXPECT_EQ(WalkBackward(merged.iterator.get()), "b@1=other b@2=early a@1=early ");
}

TEST(MergingIterator, TurnsAroundOnASharedRecord) {
  std::vector<LiveTable> tables(2);
  tables[0].records = {{{"b", Tag(2)}, "0"}, {{"d", Tag(1)}, "0"}};
  tables[1].records = {{{"a", Tag(1)}, "1"}, {{"b", Tag(2)}, "1"}, {{"c", Tag(1)}, "1"}};
  Merged merged(tables);
  InternalIterator* it = merged.iterator.get();
  it->Seek({"b", Tag(2)});
  EXPECT_EQ(Show(*it), "b@2=0");
  it->Prev();
  EXPECT_EQ(Show(*it), "a@1=1");
  it->Next();
  EXPECT_EQ(Show(*it), "b@2=0");
  it->Next();
  EXPECT_EQ(Show(*it), "c@1=1");
  it->Prev();
  EXPECT_EQ(Show(*it), "b@2=0");
  it->Next();
  it->Next();
  EXPECT_EQ(Show(*it), "d@1=0");
  it->Next();
  EXPECT_EQ(Show(*it), "end");
}

TEST(MergingIterator, ARecordThatMovesOnWhileItIsShownComesOnce) {
  // The list of table 0 runs into table 1 from "m" on while the walk stands before it.
  for (bool forward : {true, false}) {
    std::vector<LiveTable> tables(2);
    tables[0].records = {{{"b", Tag(5)}, "b"}, {{"m", Tag(6)}, "m"}};
    tables[1].records = {{{"c", Tag(1)}, "c"}, {{"n", Tag(2)}, "n"}, {{"z", Tag(3)}, "z"}};
    Merged merged(tables);
    InternalIterator* it = merged.iterator.get();
    std::string seen;
    int step = 0;
    for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
         forward ? it->Next() : it->Prev()) {
      seen += std::string(it->key().user_key);
      if (++step % 2 == 0) tables[0].MergeOne(&tables[1]);
    }
    EXPECT_EQ(seen, forward ? "bcmnz" : "znmcb");
  }
}

TEST(MergingIterator, AWhollyMergedChildIsNotWalkedAgain) {
  for (const bool forward : {true, false}) {
    std::vector<LiveTable> tables(2);
    for (int k = 0; k < 50; k++) tables[1].records[{Concat("k", 100 + k), Tag(1)}] = "";
    tables[0].records = {{{"k100b", Tag(2)}, ""}, {{"k125b", Tag(3)}, ""}, {{"k149b", Tag(4)}, ""}};
    Merged merged(tables);
    InternalIterator* it = merged.iterator.get();
    forward ? it->SeekToFirst() : it->SeekToLast();
    for (int k = 0; k < 10; k++) forward ? it->Next() : it->Prev();
    while (tables[0].MergeOne(&tables[1])) {
    }
    const int searches = tables[0].searches;
    int shown = 11;
    for (forward ? it->Next() : it->Prev(); it->Valid() && shown < 60;
         forward ? it->Next() : it->Prev())
      shown++;
    EXPECT_EQ(tables[0].searches, searches);
    EXPECT_EQ(shown, 53);
    EXPECT_FALSE(it->Valid());
  }
}

TEST(MergingIterator, AnErrorOfAnyChildEndsTheWalk) {
  std::vector<LiveTable> tables(3);
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 5; k++)
      tables[static_cast<size_t>(i)].records[{Concat("k", k, i), Tag(1)}] = "v";
  }
  for (size_t failing = 0; failing < 3; failing++) {
    for (int moves = 1; moves <= 5; moves++) {
      Merged merged(tables);
      merged.children[failing]->FailAfter(moves);
      int shown = 0;
      for (merged.iterator->SeekToFirst(); merged.iterator->Valid(); merged.iterator->Next())
        shown++;
      EXPECT_TRUE(merged.iterator->status().IsCorruption());
      EXPECT_LT(shown, 15);
      merged.children[failing]->FailAfter(0);
      merged.iterator->SeekToLast();
      EXPECT_TRUE(merged.iterator->Valid());
      EXPECT_TRUE(merged.iterator->status().ok());
      merged.children[failing]->FailAfter(2);  // the turn, or the second step
      for (int k = 0; k < 15 && merged.iterator->Valid(); k++) merged.iterator->Prev();
      EXPECT_TRUE(merged.iterator->status().IsCorruption());
    }
  }
}

TEST(MergingIterator, VerifiesTheRecordItShows) {
  std::vector<LiveTable> tables(2);
  tables[0].records = {{{"a", Tag(1)}, "a"}};
  tables[1].records = {{{"b", Tag(1)}, "b"}};
  Merged merged(tables);
  merged.children[1]->Damage({"b", Tag(1)});
  merged.iterator->SeekToFirst();
  EXPECT_TRUE(merged.iterator->VerifyChecksum().ok());
  merged.iterator->Next();
  EXPECT_TRUE(merged.iterator->VerifyChecksum().IsCorruption());
}

TEST(MergingIterator, WhileOneChildStaysInFrontNoOtherIsMoved) {
  std::vector<LiveTable> tables(2);
  for (int k = 0; k < 50; k++) tables[0].records[{Concat("a", 100 + k), Tag(1)}] = "";
  tables[1].records = {{{"b", Tag(1)}, ""}};
  Merged merged(tables);
  merged.iterator->SeekToFirst();
  for (int k = 0; k < 50; k++) merged.iterator->Next();
  EXPECT_EQ(merged.children[1]->moves(), 1);
}

// Random tables with shared records, walked at random, against the union of the tables. `live`:
// between the moves tables get newer records, and all but the first are merged into the last, one
// after the other. Of a live walk only the records that were there at its start count.
void WalkAtRandom(uint64_t seed, bool live) {
  SCOPED_TRACE(Concat("seed ", seed, live ? " live" : ""));
  using testing::KeyShape;
  Random random(seed);
  constexpr uint64_t kSequence = 1000;
  std::vector<LiveTable> tables(1 + random.Uniform(live ? 5 : 30));
  if (live && tables.size() < 3) tables.resize(3);
  RecordMap all;
  const uint64_t keys = 1 + random.Uniform(60);
  const uint64_t records = random.Uniform(300);
  for (uint64_t i = 0; i < records; i++) {
    const OwnedKey key{testing::MakeKey(KeyShape::kMixed, random.Uniform(keys)),
                       Tag(1 + random.Uniform(kSequence))};
    const std::string value = Concat("v", key.tag);
    all[key] = value;
    tables[random.Uniform(tables.size())].records[key] = value;
    if (random.OneIn(4)) tables[random.Uniform(tables.size())].records[key] = value;
  }
  uint64_t newer = kSequence;
  size_t merging = tables.size() - 2;
  auto disturb = [&] {
    if (!live) return;
    // not without end: a backward walk may meet each newer one
    if (newer < kSequence + 300 && random.OneIn(2)) {
      const OwnedKey key{testing::MakeKey(KeyShape::kMixed, random.Uniform(keys)), Tag(++newer)};
      tables[0].records[key] = "newer";
    }
    if (merging > 0 && random.OneIn(3) && !tables[merging].MergeOne(&tables.back())) merging--;
  };
  Merged merged(tables);
  InternalIterator* it = merged.iterator.get();
  auto at = all.end();
  bool valid = false;
  for (int step = 0; step < 400; step++) {
    disturb();
    OwnedKey target{testing::MakeNearKey(KeyShape::kMixed, &random, keys),
                    Tag(1 + random.Uniform(kSequence))};
    if (random.OneIn(2) && !all.empty())
      target = std::next(all.begin(), static_cast<long>(random.Uniform(all.size())))->first;
    bool forward = random.OneIn(2);
    const uint64_t action = valid ? random.Uniform(20) : random.Uniform(4);
    if (action == 0) {
      it->SeekToFirst();
      at = all.begin();
      forward = true;
    } else if (action == 1) {
      it->SeekToLast();
      at = all.empty() ? all.end() : std::prev(all.end());
      forward = false;
    } else if (action == 2) {
      it->Seek(target.view());
      at = all.lower_bound(target);
      forward = true;
    } else if (action == 3) {
      it->SeekForPrev(target.view());
      at = all.upper_bound(target);
      at = at == all.begin() ? all.end() : std::prev(at);
      forward = false;
    } else if (forward) {
      it->Next();
      ++at;
    } else {
      it->Prev();
      at = at == all.begin() ? all.end() : std::prev(at);
    }
    while (live && it->Valid() && TagSequence(it->key().tag) > kSequence) {
      disturb();
      const OwnedKey before{std::string(it->key().user_key), it->key().tag};
      forward ? it->Next() : it->Prev();
      if (it->Valid()) {
        const int order = CompareInternal(it->key(), before.view());
        ASSERT_TRUE(forward ? order > 0 : order < 0);
      }
    }
    valid = at != all.end();
    ASSERT_EQ(it->Valid(), valid) << "step " << step;
    if (!valid) continue;
    ASSERT_EQ(CompareInternal(it->key(), at->first.view()), 0) << "step " << step;
    ASSERT_EQ(it->value(), at->second);
  }
}

TEST(MergingIterator, AgreesWithASortedMapWhateverTheWalk) {
  const uint64_t seed = testing::TestSeed();
  for (uint64_t i = 0; i < (kSanitized ? 100 : 300) && !::testing::Test::HasFatalFailure(); i++)
    WalkAtRandom(seed + i, false);
}

TEST(MergingIterator, ShowsEachOldRecordOnceWhileTablesChange) {
  const uint64_t seed = testing::TestSeed();
  for (uint64_t i = 0; i < (kSanitized ? 100 : 300) && !::testing::Test::HasFatalFailure(); i++)
    WalkAtRandom(seed + i, true);
}

}  // namespace
}  // namespace lamella
