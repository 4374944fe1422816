#include "index/zipper.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "index/skiplist_iterator.h"
#include "index/zipper_test_base.h"
#include "iterator/merging_iterator.h"

namespace lamella {
namespace {

TEST_F(ZipperTest, MergesAgreeWithAModelWhateverSnapshotsLive) {
  for (uint64_t seed = 1; seed <= 30; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto parts = static_cast<uint32_t>(1 + random.Uniform(3));
    StartAnew(parts, parts > 1 && random.OneIn(2));
    const uint64_t keys = 1 + random.Uniform(200);
    for (int round = 0; round < 6; round++) {
      const Elements upper = NewUpper(&random, random.Uniform(200), keys);
      Observer observer;
      for (uint64_t i = random.Uniform(4); i-- > 0;)
        observer.snapshots.insert(random.Uniform(sequence_));
      if (random.OneIn(2)) {
        observer.nearby = [&](const InternalKey& key, uint32_t height_min, uint32_t lane) {
          return NearbyOf(&random, key, height_min, lane);
        };
      }
      const Elements before = elements_;
      MustMerge(upper, &observer);
      ASSERT_EQ(ListProblem(*lower_, elements_, true), "") << "round " << round;
      // Told of exactly what was linked, and of what nobody sees any more.
      std::set<uint64_t> gone;
      for (const Elements* from : {&before, &upper}) {
        for (const auto& [key, place] : *from) {
          const bool kept = elements_.contains(key);
          EXPECT_EQ(At(place)->obsolete(), !kept) << key.user_key;
          if (!kept) gone.insert(place.word);
          EXPECT_TRUE(from != &upper || observer.linked.contains(place.word) == kept);
        }
      }
      for (const auto& [place, was_linked] : observer.obsolete) {
        EXPECT_TRUE(At(PmPtr(place))->obsolete());
        EXPECT_TRUE(gone.erase(place) == 1);
        EXPECT_EQ(was_linked,
                  before.contains({std::string(At(PmPtr(place))->key()), At(PmPtr(place))->tag()}));
      }
      EXPECT_TRUE(gone.empty());
    }
  }
}

// A merge takes its elements in windows of about a thousand; a key's versions stay in one.
TEST_F(ZipperTest, MergesOfManyWindowsAgreeWithAModel) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto parts = static_cast<uint32_t>(1 + random.Uniform(2));
    StartAnew(parts, parts > 1);
    const uint64_t keys = seed % 3 == 0 ? 3 : 6000;
    for (int round = 0; round < 3; round++) {
      const Elements upper = NewUpper(&random, 4000, keys);
      Observer observer;
      for (int i = 0; i < 3; i++) observer.snapshots.insert(random.Uniform(sequence_));
      observer.nearby = [&](const InternalKey& key, uint32_t height_min, uint32_t lane) {
        return NearbyOf(&random, key, height_min, lane);
      };
      MustMerge(upper, &observer);
      ASSERT_EQ(ListProblem(*lower_, elements_, true), "") << "round " << round;
    }
  }
}

TEST_F(ZipperTest, AnEmptyUpperListChangesNothing) {
  StartAnew(1, false);
  Random random(1);
  Fill(&random, 50, 50);
  Observer observer;
  EXPECT_TRUE(Merge({}, &observer).ok());
  EXPECT_EQ(ListProblem(*lower_, elements_, true), "");
  EXPECT_TRUE(observer.linked.empty() && observer.obsolete.empty());
}

TEST_F(ZipperTest, ReadersMissNoElementWhileItMerges) {  // I1
  for (uint64_t seed = 1; seed <= 6; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    StartAnew(seed % 2 == 0 ? 2 : 1, seed % 2 == 0);
    Fill(&random, 60, 40);
    const Elements upper = NewUpper(&random, 40, 40);
    Observer observer;
    observer.snapshots = {random.Uniform(sequence_), random.Uniform(sequence_)};
    const Elements after = Merged(elements_, upper, observer.snapshots);
    std::set<uint64_t> as_of = observer.snapshots;
    as_of.insert(kSequenceMax);
    // Versions that nobody sees may go before the merge is over.
    Elements seen;
    for (const auto& [key, place] : after) seen[key] = place;
    uint64_t looks = 0;
    medium_.OnEveryVerb([&] {
      looks++;
      ASSERT_EQ(Missed(upper_->list, seen, as_of), "") << "look " << looks;
    });
    MustMerge(upper, &observer);
    medium_.OnEveryVerb(nullptr);
    EXPECT_GT(looks, 100u);
    EXPECT_EQ(Missed(upper_->list, elements_, as_of), "");
  }
}

