#include "engine/labdb/stored_values.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/os_hook.h"
#include "engine/labdb/scan_runs.h"
#include "iterator/test_iterators.h"
#include "log/value_log_test_base.h"
#include "sst/record_cache.h"
#include "testing/fault_file_system.h"

namespace lamella {
namespace {

using testing::FaultFileSystem;
using testing::MakeValue;
using testing::TestSeed;

// An iterator over a table in DRAM whose values lie in a value log, or beside their keys.
class StoredValuesTest : public ValueLogTestBase {
 protected:
  StoredValuesTest() : faulty_(dir_.path(), false) {
    files_ = &faulty_;
    file_segments_ = 64;
    Start();
  }
  ~StoredValuesTest() override { log_.reset(); }

  static std::string KeyOf(uint64_t i) { return "key" + std::to_string(10000 + i); }
  /// A key has one version.
  void Put(const std::string& key, const std::string& value) {
    Delete(key);
    OwnedKey record{key, MakeTag(++sequence_, RecordKind::kPut)};
    if (value.size() > kAddressBytes) {
      char bytes[kAddressBytes];
      const ValueAddress address = MustPut(value).address;
      record.tag = MakeTag(sequence_, RecordKind::kPutElsewhere);
      table_.records[record] = EncodeAddress(address, bytes);
    } else {
      table_.records[record] = value;
    }
    model_[key] = value;
  }
  void Delete(const std::string& key) {
    std::erase_if(table_.records, [&](const auto& at) { return at.first.user_key == key; });
    model_.erase(key);
  }
  /// In no order of keys, and so in files that neighbours lie far apart in them.
  void Fill(uint64_t keys, size_t value_bytes) {
    for (uint64_t i = 0; i < keys; i++) Put(KeyOf(i * 379 % keys), MakeValue(i, value_bytes));
    WriteAllOn();
  }
  std::unique_ptr<InternalIterator> NewIterator() {
    return NewStoredValues(
        std::make_unique<LiveIterator>(&table_), log_.get(), runs_shown_, cache_shown_,
        [this] { return std::make_unique<LiveIterator>(&table_); }, cost_shown_);
  }
  void MovesAsAMap();
  void ExpectDamageSaid();
  virtual uint64_t reads() const { return faulty_.seen(OsCall::kRead); }
  static void Expect(InternalIterator* it, const std::string& value) {
    const Status s = it->ReadValue();
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_EQ(it->value(), value) << it->key().user_key;
    ASSERT_TRUE(it->ReadValue().ok()) << "again";
    ASSERT_EQ(it->value(), value);
  }
  /// All of it, from one end to the other. The reads of files that it took.
  uint64_t Scan(bool forward) {
    const EpochPin hold(pool_->holders());
    const uint64_t before = reads();
    const auto it = NewIterator();
    std::vector<std::string> values;
    for (const auto& [key, value] : model_) values.push_back(value);
    if (!forward) std::ranges::reverse(values);
    forward ? it->SeekToFirst() : it->SeekToLast();
    for (const std::string& value : values) {
      EXPECT_TRUE(it->Valid());
      Expect(it.get(), value);
      forward ? it->Next() : it->Prev();
    }
    EXPECT_FALSE(it->Valid());
    return reads() - before;
  }

