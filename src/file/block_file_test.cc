#include "file/block_file.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "base/random.h"
#include "file/file_system.h"
#include "testing/emulated.h"
#include "testing/fault_file_system.h"
#include "testing/open_descriptors.h"
#include "testing/random_data.h"
#include "testing/resource_limit.h"
#include "testing/says.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::Between;
using testing::FaultFileSystem;
using testing::MakeValue;
using testing::OpenDescriptors;
using testing::ResourceLimit;
using testing::Says;
using testing::TempDir;
using testing::TestSeed;

constexpr size_t kBuffer = AppendFile::kBufferBytes;

// Appends `content` in pieces of `piece_bytes` and syncs; how far it came is in *file.
Status Write(FileSystem* fs, const std::string& path, std::string_view content, size_t piece_bytes,
             std::unique_ptr<AppendFile>* file) {
  Status s = fs->NewAppendFile(path, file);
  while (s.ok() && !content.empty()) {
    const std::string_view piece = content.substr(0, piece_bytes);
    s = (*file)->Append(piece);
    content.remove_prefix(piece.size());
  }
  return s.ok() ? (*file)->Sync() : s;
}

Status Write(FileSystem* fs, const std::string& path, std::string_view content,
             size_t piece_bytes) {
  std::unique_ptr<AppendFile> file;
  return Write(fs, path, content, piece_bytes, &file);
}

// The kernel would end the process with a signal.
TEST(AppendFile, TheFileSizeLimitIsNoSpaceAndNoSignal) {
  const TempDir dir;
  std::optional<ResourceLimit> tight(std::in_place, RLIMIT_FSIZE, 3 * kBuffer);
  const Status fits = Write(FileSystem::Posix(), dir.Sub("fits"), MakeValue(1, 3 * kBuffer), 1000);
  const Status s = Write(FileSystem::Posix(), dir.Sub("f"), MakeValue(1, 3 * kBuffer + 1), 1000);
  tight.reset();
  EXPECT_TRUE(fits.ok()) << fits.ToString();
  EXPECT_TRUE(s.IsNoSpace() && Says(s, "ulimit -f") && Says(s, dir.Sub("f"))) << s.ToString();
}

// All of a file; what went wrong instead, where something did.
Status Read(FileSystem* fs, const std::string& path, std::string* content) {
  std::unique_ptr<RandomFile> file;
  Status s = fs->NewRandomFile(path, &file);
  if (!s.ok()) return s;
  content->assign(file->bytes(), '?');
  return file->Read(0, content->size(), content->data());
}

class BlockFile : public ::testing::Test {
 protected:
  std::string Content() {
    std::string content;
    const Status s = Read(FileSystem::Posix(), path_, &content);
    return s.ok() ? content : s.ToString();
  }

  TempDir dir_;
  const std::string path_ = dir_.Sub("table");
  FileSystem* const fs_ = FileSystem::Posix();
};

// The same through a file system that fails.
class BlockFileFaults : public BlockFile {
 protected:
  FaultFileSystem faulty_{dir_.path(), false};
};

TEST_F(BlockFile, WhatWasAppendedIsReadBack) {
  const size_t sizes[] = {0, 1, kBuffer - 1, kBuffer, kBuffer + 1, 2 * kBuffer, 3 * kBuffer + 5};
  const std::string source = MakeValue(1, 7 * kBuffer);
  for (const size_t first : sizes) {
    for (const size_t second : sizes) {
      const std::string_view content = std::string_view(source).substr(0, first + second);
      std::unique_ptr<AppendFile> file;
      ASSERT_TRUE(fs_->NewAppendFile(path_, &file).ok());
      ASSERT_TRUE(file->Append(content.substr(0, first)).ok());
      ASSERT_TRUE(file->Append(content.substr(first)).ok());
      EXPECT_EQ(file->bytes(), content.size());
      ASSERT_TRUE(file->Sync().ok());
      EXPECT_TRUE(Content() == content) << first << " and " << second << " bytes";
    }
  }
}

