// Zipper::Replace: copies take the places of their originals.

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/zipper.h"
#include "index/zipper_test_base.h"

namespace lamella {
namespace {

class ReplaceTest : public ZipperTest {
 protected:
  /// Copies of a random part of the elements, in the list's order, as gc makes them.
  std::vector<Zipper::Move> CopySome(Random* random) {
    std::vector<Zipper::Move> moves;
    const uint64_t share = 1 + random->Uniform(4);  // 1: all, long runs; 4: a few, alone
    const bool short_alone = random->OneIn(2);      // without the fences that upper links take
    for (const auto& [key, place] : elements_) {
      if (!random->OneIn(share) || (short_alone && At(place)->height() > 1)) continue;
      const PmPtr copy =
          Add({.tag = key.tag, .key = key.user_key, .value = {}, .height = At(place)->height()},
              place.part());
      moves.push_back({place, copy});
    }
    for (auto& appender : appenders_) appender->Seal();
    return moves;
  }
  static std::set<uint64_t> OriginalsOf(const std::vector<Zipper::Move>& moves) {
    std::set<uint64_t> originals;
    for (const Zipper::Move& move : moves) originals.insert(move.from.word);
    return originals;
  }
  /// Elements that are not moved, and that a walk of one of their layers does not meet.
  size_t LostShortcuts(const std::vector<Zipper::Move>& moves) const {
    const std::set<uint64_t> moved = OriginalsOf(moves);
    size_t lost = 0;
    for (uint32_t lane = 0; lane < lower_->lane_count(); lane++) {
      for (uint32_t layer = 1; layer < kHeightMax; layer++) {
        std::set<uint64_t> met;
        for (PmPtr p = lower_->Next({}, lane, layer); p; p = lower_->Next(p, lane, layer))
          met.insert(p.word);
        for (const auto& [key, place] : elements_) {
          const bool is_there = lower_->Lane(place) == lane && At(place)->height() > layer;
          lost += is_there && !moved.contains(place.word) && !met.contains(place.word) ? 1 : 0;
        }
      }
    }
    return lost;
  }
  Elements Replaced(const std::vector<Zipper::Move>& moves) const {
    Elements replaced = elements_;
    for (const Zipper::Move& move : moves)
      replaced[{std::string(At(move.to)->key()), At(move.to)->tag()}] = move.to;
    return replaced;
  }
  /// `damage`, done to one element after the other, is Corruption to a move where it is met, and
  /// changes nothing. It gives what undoes it, or null for an element that it leaves alone.
  using Undo = std::function<void()>;
  void ExpectRefused(uint64_t seed,
                     const std::function<Undo(const std::set<uint64_t>& moved, PmPtr)>& damage) {
    StartAnew(1, false);
    Random random(seed);
    Fill(&random, 60, 60);
    const std::vector<Zipper::Move> moves = CopySome(&random);
    const std::set<uint64_t> moved = OriginalsOf(moves);
    int refused = 0;
    medium_.Watch(*pool_);
    for (const auto& [key, place] : Elements(elements_)) {
      const Undo undo = damage(moved, place);
      if (undo == nullptr) continue;
      Observer observer;
      const Status s = Zipper(lower_.get(), &*persister_, &observer).Replace(moves);
      if (s.ok()) {
        medium_.Restore();
        continue;
      }
      EXPECT_TRUE(s.IsCorruption()) << s.ToString();
      refused++;
      undo();
      ASSERT_EQ(ListProblem(*lower_, elements_, true), "");
    }
    EXPECT_GT(refused, 0);
  }
};

TEST_F(ReplaceTest, CopiesTakeThePlacesOfTheirOriginals) {
  for (uint64_t seed = 1; seed <= 16; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    StartAnew(seed % 2 == 0 ? 2 : 1, seed % 2 == 0);
    Fill(&random, 150, 100);
    for (int round = 0; round < 4; round++) {
      Observer observer;
      if (random.OneIn(2)) {
        observer.nearby = [&](const InternalKey& key, uint32_t height_min, uint32_t lane) {
          return NearbyOf(&random, key, height_min, lane);
        };
      }
      const std::vector<Zipper::Move> moves = CopySome(&random);
      const Status s = Zipper(lower_.get(), &*persister_, &observer).Replace(moves);
      ASSERT_TRUE(s.ok()) << s.ToString();
      elements_ = Replaced(moves);
      ASSERT_EQ(ListProblem(*lower_, elements_, true), "");
      // originals lead back: what is ahead of them is not missed
      for (const Zipper::Move& move : moves) {
        std::vector<std::string> ahead;
        for (PmPtr p = lower_->Next(move.from, 0, 0); p; p = lower_->Next(p, 0, 0)) {
          ahead.push_back(Concat(At(p)->key(), " ", At(p)->tag()));
        }
        std::vector<std::string> expected;
        auto e = elements_.upper_bound({std::string(At(move.from)->key()), At(move.from)->tag()});
        for (; e != elements_.end(); ++e)
          expected.push_back(Concat(e->first.user_key, " ", e->first.tag));
        ASSERT_EQ(ahead, expected);
      }
    }
  }
}

// I5. Elements are missing from their upper layers where a step was cut short; their copies are in
// all.
TEST_F(ReplaceTest, WhatACrashLeftOutOfUpperLayersLeadsNoCopyAstray) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    StartAnew(seed % 2 == 0 ? 2 : 1, seed % 2 == 0);
    Fill(&random, 100, 100);
    std::set<uint64_t> left_out;
    for (const auto& [key, place] : elements_) {
      const uint32_t height = At(place)->height();
      if (height < 2 || !random.OneIn(3)) continue;
      left_out.insert(place.word);
      const uint32_t kept = 1 + static_cast<uint32_t>(random.Uniform(height - 1));
      const uint32_t lane = lower_->Lane(place);
      for (uint32_t layer = kept; layer < height; layer++) {
        PmPtr before;
        while (lower_->Next(before, lane, layer) != place)
          before = lower_->Next(before, lane, layer);
        persister_->Publish(lower_->Link(before, lane, layer),
                            EncodeLink(lower_->Next(place, lane, layer)));
      }
    }
    ASSERT_EQ(ListProblem(*lower_, elements_, false), "");
    Observer observer;
    observer.nearby = [&](const InternalKey& key, uint32_t height_min, uint32_t lane) {
      const auto near = NearbyOf(&random, key, height_min, lane);
      return left_out.contains(near.place.word) ? ZipperObserver::Near{} : near;
    };
    const std::vector<Zipper::Move> moves = CopySome(&random);
    ASSERT_TRUE(Zipper(lower_.get(), &*persister_, &observer).Replace(moves).ok());
    elements_ = Replaced(moves);
    ASSERT_EQ(ListProblem(*lower_, elements_, false), "");
  }
}

