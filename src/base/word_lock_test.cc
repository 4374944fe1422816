#include "base/word_lock.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lamella {
namespace {

TEST(WordLock, OneAtATime) {
  WordLock lock;
  uint64_t counter = 0;  // guarded by the lock alone
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; i++) {
        const std::lock_guard hold(lock);
        counter++;
        if (i % 1000 == 0) std::this_thread::yield();  // somebody finds it taken, and sleeps
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 80000u);
}

TEST(WordLock, TryingTakesNoLockThatIsHeld) {
  WordLock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(WordLock, WhoWaitsLongSleepsAndIsWoken) {
  WordLock lock;
  lock.lock();
  timespec used{};
  std::thread waiter([&] {
    lock.lock();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    lock.unlock();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  lock.unlock();
  waiter.join();
  EXPECT_EQ(used.tv_sec, 0);
  EXPECT_LT(used.tv_nsec, 100'000'000) << "it spun";
}

}  // namespace
}  // namespace lamella
