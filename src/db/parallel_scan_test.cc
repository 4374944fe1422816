// Parallel scans of LightKV (its L6) and LAB-DB (ValuesAhead): files answer as slowly as a device
// does, so that helpers make the seeks and read ahead. What iterators show is what they show
// without.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/helper_threads.h"
#include "base/mutex.h"
#include "base/os_hook.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "file/table_file_name.h"
#include "testing/random_data.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

/// Reads of tables and of values take several times what is worth posting; of one of the files, if
/// need be, they fail.
class SlowFiles final : public OsHook {
 public:
  int Before(OsCall call, const std::string& path) override {
    const bool slow = path.ends_with(kTableFileSuffix) || path.ends_with(kValueFileSuffix);
    if (call != OsCall::kRead || !slow) return 0;
    const int at_once = ++reading_;
    if (at_once > 1) overlaps++;
    ::usleep(3 * HelperThreads::kWorth.count() / 1000);
    --reading_;
    const MutexLock lock(&mu_);
    return path == failing_ ? EIO : 0;
  }
  size_t Allowed(OsCall, size_t n) override { return n; }
  void Fail(const std::string& path) {
    const MutexLock lock(&mu_);
    failing_ = path;
  }

  std::atomic<int> overlaps{0};  // reads that began beside others

 private:
  std::atomic<int> reading_{0};
  Mutex mu_;
  std::string failing_ LAMELLA_GUARDED_BY(mu_);
};

class ParallelScan : public ::testing::TestWithParam<EngineKind> {
 protected:
  ParallelScan() {
    options_.engine = GetParam();
    options_.lightkv = {.segment_bytes = 64 << 10, .leaf_nodes_max = 4, .compaction_size = 16};
    options_.labdb = {.tree_bytes = 128 << 10,
                      .segment_bytes = 64 << 10,
                      .level1_bytes = 128 << 10,
                      .table_bytes = 64 << 10};
    options_.medium = MediumKind::kCacheLine;
    options_.pool_bytes_max = 64 << 20;
    options_.files.block_cache_share = 0;
  }
  ~ParallelScan() override {
    db_.reset();  // before the hook that its files have
  }
  void Open(uint32_t threads) {
    options_.lightkv.scan_threads = options_.labdb.read_threads = threads;
    db_.reset();
    db_ = std::make_unique<DbImpl>(options_, path_, DbSeams{.files = files_.get()});
    const Status s = db_->Init();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  /// Several tables of each partition: keys written, some again, some deleted; values of up to
  /// several blocks.
  void Fill() {
    for (uint64_t round = 0; round < 3; round++) {
      for (uint64_t i = 0; i < 1000; i++) {
        const std::string key = KeyOf(random_.Uniform(2000));
        if (random_.OneIn(5)) {
          ASSERT_TRUE(db_->Delete({}, key).ok());
          model_.erase(key);
        } else {
          model_[key] = MakeValue(round * 1000 + i, random_.OneIn(20) ? 9000 : 200);
          ASSERT_TRUE(db_->Put({}, key, model_[key]).ok());
        }
      }
      ASSERT_TRUE(db_->Flush().ok());
    }
    ASSERT_TRUE(db_->WaitForIdle().ok());
  }
  static std::string KeyOf(uint64_t i) { return Concat("key", 10000 + i); }
  /// Moves of all kinds, beside a map.
  static void WalkAsTheMap(DbImpl* db, const std::map<std::string, std::string>& model,
                           uint64_t seed) {
    Random random(seed);
    const auto it = db->NewIterator({});
    auto at = model.end();
    for (int i = 0; i < 1500; i++) {
      const std::string key = KeyOf(random.Uniform(2000));
      if (at == model.end() || random.OneIn(100)) {
        if (random.OneIn(2)) {
          it->Seek(key);
          at = model.lower_bound(key);
        } else {
          it->SeekForPrev(key);
          at = model.upper_bound(key);
          at = at == model.begin() ? model.end() : std::prev(at);
        }
      } else if (i / 200 % 2 == 0 || random.OneIn(20)) {
        it->Next();
        ++at;
      } else {
        it->Prev();
        at = at == model.begin() ? model.end() : std::prev(at);
      }
      ASSERT_TRUE(it->status().ok()) << it->status().ToString();
      ASSERT_EQ(it->Valid(), at != model.end());
      if (!it->Valid()) continue;
      ASSERT_EQ(it->key(), at->first);
      ASSERT_EQ(it->value(), at->second);
    }
  }
  /// How many records a walk over all shows, and what it ends with.
  std::string Walk() {
    const auto it = db_->NewIterator({});
    int records = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) records++;
    return Concat(records, ", ", it->status().ToString());
  }

  Options options_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  SlowFiles slow_;
  const std::unique_ptr<FileSystem> files_ = FileSystem::PosixOver(&slow_);
  Random random_{TestSeed()};
  std::map<std::string, std::string> model_;
  std::unique_ptr<DbImpl> db_;
};