TEST_F(BlockFile, AnOldFileIsEmptiedAndNoFileIsNotFound) {
  std::unique_ptr<RandomFile> none;
  Status s = fs_->NewRandomFile(path_, &none);
  EXPECT_TRUE(s.IsNotFound() && Says(s, "open " + path_)) << s.ToString();
  EXPECT_EQ(none, nullptr);
  ASSERT_TRUE(Write(fs_, path_, "the old, longer one", 4).ok());
  ASSERT_TRUE(Write(fs_, path_, "new", 4).ok());
  EXPECT_EQ(Content(), "new");
  std::unique_ptr<AppendFile> file;
  s = fs_->NewAppendFile(dir_.Sub("none/table"), &file);
  EXPECT_TRUE(s.IsNotFound() && Says(s, "create " + dir_.Sub("none/table"))) << s.ToString();
  EXPECT_EQ(file, nullptr);
}

TEST_F(BlockFile, AnyPlaceReadsAsTheModelHasIt) {
  Random random(TestSeed());
  for (int round = 0; round < 10; round++) {
    FaultFileSystem limited(dir_.path(), false);
    std::string model;
    std::unique_ptr<AppendFile> file;
    ASSERT_TRUE(limited.NewAppendFile(path_, &file).ok());
    for (int append = 0; append < 200; append++) {
      const size_t max = random.OneIn(50) ? 2 * kBuffer : 8192;
      const std::string piece = MakeValue(random.Next(), Between(&random, 0, max));
      limited.LimitTransfers(random.OneIn(2) ? 0 : Between(&random, 100, kBuffer));
      ASSERT_TRUE(file->Append(piece).ok());
      model += piece;
      ASSERT_EQ(file->bytes(), model.size());
      if (!random.OneIn(20)) continue;
      ASSERT_TRUE(file->Sync().ok());
      std::unique_ptr<RandomFile> reader;
      ASSERT_TRUE(limited.NewRandomFile(path_, &reader).ok());
      ASSERT_EQ(reader->bytes(), model.size());
      for (int i = 0; i < 20; i++) {
        const size_t from = Between(&random, 0, model.size());
        std::string found(Between(&random, 0, std::min<size_t>(model.size() - from, 100000)), '?');
        ASSERT_TRUE(reader->Read(from, found.size(), found.data()).ok());
        ASSERT_TRUE(found == model.substr(from, found.size())) << found.size() << " at " << from;
      }
    }
  }
}

TEST_F(BlockFile, ReadsEndWhereTheFileDoes) {
  ASSERT_TRUE(Write(fs_, path_, "0123456789", 10).ok());
  std::unique_ptr<RandomFile> file;
  ASSERT_TRUE(fs_->NewRandomFile(path_, &file).ok());
  char to[16] = {};
  EXPECT_TRUE(file->Read(9, 1, to).ok());
  EXPECT_EQ(to[0], '9');
  EXPECT_TRUE(file->Read(10, 0, to).ok());
  // Where, how many bytes, and how many of them there are.
  for (const auto& [offset, n, found] : {std::tuple(uint64_t{9}, size_t{2}, "1"),
                                         {0, 11, "10"},
                                         {10, 1, "0"},
                                         {11, 4, "0"},
                                         {UINT64_MAX, 4, "0"},
                                         {4, SIZE_MAX, "6"}}) {
    const Status s = file->Read(offset, n, to);
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    EXPECT_TRUE(Says(s, "read " + path_ + " at offset " + std::to_string(offset) + ": expected " +
                            std::to_string(n) + " bytes, found " + found + ";"))
        << s.ToString();
  }
}

TEST_F(BlockFile, AFileThatIsCutOffWhileItIsOpenIsCorrupt) {
  ASSERT_TRUE(Write(fs_, path_, "0123456789", 10).ok());
  std::unique_ptr<RandomFile> file;
  ASSERT_TRUE(fs_->NewRandomFile(path_, &file).ok());
  std::filesystem::resize_file(path_, 6);
  char to[16];
  EXPECT_TRUE(file->Read(2, 4, to).ok());
  const Status s = file->Read(2, 8, to);
  EXPECT_TRUE(s.IsCorruption() && Says(s, "expected 8 bytes, found 4;")) << s.ToString();
  EXPECT_EQ(file->bytes(), 10u);
}

