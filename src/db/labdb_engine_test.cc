// LAB-DB (engine/labdb): what the suites of all designs do not see.
#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "db/labdb_engine_test_base.h"
#include "testing/fault_file_system.h"
#include "testing/random_data.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

TEST_F(LabDbTest, AnOpenSaysWhatTheLogAndTheTreesTook) {
  Random random(1);
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(PutRandom(&random, 5000, 5000));
  db_->Abandon();
  ASSERT_TRUE(Open().ok());
  const Stats stats = db_->GetStats();
  EXPECT_GT(stats.recovery_log_us, 0u);
  EXPECT_GT(stats.recovery_index_us, 0u);
  EXPECT_LE(stats.recovery_log_us + stats.recovery_index_us, stats.recovery_us);
}

TEST_F(LabDbTest, AnswersAsAMapWhateverIsFlushedAndCompactedMeanwhile) {
  Random random(1);
  for (const uint64_t keys : {50u, 700u}) {
    for (int round = 0; round < 4; round++) {
      ASSERT_TRUE(Open().ok());
      ASSERT_NO_FATAL_FAILURE(PutRandom(&random, 3000, keys));
      ASSERT_NO_FATAL_FAILURE(Compare());
      if (round % 2 == 1) {
        ASSERT_TRUE(db_->CompactRange({}, {}).ok());
      }
      ASSERT_NO_FATAL_FAILURE(Compare());
      if (round == 2) db_->Abandon();
    }
  }
  EXPECT_GT(db_->GetStats().levels.size(), 1u);
}

// The one tree leaves while a flush finds the other one full, and makes it immutable: its head must
// not go with that of the tree that left. What cleared it was seen by no read, and lost the tree in
// a crash.
TEST_F(LabDbTest, ATreeTurnsOverBesideACompactionThatEndsTheOtherOne) {
  constexpr double kSeconds = 2;
  options_.memtable_bytes = 32 << 10;
  options_.log_shards = 1;
  Random random(4);
  const std::string long_keys(400, 'k');  // so that few fill a tree
  const Stopwatch watch;
  while (watch.Seconds() < kSeconds) {
    ASSERT_TRUE(Open().ok());
    std::atomic<bool> stop = false;
    std::thread compacts([&] {
      while (!stop.load()) EXPECT_TRUE(db_->CompactRange({}, {}).ok());
    });
    for (uint64_t i = 0; i < 2000 && !HasFatalFailure(); i++) {
      Put(Concat(KeyOf(random.Uniform(900)), long_keys), MakeValue(random.Next(), 40));
      if (i % 100 == 0) {
        EXPECT_TRUE(db_->Flush().ok());
      }
    }
    stop.store(true);
    compacts.join();
    if (HasFailure()) return;
    db_->Abandon();
    ASSERT_TRUE(Open().ok());
    ASSERT_NO_FATAL_FAILURE(Compare());
  }
}

TEST_F(LabDbTest, SnapshotsKeepWhatTheySeeInTheTreeAndInTables) {
  Random random(2);
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(PutRandom(&random, 2000, 300));
  auto then = model_;
  const Snapshot* const snapshot = db_->GetSnapshot();
  ASSERT_NO_FATAL_FAILURE(PutRandom(&random, 3000, 300));
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
  std::swap(model_, then);
  ReadOptions read;
  read.snapshot = snapshot;
  ASSERT_NO_FATAL_FAILURE(Compare(read));
  db_->ReleaseSnapshot(snapshot);
}

// Versions that snapshots needed once fill more leaves than one: the delete is then all that there
// is in the first, and goes no sooner than they do.
TEST_F(LabDbTest, ADeleteStaysWhileVersionsInOtherLeavesDo) {
  ASSERT_TRUE(Open().ok());
  std::vector<const Snapshot*> snapshots;
  for (uint64_t i = 0; i < 40; i++) {
    ASSERT_NO_FATAL_FAILURE(Put("key", MakeValue(i, 100)));
    snapshots.push_back(db_->GetSnapshot());
  }
  ASSERT_TRUE(db_->Flush().ok());
  for (const Snapshot* const snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
  ASSERT_TRUE(db_->Delete({}, "key").ok());
  model_.clear();
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
  std::string value;
  EXPECT_TRUE(db_->Get({}, "key", &value).IsNotFound());
  db_->Abandon();
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
}

// What is written again while it is in the tree costs the disk its value, and no compaction.
TEST_F(LabDbTest, OverwritingInTheTreeMakesNoTables) {
  options_.labdb.tree_bytes = 4 << 20;
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 20'000; i++)
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i % 500), MakeValue(i, 100)));
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());
  EXPECT_TRUE(TableFilesOf(path_).empty());
  ASSERT_NO_FATAL_FAILURE(Compare());
}

