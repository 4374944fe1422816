// LAB-DB (engine/labdb): what the suites of all designs do not see. Segments, trees and tables are
// so small that a few hundred records fill all of them.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "engine/labdb/labdb.h"
#include "file/table_file_name.h"
#include "testing/fault_file_system.h"
#include "testing/proof.h"
#include "testing/random_data.h"
#include "testing/says.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

class LabDbTest : public ::testing::Test {
 protected:
  LabDbTest() {
    options_.engine = EngineKind::kLabDb;
    options_.labdb = {.tree_bytes = 64 << 10,
                      .segment_bytes = 64 << 10,
                      .level1_bytes = 64 << 10,
                      .table_bytes = 16 << 10,
                      .hot_updates = 0};
    options_.medium = MediumKind::kCacheLine;
    options_.background_threads = 2;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 64 << 20;
  }
  Status Open(const DbSeams& seams = {}) {
    db_.reset();
    db_ = std::make_unique<DbImpl>(options_, path_, seams);
    return db_->Init();
  }
  void Put(const std::string& key, const std::string& value) {
    const Status s = db_->Put({}, key, value);
    ASSERT_TRUE(s.ok()) << s.ToString();
    model_[key] = value;
  }
  static std::string KeyOf(uint64_t i) { return Concat("key", 10000 + i); }
  /// Values of up to some hundred bytes, some of them of no more than an address has.
  void PutRandom(Random* random, uint64_t count, uint64_t keys) {
    for (uint64_t i = 0; i < count; i++) {
      const std::string key = KeyOf(random->Uniform(keys));
      if (random->OneIn(8)) {
        ASSERT_TRUE(db_->Delete({}, key).ok());
        model_.erase(key);
      } else {
        ASSERT_NO_FATAL_FAILURE(Put(key, MakeValue(random->Next(), random->Uniform(400))));
      }
    }
  }
  /// What a repair after a kill leaves is all of it.
  void RepairKilled() {
    db_->Abandon();
    db_.reset();
    RepairReport report;
    ASSERT_TRUE(RepairDB(path_, options_, &report).ok());
    EXPECT_EQ(report.records_lost, 0u);
    ASSERT_TRUE(Open().ok());
    ASSERT_NO_FATAL_FAILURE(Compare());
  }
  void Compare(const ReadOptions& read = {}) {
    for (const auto& [key, value] : model_) {
      std::string found;
      const Status s = db_->Get(read, key, &found);
      ASSERT_TRUE(s.ok()) << key << ": " << s.ToString();
      ASSERT_EQ(found, value) << key;
    }
    auto it = db_->NewIterator(read);
    auto at = model_.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++at) {
      ASSERT_NE(at, model_.end());
      ASSERT_EQ(it->key(), at->first);
      ASSERT_EQ(it->value(), at->second);
    }
    ASSERT_TRUE(it->status().ok()) << it->status().ToString();
    ASSERT_EQ(at, model_.end());
    auto back = model_.rbegin();
    for (it->SeekToLast(); it->Valid(); it->Prev(), ++back) {
      ASSERT_NE(back, model_.rend());
      ASSERT_EQ(it->value(), back->second);
    }
    ASSERT_EQ(back, model_.rend());
  }
  std::vector<std::string> ValueFiles() const { return ValueFilesOf(path_); }
  uint64_t FileBytes() { return db_->GetStats().file_bytes; }
  /// The chunks of the first part that are free, and those that it may grow by, but for what that
  /// one leaves to others.
  std::vector<ChunkRef> TakeChunks(Claimant claimant) {
    constexpr auto kKind = static_cast<ChunkKind>(60);
    Pool* const pool = db_->pool();
    Persister persister(pool->gate(), WriteCause::kGc);
    std::vector<ChunkRef> taken;
    for (ChunkRef chunk;
         pool->Claim(0, kKind, 0, taken.size(), 1, claimant, &persister, &chunk).ok();)
      taken.push_back(chunk);
    return taken;
  }
  /// Of these such that no two that are left lie side by side.
  std::vector<ChunkRef> TakeEverySecondChunk() {
    std::vector<ChunkRef> taken = TakeChunks(Claimant::kIndex);
    const auto odd =
        std::ranges::partition(taken, [](const ChunkRef& chunk) { return chunk.index % 2 == 0; });
    EXPECT_GT(odd.size(), 10u);
    Free({odd.begin(), odd.end()});
    taken.erase(odd.begin(), odd.end());
    return taken;
  }
  void Free(const std::vector<ChunkRef>& taken) {
    Persister persister(db_->pool()->gate(), WriteCause::kGc);
    for (const ChunkRef& chunk : taken) db_->pool()->Free(chunk, &persister);
  }

  Options options_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  std::unique_ptr<DbImpl> db_;
  std::map<std::string, std::string> model_;
};

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

