#include "engine/job_board.h"

#include <atomic>
#include <new>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "base/no_throw.h"

namespace lamella {
namespace {

constexpr uint32_t kLevel = 1;
constexpr uint32_t kCache = 2;
constexpr uint32_t kLog = 3;

Status Nothing() { return Status::OK(); }

class JobBoardTest : public ::testing::Test {
 protected:
  static JobOffer Offer(Claims claims, double benefit = 1, double cost = 1) {
    return {.name = "job",
            .claims = std::move(claims),
            .benefit = benefit,
            .cost = cost,
            .run = Nothing};
  }
  static Claim Keys(const char* first, const char* last) {
    return {.what = kLevel, .keys = {first, last}};
  }
  Job Begin(Claims claims, std::function<Status()> run = Nothing) {
    JobOffer offer = Offer(std::move(claims));
    offer.run = std::move(run);
    const MutexLock lock(&board_.mu);
    return board_.Begin(std::move(offer));
  }
  bool MayBegin(const Claims& claims) {
    const MutexLock lock(&board_.mu);
    return board_.MayBegin(claims);
  }
  bool Busy() {
    const MutexLock lock(&board_.mu);
    return board_.IsBusy(kLevel);
  }
  bool Awaited() {
    const MutexLock lock(&board_.mu);
    return board_.IsAwaited(kLevel);
  }

  int woken_ = 0;
  JobBoard board_{[this] { woken_++; }};
};

TEST_F(JobBoardTest, AJobHasWhatItClaimsFromWhenItIsMadeUntilItEnds) {  // J1
  const Job job = Begin({{.what = kLevel, .keys = {}}}, [this] {
    EXPECT_TRUE(Busy());
    return Status::OK();
  });
  EXPECT_TRUE(Busy());
  EXPECT_TRUE(job.run().ok());
  EXPECT_FALSE(Busy());
}

TEST_F(JobBoardTest, AJobThatFailsOrThrowsGivesItBack) {  // J1
  EXPECT_TRUE(Begin({Keys("a", "b")}, [] { return Status::IOError("no"); }).run().IsIOError());
  EXPECT_FALSE(Busy());
  EXPECT_FALSE(Begin({Keys("a", "b")}, []() -> Status { throw std::bad_alloc(); }).run().ok());
  EXPECT_FALSE(Busy());
}

TEST_F(JobBoardTest, JobsOfOtherKeysOrThingsRunBesideEachOther) {
  const Job job = Begin({Keys("d", "k")});
  EXPECT_TRUE(MayBegin({Keys("a", "c")}));
  EXPECT_TRUE(MayBegin({Keys("l", "z")}));
  EXPECT_TRUE(MayBegin({{.what = kCache, .keys = {}}}));
  EXPECT_FALSE(MayBegin({Keys("a", "d")}));
  EXPECT_FALSE(MayBegin({Keys("k", "z")}));
  EXPECT_FALSE(MayBegin({Keys("e", "f")}));
  EXPECT_FALSE(MayBegin({{.what = kLevel, .keys = {"h", std::nullopt}}}));
  EXPECT_FALSE(MayBegin({{.what = kCache, .keys = {}}, {.what = kLevel, .keys = {}}}));
  const Job other = Begin({Keys("l", "z")});
  EXPECT_TRUE(job.run().ok());
  EXPECT_TRUE(MayBegin({Keys("a", "k")}));
  EXPECT_FALSE(MayBegin({Keys("a", "l")}));
  EXPECT_TRUE(other.run().ok());
}

TEST_F(JobBoardTest, TheBestOfThoseThatMayBeginBegins) {
  const auto best = [this](std::vector<JobOffer> offers) -> std::string {
    const char* const names[] = {"first", "second", "third"};
    for (size_t i = 0; i < offers.size(); i++) offers[i].name = names[i];
    std::optional<Job> job;
    {
      const MutexLock lock(&board_.mu);
      job = board_.BeginBest(std::move(offers));
    }
    if (!job) return "none";
    EXPECT_TRUE(job->run().ok());
    return job->name;
  };
  EXPECT_EQ(best({}), "none");
  EXPECT_EQ(best({Offer({}, 5, 2), Offer({}, 6, 2), Offer({}, 30, 20)}), "second");
  EXPECT_EQ(best({Offer({}, 5, 2), Offer({}, 5, 2)}), "first");
  const Job held = Begin({Keys("a", "m")});
  EXPECT_EQ(best({Offer({Keys("b", "c")}, 100), Offer({Keys("n", "o")}, 2), Offer({}, 1)}),
            "second");
  EXPECT_EQ(best({Offer({Keys("b", "c")}, 100)}), "none");
  EXPECT_TRUE(held.run().ok());
}

TEST_F(JobBoardTest, ACallerWaitsForTheJobsInItsWayAndNoneBeginsBeforeIt) {  // J2
  const Job job = Begin({Keys("a", "c")});
  const Job beside = Begin({{.what = kCache, .keys = {}}});
  std::atomic<bool> taken = false;
  std::optional<JobBoard::Held> held;
  std::thread caller([&] {
    held.emplace(board_.Take({Keys("b", "z"), {.what = kLog, .keys = {}}}));
    taken = true;
  });
  while (!Awaited() && !taken) std::this_thread::yield();
  EXPECT_FALSE(taken);
  {
    const MutexLock lock(&board_.mu);
    EXPECT_TRUE(board_.IsBusy(kLog)) << "the same";
  }
  EXPECT_FALSE(MayBegin({Keys("x", "y")})) << "nobody has it, but it is waited for";
  EXPECT_FALSE(MayBegin({{.what = kLog, .keys = {}}}));
  EXPECT_TRUE(job.run().ok());
  caller.join();
  EXPECT_TRUE(Busy());
  EXPECT_FALSE(Awaited());
  EXPECT_TRUE(MayBegin({Keys("a", "a")}));
  EXPECT_EQ(woken_, 0);
  held->GiveBack();
  EXPECT_FALSE(Busy());
  EXPECT_EQ(woken_, 1) << "jobs were held back";
  EXPECT_TRUE(beside.run().ok());
}

TEST_F(JobBoardTest, WhoFailsWithSomethingTakenGivesItBack) {  // J1
  const Status s = NoThrow([&]() -> Status {
    const JobBoard::Held held = board_.Take({Keys("a", "c")});
    EXPECT_TRUE(Busy());
    throw std::bad_alloc();
  });
  EXPECT_TRUE(s.IsIOError()) << s.ToString();
  EXPECT_FALSE(Busy());
  EXPECT_EQ(woken_, 1);
  EXPECT_TRUE(MayBegin({Keys("b", "z")}));
}

TEST_F(JobBoardTest, WhoAwaitsAnEndIsTold) {
  const Job job = Begin({Keys("a", "c")});
  std::thread waiter([&] {
    const MutexLock lock(&board_.mu);
    while (board_.AnyBusy()) board_.AwaitEnd();
  });
  EXPECT_TRUE(job.run().ok());
  waiter.join();
}

}  // namespace
}  // namespace lamella
