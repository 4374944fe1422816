// LAB-DB where the pool, or the file system, is full.
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "db/labdb_engine_test_base.h"
#include "file/table_file_name.h"
#include "testing/fault_file_system.h"
#include "testing/random_data.h"
#include "testing/says.h"
#include "testing/table_files.h"

namespace lamella::testing {
namespace {

using LabDbSpace = LabDbTest;

// B5.
TEST_F(LabDbSpace, AFullFileSystemRefusesWritesUntilThereIsRoom) {
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
TEST_F(LabDbSpace, AFlushThatFindsNoRoomIsGivenUpWhateverElseIsTried) {
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
TEST_F(LabDbSpace, AFlushWithoutRoomInFilesIsGivenUpWhateverElseIsTried) {
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
TEST_F(LabDbSpace, AFlushThatFindsNoRowOfChunksHasTheTreesMakeRoom) {
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

// Once is not once and for all: what the trees had was kept by a reader, or had no room in files.
TEST_F(LabDbSpace, AFlushThatFindsNoRowOfChunksGetsThatOfTreesThatWereKept) {
  options_.pool_bytes_max = 6 << 20;
  options_.labdb.tree_bytes = 4 << 20;
  options_.memtable_bytes = 8 << 20;
  options_.log_shards = 1;
  for (const bool by_reader : {true, false}) {
    SCOPED_TRACE(by_reader ? "by a reader" : "by full files");
    FullFiles hook({kTableFileSuffix});
    const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    model_.clear();
    ASSERT_TRUE(Open({.files = files.get()}).ok());
    for (uint64_t i = 0; i < 15'000; i++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "in the tree"));
    ASSERT_TRUE(db_->Flush().ok());
    ASSERT_TRUE(db_->WaitForIdle().ok());  // what the flush let go of is free by then
    std::unique_ptr<Iterator> reader = by_reader ? db_->NewIterator({}) : nullptr;
    if (reader != nullptr) reader->SeekToFirst();
    hook.full.store(!by_reader);
    for (int i = 0; i < 3; i++)
      ASSERT_NO_FATAL_FAILURE(Put(Concat("z", i, std::string(kKeyBytesMax - 2, 'z')), "last"));
    const std::vector<ChunkRef> taken = TakeEverySecondChunk();
    EXPECT_TRUE(db_->Flush().IsReadOnly());
    reader.reset();
    hook.full.store(false);
    ASSERT_TRUE(db_->Resume().ok());
    const Status s = db_->Flush();
    EXPECT_TRUE(s.ok()) << s.ToString();
    ASSERT_NO_FATAL_FAILURE(Compare());
    Free(taken);
    db_.reset();  // before the file system
  }
}

// A flush takes its chunks where there are any, and so do the log and the segments of values.
TEST_F(LabDbSpace, WhereTheFirstPartIsFullTheOthersServe) {
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
TEST_F(LabDbSpace, AFlushThatIsTriedAgainMovesItsValuesOnce) {
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
TEST_F(LabDbSpace, WritesGoOnOnceFilesHaveRoomAgain) {
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
TEST_F(LabDbSpace, WritesThatAFullPoolRefusesDoNotFillTheFiles) {
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
TEST_F(LabDbSpace, WithoutRoomForTablesAWriterIsToldAtThePoolsEnd) {
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
TEST_F(LabDbSpace, AWriterGetsTheRoomOfATreeThatWasReadDuringTheReclaim) {
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

}  // namespace
}  // namespace lamella::testing
