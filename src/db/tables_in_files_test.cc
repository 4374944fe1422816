// Stores whose tables lie in files beside the pool: what becomes of them when there is more than it
// holds, when files or the pool are gone, when where they belong changes.

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "base/sanitizer.h"
#include "db/db_impl.h"
#include "file/table_file_name.h"
#include "testing/conformance.h"
#include "testing/expect_clean.h"
#include "testing/file_system_over.h"
#include "testing/held_up_file.h"
#include "testing/open_descriptors.h"
#include "testing/random_data.h"
#include "testing/resource_limit.h"
#include "testing/says.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

namespace fs = std::filesystem;

class TablesInFiles : public ::testing::Test {
 protected:
  TablesInFiles() {
    options_.engine = EngineKind::kTlsm;
    options_.medium = MediumKind::kCacheLine;
    options_.memory_budget_bytes = 4 << 20;
    options_.memtable_bytes = 128 << 10;
    options_.tlsm.tiering = TlsmTiering::kLeveled;
    options_.tlsm.first_file_level = 1;
    options_.tlsm.table_bytes = 64 << 10;
    options_.tlsm.level1_bytes = 256 << 10;
  }
  Status Open(FileSystem* files = FileSystem::Posix(), bool inline_jobs = true) {
    db_.reset();
    db_ = std::make_unique<DbImpl>(options_, path_, DbSeams{nullptr, inline_jobs, files});
    return db_->Init();
  }
  static std::string Key(int i) { return Concat("key", 100000 + i); }
  static std::string Value(int i) { return MakeValue(static_cast<uint64_t>(i), 200); }
  void Fill(int from, int to) {
    for (int i = from; i < to; i++) {
      const Status s = db_->Put({}, Key(i), Value(i));
      ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
    }
  }
  /// Of these keys how many have their value; no other value is shown, and no error.
  int CountRight(int from, int to) {
    int right = 0;
    for (int i = from; i < to; i++) {
      std::string value;
      const Status s = db_->Get({}, Key(i), &value);
      EXPECT_TRUE(s.IsNotFound() || (s.ok() && value == Value(i))) << s.ToString();
      right += s.ok() ? 1 : 0;
    }
    return right;
  }
  std::vector<std::string> Files() const { return TableFilesOf(path_); }
  /// Everything in files, and a little in the pool alone.
  void Build() {
    ASSERT_TRUE(Open().ok());
    Fill(0, 4000);
    ASSERT_TRUE(db_->CompactRange({}, {}).ok());
    Fill(4000, 4100);
    ASSERT_TRUE(db_->Close().ok());
    db_.reset();
    ASSERT_GT(Files().size(), 4u);
  }
  uint64_t GetsOf(std::string_view source) {
    for (const auto& at : db_->GetStats().sources) {
      if (at.name == source) return at.gets;
    }
    ADD_FAILURE() << "no source " << source;
    return 0;
  }

  Options options_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  std::unique_ptr<DbImpl> db_;
};

TEST_F(TablesInFiles, TakeWhatThePoolDoesNotHold) {
  for (const TlsmTiering tiering : {TlsmTiering::kLeveled, TlsmTiering::kLru}) {
    options_.tlsm.tiering = tiering;
    // Where levels decide, three of them need more room than there is: what is full is written out.
    options_.tlsm.first_file_level = 4;
    options_.pool_bytes_max = 4 << 20;
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    ASSERT_TRUE(Open().ok());
    constexpr int kCount = kSanitized ? 40'000 : 100'000;  // of 8 MB, or 20
    Fill(0, kCount);
    EXPECT_EQ(CountRight(0, kCount), kCount);
    const Stats stats = db_->GetStats();
    EXPECT_LE(stats.pool_bytes, options_.pool_bytes_max);
    EXPECT_GT(stats.file_bytes, uint64_t{150} * kCount);
    auto it = db_->NewIterator({});
    int seen = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next(), seen++) ASSERT_EQ(it->key(), Key(seen));
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
    EXPECT_EQ(seen, kCount);
    it.reset();
    ASSERT_NO_FATAL_FAILURE(ExpectClean(db_.get()));
    ASSERT_TRUE(db_->Close().ok());
  }
}

