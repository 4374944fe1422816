// LAB-DB's files of values that are missing, cut off, or older copies, while its trees lead there:
// reads of what they held say which file, and no other value is shown for it.

#include <system_error>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/labdb_engine_test_base.h"
#include "file/table_file_name.h"
#include "testing/fault_file_system.h"
#include "testing/proof.h"
#include "testing/random_data.h"
#include "testing/says.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

/// A file system with no room for one more name of a file of values, while it is `full`.
class FullNames final : public OsHook {
 public:
  int Before(OsCall call, const std::string& path) override {
    const bool is_one = call == OsCall::kCreate && path.ends_with(kValueFileSuffix);
    return is_one && full.load() ? ENOSPC : 0;
  }
  size_t Allowed(OsCall, size_t n) override { return n; }
  std::atomic<bool> full{false};
};

/// A file system with room for so many bytes of values.
class RoomForValues final : public OsHook {
 public:
  RoomForValues(std::string directory, uint64_t bytes_max)
      : directory_(std::move(directory)), bytes_max_(bytes_max) {}
  int Before(OsCall call, const std::string& path) override {
    if (call != OsCall::kWrite || !path.ends_with(kValueFileSuffix)) return 0;
    uint64_t bytes = 0;
    for (const std::string& file : ValueFilesOf(directory_)) {
      std::error_code gone;
      const uint64_t size = std::filesystem::file_size(file, gone);
      bytes += gone ? 0 : size;
    }
    return bytes >= bytes_max_ ? ENOSPC : 0;
  }
  size_t Allowed(OsCall, size_t n) override { return n; }

 private:
  const std::string directory_;
  const uint64_t bytes_max_;
};

class LabDbValueFiles : public LabDbTest {
 protected:
  LabDbValueFiles() { options_.labdb = {.tree_bytes = 1 << 20, .segment_bytes = 64 << 10}; }

  /// Takes all files of values away, or cuts each to so many bytes. Answers their paths.
  std::vector<std::string> TakeAway(bool all, uint64_t bytes_left) const {
    std::vector<std::string> files = ValueFilesOf(path_);
    EXPECT_FALSE(files.empty());
    for (const std::string& file : files) {
      if (all) {
        std::filesystem::remove(file);
      } else {
        std::filesystem::resize_file(file, bytes_left);
      }
    }
    return files;
  }
};

// While it lies in the pool, that is, and once is not enough.
TEST_F(LabDbValueFiles, AreNotReadForWhatWasAskedForTwiceBefore) {
  const ScopedEnv on_disk("TMPDIR", "/var/tmp");  // a file system that can
  constexpr uint64_t kAsked = 20;
  const TempDir disk;
  FaultFileSystem files(disk.path(), false);
  options_.files.direct_reads = true;
  DbImpl db(options_, disk.Sub("store"), DbSeams{.files = &files});
  const Status s = db.Init();
  if (s.IsNotSupported()) GTEST_SKIP() << s.ToString();
  ASSERT_TRUE(s.ok()) << s.ToString();
  const auto put = [&](uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++) ASSERT_TRUE(db.Put({}, KeyOf(i), MakeValue(i, 200)).ok());
  };
  // Of the keys from one on; answers how often files were read.
  const auto get = [&](uint64_t from) {
    const uint64_t before = files.seen(OsCall::kRead);
    for (uint64_t i = from; i < from + kAsked; i++) {
      std::string value;
      EXPECT_TRUE(db.Get({}, KeyOf(i), &value).ok());
      EXPECT_EQ(value, MakeValue(i, 200));
    }
    return files.seen(OsCall::kRead) - before;
  };
  ASSERT_NO_FATAL_FAILURE(put(0, 2 * kAsked));
  EXPECT_EQ(get(0) + get(0) + get(kAsked), 0u);
  ASSERT_NO_FATAL_FAILURE(put(2 * kAsked, 3000));
  ASSERT_TRUE(db.Flush().ok());
  ASSERT_TRUE(db.WaitForIdle().ok());
  EXPECT_EQ(get(0), 0u);
  EXPECT_EQ(get(kAsked), kAsked);
  EXPECT_TRUE(db.Close().ok());
}

