#include "engine/write_path.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/mutex.h"
#include "base/random.h"
#include "log/record.h"

namespace lamella {
namespace {

/// What a log that lies in no pool holds: its records, by Location, from 1 on.
class HeapRecords {
 public:
  struct Entry {
    uint64_t tag = 0;
    std::string key;
    std::string value;
    uint32_t batch_remaining = 0;
    bool durable = false;
  };

  uint64_t Add(Entry entry) {
    const MutexLock lock(&mu_);
    entries_.push_back(std::move(entry));
    return entries_.size();
  }
  void Change(uint64_t word, const std::function<void(Entry*)>& change) {
    const MutexLock lock(&mu_);
    change(&entries_[word - 1]);
  }
  Entry At(Location location) {
    const MutexLock lock(&mu_);
    return entries_[location.word - 1];
  }

 private:
  Mutex mu_;
  std::vector<Entry> entries_ LAMELLA_GUARDED_BY(mu_);
};

/// A log's shard on the heap, with room for so many bytes, and commits that may fail.
class HeapWriter final : public LogWriter {
 public:
  HeapWriter(HeapRecords* records, uint64_t bytes_max) : records_(records), left_(bytes_max) {}

  Status Prepare(const uint64_t* record_bytes, size_t count, Claimant) override {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += record_bytes[i];
    if (bytes > left_) return Status::NoSpace("the heap is full");
    left_ -= bytes;
    claimed_ += bytes;
    return Status::OK();
  }
  StagedWrite Stage(const RecordInput& input) override {
    if (on_stage_) on_stage_();
    return {{Add(input)}, 17};
  }
  void Complete(const StagedWrite& staged, const RecordInput& input) override {
    EXPECT_EQ(staged.token, 17u);
    records_->Change(staged.location.word, [&](auto* entry) { entry->tag = input.tag; });
  }
  Status Commit() override {
    const bool fails = commits_to_failure_ == 1;
    if (commits_to_failure_ != 0) commits_to_failure_--;
    if (fails) {
      pending_.clear();
      return Status::IOError("the disk is gone");
    }
    for (const uint64_t word : pending_)
      records_->Change(word, [](auto* entry) { entry->durable = true; });
    pending_.clear();
    return Status::OK();
  }
  LogPosition Seal() override { return {1, claimed_}; }
  uint64_t claimed_bytes() const override { return claimed_; }

  void MakeRoom(uint64_t bytes) { left_ += bytes; }
  void FailCommit(uint32_t nth) { commits_to_failure_ = nth; }
  void OnStage(std::function<void()> on_stage) { on_stage_ = std::move(on_stage); }

 private:
  uint64_t Add(const RecordInput& input) {
    pending_.push_back(records_->Add({input.tag, std::string(input.key), std::string(input.value),
                                      input.batch_remaining, false}));
    return pending_.back();
  }

  HeapRecords* const records_;
  uint64_t left_;
  uint64_t claimed_ = 0;
  uint32_t commits_to_failure_ = 0;
  std::function<void()> on_stage_;
  std::vector<uint64_t> pending_;
};

class WritePathTest : public ::testing::Test, private WriteTarget {
 protected:
  static constexpr uint32_t kShards = 2;

  void Start(uint64_t bytes_max = 1 << 20) {
    std::vector<std::unique_ptr<LogWriter>> writers;
    for (uint32_t i = 0; i < 2 * kShards; i++) {
      auto writer = std::make_unique<HeapWriter>(&records_, bytes_max);
      writers_.push_back(writer.get());
      writers.push_back(std::move(writer));
    }
    log_ = std::make_unique<Log>(std::move(writers), std::vector<LogPosition>{{9, 0}});
    path_.Start(log_.get(), false, 100);
  }
  Status Put(const std::string& key, const std::string& value) {
    const WriteOperation put{RecordKind::kPut, key, value};
    return path_.Write({&put, 1});
  }

  Status Provide(const Needs& needs, SpareMemory*, uint64_t* reserved) override {
    if (counts_locked_) std::thread([this] { locked_ = CountLocked(); }).join();
    *reserved = needs.record_bytes.size();
    reserved_ += *reserved;
    return Status::OK();
  }
  void Abandon(uint64_t reserved) override { reserved_ -= reserved; }
  bool Enter(std::span<const WriteOperation> operations, uint64_t first,
             std::span<const Location> locations, uint64_t reserved, SpareMemory*) override {
    reserved_ -= reserved;
    const MutexLock lock(&mu_);
    for (size_t i = 0; i < operations.size(); i++) {
      const HeapRecords::Entry entry = records_.At(locations[i]);
      EXPECT_TRUE(entry.durable);  // W1
      EXPECT_EQ(entry.tag, MakeTag(first + i, operations[i].kind));
      EXPECT_EQ(entry.key, operations[i].key);
      EXPECT_EQ(entry.value, operations[i].value);
      EXPECT_EQ(entry.batch_remaining, operations.size() - 1 - i);
      index_[first + i] = locations[i];
    }
    return wants_;
  }
  void OnWritten(bool entered, bool) override { told_ += entered ? 1 : 0; }
  Status MakeSpace() override {
    if (make_space_) return make_space_();
    if (rooms_ == 0) return Status::NoSpace("");
    if (--rooms_ == 0) {
      for (HeapWriter* writer : writers_) writer->MakeRoom(1 << 20);
      if (by_another_) return Status::NoSpace("");
    }
    return Status::OK();
  }

