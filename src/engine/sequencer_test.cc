#include "engine/sequencer.h"

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "log/log_test_base.h"
#include "log/pm_log.h"

namespace lamella {
namespace {

class SequencerTest : public RecordsTest {
 protected:
  SequencerTest() { CreateParts(1); }
  ~SequencerTest() override { log_.reset(); }

  void Start(uint32_t shards) { log_ = std::make_unique<PmLog>(pool_.get(), shards, std::vector<uint64_t>{}); }

  std::unique_ptr<PmLog> log_;
  Sequencer sequencer_;
};

TEST_F(SequencerTest, NumbersGoOnBehindTheLastInUse) {
  Start(1);
  EXPECT_EQ(sequencer_.published(), 0u);
  sequencer_.Reset(41);
  EXPECT_EQ(sequencer_.published(), 41u);
  EXPECT_EQ(sequencer_.last_drawn(), 41u);
  EXPECT_EQ(sequencer_.Draw(&log_->shard(0), 3), 42u);
  EXPECT_EQ(sequencer_.last_drawn(), 44u);
  EXPECT_EQ(sequencer_.published(), 41u) << "drawn is not written";
  sequencer_.Finish(&log_->shard(0));
  sequencer_.Publish(log_.get(), 44);
  EXPECT_EQ(sequencer_.published(), 44u);
}

TEST_F(SequencerTest, ALaterWriteIsNotPublishedBeforeAnEarlierOne) {  // I1
  Start(2);
  EXPECT_EQ(sequencer_.Draw(&log_->shard(0), 2), 1u);
  EXPECT_EQ(sequencer_.Draw(&log_->shard(1), 1), 3u);
  sequencer_.Finish(&log_->shard(1));
  std::atomic<bool> returned{false};
  std::thread later([&] {
    sequencer_.Publish(log_.get(), 3);
    returned.store(true);
  });
  for (int i = 0; i < 2000; ++i) {
    std::this_thread::yield();
    ASSERT_FALSE(returned.load());
    ASSERT_EQ(sequencer_.published(), 0u);
  }
  sequencer_.Finish(&log_->shard(0));
  later.join();
  EXPECT_EQ(sequencer_.published(), 3u);
}

TEST_F(SequencerTest, ABatchIsPublishedAtOnce) {  // P2
  Start(2);
  sequencer_.Draw(&log_->shard(0), 100);
  sequencer_.Draw(&log_->shard(1), 1);
  sequencer_.Finish(&log_->shard(0));
  sequencer_.Publish(log_.get(), 100);
  EXPECT_EQ(sequencer_.published(), 100u) << "all of it, and nothing of what is still under way";
  sequencer_.Finish(&log_->shard(1));
  sequencer_.Publish(log_.get(), 101);
  EXPECT_EQ(sequencer_.published(), 101u);
}

TEST_F(SequencerTest, AShardThatRestsHoldsNothingUp) {
  Start(16);
  for (uint64_t n = 1; n <= 100; ++n) {
    PmLog::Shard* shard = &log_->shard(n % 3);
    ASSERT_EQ(sequencer_.Draw(shard, 1), n);
    sequencer_.Finish(shard);
    sequencer_.Publish(log_.get(), n);
    ASSERT_EQ(sequencer_.published(), n);
  }
}

/// Writers over shards, with a flag for each number that says its write is done; a watcher holds what is published to the flags.
struct Race {
  static constexpr uint64_t kNumbersMax = 200'000;

  /// `finish_early`: the writers break the rule, and say that they are finished before they are.
  Race(Sequencer* s, PmLog* l, bool finish_early) : sequencer(s), log(l), early(finish_early), done(kNumbersMax) {}

  void Run() {
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 4; ++t) threads.emplace_back([this, t] { Write(t); });
    std::thread watcher([this] { Watch(); });
    for (std::thread& thread : threads) thread.join();
    stop.store(true);
    watcher.join();
  }
  void Write(uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < (early ? 500 : 5000); ++i) {
      const auto count = static_cast<uint32_t>(1 + random.Uniform(4));
      PmLog::Shard& shard = log->shard(static_cast<uint32_t>(random.Uniform(log->shard_count())));
      uint64_t first;
      {
        const std::lock_guard lock(shard.mu);
        first = sequencer->Draw(&shard, count);
        if (first + count > kNumbersMax) break;
        if (early) sequencer->Finish(&shard);
        if (early || random.OneIn(50)) std::this_thread::yield();
        for (uint32_t k = 0; k < count; ++k) {
          if (done[first + k].exchange(true)) ++drawn_twice;
        }
        if (!early) sequencer->Finish(&shard);
      }
      sequencer->Publish(log, first + count - 1);
      if (sequencer->published() < first + count - 1) ++not_published;
    }
  }
  void Watch() {
    uint64_t checked = 0;
    while (!stop.load()) {
      const uint64_t published = sequencer->published();
      if (published < checked) ++went_back;
      for (; checked < published; ++checked) {
        if (!done[checked + 1].load()) ++passed;
      }
    }
  }

  Sequencer* const sequencer;
  PmLog* const log;
  const bool early;
  std::vector<std::atomic<bool>> done;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> drawn_twice{0};
  std::atomic<uint64_t> not_published{0};
  std::atomic<uint64_t> went_back{0};
  std::atomic<uint64_t> passed{0};  // published, but not done
};

TEST_F(SequencerTest, ConcurrentlyPublishedOnlyGrowsAndNeverPassesAWriteUnderWay) {  // I1
  Start(3);
  Race race(&sequencer_, log_.get(), false);
  race.Run();
  EXPECT_EQ(race.drawn_twice.load(), 0u);
  EXPECT_EQ(race.not_published.load(), 0u);
  EXPECT_EQ(race.went_back.load(), 0u);
  EXPECT_EQ(race.passed.load(), 0u);
  EXPECT_EQ(sequencer_.published(), sequencer_.last_drawn());
}

// The control: writers that say so too early are seen to be passed.
TEST_F(SequencerTest, TheConcurrentCheckSeesAWriteThatWasPassed) {
  Start(3);
  Race race(&sequencer_, log_.get(), true);
  race.Run();
  EXPECT_GT(race.passed.load(), 0u);
}

}  // namespace
}  // namespace lamella
