// What designs' own tests share: the engine without a front end, where no thread runs a job but
// when a test says so, and a crash is that nobody closes it.
#ifndef LAMELLA_ENGINE_ENGINE_TEST_BASE_H_
#define LAMELLA_ENGINE_ENGINE_TEST_BASE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/memory_budget.h"
#include "engine/engine_type.h"
#include "pool/pool_test_base.h"

namespace lamella {

class EngineTest : public PoolTest {
 protected:
  static constexpr size_t kValueBytes = 4000;

  explicit EngineTest(const EngineType& type) : type_(type) {
    options_.engine = type.kind;
    db_options_.engine = type.kind;
    db_options_.memory_budget_bytes = 1 << 20;
    db_options_.memtable_bytes = 64 << 10;
    db_options_.log_shards = 2;
  }
  ~EngineTest() override { engine_.reset(); }  // before the pool

  /// There may be a job: of those that a call waits for.
  void Wake() {
    if (!std::exchange(flushes_run_, false)) return;
    Run(JobClass::kUrgent);
    flushes_run_ = true;
  }

  void CreateStore() {
    options_.engine_flags = type_.flags(db_options_);
    Create();
    LoadEngine();
    Mend();
  }
  void Crash() {
    engine_.reset();
    Open();
    LoadEngine();
    Mend();
  }
  void Mend() {
    Status s = engine_->Mend();
    if (s.ok()) s = pool_->MarkOpen();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  std::unique_ptr<Engine> MakeEngine() {
    return type_.make(EngineContext{.pool = pool_.get(),
                                    .options = &db_options_,
                                    .snapshots = &snapshots_,
                                    .wake = [this] { Wake(); },
                                    .nudge = [this] { Wake(); },
                                    .memory = &memory_,
                                    .files = FileSystem::Posix(),
                                    .directory = dir_.path()});
  }
  void LoadEngine() {
    engine_ = MakeEngine();
    const Status s = engine_->Load();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  /// What waits for flushes is answered: they run in its thread.
  void WithFlushes(const std::function<Status()>& call) {
    flushes_run_ = true;
    const Status s = call();
    flushes_run_ = false;
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  void Flush() {
    WithFlushes([this] { return engine_->Flush(); });
  }
  Stats EngineStats() const {
    Stats stats;
    engine_->AddStats(&stats);
    return stats;
  }
  Status Put(uint64_t i) { return Put(i, static_cast<char>('a' + i % 26)); }
  Status Delete(uint64_t i) {
    const std::string key = Key(i);
    const WriteOperation del{RecordKind::kDelete, key, {}};
    return engine_->Write({&del, 1});
  }
  void PutKeys(uint64_t first, uint64_t end) {
    for (uint64_t i = first; i < end; i++) ASSERT_TRUE(Put(i).ok()) << i;
  }
  Status Put(uint64_t i, char byte) {
    const std::string key = Key(i);
    const std::string value(kValueBytes, byte);
    const WriteOperation put{RecordKind::kPut, key, value};
    return engine_->Write({&put, 1});
  }
  static std::string Key(uint64_t i) { return Concat("key", 1000000 + i); }
  /// The next job of the class, as the scheduler would ask for it.
  std::optional<Job> PickJob(JobClass job_class) {
    pool_->CollectDeferred();
    return engine_->PickJob(job_class);
  }
  /// Runs all jobs of the class that there are.
  void Run(JobClass job_class) {
    while (std::optional<Job> job = PickJob(job_class)) {
      const Status s = job->run();
      ASSERT_TRUE(s.ok()) << job->name << ": " << s.ToString();
    }
  }
  /// Runs jobs that are not urgent until one of that name is done. False: none came.
  bool RunUntil(std::string_view name) {
    while (const std::optional<Job> job = PickJob(JobClass::kNormal)) {
      const Status s = job->run();
      EXPECT_TRUE(s.ok()) << job->name << ": " << s.ToString();
      if (job->name == name) return true;
    }
    return false;
  }
  /// What Put(i) made of the first `count` keys is there.
  void ExpectKeys(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) ExpectKey(i, static_cast<char>('a' + i % 26));
  }
  void ExpectKey(uint64_t i, char byte) { ExpectKey(i, byte, engine_->PublishedSequence()); }
  void ExpectKey(uint64_t i, char byte, uint64_t sequence) {
    EpochPin pin(pool_->readers());
    const Lookup found = engine_->Get(Key(i), sequence, true, &pin);
    ASSERT_EQ(found.state, LookupState::kFound) << i;
    ASSERT_EQ(found.value, std::string(kValueBytes, byte)) << i;
  }

  const EngineType& type_;
  Options db_options_;
  MemoryBudget budget_{1 << 20};
  MemoryAccount memory_{&budget_};
  SnapshotList snapshots_;
  std::unique_ptr<Engine> engine_;
  bool flushes_run_ = false;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ENGINE_TEST_BASE_H_