// The control: linked from the front, the rest of the upper list is out of reach at once.
TEST_F(ZipperTest, AMergeFromTheFrontWouldMissElements) {
  StartAnew(1, false);
  Random random(3);
  Fill(&random, 60, 40);
  const Elements upper = NewUpper(&random, 40, 40);
  const Elements after = Merged(elements_, upper, {});
  ASSERT_EQ(Missed(upper_->list, after, {kSequenceMax}), "");
  const PmPtr first = upper.begin()->second;
  const PmPtr before = lower_->FindBefore(At(first)->internal_key(), PmPtr(), nullptr);
  lower_->Link(first, 0, 0)->store(EncodeLink(lower_->Next(before, 0, 0)));
  lower_->Link(before, 0, 0)->store(EncodeLink(first));
  EXPECT_NE(Missed(upper_->list, after, {kSequenceMax}), "");
}

// A merge cut at every fence, and its redo cut at a random one: by a kill, which keeps every store,
// and by a power cut, which keeps of each line that is not fenced any version (I2, I3, I4).
TEST_F(ZipperTest, AMergeCutAtEveryFenceIsDoneAgain) {
  uint64_t cuts = 0;
  for (uint64_t seed = 1; seed <= 18; seed++) {
    for (const bool power : {false, true}) {
      SCOPED_TRACE(Concat("seed ", seed, power ? " power" : " kill"));
      Random random(seed);
      StartAnew(seed % 3 == 0 ? 2 : 1, seed % 3 == 0);
      Fill(&random, 40, 25, seed % 2 == 0);
      const Elements before = elements_;
      const Elements upper = NewUpper(&random, 30, 25);
      std::set<uint64_t> snapshots;  // they live until the crash
      for (int i = 0; i < 3; i++) snapshots.insert(random.Uniform(sequence_));
      const Elements most = Merged(before, upper, snapshots);
      const Elements least = Merged(before, upper, {});
      medium_.Watch(*pool_);
      for (uint64_t fence = 1;; fence++) {
        SCOPED_TRACE(Concat("fence ", fence));
        medium_.Restore();
        bool done = false;
        uint64_t cut = fence;
        for (int run = 0; !done; run++) {
          Observer observer;
          if (run == 0) observer.snapshots = snapshots;
          const std::vector<PmPtr> places = Walk(upper_->list, upper.size());
          medium_.CutAt(cut);
          try {
            ASSERT_TRUE(Merge(places, &observer).ok());
            done = true;
          } catch (const Crash&) {
            cuts++;
            cut = run == 0 && random.OneIn(2) ? 1 + random.Uniform(60) : 0;
            medium_.CutAt(0);
            if (power) medium_.LosePower(&random);
            ASSERT_EQ(Missed(upper_->list, least, {kSequenceMax}), "");
          }
          const std::vector<PmPtr> bottom = Walk(*lower_, 1000);
          Elements now;
          for (const PmPtr place : bottom)
            now[{std::string(At(place)->key()), At(place)->tag()}] = place;
          // sorted, and the layers above are part of it
          ASSERT_EQ(ListProblem(*lower_, now, false), "");
          if (!done) continue;
          for (const auto& [key, place] : least) ASSERT_TRUE(now.contains(key)) << key.user_key;
          for (const auto& [key, place] : now) ASSERT_TRUE(most.contains(key)) << key.user_key;
          // The marks are durable, and are on what is out of the list, and on nothing else.
          medium_.CutAt(0);
          if (power) medium_.LosePower(&random);
          for (const Elements* from : {&before, &upper}) {
            for (const auto& [key, place] : *from) {
              ASSERT_EQ(At(place)->obsolete(), !now.contains(key))
                  << key.user_key << " @" << TagSequence(key.tag);
            }
          }
          ASSERT_EQ(ListProblem(*lower_, now, false), "");
        }
        if (cut == fence) break;  // it was over before
      }
      medium_.Stop();
    }
  }
  EXPECT_GT(cuts, 500u);
  RecordProperty("cuts", static_cast<int>(cuts));
}