  FaultFileSystem faulty_;
  std::shared_ptr<BlockCache> cache_ = std::make_shared<BlockCache>(16 << 20);
  const ScanRuns runs_{cache_};
  const ScanRuns* runs_shown_ = &runs_;
  const RecordCache* cache_shown_ = nullptr;
  ReadCost* cost_shown_ = nullptr;
  LiveTable table_;
  std::map<std::string, std::string> model_;
  uint64_t sequence_ = 0;
};

TEST_F(StoredValuesTest, WhatAScanReadTheNextOneHas) {
  Fill(1000, 100);
  for (const bool forward : {true, false}) {
    EXPECT_GT(Scan(forward), 900u);
    EXPECT_LT(Scan(forward), 100u);
    EXPECT_LT(Scan(forward), 100u);
  }
}

TEST_F(StoredValuesTest, ACacheKeepsEachValueThatWasReadFromAFile) {
  Fill(1000, 1000);
  Put(KeyOf(500), MakeValue(1, RecordCache::kValueBytesMax + 1));  // too large
  WriteAllOn();
  Put(KeyOf(501), MakeValue(2, 1000));  // in the pool
  runs_shown_ = nullptr;
  for (const bool enabled : {false, true}) {
    const RecordCache cache(cache_, enabled);
    cache_shown_ = &cache;
    EXPECT_GT(Scan(true), 900u);
    if (enabled) {
      EXPECT_EQ(cache_->figures().blocks, 998u);
      EXPECT_EQ(Scan(true), 1u);
      EXPECT_EQ(Scan(false), 1u);
    } else {
      EXPECT_GT(Scan(false), 900u);
      EXPECT_EQ(cache_->figures().blocks, 0u);
    }
  }
  cache_shown_ = nullptr;
}

TEST_F(StoredValuesTest, WhatLiesInTheOrderOfKeysIsReadTogetherAndNotKept) {
  for (uint64_t i = 0; i < 1000; i++) Put(KeyOf(i), MakeValue(i, 100));
  WriteAllOn();
  EXPECT_LT(Scan(true), 30u);
  EXPECT_LT(Scan(false), 30u);
  EXPECT_LT(cache_->figures().blocks, 5u);
}

TEST_F(StoredValuesTest, AnswersAsAMapWhereverItGoesAndWhateverChanges) {
  ASSERT_NO_FATAL_FAILURE(MovesAsAMap());
  EXPECT_GT(cache_->figures().hits, 0u);
}

void StoredValuesTest::MovesAsAMap() {
  Random random(TestSeed());
  for (uint64_t i = 0; i < 300; i++) Put(KeyOf(i), MakeValue(i, random.Uniform(300)));
  const EpochPin hold(pool_->holders());
  std::unique_ptr<InternalIterator> it;
  auto at = model_.end();
  for (int i = 0; i < 30'000; i++) {
    if (random.OneIn(100)) {
      const std::string key = KeyOf(random.Uniform(300));
      const size_t bytes = random.OneIn(10) ? random.Uniform(20'000) : random.Uniform(300);
      random.OneIn(4) ? Delete(key) : Put(key, MakeValue(random.Next(), bytes));
      if (random.OneIn(4)) WriteAllOn();
      at = model_.end();
    }
    if (it == nullptr || random.OneIn(200)) {
      it = NewIterator();
      at = model_.end();
    }
    if (at == model_.end() || random.OneIn(30)) {
      const std::string key = KeyOf(random.Uniform(300));
      if (random.OneIn(2)) {
        it->Seek({key, kTagFirst});
        at = model_.lower_bound(key);
      } else {
        it->SeekForPrev({key, 0});
        at = model_.upper_bound(key);
        at = at == model_.begin() ? model_.end() : std::prev(at);
      }
    } else if (i / 50 % 2 == 0) {
      it->Next();
      ++at;
    } else {
      it->Prev();
      at = at == model_.begin() ? model_.end() : std::prev(at);
    }
    ASSERT_EQ(it->Valid(), at != model_.end());
    if (it->Valid() && !random.OneIn(5)) {
      ASSERT_NO_FATAL_FAILURE(Expect(it.get(), at->second));
    }
  }
}

// An error is that of the entry whose value could not be read, and of no other; the value is read
// when it is asked for again.
TEST_F(StoredValuesTest, AReadThatFailsIsSaidWhereItIsWanted) {
  Fill(500, 100);
  const EpochPin hold(pool_->holders());
  for (const bool forward : {true, false}) {
    Scan(forward);
    const uint64_t least = Scan(forward);
    for (uint64_t nth = 1; nth < 500; nth += 31) {
      const auto it = NewIterator();
      cache_->Resize(0);
      cache_->Resize(16 << 20);
      faulty_.Arm({.nth = nth, .error = EIO, .only = OsCall::kRead});
      uint64_t wanted = 0;
      uint64_t failed = 0;
      forward ? it->SeekToFirst() : it->SeekToLast();
      for (; it->Valid(); forward ? it->Next() : it->Prev()) {
        wanted++;
        const Status s = it->ReadValue();
        if (!s.ok()) {
          failed++;
          EXPECT_EQ(wanted, nth);
          EXPECT_TRUE(s.IsIOError() && Says(s, ".values")) << s.ToString();
        }
        EXPECT_TRUE(it->status().ok());
        if (!s.ok() && nth % 2 == 0) continue;  // it is left out, and the walk goes on
        ASSERT_NO_FATAL_FAILURE(Expect(it.get(), model_[std::string(it->key().user_key)]));
      }
      EXPECT_EQ(failed, 1u);
      EXPECT_EQ(wanted, model_.size());
      faulty_.Disarm();
      EXPECT_LE(Scan(forward), least + 1) << "what was left out is read, and nothing else";
    }
  }
}

void StoredValuesTest::ExpectDamageSaid() {
  Fill(200, 100);
  const ValueFileInfo file = log_->Files()[0];
  const std::string good = ReadWhole(PathOf(file));
  std::string bytes = good;
  for (char& byte : bytes) byte = static_cast<char>(~byte);
  WriteWhole(PathOf(file), bytes);
  {
    const EpochPin hold(pool_->holders());
    const auto it = NewIterator();
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      const Status s = it->ReadValue();
      EXPECT_TRUE(s.IsCorruption() && Says(s, PathOf(file))) << s.ToString();
    }
  }
  EXPECT_EQ(cache_->figures().blocks, 0u);
  WriteWhole(PathOf(file), good);
  Scan(true);
}

TEST_F(StoredValuesTest, DamageIsSaidAndNeverKept) { ExpectDamageSaid(); }

TEST_F(StoredValuesTest, FilesMayGoUnderIt) {
  Fill(500, 100);
  Scan(true);
  std::optional<EpochPin> hold(pool_->holders());
  const auto it = NewIterator();
  it->SeekToFirst();
  const auto rest = [&](size_t count) {
    for (auto at = model_.find(std::string(it->key().user_key)); count > 0; count--, ++at) {
      ASSERT_NO_FATAL_FAILURE(Expect(it.get(), at->second));
      it->Next();
    }
  };
  ASSERT_NO_FATAL_FAILURE(rest(100));
  ASSERT_TRUE(log_->RemoveFiles(log_->Files()).ok());
  Collect();
  ASSERT_NO_FATAL_FAILURE(rest(100));
  cache_->Resize(0);  // what it stands in stays
  cache_->Resize(16 << 20);
  ASSERT_NO_FATAL_FAILURE(rest(200));
  EXPECT_TRUE(it->Valid());
}

TEST_F(StoredValuesTest, LargeValuesAreReadEachTime) {
  segment_bytes_ = 1 << 20;
  Start();
  for (uint64_t i = 0; i < 40; i++) Put(KeyOf(i), MakeValue(i, i % 2 == 0 ? 50'000 : 60));
  WriteAllOn();
  Scan(true);
  EXPECT_GE(Scan(true), 20u);
  EXPECT_LT(cache_->figures().bytes, 20u << 10);
}

/// Counts reads; one of them may be to fail. Threads: all calls from any.
class CountedReads final : public OsHook {
 public:
  int Before(OsCall call, const std::string&) override {
    return call == OsCall::kRead && ++count == fails_at ? EIO : 0;
  }
  size_t Allowed(OsCall, size_t n) override { return n; }

  std::atomic<uint64_t> count{0};
  std::atomic<uint64_t> fails_at{0};
};

// The same, where each read is worth being made ahead.
class StoredValuesAhead : public StoredValuesTest {
 protected:
  StoredValuesAhead() {
    files_ = counted_files_.get();
    Start();
    runs_shown_ = nullptr;
    cost_shown_ = &cost_;
  }
  ~StoredValuesAhead() override { log_.reset(); }
  uint64_t reads() const override { return counted_.count; }

  CountedReads counted_;
  const std::unique_ptr<FileSystem> counted_files_ = FileSystem::PosixOver(&counted_);
  ReadCost cost_{std::chrono::nanoseconds(0)};
};

// Each is read once, whoever does it; who jumps reads a few in vain, at most.
TEST_F(StoredValuesAhead, ReadsWhatTheScanComesBy) {
  Fill(1000, 1000);
  EXPECT_LE(Scan(true), 1000u);
  EXPECT_LE(Scan(false), 1000u);
  const EpochPin hold(pool_->holders());
  const uint64_t before = reads();
  auto it = NewIterator();
  for (uint64_t from = 0; from < 900; from += 100) {
    it->Seek({KeyOf(from), kTagFirst});
    for (uint64_t i = from; i < from + 10; i++, it->Next())
      ASSERT_NO_FATAL_FAILURE(Expect(it.get(), model_[KeyOf(i)]));
  }
  it.reset();
  EXPECT_LE(reads() - before, 9 * (10 + ValuesAhead::kMost));
}

TEST_F(StoredValuesAhead, AnswersAsAMap) {
  ASSERT_NO_FATAL_FAILURE(MovesAsAMap());
  const RecordCache cache(cache_, true);
  cache_shown_ = &cache;
  ASSERT_NO_FATAL_FAILURE(MovesAsAMap());
  cache_shown_ = nullptr;
  runs_shown_ = &runs_;
  ASSERT_NO_FATAL_FAILURE(MovesAsAMap());
}

// Who wants a value reads it alone then (ValuesAhead A2): only the reads before the first window
// are the scan's own.
TEST_F(StoredValuesAhead, AReadThatFailsIsNotSaid) {
  Fill(500, 2000);
  const uint64_t reads = Scan(true);
  EXPECT_GT(reads, 100u);
  for (uint64_t nth = 3; nth < reads; nth += 7) {
    counted_.count = 0;
    counted_.fails_at = nth;
    EXPECT_GT(Scan(nth % 2 == 0), nth);
  }
}

TEST_F(StoredValuesAhead, DamageIsSaidAndNeverKept) { ExpectDamageSaid(); }

}  // namespace
}  // namespace lamella
