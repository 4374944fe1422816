// A store's directory in which the process may make, rename and remove no files, as where its
// permissions or its owner were changed: what has tables in files can be opened and read. It takes
// writes for as long as those need no file, and then says which file it could not make, and what
// is to be done; nothing acknowledged is lost, and once that is done it goes on.

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/os_hook.h"
#include "db/db_impl.h"
#include "file/table_file_name.h"
#include "testing/conformance.h"
#include "testing/random_data.h"
#include "testing/says.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

namespace fs = std::filesystem;

// Answers as the kernel does, root too, while it has an error to answer: EACCES of a directory that
// may not be written, in which files that are there may be; EROFS of a whole file system.
class UnwritableDirectory final : public OsHook {
 public:
  explicit UnwritableDirectory(std::string directory) : directory_(std::move(directory)) {}
  int Before(OsCall call, const std::string& path) override {
    const int error = error_.load();
    if (error == 0 || !path.starts_with(directory_)) return 0;
    switch (call) {
      case OsCall::kCreate:
        return error == EROFS || !fs::exists(path) ? error : 0;
      case OsCall::kRename:
      case OsCall::kRemove:
      case OsCall::kMakeDirectory:
      case OsCall::kRemoveDirectory:
        return error;
      default:
        return 0;
    }
  }
  size_t Allowed(OsCall /*call*/, size_t n) override { return n; }
  void Answer(int error) { error_.store(error); }

 private:
  const std::string directory_;
  std::atomic<int> error_{0};
};

class ReadOnlyDirectory : public ::testing::TestWithParam<EngineLayout> {
 protected:
  ReadOnlyDirectory() {
    GetParam().ApplyTo(&options_);
    Apply(TraitsOf(GetParam().engine).files_soon, &options_);
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 16 << 20;
    options_.log_shards = 1;
    options_.medium = MediumKind::kCacheLine;
    options_.background_threads = 1;
  }
  ~ReadOnlyDirectory() override {
    os_.Answer(0);
    db_.reset();  // before the file system
  }
  Status Open() {
    db_.reset();
    db_ = std::make_unique<DbImpl>(options_, path_,
                                   DbSeams{.hook = nullptr, .files = files_.get(), .os = &os_});
    return db_->Init();
  }
  Status Put(uint64_t i, uint64_t value) {
    const std::string key = MakeKey(KeyShape::kCommonPrefix, i);
    std::string bytes = MakeValue(value, 200);
    const Status s = db_->Put({}, key, bytes);
    if (s.ok()) acknowledged_[key] = std::move(bytes);
    return s;
  }
  void Fill(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++) {
      const Status s = Put(i, i);
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
  }
  /// Until it is refused for more than a pool that is full: a writer may come to its end before the
  /// job that is to make room finds that it can make no file.
  Status PutUntilRefused(uint64_t from) {
    Status s;
    for (uint64_t i = from; (s.ok() || s.IsNoSpace()) && i < from + 100'000; i++) s = Put(i, i);
    return s;
  }
  void ExpectAll() {
    for (const auto& [key, value] : acknowledged_) {
      std::string found;
      const Status s = db_->Get({}, key, &found);
      ASSERT_TRUE(s.ok()) << s.ToString();
      ASSERT_EQ(found, value);
    }
    auto at = acknowledged_.begin();
    const auto it = db_->NewIterator({});
    for (it->SeekToFirst(); it->Valid() && at != acknowledged_.end(); it->Next(), ++at) {
      ASSERT_EQ(it->key(), at->first);
      ASSERT_EQ(it->value(), at->second);
    }
    ASSERT_TRUE(it->status().ok()) << it->status().ToString();
    ASSERT_TRUE(!it->Valid() && at == acknowledged_.end());
  }
  /// Which file, and what is to be done.
  void ExpectNamed(const Status& s) {
    EXPECT_TRUE(Says(s, Concat("create ", path_, "/"))) << s.ToString();
    EXPECT_TRUE(Says(s, ".table") || Says(s, ".values")) << s.ToString();
    EXPECT_TRUE(Says(s, "the directory must be writable for this user")) << s.ToString();
  }

  Options options_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  UnwritableDirectory os_{path_};
  const std::unique_ptr<FileSystem> files_ = FileSystem::PosixOver(&os_);
  std::unique_ptr<DbImpl> db_;
  std::map<std::string, std::string> acknowledged_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReadOnlyDirectory);
INSTANTIATE_TEST_SUITE_P(All, ReadOnlyDirectory, ::testing::ValuesIn(EngineLayoutsWithFiles()),
                         [](const auto& param) { return param.param.name; });

TEST_P(ReadOnlyDirectory, IsReadAndTakesWritesUntilTheyNeedAFile) {
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(Fill(0, 3000));
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());
  Status s = db_->Close();
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_FALSE(DataFilesOf(path_).empty());

