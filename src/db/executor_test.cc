// The threads that stores share, under clients that are no stores.
#include "db/executor.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

class FakeStore final : public Executor::Client {
 public:
  explicit FakeStore(Executor* executor) : executor_(executor) { executor_->Join(this); }
  ~FakeStore() override { executor_->Leave(this); }

  void Offer(int jobs, JobClass job_class = JobClass::kNormal) {
    left_[static_cast<size_t>(job_class)].fetch_add(jobs);
    executor_->Wake(this);
  }
  bool WaitForIdle() { return executor_->WaitForIdle(this); }
  void Leave() { executor_->Leave(this); }

  Look LookForJob(JobClass job_class) override {
    looks.fetch_add(1);
    Look look;
    std::atomic<int>& left = left_[static_cast<size_t>(job_class)];
    int n = left.load();
    while (n > 0 && !left.compare_exchange_weak(n, n - 1)) {
    }
    if (n <= 0) return look;
    look.found = true;
    executor_->LookOn(this, job_class);
    const int now = running.fetch_add(1) + 1;
    int most = running_max.load();
    while (now > most && !running_max.compare_exchange_weak(most, now)) {
    }
    if (run) look.status = run();
    running.fetch_sub(1);
    done.fetch_add(1);
    if (look.status.IsNoSpace() && offers_again.load()) left.fetch_add(1);
    return look;
  }
  void OnError(const Look& look) override {
    errors.fetch_add(1);
    EXPECT_FALSE(look.status.ok());
    left_[0] = left_[1] = 0;
  }

  std::function<Status()> run;           // set before the first Offer
  std::atomic<bool> offers_again{true};  // what found no space
  std::atomic<int> looks{0}, running{0}, running_max{0}, done{0}, errors{0};

 private:
  Executor* const executor_;
  std::array<std::atomic<int>, 2> left_{};
};

class ExecutorTest : public ::testing::Test {
 protected:
  void Start(uint32_t threads) { ASSERT_TRUE(executor_.Start(threads).ok()); }
  Executor executor_;
};

TEST_F(ExecutorTest, RunsWhatIsOffered) {
  Start(3);
  FakeStore store(&executor_);
  store.Offer(100);
  store.Offer(50, JobClass::kUrgent);
  EXPECT_TRUE(store.WaitForIdle());
  EXPECT_EQ(store.done, 150);
}