// Nothing but a flush tells what of it nobody needs any more, and none is due for long.
TEST_F(LabDbValueFiles, AreNotFullForEverOfWhatWasReplaced) {
  RoomForValues hook(path_, 2 << 20);
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  options_.labdb.hot_updates = 0;
  options_.memtable_bytes = 32 << 20;
  ASSERT_TRUE(Open({.files = files.get()}).ok());
  uint64_t refused = 0;
  for (uint64_t i = 0; i < 4000; i++) {  // 16 MB
    Status s;
    const Stopwatch watch;
    do {
      s = db_->Put({}, KeyOf(i % 10), MakeValue(i, 4000));
      refused += s.IsNoSpace() ? 1 : 0;
    } while (s.IsNoSpace() && watch.Seconds() < 20);
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
  }
  EXPECT_GT(refused, 0u);
  for (uint64_t i = 3990; i < 4000; i++) {
    std::string value;
    ASSERT_TRUE(db_->Get({}, KeyOf(i % 10), &value).ok());
    EXPECT_EQ(value, MakeValue(i, 4000));
  }
  ASSERT_TRUE(db_->Close().ok());
  db_.reset();
}

// As far as it can be: of a file that is gone nothing says its number.
TEST_F(LabDbValueFiles, AMissingValueFileIsNamed) {
  for (const bool is_missing : {true, false}) {
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    ASSERT_TRUE(Open().ok());
    for (uint64_t i = 0; i < 2000; i++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), MakeValue(i, 200)));
    ASSERT_TRUE(db_->Close().ok());
    db_.reset();
    const std::vector<std::string> files = TakeAway(is_missing, 0);
    ASSERT_TRUE(Open().ok());
    uint64_t lost = 0;
    for (uint64_t i = 0; i < 2000; i++) {
      std::string value;
      const Status s = db_->Get({}, KeyOf(i), &value);
      if (s.ok()) {  // of a segment that is in the pool still
        ASSERT_EQ(value, MakeValue(i, 200));
        continue;
      }
      lost++;
      ASSERT_TRUE(s.IsCorruption()) << s.ToString();
      ASSERT_TRUE(Says(s, Concat("a file of ", path_))) << s.ToString();
      ASSERT_TRUE(Says(s, "put the missing .values file back")) << s.ToString();
      const bool named =
          std::ranges::any_of(files, [&](const std::string& file) { return Says(s, file); });
      ASSERT_EQ(named, !is_missing) << s.ToString();
    }
    EXPECT_GT(lost, 1000u);
    db_.reset();
  }
}

// Numbers of segments of which missing files alone told are not drawn again: what was logged since
// would show where keys lead whose values are lost (V3 of the value log).
TEST_F(LabDbValueFiles, WhatALostValueFileHeldShowsNoOtherValue) {
  constexpr uint64_t kKeysPut = 1000;
  // The last one before the loss and the first one after it are too large for a segment: each is
  // the first value of a file that a flush draws the next number for.
  const auto value_of = [](uint64_t i) {
    return MakeValue(i, i == kKeysPut - 1 || i == kKeysPut ? 40'000 : 200);
  };
  const auto put_and_flush = [&](uint64_t i) {
    ASSERT_TRUE(db_->Flush().ok());
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), value_of(i)));
    ASSERT_TRUE(db_->Flush().ok());
  };
  const auto count_lost = [&] {
    uint64_t lost = 0;
    for (uint64_t i = 0; i < 2 * kKeysPut; i++) {
      std::string value;
      const Status s = db_->Get({}, KeyOf(i), &value);
      EXPECT_TRUE((s.IsCorruption() && i < kKeysPut) || s.ok()) << i << ": " << s.ToString();
      EXPECT_TRUE(!s.ok() || value == value_of(i)) << i;
      lost += s.ok() ? 0 : 1;
    }
    return lost;
  };
  for (const bool is_missing : {true, false}) {
    for (const bool was_killed : {true, false}) {
      SCOPED_TRACE(Concat(is_missing ? "missing" : "older", was_killed ? ", killed" : ", closed"));
      ASSERT_TRUE(DestroyDB(path_, options_).ok());
      ASSERT_TRUE(Open().ok());
      for (uint64_t i = 0; i < kKeysPut - 1; i++)
        ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), value_of(i)));
      if (was_killed) {  // then some is in the log alone
        ASSERT_NO_FATAL_FAILURE(Put(KeyOf(kKeysPut - 1), value_of(kKeysPut - 1)));
      } else {
        ASSERT_NO_FATAL_FAILURE(put_and_flush(kKeysPut - 1));
      }
      ASSERT_TRUE(db_->WaitForIdle().ok());
      if (was_killed) {
        db_->Abandon();
      } else {
        ASSERT_TRUE(db_->Close().ok());
      }
      db_.reset();
      TakeAway(is_missing, options_.labdb.segment_bytes);  // as each was with its first segment
      Status s = Open();
      ASSERT_TRUE(s.ok()) << s.ToString();
      ASSERT_NO_FATAL_FAILURE(put_and_flush(kKeysPut));
      for (uint64_t i = kKeysPut + 1; i < 2 * kKeysPut; i++)
        ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), value_of(i)));
      ASSERT_TRUE(db_->WaitForIdle().ok());
      const uint64_t lost = count_lost();
      EXPECT_GT(lost, 0u);
      s = db_->Close();
      ASSERT_TRUE(s.ok()) << s.ToString();
      ASSERT_TRUE(Open().ok());
      EXPECT_EQ(count_lost(), lost);
      db_.reset();
      RepairReport report;
      ASSERT_TRUE(RepairDB(path_, options_, &report).ok());
      EXPECT_EQ(report.records_lost, lost);
      EXPECT_EQ(report.records_kept, 2 * kKeysPut - lost);
    }
  }
}

