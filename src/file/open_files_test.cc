#include "file/open_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/sanitizer.h"
#include "file/pending_reads.h"
#include "testing/emulated.h"
#include "testing/file_system_over.h"
#include "testing/open_descriptors.h"
#include "testing/random_data.h"
#include "testing/resource_limit.h"
#include "testing/says.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::MakeValue;
using testing::OpenDescriptors;
using testing::ResourceLimit;
using testing::Says;
using testing::TestSeed;

// Counts what is opened to be read.
class CountingFiles final : public testing::FileSystemOver {
 public:
  CountingFiles() : FileSystemOver(FileSystem::Posix()) {}
  using FileSystem::NewRandomFile;
  Status NewRandomFile(const std::string& path, ReadVia via,
                       std::unique_ptr<RandomFile>* file) override {
    opens++;
    return base_->NewRandomFile(path, via, file);
  }
  std::atomic<uint64_t> opens{0};
};

class OpenFilesTest : public ::testing::TestWithParam<ReadVia> {
 protected:
  static constexpr size_t kFiles = 20;
  static constexpr size_t kFileBytes = 40000;

  void OpenAll(size_t files_max) {
    all_.emplace(files_max);
    for (size_t i = 0; i < kFiles; i++) {
      contents_.push_back(MakeValue(i, kFileBytes));
      std::ofstream(PathOf(i), std::ios::binary) << contents_.back();
      const Status s = all_->Open(&fs_, PathOf(i), GetParam(), &files_.emplace_back());
      if (s.IsNotSupported()) GTEST_SKIP() << s.ToString();
      ASSERT_TRUE(s.ok()) << s.ToString();
      ASSERT_EQ(files_.back()->bytes(), kFileBytes);
    }
  }
  std::string PathOf(size_t file) const { return dir_.Sub("f" + std::to_string(file)); }
  bool IsRight(size_t file, Random* random) {
    const size_t from = random->Uniform(kFileBytes);
    std::string found(1 + random->Uniform(std::min<size_t>(300, kFileBytes - from)), '?');
    return files_[file]->Read(from, found.size(), found.data()).ok() &&
           found == contents_[file].substr(from, found.size());
  }

  const testing::TempDir dir_;
  CountingFiles fs_;
  std::optional<OpenFiles> all_;
  std::vector<std::string> contents_;
  std::vector<std::unique_ptr<RandomFile>> files_;
};

INSTANTIATE_TEST_SUITE_P(Via, OpenFilesTest,
                         ::testing::Values(ReadVia::kPageCache, ReadVia::kDevice),
                         [](const auto& via) {
                           return via.param == ReadVia::kDevice ? "Device" : "PageCache";
                         });

// O2.
TEST_P(OpenFilesTest, NoMoreThanSoManyAreOpenAndAllAreRead) {
  Random random(TestSeed());
  const uint64_t before = OpenDescriptors();
  OpenAll(5);
  if (IsSkipped()) return;
  for (int i = 0; i < 2000; i++) {
    ASSERT_TRUE(IsRight(random.Uniform(kFiles), &random));
    ASSERT_LE(all_->open_count(), 5u);
    ASSERT_LE(OpenDescriptors(), before + 5);
  }
  EXPECT_GT(fs_.opens, kFiles + 1000) << "a quarter were open";
  while (files_.size() > 3) files_.pop_back();
  for (int i = 0; i < 10; i++) ASSERT_TRUE(IsRight(random.Uniform(3), &random));
  const uint64_t opened = fs_.opens;
  for (int i = 0; i < 100; i++) ASSERT_TRUE(IsRight(random.Uniform(3), &random));
  EXPECT_EQ(fs_.opens, opened) << "there is room for the three";
  files_.clear();
  EXPECT_EQ(all_->open_count(), 0u);
  EXPECT_EQ(OpenDescriptors(), before);
}

// All descriptors that the process may have are in use.
class NoDescriptors {
 public:
  NoDescriptors() {
    for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO)) taken_.push_back(fd);
    EXPECT_EQ(errno, EMFILE);
  }
  ~NoDescriptors() {
    for (const int fd : taken_) close(fd);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  const ResourceLimit few_{RLIMIT_NOFILE, 256};
  std::vector<int> taken_;
};

// O3.
TEST_P(OpenFilesTest, WhereTheProcessMayOpenNoMoreTheyMakeRoomForEachOther) {
  Random random(TestSeed());
  OpenAll(5);
  if (IsSkipped()) return;
  {
    const NoDescriptors none;
    for (int i = 0; i < 500; i++) ASSERT_TRUE(IsRight(random.Uniform(kFiles), &random));
    EXPECT_EQ(all_->open_count(), 5u);
  }
  for (size_t i = 0; i < kFiles; i++) ASSERT_TRUE(IsRight(i, &random));
}