// B5.
TEST_F(LabDbTest, AFullFileSystemRefusesWritesUntilThereIsRoom) {
  FaultFileSystem files(dir_.path(), false);
  ASSERT_TRUE(Open({.files = &files}).ok());
  files.Arm({.nth = 1, .persistent = true, .error = ENOSPC, .only = OsCall::kWrite});
  Status s;
  uint64_t i = 0;
  for (; s.ok() && i < 20'000; i++) {
    s = db_->Put({}, KeyOf(i), MakeValue(i, 200));
    if (s.ok()) model_[KeyOf(i)] = MakeValue(i, 200);
  }
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  ASSERT_NO_FATAL_FAILURE(Compare());
  files.Disarm();
  for (uint64_t n = 0; n < 2000; n++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(n), MakeValue(n, 200)));
  ASSERT_NO_FATAL_FAILURE(Compare());
  db_.reset();  // before the file system, which its jobs write to
}

// Each second another job finds none, either, and has done what it could: that is no sign of room.
TEST_F(LabDbTest, AFlushThatFindsNoRoomIsGivenUpWhateverElseIsTried) {
  FaultFileSystem files(dir_.path(), false);
  ASSERT_TRUE(Open({.files = &files}).ok());
  files.Arm({.nth = 1, .persistent = true, .error = ENOSPC, .only = OsCall::kWrite});
  Status s;
  for (uint64_t i = 0; s.ok() && i < 20'000; i++) {  // until both segments are to go to a file
    s = db_->Put({}, KeyOf(i), MakeValue(i, 200));
    if (s.ok()) model_[KeyOf(i)] = MakeValue(i, 200);
  }
  ASSERT_TRUE(s.IsNoSpace()) << s.ToString();
  // Larger than half of a segment: it lies in the log, and its flush moves it to a file.
  ASSERT_NO_FATAL_FAILURE(Put("large", MakeValue(1, 50'000)));
  std::future<Status> flushed = std::async(std::launch::async, [this] { return db_->Flush(); });
  const bool ended = flushed.wait_for(std::chrono::minutes(2)) == std::future_status::ready;
  EXPECT_TRUE(ended);
  files.Disarm();
  s = flushed.get();
  EXPECT_TRUE(!ended || (s.IsReadOnly() && Says(s, "NoSpace"))) << s.ToString();
  EXPECT_TRUE(db_->Put({}, "key", "value").IsReadOnly());
  ASSERT_TRUE(db_->Resume().ok());
  ASSERT_TRUE(db_->Flush().ok());
  for (uint64_t n = 0; n < 2000; n++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(n), MakeValue(n, 200)));
  ASSERT_NO_FATAL_FAILURE(Compare());
  db_.reset();
}

// Values of hot keys need a file at their flush. Who waits for it is told after a while, though
// others have segments tried, that find no room either, all the time.
TEST_F(LabDbTest, AFlushWithoutRoomInFilesIsGivenUpWhateverElseIsTried) {
  FullFiles hook({kTableFileSuffix, kValueFileSuffix});
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  options_.labdb.hot_updates = 2;
  ASSERT_TRUE(Open({.files = files.get()}).ok());
  for (uint64_t i = 0; i < 20; i++) ASSERT_NO_FATAL_FAILURE(Put("hot", MakeValue(i, 200)));
  hook.full.store(true);
  std::atomic<bool> stop = false;
  std::thread others([&] {
    for (uint64_t i = 0; !stop.load(); i++) {
      const Status s = db_->Put({}, Concat("cold", i), MakeValue(i, 400));
      if (!s.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  auto flushed = std::async(std::launch::async, [&] { return db_->Flush(); });
  if (flushed.wait_for(std::chrono::minutes(2)) != std::future_status::ready) {
    ADD_FAILURE() << "it is tried for ever";
    db_->engine()->SetBackgroundError(Status::IOError("enough"));
  }
  const Status s = flushed.get();
  EXPECT_TRUE(s.IsReadOnly()) << s.ToString();
  stop.store(true);
  others.join();
  std::string value;
  EXPECT_TRUE(db_->Get({}, "hot", &value).ok() && value == MakeValue(19, 200));
  hook.full.store(false);
  EXPECT_TRUE(db_->Resume().ok());
  EXPECT_TRUE(db_->Flush().ok());
  EXPECT_TRUE(db_->Get({}, "hot", &value).ok() && value == MakeValue(19, 200));
  db_.reset();  // before the file system, which its jobs write to
}

// A cell of a key as long as a chunk takes two of them, side by side. Where no two that are free
// lie so, the trees make room. (The store became read-only.)
TEST_F(LabDbTest, AFlushThatFindsNoRowOfChunksHasTheTreesMakeRoom) {
  options_.pool_bytes_max = 6 << 20;
  options_.labdb.tree_bytes = 4 << 20;
  options_.memtable_bytes = 8 << 20;
  options_.log_shards = 1;
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 15'000; i++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "in the tree"));
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());  // what the flush let go of is free by then
  ASSERT_TRUE(TableFilesOf(path_).empty());
  for (int i = 0; i < 3; i++)
    ASSERT_NO_FATAL_FAILURE(Put(Concat("z", i, std::string(kKeyBytesMax - 2, 'z')), "last"));
  const std::vector<ChunkRef> taken = TakeEverySecondChunk();
  const Status s = db_->Flush();
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_FALSE(TableFilesOf(path_).empty());
  ASSERT_NO_FATAL_FAILURE(Compare());
  Free(taken);
  db_->Abandon();
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
}

// A flush takes its chunks where there are any, and so do the log and the segments of values.
TEST_F(LabDbTest, WhereTheFirstPartIsFullTheOthersServe) {
  options_.pmem_paths = {dir_.Sub("first"), dir_.Sub("second")};
  for (const std::string& part : options_.pmem_paths) std::filesystem::create_directories(part);
  options_.log_shards = 2;
  ASSERT_TRUE(Open().ok());
  const std::vector<ChunkRef> taken = TakeChunks(Claimant::kReclaim);
  Random random(9);
  ASSERT_NO_FATAL_FAILURE(PutRandom(&random, 5000, 3000));
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
  Free(taken);
  db_->Abandon();
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
}

// While there is an immutable tree no value file goes: so each try of a flush, of which there are
// hundreds before it is given up, would leave another.
TEST_F(LabDbTest, AFlushThatIsTriedAgainMovesItsValuesOnce) {
  FullFiles hook({kTableFileSuffix});
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  options_.pool_bytes_max = 6 << 20;
  options_.labdb.tree_bytes = 256 << 10;
  options_.memtable_bytes = 8 << 20;
  options_.log_shards = 1;
  ASSERT_TRUE(Open({.files = files.get()}).ok());
  hook.full.store(true);
  for (uint64_t i = 0; i < 10'000; i++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "in the tree"));
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());  // what the flush let go of is free by then
  for (int i = 0; i < 6; i++)
    ASSERT_NO_FATAL_FAILURE(Put(Concat("z", i, std::string(kKeyBytesMax - 2, 'z')), "last"));
  const std::vector<ChunkRef> taken = TakeEverySecondChunk();
  const Status s = db_->Flush();
  EXPECT_TRUE(s.IsReadOnly()) << s.ToString();
  EXPECT_LE(ValueFiles().size(), 5u) << "one of each flush";
  hook.full.store(false);
  Free(taken);
  ASSERT_TRUE(db_->Resume().ok());
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
  db_->Abandon();
  ASSERT_TRUE(Open({.files = files.get()}).ok());
  ASSERT_NO_FATAL_FAILURE(Compare());
  db_.reset();  // before the file system, which its jobs write to
}

// No Resume is asked for: a full file system is no error.
TEST_F(LabDbTest, WritesGoOnOnceFilesHaveRoomAgain) {
  for (const size_t value_bytes : {4, 200}) {  // with the key, and apart
    FullFiles hook({kTableFileSuffix});
    const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
    options_.pool_bytes_max = 4 << 20;
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    model_.clear();
    ASSERT_TRUE(Open({.files = files.get()}).ok());
    hook.full.store(true);
    Status s;
    uint64_t i = 0;
    for (; s.ok(); i++) {
      ASSERT_LT(i, 1'000'000u);
      s = db_->Put({}, KeyOf(i), MakeValue(i, value_bytes));
      if (s.ok()) model_[KeyOf(i)] = MakeValue(i, value_bytes);
    }
    ASSERT_TRUE(s.IsNoSpace()) << s.ToString();
    hook.full.store(false);
    const Stopwatch watch;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      s = db_->Put({}, KeyOf(i), MakeValue(i, value_bytes));
    } while (s.IsNoSpace() && watch.Seconds() < 120);
    ASSERT_TRUE(s.ok()) << s.ToString();
    model_[KeyOf(i)] = MakeValue(i, value_bytes);
    ASSERT_NO_FATAL_FAILURE(Compare());
    db_.reset();
  }
}

// What is refused leaves nothing in the files, however often it is tried.
TEST_F(LabDbTest, WritesThatAFullPoolRefusesDoNotFillTheFiles) {
  FullFiles hook({kTableFileSuffix});
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  options_.pool_bytes_max = 4 << 20;
  ASSERT_TRUE(Open({.files = files.get()}).ok());
  hook.full.store(true);
  Status s;
  for (uint64_t i = 0; s.ok(); i++) {
    ASSERT_LT(i, 1'000'000u);
    s = db_->Put({}, KeyOf(i), MakeValue(i, 200));
  }
  ASSERT_TRUE(s.IsNoSpace()) << s.ToString();
  WriteBatch batch;  // more than one put needs
  for (uint64_t i = 0; i < 500; i++)
    batch.Put(Concat("batch", i, std::string(5000, 'b')), MakeValue(i, 40));
  const uint64_t before = db_->GetStats().file_bytes_written;
  int refused = 0;
  for (int n = 0; n < 200; n++) refused += db_->Write({}, batch).IsNoSpace() ? 1 : 0;
  EXPECT_GT(refused, 150);
  EXPECT_LT(db_->GetStats().file_bytes_written - before, 1'000'000u) << "of 5 MB";
  db_.reset();
}

// B8: a writer whom the trees stopped for good would hang here. Values find room, tables do not.
TEST_F(LabDbTest, WithoutRoomForTablesAWriterIsToldAtThePoolsEnd) {
  FullFiles hook({kTableFileSuffix});
  hook.full.store(true);
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  options_.pool_bytes_max = 8 << 20;
  ASSERT_TRUE(Open({.files = files.get()}).ok());
  Status s;
  for (uint64_t i = 0; s.ok(); i++) {
    ASSERT_LT(i, 1'000'000u);
    s = db_->Put({}, KeyOf(i), MakeValue(i, 200));
    if (s.ok()) model_[KeyOf(i)] = MakeValue(i, 200);
  }
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  ASSERT_NO_FATAL_FAILURE(Compare());
  hook.full.store(false);
  ASSERT_TRUE(db_->Resume().ok());
  for (uint64_t n = 0; n < 2000; n++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(n), MakeValue(n, 200)));
  ASSERT_NO_FATAL_FAILURE(Compare());
  db_.reset();
}

// A tree that somebody reads when all of it is in tables goes after the reclaim: its chunks are
// empty then, and no deferred free names them.
TEST_F(LabDbTest, AWriterGetsTheRoomOfATreeThatWasReadDuringTheReclaim) {
  FullFiles hook({kTableFileSuffix});
  hook.full.store(true);
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  options_.pool_bytes_max = 8 << 20;
  options_.labdb.level1_bytes = 64 << 20;  // no other compaction comes by
  ASSERT_TRUE(Open({.files = files.get()}).ok());
  const auto fill_up = [&] {
    Status s;
    for (uint64_t i = 0; s.ok() && i < 1'000'000; i++) {
      s = db_->Put({}, KeyOf(i), MakeValue(i, 200));
      if (s.ok()) model_[KeyOf(i)] = MakeValue(i, 200);
    }
    EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  };
  fill_up();
  hook.full.store(false);
  {
    const EpochPin hold(db_->pool()->holders());
    ASSERT_TRUE(db_->Resume().ok());
    fill_up();
  }
  db_->pool()->readers()->AwaitRetired();
  db_->pool()->holders()->AwaitRetired();
  for (uint64_t n = 0; n < 2000; n++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(n), MakeValue(n, 200)));
  ASSERT_NO_FATAL_FAILURE(Compare());
  db_.reset();
}

// What a flush put into the tree before it failed comes into tables with the tree. Of what it did
// not come to there is the log alone, with lesser numbers: a repair took it for flushed.
TEST_F(LabDbTest, ARepairKeepsWhatAFlushDidNotComeToBeforeItFailed) {
  options_.pool_bytes_max = 4 << 20;
  options_.labdb.tree_bytes = 128 << 10;
  options_.memtable_bytes = 8 << 20;
  options_.log_shards = 1;
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
  RepairKilled();
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
