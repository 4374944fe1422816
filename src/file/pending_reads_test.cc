#include "file/pending_reads.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "file/file_system.h"
#include "testing/random_data.h"
#include "testing/says.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::MakeValue;
using testing::Says;
using testing::TempDir;
using testing::TestSeed;

// Read calls of this process that it waited for, so far.
uint64_t ReadCalls() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (io >> name >> value) {
    if (name == "syscr:") return value;
  }
  return 0;
}

struct Opened {
  std::string content;
  std::unique_ptr<RandomFile> file;
};

class PendingReadsTest : public ::testing::TestWithParam<ReadVia> {
 protected:
  void SetUp() override {
    for (const size_t size : {size_t{1}, size_t{4096}, size_t{70001}, size_t{3} << 20}) {
      Opened& opened = files_.emplace_back();
      opened.content = MakeValue(size, size);
      const std::string path = PathOf(files_.size() - 1);
      std::ofstream(path, std::ios::binary) << opened.content;
      const Status s = fs_->NewRandomFile(path, GetParam(), &opened.file);
      if (s.IsNotSupported()) GTEST_SKIP() << s.ToString();
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
  }
  std::string PathOf(size_t file) const { return dir_.Sub("f" + std::to_string(file)); }

  /// Reads of so many random places, each put beside the others.
  void Ask(size_t count, size_t bytes_max) {
    reads_.assign(count, {});
    found_.assign(count, {});
    expected_.clear();
    for (size_t i = 0; i < count; i++) {
      const Opened& of = files_[random_.Uniform(files_.size())];
      const size_t from = random_.Uniform(of.content.size() + 1);
      found_[i].assign(random_.Uniform(std::min(of.content.size() - from, bytes_max) + 1), '?');
      expected_.push_back(of.content.substr(from, found_[i].size()));
      reads_[i] = {of.file.get(), from, found_[i].size(), found_[i].data()};
    }
  }
  void ExpectFound(size_t but = SIZE_MAX) {
    for (size_t i = 0; i < reads_.size(); i++) {
      if (i == but) continue;
      EXPECT_TRUE(reads_[i].is_made) << i;
      ASSERT_TRUE(found_[i] == expected_[i]) << i << " of " << reads_.size();
    }
  }

  const TempDir dir_;
  FileSystem* const fs_ = FileSystem::Posix();
  Random random_{TestSeed()};
  std::vector<Opened> files_;
  std::vector<FileRead> reads_;
  std::vector<std::string> found_;
  std::vector<std::string> expected_;
};

INSTANTIATE_TEST_SUITE_P(Via, PendingReadsTest,
                         ::testing::Values(ReadVia::kPageCache, ReadVia::kDevice),
                         [](const auto& via) {
                           return via.param == ReadVia::kDevice ? "Device" : "PageCache";
                         });

TEST_P(PendingReadsTest, AllCome) {
  PendingReads again;
  for (const bool once : {true, false}) {
    for (const size_t count : {0, 1, 2, 7, 63, 64, 65, 300}) {
      for (const size_t bytes_max : {size_t{200}, size_t{9000}, size_t{1} << 20}) {
        Ask(count, bytes_max);
        if (!once) again.Begin(reads_);
        const Status s = once ? ReadTogether(reads_) : again.Finish();
        ASSERT_TRUE(s.ok()) << s.ToString();
        ASSERT_NO_FATAL_FAILURE(ExpectFound());
      }
    }
  }
}

// Nobody writes to where they were to go (R2), and others may be begun.
TEST_P(PendingReadsTest, MayBeDropped) {
  PendingReads pending;
  for (int i = 0; i < 50; i++) {
    Ask(70, 5000);
    pending.Begin(reads_);
    pending.Drop();
    Ask(3, 5000);
    pending.Begin(reads_);
    ASSERT_TRUE(pending.Finish().ok());
    ASSERT_NO_FATAL_FAILURE(ExpectFound());
  }
  Ask(70, 5000);
  PendingReads goes;
  goes.Begin(reads_);
}

// The device is asked for all of them before any is waited for.
TEST_P(PendingReadsTest, OfADeviceNoneIsWaitedForAlone) {
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 1, &context) != 0) GTEST_SKIP() << "the kernel refuses io_setup";
  (void)syscall(SYS_io_destroy, context);
  Ask(100, 500);
  std::erase_if(reads_, [](const FileRead& read) { return read.n == 0; });
  const uint64_t before = ReadCalls();
  ASSERT_TRUE(ReadTogether(reads_).ok());
  const uint64_t calls = ReadCalls() - before;
  if (before == 0) GTEST_SKIP() << "/proc/self/io does not tell";
  if (GetParam() == ReadVia::kDevice) {
    EXPECT_LT(calls, 10u);
  } else {
    EXPECT_GE(calls, reads_.size());
  }
}

