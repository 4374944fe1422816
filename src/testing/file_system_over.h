// FileSystemOver is another file system's calls, for tests that change some of them.
// Threads: as the one beneath.
#ifndef LAMELLA_TESTING_FILE_SYSTEM_OVER_H_
#define LAMELLA_TESTING_FILE_SYSTEM_OVER_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file/file_system.h"

namespace lamella::testing {

class FileSystemOver : public FileSystem {
 public:
  /// `base` outlives it.
  explicit FileSystemOver(FileSystem* base) : base_(base) {}
  explicit FileSystemOver(std::unique_ptr<FileSystem> base)
      : owned_(std::move(base)), base_(owned_.get()) {}

  bool Exists(const std::string& path) override { return base_->Exists(path); }
  Status CreateDirectory(const std::string& path) override { return base_->CreateDirectory(path); }
  Status RemoveDirectory(const std::string& path) override { return base_->RemoveDirectory(path); }
  Status ListDirectory(const std::string& path, std::vector<std::string>* names) override {
    return base_->ListDirectory(path, names);
  }
  Status SyncDirectory(const std::string& path) override { return base_->SyncDirectory(path); }
  Status FileSize(const std::string& path, uint64_t* bytes) override {
    return base_->FileSize(path, bytes);
  }
  Status RemoveFile(const std::string& path) override { return base_->RemoveFile(path); }
  Status RenameFile(const std::string& from, const std::string& to) override {
    return base_->RenameFile(from, to);
  }
  Status ReadFile(const std::string& path, std::string* content) override {
    return base_->ReadFile(path, content);
  }
  Status WriteFile(const std::string& path, std::string_view content) override {
    return base_->WriteFile(path, content);
  }
  Status NewAppendFile(const std::string& path, std::unique_ptr<AppendFile>* file) override {
    return base_->NewAppendFile(path, file);
  }
  using FileSystem::NewRandomFile;
  Status NewRandomFile(const std::string& path, ReadVia via,
                       std::unique_ptr<RandomFile>* file) override {
    return base_->NewRandomFile(path, via, file);
  }
  Status LockFile(const std::string& path, std::unique_ptr<FileLock>* lock) override {
    return base_->LockFile(path, lock);
  }

 private:
  const std::unique_ptr<FileSystem> owned_;

 protected:
  FileSystem* const base_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_FILE_SYSTEM_OVER_H_
