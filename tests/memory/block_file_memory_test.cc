// What the files of tables do where the system refuses memory: no call of theirs throws, and after
// one that found none an AppendFile takes nothing more (I1 of file/block_file.h).

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/no_throw.h"
#include "file/file_system.h"
#include "memory/refusing_new.h"
#include "testing/open_descriptors.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::OpenDescriptors;
using testing::refused;
using testing::refuses_all_behind;
using testing::until_refused;

// Writes a file of that name with its nth allocation refused, and perhaps all after it, until so
// many are made that none is. The statuses are OK where nothing was refused and nothing else fails.
void RefuseEach(const std::string& path, bool fails_anyway) {
  const std::string content(AppendFile::kBufferBytes + 10, 'x');
  const size_t descriptors = OpenDescriptors();
  for (const bool all_behind : {false, true}) {
    for (int64_t nth = 0;; nth++) {
      refuses_all_behind = all_behind;
      refused = false;
      until_refused = nth;
      std::unique_ptr<AppendFile> file;
      Status s = NoThrow([&] { return FileSystem::Posix()->NewAppendFile(path, &file); });
      if (s.ok()) s = file->Append(std::string_view(content).substr(10));
      if (s.ok()) s = file->Append(content);
      if (s.ok()) s = file->Sync();
      until_refused = -1;
      EXPECT_EQ(s.ok(), !refused && !fails_anyway) << nth << ": " << s.ToString();
      if (!s.ok() && file != nullptr) {
        EXPECT_EQ(file->Append("more").code(), s.code()) << nth;
        EXPECT_EQ(file->Sync().code(), s.code()) << nth;
      }
      if (!refused) break;
    }
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

TEST(BlockFileMemory, AFileThatFoundNoMemoryTakesNothingMore) {
  const testing::TempDir dir;
  RefuseEach(dir.Sub("table"), false);
}

TEST(BlockFileMemory, AFailureIsRememberedWithoutMemoryForItsMessage) {
  RefuseEach("/dev/full", true);
}

TEST(BlockFileMemory, AReadIsRefusedOrDone) {
  const testing::TempDir dir;
  FileSystem* const fs = FileSystem::Posix();
  ASSERT_TRUE(fs->WriteFile(dir.Sub("table"), "0123456789").ok());
  const std::string path = dir.Sub("table");
  const size_t descriptors = OpenDescriptors();
  for (int64_t nth = 0;; nth++) {
    refuses_all_behind = true;
    refused = false;
    until_refused = nth;
    std::unique_ptr<RandomFile> file;
    char to[10];
    const Status opened = NoThrow([&] { return fs->NewRandomFile(path, &file); });
    const Status read = opened.ok() ? file->Read(0, 10, to) : opened;
    const Status across = opened.ok() ? file->Read(1, 10, to) : opened;
    until_refused = -1;
    EXPECT_EQ(read.ok(), opened.ok());  // what goes well needs no memory
    EXPECT_TRUE(across.IsIOError() || across.IsCorruption()) << across.ToString();
    if (!refused) break;
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

}  // namespace
}  // namespace lamella