TEST_F(ExecutorTest, AnUrgentJobDoesNotWaitForLongOnes) {
  Start(3);
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  FakeStore slow(&executor_);
  slow.run = [released] {
    released.wait();
    return Status::OK();
  };
  slow.Offer(8);
  FakeStore other(&executor_);
  std::promise<void> flushed;
  other.run = [&] {
    flushed.set_value();
    return Status::OK();
  };
  other.Offer(1, JobClass::kUrgent);
  flushed.get_future().wait();  // for ever, were it to wait for those
  EXPECT_EQ(slow.done, 0);
  for (int ms = 0; ms < 20'000 && slow.running_max < 2; ms++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  release.set_value();
  EXPECT_TRUE(slow.WaitForIdle());
  EXPECT_EQ(slow.done, 8);
  EXPECT_EQ(slow.running_max, 2) << "one store may use every thread";
}

// Whichever thread is free keeps the clock.
TEST_F(ExecutorTest, WhatFoundNoSpaceIsTriedAgainBesideALongUrgentJob) {
  Start(2);
  std::promise<void> begun, release;
  FakeStore slow(&executor_);
  slow.run = [&] {
    begun.set_value();
    release.get_future().wait();
    return Status::OK();
  };
  slow.Offer(1, JobClass::kUrgent);
  begun.get_future().wait();
  FakeStore full(&executor_);
  full.run = [&] { return full.done < 1 ? Status::NoSpace("a test's") : Status::OK(); };
  full.Offer(1);
  for (int ms = 0; ms < 20'000 && full.done < 2; ms++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(full.done, 2);
  release.set_value();
  EXPECT_TRUE(slow.WaitForIdle());
}

TEST_F(ExecutorTest, StoresTakeTurns) {
  Start(2);
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::vector<int> order;
  FakeStore a(&executor_);
  FakeStore b(&executor_);
  a.run = [&] {
    released.wait();
    order.push_back(0);
    return Status::OK();
  };
  b.run = [&] {
    order.push_back(1);
    return Status::OK();
  };
  a.Offer(10);
  b.Offer(3);
  release.set_value();
  EXPECT_TRUE(a.WaitForIdle());
  EXPECT_TRUE(b.WaitForIdle());
  ASSERT_EQ(order.size(), 13u);
  int b_done = 0;
  for (int i = 0; i < 8; i++) b_done += order[static_cast<size_t>(i)];
  EXPECT_EQ(b_done, 3) << "not after all of the other's";
}

TEST_F(ExecutorTest, WithoutWorkNobodyLooks) {
  Start(2);
  std::vector<std::unique_ptr<FakeStore>> stores;
  for (int i = 0; i < 20; i++) stores.push_back(std::make_unique<FakeStore>(&executor_));
  for (auto& store : stores) {
    store->Offer(1);
    EXPECT_TRUE(store->WaitForIdle());
    store->looks = 0;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (auto& store : stores) EXPECT_EQ(store->looks, 0);
}

TEST_F(ExecutorTest, NoSpaceIsTriedAgainAndTakesNoThread) {
  Start(2);
  FakeStore full(&executor_);
  std::atomic<bool> room{false};
  full.run = [&] { return room ? Status::OK() : Status::NoSpace("none"); };
  full.Offer(1);
  FakeStore other(&executor_);
  other.Offer(20);
  EXPECT_TRUE(other.WaitForIdle());
  while (full.done < 3) std::this_thread::yield();
  room = true;
  EXPECT_TRUE(full.WaitForIdle());
  EXPECT_EQ(full.errors, 0);
}

// Two seconds, whatever a try takes: writers wait for it.
TEST_F(ExecutorTest, NoSpaceForLongIsAnError) {
  using std::chrono::steady_clock;
  Start(2);
  for (const int takes_ms : {0, 20}) {
    const std::chrono::milliseconds takes(takes_ms);
    FakeStore full(&executor_);
    full.run = [takes] {
      std::this_thread::sleep_for(takes);
      return Status::NoSpace("none");
    };
    const auto began = steady_clock::now();
    full.Offer(1);
    EXPECT_TRUE(full.WaitForIdle());
    EXPECT_EQ(full.errors, 1);
    EXPECT_GE(full.done, 50);
    EXPECT_GE(steady_clock::now() - began, std::chrono::seconds(2));
    EXPECT_LT(full.done * takes_ms, 10'000) << "it is not for so many tries";
  }
}

// Beside threads that look for another job of the store meanwhile, and find none.
TEST_F(ExecutorTest, NoSpaceOfLongAgoIsNotCounted) {
  constexpr int kTries = 49;  // however slow they are: one more would be an error
  Start(2);
  FakeStore store(&executor_);
  store.run = [&] {
    if (store.done >= kTries - 1) store.offers_again.store(store.done != kTries - 1);
    return store.done <= kTries ? Status::NoSpace("none") : Status::OK();
  };
  store.Offer(1);
  EXPECT_TRUE(store.WaitForIdle());
  EXPECT_EQ(store.done, kTries);
  std::this_thread::sleep_for(std::chrono::milliseconds(2200));
  store.Offer(1);
  EXPECT_TRUE(store.WaitForIdle());
  EXPECT_EQ(store.done, kTries + 2);
  EXPECT_EQ(store.errors, 0);
}

TEST_F(ExecutorTest, NoSpaceForLongIsAnErrorWhoeverLooks) {
  constexpr int kEndlessly = 20'000;
  Start(4);
  FakeStore full(&executor_);
  full.run = [&] {
    const int looks = full.looks;
    for (int i = 0; i < 1000 && full.looks == looks; i++) std::this_thread::yield();
    return full.done < kEndlessly ? Status::NoSpace("none") : Status::OK();
  };
  full.Offer(1);
  EXPECT_TRUE(full.WaitForIdle());
  EXPECT_EQ(full.errors, 1);
  EXPECT_LT(full.done, kEndlessly);
}

TEST_F(ExecutorTest, AFailedJobIsToldAtOnce) {
  Start(2);
  FakeStore store(&executor_);
  store.run = [] { return Status::IOError("broken"); };
  store.Offer(1);
  EXPECT_TRUE(store.WaitForIdle());
  EXPECT_EQ(store.errors, 1);
  EXPECT_EQ(store.done, 1);
}

TEST_F(ExecutorTest, LeavingWaitsForTheOwnJobsOnly) {  // I2
  Start(3);
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  FakeStore busy(&executor_);
  std::promise<void> began;
  busy.run = [&, released] {
    began.set_value();
    released.wait();
    return Status::OK();
  };
  busy.Offer(1);
  began.get_future().wait();
  {
    FakeStore other(&executor_);
    other.Offer(5);
    EXPECT_TRUE(other.WaitForIdle());
    other.Leave();
    other.Offer(5);
    EXPECT_FALSE(other.WaitForIdle());
    EXPECT_EQ(other.done, 5) << "no job begins once it has left";
  }
  std::atomic<bool> left{false};
  std::thread leaver([&] {
    busy.Leave();
    left = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(left);
  release.set_value();
  leaver.join();
  EXPECT_EQ(busy.running, 0);
}

TEST_F(ExecutorTest, StoresComeAndGoWhileOthersWork) {
  Start(4);
  std::vector<std::thread> owners;
  std::atomic<int> done{0};
  for (uint64_t t = 0; t < 4; t++) {
    owners.emplace_back([&, t] {
      Random random(t);
      for (int round = 0; round < 100; round++) {
        FakeStore store(&executor_);
        store.run = [&store] {
          return store.done % 7 == 3 ? Status::NoSpace("for a while") : Status::OK();
        };
        const int jobs = static_cast<int>(random.Uniform(20));
        store.Offer(jobs / 2);
        store.Offer(jobs - jobs / 2, JobClass::kUrgent);
        if (random.OneIn(3)) executor_.WakeAll();
        if (random.OneIn(2)) {
          EXPECT_TRUE(store.WaitForIdle());
          EXPECT_GE(store.done, jobs);
        }
        store.Leave();
        EXPECT_EQ(store.running, 0);
        done += store.done;
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  EXPECT_GT(done, 0);
}

}  // namespace
}  // namespace lamella
