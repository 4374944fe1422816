#include "engine/labdb/hot_keys.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "lamella/options.h"

namespace lamella {
namespace {

class HotKeysTest : public ::testing::Test {
 protected:
  HotKeys hot_{LabDbOptions().hot_updates};
};

TEST_F(HotKeysTest, KeysThatAreWrittenOnceAreNotHot) {
  constexpr uint64_t kKeys = 300'000;
  uint64_t found = 0;
  for (uint64_t i = 0; i < kKeys; i++) found += hot_.Note(Concat("key", i)) ? 1 : 0;
  EXPECT_LT(found, kKeys / 100);
}

TEST_F(HotKeysTest, AKeyAmongThemThatIsWrittenAgainAndAgainIs) {
  constexpr uint64_t kEach = 2000;  // of all writes one is of this key
  uint64_t found = 0;
  for (uint64_t i = 0; i < 100 * kEach; i++) {
    (void)hot_.Note(Concat("key", i));
    if (i % kEach == 0) found += hot_.Note("again") ? 1 : 0;
  }
  EXPECT_GT(found, 80u);
}

TEST_F(HotKeysTest, WhatWasHotIsForgotten) {
  for (int i = 0; i < 100; i++) (void)hot_.Note("once");
  ASSERT_TRUE(hot_.Note("once"));
  for (uint64_t i = 0; i < 600'000; i++) (void)hot_.Note(Concat("key", i % 100));
  EXPECT_FALSE(hot_.Note("once"));
}

}  // namespace
}  // namespace lamella