// What is read past the page cache is what is read through it, wherever it starts and ends.
TEST_F(BlockFile, TheDeviceGivesWhatThePageCacheDoes) {
  Random random(TestSeed());
  for (const size_t size : {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{50000}}) {
    const std::string content = MakeValue(size, size);
    ASSERT_TRUE(Write(fs_, path_, content, kBuffer).ok());
    FaultFileSystem limited(dir_.path(), false);
    std::unique_ptr<RandomFile> file;
    const Status opened = limited.NewRandomFile(path_, ReadVia::kDevice, &file);
    if (opened.IsNotSupported()) GTEST_SKIP() << opened.ToString();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    ASSERT_EQ(file->bytes(), size);
    for (int i = 0; i < 300; i++) {
      limited.LimitTransfers(random.OneIn(2) ? 0 : Between(&random, 1, 20000));
      const size_t from = random.OneIn(5) ? size : random.Uniform(size + 1);
      std::string found(random.Uniform(size - from + 1), '?');
      const Status s = file->Read(from, found.size(), found.data());
      ASSERT_TRUE(s.ok()) << s.ToString();
      ASSERT_TRUE(found == content.substr(from, found.size())) << found.size() << " at " << from;
    }
    std::string more(100, '?');
    const Status s = file->Read(size - 1, 100, more.data());
    EXPECT_TRUE(s.IsCorruption() && Says(s, "expected 100 bytes, found 1;")) << s.ToString();
    // Cut off while it is open, within a block of the device and at the start of one.
    if (size != 50000) continue;
    for (const size_t cut : {size_t{9000}, size_t{8192}}) {
      std::filesystem::resize_file(path_, cut);
      const Status late = file->Read(8100, 2000, more.assign(2000, '?').data());
      EXPECT_TRUE(late.IsCorruption() &&
                  Says(late, "expected 2000 bytes, found " + std::to_string(cut - 8100) + ";"))
          << late.ToString();
      EXPECT_TRUE(file->Read(100, 8000, more.assign(8000, '?').data()).ok());
    }
  }
}

TEST_F(BlockFile, AFileSystemThatKnowsNoWayPastThePageCacheIsNamed) {
  if (IsEmulated()) GTEST_SKIP() << "qemu gives another file for that of /proc";
  std::unique_ptr<RandomFile> file;
  const Status s = fs_->NewRandomFile("/proc/self/stat", ReadVia::kDevice, &file);
  EXPECT_TRUE(s.IsNotSupported() && Says(s, "/proc/self/stat")) << s.ToString();
}

TEST_F(BlockFile, AFileIsReadAfterItsNameIsGone) {
  ASSERT_TRUE(Write(fs_, path_, "0123456789", 10).ok());
  std::unique_ptr<RandomFile> file;
  ASSERT_TRUE(fs_->NewRandomFile(path_, &file).ok());
  ASSERT_TRUE(fs_->RemoveFile(path_).ok());
  char to[4];
  ASSERT_TRUE(file->Read(3, 4, to).ok());
  EXPECT_EQ(std::string_view(to, 4), "3456");
}

TEST_F(BlockFile, ConcurrentReadersOfOneFile) {
  const std::string content = MakeValue(1, 1 << 20);
  ASSERT_TRUE(Write(fs_, path_, content, kBuffer).ok());
  std::unique_ptr<RandomFile> file;
  ASSERT_TRUE(fs_->NewRandomFile(path_, &file).ok());
  const uint64_t seed = TestSeed();
  uint64_t wrong[2] = {};
  const auto read = [&](uint64_t reader) {
    Random random(seed + reader);
    std::string found;
    for (int i = 0; i < 2000; i++) {
      const size_t from = random.Uniform(content.size());
      found.assign(random.Uniform(std::min<size_t>(content.size() - from, 5000) + 1), '?');
      const bool same = file->Read(from, found.size(), found.data()).ok() &&
                        content.compare(from, found.size(), found) == 0;
      wrong[reader] += same ? 0 : 1;
    }
  };
  std::thread other(read, 1);
  read(0);
  other.join();
  EXPECT_EQ(wrong[0] + wrong[1], 0u);
}