// The control of the power cut: a list whose links were never flushed does not survive it.
TEST_F(ZipperTest, AMediumThatLosesLinesLosesAListThatWasNotFlushed) {
  StartAnew(1, false);
  Random random(1);
  const Elements elements = RandomElements(&random, KeyShape::kShort, 50, 50);
  medium_.Watch(*pool_);
  Link(elements, lower_.get());
  ASSERT_EQ(ListProblem(*lower_, elements, true), "");
  medium_.LosePower(&random);
  EXPECT_NE(ListProblem(*lower_, elements, true), "");
}

TEST_F(ZipperTest, ADamagedLinkInTheLowerListIsCorruption) {
  StartAnew(1, false);
  Random random(9);
  Fill(&random, 50, 40);
  const Elements upper = NewUpper(&random, 40, 40);
  medium_.Watch(*pool_);
  std::vector<PmPtr> holders = PlacesOf(elements_);
  holders.push_back(PmPtr());
  int refused = 0;
  for (const PmPtr holder : holders) {
    PmWord* link = lower_->Link(holder, 0, 0);
    link->store(link->load() ^ (uint64_t{1} << random.Uniform(64)));
    Observer observer;
    const Status s = Merge(PlacesOf(upper), &observer);
    EXPECT_TRUE(s.ok() || s.IsCorruption()) << s.ToString();
    if (s.ok()) {  // only what lies after everything merged may have gone unnoticed
      EXPECT_GT(CompareInternal(At(holder)->internal_key(), upper.rbegin()->first.view()), 0);
    } else {
      refused++;
    }
    medium_.Restore();
  }
  EXPECT_GT(refused, 20);
}

// Whoever is told of a record frees its chunk.
TEST_F(ZipperTest, WhatAMergeTellsIsUnlinkedWhereverALinkIsDamaged) {
  StartAnew(1, false);
  Random random(10);
  Fill(&random, 60, 12, true);
  const Elements upper = NewUpper(&random, 12, 12);
  medium_.Watch(*pool_);
  int refused = 0;
  for (const PmPtr holder : PlacesOf(elements_)) {
    PmWord* link = lower_->Link(holder, 0, 0);
    const uint64_t sound = link->load();
    link->store(sound ^ (uint64_t{1} << random.Uniform(64)));
    Observer observer;
    if (!Merge(PlacesOf(upper), &observer).ok()) {
      refused++;
      link->store(sound);
      for (const PmPtr place : Walk(*lower_, SIZE_MAX)) {
        EXPECT_FALSE(observer.obsolete.contains(place.word));
        EXPECT_FALSE(At(place)->obsolete());
      }
    }
    medium_.Restore();
  }
  EXPECT_GT(refused, 20);
}

// Nor is it in an upper layer, whatever led the search there astray: merges would begin at it.
TEST_F(ZipperTest, WhatAMergeTellsIsInNoLayerWhateverIsDamaged) {
  StartAnew(1, false);
  Random random(12);
  Fill(&random, 150, 100);
  const Elements upper = NewUpper(&random, 60, 100);
  medium_.Watch(*pool_);
  int refused = 0;
  int merged = 0;
  for (const PmPtr holder : PlacesOf(elements_)) {
    if (At(holder)->height() < 2) continue;
    for (const bool key : {false, true}) {
      if (key) {
        const_cast<char*>(At(holder)->key_data())[0] ^= 0x40;
      } else {
        PmWord* link = lower_->Link(holder, 0, 1);
        link->store(link->load() ^ (uint64_t{1} << random.Uniform(64)));
      }
      Observer observer;
      const bool verify = key;  // I6
      Zipper zipper(lower_.get(), &*persister_, &observer, verify);
      (zipper.Merge(PlacesOf(upper)).ok() ? merged : refused)++;
      std::vector<PmPtr> linked = PlacesOf(elements_);
      std::erase_if(linked, [&](PmPtr at) { return observer.obsolete.contains(at.word); });
      linked.push_back(PmPtr());
      for (const PmPtr at : linked) {
        for (uint32_t layer = 1; layer < (at ? At(at)->height() : kHeightMax); layer++) {
          const PmPtr next = lower_->Next(at, 0, layer);
          EXPECT_FALSE(next && observer.obsolete.contains(next.word));
        }
      }
      medium_.Restore();
    }
  }
  EXPECT_GT(refused, 5);
  EXPECT_GT(merged, 5);
}