// What is not flushed reserves more than its entries take. Where that fills the pool its flush
// makes the room: a tree that became tables each time would have tables written again for little.
TEST_F(LabDbTest, RoomThatAFlushMakesCostsNoTree) {
  options_.pool_bytes_max = 6 << 20;
  options_.memtable_bytes = 64 << 20;  // flushed for room alone
  options_.labdb.tree_bytes = 16 << 20;
  ASSERT_TRUE(Open().ok());
  uint64_t i = 0;
  while (db_->GetStats().flushes == 0) {
    ASSERT_LT(i, 200'000u);
    for (const uint64_t end = i + 100; i < end; i++)
      ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), MakeValue(i, 100)));
  }
  EXPECT_TRUE(TableFilesOf(path_).empty()) << db_->engine()->Describe();
  // Once the tree itself is what fills it, that goes.
  while (TableFilesOf(path_).empty()) {
    ASSERT_LT(i, 200'000u);
    for (const uint64_t end = i + 100; i < end; i++)
      ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), MakeValue(i, 100)));
  }
  EXPECT_GE(db_->GetStats().flushes, 2u);
  ASSERT_NO_FATAL_FAILURE(Compare());
}

TEST_F(LabDbTest, HotKeysAreLoggedInThePool) {
  const auto written = [&](uint32_t hot_updates) {
    options_.labdb.hot_updates = hot_updates;
    EXPECT_TRUE(DestroyDB(path_, options_).ok());
    EXPECT_TRUE(Open().ok());
    model_.clear();
    for (uint64_t i = 0; i < 20'000; i++) Put(KeyOf(i % 5), MakeValue(i, 200));
    Compare();
    const uint64_t bytes = db_->GetStats().file_bytes_written;
    db_.reset();
    return bytes;
  };
  const uint64_t cold = written(0);
  EXPECT_GT(cold, 2'000'000u);
  EXPECT_LT(written(4), cold / 10);
}

// Its flush writes it to a file, and needs the pool for where that is.
TEST_F(LabDbTest, AValueThatIsLoggedWithItsKeyNeedsNoRoomForACopy) {
  options_.pool_bytes_max = 12 << 20;
  options_.log_shards = 2;  // each may keep one of them open
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 10; i++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), MakeValue(i, 3 << 20)));
  ASSERT_NO_FATAL_FAILURE(Compare());
  db_->Abandon();
  ASSERT_TRUE(Open().ok());  // what recovery takes in is flushed by the same room
  for (uint64_t i = 5; i < 15; i++)
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), MakeValue(100 + i, 3 << 20)));
  ASSERT_NO_FATAL_FAILURE(Compare());
}

// A write that is larger than half a segment, and one that is larger than all of them.
TEST_F(LabDbTest, LargeValuesComeBackBeforeAndAfterAFlushAndACrash) {
  ASSERT_TRUE(Open().ok());
  for (const size_t bytes : {32u << 10, 40u << 10, 100u << 10, 3u << 20})
    ASSERT_NO_FATAL_FAILURE(Put(Concat("large", bytes), MakeValue(bytes, bytes)));
  ASSERT_NO_FATAL_FAILURE(Compare());
  db_->Abandon();
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
}

// B4.
TEST_F(LabDbTest, ValueFilesGoOnceNothingLeadsThere) {
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 20'000; i++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), MakeValue(i, 200)));
  const uint64_t full = FileBytes();
  EXPECT_GT(full, 4'000'000u);
  EXPECT_FALSE(ValueFiles().empty());
  for (uint64_t i = 1; i < 20'000; i++) {
    ASSERT_TRUE(db_->Delete({}, KeyOf(i)).ok());
    model_.erase(KeyOf(i));
  }
  for (int i = 0; i < 2; i++) {
    ASSERT_TRUE(db_->CompactRange({}, {}).ok());
    ASSERT_TRUE(db_->WaitForIdle().ok());
  }
  EXPECT_LT(FileBytes(), full / 8);
  ASSERT_NO_FATAL_FAILURE(Compare());
}

