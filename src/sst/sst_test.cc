#include "sst/sst.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sst/sst_test_base.h"
#include "testing/fault_file_system.h"

namespace lamella {
namespace {

using testing::Between;
using testing::FaultFileSystem;
using testing::KeyShape;
using testing::MakeNearKey;
using testing::MakeValue;
using testing::Says;
using testing::TestSeed;

class SstTest : public SstTestBase {
 protected:
  const std::string& AnyKey(Random* random, const RecordMap& records) {
    if (keys_.size() != records.size()) {
      keys_.clear();
      for (const auto& [key, value] : records) keys_.push_back(key.user_key);
    }
    return keys_[random->Uniform(keys_.size())];
  }

  void ExpectGets(const Sst& sst, const RecordMap& records, Random* random, KeyShape shape) {
    for (const auto& [key, value] : records) {
      const uint64_t sequence = TagSequence(key.tag);
      for (const uint64_t as_of : {sequence - 1, sequence, sequence + 1, kSequenceMax})
        ASSERT_EQ(GetDifference(sst, records, key.user_key, as_of), "");
    }
    for (int i = 0; i < 500; i++) {
      const std::string near = MakeNearKey(shape, random, 4 * records.size());
      ASSERT_EQ(GetDifference(sst, records, near, kSequenceMax), "");
    }
  }

  void ExpectWalks(const std::shared_ptr<const Sst>& sst, const RecordMap& records, Random* random,
                   KeyShape shape, const SstScanOptions& scan) {
    const auto it = Sst::NewIterator(sst, scan);
    ASSERT_FALSE(it->Valid());
    it->SeekToFirst();
    for (auto at = records.begin(); at != records.end(); ++at, it->Next())
      ASSERT_TRUE(StandsAt(*it, records, at));
    ASSERT_TRUE(StandsAt(*it, records, records.end()));
    it->SeekToLast();
    for (auto at = records.rbegin(); at != records.rend(); ++at, it->Prev())
      ASSERT_TRUE(StandsAt(*it, records, std::prev(at.base())));
    ASSERT_TRUE(StandsAt(*it, records, records.end()));
    for (int i = 0; i < 300; i++) {
      const OwnedKey target{random->OneIn(2) ? AnyKey(random, records)
                                             : MakeNearKey(shape, random, 4 * records.size()),
                            random->OneIn(3) ? kTagFirst : SeekTag(random->Uniform(9000))};
      auto at = records.lower_bound(target);
      if (random->OneIn(2)) {
        it->Seek(target.view());
      } else {
        it->SeekForPrev(target.view());
        at = records.upper_bound(target);
        at = at == records.begin() ? records.end() : std::prev(at);
      }
      ASSERT_TRUE(StandsAt(*it, records, at));
      // A target may be what the iterator shows.
      if (it->Valid() && random->OneIn(3)) it->Seek(it->key());
      for (uint64_t steps = random->Uniform(40); steps > 0 && at != records.end(); steps--) {
        if (random->OneIn(2)) {
          it->Next();
          ++at;
        } else {
          it->Prev();
          at = at == records.begin() ? records.end() : std::prev(at);
        }
        ASSERT_TRUE(StandsAt(*it, records, at));
      }
    }
  }