TEST_P(ParallelScan, ReadsTablesAtOnceAndShowsWhatIsThere) {
  Open(2);
  Fill();
  slow_.overlaps = 0;
  WalkAsTheMap(db_.get(), model_, TestSeed());
  EXPECT_GT(slow_.overlaps.load(), 10);
  EXPECT_EQ(Walk(), Concat(model_.size(), ", OK"));
  EXPECT_TRUE(db_->Close().ok());
}

TEST_P(ParallelScan, WithoutThreadsTheWalkReadsAlone) {
  Open(0);
  Fill();
  slow_.overlaps = 0;
  WalkAsTheMap(db_.get(), model_, TestSeed());
  EXPECT_EQ(slow_.overlaps.load(), 0);
}

TEST_P(ParallelScan, SeveralWalksShareTheThreadsBesideWritesAndFlushes) {
  Open(2);
  Fill();
  std::atomic<bool> stop{false};
  std::thread writer([&] {  // beyond the keys that are walked
    for (int i = 0; !stop.load(); i++) {
      EXPECT_TRUE(db_->Put({}, Concat("later", i), std::string(300, 'x')).ok());
      if (i % 500 == 0) {
        EXPECT_TRUE(db_->Flush().ok());
      }
    }
  });
  std::vector<std::thread> walkers;
  for (uint64_t i = 0; i < 3; i++) {
    walkers.emplace_back([&, i] {
      const auto it = db_->NewIterator({.upper_bound = "later"});
      for (uint64_t k = i; k < 2000; k += 200) {
        auto at = model_.lower_bound(KeyOf(k));
        it->Seek(KeyOf(k));
        for (int n = 0; n < 150 && at != model_.end(); n++, ++at, it->Next()) {
          ASSERT_TRUE(it->Valid()) << it->status().ToString();
          ASSERT_EQ(it->key(), at->first);
          ASSERT_EQ(it->value(), at->second);
        }
      }
    });
  }
  for (std::thread& walker : walkers) walker.join();
  stop = true;
  writer.join();
}

TEST_P(ParallelScan, ATableThatCannotBeReadEndsTheWalkWhereItDidWithoutThreads) {
  Open(2);
  Fill();
  ASSERT_TRUE(db_->Close().ok());
  for (const std::string& path : TableFilesOf(path_)) {
    std::vector<std::string> walks;
    for (const uint32_t threads : {0, 2}) {
      slow_.Fail("");
      Open(threads);
      slow_.Fail(path);
      walks.push_back(Walk());
      EXPECT_NE(walks.back().find("IOError"), std::string::npos) << walks.back();
      slow_.Fail("");
      EXPECT_EQ(Walk(), Concat(model_.size(), ", OK"));
    }
    EXPECT_EQ(walks[0], walks[1]);
  }
}

// What LAB-DB reads ahead goes by the trees of now, the walk by those of when it began.
TEST_P(ParallelScan, AWalkReadsAheadWhateverIsWrittenBesideIt) {
  Open(2);
  Fill();
  const auto write = [this](char round) {
    for (int i = 0; i < 3000; i++)
      ASSERT_TRUE(db_->Put({}, Concat("z", 10000 + i), std::string(200, round)).ok());
    ASSERT_TRUE(db_->Flush().ok());
    ASSERT_TRUE(db_->WaitForIdle().ok());
  };
  const auto it = db_->NewIterator({.upper_bound = "z"});
  it->SeekToFirst();
  auto at = model_.begin();
  const auto walk = [&](size_t records) {
    for (; records > 0 && at != model_.end(); records--, ++at, it->Next()) {
      ASSERT_TRUE(it->Valid()) << it->status().ToString();
      ASSERT_EQ(it->key(), at->first);
      ASSERT_EQ(it->value(), at->second);
    }
  };
  ASSERT_NO_FATAL_FAILURE(walk(1));
  for (const char round : {'a', 'b', 'c'}) {
    ASSERT_NO_FATAL_FAILURE(write(round));
    slow_.overlaps = 0;
    ASSERT_NO_FATAL_FAILURE(walk(100));
    if (GetParam() == EngineKind::kLabDb) {
      EXPECT_GT(slow_.overlaps.load(), 10) << "it reads ahead in the trees of now";
    }
  }
  ASSERT_NO_FATAL_FAILURE(walk(SIZE_MAX));
  EXPECT_FALSE(it->Valid());
}

TEST_P(ParallelScan, AnIteratorKeepsTheStoreOpenAndOutlivesIt) {
  Open(2);
  Fill();
  auto it = db_->NewIterator({});
  it->Seek(KeyOf(1000));
  it->Next();
  EXPECT_TRUE(db_->Close().IsBusy());
  db_.reset();
  for (auto at = model_.lower_bound(std::string(it->key())); at != model_.end(); ++at, it->Next()) {
    ASSERT_TRUE(it->Valid()) << it->status().ToString();
    ASSERT_EQ(it->key(), at->first);
  }
  EXPECT_FALSE(it->Valid());
  it.reset();
}

INSTANTIATE_TEST_SUITE_P(All, ParallelScan,
                         ::testing::Values(EngineKind::kLightKv, EngineKind::kLabDb),
                         [](const auto& of) { return std::string(EngineName(of.param)); });

}  // namespace
}  // namespace lamella::testing
