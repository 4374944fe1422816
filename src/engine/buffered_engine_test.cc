#include "engine/buffered_engine.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "log/log_test_base.h"

namespace lamella {
namespace {

struct NoTables final : TableSet {};

/// MemTables only: none is ever flushed.
class MemTableEngine final : public BufferedEngine {
 public:
  explicit MemTableEngine(const EngineContext& context) : BufferedEngine(context, 64 << 10) {
    StartWriting(3, false, {}, 0, {}, std::make_shared<NoTables>());
  }

  /// Write, by a thread that loses the processor for good where it has left its shard: nothing published what it wrote.
  void WriteAndStop(std::string_view key, std::string_view value) {
    PmLog::Shard& shard = log_->ShardOfThisCpu();
    const std::lock_guard lock(shard.mu);
    ASSERT_TRUE(shard.appender->Prepare(RecordBytes(0, key.size(), value.size()), false).ok());
    const uint64_t tag = MakeTag(sequencer_.Draw(&shard, 1), RecordKind::kPut);
    const PmPtr place = shard.appender->Append({.tag = tag, .key = key, .value = value});
    shard.appender->Commit();
    CurrentReadSet()->active->Add(key, tag, place);
    sequencer_.Finish(&shard);
  }
  /// Seals the active MemTable; the newest sequence number that it may hold.
  uint64_t Seal() {
    SwitchMemTable(true);
    return CurrentReadSet()->sealed.front()->last_sequence();
  }

  Status Recover() override { return Status::OK(); }
  std::optional<Job> PickJob(JobClass) override { return std::nullopt; }
  Status CompactRange(std::string_view, std::string_view) override { return Status::OK(); }
  void OnSynced(uint64_t) override {}
  Status Close() override { return Status::OK(); }
  std::string Describe() const override { return ""; }
  Status Check(CheckReport*) override { return Status::OK(); }
  Status Rebuild(RepairReport*) override { return Status::OK(); }

 protected:
  Status FlushMemTable(const std::shared_ptr<MemTable>&) override { return Status::OK(); }
  Lookup SearchTables(const TableSet&, const InternalKey&, const Candidates&, bool) override { return {}; }
  void AddTableIterators(const std::shared_ptr<const TableSet>&, bool,
                         std::vector<std::unique_ptr<InternalIterator>>*) override {}
  uint64_t UncompactedBytes(const TableSet&) const override { return 0; }
  uint64_t BufferedBytesMax() const override { return 1 << 20; }
  bool ReclaimSpace() override { return false; }
};

class BufferedEngineTest : public RecordsTest {
 protected:
  BufferedEngineTest() {
    CreateParts(1);
    engine_ = std::make_unique<MemTableEngine>(
        EngineContext{.pool = pool_.get(), .options = nullptr, .snapshots = &snapshots_, .wake = [] {}});
  }
  ~BufferedEngineTest() override { engine_.reset(); }  // before the pool

  SnapshotList snapshots_;
  std::unique_ptr<MemTableEngine> engine_;
};

// A table of the MemTable makes older versions obsolete, and no reader may begin after that who does not see the newer.
TEST_F(BufferedEngineTest, WhatASealedMemTableHoldsIsPublished) {  // I2
  const WriteOperation put{RecordKind::kPut, "key", "old"};
  ASSERT_TRUE(engine_->Write({&put, 1}).ok());
  engine_->WriteAndStop("key", "new");
  EXPECT_EQ(engine_->PublishedSequence(), 1u);

  const uint64_t last = engine_->Seal();
  EXPECT_EQ(last, 2u);
  EXPECT_EQ(engine_->PublishedSequence(), last);
  const EpochPin pin(pool_->readers());
  const Lookup found = engine_->Get("key", engine_->PublishedSequence(), true);
  EXPECT_EQ(found.state, LookupState::kFound);
  EXPECT_EQ(found.value, "new");
}

}  // namespace
}  // namespace lamella
