#include "base/helper_threads.h"

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lamella {
namespace {

class Call final : public HelperThreads::Task {
 public:
  explicit Call(std::function<void()> run) : run_(std::move(run)) {}

 private:
  void Run() override { run_(); }
  const std::function<void()> run_;
};

TEST(HelperThreads, WithNoneWhoPostsRuns) {
  HelperThreads helpers(0);
  Call call([] { FAIL(); });
  helpers.Post(&call);
  EXPECT_FALSE(helpers.Finish(&call));
  EXPECT_FALSE(helpers.Finish(&call));  // it was not posted again
}

TEST(HelperThreads, RunBesideWhoPostsAndBesideEachOther) {
  HelperThreads helpers(2);
  std::latch all_run(3);
  Call one([&] { all_run.arrive_and_wait(); });
  Call two([&] { all_run.arrive_and_wait(); });
  for (int i = 0; i < 2; i++) helpers.Post(i == 0 ? &one : &two);
  all_run.arrive_and_wait();
  EXPECT_TRUE(helpers.Finish(&one));
  EXPECT_TRUE(helpers.Finish(&two));
}

TEST(HelperThreads, NobodyWaitsForOneThatIsBusyElsewhere) {  // H1
  HelperThreads helpers(1);
  std::latch begun(1);
  std::latch may_end(1);
  Call busy([&] {
    begun.count_down();
    may_end.wait();
  });
  helpers.Post(&busy);
  begun.wait();
  Call other([] { FAIL(); });
  helpers.Post(&other);
  EXPECT_FALSE(helpers.Finish(&other));
  may_end.count_down();
  EXPECT_TRUE(helpers.Finish(&busy));
}

TEST(HelperThreads, ATaskThatHadNoMemoryIsTheCallers) {
  HelperThreads helpers(1);
  std::latch thrown(1);
  Call call([&] {
    thrown.count_down();
    throw std::bad_alloc();
  });
  helpers.Post(&call);
  thrown.wait();
  EXPECT_FALSE(helpers.Finish(&call));
}

TEST(HelperThreads, EachTaskOfManyIsRunOnceAndMayGoThen) {  // H1, H2
  constexpr int kRounds = 500;
  HelperThreads helpers(3);
  std::atomic<int> by_helpers{0};
  const auto post = [&] {
    // until helpers had a turn, too
    for (int round = 0; round < kRounds || by_helpers.load() == 0; round++) {
      std::vector<int> runs(8, 0);  // a task's own: H2 makes them its poster's again
      std::vector<std::unique_ptr<Call>> calls;
      for (int& count : runs) {
        calls.push_back(std::make_unique<Call>([&count] { count++; }));
        helpers.Post(calls.back().get());
      }
      for (size_t i = 0; i < calls.size(); i++) {
        const bool done = helpers.Finish(calls[i].get());
        calls[i].reset();
        ASSERT_EQ(runs[i], done ? 1 : 0);
        if (done) by_helpers++;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++) threads.emplace_back(post);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lamella
