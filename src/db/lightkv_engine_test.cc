// LightKV (engine/lightkv): what the suites of all designs do not see, its tables' files and its
// partitions. Segments are so small that a few hundred records make many partitions, and tables of
// several weights.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "base/sanitizer.h"
#include "db/db_impl.h"
#include "engine/lightkv/lightkv.h"
#include "file/table_file_name.h"
#include "testing/fault_file_system.h"
#include "testing/lost_catalog.h"
#include "testing/open_descriptors.h"
#include "testing/random_data.h"
#include "testing/resource_limit.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

class LightKvTest : public ::testing::Test {
 protected:
  LightKvTest() {
    options_.engine = EngineKind::kLightKv;
    options_.lightkv = {.segment_bytes = 4 << 10, .leaf_nodes_max = 64};
    SetSizes(2);
    options_.medium = MediumKind::kCacheLine;
    options_.background_threads = 2;
    options_.pool_bytes_max = 64 << 20;
  }
  void SetSizes(uint32_t size) {
    options_.lightkv.compaction_size = size;
    options_.lightkv.recompaction_size = size;
  }
  Status Open(const DbSeams& seams = {}) {
    db_.reset();
    db_ = std::make_unique<DbImpl>(options_, path_, seams);
    return db_->Init();
  }
  void Fill(int from, int to) {
    for (int i = from; i < to; i++)
      ASSERT_TRUE(db_->Put({}, Concat("key", 1000 + i), Concat("value", i)).ok());
  }
  std::string Get(int i) {
    std::string value;
    const Status s = db_->Get({}, Concat("key", 1000 + i), &value);
    return s.ok() ? value : Concat("[", s.ToString(), "]");
  }
  std::vector<std::string> Tables() const { return TableFilesOf(path_); }
  /// Smallest and largest key of each table there is.
  std::vector<KeyRange> Ranges() {
    std::vector<KeyRange> ranges;
    for (const std::string& path : Tables()) {
      const std::string name = std::filesystem::path(path).filename().string();
      std::shared_ptr<const Sst> sst;
      const Status s = Sst::Open(
          FileSystem::Posix(), path_,
          {.store = db_->pool()->state().uuid, .number = *TableFileNumber(name)}, {}, &sst);
      EXPECT_TRUE(s.ok()) << s.ToString();
      if (s.ok()) ranges.push_back({sst->info().smallest, sst->info().largest});
    }
    return ranges;
  }
  uint64_t Partitions() {
    const std::string text = db_->engine()->Describe();
    const size_t at = text.find(" partitions");
    return std::stoull(text.substr(text.rfind(' ', at - 1) + 1));
  }
  /// Ends the process, as it were. `pool`: what is in it then, its catalog destroyed.
  void KillWithoutCatalog(std::string* pool) {
    const std::vector<uint64_t> catalogs = CatalogsOf(*db_->pool());
    db_->Abandon();
    db_.reset();
    *pool = ReadWhole(path_ + "/pool.0");
    LoseCatalogs(catalogs, pool);
  }
  /// What KillWithoutCatalog told of becomes a store again.
  void RepairWithoutCatalog(const std::string& pool, RepairReport* report) {
    WriteWhole(path_ + "/pool.0", pool);
    EXPECT_TRUE(Open().IsCorruption());
    db_.reset();
    const Status s = RepairDB(path_, options_, report);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_TRUE(Open().ok());
  }
  uint64_t TablesNamed() const {
    uint64_t tables = 0;
    for (const Stats::Level& level : db_->GetStats().levels) tables += level.tables;
    return tables;
  }

  Options options_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  std::unique_ptr<DbImpl> db_;
};

TEST_F(LightKvTest, AFlushWritesATableForEachPartition) {
  ASSERT_TRUE(Open().ok());
  Fill(0, 2000);
  EXPECT_TRUE(Tables().empty());
  const uint64_t partitions = Partitions();
  EXPECT_GT(partitions, 8u);
  ASSERT_TRUE(db_->Flush().ok());
  EXPECT_EQ(Tables().size(), partitions) << "each had records";
  const std::vector<KeyRange> ranges = Ranges();
  for (size_t i = 0; i < ranges.size(); i++) {
    for (size_t k = 0; k < i; k++) EXPECT_FALSE(ranges[i].Overlaps(ranges[k]));
  }
  EXPECT_EQ(Partitions(), partitions) << "it has them still, empty";
  for (int i = 0; i < 2000; i += 7) ASSERT_EQ(Get(i), Concat("value", i));
  EXPECT_EQ(db_->GetStats().sources.at(0).gets, 0u);
}