TEST_F(ReplaceTest, CutAtEveryFenceEachElementIsThereOnceOldOrNew) {  // I4
  for (uint64_t seed = 1; seed <= 12; seed++) {
    for (const bool power : {false, true}) {
      SCOPED_TRACE(Concat("seed ", seed, power ? " power" : " kill"));
      Random random(seed);
      StartAnew(seed % 2 == 0 ? 2 : 1, seed % 2 == 0);
      Fill(&random, 60, 60);
      const std::vector<Zipper::Move> moves = CopySome(&random);
      medium_.Watch(*pool_);
      for (uint64_t fence = 1;; fence++) {
        SCOPED_TRACE(Concat("fence ", fence));
        medium_.Restore();
        medium_.CutAt(fence);
        bool cut = false;
        Observer observer;
        try {
          ASSERT_TRUE(Zipper(lower_.get(), &*persister_, &observer).Replace(moves).ok());
        } catch (const Crash&) {
          cut = true;
        }
        medium_.CutAt(0);
        if (power) medium_.LosePower(&random);
        std::vector<PmPtr> bottom = Walk(*lower_, 1000);
        ASSERT_EQ(bottom.size(), elements_.size());
        const Elements replaced = Replaced(moves);
        Elements now;
        for (const PmPtr place : bottom) {
          const OwnedKey key{std::string(At(place)->key()), At(place)->tag()};
          ASSERT_TRUE(elements_.at(key) == place || replaced.at(key) == place);
          now[key] = place;
        }
        ASSERT_EQ(ListProblem(*lower_, now, false), "");
        ASSERT_EQ(LostShortcuts(moves), 0u) << "a copy that leads nowhere cuts off a layer's rest";
        if (cut) continue;
        ASSERT_TRUE(now == replaced)
            << "what Replace returned for is not durable; originals are marked then";
        if (!power) {
          ASSERT_EQ(ListProblem(*lower_, replaced, true), "");
        }
        break;
      }
      medium_.Stop();
    }
  }
}

TEST_F(ReplaceTest, ADamagedLinkOnTheWayIsCorruptionAndNothingChanges) {
  ExpectRefused(6, [this](const std::set<uint64_t>&, PmPtr holder) -> Undo {
    PmWord* const link = lower_->Link(holder, 0, 0);
    const uint64_t sound = link->load();
    link->store(0);
    return [link, sound] { link->store(sound); };
  });
}

// What was found from a guide that is gone since may not be found again: the search stops early.
TEST_F(ReplaceTest, ADamagedKeyOnTheWayIsCorruptionAndNothingChanges) {
  ExpectRefused(7, [this](const std::set<uint64_t>& moved, PmPtr place) -> Undo {
    if (moved.contains(place.word)) return nullptr;
    auto* const first = const_cast<char*>(At(place)->key_data());
    const char sound = std::exchange(*first, '\xff');
    return [first, sound] { *first = sound; };
  });
}

}  // namespace
}  // namespace lamella
