#include "sst/record_cache.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "sst/sst_test_base.h"
#include "testing/fault_file_system.h"

namespace lamella {
namespace {

using testing::FaultFileSystem;
using testing::MakeValue;
using testing::TestSeed;

constexpr RecordCache::Place kHere{.kind = 1, .word = 7};
constexpr RecordCache::Place kThere{.kind = 1, .word = 8};

class RecordCacheTest : public ::testing::Test {
 protected:
  std::string Found(const std::string& key, const RecordCache::Place& place) const {
    RecordCache::Found found;
    return records_.Find(key, place, &found) ? std::string(found.value) : "none";
  }

  const std::shared_ptr<BlockCache> cache_ = std::make_shared<BlockCache>(1 << 20);
  const RecordCache records_{cache_, true};
};

// K1.
TEST_F(RecordCacheTest, ShowsTheRecordOfThatKeyAtThatPlace) {
  EXPECT_EQ(Found("a", kHere), "none");
  EXPECT_TRUE(records_.Keep("a", kHere, 5, "one", false));
  EXPECT_EQ(Found("a", kHere), "one");
  EXPECT_EQ(Found("a", kThere), "none");
  EXPECT_EQ(Found("b", kHere), "none");
  EXPECT_TRUE(records_.Keep("a", kThere, 6, "other", true));
  EXPECT_EQ(Found("a", kHere), "none");
  EXPECT_EQ(Found("a", kThere), "other");
  RecordCache::Found found;
  ASSERT_TRUE(records_.Find("a", kThere, &found));
  EXPECT_EQ(found.tag, 6u);
  cache_->Resize(0);
  EXPECT_EQ(found.value, "other");
  EXPECT_EQ(Found("a", kThere), "none");
  EXPECT_EQ(cache_->figures().blocks, 0u);
}

TEST_F(RecordCacheTest, KeepsNothingThatIsLargeAndNothingWhereItIsOff) {
  const std::string large(RecordCache::kValueBytesMax + 1, 'x');
  EXPECT_FALSE(records_.Keep("a", kHere, 5, large, true));
  EXPECT_TRUE(records_.Keep("a", kHere, 5, large.substr(1), true));
  EXPECT_EQ(Found("a", kHere), large.substr(1));
  const RecordCache off(cache_, false);
  EXPECT_FALSE(off.NoteRead("a"));
  EXPECT_FALSE(off.NoteRead("a"));
  EXPECT_FALSE(off.Keep("a", kHere, 5, "one", true));
  RecordCache::Found found;
  EXPECT_FALSE(off.Find("a", kHere, &found));
}

TEST_F(RecordCacheTest, OfACacheWithoutABoundTakesWhatThereIs) {
  const RecordCache records(std::make_shared<BlockCache>(UINT64_MAX), true);
  EXPECT_TRUE(records.Keep("a", kHere, 5, "one", false));
  RecordCache::Found found;
  EXPECT_TRUE(records.Find("a", kHere, &found));
}

TEST_F(RecordCacheTest, KnowsWhatWasAskedForOfLate) {
  EXPECT_FALSE(records_.NoteRead("a"));
  EXPECT_TRUE(records_.NoteRead("a"));
  for (int i = 0; i < 100000; i++) (void)records_.NoteRead("key" + std::to_string(i));
  EXPECT_FALSE(records_.NoteRead("a"));
}

TEST_F(RecordCacheTest, FollowsARecordThatIsWrittenOrMoved) {
  records_.Renew("a", kHere, 1, "one");
  records_.Move("a", kHere, 1, "one");
  EXPECT_EQ(Found("a", kHere), "none");  // nobody asked for it
  (void)records_.NoteRead("a");
  records_.Keep("a", kHere, 1, "one", false);
  records_.Renew("a", kThere, 2, "two");
  EXPECT_EQ(Found("a", kHere), "none");
  EXPECT_EQ(Found("a", kThere), "two");
  records_.Move("a", kHere, 1, "one");  // an older version's way
  EXPECT_EQ(Found("a", kThere), "two");
  records_.Move("a", kHere, 2, "two");
  EXPECT_EQ(Found("a", kHere), "two");
  EXPECT_EQ(Found("a", kThere), "none");
  EXPECT_EQ(cache_->figures().blocks, 1u);
}

// What it notes of keys is the cache's account's, too.
TEST_F(RecordCacheTest, ChargesWhatItTakes) {
  MemoryBudget budget(100 << 20);
  MemoryAccount account(&budget);
  {
    const auto cache = std::make_shared<BlockCache>(4 << 20, &account);
    const RecordCache records(cache, true);
    EXPECT_GT(account.held(), 0u);
    EXPECT_LE(account.held(), (4u << 20) / 64);
  }
  EXPECT_EQ(account.held(), 0u);
}

TEST_F(RecordCacheTest, ConcurrentUsersFindWhatIsRight) {
  std::atomic<uint64_t> wrong{0};
  const auto value_of = [](const std::string& key, uint64_t word) {
    return MakeValue(word + key.size(), 500) + key;
  };
  const auto use = [&](uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < 20000; i++) {
      const std::string key = "key" + std::to_string(random.Uniform(2000));
      const uint64_t word = random.Uniform(4);
      const RecordCache::Place place{.kind = 1, .word = word};
      RecordCache::Found found;
      if (records_.Find(key, place, &found)) {
        if (found.value != value_of(key, word)) wrong++;
      } else if (random.OneIn(3)) {
        records_.Keep(key, place, i, value_of(key, word), records_.NoteRead(key));
      } else {
        records_.Renew(key, place, i, value_of(key, word));
      }
    }
  };
  const uint64_t seed = TestSeed();
  std::thread other(use, seed);
  use(seed + 1);
  other.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(cache_->figures().evictions, 0u);
}

class RecordsOfTables : public SstTestBase {
 protected:
  RecordsOfTables() : faulty_(dir_.path(), false) {
    files_ = &faulty_;
    reading_.cache = cache_;
    reading_.records = records_;
  }
  uint64_t Reads() const { return faulty_.seen(OsCall::kRead); }
  std::shared_ptr<const Sst> Table(uint64_t number, const RecordMap& records) {
    options_.records = records_;
    std::shared_ptr<const Sst> sst;
    Status s = Build(records, IdentityOf(number));
    if (s.ok()) s = Open(IdentityOf(number), &sst);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return sst;
  }
  /// Many to a block.
  static RecordMap Records(uint64_t keys) {
    RecordMap records;
    for (uint64_t i = 0; i < keys; i++)
      records[{KeyOf(i), MakeTag(100 + i, RecordKind::kPut)}] = MakeValue(i, 200);
    return records;
  }
  static std::string KeyOf(uint64_t i) { return "key" + std::to_string(100000 + i); }