TEST_F(LightKvTest, WhatOnePartitionGetsCompactsNoOther) {
  ASSERT_TRUE(Open().ok());
  Fill(0, 2000);
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());
  std::vector<std::string> before = Tables();
  for (int round = 0; round < 8; round++) {
    Fill(3, 6);  // of one partition
    ASSERT_TRUE(db_->Flush().ok());
  }
  ASSERT_TRUE(db_->WaitForIdle().ok());
  EXPECT_GT(db_->GetStats().compactions, 0u);
  const std::vector<std::string> after = Tables();
  const auto stayed = std::ranges::count_if(
      before, [&](const auto& path) { return std::ranges::find(after, path) != after.end(); });
  EXPECT_GE(stayed, static_cast<int64_t>(before.size()) - 1);
  EXPECT_EQ(TablesNamed(), after.size());
}

// Each size puts what is compacted a few levels further down, beyond all that the last one has.
TEST_F(LightKvTest, OtherCompactionSizesMayFollow) {
  uint64_t tables = 0;
  for (const uint32_t size : {16, 15, 14, 15, 16, 2, 16}) {
    SetSizes(size);
    ASSERT_TRUE(Open().ok());
    Fill(0, 100);
    ASSERT_TRUE(db_->Delete({}, "key1000").ok());
    ASSERT_TRUE(db_->CompactRange({}, {}).ok());
    EXPECT_EQ(db_->GetStats().levels.back().records, 99u)
        << "and the delete is gone, size " << size;
    if (tables == 0) tables = TablesNamed();
    EXPECT_EQ(TablesNamed(), tables);
    EXPECT_EQ(Get(1), "value1");
    ASSERT_TRUE(db_->Close().ok());
  }
}

// One that finds a weight's newest slot taken by fewer tables than it would merge.
TEST_F(LightKvTest, WhatAnotherCompactionSizeLeftIsCompacted) {
  const auto flush = [&](int times) {
    for (int i = 0; i < times; i++) {
      ASSERT_NO_FATAL_FAILURE(Fill(0, 10));
      ASSERT_TRUE(db_->Flush().ok());
      ASSERT_TRUE(db_->WaitForIdle().ok());
    }
  };
  SetSizes(8);
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(flush(6));
  EXPECT_EQ(TablesNamed(), 6u);
  SetSizes(3);
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(flush(20));  // with a few more nobody might write any more
  EXPECT_LE(TablesNamed(), 3u * 3u);
  for (int i = 0; i < 10; i++) EXPECT_EQ(Get(i), Concat("value", i));
}

// What waits with new keys is of use, what waits with the same ones again is not.
TEST_F(LightKvTest, OnlyNewKeysWaitBeforeTheyAreMergedAgain) {
  constexpr int kFlushes = 24;
  constexpr int kKeysOfFlush = 20;
  options_.lightkv.leaf_nodes_max = 1;
  options_.lightkv.recompaction_size = 16;
  for (const bool are_new : {true, false}) {
    ASSERT_TRUE(Open().ok());
    for (int flush = 0; flush < kFlushes; flush++) {
      for (int key = 0; key < kKeysOfFlush; key++) {
        const int at = are_new ? key * kFlushes + flush : key;
        ASSERT_NO_FATAL_FAILURE(Fill(at, at + 1));
      }
      ASSERT_TRUE(db_->Flush().ok());
      ASSERT_TRUE(db_->WaitForIdle().ok());
    }
    const std::vector<Stats::Level> levels = db_->GetStats().levels;
    if (are_new) {
      ASSERT_EQ(levels.size(), 2u);
      EXPECT_EQ(levels[1].tables, kFlushes / 2u);
    } else {
      ASSERT_GT(levels.size(), 2u);
      EXPECT_LE(levels[1].tables, 3u);
      EXPECT_LE(TablesNamed(), 6u);
    }
    db_.reset();
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
  }
}