 private:
  std::vector<std::string> keys_;
};

TEST_F(SstTest, GivesBackWhatItWasMadeOfWhateverTheOptions) {
  Random random(TestSeed());
  for (int round = 0; round < 24; round++) {
    const auto shape = static_cast<KeyShape>(random.Uniform(4));
    const RecordMap records =
        RandomRecords(&random, {.keys = shape,
                                .count = 1 + random.Uniform(round % 2 == 0 ? 60 : 4000),
                                .value_max = Between(&random, 1, random.OneIn(6) ? 200000 : 500),
                                .compressible = random.OneIn(2)});
    options_.block_bytes = static_cast<uint32_t>(Between(&random, 64, 9000));
    options_.codec = static_cast<BlockCodec>(random.Uniform(3));
    const auto cache = std::make_shared<BlockCache>(random.OneIn(2) ? 64 << 20 : 300000);
    reading_.cache = random.OneIn(3) ? nullptr : cache;
    std::vector<SstLocation> locations;
    const std::shared_ptr<const Sst> sst = Made(records, &locations);
    ASSERT_NE(sst, nullptr);
    EXPECT_EQ(Problems(*sst), std::vector<std::string>());
    ExpectGets(*sst, records, &random, shape);
    const SstScanOptions scans[] = {{},
                                    {.fill_cache = false, .read_ahead_bytes = 0},
                                    {.fill_cache = true, .read_ahead_bytes = 5000}};
    for (const SstScanOptions& scan : scans) ExpectWalks(sst, records, &random, shape, scan);
    ASSERT_EQ(locations.size(), records.size());
    size_t i = 0;
    for (const auto& [key, value] : records) {
      std::string found_key;
      SstRecord found;
      const Status s = sst->ReadAt(locations[i++], random.OneIn(2), &found_key, &found);
      ASSERT_TRUE(s.ok()) << s.ToString();
      ASSERT_TRUE(found_key == key.user_key && found.tag == key.tag && found.value == value);
    }
    if (HasFatalFailure()) return;
  }
}

TEST_F(SstTest, KeysUpTo64KiBAndValuesLargerThanBlocks) {
  RecordMap records;
  for (uint64_t i = 0; i < 60; i++) {
    std::string key(kSstKeyBytesMax, 'k');
    key.replace(i % 2 == 0 ? 0 : key.size() - 2, 2, std::to_string(10 + i));
    records[{key, MakeTag(i + 1, RecordKind::kPut)}] = MakeValue(i, i * 100);
    records[{std::string(1 + i * 1000, 'x'), MakeTag(i + 1, RecordKind::kPut)}] = "";
  }
  for (uint64_t i = 0; i < 4; i++) {
    for (const size_t size : {0, 100, 4096, 70000, 5 << 20})
      records[{"large", MakeTag(i * 100 + size % 97, RecordKind::kPut)}] = MakeValue(size, size);
  }
  Random random(TestSeed());
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kLz4, BlockCodec::kZstd}) {
    options_.codec = codec;
    std::vector<SstLocation> locations;
    const std::shared_ptr<const Sst> sst = Made(records, &locations);
    ASSERT_NE(sst, nullptr);
    EXPECT_EQ(Problems(*sst), std::vector<std::string>());
    ExpectGets(*sst, records, &random, KeyShape::kShort);
    ExpectWalks(sst, records, &random, KeyShape::kShort, {});
    size_t i = 0;
    for (const auto& [key, value] : records) {
      std::string found_key;
      SstRecord found;
      ASSERT_TRUE(sst->ReadAt(locations[i++], false, &found_key, &found).ok());
      ASSERT_TRUE(found_key == key.user_key && found.value == value);
    }
  }
}

TEST_F(SstTest, TellsWhatItHolds) {
  Random random(TestSeed());
  const RecordMap records = RandomRecords(&random, {.count = 3000});
  options_.codec = BlockCodec::kZstd;
  options_.level = 5;
  const std::shared_ptr<const Sst> sst = Made(records);
  const SstInfo& info = sst->info();
  const SstProperties& properties = info.properties;
  EXPECT_EQ(properties.records, records.size());
  EXPECT_EQ(info.smallest, records.begin()->first.user_key);
  EXPECT_EQ(info.largest, records.rbegin()->first.user_key);
  EXPECT_EQ(info.file_bytes, ReadWhole(sst->path()).size());
  EXPECT_EQ(properties.codec, static_cast<uint8_t>(BlockCodec::kZstd));
  EXPECT_EQ(properties.level, 5);
  EXPECT_EQ(properties.block_bytes, options_.block_bytes);
  uint64_t first = kSequenceMax;
  uint64_t last = 0;
  uint64_t deletes = 0;
  uint64_t value_bytes = 0;
  for (const auto& [key, value] : records) {
    first = std::min(first, TagSequence(key.tag));
    last = std::max(last, TagSequence(key.tag));
    deletes += TagKind(key.tag) == RecordKind::kDelete ? 1 : 0;
    value_bytes += value.size();
  }
  EXPECT_EQ(properties.first_sequence, first);
  EXPECT_EQ(properties.last_sequence, last);
  EXPECT_EQ(properties.deletes, deletes);
  EXPECT_EQ(properties.value_bytes, value_bytes);
  EXPECT_EQ(built_.file_bytes, info.file_bytes);
  EXPECT_EQ(built_.smallest, info.smallest);
  EXPECT_EQ(built_.largest, info.largest);
}

