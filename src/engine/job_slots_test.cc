#include "engine/job_slots.h"

#include <atomic>
#include <new>
#include <thread>

#include <gtest/gtest.h>

namespace lamella {
namespace {

class JobSlotsTest : public ::testing::Test {
 protected:
  Job WithLevel(std::function<Status()> run) {
    const MutexLock lock(&slots_.mu);
    return slots_.WithLevel("job", std::move(run));
  }
  bool Busy() {
    const MutexLock lock(&slots_.mu);
    return slots_.level_busy();
  }
  bool Awaited() {
    const MutexLock lock(&slots_.mu);
    return slots_.level_awaited();
  }

  int woken_ = 0;
  JobSlots slots_{[this] { woken_++; }};
};

TEST_F(JobSlotsTest, AJobHasTheLevelFromWhenItIsMadeUntilItEnds) {
  Job job = WithLevel([this] {
    EXPECT_TRUE(Busy());
    return Status::OK();
  });
  EXPECT_TRUE(Busy());
  EXPECT_EQ(woken_, 0);
  EXPECT_TRUE(job.run().ok());
  EXPECT_FALSE(Busy());
  EXPECT_EQ(woken_, 1) << "jobs were held back";
}

TEST_F(JobSlotsTest, AJobThatFailsOrThrowsGivesTheLevelBack) {
  EXPECT_TRUE(WithLevel([] { return Status::IOError("no"); }).run().IsIOError());
  EXPECT_FALSE(Busy());
  EXPECT_FALSE(WithLevel([]() -> Status { throw std::bad_alloc(); }).run().ok());
  EXPECT_FALSE(Busy());
}

TEST_F(JobSlotsTest, ACallerWaitsForTheJobAndJobsSeeThatItDoes) {
  Job job = WithLevel([] { return Status::OK(); });
  std::atomic<bool> taken = false;
  std::thread caller([&] {
    slots_.TakeLevel();
    taken = true;
  });
  while (!Awaited() && !taken) std::this_thread::yield();
  EXPECT_FALSE(taken);
  EXPECT_TRUE(job.run().ok());
  caller.join();
  EXPECT_TRUE(taken);
  EXPECT_TRUE(Busy());
  EXPECT_FALSE(Awaited());
  slots_.GiveLevelBack();
  EXPECT_FALSE(Busy());
}

TEST_F(JobSlotsTest, BesideTheLevelEachKindRunsOnce) {
  bool under_way = false;
  Job job;
  {
    const MutexLock lock(&slots_.mu);
    job = slots_.Beside("beside", &under_way, [] { return Status::NoSpace("full"); });
    EXPECT_TRUE(under_way);
    EXPECT_FALSE(slots_.level_busy());
  }
  std::atomic<bool> begun = false;
  std::thread caller([&] {
    slots_.Begin(&under_way);
    begun = true;
    slots_.End(&under_way);
  });
  EXPECT_FALSE(begun);
  EXPECT_TRUE(job.run().IsNoSpace());
  caller.join();
  EXPECT_TRUE(begun);
  EXPECT_FALSE(under_way);
}

}  // namespace
}  // namespace lamella