// While a merge of all tables goes on, flushes put theirs into level 0, fewer of each partition
// than are merged: no job makes less of them, and nobody may be stopped for them.
TEST_F(LightKvTest, NobodyWaitsForALevel0ThatNothingCompacts) {
  constexpr uint64_t kPartitionsMin = 30;
  constexpr uint32_t kDelayNsMax = 1'000'000;
  SetSizes(3);
  TableBegins begins;
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&begins);
  const DbSeams seams{.inline_jobs = true, .files = files.get()};
  ASSERT_TRUE(Open(seams).ok());
  const auto flush = [&] {
    Fill(0, 2000);
    EXPECT_TRUE(db_->Flush().ok());
  };
  flush();
  flush();
  begins.next = [&] {
    flush();
    flush();
  };
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());
  const uint64_t partitions = Partitions();
  EXPECT_GE(partitions, kPartitionsMin);
  const std::string level0 = Concat("level 0, weight 0: ", partitions, " tables");
  EXPECT_NE(db_->engine()->Describe().find(level0), std::string::npos) << db_->engine()->Describe();
  EXPECT_LT(db_->engine()->WriteDelayNs(), kDelayNsMax);
  ASSERT_TRUE(db_->Close().ok());
  ASSERT_TRUE(Open(seams).ok());
  EXPECT_EQ(Partitions(), 1u) << "it knows none of them yet";
  ASSERT_LT(db_->engine()->WriteDelayNs(), kDelayNsMax);
  flush();
  for (int i = 0; i < 2000; i += 7) ASSERT_EQ(Get(i), Concat("value", i));
  db_.reset();
}

// Also beside others who flush: a flush that was sealed before is not the one.
TEST_F(LightKvTest, WhatWasWrittenBeforeAFlushIsFlushed) {
  constexpr int kFlushes = 1000;
  ASSERT_TRUE(Open().ok());
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) EXPECT_TRUE(db_->Flush().ok());
  });
  int left = 0;
  for (int i = 0; i < kFlushes; i++) {
    Fill(i % 10, i % 10 + 1);
    EXPECT_TRUE(db_->Flush().ok());
    left += db_->engine()->Describe().starts_with("write buffer: 0 records") ? 0 : 1;
  }
  over = true;
  other.join();
  EXPECT_EQ(left, 0);
}

