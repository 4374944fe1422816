#include "testing/fault_file_system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "testing/random_data.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

namespace fs = std::filesystem;

class FaultFiles : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return dir_.Sub(name); }
  std::string Read(const std::string& name) {
    std::string content;
    const Status s = files_.ReadFile(Path(name), &content);
    return s.ok() ? content : s.ToString();
  }
  // Stores `content` at `offset` and syncs, as a mapped file is; the sync's errno.
  int Store(const std::string& name, off_t offset, const std::string& content, bool sync) {
    const int fd = ::open(Path(name).c_str(), O_RDWR | O_CREAT, 0644);
    EXPECT_EQ(::pwrite(fd, content.data(), content.size(), offset),
              static_cast<ssize_t>(content.size()));
    ::close(fd);
    return sync ? files_.Before(OsCall::kSyncMap, Path(name)) : 0;
  }

  TempDir dir_;
  FaultFileSystem files_{dir_.path(), true};
};

TEST_F(FaultFiles, CountsAndFailsTheNthCall) {
  files_.Arm({.nth = 2, .error = EIO, .only = OsCall::kRename});
  EXPECT_TRUE(files_.WriteFile(Path("a"), "1").ok());
  EXPECT_EQ(files_.calls(), 1u);
  const Status s = files_.WriteFile(Path("a"), "2");
  EXPECT_TRUE(s.IsIOError() && s.message().find("errno 5") != std::string_view::npos)
      << s.ToString();
  EXPECT_EQ(files_.first_fault(), "rename of " + Path("a"));
  EXPECT_EQ(Read("a"), "1");
  EXPECT_TRUE(files_.WriteFile(Path("a"), "3").ok());
  EXPECT_EQ(files_.faults(), 1u);
  files_.Arm({.nth = 1, .persistent = true, .error = ENOSPC, .only = OsCall::kWrite});
  for (int i = 0; i < 3; i++) EXPECT_TRUE(files_.WriteFile(Path("a"), "4").IsNoSpace());
  EXPECT_EQ(files_.faults(), 3u);
  EXPECT_EQ(Read("a"), "3");
}

TEST_F(FaultFiles, WhatWasNotSyncedIsLostWithThePower) {
  Store("f", 0, std::string(8192, 'a'), true);
  ASSERT_TRUE(files_.SyncDirectory(dir_.path()).ok());
  Store("f", 0, "b", false);
  Store("nameless", 0, "c", true);
  files_.PowerCut(nullptr);
  EXPECT_EQ(Read("f"), std::string(8192, 'a'));
  EXPECT_FALSE(fs::exists(Path("nameless")));
}

TEST_F(FaultFiles, OfWhatWasNotSyncedAnySectorMayBeThere) {
  Store("f", 0, std::string(64 * 512, 'a'), true);
  ASSERT_TRUE(files_.SyncDirectory(dir_.path()).ok());
  Store("f", 0, std::string(64 * 512, 'b'), false);
  Random random(1);
  files_.PowerCut(&random);
  const std::string content = Read("f");
  ASSERT_EQ(content.size(), 64 * 512u);
  size_t kept = 0;
  for (size_t at = 0; at < content.size(); at += 512) {
    EXPECT_TRUE(content.compare(at, 512, std::string(512, 'a')) == 0 ||
                content.compare(at, 512, std::string(512, 'b')) == 0);
    kept += content[at] == 'b' ? 1 : 0;
  }
  EXPECT_TRUE(kept > 8 && kept < 56) << kept;
}

TEST_F(FaultFiles, ASizeThatWasNotSyncedMayComeBack) {
  for (const auto& [before, after] : {std::pair(8192u, 4096u), std::pair(4096u, 8192u)}) {
    std::set<size_t> sizes;
    for (uint64_t seed = 0; seed < 20; seed++) {
      for (const bool synced : {false, true}) {
        Store("f", 0, std::string(8192, 'a'), false);
        fs::resize_file(Path("f"), before);
        ASSERT_EQ(files_.Before(OsCall::kSyncMap, Path("f")), 0);
        ASSERT_TRUE(files_.SyncDirectory(dir_.path()).ok());
        fs::resize_file(Path("f"), after);
        if (synced) {
          ASSERT_EQ(files_.Before(OsCall::kSyncMap, Path("f")), 0);
        }
        Random random(seed);
        files_.PowerCut(synced ? nullptr : &random);
        const std::string content = Read("f");
        if (synced) {
          EXPECT_EQ(content.size(), after);
        } else {
          sizes.insert(content.size());
        }
        EXPECT_EQ(content.substr(0, std::min(before, after)),
                  std::string(std::min(before, after), 'a'));
      }
    }
    EXPECT_EQ(sizes, (std::set<size_t>{before, after}));
  }
}

