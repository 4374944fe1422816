#include "pmem/gate.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "pmem/delay.h"

namespace lamella {
namespace {

constexpr size_t kBufferBytes = 4096;

struct alignas(kBufferBytes) Buffer {
  char bytes[kBufferBytes] = {};
};

std::string RandomBytes(size_t n, uint64_t seed) {
  Random random(seed);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random.Next());
  return bytes;
}

// I2. A loop that steps 64 bytes from an unaligned start counts n / 64 rounded up, and misses the
// last line of some ranges.
TEST(Gate, FlushCoversEveryLineOfARange) {
  Gate gate(MediumKind::kCacheLine, {});
  Persister persister(&gate, WriteCause::kLog);
  Buffer buffer;
  int missed_by_stepping = 0;
  for (size_t start = 0; start < 130; start++) {
    for (size_t n = 1; n < 200; n++) {
      const uint64_t before = persister.counters().lines_flushed;
      persister.Flush(buffer.bytes + start, n);
      const uint64_t lines = (start + n - 1) / kLineBytes - start / kLineBytes + 1;
      ASSERT_EQ(persister.counters().lines_flushed - before, lines) << start << "+" << n;
      missed_by_stepping += (n + kLineBytes - 1) / kLineBytes != lines;
    }
  }
  EXPECT_GT(missed_by_stepping, 0);  // the ranges tried do tell the two apart
}

TEST(Gate, AnEmptyRangeIsNothing) {
  Gate gate(MediumKind::kCacheLine, {});
  Persister persister(&gate, WriteCause::kLog);
  Buffer buffer;
  persister.Flush(buffer.bytes, 0);
  persister.Copy(buffer.bytes, "x", 0);
  persister.CopyLines(buffer.bytes, buffer.bytes, 0, 0);
  EXPECT_EQ(persister.counters().lines_flushed, 0u);
  EXPECT_EQ(persister.counters().bytes_stored, 0u);
}

class GateMedia : public ::testing::TestWithParam<MediumKind> {};

TEST_P(GateMedia, CopyCopiesEverySizeAtEveryAlignmentAndNothingElse) {
  Gate gate(GetParam(), {});
  Persister persister(&gate, WriteCause::kLog);
  const std::string source = RandomBytes(2048, 1);
  const std::string background(kBufferBytes, '.');
  for (size_t start : {0, 1, 8, 63, 64, 65, 100, 255}) {
    for (size_t n = 0; n < 1500; n += n < 400 ? 1 : 61) {
      Buffer buffer;
      std::copy(background.begin(), background.end(), buffer.bytes);
      persister.Copy(buffer.bytes + start, source.data() + n % 7, n);
      persister.Fence();
      std::string expected = background;
      expected.replace(start, n, source, n % 7, n);
      ASSERT_EQ(std::string(buffer.bytes, kBufferBytes), expected) << start << "+" << n;
    }
  }
}

TEST_P(GateMedia, CopyLinesCopiesWholeLinesAndCountsWhatIsNew) {
  Gate gate(GetParam(), {});
  Persister persister(&gate, WriteCause::kLog);
  const std::string source = RandomBytes(512, 2);
  for (size_t n = 64; n <= 512; n += 64) {
    for (size_t skip = 0; skip < n; skip += 8) {
      Buffer buffer;
      std::copy_n(source.data(), skip, buffer.bytes);  // the head that is there already
      const uint64_t before = persister.counters().bytes_stored;
      persister.CopyLines(buffer.bytes, source.data(), n, skip);
      persister.Fence();
      ASSERT_EQ(std::string(buffer.bytes, n), source.substr(0, n));
      ASSERT_TRUE(std::all_of(buffer.bytes + n, buffer.bytes + kBufferBytes,
                              [](char c) { return c == 0; }));
      ASSERT_EQ(persister.counters().bytes_stored - before, n - skip);
    }
  }
}

TEST_P(GateMedia, StoreAndPublishSetTheWord) {
  Gate gate(GetParam(), {});
  Persister persister(&gate, WriteCause::kIndex);
  alignas(64) PmWord word{0};
  persister.Store(&word, 7);
  EXPECT_EQ(word.load(), 7u);
  persister.Publish(&word, 8);
  EXPECT_EQ(word.load(), 8u);
  EXPECT_EQ(persister.counters().bytes_stored, 16u);
}

INSTANTIATE_TEST_SUITE_P(All, GateMedia,
                         ::testing::Values(MediumKind::kByte, MediumKind::kCacheLine,
                                           MediumKind::kPage, MediumKind::kVolatile));

TEST(Gate, CacheLineMediaFlushAndFence) {
  Gate gate(MediumKind::kCacheLine, {});
  EXPECT_TRUE(gate.flushes());
  EXPECT_TRUE(gate.fences());
  Persister persister(&gate, WriteCause::kLog);
  Buffer buffer;
  persister.CopyLines(buffer.bytes, std::string(192, 'x').data(), 192, 16);
  persister.Fence();
  const PersistCounters counters = persister.counters();
  EXPECT_EQ(counters.bytes_stored, 176u);
  EXPECT_EQ(counters.lines_flushed, 3u);
  EXPECT_EQ(counters.fences, 1u);
  EXPECT_EQ(counters.blocks_touched, 1u);
}

TEST(Gate, ByteMediaFenceAndNeverFlush) {
  Gate gate(MediumKind::kByte, {});
  EXPECT_FALSE(gate.flushes());
  Persister persister(&gate, WriteCause::kLog);
  Buffer buffer;
  persister.Persist(buffer.bytes, 300);
  EXPECT_EQ(persister.counters().lines_flushed, 0u);
  EXPECT_EQ(persister.counters().fences, 1u);
  EXPECT_EQ(persister.counters().blocks_touched, 2u);
}

TEST(Gate, PageAndVolatileMediaOnlyStore) {
  for (const MediumKind medium : {MediumKind::kPage, MediumKind::kVolatile}) {
    Gate gate(medium, {});
    EXPECT_FALSE(gate.flushes());
    EXPECT_FALSE(gate.fences());
    Persister persister(&gate, WriteCause::kLog);
    Buffer buffer;
    persister.Copy(buffer.bytes, std::string(1000, 'x').data(), 1000);
    persister.Persist(buffer.bytes, 1000);
    const PersistCounters counters = persister.counters();
    EXPECT_EQ(counters.bytes_stored, 1000u);
    EXPECT_EQ(counters.lines_flushed, 0u);
    EXPECT_EQ(counters.fences, 0u);
    EXPECT_EQ(counters.blocks_touched, 0u);
  }
}

TEST(Gate, ABlockTouchedAgainRightAwayCountsOnce) {
  Gate gate(MediumKind::kCacheLine, {});
  Persister persister(&gate, WriteCause::kLog);
  Buffer buffer;
  for (int line = 0; line < 4; line++) persister.Flush(buffer.bytes + 64 * line, 64);
  EXPECT_EQ(persister.counters().blocks_touched, 1u);
  persister.Flush(buffer.bytes + 192, 128);  // the end of that block and the next one
  EXPECT_EQ(persister.counters().blocks_touched, 2u);
  persister.Flush(buffer.bytes, 1);  // back to the first
  EXPECT_EQ(persister.counters().blocks_touched, 3u);
}

TEST(Gate, CountersSumLivingAndGonePersistersByCause) {
  Gate gate(MediumKind::kCacheLine, {});
  Buffer buffer;
  Persister living(&gate, WriteCause::kLog);
  living.Copy(buffer.bytes, "abc", 3);
  {
    Persister gone(&gate, WriteCause::kLog);
    gone.Copy(buffer.bytes, "abcde", 5);
  }
  Persister other(&gate, WriteCause::kGc);
  other.Copy(buffer.bytes, "a", 1);
  EXPECT_EQ(gate.Counters(WriteCause::kLog).bytes_stored, 8u);
  EXPECT_EQ(gate.Counters(WriteCause::kLog).lines_flushed, 2u);
  EXPECT_EQ(gate.Counters(WriteCause::kGc).bytes_stored, 1u);
  EXPECT_EQ(gate.Counters(WriteCause::kCatalog).bytes_stored, 0u);
}

TEST(Gate, ConcurrentPersistersAreCountedWhileTheyRun) {
  Gate gate(MediumKind::kCacheLine, {});
  constexpr int kStores = 20000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) {
    threads.emplace_back([&gate] {
      alignas(64) PmWord word{0};
      Persister persister(&gate, WriteCause::kLog);
      for (int i = 0; i < kStores; i++) persister.Store(&word, static_cast<uint64_t>(i));
    });
  }
  uint64_t last = 0;
  for (int i = 0; i < 200; i++) {
    const uint64_t now = gate.Counters(WriteCause::kLog).bytes_stored;
    EXPECT_GE(now, last);
    last = now;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gate.Counters(WriteCause::kLog).bytes_stored, 3u * kStores * 8);
}