// Keys that begin alike and values that compress: a file has a tenth of what its records take in
// the pool, where merges may bring them back. (They took room that flushes had been promised, and
// then nothing was written out any more: writes were refused for ever, and so was Close.)
TEST_F(TablesInFiles, TakeWhatThePoolDoesNotHoldHoweverSmallTheyAre) {
  options_.files.compression = FileCompression::kZstd;
  options_.tlsm.tiering = TlsmTiering::kLru;
  options_.tlsm.level0_tables = 2;
  options_.tlsm.level1_bytes = 128 << 10;
  options_.tlsm.level_factor = 4;
  options_.space_target = 1.8;
  options_.memtable_bytes = 512 << 10;
  options_.background_threads = 1;
  options_.pool_bytes_max = 8 << 20;
  ASSERT_TRUE(Open().ok());
  Random random(1);
  std::map<std::string, size_t> sizes;
  for (int i = 1; i <= 24'000; i++) {
    const std::string key = Concat(std::string(60, 'p'), random.Uniform(30'000));
    const size_t size = random.Uniform(1500);
    Status s = db_->Put({}, key, std::string(size, 'v'));
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
    sizes[key] = size;
    if (i % 1000 == 0) s = db_->CompactRange({}, {});
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
    if (i % 9000 != 0) continue;
    s = db_->Close();
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
    ASSERT_TRUE(Open().ok());
  }
  for (const auto& [key, size] : sizes) {
    std::string value;
    ASSERT_TRUE(db_->Get({}, key, &value).ok());
    ASSERT_EQ(value, std::string(size, 'v'));
  }
  EXPECT_TRUE(db_->Close().ok());
}

// Writes are refused while the file system is full, and no longer.
TEST_F(TablesInFiles, TakeWhatThePoolDoesNotHoldOnceThereIsRoomAgain) {
  for (const TlsmTiering tiering : {TlsmTiering::kLeveled, TlsmTiering::kLru}) {
    FullFiles hook({kTableFileSuffix});
    hook.full.store(true);
    const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
    options_.tlsm.tiering = tiering;
    options_.tlsm.first_file_level = 4;
    options_.pool_bytes_max = 4 << 20;
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    ASSERT_TRUE(Open(files.get()).ok());
    Status s;
    int count = 0;
    for (; s.ok(); count++) {
      ASSERT_LT(count, 100'000);
      s = db_->Put({}, Key(count), Value(count));
    }
    ASSERT_TRUE(s.IsNoSpace()) << s.ToString();
    count--;
    EXPECT_TRUE(db_->Put({}, Key(count), Value(count)).IsNoSpace());
    EXPECT_EQ(CountRight(0, count), count);
    hook.full.store(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    Fill(count, count + 1000);
    EXPECT_EQ(CountRight(0, count + 1000), count + 1000);
    db_.reset();  // before the file system
  }
}

// Compactions, too, of a pool that has room and so refuses no write that would ask for them.
TEST_F(TablesInFiles, AreCompactedOnceThereIsRoomAgain) {
  FullFiles hook({kTableFileSuffix});
  hook.full.store(true);
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  ASSERT_TRUE(Open(files.get()).ok());
  constexpr int kCount = 20'000;
  Fill(0, kCount);
  const auto level0_tables = [this] { return db_->GetStats().levels.at(0).tables; };
  EXPECT_GT(level0_tables(), 2 * options_.tlsm.level0_tables);
  EXPECT_TRUE(Files().empty());
  hook.full.store(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  Fill(kCount, kCount + 1);
  ASSERT_TRUE(db_->WaitForIdle().ok());
  EXPECT_LE(level0_tables(), options_.tlsm.level0_tables);
  EXPECT_FALSE(Files().empty());
  EXPECT_EQ(CountRight(0, kCount + 1), kCount + 1);
  db_.reset();  // before the file system
}

// What is read stays in the pool, what is not read is written out.
TEST_F(TablesInFiles, HoldWhatWasLongestNotRead) {
  options_.tlsm.tiering = TlsmTiering::kLru;
  // More than level 0 ever has, four tables of 376 KB: else all others would be written out.
  options_.tlsm.pool_table_bytes = 3 << 20;
  options_.tlsm.level1_bytes = 16 << 20;
  ASSERT_TRUE(Open().ok());
  for (int from = 0; from < 32000; from += 500) {
    Fill(from, from + 500);
    ASSERT_TRUE(db_->WaitForIdle().ok());
    EXPECT_EQ(CountRight(0, 500), 500);
  }
  ASSERT_GT(Files().size(), 4u);
  const uint64_t in_files = GetsOf("tables in files");
  EXPECT_EQ(CountRight(0, 500), 500);
  EXPECT_LT(GetsOf("tables in files") - in_files, 100u) << "of 500 that are always read";
  EXPECT_EQ(CountRight(4000, 4500), 500);
  EXPECT_GT(GetsOf("tables in files") - in_files, 400u) << "of 500 that were never read";
}

/// Knows no O_DIRECT.
class NoDirectReads final : public FileSystemOver {
 public:
  NoDirectReads() : FileSystemOver(FileSystem::PosixOver(nullptr)) {}
  Status NewRandomFile(const std::string& path, ReadVia via,
                       std::unique_ptr<RandomFile>* file) override {
    if (via == ReadVia::kDevice) return Status::NotSupported("a test's");
    return FileSystemOver::NewRandomFile(path, via, file);
  }
};

TEST_F(TablesInFiles, AreReadAsAskedForOrNoStoreIsOpened) {
  NoDirectReads files;
  options_.files.direct_reads = true;
  for (const EngineKind kind : {EngineKind::kTlsm, EngineKind::kLightKv, EngineKind::kLabDb}) {
    options_.engine = kind;
    EXPECT_TRUE(Open(&files).IsNotSupported());
    db_.reset();
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
  }
  options_.engine = EngineKind::kTlsm;
  options_.tlsm.tiering = TlsmTiering::kNone;
  EXPECT_TRUE(Open(&files).ok()) << "it has no files";
  db_.reset();
}

// That a file system is full holds up no merge of what stays in the pool.
TEST_F(TablesInFiles, AreNoConditionOfMergesInThePool) {
  FullFiles hook({kTableFileSuffix});
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  options_.tlsm.pool_table_bytes = 256 << 10;
  options_.tlsm.first_file_level = 2;
  for (const TlsmTiering tiering : {TlsmTiering::kLru, TlsmTiering::kLeveled}) {
    SCOPED_TRACE(tiering == TlsmTiering::kLru ? "lru" : "leveled");
    const bool by_level = tiering == TlsmTiering::kLeveled;
    options_.tlsm.tiering = tiering;
    options_.tlsm.level1_bytes = by_level ? 256 << 10 : 16 << 20;
    hook.full.store(true);
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    ASSERT_TRUE(Open(files.get()).ok());
    constexpr int kCount = 20'000;
    for (int from = 0; from < kCount; from += 1000) {
      Fill(from, from + 1000);
      ASSERT_TRUE(db_->WaitForIdle().ok());
      const Stats stats = db_->GetStats();  // none before the first flush
      EXPECT_TRUE(stats.levels.empty() || stats.levels[0].tables <= options_.tlsm.level0_tables);
    }
    EXPECT_TRUE(Files().empty());
    hook.full.store(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    Fill(kCount, kCount + 1000);
    ASSERT_TRUE(db_->WaitForIdle().ok());
    EXPECT_FALSE(Files().empty());
    EXPECT_EQ(CountRight(0, kCount + 1000), kCount + 1000);
    db_.reset();  // before the file system
  }
}

// What is kept of one stays as the next is looked at.
TEST_F(TablesInFiles, RepairKeepsWhatIsLeftOfSeveralThatAreDamaged) {
  ASSERT_NO_FATAL_FAILURE(Build());
  const std::vector<std::string> files = Files();
  for (size_t i = 0; i < 4; i++) {
    std::string bytes = ReadWhole(files[i]);
    bytes[bytes.size() / 2] ^= 1;
    WriteWhole(files[i], bytes);
  }
  RepairReport report;
  ASSERT_TRUE(RepairDB(path_, options_, &report).ok());
  ASSERT_TRUE(Open().ok());
  constexpr uint64_t kOfABlock = 100;  // records, at most
  EXPECT_GT(report.records_lost, 0u);
  EXPECT_LE(report.records_lost, 4 * kOfABlock);
  EXPECT_EQ(CountRight(0, 4100), static_cast<int>(4100 - report.records_lost));
}

// A job that began before the Resume, whose fault that was to end, fails after it (Scheduler I1).
TEST_F(TablesInFiles, WhatAJobMetBeforeAResumeIsNoErrorAfterIt) {
  options_.engine = EngineKind::kLightKv;
  for (const bool is_resumed : {true, false}) {
    HeldUpFile files;
    ASSERT_TRUE(Open(&files, false).ok());
    Fill(0, 100);
    files.fails_next.store(true);
    std::future<Status> flush = std::async(std::launch::async, [this] { return db_->Flush(); });
    files.is_held.get_future().wait();
    EXPECT_TRUE(!is_resumed || db_->Resume().ok());
    files.may_fail.set_value();
    EXPECT_EQ(flush.get().ok(), is_resumed);
    std::string error;
    EXPECT_TRUE(db_->GetProperty("lamella.background-error", &error));
    EXPECT_EQ(error.find("IOError: a test's") == std::string::npos, is_resumed) << error;
    EXPECT_EQ(db_->Put({}, "key", "value").ok(), is_resumed);
    db_.reset();  // before the file system
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
  }
}

// No I/O is done inside an epoch: not of Gets, which begin with a pin, nor of walks or merges.
TEST_F(TablesInFiles, AreReadByNobodyWhoIsPinned) {
  ASSERT_NO_FATAL_FAILURE(Build());
  TableCalls calls;
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&calls);
  options_.files.block_cache_share = 0;
  ASSERT_TRUE(Open(files.get()).ok());
  calls.pool = db_->pool();
  EXPECT_EQ(CountRight(0, 4100), 4100);
  EXPECT_GT(calls.reads, 4000u);
  {
    const EpochPin control(db_->pool()->readers());
    EXPECT_EQ(calls.pinned, 0u);
    EXPECT_EQ(CountRight(0, 1), 1);
    EXPECT_GT(calls.pinned, 0u) << "the control";
  }
  calls.pinned = 0;
  const auto count = [this] {
    const auto it = db_->NewIterator({});
    int records = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) records++;
    return records;
  };
  EXPECT_EQ(count(), 4100);
  for (int i = 0; i < 4000; i += 7) ASSERT_TRUE(db_->Put({}, Key(i), Value(i)).ok());
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  EXPECT_EQ(calls.pinned, 0u);
  calls.pool = nullptr;
  db_.reset();
}

// A table in a file is asked first, which lets go of the reader's pin: the value keeps the store
// open all the same.
TEST_F(TablesInFiles, AValueInThePoolBelowThemIsPinned) {
  options_.tlsm.tiering = TlsmTiering::kNone;
  options_.tlsm.level1_bytes = 64 << 10;  // so that some are on level 2
  options_.space_target = 10;             // and stay there
  ASSERT_TRUE(Open().ok());
  Fill(0, 4000);
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  ASSERT_TRUE(db_->Close().ok());
  options_.tlsm.tiering = TlsmTiering::kLeveled;
  options_.tlsm.level0_tables = 1;
  options_.tlsm.level1_bytes = 16 << 20;
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 4000; i += 70) ASSERT_TRUE(db_->Put({}, Key(i), Value(i)).ok());
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());
  ASSERT_FALSE(Files().empty());
  const uint64_t in_pool = GetsOf("tables");
  PinnedValue value;
  ASSERT_TRUE(db_->Get({}, Key(1), &value).ok());
  ASSERT_EQ(GetsOf("tables"), in_pool + 1) << db_->engine()->Describe();
  const Status s = db_->Close();
  ASSERT_TRUE(s.IsBusy()) << s.ToString();
  EXPECT_TRUE(value.view() == Value(1));
  db_.reset();
  EXPECT_TRUE(value.view() == Value(1)) << "as long as it is there";
  value.Reset();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(CountRight(0, 4000), 4000);
  ASSERT_TRUE(db_->Close().ok());
}

TEST_F(TablesInFiles, ComeToWhereTheyBelong) {
  ASSERT_NO_FATAL_FAILURE(Build());
  options_.tlsm.tiering = TlsmTiering::kNone;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(CountRight(0, 4100), 4100);
  Fill(4100, 4200);
  for (int i = 0; i < 4000; i += 7) ASSERT_TRUE(db_->Put({}, Key(i), Value(i)).ok());
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  EXPECT_EQ(CountRight(0, 4200), 4200);
  EXPECT_TRUE(Files().empty()) << Files()[0];
  options_.tlsm.tiering = TlsmTiering::kLeveled;
  options_.files.compression = FileCompression::kLz4;
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 4000; i += 7) ASSERT_TRUE(db_->Put({}, Key(i), Value(i)).ok());
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  EXPECT_EQ(CountRight(0, 4200), 4200);
  EXPECT_FALSE(Files().empty());
}

// Of more tables than the process may have files open some are opened anew when they are read.
TEST_F(TablesInFiles, AFileThatIsTakenAwayMeanwhileIsNoMissingKey) {
  ASSERT_NO_FATAL_FAILURE(Build());
  options_.files.block_cache_share = 0;
  const rlim_t few = 2 * (Files().size() - 2);  // half of it is for tables
  ASSERT_GT(few, OpenDescriptors() + 3);
  std::optional<ResourceLimit> tight(std::in_place, RLIMIT_NOFILE, few);
  const Status opened = Open();
  int wrong = 0;
  int right = 0;
  if (opened.ok()) {
    EXPECT_EQ(CountRight(0, 4100), 4100);
    for (const std::string& file : Files()) fs::remove(file);
    for (int i = 0; i < 4000; i++) {
      std::string value;
      const Status s = db_->Get({}, Key(i), &value);
      EXPECT_TRUE(s.ok() ? value == Value(i) : s.IsCorruption() && Says(s, ".table"))
          << s.ToString();
      (s.ok() ? right : wrong)++;
    }
  }
  tight.reset();
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  EXPECT_GT(wrong, 0);
  EXPECT_GT(right, 0) << "of the files that are open still";
  db_.reset();
}

TEST_F(TablesInFiles, OneThatIsMissingOrCutIsNamedAndTheRestSaved) {
  for (const bool is_missing : {true, false}) {
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    ASSERT_NO_FATAL_FAILURE(Build());
    const std::string hit = Files()[1];
    if (is_missing) {
      fs::remove(hit);
    } else {
      WriteWhole(hit, ReadWhole(hit).substr(0, fs::file_size(hit) / 2));
    }
    const Status s = Open();
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    EXPECT_TRUE(Says(s, hit) && Says(s, "repair")) << s.ToString();
    db_.reset();
    RepairReport report;
    ASSERT_TRUE(RepairDB(path_, options_, &report).ok());
    EXPECT_GT(report.records_lost, 0u);
    EXPECT_FALSE(report.notes.empty());
    ASSERT_TRUE(Open().ok());
    const int right = CountRight(0, 4100);
    EXPECT_EQ(right + static_cast<int>(report.records_lost), 4100);
    EXPECT_GT(right, is_missing ? 3000 : 3500);
    ASSERT_TRUE(db_->Close().ok());
  }
}

// As 1700000000000.table, which somebody named by the time.
TEST_F(TablesInFiles, AFileWithANumberThatNoTableHasIsSomebodyElses) {
  ASSERT_NO_FATAL_FAILURE(Build());
  const std::vector<std::string> foreign = {
      path_ + "/" + TableFileName(kTableNumberMax + 1),
      path_ + "/" + TableFileName(~uint64_t{0} - 1),
  };
  for (const std::string& file : foreign) WriteWhole(file, "no table");
  for (int from = 4100; from < 8000; from += 1300) {  // new tables, and regions, each time
    const Status s = Open();
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(CountRight(0, from), from);
    ASSERT_NO_FATAL_FAILURE(Fill(from, from + 1000));
    ASSERT_TRUE(db_->CompactRange({}, {}).ok());
    ASSERT_NO_FATAL_FAILURE(Fill(from + 1000, from + 1300));
    ASSERT_TRUE(db_->Close().ok());
  }
  db_.reset();
  for (const std::string& file : foreign) EXPECT_EQ(ReadWhole(file), "no table");
}

// Of one that may not come: a pipe is opened by no reader before a writer.
TEST_F(TablesInFiles, OneThatIsNoFileIsNamed) {
  ASSERT_NO_FATAL_FAILURE(Build());
  const std::string hit = Files()[1];
  const std::string content = ReadWhole(hit);
  const std::vector<std::function<void()>> others = {
      [&] { ASSERT_EQ(::mkfifo(hit.c_str(), 0600), 0); }, [&] { fs::create_directory(hit); },
      [&] { fs::create_symlink("/dev/zero", hit); }, [&] { fs::create_symlink("nowhere", hit); }};
  for (const auto& put : others) {
    fs::remove(hit);
    ASSERT_NO_FATAL_FAILURE(put());
    const Status s = Open();
    EXPECT_TRUE(s.IsCorruption() && Says(s, hit)) << s.ToString();
    db_.reset();
    CheckReport report;
    ASSERT_TRUE(CheckDB(path_, options_, &report).ok());
    ASSERT_EQ(report.problems.size(), 1u);
    EXPECT_NE(report.problems[0].find(hit), std::string::npos) << report.problems[0];
  }
  fs::remove(hit);
  WriteWhole(hit, content);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(CountRight(0, 4100), 4100);
}

// The open that a check makes begins compaction, which comes by the damage, and stops.
TEST_F(TablesInFiles, ACheckNamesDamageThatCompactionCameByFirst) {
  ASSERT_NO_FATAL_FAILURE(Build());
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 4000; i += 7) ASSERT_TRUE(db_->Put({}, Key(i), Value(i)).ok());
  ASSERT_TRUE(db_->Close().ok());
  const std::vector<std::string> files = Files();
  for (const std::string& path : files) {
    std::string content = ReadWhole(path);
    content[content.size() / 3] ^= 1;
    WriteWhole(path, content);
  }
  options_.tlsm.level0_tables = 1;  // so that it has work
  CheckReport report;
  const Status s = CheckDB(path_, options_, &report);
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_GE(report.problems.size(), files.size());
}