// Of a file system that has room for the tables of a flush, and none for what they are merged to.
TEST_F(LightKvTest, ACompactionThatFindsNoRoomHoldsBackNoFlush) {
  SmallTables calls(300 << 10);
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&calls);
  options_.lightkv.leaf_nodes_max = 1;
  options_.lightkv.segment_bytes = 200 << 10;
  ASSERT_TRUE(Open({.inline_jobs = true, .files = files.get()}).ok());
  const std::string value = MakeValue(1, 1000);
  for (int i = 0; i < 2000; i++) {
    const Status s = db_->Put({}, Concat("key", 10'000 + i * 7919 % 2000), value);
    ASSERT_TRUE(s.ok()) << i << " records, " << calls.refused << " refused: " << s.ToString();
  }
  EXPECT_GT(calls.refused, 0u);
  EXPECT_TRUE(db_->Flush().ok());
  EXPECT_GT(TablesNamed(), 5u);
  EXPECT_EQ(db_->GetStats().compactions, 0u);
  ASSERT_TRUE(db_->Close().ok());
  db_.reset();
}

// What holds compaction back holds no flush back, and nobody who closes the store.
TEST_F(LightKvTest, IsClosedWhateverHoldsItsFilesBack) {
  options_.lightkv = {.leaf_nodes_max = 1, .compaction_size = 2};
  options_.files.compaction_bytes_per_second = 16 << 10;
  ASSERT_TRUE(Open().ok());
  auto began = std::chrono::steady_clock::now();
  const auto took = [&] { return std::chrono::steady_clock::now() - began; };
  for (int i = 0; i < 2000; i++) {  // two tables of a megabyte, of one range
    ASSERT_TRUE(db_->Put({}, Concat("key", i % 1000), MakeValue(1, 1000)).ok());
    ASSERT_TRUE(i % 1000 != 999 || db_->Flush().ok());
  }
  EXPECT_LT(took(), std::chrono::seconds(30)) << "at that rate it is two minutes";
  while (Tables().size() <= TablesNamed()) {  // until they are being merged
    ASSERT_LT(took(), std::chrono::seconds(60));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(db_->GetStats().compactions, 0u);
  began = std::chrono::steady_clock::now();
  EXPECT_TRUE(db_->Put({}, "key", "value").ok() && db_->Flush().ok()) << "by another thread";
  EXPECT_TRUE(db_->Close().ok());
  EXPECT_LT(took(), std::chrono::seconds(15));
}

// Who does not say where its pool is takes nothing of a store that is open.
TEST_F(LightKvTest, DestroyingAnOpenOneWhosePoolIsElsewhereIsBusy) {
  options_.pmem_paths = {dir_.Sub("node")};
  ASSERT_TRUE(Open().ok());
  Fill(0, 100);
  ASSERT_TRUE(db_->Flush().ok());
  const std::vector<std::string> tables = Tables();
  ASSERT_FALSE(tables.empty());
  EXPECT_TRUE(DestroyDB(path_, {}).IsBusy());
  EXPECT_EQ(Tables(), tables);
  db_.reset();
  EXPECT_TRUE(DestroyDB(path_, options_).ok());
}

// log_CS(N) + 1 times, for N flushes: 4 for 8 of them with CS = 2.
TEST_F(LightKvTest, ARecordIsWrittenOncePerWeight) {
  TableCalls calls;
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&calls);
  ASSERT_TRUE(Open({.inline_jobs = true, .files = files.get()}).ok());
  constexpr int kFlushes = 8;
  uint64_t user_bytes = 0;
  for (int flush = 0; flush < kFlushes; flush++) {
    for (int i = flush; i < 400 * kFlushes; i += kFlushes) {
      const std::string key = Concat("key", 10000 + i);
      const std::string value = MakeValue(static_cast<uint64_t>(i), 500);
      user_bytes += key.size() + value.size();
      ASSERT_TRUE(db_->Put({}, key, value).ok());
    }
    ASSERT_TRUE(db_->Flush().ok());
    ASSERT_TRUE(db_->WaitForIdle().ok());
  }
  EXPECT_GT(calls.written, 2 * user_bytes);
  EXPECT_LT(static_cast<double>(calls.written), 4.4 * static_cast<double>(user_bytes));
  db_.reset();
}

TEST_F(LightKvTest, NobodyIsPinnedAsAReaderWhileAFileIsRead) {
  TableCalls calls;
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&calls);
  options_.memory_budget_bytes = 1 << 20;
  ASSERT_TRUE(Open({.inline_jobs = true, .files = files.get()}).ok());
  calls.pool = db_->pool();
  for (int round = 0; round < 4; round++) {
    Fill(100 * round, 100 * round + 600);
    ASSERT_TRUE(db_->Flush().ok());
  }
  for (int i = 0; i < 900; i += 10) ASSERT_EQ(Get(i), Concat("value", i));
  {
    const auto it = db_->NewIterator({});
    int count = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) count++;
    EXPECT_EQ(count, 900);
  }
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  EXPECT_GT(calls.reads, 50u);
  EXPECT_EQ(calls.pinned, 0u);
  calls.pool = nullptr;
  db_.reset();
}

