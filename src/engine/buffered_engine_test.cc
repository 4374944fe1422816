#include "engine/buffered_engine.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/mutex.h"
#include "engine/table_region.h"
#include "log/log_test_base.h"
#include "testing/affinity.h"
#include "testing/resource_limit.h"

namespace lamella {
namespace {

/// So many bytes of DRAM that are not compacted yet.
struct TestTables final : TableSet {
  explicit TestTables(uint64_t has) : bytes(has) {}
  const uint64_t bytes;
};

/// MemTables only: none is ever flushed, but by Flushed.
class MemTableEngine final : public BufferedEngine {
 public:
  static constexpr uint64_t kMemTableBytes = 64 << 10;

  explicit MemTableEngine(const EngineContext& context) : BufferedEngine(context, kMemTableBytes) {
    StartWriting(3, false, LogContents(), {}, std::make_shared<TestTables>(0));
  }

  /// What a recovery would find in the log after what was sealed last.
  LogContents UnsealedLog() const {
    const auto sealed = CurrentReadSet()->sealed.front();
    LogContents contents;
    const Status s =
        ReadLog(*pool_, sealed->sealed(), sealed->last_sequence(), {}, false, &contents);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return contents;
  }
  /// The oldest sealed MemTable is gone, and tables hold so much.
  void Flushed(uint64_t table_bytes) {
    Install(std::make_shared<TestTables>(table_bytes), CurrentReadSet()->sealed.back().get());
  }
  void Compacted(uint64_t table_bytes) {
    Install(std::make_shared<TestTables>(table_bytes), nullptr);
  }
  /// Runs the flush of the oldest sealed MemTable, which stays.
  Status FlushOne() { return PickFlush()->run(); }
  /// What compaction is behind with is so many times what it may be.
  void SetReadDebt(double debt) {
    read_debt_ = debt;
    Install(CurrentReadSet()->tables, nullptr);
  }
  bool AwaitFlushes() {
    return AwaitReclaimed([](bool) { return true; }, [this] { return !HasUnflushed(); });
  }
  void EndJob() { jobs_.Take({{0, {}}}).GiveBack(); }
  using BufferedEngine::CompactionRoom;
  using BufferedEngine::FlushRoom;
  std::shared_ptr<MemTable> oldest_sealed() const { return CurrentReadSet()->sealed.back(); }
  using BufferedEngine::prefixes;
  using BufferedEngine::SetStarved;
  uint64_t entries() const { return CurrentReadSet()->active->count(); }
  uint64_t tables_sealed() const { return CurrentReadSet()->sealed.size(); }
  uint64_t largest_sealed_bytes() const {
    uint64_t most = 0;
    for (const auto& memtable : CurrentReadSet()->sealed)
      most = std::max<uint64_t>(most, memtable->memory_bytes());
    return most;
  }
  const HeadTree& active_tree() const { return CurrentReadSet()->active->tree(); }
  /// Seals the active MemTable; the newest sequence number that it may hold.
  uint64_t Seal() {
    SwitchMemTable(true);
    return CurrentReadSet()->sealed.front()->last_sequence();
  }

  Status Load() override { return Status::OK(); }
  Status Mend() override { return Status::OK(); }
  std::optional<Job> PickJob(JobClass) override { return std::nullopt; }
  Status CompactRange(std::string_view, std::string_view) override { return Status::OK(); }
  Status Close() override { return Status::OK(); }
  std::string Describe() const override { return ""; }
  Status Check(CheckReport*) override { return Status::OK(); }
  Status Rebuild(RepairReport*) override { return Status::OK(); }

 protected:
  Status FlushMemTable(const std::shared_ptr<MemTable>&) override {
    if (holds_flush_.exchange(false)) {
      held_.set_value();
      released_.get_future().wait();
    }
    return Status::OK();
  }
  Lookup SearchTables(const TableSet&, const InternalKey&, const Candidates&, bool,
                      EpochPin*) override {
    return {};
  }
  void AddTableIterators(const std::shared_ptr<const TableSet>&, bool,
                         std::vector<std::unique_ptr<InternalIterator>>*) override {}
  uint64_t UncompactedBytes(const TableSet& tables) const override {
    if (holds_.exchange(false)) {  // as a thread that lost the processor with the read set's lock
      held_.set_value();
      released_.get_future().wait();
    }
    return static_cast<const TestTables&>(tables).bytes;
  }
  uint64_t BufferedBytesMax() const override { return 1 << 20; }
  std::optional<Unmerged> UnmergedOf(const TableSet&) const override { return std::nullopt; }
  uint64_t LiveBytes() const override { return 0; }
  double ReadDebt(const TableSet&) const override { return read_debt_; }
  bool ReclaimSpace() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return ++reclaims_ < 3;
  }