// The root of a large table is small, and all that stays in DRAM.
TEST_F(SstTest, AnOpenTableTakesAThousandthOfItsFile) {
  RecordMap records;
  for (uint64_t i = 0; i < 100000; i++) {
    std::string key(16, '0');
    for (uint64_t k = 15, rest = i * 7; rest > 0; rest /= 10, k--)
      key[k] = static_cast<char>('0' + rest % 10);
    records[{key, MakeTag(i + 1, RecordKind::kPut)}] = MakeValue(i, 100);
  }
  MemoryBudget budget(64 << 20);
  MemoryAccount account(&budget);
  const auto cache = std::make_shared<BlockCache>(32 << 20, &account);
  reading_.cache = cache;
  std::shared_ptr<const Sst> sst = Made(records);
  ASSERT_NE(sst, nullptr);
  EXPECT_LT(sst->memory_bytes(), sst->info().file_bytes / 1000);
  EXPECT_EQ(account.held(), sst->memory_bytes());
  EXPECT_GE(sst->info().properties.sections, 30u);
  // 16 bytes of key and 100 of value: what the file has beside.
  EXPECT_LT(sst->info().file_bytes, 116 * 100000 * 106 / 100);
  sst.reset();
  EXPECT_EQ(account.held(), 0u);
  reading_.cache.reset();
}

TEST_F(SstTest, AbsentKeysReadNoDataBlock) {
  Random random(TestSeed());
  const RecordMap records =
      RandomRecords(&random, {.keys = KeyShape::kCommonPrefix, .count = 20000});
  FaultFileSystem counting(dir_.path(), false);
  files_ = &counting;
  const auto cache = std::make_shared<BlockCache>(64 << 20);
  reading_.cache = cache;
  const std::shared_ptr<const Sst> sst = Made(records);
  const auto get_near = [&] {
    SstRecord found;
    ASSERT_TRUE(
        sst->Get(MakeNearKey(KeyShape::kCommonPrefix, &random, 80000) + "#", kSequenceMax, &found)
            .ok());
    ASSERT_FALSE(found.found);
  };
  for (int i = 0; i < 20000; i++) get_near();  // brings the index blocks
  const uint64_t before = counting.seen(OsCall::kRead);
  for (int i = 0; i < 10000; i++) get_near();
  EXPECT_LT(counting.seen(OsCall::kRead) - before, 80u);  // one in 256, of blocks not cached yet
}

TEST_F(SstTest, ARecordWhosePlaceIsKnownTakesOneRead) {
  Random random(TestSeed());
  const RecordMap records = RandomRecords(&random, {.count = 2000, .value_max = 20000});
  FaultFileSystem counting(dir_.path(), false);
  files_ = &counting;
  std::vector<SstLocation> locations;
  const std::shared_ptr<const Sst> sst = Made(records, &locations);
  const uint64_t before = counting.seen(OsCall::kRead);
  for (const SstLocation& location : locations) {
    std::string key;
    SstRecord found;
    ASSERT_TRUE(sst->ReadAt(location, false, &key, &found).ok());
  }
  EXPECT_EQ(counting.seen(OsCall::kRead) - before, locations.size());
}