// B4: of each file one key is not written again.
TEST_F(LabDbValueFiles, AFileIsNotKeptForEverForOneKeyOfIt) {
  options_.labdb.tree_bytes = 16 << 20;  // which these keys never fill
  options_.labdb.hot_updates = 0;
  ASSERT_TRUE(Open().ok());
  constexpr uint64_t kFileBytes = 64 * (64 << 10);
  constexpr uint64_t kValueBytes = 4000;
  constexpr uint64_t kPuts = 20 * kFileBytes / kValueBytes;
  const auto is_once = [](uint64_t i) { return i % 500 == 0; };
  const auto key_of = [&](uint64_t i) { return is_once(i) ? KeyOf(i) : Concat("again", i % 10); };
  for (uint64_t i = 0; i < kPuts; i++)
    ASSERT_NO_FATAL_FAILURE(Put(key_of(i), MakeValue(i, kValueBytes)));
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());
  EXPECT_LT(db_->GetStats().file_bytes, 10 * kFileBytes);
  for (uint64_t i = 0; i < kPuts; i++) {
    if (key_of(i) != KeyOf(i) && i + 10 < kPuts) continue;  // it was written again
    std::string value;
    ASSERT_TRUE(db_->Get({}, key_of(i), &value).ok()) << i;
    ASSERT_EQ(value, MakeValue(i, kValueBytes)) << i;
  }
}

// The same of small files: each flush that moves values makes one.
TEST_F(LabDbValueFiles, FlushesOfAFewKeysLeaveAFewHundredFiles) {
  // Of a tree of so many it is not looked for files each time.
  constexpr uint64_t kKeysPut = 60'000;
  constexpr uint64_t kFlushes = 600;
  options_.labdb.tree_bytes = 16 << 20;
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < kKeysPut + kFlushes; i++) {
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), std::to_string(i)));
    if (i < kKeysPut) continue;
    ASSERT_TRUE(db_->Flush().ok());
    ASSERT_TRUE(db_->WaitForIdle().ok());
  }
  EXPECT_LT(ValueFilesOf(path_).size(), 400u);
  for (uint64_t i = 0; i < kKeysPut + kFlushes; i++) {
    std::string value;
    ASSERT_TRUE(db_->Get({}, KeyOf(i), &value).ok()) << i;
    ASSERT_EQ(value, std::to_string(i));
  }
}

// No file is made then, and none of those that nobody needs can go: that is no error (B5). Of each
// try of the flush there are enough records to have it look for such files again.
TEST_F(LabDbValueFiles, AFlushNeedsNoRoomForANameToTellOfNumbers) {
  FullNames hook;
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  options_.labdb.hot_updates = 0;
  options_.memtable_bytes = 8 << 20;
  db_ = std::make_unique<DbImpl>(options_, path_, DbSeams{.files = files.get()});
  ASSERT_TRUE(db_->Init().ok());
  for (uint64_t i = 0; i < 2000; i++) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), MakeValue(i, 200)));
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());
  EXPECT_FALSE(ValueFilesOf(path_).empty());
  hook.full.store(true);
  for (int round = 0; round < 2; round++) {  // nothing is named after the first
    for (uint64_t i = 0; i < 2000; i++) ASSERT_TRUE(db_->Delete({}, KeyOf(i)).ok());
    const Status s = db_->Flush();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  hook.full.store(false);
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  ASSERT_TRUE(db_->Close().ok());
  db_.reset();  // before the file system, which its jobs write to
}

}  // namespace
}  // namespace lamella::testing