  /// Of the shards' locks, how many others hold.
  uint32_t CountLocked() const {
    uint32_t locked = 0;
    for (uint32_t i = 0; i < log_->shard_count(); i++)
      locked += std::unique_lock(log_->shard(i).mu, std::try_to_lock).owns_lock() ? 0 : 1;
    return locked;
  }

  HeapRecords records_;
  std::vector<HeapWriter*> writers_;
  std::unique_ptr<Log> log_;
  WritePath path_{this};
  Mutex mu_;
  std::map<uint64_t, Location> index_;
  std::atomic<uint64_t> reserved_{0};
  bool wants_ = false;
  bool counts_locked_ = false;
  uint32_t locked_ = 0;
  std::atomic<int> told_{0};
  int rooms_ = 0;            // as often it says that there may be some; the last time there is
  bool by_another_ = false;  // of which it knows nothing
  std::function<Status()> make_space_;  // in place of that
};

TEST_F(WritePathTest, RecordsOfAnyLogAreEnteredOnceDurable) {
  Start();
  EXPECT_TRUE(Put("one", "1").ok());
  const std::string large(5000, 'x');
  const std::vector<WriteOperation> batches[] = {
      {{RecordKind::kPut, "a", "1"}, {RecordKind::kDelete, "one", ""}},
      {{RecordKind::kPut, "large", large}, {RecordKind::kPut, "b", "2"}}};
  for (const auto& batch : batches) EXPECT_TRUE(path_.Write(batch).ok());
  std::vector<WriteOperation> many(200, {RecordKind::kPut, "key", "value"});
  EXPECT_TRUE(path_.Write(many).ok());
  EXPECT_EQ(path_.published(), 305u);
  EXPECT_EQ(index_.size(), 205u);
  EXPECT_EQ(reserved_.load(), 0u);
  EXPECT_EQ(told_.load(), 0);
  wants_ = true;
  EXPECT_TRUE(Put("two", "2").ok());
  EXPECT_EQ(told_.load(), 1);
  Stats stats;
  path_.AddStats(&stats);
  EXPECT_EQ(stats.puts, 205u);
  EXPECT_EQ(stats.deletes, 1u);
  EXPECT_EQ(stats.batches, 3u);
}

TEST_F(WritePathTest, AFailedCommitEntersNothingAndHoldsNobodyUp) {
  Start();
  for (HeapWriter* writer : writers_) writer->FailCommit(1);
  const std::vector<WriteOperation> batch = {{RecordKind::kPut, "a", "1"},
                                             {RecordKind::kPut, "b", "2"}};
  EXPECT_TRUE(path_.Write(batch).IsIOError());
  EXPECT_TRUE(index_.empty());
  EXPECT_EQ(reserved_.load(), 0u);
  EXPECT_EQ(path_.published(), 102u) << "void, and passed by";
  for (HeapWriter* writer : writers_) writer->FailCommit(0);
  EXPECT_TRUE(Put("c", "3").ok());
  EXPECT_EQ(index_.begin()->first, 103u);
}

TEST_F(WritePathTest, WhereAShardIsFullTheOthersAreAskedAndThenSpaceIsMade) {
  Start(100);
  EXPECT_TRUE(Put("a", std::string(50, 'x')).ok());
  EXPECT_TRUE(Put("b", std::string(50, 'x')).ok()) << "in the other shard";
  EXPECT_TRUE(Put("c", std::string(50, 'x')).IsNoSpace());
  EXPECT_EQ(reserved_.load(), 0u);
  rooms_ = 2;
  EXPECT_TRUE(Put("c", std::string(50, 'x')).ok());
  Stats stats;
  path_.AddStats(&stats);
  EXPECT_EQ(stats.stall_count, 3u);
}

TEST_F(WritePathTest, RoomThatAnotherMakesMeanwhileIsFound) {
  Start(100);
  EXPECT_TRUE(Put("a", std::string(50, 'x')).ok());
  EXPECT_TRUE(Put("b", std::string(50, 'x')).ok());
  by_another_ = true;
  rooms_ = 1;
  EXPECT_TRUE(Put("c", std::string(50, 'x')).ok());
}

// By the first who comes, each time, as long as anybody may.
TEST_F(WritePathTest, WhatOthersTakeOfTheRoomIsMadeAnew) {
  Start(100);
  const std::string value(50, 'x');
  ASSERT_TRUE(Put("a", value).ok());
  ASSERT_TRUE(Put("b", value).ok());
  const std::thread::id one = std::this_thread::get_id();
  std::vector<std::future<Status>> others;
  make_space_ = [&] {
    if (std::this_thread::get_id() != one) return Status::NoSpace("");
    {
      const MutexLock lock(&log_->shard(0).mu);
      writers_[0]->MakeRoom(RecordBytes(0, 1, value.size()));
    }
    others.push_back(std::async(std::launch::async, [&] { return Put("o", value); }));
    if (others.size() == 1) {
      others.back().wait();
    } else {
      others.back().wait_for(std::chrono::milliseconds(300));
    }
    return Status::OK();
  };
  EXPECT_TRUE(Put("c", value).ok());
  ASSERT_EQ(others.size(), 2u);
  EXPECT_TRUE(others.front().get().ok());
  EXPECT_TRUE(others.back().get().IsNoSpace());
}

// Whoever has it: what one shard has no room for is not refused because another write is in the
// shard that has some.
TEST_F(WritePathTest, AShardThatIsBusyIsAskedAllTheSame) {
  for (const size_t bytes : {50, 5000}) {
    writers_.clear();
    Start(bytes + 50);
    ASSERT_TRUE(Put("a", std::string(bytes, 'x')).ok());
    uint32_t full = 0;
    while (writers_[full]->claimed_bytes() == 0) full++;
    Log::Shard& other = log_->shard(full ^ 1);
    std::unique_lock busy(log_->IsForLarge(full) ? other.staging : other.mu);
    std::future<Status> writer =
        std::async(std::launch::async, [&] { return Put("b", std::string(bytes, 'x')); });
    EXPECT_EQ(writer.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout) << bytes;
    busy.unlock();
    EXPECT_TRUE(writer.get().ok()) << bytes;
  }
}

// A MemTable that BetweenWrites replaced may be gone while a large write still looks at it.
TEST_F(WritePathTest, TheTargetIsAskedUnderTheLockOfAShard) {
  Start();
  counts_locked_ = true;
  for (const size_t bytes : {10, 5000}) {
    locked_ = 0;
    EXPECT_TRUE(Put("key", std::string(bytes, 'x')).ok());
    EXPECT_EQ(locked_, 1u) << bytes;
  }
}

// W2. One that had drawn its numbers by then would hold the other up for ever.
TEST_F(WritePathTest, OthersWriteWhileALargeWriteIsStaged) {
  Start();
  const std::string value(5000, 'x');
  const std::vector<WriteOperation> large[] = {
      {{RecordKind::kPut, "value", value}},
      std::vector<WriteOperation>(200, {RecordKind::kPut, "key", "many of them"})};
  for (const auto& operations : large) {
    const uint64_t before = path_.published();
    bool wrote = false;
    const auto write_other = [&] {
      if (std::exchange(wrote, true)) return;
      std::thread([&] { EXPECT_TRUE(Put("other", "1").ok()); }).join();
    };
    for (HeapWriter* writer : writers_) writer->OnStage(write_other);
    EXPECT_TRUE(path_.Write(operations).ok());
    EXPECT_TRUE(wrote);
    EXPECT_EQ(records_.At(index_.at(before + 1)).key, "other");
    EXPECT_EQ(path_.published(), before + 1 + operations.size());
  }
}

TEST_F(WritePathTest, BetweenWritesNothingIsUnderWay) {
  Start(64 << 20);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; t++) {
    writers.emplace_back([&, t] {
      const std::string large(5000, 'x');
      for (int i = 0; !stop.load(); i++)
        EXPECT_TRUE(Put(Concat(t, ".", i), i % 4 == 0 ? large : "small").ok());
    });
  }
  for (int i = 0; i < 200; i++) {
    path_.BetweenWrites([&](uint64_t last, const std::vector<LogPosition>& ends) {
      const MutexLock lock(&mu_);
      EXPECT_EQ(index_.size(), last - 100);
      EXPECT_EQ(path_.published(), last);
      ASSERT_EQ(ends.size(), 2 * kShards + 1) << "and the former shard's";
      EXPECT_EQ(ends.back(), (LogPosition{9, 0}));
    });
  }
  stop.store(true);
  for (std::thread& writer : writers) writer.join();
}

TEST(CopyHeight, NeedsNoChunkMoreThanTwoLinksDo) {
  constexpr uint64_t kChunkBytes = 4096;
  Random random(1);
  const auto highest = [&](uint32_t value_size) {
    RecordHeader header{};
    header.key_size = 8;
    header.value_size = value_size;
    uint32_t height = 0;
    for (int i = 0; i < 2000; i++) {
      const auto& record = reinterpret_cast<const Record&>(header);
      height = std::max(height, WritePath::CopyHeight(record, kChunkBytes, &random));
    }
    return height;
  };
  constexpr uint32_t kBeside = sizeof(RecordHeader) + 8;
  for (const uint32_t chunks : {1, 2, 5}) {
    EXPECT_EQ(highest(chunks * kChunkBytes - kBeside - 16), 2u);
    EXPECT_GT(highest(chunks * kChunkBytes - kBeside - 16 + 8), 2u) << "as two links";
    EXPECT_GT(highest(chunks * kChunkBytes - 2000), 2u);
  }
}

}  // namespace
}  // namespace lamella
