#include "index/skip_array_tree.h"

#include <cstdio>

#include "base/sanitizer.h"
#include "index/skip_array_test_base.h"
#include "testing/proof.h"

namespace lamella {
namespace {

using testing::KeyShape;

constexpr KeyShape kShapes[] = {KeyShape::kShort, KeyShape::kCommonPrefix, KeyShape::kBinary,
                                KeyShape::kMixed};

// The cascading search as it is printed in the paper (Algorithm 1), with what its text adds for the
// ends of a floor, and with the key `min` where the text has one: where the floor below ends before
// the new one begins. Its keys are internal ones; what is "equal" there is a version of the target.
PmPtr PrintedFind(const SkipArrayTree& tree, const TreeModel& model, const InternalKey& target) {
  int64_t number = static_cast<int64_t>(model.size()) - 1;
  int64_t start = 0;
  int64_t end = static_cast<int64_t>(model.back().size()) - 1;
  while (number >= 0) {
    const FloorModel& floor = model[number];
    const auto link = [&](int64_t i) {
      return tree.floor(number)->link(
          static_cast<uint32_t>(std::clamp<int64_t>(i, 0, static_cast<int64_t>(floor.size()) - 1)));
    };
    int64_t stop = start;  // the last in the range that is not greater than the target
    while (stop < end && CompareInternal(floor[stop + 1].first.view(), target) <= 0) stop++;
    // the first of the versions that the target may mean
    for (int64_t i = stop; i <= std::min(stop + 1, end); i++) {
      if (floor[i].first.user_key == target.user_key &&
          CompareInternal(floor[i].first.view(), target) >= 0)
        return floor[i].second;
    }
    const bool has_min = number > 0 && CompareInternal(model[number - 1].back().first.view(),
                                                       floor[0].first.view()) < 0;
    if (has_min && CompareInternal(floor[stop].first.view(), target) > 0) {
      number--;  // by the link of `min`
      start = 0;
      end = static_cast<int64_t>(model[number].size()) - 1;
      continue;
    }
    const FloorLink next = link(stop);
    if (!next.leads()) return {};
    const bool before = CompareInternal(model[next.floor][next.offset].first.view(), target) < 0;
    const FloorLink other = link(before ? stop + 1 : stop - 1);
    const int64_t other_floor = other.leads() ? other.floor : -1;
    if (next.floor == other_floor) {
      start = before ? next.offset : other.offset;
      end = before ? other.offset : next.offset;
    } else if (next.floor > other_floor) {
      start = before ? next.offset : 0;
      end = before ? static_cast<int64_t>(model[next.floor].size()) - 1 : next.offset;
    } else {
      start = before ? 0 : other.offset;
      end = before ? other.offset : static_cast<int64_t>(model[other_floor].size()) - 1;
    }
    number = std::max<int64_t>(next.floor, other_floor);
  }
  return {};
}

class SkipArrayTreeSearch : public SkipArrayTest {
 protected:
  InternalKey Newest(const std::string& name) { return {name_ = name, kTagFirst}; }
  PmPtr FindOf(const SkipArrayTree& tree, const std::string& name) {
    return tree.Find(Newest(name), Hash64(name), false).place;
  }