 public:
  int reclaims_ = 0;
  // UncompactedBytes, or a flush, once, from `held_` to `released_`.
  mutable std::atomic<bool> holds_{false};
  std::atomic<bool> holds_flush_{false};
  mutable std::promise<void> held_;
  mutable std::promise<void> released_;

 private:
  std::atomic<double> read_debt_{0};
};

/// Stops threads where the hook wants them stopped, until Release.
class StopsThreads : public PersistHook {
 public:
  void OnStore(const void*, size_t, const Site&) override {}
  void OnFlush(const Persister*, const void*, size_t, const Site&) override {}
  void OnFence(const Persister*, const Site&) override {}
  void OnSync(const void*, size_t, const Site&) override {}

  void AwaitStopped(int count) {
    const MutexLock lock(&mu_);
    while (stopped_ < count) changed_.wait(mu_);
  }
  void Release() {
    const MutexLock lock(&mu_);
    released_ = true;
    changed_.notify_all();
  }

 protected:
  void Stop() {
    const MutexLock lock(&mu_);
    stopped_++;
    changed_.notify_all();
    while (!released_) changed_.wait(mu_);
  }

 private:
  Mutex mu_;
  std::condition_variable_any changed_;  // with mu_
  int stopped_ LAMELLA_GUARDED_BY(mu_) = 0;
  bool released_ LAMELLA_GUARDED_BY(mu_) = false;
};

/// Stops the thread that copies a large value into the pool, in the middle of it.
class StopsCopies final : public StopsThreads {
 public:
  static constexpr size_t kLarge = 32 << 10;

  void OnStore(const void*, size_t n, const Site&) override {
    if (n >= kLarge) Stop();
  }
};

/// Stops the thread that makes the first write of so many bytes durable, where it does.
class StopsAFence final : public StopsThreads {
 public:
  static constexpr size_t kBytes = 500;  // more than claiming a chunk stores

  void OnStore(const void*, size_t n, const Site&) override {
    if (n >= kBytes) stored_.store(true);
  }
  void OnFence(const Persister*, const Site&) override {
    if (stored_.load() && !fenced_.exchange(true)) Stop();
  }

 private:
  std::atomic<bool> stored_{false};
  std::atomic<bool> fenced_{false};
};

class BufferedEngineTest : public RecordsTest {
 protected:
  BufferedEngineTest() { Start(); }
  ~BufferedEngineTest() override {  // before the pool
    engine_.reset();
    appenders_.clear();
    Close();
  }

  void Start() {
    engine_.reset();
    CreateParts(1);
    engine_ = std::make_unique<MemTableEngine>(EngineContext{
        .pool = pool_.get(), .options = nullptr, .snapshots = &snapshots_, .wake = [] {}});
  }
  Status Put(std::string_view key, std::string_view value) {
    const WriteOperation put{RecordKind::kPut, key, value};
    return engine_->Write({&put, 1});
  }
  std::string Get(std::string_view key) {
    EpochPin pin(pool_->readers());
    const Lookup found = engine_->Get(key, engine_->PublishedSequence(), true, &pin);
    return found.state == LookupState::kFound ? std::string(found.value) : "(not found)";
  }
  /// Whatever chunks there are for a flush, and may be added.
  std::vector<ChunkRef> ClaimAll(Persister* persister) {
    std::vector<ChunkRef> chunks;
    for (ChunkRef chunk; pool_
                             ->Claim(0, kIndexRegion, 0, 1000 + chunks.size(), 1, Claimant::kIndex,
                                     persister, &chunk)
                             .ok();)
      chunks.push_back(chunk);
    return chunks;
  }