TEST_F(BlockFile, AFullDeviceIsNoSpace) {
  std::unique_ptr<AppendFile> file;
  ASSERT_TRUE(fs_->NewAppendFile("/dev/full", &file).ok());
  EXPECT_TRUE(file->Append("collected").ok());
  const Status s = file->Append(std::string(kBuffer, 'x'));
  EXPECT_TRUE(s.IsNoSpace() && Says(s, "write /dev/full")) << s.ToString();
}

TEST_F(BlockFileFaults, SmallAppendsAreWrittenTogetherAndLargeOnesAtOnce) {
  std::unique_ptr<AppendFile> file;
  ASSERT_TRUE(Write(&faulty_, path_, std::string(2 * kBuffer + 100, 'x'), 100, &file).ok());
  EXPECT_EQ(faulty_.seen(OsCall::kWrite), 3u);
  ASSERT_TRUE(file->Append(std::string(8 * kBuffer, 'x')).ok());
  EXPECT_EQ(faulty_.seen(OsCall::kWrite), 4u);
  ASSERT_TRUE(file->Sync().ok());
  EXPECT_EQ(faulty_.seen(OsCall::kWrite), 4u);
}

TEST_F(BlockFileFaults, WhatWillBeSyncedIsWrittenBeforeTheSyncWhichSaysHowItWent) {
  std::unique_ptr<AppendFile> file;
  ASSERT_TRUE(faulty_.NewAppendFile(path_, &file).ok());
  file->WillSync();  // nothing
  ASSERT_TRUE(file->Append("one").ok());
  EXPECT_EQ(faulty_.seen(OsCall::kWrite), 0u);
  file->WillSync();
  EXPECT_EQ(faulty_.seen(OsCall::kWrite), 1u);
  ASSERT_TRUE(file->Append("two").ok());
  ASSERT_TRUE(file->Sync().ok());
  EXPECT_EQ(faulty_.seen(OsCall::kWrite), 2u);
  std::string found;
  ASSERT_TRUE(Read(&faulty_, path_, &found).ok());
  EXPECT_EQ(found, "onetwo");

  ASSERT_TRUE(file->Append("three").ok());
  faulty_.Arm({.nth = 1, .error = EIO, .only = OsCall::kWrite});
  file->WillSync();
  faulty_.Disarm();
  const Status s = file->Sync();
  EXPECT_TRUE(s.IsIOError()) << s.ToString();
  EXPECT_EQ(file->Append("four").ToString(), s.ToString());  // keeps I1
}

