#include "file/read_cost.h"

#include <chrono>

#include <gtest/gtest.h>

namespace lamella {
namespace {

using std::chrono::microseconds;

// A reader that makes slow reads beside itself, of which nothing is noted. How many of so many.
int Beside(ReadCost* cost, microseconds took, int reads) {
  int beside = 0;
  for (int i = 0; i < reads; i++) {
    if (cost->IsSlow()) {
      beside++;
    } else {
      cost->Note(took);
    }
  }
  return beside;
}

TEST(ReadCost, GoesByWhatReadsTakeOfLate) {
  ReadCost cost;
  EXPECT_EQ(Beside(&cost, microseconds(3), 1000), 0);
  EXPECT_GT(Beside(&cost, microseconds(80), 1000), 950);
  EXPECT_GT(Beside(&cost, microseconds(80), 10000), 9800);
  Beside(&cost, microseconds(3), 5000);  // what is read came into the page cache
  EXPECT_EQ(Beside(&cost, microseconds(3), 1000), 0);
}

TEST(ReadCost, OneReadThatWasInterruptedMakesNoneSlow) {
  ReadCost cost;
  Beside(&cost, microseconds(3), 100);
  cost.Note(std::chrono::seconds(1));
  EXPECT_FALSE(cost.IsSlow());
}

}  // namespace
}  // namespace lamella
