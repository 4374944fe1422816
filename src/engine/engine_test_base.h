// What designs' own tests share: the engine without a front end, where no thread runs a job but
// when a test says so, and a crash is that nobody closes it.
#ifndef LAMELLA_ENGINE_ENGINE_TEST_BASE_H_
#define LAMELLA_ENGINE_ENGINE_TEST_BASE_H_

#include <memory>
#include <optional>
#include <string>

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
  void LoadEngine() {
    engine_ = type_.make(EngineContext{.pool = pool_.get(),
                                             .options = &db_options_,
                                             .snapshots = &snapshots_,
                                             .wake = [] {},
                                             .nudge = [] {},
                                             .memory = &memory_});
    const Status s = engine_->Load();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  Status Put(uint64_t i) { return Put(i, static_cast<char>('a' + i % 26)); }
  Status Put(uint64_t i, char byte) {
    const std::string key = Key(i);
    const std::string value(kValueBytes, byte);
    const WriteOperation put{RecordKind::kPut, key, value};
    return engine_->Write({&put, 1});
  }
  static std::string Key(uint64_t i) { return Concat("key", 1000000 + i); }
  /// Runs all jobs of the class that there are.
  void Run(JobClass job_class) {
    while (std::optional<Job> job = engine_->PickJob(job_class)) {
      const Status s = job->run();
      ASSERT_TRUE(s.ok()) << job->name << ": " << s.ToString();
    }
  }
  /// What Put(i) made of the first `count` keys is there.
  void ExpectKeys(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) ExpectKey(i, static_cast<char>('a' + i % 26));
  }
  void ExpectKey(uint64_t i, char byte) {
    EpochPin pin(pool_->readers());
    const Lookup found = engine_->Get(Key(i), engine_->PublishedSequence(), true, &pin);
    ASSERT_EQ(found.state, LookupState::kFound) << i;
    ASSERT_EQ(found.value, std::string(kValueBytes, byte)) << i;
  }

  const EngineType& type_;
  Options db_options_;
  MemoryBudget budget_{1 << 20};
  MemoryAccount memory_{&budget_};
  SnapshotList snapshots_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ENGINE_TEST_BASE_H_