TEST_F(SstTest, ALocationThatIsNoneIsCorruptionOrAnotherRecord) {
  Random random(TestSeed());
  const RecordMap records = RandomRecords(&random, {.count = 300});
  const auto cache = std::make_shared<BlockCache>(1 << 20);
  reading_.cache = cache;
  std::vector<SstLocation> locations;
  const std::shared_ptr<const Sst> sst = Made(records, &locations);
  SstRecord warm;
  for (const auto& [key, value] : records)
    ASSERT_TRUE(sst->Get(key.user_key, kSequenceMax, &warm).ok());
  uint64_t corrupt = 0;
  for (int i = 0; i < 50000; i++) {
    uint64_t bits = locations[random.Uniform(locations.size())].bits();
    bits ^= uint64_t{1} << random.Uniform(64);
    if (random.OneIn(4)) bits = random.Next() & (random.OneIn(2) ? ~uint64_t{0} : 0xffff0000ffff);
    std::string key;
    SstRecord found;
    const Status s = sst->ReadAt(SstLocation::FromBits(bits), true, &key, &found);
    if (!s.ok()) {
      ASSERT_TRUE(s.IsCorruption()) << s.ToString();
      corrupt++;
      continue;
    }
    const auto at = records.find({key, found.tag});
    ASSERT_TRUE(at != records.end() && at->second == found.value);
  }
  EXPECT_GT(corrupt, 25000u);
}

// R2, R3.
TEST_F(SstTest, WhatWasFoundOutlivesTableFileAndCache) {
  RecordMap records;
  records[{"key", MakeTag(1, RecordKind::kPut)}] = MakeValue(1, 1000);
  SstRecord found;
  {
    auto cache = std::make_shared<BlockCache>(1 << 20);
    reading_.cache = cache;
    std::shared_ptr<const Sst> sst = Made(records);
    ASSERT_TRUE(sst->Get("key", 1, &found).ok());
    const auto it = Sst::NewIterator(sst, {});
    sst->MakeObsolete();
    sst.reset();
    EXPECT_TRUE(files_->Exists(PathOf(7)));  // the iterator has it
    EXPECT_EQ(cache->figures().blocks, 2u);
    reading_.cache.reset();
    cache.reset();  // and the cache
    it->SeekToFirst();
    EXPECT_TRUE(it->Valid());
  }
  EXPECT_FALSE(files_->Exists(PathOf(7)));
  EXPECT_EQ(found.value, MakeValue(1, 1000));
}

TEST_F(SstTest, AnObsoleteTableLeavesTheCache) {
  Random random(TestSeed());
  const auto cache = std::make_shared<BlockCache>(8 << 20);
  reading_.cache = cache;
  std::shared_ptr<const Sst> sst = Made(RandomRecords(&random, {.count = 1000}));
  const auto walk = [&] {
    const auto it = Sst::NewIterator(sst, {});
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
    }
  };
  walk();
  EXPECT_GT(cache->figures().blocks, 10u);
  sst->MakeObsolete();
  sst.reset();
  EXPECT_EQ(cache->figures().blocks, 0u);
  EXPECT_EQ(cache->figures().bytes, 0u);
}

// Of so many keys one after the other.
RecordMap RecordsOf(uint64_t count) {
  RecordMap records;
  for (uint64_t i = 0; i < count; i++)
    records[{testing::MakeKey(KeyShape::kCommonPrefix, i), MakeTag(i + 1, RecordKind::kPut)}] =
        MakeValue(i, 100);
  return records;
}

