#include "engine/listdb/shields.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

TEST(Shields, ADeleteIsHeldUntilItsGenerationIsForgotten) {
  Shields shields;
  EXPECT_FALSE(shields.Holds(5));
  shields.Add(5);
  EXPECT_TRUE(shields.Holds(5));
  EXPECT_FALSE(shields.Holds(6));
  const uint64_t generation = shields.Close();
  EXPECT_NE(generation, 0u);
  EXPECT_TRUE(shields.Holds(5)) << "iterators may still stand behind it";
  shields.Forget(generation);
  EXPECT_FALSE(shields.Holds(5));
}

TEST(Shields, AGenerationWithoutAdditionsIsNone) {
  Shields shields;
  EXPECT_EQ(shields.Close(), 0u);
  shields.Add(5);
  EXPECT_NE(shields.Close(), 0u);
  EXPECT_EQ(shields.Close(), 0u) << "nothing was added since";
}

TEST(Shields, WhatWasAddedAgainSinceIsHeldOn) {
  Shields shields;
  shields.Add(5);
  shields.Add(6);
  const uint64_t first = shields.Close();
  shields.Add(5);  // it lost another version
  shields.Forget(first);
  EXPECT_TRUE(shields.Holds(5));
  EXPECT_FALSE(shields.Holds(6));
  shields.Forget(shields.Close());
  EXPECT_FALSE(shields.Holds(5));
}

TEST(Shields, GenerationsMayBeForgottenInAnyOrder) {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Shields shields;
    std::map<uint64_t, uint64_t> model;  // number to generation
    uint64_t generation = 1;
    bool added = false;
    for (int i = 0; i < 300; i++) {
      const uint64_t number = random.Uniform(30);
      switch (random.Uniform(4)) {
        case 0: {
          const uint64_t closed = shields.Close();
          ASSERT_EQ(closed, added ? generation : 0);
          if (added) generation++;
          added = false;
          break;
        }
        case 1: {
          const uint64_t forgotten = random.Uniform(generation);
          shields.Forget(forgotten);
          std::erase_if(model, [&](const auto& held) { return held.second <= forgotten; });
          break;
        }
        default:
          shields.Add(number);
          model[number] = generation;
          added = true;
      }
      for (uint64_t n = 0; n < 30; n++)
        ASSERT_EQ(shields.Holds(n), model.contains(n)) << n << " at step " << i;
    }
  }
}

}  // namespace
}  // namespace lamella