// Else a version could be gone that a read which has taken its number, and nothing else, is to see.
TEST_F(LightKvTest, AFlushWaitsForReadersThatBeganBefore) {
  ASSERT_TRUE(Open().ok());
  Fill(0, 10);
  std::atomic<bool> flushed{false};
  std::thread flusher;
  {
    const EpochPin pin(db_->pool()->readers());
    flusher = std::thread([&] {
      EXPECT_TRUE(db_->Flush().ok());
      flushed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(flushed);
    EXPECT_TRUE(Tables().empty());
    EXPECT_EQ(Get(3), "value3");
  }
  flusher.join();
  EXPECT_FALSE(Tables().empty());
}

// Every call of a flush and of the compactions after it fails once: what was acknowledged stays.
TEST_F(LightKvTest, FaultsOfTheTablesFilesLoseNothing) {
  uint64_t faults = 0;
  for (uint64_t nth = 1; nth < 400; nth++) {
    FaultFileSystem files(dir_.path(), false);
    ASSERT_TRUE(Open({.inline_jobs = true, .files = &files}).ok());
    Fill(0, 40);
    ASSERT_TRUE(db_->Flush().ok());
    Fill(20, 60);
    files.Arm({.nth = nth, .error = nth % 2 == 0 ? ENOSPC : EIO});
    Status done = db_->Flush();
    if (done.ok()) done = db_->WaitForIdle();
    const bool failed = files.faults() > 0;
    files.Disarm();
    faults += failed ? 1 : 0;
    if (!done.ok()) {
      EXPECT_TRUE(failed) << done.ToString();
      (void)db_->Resume().ok();
      ASSERT_TRUE(db_->Flush().ok());
    }
    for (int i = 0; i < 60; i++) ASSERT_EQ(Get(i), Concat("value", i)) << "call " << nth;
    db_->Abandon();
    ASSERT_TRUE(Open().ok());
    for (int i = 0; i < 60; i++) ASSERT_EQ(Get(i), Concat("value", i)) << "call " << nth;
    ASSERT_TRUE(db_->WaitForIdle().ok());
    EXPECT_EQ(Tables().size(), TablesNamed()) << "strays are gone";
    ASSERT_TRUE(db_->Close().ok());
    db_.reset();
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    if (!failed) break;
  }
  EXPECT_GT(faults, 10u);
}

TEST_F(LightKvTest, AMissingTableIsCorruptionAndRepairGoesOnWithoutIt) {
  ASSERT_TRUE(Open().ok());
  Fill(0, 300);
  ASSERT_TRUE(db_->Flush().ok());
  const KeyRange gone = Ranges().front();
  const std::string path = Tables().front();
  ASSERT_TRUE(db_->Close().ok());
  std::filesystem::remove(path);
  EXPECT_TRUE(Open().IsCorruption());
  db_.reset();
  RepairReport report;
  ASSERT_TRUE(RepairDB(path_, options_, &report).ok());
  EXPECT_GT(report.records_lost, 0u);
  EXPECT_EQ(report.records_lost + report.records_kept, 300u);
  ASSERT_TRUE(Open().ok());
  uint64_t lost = 0;
  for (int i = 0; i < 300; i++) {
    const bool is_gone = gone.Contains(Concat("key", 1000 + i));
    EXPECT_EQ(Get(i) == Concat("value", i), !is_gone) << i;
    lost += is_gone ? 1 : 0;
  }
  EXPECT_EQ(lost, report.records_lost);
}

// Any byte of any table: what is damaged is Corruption, and a repair keeps the rest of the table
// and all of the others.
TEST_F(LightKvTest, ADamagedTableIsCorruptionAndRepairKeepsTheRest) {
  uint64_t reported = 0;
  uint64_t lost_most = 0;
  for (int64_t at = 0; at < 20'000; at += kSanitized ? 997 : 331) {
    ASSERT_TRUE(Open().ok());
    Fill(0, 600);
    ASSERT_TRUE(db_->Flush().ok());
    ASSERT_TRUE(db_->Close().ok());
    db_.reset();
    std::string path;
    int64_t offset = at;
    for (const std::string& table : Tables()) {
      const auto bytes = static_cast<int64_t>(std::filesystem::file_size(table));
      if (path.empty() && offset < bytes) path = table;
      if (path.empty()) offset -= bytes;
    }
    if (path.empty()) break;
    std::string image = ReadWhole(path);
    image[static_cast<size_t>(offset)] ^= 0x10;
    WriteWhole(path, image);
    const Status opened = Open();
    EXPECT_TRUE(opened.ok() || opened.IsCorruption()) << opened.ToString();
    bool is_reported = !opened.ok();
    for (int i = 0; opened.ok() && i < 600; i++) {
      const std::string value = Get(i);
      EXPECT_TRUE(value == Concat("value", i) || value.starts_with("[Corruption: ")) << value;
      is_reported = is_reported || value[0] == '[';
    }
    reported += is_reported ? 1 : 0;
    db_.reset();
    RepairReport report;
    ASSERT_TRUE(RepairDB(path_, options_, &report).ok());
    ASSERT_TRUE(Open().ok());
    uint64_t lost = 0;
    for (int i = 0; i < 600; i++) {
      const std::string value = Get(i);
      EXPECT_TRUE(value == Concat("value", i) || value.starts_with("[NotFound")) << value;
      lost += value[0] == '[' ? 1 : 0;
    }
    EXPECT_LE(lost, report.records_lost);
    lost_most = std::max(lost_most, lost);
    CheckReport check;
    ASSERT_TRUE(db_->CheckQuietly(&check).ok());
    EXPECT_TRUE(check.clean()) << check.problems[0];
    db_.reset();
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
  }
  EXPECT_GT(reported, kSanitized ? 6u : 20u);
  EXPECT_GT(lost_most, 0u);
  EXPECT_LT(lost_most, 200u) << "of 600 records in many tables";
}

TEST_F(LightKvTest, WhatHoldsCompactionBackHoldsNoRepairBack) {
  options_.lightkv.leaf_nodes_max = 1;
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 300; i++)
    ASSERT_TRUE(db_->Put({}, Concat("key", i), MakeValue(i, 1000)).ok());
  ASSERT_TRUE(db_->Flush().ok());
  std::string pool;
  RepairReport report;
  ASSERT_NO_FATAL_FAILURE(KillWithoutCatalog(&pool));
  options_.files.compaction_bytes_per_second = 1;  // half a week
  ASSERT_NO_FATAL_FAILURE(RepairWithoutCatalog(pool, &report));
  EXPECT_EQ(report.records_kept, 300u);
}

// Tables of several weights, of which nothing says which is newer, a log after them, deletes.
TEST_F(LightKvTest, WithoutACatalogARepairFindsEverything) {
  options_.chunk_bytes = 64 << 10;
  ASSERT_TRUE(Open().ok());
  std::map<std::string, std::string> model;
  Random random(TestSeed());
  for (int round = 0; round < 7; round++) {
    for (int n = 0; n < 300; n++) {
      const std::string key = MakeKey(KeyShape::kMixed, random.Uniform(400));
      model[key] = MakeValue(random.Next(), 50);
      ASSERT_TRUE(db_->Put({}, key, model[key]).ok());
      const std::string other = MakeKey(KeyShape::kMixed, random.Uniform(400));
      if (n % 4 != 0) continue;
      ASSERT_TRUE(db_->Delete({}, other).ok());
      model.erase(other);
    }
    if (round < 6) {
      ASSERT_TRUE(db_->Flush().ok());
    }
    ASSERT_TRUE(db_->WaitForIdle().ok());
  }
  std::string pool;
  ASSERT_NO_FATAL_FAILURE(KillWithoutCatalog(&pool));
  RepairReport report;
  ASSERT_NO_FATAL_FAILURE(RepairWithoutCatalog(pool, &report));
  EXPECT_EQ(report.records_kept, model.size());
  const auto it = db_->NewIterator({});
  auto at = model.begin();
  for (it->SeekToFirst(); it->Valid() && at != model.end(); it->Next(), ++at) {
    ASSERT_EQ(it->key(), at->first);
    ASSERT_EQ(it->value(), at->second);
  }
  EXPECT_TRUE(!it->Valid() && at == model.end());
}

// Some tables of a flush that a crash cut, or of a repair: the rest is in the log alone.
TEST_F(LightKvTest, WithoutACatalogTheLogHasWhatACutFlushHadNotWritten) {
  constexpr int kCount = 1000;
  options_.chunk_bytes = 64 << 10;
  ASSERT_TRUE(Open({.inline_jobs = true}).ok());
  Fill(0, kCount);
  ASSERT_TRUE(db_->Delete({}, "key1005").ok());
  Fill(kCount, kCount + 10);
  std::string pool;
  ASSERT_NO_FATAL_FAILURE(KillWithoutCatalog(&pool));
  ASSERT_TRUE(Open({.inline_jobs = true}).ok());
  ASSERT_TRUE(db_->Flush().ok());
  db_->Abandon();
  db_.reset();
  const std::vector<std::string> tables = Tables();
  ASSERT_GT(tables.size(), 8u);
  const std::string last = *std::ranges::max_element(tables, {}, [](const std::string& path) {
    return *TableFileNumber(std::filesystem::path(path).filename().string());
  });
  for (const std::string& path : tables) {  // the last one has the newest records
    if (path != last) std::filesystem::remove(path);
  }
  RepairReport report;
  ASSERT_NO_FATAL_FAILURE(RepairWithoutCatalog(pool, &report));
  EXPECT_EQ(report.records_kept, kCount + 10 - 1u);
  for (int i = 0; i < kCount + 10; i++) {
    const std::string value = Get(i);
    EXPECT_TRUE(i == 5 ? value.starts_with("[NotFound") : value == Concat("value", i)) << value;
  }
}

// Versions, deletes and snapshots through partitions that split, flushes, compactions of several
// weights and crashes of the process; then nothing is left of what is hidden.
TEST_F(LightKvTest, AnswersAsAMapDoesThroughCompactionsAndCrashes) {
  constexpr uint64_t kKeyCount = 3000;
  options_.memtable_bytes = 128 << 10;
  options_.background_threads = 3;
  ASSERT_TRUE(Open().ok());
  std::map<std::string, std::string> model;
  Random random(TestSeed());
  for (int round = 0; round < 20; round++) {
    for (int n = 0; n < 1000; n++) {
      const std::string key = MakeKey(KeyShape::kMixed, random.Uniform(kKeyCount));
      if (random.OneIn(5)) {
        ASSERT_TRUE(db_->Delete({}, key).ok());
        model.erase(key);
      } else {
        model[key] = MakeValue(random.Next(), 100);
        ASSERT_TRUE(db_->Put({}, key, model[key]).ok());
      }
    }
    if (random.OneIn(2)) {
      ASSERT_TRUE(db_->Flush().ok());
    }
    if (!random.OneIn(4)) continue;
    db_->Abandon();
    ASSERT_TRUE(Open().ok());
  }
  const auto expect_model = [&] {
    for (uint64_t i = 0; i < kKeyCount; i++) {
      const std::string key = MakeKey(KeyShape::kMixed, i);
      std::string value;
      const Status s = db_->Get({}, key, &value);
      ASSERT_EQ(s.ok(), model.contains(key)) << s.ToString();
      ASSERT_TRUE(!s.ok() || value == model[key]);
    }
    const auto it = db_->NewIterator({});
    auto at = model.begin();
    for (it->SeekToFirst(); it->Valid() && at != model.end(); it->Next(), ++at)
      ASSERT_EQ(it->key(), at->first);
    ASSERT_TRUE(!it->Valid() && at == model.end());
  };
  ASSERT_NO_FATAL_FAILURE(expect_model());
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());
  EXPECT_GT(db_->GetStats().levels.size(), 2u) << "tables of several weights";
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  EXPECT_EQ(db_->GetStats().levels.back().records, model.size()) << "no delete, no old version";
  ASSERT_NO_FATAL_FAILURE(expect_model());
  ASSERT_TRUE(db_->Close().ok());
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(expect_model());
  EXPECT_EQ(Tables().size(), TablesNamed());
}

