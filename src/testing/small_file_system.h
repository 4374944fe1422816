// A file system of few bytes, to be full. Only root can mount one: tests skip where mounted() is
// false.
// Threads: one.
#ifndef LAMELLA_TESTING_SMALL_FILE_SYSTEM_H_
#define LAMELLA_TESTING_SMALL_FILE_SYSTEM_H_

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/assert.h"

namespace lamella::testing {

/// A tmpfs of its own, until the object goes.
class SmallFileSystem {
 public:
  /// `size`: as "size=4m".
  SmallFileSystem(const std::string& path, const char* size) : path_(path) {
    std::filesystem::create_directories(path);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, size) == 0;
  }
  ~SmallFileSystem() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  bool mounted() const { return mounted_; }
  /// A file takes all that is left.
  void Fill() const {
    const int filler = ::open((path_ + "/filler").c_str(), O_CREAT | O_WRONLY, 0600);
    LAMELLA_CHECK(filler >= 0);
    const std::string block(64 << 10, 'f');
    while (::write(filler, block.data(), block.size()) > 0) {
    }
    ::close(filler);
  }
  bool Resize(const char* size) const {
    return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, size) == 0;
  }

 private:
  const std::string path_;
  bool mounted_ = false;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_SMALL_FILE_SYSTEM_H_