TEST(Gate, APersisterThatOutlivesItIsAnError) {
  EXPECT_DEATH(
      {
        auto gate = std::make_unique<Gate>(MediumKind::kPage, MediaProfile{});
        Persister persister(gate.get(), WriteCause::kLog);
        gate.reset();
      },
      "persisters_.empty");
}

// Writes down what it is told, with the content that is there at that moment.
class Recorder : public PersistHook {
 public:
  void OnStore(const void* p, size_t n, const Site&) override { Note("store", p, n); }
  void OnFlush(const Persister*, const void* p, size_t n, const Site& site) override {
    Note("flush", p, n);
    lines.push_back(site.line());
  }
  void OnFence(const Persister*, const Site&) override { calls.push_back("fence"); }
  void OnSync(const void*, size_t, const Site&) override { calls.push_back("sync"); }

  std::vector<std::string> calls;
  std::vector<uint_least32_t> lines;

 private:
  void Note(const std::string& what, const void* p, size_t n) {
    calls.push_back(what + " " + std::string(static_cast<const char*>(p), n));
  }
};

TEST(Gate, TheHookSeesOldContentAtStoreAndNewContentAtFlush) {
  for (const MediumKind medium : {MediumKind::kByte, MediumKind::kCacheLine, MediumKind::kPage}) {
    Recorder recorder;
    Gate gate(medium, {}, &recorder);
    Persister persister(&gate, WriteCause::kLog);
    Buffer buffer;
    std::fill_n(buffer.bytes, 64, 'o');
    persister.Copy(buffer.bytes, "new", 3);
    persister.Fence();
    const std::string line(64, 'L');
    persister.CopyLines(buffer.bytes, line.data(), 64, 60);
    EXPECT_EQ(recorder.calls, (std::vector<std::string>{"store ooo", "flush new", "fence",
                                                        "store oooo", "flush LLLL"}));
  }
}

