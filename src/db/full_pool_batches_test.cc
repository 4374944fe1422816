// Several threads write large batches to a pool that is nearly full, and beside it the file system
// of its files, where there are any: each is there as a whole once it was acknowledged, none is
// that was refused, what was there can be deleted, and the store can be opened after a close or a
// kill, however full it is.

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "base/sanitizer.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
#include "testing/expect_clean.h"
#include "testing/random_data.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

class ConcurrentFullPool : public ::testing::TestWithParam<EngineLayout> {
 protected:
  using State = std::map<std::string, std::string>;
  static constexpr uint64_t kWriters = 3;

  ConcurrentFullPool() {
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 12 << 20;
    options_.medium = random_.OneIn(2) ? MediumKind::kPage : MediumKind::kCacheLine;
    options_.log_shards = 2;
    options_.background_threads = 2;
    // Not the design's `small` ones: of tables far smaller than a chunk a pool may be so full that
    // there is no room for the merges that deletes need.
    options_.engine = GetParam().engine;
    Apply(GetParam().set, &options_);
    has_files_ = TablesInFiles(options_);
  }
  void Open() {
    db_ = std::make_unique<DbImpl>(options_, dir_.Sub("store"), DbSeams{.files = files_.get()});
    const Status s = db_->Init();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  static std::string Key(uint64_t writer, uint64_t i) {
    return Concat("w", writer, "-", 10000 + i);
  }

  // While the files' file system is full, deletes may be refused, and a flush that finds no room
  // for long makes the store read-only (docs/LIMITS.md).
  bool IsRefused(const Status& s) const {
    return s.IsNoSpace() || (hook_.full.load() && s.IsReadOnly() &&
                             s.message().find("NoSpace") != std::string_view::npos);
  }
  // Batches, of up to 200 KB, until a few were refused, or the last is written; and deletes.
  void WriteUntilRefused(uint64_t writer, uint64_t seed) {
    constexpr int kRefused = 3;
    constexpr int kBatches = 150;
    constexpr uint64_t kKeysOfEach = 2000;
    Random random(seed);
    State& state = states_[writer];
    int refused = 0;
    for (int n = 0; n < kBatches && refused < kRefused; n++) {
      State next = state;
      WriteBatch batch;
      const bool deletes = !state.empty() && random.OneIn(8);
      for (uint64_t i = 1 + random.Uniform(50); i > 0; i--) {
        const std::string key = Key(writer, random.Uniform(kKeysOfEach));
        if (deletes) {
          next.erase(key);
          batch.Delete(key);
        } else {
          next[key] = MakeValue(seed + static_cast<uint64_t>(n) * 64 + i, random.Uniform(8000));
          batch.Put(key, next[key]);
        }
      }
      const Status s = db_->Write({}, batch);
      if (s.ok()) {
        state = std::move(next);
        continue;
      }
      EXPECT_TRUE(IsRefused(s)) << s.ToString();
      EXPECT_TRUE(!deletes || hook_.full.load()) << s.ToString();
      if (!IsRefused(s)) return;
      refused++;
      ExpectState(writer, "refused");
    }
    refused_ += refused;
  }
  void ExpectState(uint64_t writer, const char* when) {
    State found;
    const auto it = db_->NewIterator({});
    for (it->Seek(Key(writer, 0)); it->Valid() && it->key() < Key(writer + 1, 0); it->Next())
      found.emplace(it->key(), it->value());
    EXPECT_TRUE(it->status().ok()) << when << ": " << it->status().ToString();
    EXPECT_TRUE(found == states_[writer]) << when << ", writer " << writer;
  }
  void ExpectAll(const char* when) {
    for (uint64_t writer = 0; writer < kWriters; writer++) ExpectState(writer, when);
  }
  void Write(uint64_t seed) {
    std::vector<std::thread> writers;
    for (uint64_t writer = 0; writer < kWriters; writer++)
      writers.emplace_back(
          [this, writer, seed] { WriteUntilRefused(writer, MixBits(seed + writer)); });
    for (std::thread& writer : writers) writer.join();
  }
  // Some of what each has, one at a time.
  void DeleteSome() {
    for (uint64_t writer = 0; writer < kWriters; writer++) {
      State& state = states_[writer];
      for (auto at = state.begin(); at != state.end();) {
        if (random_.OneIn(4)) {
          ++at;
          continue;
        }
        const Status s = db_->Delete({}, at->first);
        ASSERT_TRUE(s.ok()) << at->first << ": " << s.ToString();
        at = state.erase(at);
      }
    }
  }

  Random random_{MixBits(TestSeed())};
  TempDir dir_;
  FullFiles hook_{{kTableFileSuffix, kValueFileSuffix}};
  const std::unique_ptr<FileSystem> files_ = FileSystem::PosixOver(&hook_);
  Options options_;
  bool has_files_ = false;
  std::unique_ptr<DbImpl> db_;
  State states_[kWriters];  // each writer's own
  std::atomic<int> refused_{0};
};

TEST_P(ConcurrentFullPool, LosesNoBatchAndTakesDeletes) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const int rounds = has_files_ || kSanitized ? 1 : 2;
  for (int round = 0; round < rounds && !HasFailure(); round++) {
    hook_.full.store(has_files_);
    Write(random_.Next());
    ExpectAll("full");
    if (random_.OneIn(2)) {
      if (random_.OneIn(2)) {
        const Status s = db_->Close();
        EXPECT_TRUE(s.ok() || hook_.full.load()) << s.ToString();
      }
      db_->Abandon();
      db_.reset();
      ASSERT_NO_FATAL_FAILURE(Open());
      ExpectAll("opened again");
    }
    if (has_files_) {
      hook_.full.store(false);
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // it is tried each second
      ASSERT_TRUE(db_->Resume().ok());
    }
    ASSERT_NO_FATAL_FAILURE(DeleteSome());
    Status s = db_->CompactRange({}, {});
    EXPECT_TRUE(s.ok() || s.IsNoSpace()) << s.ToString();
    s = db_->WaitForIdle();
    EXPECT_TRUE(s.ok()) << s.ToString();
    ExpectAll("some were deleted");
    s = db_->Put({}, "x", "there is room again");
    EXPECT_TRUE(s.ok()) << s.ToString();
  }
  EXPECT_GT(refused_, 0) << "it was never full";
  ASSERT_NO_FATAL_FAILURE(ExpectClean(db_.get()));
  db_.reset();  // before the file system
}

INSTANTIATE_TEST_SUITE_P(All, ConcurrentFullPool, ::testing::ValuesIn(EngineLayouts()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
