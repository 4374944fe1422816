#include "engine/lightkv/flush_pace.h"

#include <gtest/gtest.h>

namespace lamella {
namespace {

constexpr double kDueBytes = 24 << 20;

// What is in the log, at most, as shares of what a flush is due at: over some flushes, by writers
// who need so long for a byte beside what they are told to wait.
double FullestOf(double write_ns_per_byte, double flush_ns_per_byte, double record_bytes,
                 bool paced) {
  FlushPace pace;
  double fullest = 0, log = kDueBytes;
  for (int flush = 0; flush < 12; flush++) {
    const double sealed = log;
    const double ends_ns = sealed * flush_ns_per_byte;
    log = 0;
    for (double ns = 0; ns < ends_ns; log += record_bytes) {
      const double over = log / kDueBytes - 1;
      ns += record_bytes * write_ns_per_byte;
      if (paced) ns += pace.DelayNs(over, record_bytes);
      if (log >= 2 * kDueBytes) ns = ends_ns;  // they stop
    }
    pace.Note(static_cast<uint64_t>(sealed), static_cast<uint64_t>(ends_ns));
    if (flush > 0) fullest = std::max(fullest, log / kDueBytes);  // the first one's pace is a guess
    log = std::max(log, kDueBytes);                               // the next one is due
  }
  return fullest;
}

TEST(FlushPace, WritersComeToGoAsFastAsAFlushAndDoNotStop) {
  for (const double flush_ns : {1.0, 5.0, 20.0, 200.0}) {
    for (const double write_share : {0.01, 0.1, 0.3, 0.9}) {
      for (const double record_bytes : {150.0, 1100.0, 20'000.0}) {
        EXPECT_LT(FullestOf(flush_ns * write_share, flush_ns, record_bytes, true), 1.8)
            << flush_ns << " " << write_share << " " << record_bytes;
      }
    }
  }
}

// The control: without it they do.
TEST(FlushPace, WithoutItTheyStop) {
  for (const double write_share : {0.01, 0.1, 0.3})
    EXPECT_GE(FullestOf(5 * write_share, 5, 1100, false), 2) << write_share;
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