TEST_F(LightKvTest, AStoreHasMoreTablesThanTheProcessMayHaveFilesOpen) {
  options_.lightkv.leaf_nodes_max = 1000;
  ASSERT_TRUE(Open().ok());
  const rlim_t few = 2 * OpenDescriptors() + 20;
  const ResourceLimit limit(RLIMIT_NOFILE, few);
  const int count = 9000;
  Fill(0, count);
  Status s = db_->Flush();
  if (s.ok()) s = db_->WaitForIdle();
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_GT(Tables().size(), few);
  ASSERT_TRUE(db_->Close().ok());
  EXPECT_TRUE(Open().ok());
  for (int i = 0; i < count; i += 7) ASSERT_EQ(Get(i), Concat("value", i));
  {
    const auto it = db_->NewIterator({});
    int records = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) records++;
    EXPECT_EQ(records, count) << it->status().ToString();
  }
  s = db_->CompactRange({}, {});
  EXPECT_TRUE(s.ok()) << s.ToString();
}

// A table that is written needs a descriptor of its own.
TEST_F(LightKvTest, WhereFilesMayNotBeOpenedTheLimitIsNamedAndNothingIsLost) {
  ASSERT_TRUE(Open().ok());
  int filled = 0;
  const auto fill = [&] { Fill(filled, filled + 200), filled += 200; };
  fill();
  ASSERT_TRUE(db_->Flush().ok());
  std::optional<ResourceLimit> none(std::in_place, RLIMIT_NOFILE, 0);  // what is open stays so
  Status s;
  for (int i = 0; s.ok() && i < 50; i++) {
    for (int k = 0; s.ok() && k < 200; k++) {
      s = db_->Put({}, Concat("key", 1000 + filled), Concat("value", filled));
      filled += s.ok() ? 1 : 0;
    }
    if (s.ok()) s = db_->Flush();
  }
  none.reset();
  EXPECT_TRUE(s.IsReadOnly() || s.IsIOError()) << s.ToString();  // a flush's, told by a write or it
  for (const std::string& part : {std::string("ulimit -n"), std::string("0 files")})
    EXPECT_NE(s.message().find(part), std::string_view::npos) << s.ToString();
  EXPECT_EQ(Get(0), "value0");
  ASSERT_TRUE(db_->Resume().ok());
  s = db_->Flush();
  ASSERT_TRUE(s.ok()) << s.ToString();
  fill();
  ASSERT_TRUE(db_->Close().ok());
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < filled; i++) ASSERT_EQ(Get(i), Concat("value", i));
}

}  // namespace
}  // namespace lamella::testing
