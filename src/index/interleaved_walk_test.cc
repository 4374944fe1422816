#include "index/interleaved_walk.h"

#include <map>
#include <set>

#include "index/index_test_base.h"

namespace lamella {
namespace {

class Collector : public WalkVisitor {
 public:
  bool OnElement(PmPtr place, bool whole) override {
    EXPECT_TRUE(elements.emplace(place.word, whole).second) << "told twice";
    return elements.size() < elements_max;
  }
  void OnNeighbours(PmPtr before, PmPtr place) override {
    EXPECT_TRUE(befores.emplace(place.word, before.word).second) << "told twice";
  }

  size_t elements_max = SIZE_MAX;
  std::map<uint64_t, bool> elements;
  std::map<uint64_t, uint64_t> befores;
};

using InterleavedWalkTest = IndexTest;

TEST_F(InterleavedWalkTest, TellsOfEveryElementAndItsPredecessor) {
  for (uint64_t seed = 1; seed <= 12; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const uint32_t parts = 1 + static_cast<uint32_t>(seed % 3);
    CreateParts(parts);
    const Elements elements = RandomElements(&random, testing::KeyShape::kMixed,
                                             seed == 1 ? 0 : 1 + random.Uniform(20000), 5000);
    TestList list(pool_.get(), parts > 1);
    Link(elements, &list.list);
    Collector all;
    WalkInterleaved(list.list, 0, 0, &all);
    std::map<uint64_t, uint64_t> befores;
    PmPtr before;
    for (const auto& [key, place] : elements) {
      befores[place.word] = before.word;
      before = place;
    }
    EXPECT_EQ(all.befores, befores);
    EXPECT_EQ(all.elements.size(), elements.size());
    // Those of more than one layer are whole in the walk of their own lane.
    std::set<uint64_t> whole;
    for (uint32_t lane = 0; lane < list.list.lane_count(); lane++) {
      Collector upper;
      WalkInterleaved(list.list, lane, 1, &upper);
      EXPECT_TRUE(upper.befores.empty());
      for (const auto& [place, is_whole] : upper.elements) {
        EXPECT_TRUE(is_whole && At(PmPtr(place))->height() > 1 &&
                    list.list.Lane(PmPtr(place)) == lane);
        whole.insert(place);
      }
    }
    for (const auto& [key, place] : elements)
      EXPECT_EQ(whole.contains(place.word), At(place)->height() > 1);
  }
}

TEST_F(InterleavedWalkTest, AnElementThatIsMissingFromItsHighestLayerIsNotWhole) {
  CreateParts(1);
  Random random(3);
  const Elements elements = RandomElements(&random, testing::KeyShape::kMixed, 3000, 3000);
  TestList list(pool_.get(), false);
  Link(elements, &list.list);
  std::set<uint64_t> left_out;
  // each layer loses elements that end in it
  for (uint32_t layer = 1; layer < kHeightMax; layer++) {
    PmPtr before;
    for (PmPtr at = list.list.Next(before, 0, layer); at; at = list.list.Next(before, 0, layer)) {
      if (At(at)->height() == layer + 1 && random.OneIn(3)) {
        list.list.Link(before, 0, layer)->store(EncodeLink(list.list.Next(at, 0, layer)));
        left_out.insert(at.word);
      } else {
        before = at;
      }
    }
  }
  ASSERT_GT(left_out.size(), 100u);
  Collector all;
  WalkInterleaved(list.list, 0, 0, &all);
  ASSERT_EQ(all.elements.size(), elements.size());
  for (const auto& [place, whole] : all.elements) EXPECT_EQ(whole, !left_out.contains(place));
}

TEST_F(InterleavedWalkTest, EndsWhereTheVisitorSaysSo) {
  CreateParts(1);
  Random random(4);
  TestList list(pool_.get(), false);
  const Elements elements = RandomElements(&random, testing::KeyShape::kMixed, 3000, 3000);
  Link(elements, &list.list);
  Collector some;
  some.elements_max = 100;
  WalkInterleaved(list.list, 0, 0, &some);
  EXPECT_EQ(some.elements.size(), 100u);
}

}  // namespace
}  // namespace lamella