// The pool may lie elsewhere, and that be out of reach: no new store takes its place.
TEST_F(TablesInFiles, APoolThatALinkDoesNotReachIsMissing) {
  ASSERT_NO_FATAL_FAILURE(Build());
  const std::string pool = path_ + "/pool.0";
  const std::string elsewhere = dir_.Sub("elsewhere");
  fs::rename(pool, elsewhere);
  fs::create_symlink(elsewhere, pool);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(db_->Close().ok());
  const std::string away = dir_.Sub("away");
  fs::rename(elsewhere, away);
  const Status s = Open();
  EXPECT_TRUE(s.IsCorruption() && Says(s, pool)) << s.ToString();
  db_.reset();
  CheckReport report;
  EXPECT_TRUE(CheckDB(path_, options_, &report).ok());
  EXPECT_FALSE(report.clean());
  EXPECT_TRUE(RepairDB(path_, options_).IsCorruption());
  EXPECT_TRUE(fs::is_symlink(pool));
  EXPECT_FALSE(fs::exists(elsewhere));
  fs::rename(away, elsewhere);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(CountRight(0, 4100), 4100);
}

TEST_F(TablesInFiles, AreSavedWhereThePoolIsGone) {
  for (const bool was_cut : {false, true}) {
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    ASSERT_NO_FATAL_FAILURE(Build());
    fs::remove(path_ + "/pool.0");
    const std::vector<std::string> files = Files();
    Status s = Open();
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    EXPECT_TRUE(Says(s, path_ + "/pool.0") && Says(s, files[0]) && Says(s, "repair"))
        << s.ToString();
    db_.reset();
    EXPECT_EQ(Files(), files);
    Options existing = options_;
    existing.create_if_missing = false;
    s = DbImpl(existing, path_, {}).Init();
    EXPECT_TRUE(s.IsCorruption()) << "it is no directory without a store: " << s.ToString();
    CheckReport checked;
    ASSERT_TRUE(CheckDB(path_, options_, &checked).ok());
    ASSERT_EQ(checked.problems.size(), 1u);
    EXPECT_NE(checked.problems[0].find(path_ + "/pool.0"), std::string::npos)
        << checked.problems[0];
    Options any = options_;
    any.engine.reset();
    s = RepairDB(path_, any);
    EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
    EXPECT_TRUE(Says(s, "tlsm, lightkv")) << "each could have written them: " << s.ToString();
    if (was_cut) {  // a repair that was cut short has made a pool, and nothing else
      ASSERT_TRUE(DbImpl(options_, path_, {}).CreateLostPool().ok());
      s = Open();
      EXPECT_TRUE(s.IsCorruption()) << s.ToString();
      EXPECT_TRUE(Says(s, "repair")) << s.ToString();
      db_.reset();
      EXPECT_EQ(Files(), files);
    }
    RepairReport report;
    s = RepairDB(path_, options_, &report);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(report.records_kept, 4000u);
    EXPECT_TRUE(report.loss_unknown) << "also by one that goes on where another was cut";
    ASSERT_TRUE(Open().ok());
    EXPECT_EQ(CountRight(0, 4000), 4000);
    EXPECT_EQ(CountRight(4000, 4100), 0) << "they were in the pool alone";
    Fill(4000, 4100);
    ASSERT_TRUE(db_->CompactRange({}, {}).ok());
    EXPECT_EQ(CountRight(0, 4100), 4100);
    ASSERT_TRUE(db_->Close().ok());
  }
}

