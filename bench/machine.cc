#include "bench/machine.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace lamella::bench {

namespace fs = std::filesystem;

Status WarmMemory(const std::string& dir, uint64_t bytes) {
  std::string name = dir + "/warm.XXXXXX";
  const int fd = mkstemp(name.data());
  if (fd < 0) return Status::IOError(name + ": cannot be made: " + std::strerror(errno));
  unlink(name.c_str());
  Status result;
  const size_t size = static_cast<size_t>(bytes);
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) {
    result = Status::IOError(name + ": cannot grow to " + std::to_string(bytes) +
                             " bytes: " + std::strerror(errno));
  } else if (posix_fallocate(fd, 0, static_cast<off_t>(size)) != 0) {
    result = Status::NoSpace(dir + ": no " + std::to_string(bytes) +
                             " bytes free; name another directory with --dir");
  }
  close(fd);
  return result;
}

uint64_t ResidentAnonymousBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::strtoull(line.c_str() + 8, nullptr, 10) * 1024;
  }
  return 0;
}

void TrimHeap() { malloc_trim(0); }

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

uint64_t DirectoryBytes(const std::string& dir) {
  // what a store has elsewhere it has by a link
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  uint64_t total = 0;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(dir, kFollow, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    struct stat st{};
    if (lstat(it->path().c_str(), &st) == 0) total += static_cast<uint64_t>(st.st_blocks) * 512;
  }
  return total;
}

uint64_t FreeBytes(const std::string& dir) {
  std::error_code error;
  const fs::space_info space = fs::space(dir, error);
  return error ? 0 : space.available;
}

std::string FileSystemName(const std::string& dir) {
  struct statfs info{};
  if (statfs(dir.c_str(), &info) != 0) return "unknown";
  switch (static_cast<uint64_t>(info.f_type)) {
    case 0x01021994:
      return "tmpfs";
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x794C7630:
      return "overlayfs";
    default:
      return "file system " + std::to_string(info.f_type);
  }
}

std::string MachineName() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string model = "unknown CPU";
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    model = line.substr(colon + 2);
    break;
  }
  return model + ", " + std::to_string(std::thread::hardware_concurrency()) + " CPUs";
}

Status ScratchDirectory::Create(const std::string& parent, const std::string& prefix) {
  std::error_code error;
  fs::create_directories(parent, error);
  std::string path = parent + "/" + prefix + ".XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return Status::IOError(parent + ": cannot make a directory in it: " + std::strerror(errno) +
                           "; name another with --dir");
  }
  path_ = path;
  owner_pid_ = getpid();
  StartKeeper();
  return Status::OK();
}

// The stream ends with the last process that has its other end: this one, and the children that it
// forks, which go with it (BeChild).
void ScratchDirectory::StartKeeper() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return;
  keeper_pid_ = fork();
  if (keeper_pid_ == 0) {
    setsid();  // what a terminal sends is not for it
    dup2(fds[0], STDIN_FILENO);
    close_range(STDIN_FILENO + 1, ~0U, 0);
    char byte = 0;
    ssize_t n = 0;
    while ((n = read(STDIN_FILENO, &byte, 1)) < 0 && errno == EINTR) {
    }
    if (n == 0) (void)RemoveWithLinked(path_).ok();
    _exit(0);
  }
  close(fds[0]);
  keeper_fd_ = fds[1];
  if (keeper_pid_ < 0) keeper_pid_ = 0;
}

ScratchDirectory::~ScratchDirectory() {
  if (path_.empty() || owner_pid_ != getpid()) return;
  (void)RemoveWithLinked(path_).ok();
  if (keeper_fd_ < 0) return;
  const char done = 0;
  if (keeper_pid_ > 0 && send(keeper_fd_, &done, 1, MSG_NOSIGNAL) == 1)
    waitpid(keeper_pid_, nullptr, 0);
  close(keeper_fd_);
}

Status RemoveWithLinked(const std::string& dir) {
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(dir, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (!it->is_symlink(error)) continue;
    const fs::path target = fs::read_symlink(it->path(), error);
    if (!error) fs::remove_all(target, error);
  }
  fs::remove_all(dir, error);
  return error ? Status::IOError(dir + ": cannot be removed: " + error.message()) : Status::OK();
}

Status DirectoryElsewhere(const std::string& parent, const std::string& dir, bool fresh,
                          std::string* path) {
  std::string name = dir;
  std::replace(name.begin(), name.end(), '/', '_');
  *path = parent + "/lamella" + name;
  if (!fresh) return Status::OK();
  std::error_code error;
  fs::remove_all(*path, error);
  fs::create_directory_symlink(*path, dir + "/files", error);
  return error ? Status::IOError(dir + "/files: cannot link: " + error.message()) : Status::OK();
}

}  // namespace lamella::bench