  os_.Answer(EACCES);
  s = Open();
  ASSERT_TRUE(s.ok()) << "to be read: " << s.ToString();
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
  s = PutUntilRefused(3000);  // a compaction that is due may be first
  EXPECT_TRUE(s.IsReadOnly() && Says(s, "call DB::Resume")) << s.ToString();
  ExpectNamed(s);
  EXPECT_TRUE(Put(0, 77).IsReadOnly());
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
  s = db_->Resume();
  if (s.ok()) s = PutUntilRefused(acknowledged_.size());  // the next one that needs a file
  ExpectNamed(s);
  ASSERT_NO_FATAL_FAILURE(ExpectAll());

  os_.Answer(0);
  s = db_->Resume();
  ASSERT_TRUE(s.ok()) << s.ToString();
  const uint64_t count = acknowledged_.size();
  ASSERT_NO_FATAL_FAILURE(Fill(count, count + 1000));
  s = db_->CompactRange({}, {});
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
  s = db_->Close();
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
}

// Also one that was killed when it could write no more, whose log is full.
TEST_P(ReadOnlyDirectory, NothingIsLostByACloseOrAKillThere) {
  for (const bool was_killed : {false, true}) {
    os_.Answer(0);
    ASSERT_TRUE(Open().ok());
    ASSERT_NO_FATAL_FAILURE(Fill(acknowledged_.size(), acknowledged_.size() + 500));
    ASSERT_TRUE(db_->Flush().ok());
    os_.Answer(EACCES);
    Status s = PutUntilRefused(acknowledged_.size());
    ExpectNamed(s);
    if (was_killed) {
      db_->Abandon();
    } else {
      s = db_->Close();
      ASSERT_FALSE(s.ok());
      ExpectNamed(s);
    }
    s = Open();
    if (s.ok()) {
      ASSERT_NO_FATAL_FAILURE(ExpectAll());
      ExpectNamed(PutUntilRefused(acknowledged_.size()));
    } else {
      EXPECT_TRUE(Says(s, path_) && Says(s, "must be writable for this user")) << s.ToString();
    }
    os_.Answer(0);
    s = Open();
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_NO_FATAL_FAILURE(ExpectAll());
    s = db_->Close();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
}

TEST_P(ReadOnlyDirectory, AnOpenThatHasAFileToRemoveSaysWhich) {
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(Fill(0, 300));
  ASSERT_TRUE(db_->Close().ok());
  db_.reset();
  const std::string left = path_ + "/" + TableFileName(1'000'000);  // by a crash
  WriteWhole(left, "a part of a table");
  os_.Answer(EACCES);
  const Status s = Open();
  EXPECT_TRUE(s.IsIOError() && Says(s, left) && Says(s, "must be writable for this user"))
      << s.ToString();
  os_.Answer(0);
  ASSERT_TRUE(Open().ok());
  EXPECT_FALSE(fs::exists(left));
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
}

TEST_P(ReadOnlyDirectory, ACreationThereIsRefused) {
  fs::create_directory(path_);
  for (const int error : {EACCES, EROFS}) {
    os_.Answer(error);
    const Status s = Open();
    EXPECT_TRUE(s.IsIOError() && Says(s, path_) && Says(s, "must be writable for this user"))
        << s.ToString();
    EXPECT_TRUE(fs::is_empty(path_));
  }
  os_.Answer(0);
  ASSERT_TRUE(Open().ok());
}

// A whole file system that is read-only: the pool, too, could not be written.
TEST_P(ReadOnlyDirectory, OfAReadOnlyFileSystemIsRefusedAtOpen) {
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(Fill(0, 300));
  ASSERT_TRUE(db_->Close().ok());
  os_.Answer(EROFS);
  const Status s = Open();
  EXPECT_TRUE(s.IsIOError() && Says(s, path_) && Says(s, "must be writable for this user"))
      << s.ToString();
  os_.Answer(0);
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
}

}  // namespace
}  // namespace lamella::testing
