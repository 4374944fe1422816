#include "base/raise_to.h"

#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lamella {
namespace {

TEST(RaiseTo, KeepsTheMostThatWasSaid) {
  std::atomic<uint64_t> most{3};
  RaiseTo(&most, uint64_t{5});
  EXPECT_EQ(most.load(), 5u);
  RaiseTo(&most, uint64_t{4}, std::memory_order_release);
  EXPECT_EQ(most.load(), 5u);
}

TEST(RaiseTo, ConcurrentlyInAnyOrder) {
  constexpr uint64_t kThreads = 4, kEach = 20'000;
  std::atomic<uint64_t> most{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; t++) {
    threads.emplace_back([&most, t] {
      for (uint64_t i = 0; i < kEach; i++) {
        RaiseTo(&most, i * kThreads + t);
        ASSERT_GE(most.load(), i * kThreads + t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most.load(), kThreads * kEach - 1);
}

}  // namespace
}  // namespace lamella