TEST_F(ZipperTest, WithVerifyADamagedKeyIsCorruptionAndNothingChanges) {  // I6
  StartAnew(1, false);
  Random random(11);
  Fill(&random, 50, 40);
  const std::vector<PmPtr> upper = PlacesOf(NewUpper(&random, 10, 40));
  const std::vector<PmPtr> before = Walk(*lower_, SIZE_MAX);
  std::vector<PmPtr> places = before;
  places.insert(places.end(), upper.begin(), upper.end());
  uint64_t refused = 0;
  uint64_t disordered = 0;
  medium_.Watch(*pool_);
  for (const PmPtr place : places) {
    for (const bool verify : {true, false}) {
      const_cast<char*>(At(place)->key().data())[random.Uniform(At(place)->key().size())] ^= 0x40;
      Observer observer;
      const bool refuses =
          Zipper(lower_.get(), &*persister_, &observer, verify).Merge(upper).IsCorruption();
      std::vector<PmPtr> after = Walk(*lower_, SIZE_MAX);
      EXPECT_TRUE(!refuses || after == before);
      refused += refuses ? 1 : 0;
      std::erase(after, place);
      const auto less = [this](PmPtr a, PmPtr b) {
        return lower_->IsBefore(a, At(b)->internal_key());
      };
      const bool in_order = std::ranges::is_sorted(after, less);
      disordered += in_order ? 0 : 1;
      EXPECT_TRUE(in_order || !verify);
      medium_.Restore();
    }
  }
  EXPECT_GE(refused, upper.size());
  EXPECT_GT(disordered, 0u) << "I6 is for nothing";
}

TEST_F(ZipperTest, UnlinkTakesAnElementOutOfEveryLayerAndItLeadsBack) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    StartAnew(seed % 2 == 0 ? 3 : 1, seed % 2 == 0);
    Fill(&random, 200, 150);
    Observer observer;
    Zipper zipper(lower_.get(), &*persister_, &observer);
    std::vector<PmPtr> gone;
    while (!elements_.empty()) {
      auto at = elements_.lower_bound(
          {testing::MakeKey(KeyShape::kMixed, random.Uniform(150)), kTagFirst});
      if (at == elements_.end()) --at;
      const PmPtr before = at == elements_.begin() ? PmPtr() : std::prev(at)->second;
      ASSERT_TRUE(zipper.Unlink(before, at->second));
      gone.push_back(at->second);
      elements_.erase(at);
      ASSERT_EQ(ListProblem(*lower_, elements_, true), "");
      // Who stands on what is gone goes on to the end of the list, in order, and misses nothing
      // ahead that is still there.
      for (int i = 0; i < 5; i++) {
        const PmPtr from = gone[random.Uniform(gone.size())];
        std::set<uint64_t> ahead;
        for (PmPtr p = from; p; p = lower_->Next(p, 0, 0)) {
          ASSERT_FALSE(p.damaged());
          const PmPtr next = lower_->Next(p, 0, 0);
          ASSERT_TRUE(!next ||
                      CompareInternal(At(p)->internal_key(), At(next)->internal_key()) < 0);
          ahead.insert(p.word);
        }
        for (auto e = elements_.upper_bound({std::string(At(from)->key()), At(from)->tag()});
             e != elements_.end(); ++e) {
          ASSERT_TRUE(ahead.contains(e->second.word));
        }
      }
    }
    EXPECT_EQ(lower_->First(), PmPtr());
  }
}