TEST_F(SstTest, ScansReadAheadBothWaysAndSeeksDoNot) {
  Random random(TestSeed());
  const RecordMap records = RecordsOf(20000);
  FaultFileSystem counting(dir_.path(), false);
  files_ = &counting;
  const std::shared_ptr<const Sst> sst = Made(records);
  const uint64_t blocks = sst->info().properties.data_blocks;
  const uint64_t sections = sst->info().properties.sections;
  const auto reads = [&](bool forward, size_t read_ahead) {
    const auto it = Sst::NewIterator(sst, {.fill_cache = true, .read_ahead_bytes = read_ahead});
    const uint64_t before = counting.seen(OsCall::kRead);
    if (forward) {
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
      }
    } else {
      for (it->SeekToLast(); it->Valid(); it->Prev()) {
      }
    }
    return counting.seen(OsCall::kRead) - before;
  };
  for (const bool forward : {true, false}) {
    EXPECT_EQ(reads(forward, 0), blocks + sections);
    EXPECT_LT(reads(forward, 256 << 10), blocks / 30 + sections);
  }
  const auto it = Sst::NewIterator(sst, {});
  const uint64_t before = counting.seen(OsCall::kRead);
  counting.LimitTransfers(5000);  // a larger read would take several
  for (int i = 0; i < 100; i++) it->Seek({AnyKey(&random, records), kTagFirst});
  EXPECT_LE(counting.seen(OsCall::kRead) - before, 3u * 100);
}

// Each read of a walk that is like those before it is waited for no more than a search's.
TEST_F(SstTest, WalksLearnHowFarTheyGo) {
  Random random(TestSeed());
  const RecordMap records = RecordsOf(20000);
  FaultFileSystem counting(dir_.path(), false);
  files_ = &counting;
  reading_.cost = std::make_shared<ReadCost>(std::chrono::nanoseconds(0));
  const std::shared_ptr<const Sst> sst = Made(records);
  const auto reads_of_walk = [&](int steps) {
    const std::string key = testing::MakeKey(KeyShape::kCommonPrefix, random.Uniform(19000));
    const InternalKey target{key, kTagFirst};
    const uint64_t before = counting.seen(OsCall::kRead);
    {
      const auto it = Sst::NewIterator(sst, {});
      it->WillSeek(target);
      it->Seek(target);
      for (int i = 0; i < steps && it->Valid(); i++) it->Next();
    }
    return counting.seen(OsCall::kRead) - before;
  };
  const uint64_t unknown = reads_of_walk(300);
  for (int i = 0; i < 30; i++) reads_of_walk(300);
  uint64_t learned = 0;
  for (int i = 0; i < 100; i++) learned += reads_of_walk(300);
  EXPECT_LT(learned, 100 * (unknown - 1));
  for (int i = 0; i < 30; i++) reads_of_walk(1);
  counting.LimitTransfers(5000);  // a larger read would take several
  uint64_t sought = 0;
  for (int i = 0; i < 100; i++) sought += reads_of_walk(1);
  EXPECT_LE(sought, 3u * 100);
}

TEST_F(SstTest, IsReadPastThePageCache) {
  Random random(TestSeed());
  const RecordMap records = RandomRecords(&random, {.count = 3000, .value_max = 3000});
  std::vector<SstLocation> locations;
  ASSERT_TRUE(Build(records, IdentityOf(7), &locations).ok());
  reading_.via = ReadVia::kDevice;
  std::shared_ptr<const Sst> sst;
  const Status s = Open(IdentityOf(7), &sst);
  if (s.IsNotSupported()) GTEST_SKIP() << s.ToString();
  ASSERT_TRUE(s.ok()) << s.ToString();
  ExpectGets(*sst, records, &random, KeyShape::kMixed);
  ExpectWalks(sst, records, &random, KeyShape::kMixed, {});
  EXPECT_EQ(Problems(*sst), std::vector<std::string>());
}

