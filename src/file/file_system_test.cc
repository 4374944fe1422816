#include "file/file_system.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/says.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::Says;
using testing::TempDir;

class FileSystemTest : public ::testing::Test {
 protected:
  TempDir dir_;
  FileSystem* const fs_ = FileSystem::Posix();
};

TEST_F(FileSystemTest, MakesDirectoriesAndThoseAbove) {
  EXPECT_TRUE(fs_->CreateDirectory(dir_.Sub("a/b/c")).ok());
  EXPECT_TRUE(fs_->CreateDirectory(dir_.Sub("a/b/c//")).ok());
  EXPECT_TRUE(std::filesystem::is_directory(dir_.Sub("a/b/c")));
  std::ofstream(dir_.Sub("file")) << "x";
  EXPECT_TRUE(fs_->CreateDirectory(dir_.Sub("file")).IsInvalidArgument());
  EXPECT_FALSE(fs_->CreateDirectory(dir_.Sub("file/below")).ok());
  EXPECT_TRUE(fs_->CreateDirectory("").IsInvalidArgument());
}

TEST_F(FileSystemTest, RemovesOnlyEmptyDirectories) {
  ASSERT_TRUE(fs_->CreateDirectory(dir_.Sub("a/b")).ok());
  EXPECT_TRUE(fs_->RemoveDirectory(dir_.Sub("a")).IsInvalidArgument());
  EXPECT_TRUE(fs_->RemoveDirectory(dir_.Sub("a/b/")).ok());
  EXPECT_TRUE(fs_->RemoveDirectory(dir_.Sub("a")).ok());
  EXPECT_TRUE(fs_->RemoveDirectory(dir_.Sub("a")).ok());
  EXPECT_FALSE(fs_->Exists(dir_.Sub("a")));
}

TEST_F(FileSystemTest, ListsNamesSorted) {
  for (const char* name : {"c", "a", ".b"}) std::ofstream(dir_.Sub(name)) << name;
  std::vector<std::string> names = {"stale"};
  ASSERT_TRUE(fs_->ListDirectory(dir_.path(), &names).ok());
  EXPECT_EQ(names, (std::vector<std::string>{".b", "a", "c"}));
  EXPECT_TRUE(fs_->ListDirectory(dir_.Sub("none"), &names).IsNotFound());
}

TEST_F(FileSystemTest, ASmallFileIsReplacedWhole) {
  std::string content;
  EXPECT_TRUE(fs_->ReadFile(dir_.Sub("f"), &content).IsNotFound());
  ASSERT_TRUE(fs_->WriteFile(dir_.Sub("f"), "first").ok());
  ASSERT_TRUE(fs_->WriteFile(dir_.Sub("f"), std::string(100000, 'x')).ok());
  ASSERT_TRUE(fs_->ReadFile(dir_.Sub("f"), &content).ok());
  EXPECT_EQ(content, std::string(100000, 'x'));
  uint64_t bytes = 0;
  ASSERT_TRUE(fs_->FileSize(dir_.Sub("f"), &bytes).ok());
  EXPECT_EQ(bytes, 100000u);
  std::vector<std::string> names;
  ASSERT_TRUE(fs_->ListDirectory(dir_.path(), &names).ok());
  EXPECT_EQ(names, std::vector<std::string>{"f"});  // no working file is left
}

TEST_F(FileSystemTest, AWriteThatFailsLeavesTheOldContent) {
  ASSERT_TRUE(fs_->WriteFile(dir_.Sub("f"), "old").ok());
  ASSERT_TRUE(fs_->CreateDirectory(dir_.Sub("f.new/in the way")).ok());
  EXPECT_FALSE(fs_->WriteFile(dir_.Sub("f"), "new").ok());
  std::string content;
  ASSERT_TRUE(fs_->ReadFile(dir_.Sub("f"), &content).ok());
  EXPECT_EQ(content, "old");
}

TEST_F(FileSystemTest, RemovesAndRenamesFiles) {
  ASSERT_TRUE(fs_->WriteFile(dir_.Sub("a"), "1").ok());
  ASSERT_TRUE(fs_->RenameFile(dir_.Sub("a"), dir_.Sub("b")).ok());
  EXPECT_FALSE(fs_->Exists(dir_.Sub("a")));
  EXPECT_TRUE(fs_->Exists(dir_.Sub("b")));
  EXPECT_TRUE(fs_->RenameFile(dir_.Sub("a"), dir_.Sub("c")).IsNotFound());
  EXPECT_TRUE(fs_->RemoveFile(dir_.Sub("b")).ok());
  EXPECT_TRUE(fs_->RemoveFile(dir_.Sub("b")).ok());
  EXPECT_TRUE(fs_->SyncDirectory(dir_.Sub("none")).IsNotFound());
}

TEST_F(FileSystemTest, ASecondOpenOfThisProcessIsRefused) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(fs_->LockFile(dir_.Sub("LOCK"), &lock).ok());
  std::unique_ptr<FileLock> second;
  const Status s = fs_->LockFile(dir_.Sub("LOCK"), &second);
  EXPECT_TRUE(s.IsBusy() && Says(s, "this process") && Says(s, dir_.Sub("LOCK"))) << s.ToString();
  EXPECT_EQ(second, nullptr);
  lock.reset();
  EXPECT_TRUE(fs_->LockFile(dir_.Sub("LOCK"), &second).ok());
}

TEST_F(FileSystemTest, AnotherProcessIsNamedAndItsDeathUnlocks) {
  int ready[2];
  int done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::unique_ptr<FileLock> lock;
    const char locked = FileSystem::Posix()->LockFile(dir_.Sub("LOCK"), &lock).ok() ? 'y' : 'n';
    if (write(ready[1], &locked, 1) != 1) _exit(1);
    char wait;
    close(done[1]);
    (void)!read(done[0], &wait, 1);
    _exit(0);  // without unlocking
  }
  char locked = 0;
  ASSERT_EQ(read(ready[0], &locked, 1), 1);
  ASSERT_EQ(locked, 'y');
  std::unique_ptr<FileLock> lock;
  const Status s = fs_->LockFile(dir_.Sub("LOCK"), &lock);
  EXPECT_TRUE(s.IsBusy() && Says(s, "process " + std::to_string(child))) << s.ToString();
  close(done[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(fs_->LockFile(dir_.Sub("LOCK"), &lock).ok());
  for (int fd : {ready[0], ready[1], done[0]}) close(fd);
}

TEST_F(FileSystemTest, ALockFileInNoDirectoryIsNotFound) {
  std::unique_ptr<FileLock> lock;
  EXPECT_TRUE(fs_->LockFile(dir_.Sub("none/LOCK"), &lock).IsNotFound());
}

}  // namespace
}  // namespace lamella
