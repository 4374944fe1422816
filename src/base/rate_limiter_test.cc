#include "base/rate_limiter.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace lamella {
namespace {

template <class Run>
double SecondsOf(Run&& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// How long it takes at most is the machine's matter: what was asked for may be granted late.
TEST(RateLimiter, GrantsNoMoreThanItsRate) {
  RateLimiter limiter(1000000);
  EXPECT_GE(SecondsOf([&] {
              for (int i = 0; i <= 10; i++) limiter.Acquire(10000);
            }),
            0.099);
}

TEST(RateLimiter, WhoShareItHaveItsRateTogether) {
  RateLimiter limiter(1000000);
  const double took = SecondsOf([&] {
    const auto use = [&] {
      for (int i = 0; i < 10; i++) limiter.Acquire(5000);
    };
    std::thread other(use);
    use();
    other.join();
  });
  EXPECT_GE(took, 19 * 5000 / 1e6 - 0.001);
}

TEST(RateLimiter, APauseIsNoCredit) {
  RateLimiter limiter(1000000);
  limiter.Acquire(1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_GE(SecondsOf([&] {
              for (int i = 0; i <= 5; i++) limiter.Acquire(10000);
            }),
            0.049);
}

TEST(RateLimiter, WhoWaitsGoesOnOnceThereIsNoLimit) {
  RateLimiter limiter(1000);
  limiter.Acquire(30000);  // half a minute
  std::thread waits([&] { limiter.Acquire(1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double took = SecondsOf([&] {
    limiter.SetRate(0);
    waits.join();
  });
  EXPECT_LT(took, 20);
  limiter.SetRate(1000);
  EXPECT_LT(SecondsOf([&] { limiter.Acquire(1); }), 20) << "what was before it is over";
}

TEST(RateLimiter, WithoutARateNobodyWaits) {
  RateLimiter limiter;
  const double took = SecondsOf([&] {
    for (int i = 0; i < 1000; i++) limiter.Acquire(uint64_t{1} << 40);
  });
  EXPECT_LT(took, 5);  // a second of any rate would be hours
  limiter.SetRate(1000000);
  limiter.Acquire(50000);
  limiter.SetRate(0);
  limiter.Acquire(uint64_t{1} << 40);
}

}  // namespace
}  // namespace lamella