  StopsCopies copies_;
  StopsAFence fences_;
  SnapshotList snapshots_;
  std::unique_ptr<MemTableEngine> engine_;
};

// A table of the MemTable makes older versions obsolete, and no reader may begin after that who
// does not see the newer.
TEST_F(BufferedEngineTest, WhatASealedMemTableHoldsIsPublished) {  // I2
  options_.hook = &fences_;
  Start();
  ASSERT_TRUE(Put("key", "old").ok());
  const std::string slow(2 * StopsAFence::kBytes, '2');
  std::thread first([&] { EXPECT_TRUE(Put("slow", slow).ok()); });
  fences_.AwaitStopped(1);
  std::thread second([&] { EXPECT_TRUE(Put("key", "new").ok()); });  // waits for number 2
  while (engine_->entries() < 2) std::this_thread::yield();
  EXPECT_EQ(engine_->PublishedSequence(), 1u);
  std::thread sealer([&] {
    const uint64_t last = engine_->Seal();
    EXPECT_EQ(last, 3u);
    EXPECT_EQ(engine_->PublishedSequence(), last) << "whoever of them runs next";
  });
  fences_.Release();
  for (std::thread* thread : {&first, &second, &sealer}) thread->join();
  EXPECT_EQ(Get("key"), "new");
  EXPECT_EQ(Get("slow"), slow);
}

// It has the tables that it began with, and with them what is replaced meanwhile. (A delete was
// told that the pool is full while a flush held what reclaiming had freed.)
TEST_F(BufferedEngineTest, WhatIsReclaimedIsFreeOnceTheFlushUnderWayHasEnded) {
  ASSERT_TRUE(Put("key", "value").ok());
  engine_->Seal();
  engine_->holds_flush_ = true;
  std::thread flusher([&] { EXPECT_TRUE(engine_->FlushOne().ok()); });
  engine_->held_.get_future().wait();
  engine_->Flushed(0);
  EXPECT_EQ(engine_->tables_sealed(), 0u);
  std::future<bool> reclaimed =
      std::async(std::launch::async, [&] { return engine_->AwaitFlushes(); });
  EXPECT_EQ(reclaimed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  engine_->released_.set_value();
  flusher.join();
  EXPECT_TRUE(reclaimed.get());
}

// It may be many jobs, as of a level 0 that is large.
TEST_F(BufferedEngineTest, WhatIsBeingReclaimedIsAwaitedAsLongAsJobsEnd) {
  ASSERT_TRUE(Put("key", "value").ok());
  auto reclaimed = std::async(std::launch::async, [&] { return engine_->AwaitFlushes(); });
  for (int i = 0; i < 7; i++) {
    ASSERT_EQ(reclaimed.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
    engine_->EndJob();
  }
  ASSERT_TRUE(engine_->FlushOne().ok());
  EXPECT_TRUE(reclaimed.get());
}

// Copying takes as long as the value is large, and its thread may lose the processor meanwhile:
// nobody waits for either.
TEST_F(BufferedEngineTest, NobodyWaitsForAnothersCopy) {
  options_.hook = &copies_;
  Start();
  const std::string large(3 * kChunkBytesMin, 'x');
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; i++) {  // as many as there are shards
    writers.emplace_back([&, i] {
      const std::string key = "large" + std::to_string(i);
      const std::string key_too = key + " too";
      const std::vector<WriteOperation> batch{{RecordKind::kPut, key, large},
                                              {RecordKind::kPut, key_too, large}};
      EXPECT_TRUE((i == 0 ? engine_->Write(batch) : Put(key, large)).ok());
    });
  }
  copies_.AwaitStopped(3);
  std::atomic<bool> done{false};
  std::thread others([&] {
    for (int i = 0; i < 200; i++) {
      const std::string key = "small" + std::to_string(i % 50);
      EXPECT_TRUE(Put(key, std::to_string(i)).ok());
      EXPECT_EQ(Get(key), std::to_string(i));  // published
      if (i % 50 == 25) engine_->Seal();
    }
    const std::vector<WriteOperation> batch{{RecordKind::kPut, "a", "1"},
                                            {RecordKind::kDelete, "small0", ""}};
    EXPECT_TRUE(engine_->Write(batch).ok());
    EXPECT_EQ(engine_->Seal(), 202u);
    done.store(true);
  });
  for (int ms = 0; ms < 20'000 && !done.load(); ms++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(done.load()) << "they wait for a copy";
  EXPECT_EQ(Get("large1"), "(not found)");
  copies_.Release();
  others.join();
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(engine_->PublishedSequence(), 206u);
  EXPECT_EQ(Get("small0"), "(not found)");
  EXPECT_EQ(Get("small49"), "199");
  for (const char* key : {"large0", "large0 too", "large1", "large2"})
    EXPECT_TRUE(Get(key) == large) << key;
  // What was being copied when the MemTable was sealed is after the seal, whole.
  const LogContents contents = engine_->UnsealedLog();
  ASSERT_EQ(contents.entries.size(), 4u);
  EXPECT_EQ(contents.sequence_last, 206u);
  EXPECT_EQ(engine_->Seal(), 206u);
  EXPECT_TRUE(engine_->UnsealedLog().entries.empty());
}

TEST_F(BufferedEngineTest, AMemTableThatNobodyCanSwitchStopsAtTwiceItsSize) {  // I7
  constexpr uint64_t kRecords = 12000;
  engine_->holds_ = true;
  std::thread background([this] { engine_->SetReadDebt(0); });
  engine_->held_.get_future().wait();
  std::atomic<uint64_t> written{0};
  std::thread writer([&] {
    while (written < kRecords) {
      EXPECT_TRUE(Put(Concat("key", 1000000 + written.load()), "value").ok());
      written++;
    }
  });
  while (written == 0) std::this_thread::yield();
  uint64_t before = 0;
  do {  // until it stands still
    before = written;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  } while (written != before && written < kRecords);
  EXPECT_LT(before, kRecords);
  engine_->released_.set_value();
  background.join();
  writer.join();
  EXPECT_EQ(written, kRecords);
  EXPECT_GT(engine_->tables_sealed(), 2u);
  // its memory comes in pieces of about its size
  EXPECT_LE(engine_->largest_sealed_bytes(), 4 * MemTableEngine::kMemTableBytes);
}

TEST_F(BufferedEngineTest, KeysOfOneHeadAreLearnedFromAndToldApart) {
  const auto key_of = [](uint64_t i) { return std::string(30, 'k') + std::to_string(100'000 + i); };
  uint64_t keys = 0;
  while (engine_->tables_sealed() == 0) ASSERT_TRUE(Put(key_of(keys++ * 7919 % 90'000), "v").ok());
  EXPECT_LT(keys, 1500u) << "of a table of about 50 leaves: early";
  EXPECT_EQ(engine_->active_tree().prefixes(), nullptr);
  ASSERT_TRUE(engine_->FlushOne().ok());
  ASSERT_NE(engine_->prefixes(), nullptr);
  ASSERT_TRUE(Put(key_of(keys++ * 7919 % 90'000), "v").ok());
  engine_->Seal();
  EXPECT_EQ(engine_->active_tree().prefixes(), engine_->prefixes());
  while (engine_->tables_sealed() < 3) ASSERT_TRUE(Put(key_of(keys++ * 7919 % 90'000), "v").ok());
  for (uint64_t i = 0; i < keys; i++) ASSERT_EQ(Get(key_of(i * 7919 % 90'000)), "v") << i;
  EXPECT_EQ(Get(key_of(90'001)), "(not found)");
}

TEST_F(BufferedEngineTest, KeysOfManyHeadsAreNotLearnedFrom) {
  for (uint64_t i = 0; engine_->tables_sealed() == 0; i++)
    ASSERT_TRUE(Put(std::to_string(i * 7919 % 90'000) + std::string(30, 'k'), "v").ok());
  ASSERT_TRUE(engine_->FlushOne().ok());
  EXPECT_EQ(engine_->prefixes(), nullptr);
}

// Compaction that has no room ends no wait for it: the writer is to come to the pool's end.
TEST_F(BufferedEngineTest, AWriterDoesNotWaitForACompactionThatHasNoRoom) {
  engine_->SetReadDebt(2);
  ASSERT_EQ(engine_->WriteDelayNs(), kStopWriting);
  const std::future<void> writer = std::async(std::launch::async, [&] { engine_->AwaitWriting(); });
  EXPECT_EQ(writer.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  engine_->SetStarved(true);
  writer.wait();
  EXPECT_NE(engine_->WriteDelayNs(), kStopWriting);
  engine_->SetReadDebt(3);
  EXPECT_NE(engine_->WriteDelayNs(), kStopWriting);
  EXPECT_GT(engine_->WriteDelayNs(), 0u);
  engine_->SetStarved(false);
  EXPECT_EQ(engine_->WriteDelayNs(), kStopWriting);
  for (uint64_t i = 0; engine_->tables_sealed() < 16; i++) {  // memory has its end all the same
    engine_->SetReadDebt(0);
    ASSERT_TRUE(Put(std::to_string(i), "v").ok());
  }
  engine_->SetStarved(true);
  EXPECT_EQ(engine_->WriteDelayNs(), kStopWriting);
}

// Each change that lets a stopped writer go on tells it so, and no other ends the wait.
TEST_F(BufferedEngineTest, AStoppedWriterIsToldOfEachChange) {
  constexpr std::chrono::milliseconds kWhile{20};
  const auto is_stopped = [&] { return engine_->WriteDelayNs() == kStopWriting; };
  const auto wait = [&] {
    return std::async(std::launch::async, [&] { engine_->AwaitWriting(); });
  };
  const auto expect_waiting = [&](const std::future<void>& writer) {
    EXPECT_EQ(writer.wait_for(kWhile), std::future_status::timeout);
  };
  for (uint64_t i = 0; !is_stopped(); i++) ASSERT_TRUE(Put(std::to_string(i), "v").ok());
  {
    SCOPED_TRACE("flushes, the first of them not enough");
    const std::future<void> writer = wait();
    engine_->Flushed(1 << 20);
    expect_waiting(writer);
    engine_->Flushed(0);
    writer.wait();
    EXPECT_FALSE(is_stopped());
  }
  {
    SCOPED_TRACE("compactions");
    engine_->Compacted(1 << 20);
    ASSERT_TRUE(is_stopped());
    const std::future<void> writer = wait();
    engine_->Compacted(1 << 19);
    expect_waiting(writer);
    engine_->Compacted(0);
    writer.wait();
    EXPECT_FALSE(is_stopped());
  }
  {
    SCOPED_TRACE("an error");
    engine_->Compacted(1 << 20);
    const std::future<void> writer = wait();
    expect_waiting(writer);
    engine_->SetBackgroundError(Status::IOError("a test's"));
    writer.wait();
    EXPECT_TRUE(is_stopped());
  }
  {
    SCOPED_TRACE("a resume, and what is done after it");
    engine_->ClearBackgroundError();
    const std::future<void> writer = wait();
    expect_waiting(writer);
    engine_->Compacted(0);
    writer.wait();
  }
  wait().wait();  // nothing to wait for
}

// Beside errors of the background and those who resume, in turns and all at once.
TEST_F(BufferedEngineTest, AWriteBesideAResumeIsDoneOrRefused) {  // ErrorLatch I1
  constexpr uint64_t kOfEach = 20'000;
  constexpr uint64_t kTriesMax = 20'000'000;
  std::atomic<bool> done{false};
  const Status error = Status::IOError("a test's");
  std::thread background([&] {
    while (!done.load()) engine_->SetBackgroundError(error);
  });
  std::thread resumes([&] {
    while (!done.load()) engine_->ClearBackgroundError();
  });
  uint64_t written = 0;
  uint64_t refused = 0;
  uint64_t neither = 0;
  for (uint64_t i = 0; i < kTriesMax && std::min(written, refused) < kOfEach; i++) {
    const Status s = Put("key", std::to_string(i));
    const bool is_there = engine_->PublishedSequence() == written + 1;
    if (s.ok() && is_there) {
      written++;
    } else if (s.IsReadOnly() && !is_there) {
      refused++;
    } else {
      neither++;
    }
  }
  done.store(true);
  background.join();
  resumes.join();
  EXPECT_EQ(neither, 0u) << "of " << written << " written and " << refused << " refused";
  EXPECT_GE(std::min(written, refused), kOfEach);
  // whichever of them came last
  const Status s = Put("key", "last");
  EXPECT_EQ(s.ok(), engine_->PublishedSequence() == written + 1) << s.ToString();
  engine_->ClearBackgroundError();
  EXPECT_TRUE(Put("key", "resumed").ok());
  EXPECT_EQ(Get("key"), "resumed");
}

TEST_F(BufferedEngineTest, WaitingForRoomIsAStall) {
  options_.pool_bytes_max = 24 * kChunkBytesMin;
  Start();
  const std::string value(1000, 'x');
  Status s;
  while (s.ok()) s = Put("key", value);
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  EXPECT_EQ(engine_->reclaims_, 3);
  Stats stats;
  engine_->AddStats(&stats);
  EXPECT_EQ(stats.stall_count, 3u);
  EXPECT_GE(stats.stall_ns, 9'000'000u);
  EXPECT_GE(stats.stall_ns_max, 3'000'000u);
  EXPECT_LT(stats.stall_ns_max, stats.stall_ns);
}

// A flush copies what writers were let in with; compaction copies no more than is left beside that,
// and what it was promised writers leave it.
TEST_F(BufferedEngineTest, FlushesAndCompactionHaveRoomOfTheirOwn) {  // I6
  options_.pool_bytes_max = 100 * kChunkBytesMin;
  Start();
  const std::string value(1000, 'x');
  uint64_t written = 0;
  for (; written < 20 * kChunkBytesMin; written += value.size())
    ASSERT_TRUE(Put("key", value).ok());
  const uint64_t room =
      (pool_->chunks_available(0) - pool_->chunks_kept_for_index(0)) * kChunkBytesMin;
  {
    MemTableEngine::CompactionRoom compaction(engine_.get());
    EXPECT_FALSE(compaction.Reserve(room - written));  // copies take more than records do
    EXPECT_TRUE(compaction.Reserve(room - 2 * written));
    EXPECT_FALSE(compaction.Reserve(written));
    Status s;
    uint64_t more = 0;
    for (; s.ok(); more += value.size()) s = Put("key", value);
    EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
    EXPECT_LT(more, written);
  }
  EXPECT_TRUE(Put("key", value).ok());
}

// Of a record longer than a chunk the copy needs chunks side by side, and so did the record: of the
// rows that are left one is not enough for both. Nobody else is held up by that.
TEST_F(BufferedEngineTest, ARecordIsLetInOnlyWhereItsCopyFindsItsRow) {  // I6
  options_.pool_bytes_max = 100 * kChunkBytesMin;
  Start();
  Persister persister(pool_->gate(), WriteCause::kFlush);
  const std::vector<ChunkRef> chunks = ClaimAll(&persister);
  ASSERT_GT(chunks.size(), 80u);
  const std::string large(kChunkBytesMin, 'x');
  // Many that are free, and rows of two among them.
  for (size_t i = 0; i < 60; i += 2) pool_->Free(chunks[i], &persister);
  for (size_t i = 1; i < 3; i += 2) pool_->Free(chunks[i], &persister);
  EXPECT_TRUE(Put("key", large).IsNoSpace());
  EXPECT_TRUE(Put("key", "small").ok());
  for (size_t i = 3; i < 60; i += 2) pool_->Free(chunks[i], &persister);
  EXPECT_TRUE(Put("key", large).ok());
  EXPECT_TRUE(Put("key", "small").ok());
}

// Chunks that are free are none of those rows: the pool grows for them, once it may again,
// and before a record is let in.
TEST_F(BufferedEngineTest, RowsForCopiesAreMadeBeforeARecordIsLetIn) {  // I6
  const std::string large(kChunkBytesMin, 'x');
  options_.pool_bytes_max = 400 * kChunkBytesMin;
  for (const bool was_full : {true, false}) {
    Start();
    Persister persister(pool_->gate(), WriteCause::kFlush);
    std::vector<ChunkRef> chunks;
    ChunkRef chunk;
    while (chunks.size() < 100 || pool_->free_chunks() > 0) {
      ASSERT_TRUE(pool_
                      ->Claim(0, kIndexRegion, 0, 1000 + chunks.size(), 1, Claimant::kIndex,
                              &persister, &chunk)
                      .ok());
      chunks.push_back(chunk);
    }
    {
      const testing::ResourceLimit full(RLIMIT_FSIZE, pool_->pool_bytes());
      if (was_full) {
        EXPECT_TRUE(pool_->Claim(0, kIndexRegion, 0, 1, 1, Claimant::kIndex, &persister, &chunk)
                        .IsNoSpace());
      }
      for (size_t i = 0; i < 80; i += 2) pool_->Free(chunks[i], &persister);
      pool_->Free(chunks[1], &persister);  // a row for the record, and none for its copy
      EXPECT_TRUE(Put("key", large).IsNoSpace());
      EXPECT_TRUE(Put("key", "small").ok());
    }
    EXPECT_TRUE(Put("key", large).ok());
  }
}

// Beside a flush that claims what was kept for it, and gives it back.
TEST_F(BufferedEngineTest, TheRowThatAFlushNeedsIsKeptWhileItClaims) {  // I6
  constexpr int kAsked = 400'000;
  options_.pool_bytes_max = 100 * kChunkBytesMin;
  Start();
  ASSERT_TRUE(Put("key", std::string(kChunkBytesMin, 'x')).ok());
  engine_->Seal();
  Persister persister(pool_->gate(), WriteCause::kFlush);
  const std::vector<ChunkRef> chunks = ClaimAll(&persister);
  for (size_t i = 0; i < 60; i += 2) pool_->Free(chunks[i], &persister);  // none beside another
  std::atomic<bool> done{false};
  std::thread flush([&] {
    const auto sealed = engine_->oldest_sealed();
    const auto bytes = static_cast<int64_t>(sealed->copy_bytes());
    while (!done.load()) {
      MemTableEngine::FlushRoom room(engine_.get(), *sealed);
      room.Claimed(bytes);
      room.Claimed(-bytes);
      room.Claimed(bytes);
    }
  });
  int refused = 0;
  for (int i = 0; i < kAsked; i++) {
    MemTableEngine::CompactionRoom room(engine_.get());
    refused += room.Reserve(1) ? 0 : 1;
  }
  done.store(true);
  flush.join();
  EXPECT_EQ(refused, kAsked) << "there are no two chunks side by side";
}

// Once a chunk is claimed for a copy it is not free, and it is not kept for that copy, too.
TEST_F(BufferedEngineTest, WhatAJobHasClaimedIsNotKeptForItTwice) {  // I6
  options_.pool_bytes_max = 100 * kChunkBytesMin;
  Start();
  Persister persister(pool_->gate(), WriteCause::kFlush);
  constexpr auto kChunk = static_cast<int64_t>(kChunkBytesMin);
  uint64_t ordinal = 1000;
  const auto claim = [&](uint64_t chunks) {
    ChunkRef chunk;
    for (uint64_t i = 0; i < chunks; i++) {
      const Status s =
          pool_->Claim(0, kIndexRegion, 0, ordinal++, 1, Claimant::kReclaim, &persister, &chunk);
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
  };
  const auto left = [&] {  // of all that is free what is kept for nothing, in chunks
    for (uint64_t chunks = 100; chunks > 0; chunks--) {
      MemTableEngine::CompactionRoom room(engine_.get());
      if (room.Reserve(chunks * kChunkBytesMin)) return chunks;
    }
    return uint64_t{0};
  };
  const uint64_t empty = left();
  const uint64_t available = pool_->chunks_available(0);
  {
    MemTableEngine::CompactionRoom room(engine_.get());
    ASSERT_TRUE(room.Reserve(10 * kChunkBytesMin));
    EXPECT_EQ(left(), empty - 10);
    claim(4);
    room.Claimed(4 * kChunk);
    EXPECT_EQ(left(), empty - 10);
    claim(8);  // more than was kept
    room.Claimed(8 * kChunk);
    EXPECT_EQ(left(), empty - 12);
    room.Claimed(-9 * kChunk);  // which are not free yet
    EXPECT_EQ(left(), empty - 12 - 7);
    room.Claimed(9 * kChunk);
  }
  EXPECT_EQ(left(), empty - 12);
  testing::RunOn(
      static_cast<uint32_t>(sched_getcpu()));  // several shards fill a MemTable's log sooner
  const std::string value(1000, 'x');
  for (uint64_t written = 0; written < 10 * kChunkBytesMin; written += value.size())
    ASSERT_TRUE(Put("key", value).ok());
  testing::RunAnywhere();
  engine_->Seal();
  const auto sealed = engine_->oldest_sealed();
  ASSERT_GT(sealed->copy_bytes(), 2 * kChunkBytesMin);
  const uint64_t before = left();
  {
    MemTableEngine::FlushRoom room(engine_.get(), *sealed);
    claim(2);
    room.Claimed(2 * kChunk);
    EXPECT_EQ(left(), before);
  }
  EXPECT_EQ(left(), before - 2) << "a flush that failed copies all of it again";
  {
    MemTableEngine::FlushRoom room(engine_.get(), *sealed);
    claim(4);  // more than was kept
    room.Claimed(4 * kChunk);
    engine_->Flushed(0);
  }
  while (engine_->tables_sealed() > 0) engine_->Flushed(0);
  EXPECT_EQ(left(), empty - (available - pool_->chunks_available(0))) << "nothing is kept";
}

}  // namespace
}  // namespace lamella