 private:
  std::string name_;
};

TEST_F(SkipArrayTreeSearch, FindsWhatAPlainSearchOfEveryFloorDoes) {
  Random random(testing::TestSeed());
  uint64_t floors = 0;
  uint64_t searches = 0;
  for (const KeyShape shape : kShapes) {
    WriteRecords(shape, 24, 12);
    const testing::Stopwatch watch;
    const double seconds = testing::ProofSeconds(1.5);
    while (watch.Seconds() < seconds) {
      const TreeModel model = RandomTree(&random, 1 + random.Uniform(random.OneIn(4) ? 12 : 5));
      const auto tree = Build(model, !random.OneIn(8), random.OneIn(4) ? 0 : 10);
      ASSERT_TRUE(tree->Ready().ok());
      constexpr int kTargets = 12;
      ASSERT_EQ(Problem(tree, model, &random, kTargets), "");
      floors += model.size();
      searches += kTargets;
    }
  }
  std::printf("%llu random floors, %llu targets\n", static_cast<unsigned long long>(floors),
              static_cast<unsigned long long>(searches));
  testing::ProofAdd("skip_array_floors", floors);
}

TEST_F(SkipArrayTreeSearch, FindsInAsManyFloorsAsALinkTellsApart) {
  Random random(testing::TestSeed());
  WriteRecords(KeyShape::kMixed, 12, kFloorsMax);
  for (int i = 0; i < (LAMELLA_THREAD_SANITIZER ? 2 : 20); i++) {
    const TreeModel model = RandomTree(&random, kFloorsMax);
    const auto tree = Build(model);
    ASSERT_EQ(Problem(tree, model, &random, 200), "");
    ASSERT_TRUE(CheckOf(*Reopened(*tree)).empty());
  }
}

// The pictures of what the printed algorithm misses. Each letter is a key.
TEST_F(SkipArrayTreeSearch, FindsWhatIsBeforeTheFirstEntryOfTheFloorAbove) {
  WriteRecords(KeyShape::kShort, 26, 2);
  const std::string a = names_[0], b = names_[1], c = names_[2], d = names_[3];
  const TreeModel model = Named({{a, b, d}, {c}});
  const auto tree = Build(model);
  EXPECT_EQ(FindOf(*tree, a), model[0][0].second);
  EXPECT_EQ(FindOf(*tree, b), model[0][1].second);
  EXPECT_FALSE(PrintedFind(*tree, model, Newest(a)));
}

TEST_F(SkipArrayTreeSearch, FindsWhatIsAfterWhereTheLastEntryOfTheFloorAboveLinksTo) {
  WriteRecords(KeyShape::kShort, 26, 2);
  const std::string a = names_[0], b = names_[1], c = names_[2], d = names_[3];
  const TreeModel model = Named({{b, c, d}, {a}});
  const auto tree = Build(model);
  EXPECT_EQ(FindOf(*tree, c), model[0][1].second);
  EXPECT_EQ(FindOf(*tree, d), model[0][2].second);
  EXPECT_FALSE(PrintedFind(*tree, model, Newest(d)));
}

TEST_F(SkipArrayTreeSearch, PassesByFloorsThatEndBeforeTheTarget) {
  WriteRecords(KeyShape::kShort, 26, 3);
  const std::string a = names_[0], b = names_[1], c = names_[2], d = names_[3], e = names_[4];
  const TreeModel model = Named({{a, e}, {b}, {c, d}});
  const auto tree = Build(model);
  EXPECT_EQ(tree->floor(2)->link(0), (FloorLink{0, 1}));
  for (const std::string& name : {a, b, c, d, e})
    EXPECT_EQ(FindOf(*tree, name), PlainFind(model, Newest(name))) << name;
}

// The control of the property: the algorithm as it is printed does not have it.
TEST_F(SkipArrayTreeSearch, ThePrintedAlgorithmMissesKeysOfRandomFloors) {
  Random random(testing::TestSeed());
  WriteRecords(KeyShape::kMixed, 24, 6);
  int missed = 0;
  int agreed = 0;
  for (int i = 0; i < 2000; i++) {
    const TreeModel model = RandomTree(&random, 2 + random.Uniform(5));
    const auto tree = Build(model);
    const std::string name = names_[random.Uniform(names_.size())];
    const PmPtr plain = PlainFind(model, Newest(name));
    if (!plain) continue;
    (PrintedFind(*tree, model, Newest(name)) == plain ? agreed : missed)++;
  }
  EXPECT_GT(missed, 10);
  EXPECT_GT(agreed, 100);  // it is no straw man
}

// The controls of the rest: whatever is changed in the bytes of a floor, with checksums that agree,
// the comparison with a plain search or Check tells.
TEST_F(SkipArrayTreeSearch, AChangedFloorIsNoticed) {
  Random random(testing::TestSeed());
  WriteRecords(KeyShape::kMixed, 24, 4);
  enum Planted : int { kLinkMoved, kLinkCut, kHead, kPlaces, kFilter, kPlantedCount };
  for (int planted = 0; planted < kPlantedCount; planted++) {
    int times_noticed = 0;
    for (int i = 0; i < 50; i++) {
      TreeModel model = RandomTree(&random, 4);
      model[2] = records_[2];  // with something to change
      model[1] = records_[1];
      const auto tree = Build(model);
      const Floor& floor = *tree->floor(2);
      const auto at = static_cast<uint32_t>(1 + random.Uniform(floor.count() - 4));
      char* const link = ColumnOf(floor, &FloorLayout::links) + 3 * at;
      auto* const heads = reinterpret_cast<uint64_t*>(ColumnOf(floor, &FloorLayout::heads));
      auto* const places = reinterpret_cast<uint64_t*>(ColumnOf(floor, &FloorLayout::places));
      switch (planted) {
        case kLinkMoved:
          link[1] = static_cast<char>(link[1] + (link[1] == 0 ? 1 : -1));
          break;
        case kLinkCut:
          link[0] = static_cast<char>(0xff);
          break;
        case kHead:
          heads[at] ^= 1;
          break;
        case kPlaces:
          std::swap(places[at], places[at + 1]);
          break;
        case kFilter:
          std::memset(ColumnOf(floor, &FloorLayout::filter), 0,
                      floor.header().filter_lines * sizeof(FilterLine));
          break;
        default:
          FAIL();
      }
      Resum(floor);
      EXPECT_FALSE(CheckOf(*Reopened(*tree)).empty()) << planted;
      bool noticed = !LinkProblem(*tree, model).empty();
      for (uint32_t f = 0; f < model.size(); f++) {
        for (const auto& [key, place] : model[f]) {
          noticed = noticed || !SearchProblem(*tree, model, key.view()).empty();
        }
      }
      times_noticed += noticed ? 1 : 0;
    }
    // A head that is less than its key's, and still in order, misleads no search for what is there;
    // and the floor above may hide all that is cut from the filter.
    const int least = planted == kHead ? 0 : planted == kFilter ? 30 : 50;
    EXPECT_GE(times_noticed, least) << planted;
  }
}

TEST_F(SkipArrayTreeSearch, AWalkThatIsWrongIsNoticed) {
  Random random(testing::TestSeed());
  WriteRecords(KeyShape::kShort, 24, 3);
  int noticed = 0;
  for (int i = 0; i < 100; i++) {
    TreeModel model = RandomTree(&random, 3);
    const auto tree = Build(model);
    if (model[1].size() < 2) continue;
    model[1].erase(model[1].begin() + static_cast<ptrdiff_t>(random.Uniform(model[1].size())));
    noticed += WalkProblem(tree, model, &random, 500).empty() ? 0 : 1;
  }
  EXPECT_GT(noticed, 40);
}

TEST_F(SkipArrayTreeSearch, DamageOfARecordEndsASearchThatVerifies) {
  WriteRecords(KeyShape::kShort, 26, 2);
  const TreeModel model = Named({{names_[0], names_[1], names_[3]}, {names_[2]}});
  const auto tree = Build(model);
  const PmPtr place = model[0][1].second;
  Flip(place, 8 * sizeof(RecordHeader));
  const std::string name = names_[1];
  const PlacedVersion found = tree->Find(Newest(name), Hash64(name), true);
  EXPECT_TRUE(found.place.damaged());
  EXPECT_EQ(found.place.culprit(), place);
  const auto it = NewSkipArrayIterator(tree, true);
  it->SeekToFirst();
  while (it->Valid() && it->key().user_key != name) it->Next();
  EXPECT_TRUE(it->status().IsCorruption()) << it->status().ToString();
  EXPECT_FALSE(it->Valid());
}

}  // namespace
}  // namespace lamella
