#include "log/value_scan.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "log/value_log_test_base.h"
#include "testing/fault_file_system.h"

namespace lamella {
namespace {

using testing::FaultFileSystem;
using testing::MakeValue;
using testing::TestSeed;

class ValueScanTest : public ValueLogTestBase {
 protected:
  ValueScanTest() : faulty_(dir_.path(), false) {
    files_ = &faulty_;
    segment_bytes_ = 1 << 20;
    Start();
    hold_.emplace(pool_->holders());
  }
  ~ValueScanTest() override {
    hold_.reset();
    log_.reset();
  }
  /// The reads that it took to read all of them, in that order.
  uint64_t Scan(const std::vector<Stored>& all) {
    const uint64_t before = faulty_.seen(OsCall::kRead);
    ValueScan scan(log_.get());
    for (const Stored& stored : all) {
      ValueRead read;
      bool together = false;
      const uint64_t reads = faulty_.seen(OsCall::kRead);
      const Status s = scan.Read(stored.address, &read, &together);
      EXPECT_TRUE(s.ok()) << s.ToString();
      EXPECT_EQ(read.value, stored.value);
      EXPECT_TRUE(together || read.owner == nullptr || faulty_.seen(OsCall::kRead) == reads + 1);
    }
    return faulty_.seen(OsCall::kRead) - before;
  }

  FaultFileSystem faulty_;
  std::optional<EpochPin> hold_;
};

TEST_F(ValueScanTest, WhatLiesSideBySideIsReadTogetherBothWays) {
  std::vector<Stored> all = Fill(2, 100);
  EXPECT_EQ(Scan(all), 0u) << "in the pool";
  WriteAllOn();
  for (int way = 0; way < 2; way++) {
    const uint64_t reads = Scan(all);
    EXPECT_GE(reads, 2 * segment_bytes_ / ValueScan::kBytesMax);
    EXPECT_LE(reads, 2 * (segment_bytes_ / ValueScan::kBytesMax + 6));
    std::ranges::reverse(all);
  }
  std::vector<Stored> some;  // gaps are read over
  for (size_t i = 0; i < all.size(); i += 10) some.push_back(all[i]);
  EXPECT_LE(Scan(some), 2 * (segment_bytes_ / ValueScan::kBytesMax + 6));
}

TEST_F(ValueScanTest, WhoJumpsReadsNothingInVain) {
  std::vector<Stored> all = Fill(2, 20'000);
  WriteAllOn();
  EXPECT_LE(Scan(all), all.size());
  std::vector<Stored> jumps;
  for (size_t i = 0; i < all.size(); i++) jumps.push_back(all[i * 7 % all.size()]);
  EXPECT_EQ(Scan(jumps), all.size());
}

TEST_F(ValueScanTest, LargeValuesAreReadByThemselves) {
  const std::vector<Stored> all = Fill(2, 100'000);
  WriteAllOn();
  EXPECT_EQ(Scan(all), all.size());
}

TEST_F(ValueScanTest, TurnsAndJumpsShowWhatIsAskedFor) {
  Random random(TestSeed());
  std::vector<Stored> all;
  for (int i = 0; i < 3000; i++)
    all.push_back(
        MustPut(MakeValue(random.Next(), random.Uniform(random.OneIn(50) ? 50'000 : 500))));
  std::vector<Stored> walk;
  size_t at = 0;
  bool forward = true;
  for (int i = 0; i < 20'000; i++) {
    if (random.OneIn(100)) at = random.Uniform(all.size());
    if (random.OneIn(40)) forward = !forward;
    at = forward ? std::min(at + 1, all.size() - 1) : at - std::min<size_t>(at, 1);
    walk.push_back(all[at]);
  }
  Scan(walk);
  WriteAllOn();
  EXPECT_LT(Scan(walk), walk.size() / 2);
}

// S1.
TEST_F(ValueScanTest, AnErrorIsThatOfTheValueThatWasAskedFor) {
  const std::vector<Stored> all = Fill(1, 1000);
  WriteAllOn();
  for (uint64_t nth = 1; nth <= 12; nth++) {
    for (const bool persistent : {false, true}) {
      ValueScan scan(log_.get());
      faulty_.Arm({.nth = nth, .persistent = persistent, .error = EIO, .only = OsCall::kRead});
      uint64_t failed = 0;
      for (const Stored& stored : all) {
        ValueRead read;
        const Status s = scan.Read(stored.address, &read, nullptr);
        if (s.ok()) {
          ASSERT_EQ(read.value, stored.value);
          continue;
        }
        failed++;
        EXPECT_TRUE(s.IsIOError() && Says(s, ".values")) << s.ToString();
        EXPECT_EQ(scan.Read(stored.address, &read, nullptr).ok(), !persistent);
      }
      // The first value is read by itself; where one is to be read with others and cannot be, it
      // is read by itself, too.
      const uint64_t lost = nth == 1 ? 1 : 0;
      EXPECT_TRUE(persistent ? failed > 0 : failed == lost) << nth << ": " << failed;
      faulty_.Disarm();
    }
  }
}

TEST_F(ValueScanTest, DamageIsThatOfOneValue) {
  const std::vector<Stored> all = Fill(1, 300);
  WriteAllOn();
  const ValueFileInfo file = log_->Files()[0];
  std::string bytes = ReadWhole(PathOf(file));
  bytes[PlaceIn(file, all[500].address) + 100] ^= 1;
  WriteWhole(PathOf(file), bytes);
  ValueScan scan(log_.get());
  for (size_t i = 0; i < all.size(); i++) {
    ValueRead read;
    const Status s = scan.Read(all[i].address, &read, nullptr);
    EXPECT_EQ(s.IsCorruption(), i == 500) << s.ToString();
    EXPECT_TRUE(!s.ok() || read.value == all[i].value);
  }
}

// S2.
TEST_F(ValueScanTest, WhatWasReadStaysWhateverBecomesOfTheFile) {
  const std::vector<Stored> all = Fill(1, 100);
  WriteAllOn();
  ValueScan scan(log_.get());
  ValueRead first;
  for (size_t i = 0; i < 100; i++) ASSERT_TRUE(scan.Read(all[i].address, &first, nullptr).ok());
  ASSERT_TRUE(log_->RemoveFiles(log_->Files()).ok());
  Collect();
  for (size_t i = 100; i < all.size(); i++) {
    ValueRead read;
    ASSERT_TRUE(scan.Read(all[i].address, &read, nullptr).ok());
    ASSERT_EQ(read.value, all[i].value);
  }
  EXPECT_EQ(first.value, all[99].value) << "its owner keeps it";
}

}  // namespace
}  // namespace lamella
