// What tests of BufferedEngine share: an engine of MemTables alone, and hooks that stop threads.
#ifndef LAMELLA_ENGINE_BUFFERED_ENGINE_TEST_BASE_H_
#define LAMELLA_ENGINE_BUFFERED_ENGINE_TEST_BASE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "engine/buffered_engine.h"
#include "engine/table_region.h"
#include "log/log_test_base.h"

namespace lamella {

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

/// Stops the thread that makes the next fence, once it is armed.
class StopsAClaim final : public StopsThreads {
 public:
  void Arm() { armed_.store(true); }
  void OnFence(const Persister*, const Site&) override {
    if (armed_.exchange(false)) Stop();
  }

 private:
  std::atomic<bool> armed_{false};
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
  StopsAClaim claims_;
  SnapshotList snapshots_;
  std::unique_ptr<MemTableEngine> engine_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_BUFFERED_ENGINE_TEST_BASE_H_