TEST_F(TablesInFiles, GoWithTheStore) {
  ASSERT_NO_FATAL_FAILURE(Build());
  WriteWhole(path_ + "/" + ValueFileName({.number = 3, .first = 12}), "of any engine");
  ASSERT_TRUE(DestroyDB(path_, options_).ok());
  EXPECT_FALSE(fs::exists(path_));
}

// Of each design that has any, in each of its layouts.
class TablesInFilesOfEngines : public ::testing::TestWithParam<EngineLayout> {
 protected:
  TablesInFilesOfEngines() {
    options_.medium = MediumKind::kCacheLine;
    options_.memory_budget_bytes = 4 << 20;
    options_.pool_bytes_max = 8 << 20;
    GetParam().ApplyTo(&options_);
  }
  uint64_t BytesInFiles() const {
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (IsDataFileName(entry.path().filename().string())) bytes += entry.file_size();
    }
    return bytes;
  }

  Options options_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
};

// Compaction is tried again and again: what each try left would fill the disk.
TEST_P(TablesInFilesOfEngines, ATableThatTheCatalogHasNoRoomForLeavesNoFile) {
  DbImpl db(options_, path_, DbSeams{nullptr, true});
  ASSERT_TRUE(db.Init().ok());
  for (int i = 0; i < 100; i++)
    ASSERT_TRUE(db.Put({}, Concat("key", 1000 + i), MakeValue(1, 100)).ok());
  ASSERT_TRUE(db.CompactRange({}, {}).ok());
  {
    Persister persister(db.pool()->gate(), WriteCause::kGc);
    Status s;
    for (ChunkRef chunk; s.ok();)
      s = db.pool()->Claim(0, ChunkKind::kCatalog, 0, 1, 1, Claimant::kIndex, &persister, &chunk);
    ASSERT_TRUE(s.IsNoSpace()) << s.ToString();
  }
  Status s;
  for (int i = 0; s.ok() && i < 1000; i++) {  // until its chunk is full
    s = db.CompactRange({}, {});
    ASSERT_EQ(BytesInFiles(), db.GetStats().file_bytes) << s.ToString();
  }
  EXPECT_TRUE(s.ok() || s.IsNoSpace()) << s.ToString();
  for (int i = 0; i < 3; i++) (void)db.CompactRange({}, {}).ok();
  EXPECT_EQ(BytesInFiles(), db.GetStats().file_bytes);
  db.Abandon();
}

std::vector<EngineLayout> LayoutsWithFiles() {
  std::vector<EngineLayout> layouts = EngineLayouts();
  std::erase_if(layouts, [](const EngineLayout& layout) {
    Options options;
    layout.ApplyTo(&options);
    return !lamella::testing::TablesInFiles(options);
  });
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(All, TablesInFilesOfEngines, ::testing::ValuesIn(LayoutsWithFiles()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lamella::testing
