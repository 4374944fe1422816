#include "engine/skiplist_check.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "index/index_test_base.h"

namespace lamella {
namespace {

using testing::KeyShape;

class SkipListCheckTest : public IndexTest {
 protected:
  SkipListCheckTest() {
    CreateParts(2);
    Random random(11);
    elements_ = RandomElements(&random, KeyShape::kMixed, 200, 200);
    places_ = PlacesOf(elements_);
    t_.emplace(pool_.get(), true);
  }
  void LinkAnew() { Link(elements_, &t_->list); }
  /// The first problem, or nothing.
  std::string Problem(bool obsolete_is_damage = true) {
    CheckReport report;
    CheckSkipList(*pool_, t_->list,
                  {.name = "the list",
                   .elements_max = elements_.size(),
                   .obsolete_is_damage = obsolete_is_damage},
                  &report);
    EXPECT_EQ(report.tables, 1u);
    records_ = report.records;
    return report.clean() ? "" : report.problems.front();
  }
  PmWord* Bottom(PmPtr before) { return t_->list.Link(before, 0, 0); }

  Elements elements_;
  std::vector<PmPtr> places_;
  std::optional<TestList> t_;
  uint64_t records_ = 0;
};

TEST_F(SkipListCheckTest, ASoundListHasNoProblem) {
  LinkAnew();
  EXPECT_EQ(Problem(), "");
  EXPECT_EQ(records_, elements_.size());
}

TEST_F(SkipListCheckTest, DamageIsNamed) {
  const auto expect = [this](const std::string& what) {
    const std::string said = Problem();
    EXPECT_NE(said.find(what), std::string::npos) << said;
    EXPECT_EQ(said.find("the list, layer "), 0u) << said;
  };
  LinkAnew();
  Bottom(places_[10])->store(Bottom(places_[10])->load() ^ 2);
  expect("is damaged");
  LinkAnew();
  Bottom(places_[10])->store(EncodeLink(places_[9]));
  expect("is not after its predecessor");
  LinkAnew();
  size_t tall = 1;
  while (At(places_[tall])->height() == 1) tall++;
  Bottom(places_[tall - 1])->store(EncodeLink(places_[tall + 1]));
  expect("is not in the layer below");
  LinkAnew();
  t_->list.Link(PmPtr(), 1, 1)->store(t_->list.Link(PmPtr(), 0, 1)->load());
  expect("has no link in this layer");
  LinkAnew();
  Flip(places_[20], 8 * offsetof(RecordHeader, tag) + 9);
  EXPECT_NE(Problem(), "");
}

TEST_F(SkipListCheckTest, ACircleEnds) {
  LinkAnew();
  // one record twice is met by its order; more than there are, by their number
  elements_.erase(elements_.begin());
  EXPECT_NE(Problem().find("run in a circle"), std::string::npos);
}

TEST_F(SkipListCheckTest, WhatIsMarkedObsoleteMayBeLinkedOnlyWhereGcKeepsOff) {
  LinkAnew();
  At(places_[30])->MarkObsolete(&*persister_);
  EXPECT_NE(Problem().find("gc would free it"), std::string::npos);
  EXPECT_EQ(Problem(false), "");
}

}  // namespace
}  // namespace lamella
