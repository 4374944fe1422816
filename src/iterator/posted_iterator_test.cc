#include "iterator/posted_iterator.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "iterator/merging_iterator.h"
#include "iterator/test_iterators.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

using testing::TestSeed;

constexpr std::chrono::nanoseconds kAlways{0};

std::string ShowOrError(const InternalIterator& it) {
  if (!it.status().ok()) return it.status().ToString();
  return it.Valid() ? Concat(it.key().user_key, "=", it.value()) : "end";
}

class PostedIteratorTest : public ::testing::Test {
 protected:
  PostedIteratorTest() {
    Random random(TestSeed());
    for (int i = 0; i < 400; i++) {
      const OwnedKey key{Concat("key", 1000 + random.Uniform(900)),
                         MakeTag(static_cast<uint64_t>(i) + 1, RecordKind::kPut)};
      tables_[random.Uniform(tables_.size())].records[key] = Concat("value", i);
    }
  }
  /// Of all tables, each iterator as it is or behind a PostedIterator.
  std::unique_ptr<InternalIterator> NewMerge(HelperThreads* helpers,
                                             std::vector<LiveIterator*>* under = nullptr) {
    std::vector<std::unique_ptr<InternalIterator>> children;
    for (const LiveTable& table : tables_) {
      auto child = std::make_unique<LiveIterator>(&table);
      if (under != nullptr) under->push_back(child.get());
      if (helpers == nullptr) {
        children.push_back(std::move(child));
      } else {
        children.push_back(NewPostedIterator(std::move(child), helpers, &cost_));
      }
    }
    return NewMergingIterator(std::move(children));
  }

  std::vector<LiveTable> tables_ = std::vector<LiveTable>(5);
  SeekCost cost_;
};

TEST_F(PostedIteratorTest, AMergeOfThemWalksAsOneOfTheirSourcesDoes) {
  HelperThreads helpers(2, kAlways);
  const auto expected = NewMerge(nullptr);
  const auto posted = NewMerge(&helpers);
  Random random(TestSeed());
  for (int i = 0; i < 5000; i++) {
    const std::string key = Concat("key", 1000 + random.Uniform(900));
    const uint64_t what = random.Uniform(8);
    for (InternalIterator* it : {expected.get(), posted.get()}) {
      if (what == 0) {
        it->SeekToFirst();
      } else if (what == 1) {
        it->SeekToLast();
      } else if (what == 2 || !it->Valid()) {
        std::string target = key;
        it->Seek({target, kTagFirst});
        target.assign(target.size(), '!');  // the iterator has its own by now
      } else if (what == 3) {
        const std::string target(it->key().user_key);
        it->SeekForPrev({target, it->key().tag + 1});
      } else if (what < 6) {
        it->Next();
      } else {
        it->Prev();
      }
    }
    ASSERT_EQ(ShowOrError(*posted), ShowOrError(*expected));
  }
}

TEST_F(PostedIteratorTest, AnErrorIsThatOfTheSource) {
  HelperThreads helpers(2, kAlways);
  std::vector<LiveIterator*> under;
  const auto it = NewMerge(&helpers, &under);
  under[3]->FailAfter(1);
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsCorruption()) << it->status().ToString();
  under[3]->FailAfter(0);
  it->SeekToFirst();
  EXPECT_TRUE(it->Valid());
}

TEST_F(PostedIteratorTest, MayGoOrSeekAgainBeforeItArrived) {
  HelperThreads helpers(2, kAlways);
  for (int i = 0; i < 300; i++) {
    const auto it =
        NewPostedIterator(std::make_unique<LiveIterator>(&tables_[0]), &helpers, &cost_);
    it->SeekToLast();
    it->SeekToFirst();
    if (i % 2 == 0) continue;
    const RecordMap& records = tables_[0].records;
    EXPECT_EQ(ShowOrError(*it),
              Concat(records.begin()->first.user_key, "=", records.begin()->second));
  }
}

TEST_F(PostedIteratorTest, SeeksOfWhatIsInMemoryAreMadeAtOnce) {
  HelperThreads helpers(2, std::chrono::hours(1));
  auto child = std::make_unique<LiveIterator>(&tables_[0]);
  const LiveIterator* const source = child.get();
  const auto it = NewPostedIterator(std::move(child), &helpers, &cost_);
  it->SeekToFirst();
  EXPECT_EQ(source->moves(), 1);
}

TEST(SeekCost, FollowsWhatSeeksTakeAndIsNotLedAstrayByOne) {
  SeekCost cost;
  for (int i = 0; i < 1000; i++) cost.Note(2 * HelperThreads::kWorth);
  EXPECT_GT(cost.mean(), HelperThreads::kWorth);
  for (int i = 0; i < 1000; i++) cost.Note(HelperThreads::kWorth / 10);
  EXPECT_LT(cost.mean(), HelperThreads::kWorth / 5);
  cost.Note(std::chrono::seconds(1));
  EXPECT_LT(cost.mean(), HelperThreads::kWorth);
}

}  // namespace
}  // namespace lamella