TEST(Gate, TheHookIsToldTheCallersPlace) {
  Recorder recorder;
  Gate gate(MediumKind::kCacheLine, {}, &recorder);
  Persister persister(&gate, WriteCause::kLog);
  Buffer buffer;
  persister.Flush(buffer.bytes, 1);
  const uint_least32_t flush_line = __LINE__ - 1;
  persister.Persist(buffer.bytes, 1);
  const uint_least32_t persist_line = __LINE__ - 1;
  EXPECT_EQ(recorder.lines, (std::vector<uint_least32_t>{flush_line, persist_line}));
}

// Else what takes less would take no time, and of such transfers a queue is never full.
TEST(Delay, ATickIsHardlyLongerThanANanosecond) { EXPECT_GE(TicksPerNs(), 0.9); }

TEST(Delay, BandwidthIsAQueue) {
  BandwidthQueue queue;
  EXPECT_EQ(queue.Book(100, 50), 150u);
  EXPECT_EQ(queue.Book(100, 50), 200u);  // waits for the first
  EXPECT_EQ(queue.Book(500, 10), 510u);  // the queue was empty since 200
}

TEST(Delay, AFenceWithLinesPendingTakesTheWriteLatencyAndTheBandwidth) {
  MediaProfile profile;
  profile.write_ns = 100'000;
  profile.write_gbps = 0.001;  // 1 byte a microsecond: 64 us a line
  Gate gate(MediumKind::kCacheLine, profile);
  Persister persister(&gate, WriteCause::kLog);
  Buffer buffer;
  const auto elapsed_ns = [&](size_t n) {
    const uint64_t start = TicksNow();
    persister.Flush(buffer.bytes, n);
    persister.Fence();
    return static_cast<double>(TicksNow() - start) / TicksPerNs();
  };
  EXPECT_GE(elapsed_ns(1), 99'000);
  EXPECT_GE(elapsed_ns(640), 630'000);
}

TEST(Delay, AFenceTakesTheLatencyOfEachLineWhereTheyAreWrittenOneAfterAnother) {
  MediaProfile profile;
  profile.write_line_ns = 50'000;
  Gate gate(MediumKind::kCacheLine, profile);
  Persister persister(&gate, WriteCause::kLog);
  Buffer buffer;
  persister.Flush(buffer.bytes, 640);
  const uint64_t start = TicksNow();
  persister.Fence();
  EXPECT_GE(static_cast<double>(TicksNow() - start) / TicksPerNs(), 490'000);
}

TEST(Delay, AReadTakesTheReadLatency) {
  MediaProfile profile;
  profile.read_ns = 100'000;
  Gate gate(MediumKind::kPage, profile);
  const uint64_t start = TicksNow();
  gate.OnRead(64);
  EXPECT_GE(static_cast<double>(TicksNow() - start) / TicksPerNs(), 99'000);
}

TEST(Gate, ReadsAreCountedWhereAskedFor) {
  Gate counts(MediumKind::kPage, {}, nullptr, true), does_not(MediumKind::kPage, {});
  for (const Gate* gate : {&counts, &does_not}) {
    gate->OnRead(64);
    gate->OnRead(256);
  }
  EXPECT_EQ(counts.ReadBytes(), 320u);
  EXPECT_EQ(does_not.ReadBytes(), 0u);
}

}  // namespace
}  // namespace lamella