TEST_F(BlockFileFaults, EachCallThatFailsIsNamedWithItsPath) {
  const std::string content = MakeValue(1, 2 * kBuffer + 10);
  const size_t descriptors = OpenDescriptors();
  for (const auto& [call, name] : {std::pair(OsCall::kCreate, "create "),
                                   {OsCall::kWrite, "write "},
                                   {OsCall::kSync, "sync "},
                                   {OsCall::kOpen, "open "},
                                   {OsCall::kStat, "stat "},
                                   {OsCall::kRead, "read "}}) {
    for (const int error : {EIO, ENOSPC}) {
      faulty_.LimitTransfers(kBuffer);  // each piece of a file fails for itself
      uint64_t nth = 1;
      for (bool met = true; met; nth++) {
        faulty_.Arm({.nth = nth, .error = error, .only = call});
        std::string found;
        Status s = Write(&faulty_, path_, content, kBuffer / 2);
        if (s.ok()) s = Read(&faulty_, path_, &found);
        met = faulty_.faults() > 0;
        EXPECT_EQ(s.ok(), !met) << faulty_.first_fault();
        EXPECT_TRUE(!s.ok() || found == content);
        if (s.ok()) continue;
        EXPECT_EQ(s.IsNoSpace(), error == ENOSPC) << s.ToString();
        EXPECT_EQ(s.IsIOError(), error == EIO) << s.ToString();
        EXPECT_TRUE(Says(s, name + path_)) << s.ToString();
      }
      const bool moves = call == OsCall::kWrite || call == OsCall::kRead;
      EXPECT_EQ(nth, moves ? 5u : 3u) << name;  // three pieces or one call, and then none
    }
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

// I1.
TEST_F(BlockFileFaults, AfterACallFailedEveryOtherAnswersTheSame) {
  for (const OsCall call : {OsCall::kWrite, OsCall::kSync}) {
    faulty_.Arm({.nth = 1, .error = EIO, .only = call});
    std::unique_ptr<AppendFile> file;
    const Status failed = Write(&faulty_, path_, std::string(kBuffer, 'x'), kBuffer, &file);
    ASSERT_TRUE(failed.IsIOError());
    const uint64_t bytes = file->bytes();
    EXPECT_EQ(bytes, call == OsCall::kWrite ? 0 : kBuffer);
    const uint64_t writes = faulty_.seen(OsCall::kWrite);
    const uint64_t syncs = faulty_.seen(OsCall::kSync);
    for (int i = 0; i < 3; i++) {
      file->WillSync();
      EXPECT_EQ(file->Append("").ToString(), failed.ToString());
      EXPECT_EQ(file->Append(std::string(2 * kBuffer, 'x')).ToString(), failed.ToString());
      EXPECT_EQ(file->Sync().ToString(), failed.ToString());
    }
    EXPECT_EQ(file->bytes(), bytes);
    EXPECT_EQ(faulty_.seen(OsCall::kWrite), writes);
    EXPECT_EQ(faulty_.seen(OsCall::kSync), syncs);
  }
}

TEST_F(BlockFileFaults, AReadThatFailedMayBeTriedAgain) {
  ASSERT_TRUE(Write(&faulty_, path_, "0123456789", 10).ok());
  std::unique_ptr<RandomFile> file;
  ASSERT_TRUE(faulty_.NewRandomFile(path_, &file).ok());
  faulty_.LimitTransfers(3);
  faulty_.Arm({.nth = 3, .error = EIO, .only = OsCall::kRead});
  char to[10];
  const Status s = file->Read(0, 10, to);
  EXPECT_TRUE(s.IsIOError() && Says(s, path_ + " at offset 6")) << s.ToString();
  ASSERT_TRUE(file->Read(0, 10, to).ok());
  EXPECT_EQ(std::string_view(to, 10), "0123456789");
}

TEST_F(BlockFileFaults, TransfersMayBeShort) {
  const std::string content = MakeValue(1, 700);
  for (size_t limit = 1; limit <= content.size(); limit++) {
    faulty_.LimitTransfers(limit);
    std::string found;
    ASSERT_TRUE(Write(&faulty_, path_, content, 1 + limit / 2).ok());
    ASSERT_TRUE(Read(&faulty_, path_, &found).ok());
    ASSERT_TRUE(found == content) << limit;
  }
}

TEST_F(BlockFileFaults, ASignalInterruptsNothing) {
  const std::string content = MakeValue(1, 700);
  faulty_.LimitTransfers(70);
  for (const OsCall call : {OsCall::kWrite, OsCall::kRead}) {
    for (uint64_t nth = 1; nth <= 10; nth++) {
      faulty_.Arm({.nth = nth, .error = EINTR, .only = call});
      std::string found;
      ASSERT_TRUE(Write(&faulty_, path_, content, 700).ok());
      ASSERT_TRUE(Read(&faulty_, path_, &found).ok());
      EXPECT_TRUE(found == content);
      EXPECT_EQ(faulty_.faults(), 1u);
    }
  }
}

}  // namespace
}  // namespace lamella
