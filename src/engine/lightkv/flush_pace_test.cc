#include "engine/lightkv/flush_pace.h"

#include <gtest/gtest.h>

namespace lamella {
namespace {

constexpr double kDueBytes = 24 << 20;

// How far beside a flush writers get, at most, who need so long for a byte beside what they are
// told to wait: as BesideFlush::Over, over some flushes.
double FullestOf(double write_ns_per_byte, double flush_ns_per_byte, double record_bytes,
                 bool paced, double log_max = 1e18) {
  FlushPace pace;
  double fullest = 0, log = kDueBytes;
  for (int flush = 0; flush < 12; flush++) {
    const double sealed = log;
    const double ends_ns = sealed * flush_ns_per_byte;
    const auto beside =
        BesideFlush::Of(static_cast<uint64_t>(sealed), static_cast<uint64_t>(kDueBytes),
                        static_cast<uint64_t>(log_max));
    double over = 0;
    log = 0;
    for (double ns = 0; ns < ends_ns && over < 1; log += record_bytes) {
      over = beside.Over(static_cast<uint64_t>(log));
      ns += record_bytes * write_ns_per_byte;
      if (paced) ns += pace.DelayNs(over, record_bytes);
    }
    pace.Note(static_cast<uint64_t>(sealed), static_cast<uint64_t>(ends_ns));
    if (flush > 0) fullest = std::max(fullest, over);  // the first one's pace is a guess
    log = std::max(log, kDueBytes);                    // the next one is due
  }
  return fullest;
}

TEST(FlushPace, WritersComeToGoAsFastAsAFlushAndDoNotStop) {
  for (const double flush_ns : {1.0, 5.0, 20.0, 200.0}) {
    for (const double write_share : {0.01, 0.1, 0.3, 0.9}) {
      for (const double record_bytes : {150.0, 1100.0, 20'000.0}) {
        const double write_ns = flush_ns * write_share;
        EXPECT_LT(FullestOf(write_ns, flush_ns, record_bytes, true), 0.8)
            << flush_ns << " " << write_share << " " << record_bytes;
        // Half of a pool is flushed at a time, and a quarter is left beside it.
        EXPECT_LT(FullestOf(write_ns, flush_ns, record_bytes, true, kDueBytes * 1.5), 0.9)
            << flush_ns << " " << write_share << " " << record_bytes;
      }
    }
  }
}

// Half of a pool at a time, and what that leaves of three quarters beside it.
TEST(BesideFlush, BothFitTheLog) {
  constexpr uint64_t kDue = 16 << 20, kLog = 24 << 20, kLeast = kDue / 8;
  for (uint64_t flushing = 0; flushing <= kLog + kDue; flushing += 1 << 20) {
    const auto beside = BesideFlush::Of(flushing, kDue, kLog);
    EXPECT_LT(beside.free, beside.all) << flushing;
    EXPECT_LE(beside.all, std::max(kLeast, kLog - std::min(kLog, flushing))) << flushing;
    EXPECT_EQ(beside.Over(beside.free), 0) << flushing;
    EXPECT_EQ(beside.Over(beside.all), 1) << flushing;
    EXPECT_LT(beside.Over(0), 0) << flushing;
  }
  const auto due = BesideFlush::Of(kDue, kDue, kLog);
  EXPECT_EQ(due.all, 8u << 20);
  EXPECT_EQ(due.free, 2u << 20);
}

// A quarter of a pool at a time, and a record more: as much is free as where nothing is limited.
TEST(BesideFlush, AQuarterLeavesRoomForTwo) {
  constexpr uint64_t kDue = 8 << 20, kLog = 24 << 20;
  for (const uint64_t more : {0, 1000, 1 << 20}) {
    const auto beside = BesideFlush::Of(kDue + more, kDue, kLog);
    EXPECT_EQ(beside.free, kDue) << more;
    EXPECT_EQ(beside.all, 2 * kDue - more) << more;
  }
}

TEST(BesideFlush, WithoutALimitItIsWhatTwoFlushesAreDueAt) {
  for (const uint64_t flushing : {0, 10, 40}) {
    const auto beside = BesideFlush::Of(flushing << 20, 10 << 20, UINT64_MAX);
    EXPECT_EQ(beside.free, 10u << 20);
    EXPECT_EQ(beside.all, 20u << 20);
  }
}

// The control: without it they do.
TEST(FlushPace, WithoutItTheyStop) {
  for (const double write_share : {0.01, 0.1, 0.3}) {
    EXPECT_GE(FullestOf(5 * write_share, 5, 1100, false), 1) << write_share;
    EXPECT_GE(FullestOf(5 * write_share, 5, 1100, false, kDueBytes * 1.5), 1) << write_share;
  }
}

TEST(FlushPace, WhoIsNotFasterWaitsForNothing) {
  FlushPace pace;
  pace.Note(1 << 20, 5 << 20);
  EXPECT_EQ(pace.DelayNs(-0.5, 1000), 0u);
  EXPECT_EQ(pace.DelayNs(0, 1000), 0u);
  EXPECT_GT(pace.DelayNs(0.01, 1000), 0u);
  EXPECT_EQ(pace.DelayNs(1, 1000), pace.DelayNs(5, 1000));
}

// A flush that waited for a room or a reader for an hour says nothing of the next.
TEST(FlushPace, OneThatTookForeverIsNotBelieved) {
  FlushPace pace;
  pace.Note(1, 3'600'000'000'000);
  EXPECT_LE(pace.DelayNs(1, 1000), 8'000'000u);
  EXPECT_LE(pace.DelayNs(1, 1e9), 1'000'000'000u);
}

// What a flush takes whatever it writes is no pace.
TEST(FlushPace, OneOfLittleDoesNotHoldWritersBack) {
  FlushPace pace;
  pace.Note(200, 3'000'000);
  EXPECT_LE(pace.DelayNs(1, 100), 3000u);
}

}  // namespace
}  // namespace lamella
