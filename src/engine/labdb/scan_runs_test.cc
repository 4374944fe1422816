#include "engine/labdb/scan_runs.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

using testing::MakeValue;
using testing::TestSeed;

class ScanRunsTest : public ::testing::Test {
 protected:
  /// An address that no value had before.
  ValueAddress NewAddress(size_t value_bytes) {
    last_ += 8 * (1 + value_bytes / 8);
    return MakeValueAddress(1 + last_ / 100'000, last_ % 100'000, value_bytes);
  }
  std::vector<ValueAddress> NewAddresses(size_t count, size_t value_bytes) {
    std::vector<ValueAddress> addresses(count);
    for (ValueAddress& address : addresses) address = NewAddress(value_bytes);
    return addresses;
  }
  static std::string ValueOf(const ValueAddress& address) {
    return MakeValue(address.word, address.size);
  }
  /// The next of a walk: found, or read and added. Counts what is read.
  void Want(ScanRuns::Walk* walk, const ValueAddress& address) {
    std::string_view value;
    if (walk->Find(address, &value)) {
      ASSERT_EQ(value, ValueOf(address));
    } else {
      read_++;
      walk->Add(address, ValueOf(address));
    }
  }
  /// So many were read, of addresses from `first` on, or back from there.
  size_t Scan(const std::vector<ValueAddress>& addresses, size_t first, bool forward) {
    ScanRuns::Walk walk(&*runs_);
    walk.Begin(forward);
    read_ = 0;
    const size_t count = forward ? addresses.size() - first : first + 1;
    for (size_t i = 0; i < count; i++) {
      if (i > 0) walk.Step(forward);
      Want(&walk, addresses[forward ? first + i : first - i]);
    }
    return read_;
  }
  void Start(uint64_t cache_bytes) {
    cache_ = std::make_shared<BlockCache>(cache_bytes);
    runs_.emplace(cache_);
  }

  uint64_t last_ = 0;
  size_t read_ = 0;
  std::shared_ptr<BlockCache> cache_;
  std::optional<ScanRuns> runs_;
};

TEST_F(ScanRunsTest, AScanFindsWhatAnotherReadWhereverItBegins) {
  for (const size_t value_bytes : {20u, 100u, 250u}) {
    SCOPED_TRACE(value_bytes);
    Start(16 << 20);
    const std::vector<ValueAddress> all = NewAddresses(1000, value_bytes);
    // What it reads before its first run, or does not come to the end of.
    const size_t few = 12 * (1 + ScanRuns::kRunBytes / value_bytes);
    EXPECT_EQ(Scan(all, 0, true), all.size());
    for (const size_t first : {0u, 1u, 17u, 333u}) EXPECT_LE(Scan(all, first, true), 2 * few);
    EXPECT_EQ(Scan(all, all.size() - 1, false), all.size()) << "the other way it is another's";
    for (const size_t last : {999u, 998u, 700u}) EXPECT_LE(Scan(all, last, false), 2 * few);
    EXPECT_LE(Scan(all, 0, true), 2 * few) << "and both are there";
  }
}

// R1.
TEST_F(ScanRunsTest, WhatChangedIsReadAndThenFound) {
  Random random(TestSeed());
  Start(16 << 20);
  std::vector<ValueAddress> all = NewAddresses(2000, 100);
  // What lies before the first run and in the last, 37 by chance; so many once in 10^5 rounds.
  constexpr size_t kEndsMax = 300;
  Scan(all, 0, true);
  for (int round = 0; round < 20; round++) {
    size_t changed = 0;
    for (size_t i = 0; i < all.size(); i++) {
      if (!random.OneIn(50)) continue;
      changed++;
      switch (random.Uniform(3)) {
        case 0:
          all[i] = NewAddress(random.Uniform(250));
          break;
        case 1:
          all.insert(all.begin() + static_cast<ptrdiff_t>(i), NewAddress(random.Uniform(250)));
          break;
        default:
          all.erase(all.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    // A change may be of where a run begins: then it is all read, as what follows two that went.
    EXPECT_LE(Scan(all, 0, true), kEndsMax + 10 * changed);
    EXPECT_LE(Scan(all, 0, true), kEndsMax);
  }
}

TEST_F(ScanRunsTest, AWalkThatTurnsShowsWhatItIsAskedFor) {
  Random random(TestSeed());
  Start(64 << 10);  // it forgets, too
  std::vector<ValueAddress> all;
  for (int i = 0; i < 500; i++)
    all.push_back(NewAddress(random.OneIn(20) ? random.Uniform(20'000) : random.Uniform(300)));
  ScanRuns::Walk walk(&*runs_);
  size_t at = 0;
  bool forward = true;
  for (int i = 0; i < 50'000; i++) {
    if (random.OneIn(20)) {
      at = random.Uniform(all.size());
      walk.Begin(forward);
    } else {
      if (random.OneIn(30)) forward = !forward;
      at = forward ? std::min(at + 1, all.size() - 1) : at - std::min<size_t>(at, 1);
      walk.Step(forward);
    }
    if (random.OneIn(3)) continue;  // not wanted
    ASSERT_NO_FATAL_FAILURE(Want(&walk, all[at]));
    if (random.OneIn(10)) {
      ASSERT_NO_FATAL_FAILURE(Want(&walk, all[at])) << "again";
    }
    ASSERT_LE(cache_->figures().bytes, 64u << 10);  // R2
  }
  EXPECT_GT(cache_->figures().hits, 0u);
}

TEST_F(ScanRunsTest, LargeValuesAreNotKeptNorEndARun) {
  Start(16 << 20);
  std::vector<ValueAddress> all;
  for (int i = 0; i < 1000; i++)
    all.push_back(NewAddress(i % 10 == 0 ? ScanRuns::kValueBytesMax + 1 : 100));
  Scan(all, 0, true);
  const size_t read = Scan(all, 0, true);
  EXPECT_GE(read, 100u);
  EXPECT_LE(read, 250u);
  EXPECT_LT(cache_->figures().bytes, 300u << 10);
}

// R3.
TEST_F(ScanRunsTest, WithoutACacheAllIsRead) {
  Start(0);
  const std::vector<ValueAddress> all = NewAddresses(300, 100);
  for (int i = 0; i < 3; i++) EXPECT_EQ(Scan(all, 0, true), all.size());
  ScanRuns::Walk walk(nullptr);
  walk.Begin(true);
  std::string_view value;
  for (int i = 0; i < 2; i++) {
    EXPECT_FALSE(walk.Find(all[0], &value));
    walk.Add(all[0], ValueOf(all[0]));
  }
}

}  // namespace
}  // namespace lamella