TEST_P(PendingReadsTest, WhatFailsIsSaidAndTheOthersCome) {
  for (const size_t at : {size_t{0}, size_t{17}, size_t{99}}) {
    Ask(100, 3000);
    std::string more(100, '?');
    reads_[at] = {files_[2].file.get(), 70000, more.size(), more.data()};
    const Status s = ReadTogether(reads_);
    EXPECT_TRUE(s.IsCorruption() && Says(s, PathOf(2)) &&
                Says(s, "at offset 70000: expected 100 bytes, found 1;"))
        << s.ToString();
    EXPECT_FALSE(reads_[at].is_made);
    ASSERT_NO_FATAL_FAILURE(ExpectFound(at));
  }
}

// The kernel's answer is short then, and Read says what there is (R1).
TEST_P(PendingReadsTest, AFileThatIsCutOffWhileItIsOpenIsCorrupt) {
  Ask(20, 3000);
  for (FileRead& read : reads_) {
    if (read.file == files_[3].file.get()) read.offset = 0, read.n = 1;
  }
  std::filesystem::resize_file(PathOf(3), 10000);
  std::string more(3000, '?');
  reads_[10] = {files_[3].file.get(), 9000, more.size(), more.data()};
  const Status s = ReadTogether(reads_);
  EXPECT_TRUE(s.IsCorruption() && Says(s, "expected 3000 bytes, found 1000;")) << s.ToString();
}

// A file whose blocks the kernel refuses to read.
class Refused final : public RandomFile {
 public:
  explicit Refused(const RandomFile* file) : file_(file) {}
  ~Refused() override { close(descriptor_); }
  Status Read(uint64_t offset, size_t n, char* to) const override {
    return file_->Read(offset, n, to);
  }
  uint64_t bytes() const override { return file_->bytes(); }
  DeviceBlocks BlocksOf(uint64_t offset, size_t n) const override {
    const uint64_t begin = offset - offset % kDeviceBlockBytes;
    const uint64_t blocks = (offset - begin + n) / kDeviceBlockBytes + 1;
    return {.descriptor = descriptor_, .begin = begin, .bytes = blocks * kDeviceBlockBytes};
  }

 private:
  const RandomFile* const file_;
  const int descriptor_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
};

TEST_P(PendingReadsTest, WhatTheKernelRefusesIsReadAlone) {
  const Refused refused(files_[3].file.get());
  for (const bool all : {false, true}) {
    Ask(150, 2000);
    for (size_t i = 0; i < reads_.size(); i++) {
      const bool is_of_it = reads_[i].file == files_[3].file.get();
      if (is_of_it) reads_[i].file = &refused;
      if (!is_of_it && all) reads_[i].n = 0, found_[i].clear(), expected_[i].clear();
    }
    const Status s = ReadTogether(reads_);
    EXPECT_TRUE(s.ok()) << s.ToString();
    ASSERT_NO_FATAL_FAILURE(ExpectFound());
  }
}

// The kernel's contexts stay the parent's.
TEST_P(PendingReadsTest, AForkedChildReadsToo) {
  Ask(50, 2000);
  ASSERT_TRUE(ReadTogether(reads_).ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (std::string& found : found_) found.assign(found.size(), '?');
    const bool as_expected = ReadTogether(reads_).ok() && found_ == expected_;
    _exit(as_expected ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_TRUE(ReadTogether(reads_).ok());
  ASSERT_NO_FATAL_FAILURE(ExpectFound());
}

TEST_P(PendingReadsTest, ConcurrentCallers) {
  const std::string& content = files_[3].content;
  const auto run = [&](uint64_t caller) {
    Random random(caller + 1);
    uint64_t wrong = 0;
    std::vector<FileRead> reads(24);
    std::vector<std::string> found(reads.size());
    for (int round = 0; round < 60; round++) {
      for (size_t i = 0; i < reads.size(); i++) {
        found[i].assign(1 + random.Uniform(3000), '?');
        const size_t from = random.Uniform(content.size() - found[i].size());
        reads[i] = {files_[3].file.get(), from, found[i].size(), found[i].data()};
      }
      wrong += ReadTogether(reads).ok() ? 0 : 1;
      for (const FileRead& read : reads)
        wrong += content.compare(read.offset, read.n, read.to, read.n) == 0 ? 0 : 1;
    }
    return wrong;
  };
  std::vector<uint64_t> wrong(4);
  std::vector<std::thread> callers;
  for (uint64_t i = 0; i < wrong.size(); i++) callers.emplace_back([&, i] { wrong[i] = run(i); });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, std::vector<uint64_t>(wrong.size()));
}

}  // namespace
}  // namespace lamella
