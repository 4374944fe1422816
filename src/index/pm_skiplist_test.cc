#include "index/pm_skiplist.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/numa.h"
#include "index/index_test_base.h"
#include "testing/format_doc.h"

namespace lamella {
namespace {

using testing::KeyShape;
using PmSkipListTest = IndexTest;

TEST(SkipListHeadsLayout, IsAsDocumented) {
  EXPECT_EQ(testing::FormatDifference("SkipListHeads", sizeof(SkipListHeads),
                                      {LAMELLA_FORMAT_FIELD(SkipListHeads, next)}),
            "");
}

TEST_F(PmSkipListTest, AnEmptyListHasNoElements) {
  CreateParts(2);
  ChunkRef chunk = MustClaim();
  auto* heads = reinterpret_cast<SkipListHeads*>(pool_->ChunkAddress(chunk));
  std::memset(static_cast<void*>(heads), 0xff, sizeof(*heads));
  ClearHeads(heads, &*persister_);
  const PmSkipList list(pool_.get(), heads, true);
  EXPECT_EQ(list.First(), PmPtr());
  EXPECT_EQ(list.FindLast(), PmPtr());
  EXPECT_EQ(list.FindBefore({"a", 5}, PmPtr(), nullptr), PmPtr());
  EXPECT_EQ(list.FindAtOrAfter({"a", 5}, PmPtr(), nullptr), PmPtr());
}

TEST_F(PmSkipListTest, SearchesAgreeWithASortedMap) {
  for (uint64_t seed = 1; seed <= 24; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const ListShape shape = kListShapes[seed % std::size(kListShapes)];
    CreateParts(shape.parts);
    AddToOneOrAll(&random);  // I4
    TestList t(pool_.get(), shape.braided);
    const uint64_t keys = 1 + random.Uniform(400);
    const Elements elements = RandomElements(&random, KeyShape::kMixed, random.Uniform(600), keys);
    Link(elements, &t.list);
    ASSERT_EQ(ListProblem(t.list, elements, true), "");
    EXPECT_EQ(t.list.FindLast(), elements.empty() ? PmPtr() : elements.rbegin()->second);
    for (int i = 0; i < 1000; i++) {
      const OwnedKey target = RandomTarget(&random, KeyShape::kMixed, keys, elements);
      // From the head, or from any element before the target.
      PmPtr start = Before(elements, target.view());
      if (start && random.OneIn(2)) {
        start = AtOrAfter(elements,
                          {testing::MakeKey(KeyShape::kMixed, random.Uniform(keys)), kTagFirst});
        if (start && CompareInternal(At(start)->internal_key(), target.view()) >= 0)
          start = PmPtr();
      } else if (random.OneIn(2)) {
        start = PmPtr();
      }
      const bool verify = random.OneIn(2);
      const AssumedNumaNode reader(static_cast<uint32_t>(random.Uniform(4)));
      ASSERT_EQ(t.list.FindBefore(target.view(), start, nullptr, verify),
                Before(elements, target.view()));
      ASSERT_EQ(t.list.FindAtOrAfter(target.view(), start, nullptr, verify),
                AtOrAfter(elements, target.view()));
      const auto lowest = static_cast<uint32_t>(1 + random.Uniform(3));
      const PmPtr tall = t.list.FindBefore(target.view(), start, nullptr, verify, lowest);
      if (!tall || tall == start) continue;
      ASSERT_GT(At(tall)->height(), lowest);
      ASSERT_LT(CompareInternal(At(tall)->internal_key(), target.view()), 0);
    }
  }
}

// The control of ListProblem: it notices an element that is missing, misplaced, or in a layer that
// it has no business in.
TEST_F(PmSkipListTest, AListThatIsNotAsItShouldBeIsNoticed) {
  CreateParts(2);
  Random random(5);
  const Elements elements = RandomElements(&random, KeyShape::kShort, 100, 100);
  const std::vector<PmPtr> places = PlacesOf(elements);
  TestList t(pool_.get(), true);
  const auto anew = [&] {
    Link(elements, &t.list);
    ASSERT_EQ(ListProblem(t.list, elements, true), "");
  };
  anew();
  t.list.Link(places[10], 0, 0)->store(EncodeLink(places[12]));
  EXPECT_NE(ListProblem(t.list, elements, false), "") << "one is missing";
  anew();
  t.list.Link(places[10], 0, 0)->store(EncodeLink(places[9]));
  EXPECT_NE(ListProblem(t.list, elements, false), "") << "a circle";
  anew();
  t.list.Link(places[50], 0, 0)->store(t.list.Link(places[50], 0, 0)->load() ^ 2);
  EXPECT_NE(ListProblem(t.list, elements, false), "") << "a damaged link";
  anew();
  t.list.Link(PmPtr(), 1, 2)->store(kEndLink);
  t.list.Link(PmPtr(), 1, 3)->store(kEndLink);
  EXPECT_EQ(ListProblem(t.list, elements, false), "") << "shortcuts may be missing";
  EXPECT_NE(ListProblem(t.list, elements, true), "");
  anew();
  t.list.Link(PmPtr(), 1, 1)->store(kEndLink);
  EXPECT_NE(ListProblem(t.list, elements, false), "") << "but not below one that is there";
  anew();
  t.list.Link(PmPtr(), 1, 1)->store(t.list.Link(PmPtr(), 0, 1)->load());
  EXPECT_NE(ListProblem(t.list, elements, false), "") << "another lane's element";
}

// Dissertation 6.4: the upper layers of a lane stay on one part.
TEST_F(PmSkipListTest, OnlyTheBottomOfABraidedListCrossesParts) {
  CreateParts(3);
  Random random(7);
  const Elements elements = RandomElements(&random, KeyShape::kCommonPrefix, 3000, 100000);
  TestList t(pool_.get(), true);
  Link(elements, &t.list);
  for (uint32_t lane = 0; lane < 3; lane++) {
    for (uint32_t layer = 1; layer < kHeightMax; layer++) {
      for (PmPtr at = t.list.Next(PmPtr(), lane, layer); at; at = t.list.Next(at, lane, layer)) {
        ASSERT_EQ(at.part(), lane);
      }
    }
  }
}

// I4: however few of the elements its reader's part has.
TEST_F(PmSkipListTest, ALaneOfFewElementsDoesNotMakeASearchAWalk) {
  constexpr uint64_t kElements = 20000;
  constexpr uint64_t kSearches = 1000;
  for (const uint64_t in_lane_0 : {0, 20, 400}) {
    SCOPED_TRACE(std::to_string(in_lane_0) + " elements in the first lane");
    CreateParts(4);
    Random random(3);
    Elements elements;
    for (uint64_t i = 0; i < kElements; i++) {
      const OwnedKey key{testing::MakeKey(KeyShape::kCommonPrefix, i),
                         MakeTag(i + 1, RecordKind::kPut)};
      const bool first = in_lane_0 != 0 && i % (kElements / in_lane_0) == 0;
      elements[key] =
          Add({.tag = key.tag, .key = key.user_key, .value = {}, .height = RandomHeight(&random)},
              first ? 0 : 3);
    }
    for (auto& appender : appenders_) appender->Seal();
    TestList t(pool_.get(), true);
    Link(elements, &t.list);
    ASSERT_EQ(ListProblem(t.list, elements, true), "");
    for (uint32_t reader = 0; reader < 4; reader++) {
      const AssumedNumaNode node(reader);
      HopTally hops;
      for (uint64_t i = 0; i < kSearches; i++) {
        const OwnedKey target{testing::MakeKey(KeyShape::kCommonPrefix, random.Uniform(kElements)),
                              kTagFirst};
        ASSERT_EQ(t.list.FindBefore(target.view(), PmPtr(), &hops),
                  Before(elements, target.view()));
      }
      EXPECT_LT((hops.local + hops.remote) / kSearches, 120u) << "by a reader at part " << reader;
      const OwnedKey& last = elements.rbegin()->first;
      uint64_t behind = 0;
      for (PmPtr at = t.list.FindBefore(last.view(), PmPtr(), nullptr, false, 2);
           at && behind < 500; at = t.list.Next(at, 0, 0))
        behind++;
      EXPECT_LT(behind, 500u) << "a tall element near the end";
      EXPECT_GT(behind, 0u);
      EXPECT_EQ(t.list.FindLast(), elements.rbegin()->second);
    }
  }
}

// A search in a braided list leaves its reader's part only at the bottom: 4 (N - 1) hops or so, N
// parts and a branching of 4, however long the list is. Those of a plain one grow with the list,
// (N - 1) / N of all its hops.
TEST_F(PmSkipListTest, RemoteHopsOfABraidedListDoNotGrowWithIt) {
  constexpr int kSearches = 3000;
  for (const uint32_t parts : {2u, 3u}) {
    SCOPED_TRACE(std::to_string(parts) + " parts");
    double remote[2][2];  // of a search, by size of the list and by braided
    for (const bool large : {false, true}) {
      CreateParts(parts);
      Random random(1);
      const Elements elements =
          RandomElements(&random, KeyShape::kCommonPrefix, large ? 60000 : 500, 1000000);
      const auto heads = std::make_unique<SkipListHeads>();
      for (const bool braided : {false, true}) {
        PmSkipList list(pool_.get(), heads.get(), braided);
        Link(elements, &list);
        HopTally hops;
        for (int i = 0; i < kSearches; i++) {
          const AssumedNumaNode reader(static_cast<uint32_t>(i) % parts);
          const std::string key =
              testing::MakeKey(KeyShape::kCommonPrefix, random.Uniform(1000000));
          list.FindAtOrAfter({key, kTagFirst}, PmPtr(), &hops);
        }
        remote[large][braided] = static_cast<double>(hops.remote) / kSearches;
        if (!braided) {
          const double share =
              static_cast<double>(hops.remote) / static_cast<double>(hops.remote + hops.local);
          EXPECT_NEAR(share, (parts - 1.0) / parts, 0.1) << "the control: records lie anywhere";
        }
      }
    }
    EXPECT_NEAR(remote[true][true] / remote[false][true], 1, 0.3);
    EXPECT_GT(remote[true][false], 1.2 * remote[false][false]);
    EXPECT_LT(remote[true][true], 4.0 * (parts - 1) * 1.2);
    EXPECT_LT(remote[true][true], remote[true][false] / 2);
  }
}

TEST_F(PmSkipListTest, ADamagedLinkOfTheBottomIsToldAndOneAboveOnlyEndsAShortcut) {
  CreateParts(2);
  AddTo(1);  // by a reader of part 0 this is a walk, and goes up again
  Random random(13);
  const Elements elements = RandomElements(&random, KeyShape::kMixed, 120, 120);
  TestList t(pool_.get(), true);
  Link(elements, &t.list);
  std::vector<PmPtr> holders = PlacesOf(elements);
  holders.push_back(PmPtr());  // the head
  for (const PmPtr holder : holders) {
    for (uint32_t lane = 0; lane < (holder ? 1u : 2u); lane++) {
      const uint32_t height = holder ? At(holder)->height() : (lane == 0 ? kHeightMax : 3u);
      for (uint32_t layer = 0; layer < height; layer++) {
        PmWord* link = t.list.Link(holder, holder ? t.list.Lane(holder) : lane, layer);
        const uint64_t sound = link->load();
        // A flipped bit; a lost line; a link out of the pool, with a check that holds.
        const uint64_t damages[] = {sound ^ (uint64_t{1} << random.Uniform(64)), 0,
                                    EncodeLink(PmPtr(9, 4096)),
                                    EncodeLink(PmPtr(0, pool_->pool_bytes()))};
        for (const uint64_t damage : damages) {
          link->store(damage);
          for (const auto& [key, place] : elements) {
            const PmPtr found = t.list.FindAtOrAfter(key.view(), PmPtr(), nullptr);
            const PmPtr before = t.list.FindBefore(key.view(), PmPtr(), nullptr);
            if (layer > 0) {
              ASSERT_EQ(found, place) << "layer " << layer;
              ASSERT_EQ(before, Before(elements, key.view()));
            } else if (found != place) {
              ASSERT_TRUE(found.damaged());
              ASSERT_EQ(found.culprit(), holder);
              ASSERT_FALSE(DescribeDamage(*pool_, found).ok());
            }
          }
          // Who must follow the damaged link cannot get past it.
          if (layer == 0) {
            const PmPtr last = t.list.FindLast();
            EXPECT_TRUE(last.damaged() || last == elements.rbegin()->second);
            const auto next =
                holder
                    ? std::next(elements.find({std::string(At(holder)->key()), At(holder)->tag()}))
                    : elements.begin();
            if (next != elements.end()) {
              EXPECT_EQ(t.list.FindAtOrAfter(next->first.view(), holder, nullptr),
                        PmPtr::DamagedAt(holder));
            }
          }
        }
        link->store(sound);
      }
    }
  }
}

TEST_F(PmSkipListTest, AVerifyingSearchAnswersRightOrDamagedWhateverBitFlips) {
  CreateParts(2);
  Random random(17);
  const Elements elements = RandomElements(&random, KeyShape::kMixed, 40, 25);
  TestList t(pool_.get(), true);
  Link(elements, &t.list);
  uint64_t told = 0;
  for (const auto& [damaged_key, damaged] : elements) {
    const uint64_t bits = 8 * At(damaged)->bytes();
    for (uint64_t bit = 0; bit < bits; bit++) {
      Flip(damaged, bit);
      for (int i = 0; i < 4; i++) {
        const OwnedKey target = RandomTarget(&random, KeyShape::kMixed, 25, elements);
        PmPtr found = t.list.FindAtOrAfter(target.view(), PmPtr(), nullptr, true);
        if (found.damaged()) {
          told++;
          ASSERT_EQ(found.culprit(), damaged);
          ASSERT_FALSE(DescribeDamage(*pool_, found).ok());
        } else {
          ASSERT_EQ(found, AtOrAfter(elements, target.view())) << "bit " << bit;
        }
        found = t.list.FindBefore(target.view(), PmPtr(), nullptr, true);
        ASSERT_TRUE(found.damaged() || found == Before(elements, target.view())) << "bit " << bit;
      }
      Flip(damaged, bit);
    }
  }
  EXPECT_GT(told, 0u);
}

TEST_F(PmSkipListTest, ASearchFromADamagedElementIsDamaged) {
  CreateParts(1);
  const PmPtr place = Add("a", 1);
  TestList t(pool_.get(), false);
  t.list.Link(PmPtr(), 0, 0)->store(EncodeLink(place));
  t.list.Link(place, 0, 0)->store(kEndLink);
  EXPECT_EQ(t.list.FindBefore({"b", 1}, place, nullptr, true), place);
  At(place)->header.value_size ^= 1;
  EXPECT_EQ(t.list.FindBefore({"b", 1}, place, nullptr, true), PmPtr::DamagedAt(place));
}

// What I3 says of a start: from an element that is not linked any more, a search passes by what was
// linked since.
TEST_F(PmSkipListTest, ASearchFromAnUnlinkedElementPassesByWhatIsLinkedSince) {
  CreateParts(1);
  TestList t(pool_.get(), false);
  const PmPtr a = Add("a", 1);
  const PmPtr c = Add("c", 1);
  const PmPtr b = Add("b", 1);
  const uint64_t tag = MakeTag(1, RecordKind::kPut);
  Link({{{"a", tag}, a}, {{"c", tag}, c}}, &t.list);
  const PmPtr copy = Add("a", 1);
  t.list.Link(copy, 0, 0)->store(EncodeLink(c));
  t.list.Link(PmPtr(), 0, 0)->store(EncodeLink(copy));  // `a` leads back into the list
  EXPECT_EQ(t.list.FindAtOrAfter({"b", kTagFirst}, a, nullptr), c);
  t.list.Link(b, 0, 0)->store(EncodeLink(c));
  t.list.Link(copy, 0, 0)->store(EncodeLink(b));
  EXPECT_EQ(t.list.FindAtOrAfter({"b", kTagFirst}, copy, nullptr), b);
  EXPECT_EQ(t.list.FindAtOrAfter({"b", kTagFirst}, a, nullptr), c);
}

}  // namespace
}  // namespace lamella