// I1.
TEST_F(FaultFiles, WhatAFailedSyncDroppedNoLaterOneBringsBack) {
  Store("f", 0, std::string(8192, 'a'), true);
  ASSERT_TRUE(files_.SyncDirectory(dir_.path()).ok());
  files_.Arm({.nth = 1, .error = EIO});
  EXPECT_EQ(Store("f", 0, std::string(8192, 'b'), true), EIO);
  EXPECT_EQ(Store("f", 5000, "c", true), 0);  // this page is dirty again
  files_.PowerCut(nullptr);
  std::string expected = std::string(4096, 'a') + std::string(4096, 'b');
  expected[5000] = 'c';
  EXPECT_EQ(Read("f"), expected);
}

TEST_F(FaultFiles, ADirectoryTakesWhatIsInItAlong) {
  files_.Arm({.nth = 2, .error = EIO, .only = OsCall::kSyncDirectory});
  EXPECT_FALSE(files_.CreateDirectory(Path("d")).ok());
  ASSERT_TRUE(files_.WriteFile(Path("d/f"), "x").ok());
  files_.PowerCut(nullptr);
  EXPECT_FALSE(fs::exists(Path("d")));
  // A call that finds it made must not take it for durable.
  files_.Arm({.nth = 2, .error = EIO, .only = OsCall::kSyncDirectory});
  EXPECT_FALSE(files_.CreateDirectory(Path("d")).ok());
  EXPECT_TRUE(files_.CreateDirectory(Path("d")).ok());
  ASSERT_TRUE(files_.WriteFile(Path("d/f"), "x").ok());
  files_.PowerCut(nullptr);
  EXPECT_EQ(Read("d/f"), "x");
}

TEST_F(FaultFiles, ARemovalThatWasNotSyncedIsSyncedByTheNext) {
  ASSERT_TRUE(files_.WriteFile(Path("f"), "x").ok());
  files_.Arm({.nth = 1, .error = EIO, .only = OsCall::kSyncDirectory});
  EXPECT_FALSE(files_.RemoveFile(Path("f")).ok());
  EXPECT_TRUE(files_.RemoveFile(Path("f")).ok());
  files_.PowerCut(nullptr);
  EXPECT_FALSE(fs::exists(Path("f")));
}

// A small file is the old one or the new one, whole, whatever fails and however little moves at
// once.
TEST_F(FaultFiles, ASmallFileIsReplacedWholeOrNotAtAll) {
  files_.LimitTransfers(7);
  const std::string contents[2] = {std::string(300, 'o'), std::string(500, 'n')};
  for (const bool persistent : {false, true}) {
    for (uint64_t nth = 1;; nth++) {
      files_.Disarm();
      ASSERT_TRUE(files_.WriteFile(Path("f"), contents[0]).ok());
      files_.Arm({.nth = nth, .persistent = persistent, .error = EIO});
      const bool written = files_.WriteFile(Path("f"), contents[1]).ok();
      const bool met = files_.faults() > 0;
      EXPECT_NE(written, met) << "call " << nth << ": " << files_.first_fault();
      files_.Disarm();
      const std::string live = Read("f");
      files_.PowerCut(nullptr);
      const std::string durable = Read("f");
      EXPECT_TRUE((live == contents[0] && !written) || live == contents[1]) << "call " << nth;
      EXPECT_TRUE((durable == contents[0] && !written) || durable == contents[1]) << "call " << nth;
      if (!met) break;
    }
  }
}