TEST_F(SstTest, TheBuilderTakesRecordsInOrderAndOfAllowedSizesAlone) {
  const auto build = [&](auto&& add) {
    SstBuilder builder(files_, dir_.path(), IdentityOf(7), options_);
    Status s = builder.Add({"b", MakeTag(5, RecordKind::kPut)}, "1");
    EXPECT_TRUE(s.ok());
    s = add(&builder);
    EXPECT_FALSE(files_->Exists(PathOf(7)));
    EXPECT_EQ(builder.Finish().ToString(), s.ToString());
    return s;
  };
  const auto add = [&](const std::string& key, uint64_t sequence, size_t value_bytes = 0) {
    return build([&](SstBuilder* builder) {
      return builder->Add({key, MakeTag(sequence, RecordKind::kPut)},
                          std::string(value_bytes, 'x'));
    });
  };
  for (const Status& s :
       {add("a", 9), add("b", 5), add("b", 6), add("", 9),
        add(std::string(kSstKeyBytesMax + 1, 'c'), 9), add("c", 9, kSstValueBytesMax + 1)})
    EXPECT_TRUE(s.IsInvalidArgument() && Says(s, PathOf(7))) << s.ToString();
  SstBuilder empty(files_, dir_.path(), IdentityOf(7), options_);
  EXPECT_TRUE(empty.Finish().IsInvalidArgument());
  options_.block_bytes = 10;
  SstBuilder tiny(files_, dir_.path(), IdentityOf(7), options_);
  EXPECT_TRUE(tiny.Add({"b", MakeTag(5, RecordKind::kPut)}, "1").IsInvalidArgument());
}

TEST_F(SstTest, WhatIsNotFinishedIsRemoved) {
  {
    SstBuilder builder(files_, dir_.path(), IdentityOf(7), options_);
    ASSERT_TRUE(builder.Add({"a", MakeTag(1, RecordKind::kPut)}, "1").ok());
    EXPECT_TRUE(files_->Exists(PathOf(7)));
  }
  EXPECT_FALSE(files_->Exists(PathOf(7)));
  SstBuilder abandoned(files_, dir_.path(), IdentityOf(8), options_);
  ASSERT_TRUE(abandoned.Add({"a", MakeTag(1, RecordKind::kPut)}, "1").ok());
  abandoned.Abandon();
  EXPECT_TRUE(abandoned.Add({"b", MakeTag(1, RecordKind::kPut)}, "1").IsAborted());
  EXPECT_FALSE(files_->Exists(PathOf(8)));
  EXPECT_TRUE(abandoned.Finish().IsAborted());
  // A finished one is not taken back.
  SstBuilder finished(files_, dir_.path(), IdentityOf(9), options_);
  ASSERT_TRUE(finished.Add({"a", MakeTag(1, RecordKind::kPut)}, "1").ok());
  ASSERT_TRUE(finished.Finish().ok());
  EXPECT_TRUE(finished.Add({"b", MakeTag(1, RecordKind::kPut)}, "1").IsInvalidArgument());
  EXPECT_TRUE(finished.Finish().IsInvalidArgument());
  EXPECT_TRUE(files_->Exists(PathOf(9)));
}

TEST_F(SstTest, AFileIsWrittenInLargePieces) {
  FaultFileSystem counting(dir_.path(), false);
  files_ = &counting;
  RecordMap records;
  for (uint64_t i = 0; i < 50000; i++)
    records[{testing::MakeKey(KeyShape::kCommonPrefix, i), MakeTag(i + 1, RecordKind::kPut)}] =
        MakeValue(i, 100);
  ASSERT_TRUE(Build(records, IdentityOf(7)).ok());
  EXPECT_EQ(counting.seen(OsCall::kWrite), (built_.file_bytes + (1 << 20) - 1) >> 20);
  EXPECT_EQ(counting.seen(OsCall::kSync), 1u);
  EXPECT_EQ(counting.seen(OsCall::kSyncDirectory), 1u);
}

TEST_F(SstTest, ARateLimiterHoldsTheBuilderBack) {
  RateLimiter limiter(20 << 20);
  options_.rate_limiter = &limiter;
  const auto start = std::chrono::steady_clock::now();
  RecordMap records;
  for (uint64_t i = 0; i < 40; i++)
    records[{"key" + std::to_string(100 + i), MakeTag(i + 1, RecordKind::kPut)}] =
        MakeValue(i, 100000);
  ASSERT_TRUE(Build(records, IdentityOf(7)).ok());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_GT(took.count(), 0.9 * 39 * 100000 / (20 << 20));
}

}  // namespace
}  // namespace lamella
