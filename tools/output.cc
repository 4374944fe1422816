#include "tools/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

namespace lamella::tools {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;

Status ErrorOf(std::string_view action, const std::string& name) {
  const std::string message = fmt::format("cannot {} {}: {}", action, name, std::strerror(errno));
  if (errno == EPIPE) return Status::Aborted(message);
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? Status::NoSpace(message)
                                                              : Status::IOError(message);
}

// Under a name that nobody has: a dump of another store may go to the same place, and what is
// called so may be somebody's.
int OpenPart(const std::string& path, mode_t mode, std::string* part_path) {
  for (auto number = static_cast<uint64_t>(getpid());; number++) {
    *part_path = fmt::format("{}.{}.part", path, number);
    const int fd = open(part_path->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

// It takes the place of what is there, and is for those who might read that: where it cannot be
// given to their group it is for none.
bool MakeLike(const struct stat& there, int fd) {
  constexpr auto kSameUser = static_cast<uid_t>(-1);
  mode_t mode = there.st_mode & ACCESSPERMS;
  const bool is_theirs =
      fchown(fd, there.st_uid, there.st_gid) == 0 || fchown(fd, kSameUser, there.st_gid) == 0;
  if (!is_theirs) mode &= ~static_cast<mode_t>(S_IRWXG);
  return fchmod(fd, mode) == 0;
}

}  // namespace

std::filesystem::path Followed(std::filesystem::path path) {
  constexpr int kLinksMax = 40;  // Linux follows no more
  std::error_code none;
  for (int i = 0; i < kLinksMax; i++) {
    const std::filesystem::path to = std::filesystem::read_symlink(path, none);
    if (none) break;
    path = path.parent_path() / to;  // all of it, where that is absolute
  }
  return path;
}

Output::Output() : fd_(STDOUT_FILENO) { buffer_.reserve(kBufferBytes * 2); }

Output::~Output() {
  if (path_.empty() || fd_ < 0) return;
  close(fd_);
  if (!part_path_.empty()) unlink(part_path_.c_str());
}

bool Output::IsStandardOutput(const std::string& path) {
  struct stat named{};
  struct stat standard{};
  return path == "-" || (stat(path.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &standard) == 0 &&
                         named.st_dev == standard.st_dev && named.st_ino == standard.st_ino);
}

Status Output::OpenFile(const std::string& name) {
  if (IsStandardOutput(name)) return Status::OK();
  struct stat info{};
  std::error_code none;  // a link stays, and what it leads to is written
  const std::filesystem::path found = std::filesystem::canonical(name, none);
  std::string path = none ? name : found.string();
  if (none && stat(name.c_str(), &info) != 0) path = Followed(name).string();
  const bool there = stat(path.c_str(), &info) == 0;
  const bool special = there && !S_ISREG(info.st_mode);
  std::string target = path;
  const mode_t mode = there ? S_IRUSR | S_IWUSR : 0666;
  const int fd = special ? open(path.c_str(), O_WRONLY | O_CLOEXEC) : OpenPart(path, mode, &target);
  if (fd < 0) return ErrorOf("write", target);
  if (there && !special && !MakeLike(info, fd)) {
    const Status s = ErrorOf("set the mode of", target);
    close(fd);
    unlink(target.c_str());
    return s;
  }
  fd_ = fd;
  path_ = path;
  if (!special) part_path_ = target;
  return Status::OK();
}

bool Output::Write(std::string_view text) {
  buffer_ += text;
  return Drain();
}

bool Output::Drain() { return buffer_.size() < kBufferBytes ? status_.ok() : WriteOut(); }

bool Output::WriteOut() {
  std::string_view rest = buffer_;
  while (status_.ok() && !rest.empty()) {
    const ssize_t n = write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      status_ = ErrorOf("write", path_.empty() ? "standard output" : path_);
      break;
    }
    bytes_written_ += static_cast<uint64_t>(n);
    rest.remove_prefix(static_cast<size_t>(n));
  }
  buffer_.clear();
  return status_.ok();
}

Status Output::Close() {
  WriteOut();
  if (path_.empty()) return status_;
  // A power cut after the renaming must not leave the name with less (I1).
  if (!part_path_.empty() && status_.ok() && fsync(fd_) != 0) status_ = ErrorOf("sync", path_);
  if (close(fd_) != 0 && status_.ok()) status_ = ErrorOf("close", path_);
  fd_ = -1;
  if (!part_path_.empty()) {
    if (status_.ok() && rename(part_path_.c_str(), path_.c_str()) != 0)
      status_ = ErrorOf("rename to", path_);
    if (!status_.ok()) unlink(part_path_.c_str());
  }
  return status_;
}

}  // namespace lamella::tools