TEST_P(OpenFilesTest, WhatIsReadAgainAndAgainStaysOpen) {
  Random random(TestSeed());
  OpenAll(8);
  if (IsSkipped()) return;
  const uint64_t before = fs_.opens;
  for (int i = 0; i < 1000; i++) {
    for (size_t hot = 0; hot < 4; hot++) ASSERT_TRUE(IsRight(hot, &random));
    ASSERT_TRUE(IsRight(4 + random.Uniform(kFiles - 4), &random));
  }
  // Each turn opens at most the one that is not hot; of the hot ones next to none.
  EXPECT_LT(fs_.opens - before, 1050u);
}

TEST_P(OpenFilesTest, WhatIsReadBesideOthersStaysOpenUntilItIs) {
  Random random(TestSeed());
  OpenAll(1);
  if (IsSkipped()) return;
  const uint64_t descriptors = OpenDescriptors();
  for (int i = 0; i < 50; i++) {
    std::vector<std::string> found(70);
    std::vector<FileRead> reads;
    std::vector<std::string> expected;
    for (std::string& to : found) {
      const size_t file = random.Uniform(kFiles);
      const size_t from = random.Uniform(kFileBytes - 1000);
      to.resize(1 + random.Uniform(1000));
      expected.push_back(contents_[file].substr(from, to.size()));
      reads.push_back({files_[file].get(), from, to.size(), to.data()});
    }
    const Status s = ReadTogether(reads);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_TRUE(found == expected);
    ASSERT_EQ(OpenDescriptors(), descriptors) << "what was read is closed";
  }
}

TEST_P(OpenFilesTest, WhatCannotBeOpenedAnewSaysSoWhenItIsRead) {
  Random random(TestSeed());
  OpenAll(1);
  if (IsSkipped()) return;
  std::filesystem::remove(PathOf(0));
  std::filesystem::resize_file(PathOf(1), kFileBytes / 2);
  char byte;
  Status s = files_[0]->Read(0, 1, &byte);
  EXPECT_TRUE(s.IsNotFound() && Says(s, PathOf(0))) << s.ToString();
  s = files_[1]->Read(kFileBytes - 1, 1, &byte);
  EXPECT_TRUE(s.IsCorruption() && Says(s, PathOf(1))) << s.ToString();
  for (size_t i = 2; i < kFiles; i++) EXPECT_TRUE(IsRight(i, &random));
}

// LIMITS.md: a child may open stores of its own. It has none of the parent's threads, one of which
// may be about to open or close a file.
TEST_P(OpenFilesTest, AForkedChildWaitsForNoThreadOfItsParent) {
  if (LAMELLA_ADDRESS_SANITIZER != 0)
    GTEST_SKIP() << "its allocator's locks stay held in a child, whatever the process does";
  if (IsEmulated()) GTEST_SKIP() << "qemu's own locks stay held in a child, too";
  std::ofstream(PathOf(0), std::ios::binary) << "content";
  const auto open = [this] {
    std::unique_ptr<RandomFile> file;
    return OpenFiles::OfProcess()->Open(FileSystem::Posix(), PathOf(0), GetParam(), &file);
  };
  const Status s = open();
  if (s.IsNotSupported()) GTEST_SKIP() << s.ToString();
  ASSERT_TRUE(s.ok()) << s.ToString();
  std::atomic<bool> stop{false};
  std::thread opens([&] {
    while (!stop) (void)open().ok();
  });
  int status = 0;  // a child's: SIGALRM ends one that hangs
  for (int i = 0; i < 300 && status == 0; i++) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(open().ok() ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) status = -1;
  }
  stop = true;
  opens.join();
  EXPECT_EQ(status, 0);
}

// O1.
TEST_P(OpenFilesTest, ConcurrentReadersOfFilesThatAreClosedReadThem) {
  OpenAll(3);
  if (IsSkipped()) return;
  const uint64_t seed = TestSeed();
  std::atomic<int> wrong{0};
  const auto read = [&](uint64_t number) {
    Random random(seed + number);
    for (int i = 0; i < 3000; i++) wrong += IsRight(random.Uniform(kFiles), &random) ? 0 : 1;
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; i++) threads.emplace_back(read, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(all_->open_count(), 3u);
}

}  // namespace
}  // namespace lamella