// Tables: what is written by an AppendFile, and then read.
class FaultTables : public FaultFiles {
 protected:
  // Appends `content` to a new file; the status of its sync, where it is to be synced.
  Status Append(const std::string& name, const std::string& content, bool sync) {
    std::unique_ptr<AppendFile> file;
    Status s = files_.NewAppendFile(Path(name), &file);
    if (s.ok()) s = file->Append(content);
    return s.ok() && sync ? file->Sync() : s;
  }

  const std::string content_ = MakeValue(1, 2 * AppendFile::kBufferBytes);  // all of it is written
};

TEST_F(FaultTables, AfterSyncsOfFileAndDirectoryNothingIsLost) {
  for (uint64_t seed = 0; seed < 20; seed++) {
    const std::string content = content_.substr(seed * 1000);
    ASSERT_TRUE(Append("t", content, true).ok());
    ASSERT_TRUE(files_.SyncDirectory(dir_.path()).ok());
    Random random(seed);
    files_.PowerCut(seed == 0 ? nullptr : &random);
    ASSERT_TRUE(Read("t") == content) << "seed " << seed;
  }
}

// The check above can fail: here is no sync, or one that lies.
TEST_F(FaultTables, WithoutASyncBytesAreLost) {
  for (const bool lies : {false, true}) {
    std::set<size_t> sizes;
    size_t kept_sectors = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
      files_.Arm({.nth = 1, .error = EIO, .only = OsCall::kSync, .pretends = true});
      ASSERT_TRUE(Append("t", content_, lies).ok());
      ASSERT_TRUE(files_.SyncDirectory(dir_.path()).ok());
      Random random(seed);
      files_.PowerCut(&random);
      const std::string found = Read("t");
      EXPECT_FALSE(found == content_) << "seed " << seed;
      sizes.insert(found.size());
      for (size_t at = 0; at < found.size(); at += 512)
        kept_sectors += found.compare(at, 512, content_, at, 512) == 0 ? 1 : 0;
      ASSERT_TRUE(files_.RemoveFile(Path("t")).ok());
    }
    EXPECT_EQ(sizes, (std::set<size_t>{0, content_.size()}));
    EXPECT_GT(kept_sectors, 0u);
  }
}

TEST_F(FaultTables, WithoutASyncOfTheDirectoryTheNameIsLost) {
  ASSERT_TRUE(Append("t", content_, true).ok());
  files_.PowerCut(nullptr);
  EXPECT_FALSE(fs::exists(Path("t")));
}

TEST_F(FaultTables, AFileThatIsWrittenAnewMayBeTheOldOneUntilItsSync) {
  ASSERT_TRUE(Append("t", "old", true).ok());
  ASSERT_TRUE(files_.SyncDirectory(dir_.path()).ok());
  ASSERT_TRUE(Append("t", content_, false).ok());
  files_.PowerCut(nullptr);
  EXPECT_EQ(Read("t"), "old");
  ASSERT_TRUE(Append("t", content_, true).ok());
  files_.PowerCut(nullptr);
  EXPECT_TRUE(Read("t") == content_);
}

// I1 holds for pages, and those of the second file are new, though it has the bytes of the first.
TEST_F(FaultTables, AfterAFailedSyncTheSameFileCanBeWrittenAnew) {
  files_.Arm({.nth = 1, .error = EIO, .only = OsCall::kSync});
  EXPECT_TRUE(Append("t", content_, true).IsIOError());
  ASSERT_TRUE(files_.SyncDirectory(dir_.path()).ok());
  ASSERT_TRUE(Append("t", content_, true).ok());
  files_.PowerCut(nullptr);
  EXPECT_TRUE(Read("t") == content_);
}

TEST_F(FaultTables, ARemovedTableStaysRemovedAndItsNameCanBeAnothers) {
  ASSERT_TRUE(Append("t", content_, true).ok());
  ASSERT_TRUE(files_.SyncDirectory(dir_.path()).ok());
  ASSERT_TRUE(files_.RemoveFile(Path("t")).ok());
  ASSERT_TRUE(Append("t", "another", true).ok());
  files_.PowerCut(nullptr);
  EXPECT_FALSE(fs::exists(Path("t")));
}

}  // namespace
}  // namespace lamella::testing
