#include "engine/pinned_tombstones.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

TEST(PinnedTombstones, ADeleteIsHeldUntilItsGenerationIsForgotten) {
  PinnedTombstones pinned;
  EXPECT_FALSE(pinned.Holds(5));
  pinned.Add(5);
  EXPECT_TRUE(pinned.Holds(5));
  EXPECT_FALSE(pinned.Holds(6));
  const uint64_t generation = pinned.Close();
  EXPECT_NE(generation, 0u);
  EXPECT_TRUE(pinned.Holds(5)) << "iterators may still stand on what it hides";
  pinned.Forget(generation);
  EXPECT_FALSE(pinned.Holds(5));
}

TEST(PinnedTombstones, AGenerationWithoutAdditionsIsNone) {
  PinnedTombstones pinned;
  EXPECT_EQ(pinned.Close(), 0u);
  pinned.Add(5);
  EXPECT_NE(pinned.Close(), 0u);
  EXPECT_EQ(pinned.Close(), 0u) << "nothing was added since";
}

TEST(PinnedTombstones, WhatWasAddedAgainSinceIsHeldOn) {
  PinnedTombstones pinned;
  pinned.Add(5);
  pinned.Add(6);
  const uint64_t first = pinned.Close();
  pinned.Add(5);  // it lost another version
  pinned.Forget(first);
  EXPECT_TRUE(pinned.Holds(5));
  EXPECT_FALSE(pinned.Holds(6));
  pinned.Forget(pinned.Close());
  EXPECT_FALSE(pinned.Holds(5));
}

TEST(PinnedTombstones, GenerationsMayBeForgottenInAnyOrder) {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    PinnedTombstones pinned;
    std::map<uint64_t, uint64_t> model;  // number to generation
    uint64_t generation = 1;
    bool added = false;
    for (int i = 0; i < 300; i++) {
      const uint64_t number = random.Uniform(30);
      switch (random.Uniform(4)) {
        case 0: {
          const uint64_t closed = pinned.Close();
          ASSERT_EQ(closed, added ? generation : 0);
          if (added) generation++;
          added = false;
          break;
        }
        case 1: {
          const uint64_t forgotten = random.Uniform(generation);
          pinned.Forget(forgotten);
          std::erase_if(model, [&](const auto& held) { return held.second <= forgotten; });
          break;
        }
        default:
          pinned.Add(number);
          model[number] = generation;
          added = true;
      }
      for (uint64_t n = 0; n < 30; n++)
        ASSERT_EQ(pinned.Holds(n), model.contains(n)) << n << " at step " << i;
    }
  }
}

}  // namespace
}  // namespace lamella
