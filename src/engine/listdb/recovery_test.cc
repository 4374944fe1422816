// The engine without a front end: no thread runs a job but when a test says so, and a crash is that
// nobody closes it.
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/memory_budget.h"
#include "engine/listdb/type.h"
#include "pool/pool_test_base.h"

namespace lamella {
namespace {

class ListDbRecoveryTest : public PoolTest {
 protected:
  static constexpr size_t kValueBytes = 4000;

  ListDbRecoveryTest() {
    db_options_.memory_budget_bytes = 1 << 20;
    db_options_.memtable_bytes = 64 << 10;
    db_options_.log_shards = 2;
  }
  ~ListDbRecoveryTest() override { engine_.reset(); }  // before the pool

  void CreateStore() {
    options_.engine_flags = kListDbType.flags(db_options_);
    Create();
    StartEngine();
  }
  void Crash() {
    engine_.reset();
    Open();
    StartEngine();
  }
  Status Put(uint64_t i) {
    const std::string key = Key(i);
    const std::string value(kValueBytes, static_cast<char>('a' + i % 26));
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
  void ExpectKeys(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
      EpochPin pin(pool_->readers());
      const Lookup found = engine_->Get(Key(i), engine_->PublishedSequence(), true, &pin);
      ASSERT_EQ(found.state, LookupState::kFound) << i;
      ASSERT_EQ(found.value, std::string(kValueBytes, static_cast<char>('a' + i % 26))) << i;
    }
  }

  Options db_options_;
  MemoryBudget budget_{1 << 20};
  MemoryAccount memory_{&budget_};
  SnapshotList snapshots_;
  std::unique_ptr<Engine> engine_;

 private:
  void StartEngine() {
    engine_ = kListDbType.make(EngineContext{.pool = pool_.get(),
                                             .options = &db_options_,
                                             .snapshots = &snapshots_,
                                             .wake = [] {},
                                             .nudge = [] {},
                                             .memory = &memory_});
    Status s = engine_->Recover();
    if (s.ok()) s = pool_->MarkOpen();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
};

// What flushes copied and a crash cut off from its tables is copied again: in a pool that has room
// for the records and one copy of each, not for two, and before any other job had a turn.
TEST_F(ListDbRecoveryTest, CopiesThatACrashCutOffMakeRoomForTheNext) {
  options_.pool_bytes_max = 12 << 20;
  db_options_.listdb.unified_log = false;
  db_options_.listdb.checkpoint_group_tables = 64;
  CreateStore();
  const uint64_t keys = options_.pool_bytes_max * 38 / 100 / kValueBytes;
  for (uint64_t i = 0; i < keys; i++) {
    const Status s = Put(i);
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
    Run(JobClass::kUrgent);
  }
  for (int crash = 0; crash < 3; crash++) {
    Crash();
    if (HasFatalFailure()) return;
    Run(JobClass::kUrgent);
    if (HasFatalFailure()) return;
    ExpectKeys(keys);
  }
  Run(JobClass::kNormal);
  ExpectKeys(keys);
}

}  // namespace
}  // namespace lamella
