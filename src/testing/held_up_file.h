// A file system in which one file is held up as it is made, and then fails.
// Threads: any.
#ifndef LAMELLA_TESTING_HELD_UP_FILE_H_
#define LAMELLA_TESTING_HELD_UP_FILE_H_

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "testing/file_system_over.h"

namespace lamella::testing {

/// Of the files made the next is held up, and fails when it may.
class HeldUpFile final : public FileSystemOver {
 public:
  HeldUpFile() : FileSystemOver(FileSystem::PosixOver(nullptr)) {}
  Status NewAppendFile(const std::string& path, std::unique_ptr<AppendFile>* file) override {
    if (!fails_next.exchange(false)) return base_->NewAppendFile(path, file);
    is_held.set_value();
    may_fail.get_future().wait();
    return Status::IOError("a test's");
  }

  std::atomic<bool> fails_next{false};
  std::promise<void> is_held, may_fail;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_HELD_UP_FILE_H_