// An iterator that stays does not keep writers from going on, and shows what it showed.
TEST_F(LabDbTest, AnIteratorHoldsNobodyUp) {
  Random random(3);
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(PutRandom(&random, 1000, 200));
  const auto then = model_;
  auto it = db_->NewIterator({});
  ASSERT_NO_FATAL_FAILURE(PutRandom(&random, 20'000, 2000));
  auto at = then.begin();
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++at) {
    ASSERT_NE(at, then.end());
    ASSERT_EQ(it->key(), at->first);
    ASSERT_EQ(it->value(), at->second);
  }
  EXPECT_EQ(at, then.end());
  it.reset();
  ASSERT_NO_FATAL_FAILURE(Compare());
}

// What a flush put into the tree before it failed comes into tables with the tree. Of what it did
// not come to there is the log alone, with lesser numbers: a repair took it for flushed.
TEST_F(LabDbTest, ARepairKeepsWhatAFlushDidNotComeToBeforeItFailed) {
  options_.pool_bytes_max = 4 << 20;
  options_.labdb.tree_bytes = 128 << 10;
  options_.memtable_bytes = 8 << 20;
  options_.log_shards = 1;
  for (const bool has_catalog : {true, false}) {
    SCOPED_TRACE(has_catalog ? "with a catalog" : "without");
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    model_.clear();
    ASSERT_TRUE(Open().ok());
    for (int i = 0; i < 3; i++)
      ASSERT_NO_FATAL_FAILURE(Put(Concat("z", i, std::string(kKeyBytesMax - 2, 'z')), "last"));
    for (uint64_t i = 0; i < 4000; i++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "first"));
    const std::vector<ChunkRef> taken = TakeEverySecondChunk();
    const Status s = db_->Flush();
    ASSERT_TRUE(s.IsReadOnly()) << s.ToString();
    ASSERT_FALSE(TableFilesOf(path_).empty()) << db_->engine()->Describe();
    Free(taken);
    ASSERT_NO_FATAL_FAILURE(Compare());
    ASSERT_NO_FATAL_FAILURE(RepairKilled(has_catalog));
    db_.reset();
  }
}

// Tables have the values, and the files of them are gone; the log still names those.
TEST_F(LabDbTest, ARepairWithoutACatalogOfACompactedStoreLosesNothing) {
  Random random(5);
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(PutRandom(&random, 2000, 500));
  for (uint64_t i = 0; i < 100; i++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), MakeValue(i, 100)));
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  ASSERT_NO_FATAL_FAILURE(RepairKilled(false));
}

TEST_F(LabDbTest, ARepairKeepsAllOfASoundStore) {
  Random random(4);
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(PutRandom(&random, 5000, 900));
  RepairKilled();
}

// Through the page cache it is read each time (RecordCache).
TEST_F(LabDbTest, PastThePageCacheAValueIsReadOnce) {
  const ScopedEnv on_disk("TMPDIR", "/var/tmp");  // a file system that can
  for (const bool direct : {true, false}) {
    const TempDir disk;
    FaultFileSystem files(disk.path(), false);
    options_.files.direct_reads = direct;
    options_.labdb.tree_bytes = 4 << 20;
    DbImpl db(options_, disk.Sub("store"), DbSeams{.files = &files});
    const Status s = db.Init();
    if (s.IsNotSupported()) GTEST_SKIP() << s.ToString();
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (uint64_t i = 0; i < 2000; i++) ASSERT_TRUE(db.Put({}, KeyOf(i), MakeValue(i, 200)).ok());
    ASSERT_TRUE(db.Flush().ok());
    ASSERT_TRUE(db.WaitForIdle().ok());
    uint64_t reads[2] = {};
    for (uint64_t& count : reads) {
      const uint64_t before = files.seen(OsCall::kRead);
      for (uint64_t i = 0; i < 2000; i++) {
        std::string value;
        ASSERT_TRUE(db.Get({}, KeyOf(i), &value).ok());
        ASSERT_EQ(value, MakeValue(i, 200));
      }
      count = files.seen(OsCall::kRead) - before;
    }
    EXPECT_GT(reads[0], 1000u);
    EXPECT_EQ(reads[1], direct ? 0 : reads[0]);
    EXPECT_TRUE(db.Close().ok());
  }
}

TEST_F(LabDbTest, WritersReadersAndCompactionGoOnSideBySide) {
  ASSERT_TRUE(Open().ok());
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 4000; i++) {
        const std::string key = Concat("thread", t, "-", i % 300);
        ASSERT_TRUE(db_->Put({}, key, MakeValue(i, 50 + i % 200)).ok());
        std::string value;
        ASSERT_TRUE(db_->Get({}, key, &value).ok());
        ASSERT_EQ(value, MakeValue(i, 50 + i % 200));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto it = db_->NewIterator({});
  uint64_t seen = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) seen++;
  EXPECT_TRUE(it->status().ok());
  EXPECT_EQ(seen, 900u);
}

}  // namespace
}  // namespace lamella::testing
