// FileOptions::parallel_reads of the designs that have files: those answer as slowly as a device
// does, so that what iterators will come by is read at the same time. What they show is what they
// show without.
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/mutex.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "file/read_cost.h"
#include "testing/file_system_over.h"
#include "testing/random_data.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

/// Files that answer as slowly as a device does, but to the kernel; one of them, if need be, to
/// nobody.
class SlowFiles final : public FileSystemOver {
 public:
  SlowFiles() : FileSystemOver(FileSystem::Posix()) {}
  Status NewRandomFile(const std::string& path, ReadVia via,
                       std::unique_ptr<RandomFile>* file) override {
    Status s = FileSystemOver::NewRandomFile(path, via, file);
    if (s.ok()) *file = std::make_unique<SlowFile>(this, path, std::move(*file));
    return s;
  }

  void Fail(const std::string& path) {
    const MutexLock lock(&mu_);
    failing_ = path;
  }
  bool Fails(const std::string& path) {
    const MutexLock lock(&mu_);
    return path == failing_;
  }

  std::atomic<int> ahead{0};  // reads that the kernel was told of before they were waited for

 private:
  class SlowFile final : public RandomFile {
   public:
    SlowFile(SlowFiles* files, std::string path, std::unique_ptr<RandomFile> file)
        : files_(files), path_(std::move(path)), file_(std::move(file)) {}
    Status Read(uint64_t offset, size_t n, char* to) const override {
      ::usleep(3 * ReadCost::kWorth.count() / 1000);
      return files_->Fails(path_) ? Status::IOError("as told: " + path_)
                                  : file_->Read(offset, n, to);
    }
    uint64_t bytes() const override { return file_->bytes(); }
    void WillRead(uint64_t offset, size_t n) const override {
      files_->ahead++;
      file_->WillRead(offset, n);
    }
    DeviceBlocks BlocksOf(uint64_t offset, size_t n) const override {
      return files_->Fails(path_) ? DeviceBlocks() : file_->BlocksOf(offset, n);
    }

   private:
    SlowFiles* const files_;
    const std::string path_;
    const std::unique_ptr<RandomFile> file_;
  };

  Mutex mu_;
  std::string failing_ LAMELLA_GUARDED_BY(mu_);
};

struct Subject {
  EngineKind engine;
  bool direct;
};

class ParallelScan : public ::testing::TestWithParam<Subject> {
 protected:
  ParallelScan() {
    options_.engine = GetParam().engine;
    options_.files.direct_reads = GetParam().direct;
    options_.lightkv = {.segment_bytes = 64 << 10, .leaf_nodes_max = 4, .compaction_size = 16};
    options_.labdb = {.tree_bytes = 128 << 10,
                      .segment_bytes = 64 << 10,
                      .level1_bytes = 128 << 10,
                      .table_bytes = 64 << 10};
    options_.tlsm = {.table_bytes = 64 << 10,
                     .level1_bytes = 128 << 10,
                     .tiering = TlsmTiering::kLeveled,
                     .first_file_level = 1};
    options_.medium = MediumKind::kCacheLine;
    options_.pool_bytes_max = 64 << 20;
    options_.files.block_cache_share = 0;
  }
  void Open(bool parallel_reads) {
    options_.files.parallel_reads = parallel_reads;
    db_.reset();
    db_ = std::make_unique<DbImpl>(options_, path_, seams_);
    const Status s = db_->Init();
    if (s.IsNotSupported()) GTEST_SKIP() << s.ToString();
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
  DbSeams seams_{.files = &slow_};
  Random random_{TestSeed()};
  std::map<std::string, std::string> model_;
  std::unique_ptr<DbImpl> db_;
};

TEST_P(ParallelScan, ReadsTablesAtOnceAndShowsWhatIsThere) {
  Open(true);
  Fill();
  slow_.ahead = 0;
  WalkAsTheMap(db_.get(), model_, TestSeed());
  EXPECT_GT(slow_.ahead.load(), 10);
  EXPECT_EQ(Walk(), Concat(model_.size(), ", OK"));
  EXPECT_TRUE(db_->Close().ok());
}

TEST_P(ParallelScan, WithoutItEachReadIsWaitedFor) {
  Open(false);
  Fill();
  slow_.ahead = 0;
  WalkAsTheMap(db_.get(), model_, TestSeed());
  EXPECT_EQ(slow_.ahead.load(), 0);
}

TEST_P(ParallelScan, SeveralWalksBesideWritesAndFlushes) {
  Open(true);
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

TEST_P(ParallelScan, ATableThatCannotBeReadEndsTheWalkWhereItDidWithout) {
  options_.labdb.tree_bytes = 64 << 10;  // so that it has tables, too
  Open(true);
  Fill();
  ASSERT_TRUE(db_->Close().ok());
  EXPECT_FALSE(TableFilesOf(path_).empty());
  for (const std::string& path : TableFilesOf(path_)) {
    std::vector<std::string> walks;
    for (const bool parallel : {false, true}) {
      slow_.Fail("");
      Open(parallel);
      slow_.Fail(path);
      walks.push_back(Walk());
      EXPECT_NE(walks.back().find("IOError"), std::string::npos) << walks.back();
      slow_.Fail("");
      EXPECT_EQ(Walk(), Concat(model_.size(), ", OK"));
    }
    EXPECT_EQ(walks[0], walks[1]);
  }
}

// What LAB-DB reads ahead goes by the trees of now, the walk by those of when it began, or was
// renewed: here it never is.
TEST_P(ParallelScan, AWalkReadsAheadWhateverIsWrittenBesideIt) {
  seams_.renewed_after = std::chrono::hours(1);
  Open(true);
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
    slow_.ahead = 0;
    ASSERT_NO_FATAL_FAILURE(walk(100));
    if (GetParam().engine == EngineKind::kLabDb) {
      EXPECT_GT(slow_.ahead.load(), 10) << "it reads ahead in the trees of now";
    }
  }
  ASSERT_NO_FATAL_FAILURE(walk(SIZE_MAX));
  EXPECT_FALSE(it->Valid());
}

TEST_P(ParallelScan, AnIteratorKeepsTheStoreOpenAndOutlivesIt) {
  Open(true);
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

INSTANTIATE_TEST_SUITE_P(
    All, ParallelScan,
    ::testing::Values(Subject{EngineKind::kLightKv, false}, Subject{EngineKind::kLightKv, true},
                      Subject{EngineKind::kLabDb, false}, Subject{EngineKind::kLabDb, true},
                      Subject{EngineKind::kTlsm, true}),
    [](const auto& of) {
      return Concat(EngineName(of.param.engine), of.param.direct ? "Device" : "PageCache");
    });

}  // namespace
}  // namespace lamella::testing