TEST_F(ZipperTest, UnlinkRefusesAnElementWhoseLinkIsDamaged) {
  StartAnew(1, false);
  Random random(2);
  Fill(&random, 50, 50);
  const auto at = std::next(elements_.begin(), 20);
  PmWord* link = lower_->Link(at->second, 0, 0);
  const uint64_t sound = link->load();
  link->store(0);
  Observer observer;
  EXPECT_FALSE(
      Zipper(lower_.get(), &*persister_, &observer).Unlink(std::prev(at)->second, at->second));
  link->store(sound);
  EXPECT_EQ(ListProblem(*lower_, elements_, true), "") << "nothing was changed";
}

TEST_F(ZipperTest, ConcurrentReadersMissNothing) {
  for (const bool braided : {false, true}) {
    Random random(braided ? 31 : 37);
    StartAnew(braided ? 2 : 1, braided);
    Fill(&random, 500, 300);
    constexpr int kTables = 6;
    std::vector<Elements> tables;
    std::vector<std::unique_ptr<TestList>> lists;
    for (int i = 0; i < kTables; i++) {
      tables.push_back(NewUpper(&random, 400, 300));
      lists.push_back(std::move(upper_));
    }
    Elements all = elements_;
    for (const Elements& table : tables) all.insert(table.begin(), table.end());
    std::map<std::string, uint64_t> newest;  // key to tag
    for (const auto& [key, place] : all) newest.emplace(key.user_key, key.tag);

    std::atomic<bool> stop{false};
    std::atomic<uint64_t> missed{0};
    std::atomic<uint64_t> reads{0};
    const auto get = [&](Random* r) {
      auto at = newest.lower_bound(testing::MakeKey(KeyShape::kMixed, r->Uniform(300)));
      if (at == newest.end()) at = newest.begin();
      const InternalKey target{at->first, kTagFirst};
      PmPtr found;
      for (int i = kTables; i-- >= 0;) {
        const PmSkipList& list = i < 0 ? *lower_ : lists[i]->list;
        found = list.FindAtOrAfter(target, PmPtr(), nullptr);
        if (found && At(found)->key() == at->first) break;
      }
      if (!found || At(found)->key() != at->first || At(found)->tag() != at->second) missed++;
    };
    const auto walk = [&](bool forward) {
      std::vector<std::unique_ptr<InternalIterator>> children;
      for (int i = kTables; i-- > 0;)
        children.push_back(NewSkipListIterator(&lists[i]->list, nullptr, false));
      children.push_back(NewSkipListIterator(lower_.get(), nullptr, false));
      const auto it = NewMergingIterator(std::move(children));
      std::set<std::pair<std::string, uint64_t>> seen;
      for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
           forward ? it->Next() : it->Prev()) {
        seen.emplace(it->key().user_key, it->key().tag);
      }
      for (const auto& version : newest) missed += seen.contains(version) ? 0 : 1;
    };
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 3; t++) {
      threads.emplace_back([&, t] {
        Random r(t);
        while (!stop.load()) {
          for (int i = 0; i < 200; i++) get(&r);
          walk(t % 2 == 0);
          reads++;
        }
      });
    }
    for (const Elements& table : tables) {
      Observer observer;
      MustMerge(table, &observer);
      const std::vector<Zipper::Move> moves = [&] {
        std::vector<Zipper::Move> some;
        for (const auto& [key, place] : elements_) {
          if (!random.OneIn(3)) continue;
          some.push_back({place, Add({.tag = key.tag,
                                      .key = key.user_key,
                                      .value = {},
                                      .height = At(place)->height()},
                                     place.part())});
        }
        return some;
      }();
      for (auto& appender : appenders_) appender->Seal();
      ASSERT_TRUE(Zipper(lower_.get(), &*persister_, &observer).Replace(moves).ok());
      for (const Zipper::Move& move : moves)
        elements_[{std::string(At(move.to)->key()), At(move.to)->tag()}] = move.to;
    }
    while (reads.load() < 6) std::this_thread::yield();
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(missed.load(), 0u);
    EXPECT_EQ(ListProblem(*lower_, elements_, true), "");
  }
}

}  // namespace
}  // namespace lamella