  FaultFileSystem faulty_;
  const std::shared_ptr<BlockCache> cache_ = std::make_shared<BlockCache>(1 << 20);
  const std::shared_ptr<const RecordCache> records_ = std::make_shared<RecordCache>(cache_, true);
};

// The cache has room for a fourteenth of the blocks, and for all of what is read of them.
TEST_F(RecordsOfTables, WhatIsReadAgainTakesItsOwnRoomAlone) {
  const RecordMap records = Records(64000);
  const auto sst = Table(7, records);
  ASSERT_NE(sst, nullptr);
  const auto read_all = [&] {
    const uint64_t before = Reads();
    for (uint64_t i = 0; i < 64000; i += 64)
      EXPECT_EQ(GetDifference(*sst, records, KeyOf(i), kSequenceMax), "");
    return Reads() - before;
  };
  EXPECT_GE(read_all(), 1000u);
  EXPECT_GE(read_all(), 700u);  // by now it is known which
  EXPECT_LE(read_all(), 50u);
  EXPECT_LE(read_all(), 50u);
}

// Neighbours are read by their blocks.
TEST_F(RecordsOfTables, ABlockOfWhichAllIsReadIsReadOnce) {
  const RecordMap records = Records(2000);
  const auto sst = Table(7, records);
  ASSERT_NE(sst, nullptr);
  const uint64_t before = Reads();
  for (int round = 0; round < 3; round++) {
    for (uint64_t i = 0; i < 2000; i++)
      EXPECT_EQ(GetDifference(*sst, records, KeyOf(i), kSequenceMax), "");
  }
  EXPECT_LE(Reads() - before, sst->info().properties.data_blocks + 20);
}

// K1: a reader of an older version finds it, and leaves the newest to others.
TEST_F(RecordsOfTables, EachReaderFindsItsVersion) {
  Random random(TestSeed());
  const RecordMap records = RandomRecords(&random, {.count = 2000});
  const auto sst = Table(7, records);
  ASSERT_NE(sst, nullptr);
  const auto keys = [&] {
    std::vector<std::string> all;
    for (const auto& [key, value] : records) all.push_back(key.user_key);
    return all;
  }();
  for (int i = 0; i < 20000; i++) {
    const std::string& key = keys[random.Uniform(random.OneIn(2) ? 50 : keys.size())];
    const uint64_t sequence = random.OneIn(2) ? kSequenceMax : 1000 + random.Uniform(6000);
    ASSERT_EQ(GetDifference(*sst, records, key, sequence), "") << key;
  }
  EXPECT_GT(cache_->figures().hits, 0u);
}

// A merge takes what is kept along; of a key with several versions the newest alone.
TEST_F(RecordsOfTables, AMergeTakesAlongWhatIsKept) {
  RecordMap records = Records(2000);
  for (const auto& [key, value] : records) {
    (void)records_->NoteRead(key.user_key);
    records_->Keep(key.user_key, RecordPlaceOf(IdentityOf(7)), key.tag, value, false);
  }
  for (uint64_t i = 0; i < 2000; i += 2)
    records[{KeyOf(i), MakeTag(5000 + i, RecordKind::kPut)}] = MakeValue(i + 1, 200);
  const auto merged = Table(8, records);
  ASSERT_NE(merged, nullptr);
  uint64_t taken = 0;
  for (uint64_t i = 0; i < 2000; i++) {
    RecordCache::Found found;
    const bool is_there = records_->Find(KeyOf(i), RecordPlaceOf(IdentityOf(8)), &found);
    ASSERT_FALSE(is_there && i % 2 == 0) << i;
    taken += is_there ? 1 : 0;
  }
  EXPECT_GT(taken, 500u);  // the cache has room for most of them
  for (uint64_t i = 0; i < 2000; i++)
    ASSERT_EQ(GetDifference(*merged, records, KeyOf(i), kSequenceMax), "") << i;
}

}  // namespace
}  // namespace lamella
