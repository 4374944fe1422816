#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/concat.h"
#include "base/errno_status.h"
#include "base/no_throw.h"
#include "base/os_hook.h"
#include "base/standard_streams.h"
#include "file/file_system.h"

namespace lamella {
namespace {

/// A file descriptor that closes itself; none of the standard streams'.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(AboveStandardStreams(fd)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string WithoutTrailingSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path, OsHook* os) {
  while (!bytes.empty()) {
    const size_t n = os == nullptr ? bytes.size() : os->Allowed(OsCall::kWrite, bytes.size());
    const ssize_t written =
        Hooked(os, OsCall::kWrite, path, [&] { return write(fd, bytes.data(), n); });
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus("write " + path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Status::OK();
}

Status SyncFile(int fd, const std::string& path, OsHook* os) {
  if (Hooked(os, OsCall::kSync, path, [&] { return fsync(fd); }) == 0) return Status::OK();
  return ErrnoStatus("sync " + path, errno);
}

Status ReadAll(int fd, const std::string& path, std::string* content, OsHook* os) {
  content->clear();
  char buffer[1 << 14];
  while (true) {
    const size_t wanted =
        os == nullptr ? sizeof(buffer) : os->Allowed(OsCall::kRead, sizeof(buffer));
    const ssize_t n = Hooked(os, OsCall::kRead, path, [&] { return read(fd, buffer, wanted); });
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read " + path, errno);
    if (n == 0) return Status::OK();
    content->append(buffer, static_cast<size_t>(n));
  }
}

class PosixAppendFile : public AppendFile {
 public:
  PosixAppendFile(Descriptor fd, std::string path, OsHook* os)
      : fd_(std::move(fd)), path_(std::move(path)), os_(os) {}

  Status Append(std::string_view bytes) override {
    if (status_.ok()) status_ = NoThrow([&] { return Take(bytes); });  // keeps I1
    if (status_.ok()) bytes_ += bytes.size();
    return status_;
  }

  void WillSync() override {
    if (status_.ok()) status_ = NoThrow([&] { return WriteBuffered(); });  // keeps I1
    if (status_.ok()) HandOn();
    buffer_.reset();
  }

  Status Sync() override {
    if (status_.ok()) {  // keeps I1
      status_ = NoThrow([&] {
        Status s = WriteBuffered();
        return s.ok() ? SyncFile(fd_.get(), path_, os_) : s;
      });
    }
    return status_;
  }

  uint64_t bytes() const override { return bytes_; }

 private:
  // The buffer is filled to its end before it is written, and what is not copied into it is a
  // multiple of its size: until a Sync comes in between, each write starts at such a multiple.
  Status Take(std::string_view bytes) {
    Status s;
    while (s.ok() && !bytes.empty()) {
      size_t n = bytes.size() - bytes.size() % kBufferBytes;
      if (buffered_ == 0 && n > 0) {
        s = Write(bytes.substr(0, n));
      } else {
        n = std::min(bytes.size(), kBufferBytes - buffered_);
        if (buffer_ == nullptr) buffer_ = std::make_unique_for_overwrite<char[]>(kBufferBytes);
        std::memcpy(buffer_.get() + buffered_, bytes.data(), n);
        buffered_ += n;
        if (buffered_ == kBufferBytes) s = WriteBuffered();
      }
      bytes.remove_prefix(n);
    }
    return s;
  }

  Status WriteBuffered() { return Write({buffer_.get(), std::exchange(buffered_, 0)}); }
  // The device is given what was written soon, and not all of it by Sync: reads of other files
  // would wait behind it. What fails here Sync tells, since nothing here waits for the device, nor
  // asks how it went.
  Status Write(std::string_view bytes) {
    Status s = CheckFileSizeLimit(path_, written_ + bytes.size());
    if (s.ok()) s = WriteAll(fd_.get(), bytes, path_, os_);
    if (!s.ok()) return s;
    written_ += bytes.size();
    if (written_ - handed_on_ >= kHandOnBytes) HandOn();
    return s;
  }

  void HandOn() {
    const uint64_t from = std::exchange(handed_on_, written_);
    if (from == written_) return;  // to the file's end, that would mean
    (void)sync_file_range(fd_.get(), static_cast<off_t>(from), static_cast<off_t>(written_ - from),
                          SYNC_FILE_RANGE_WRITE);
  }

  static constexpr uint64_t kHandOnBytes = 256 << 10;

  const Descriptor fd_;
  const std::string path_;
  OsHook* const os_;  // may be null
  Status status_;
  uint64_t bytes_ = 0;
  uint64_t written_ = 0;    // to the file, since it was opened
  uint64_t handed_on_ = 0;  // to the device
  std::unique_ptr<char[]> buffer_;
  size_t buffered_ = 0;
};

class PosixRandomFile : public RandomFile {
 public:
  PosixRandomFile(Descriptor fd, std::string path, ReadVia via, uint64_t bytes, OsHook* os)
      : fd_(std::move(fd)), path_(std::move(path)), via_(via), bytes_(bytes), os_(os) {}

  Status Read(uint64_t offset, size_t n, char* to) const override {
    return NoThrow([&] {
      // Not left to pread: an offset from damaged bytes may be one that it calls no offset.
      const uint64_t there = bytes_ - std::min(offset, bytes_);
      if (n > there) return EndsEarly(offset, n, there);
      return via_ == ReadVia::kDevice ? ReadBlocksAt(offset, n, to) : ReadAt(offset, n, to);
    });
  }

  uint64_t bytes() const override { return bytes_; }

  // A hook sees each call, and what Read says is wrong is said by Read.
  void WillRead(uint64_t offset, size_t n) const override {
    if (via_ == ReadVia::kPageCache && os_ == nullptr && offset <= bytes_ && n <= bytes_ - offset)
      (void)posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(n),
                          POSIX_FADV_WILLNEED);
  }
  DeviceBlocks BlocksOf(uint64_t offset, size_t n) const override {
    const bool is_there = offset <= bytes_ && n <= bytes_ - offset && n > 0;
    if (via_ != ReadVia::kDevice || os_ != nullptr || !is_there) return {};
    return BlocksAround(offset, n);
  }

 private:
  DeviceBlocks BlocksAround(uint64_t offset, size_t n) const {
    const uint64_t begin = offset - offset % kDeviceBlockBytes;
    const uint64_t end =
        (offset + n + kDeviceBlockBytes - 1) / kDeviceBlockBytes * kDeviceBlockBytes;
    return {.descriptor = fd_.get(), .begin = begin, .bytes = end - begin, .keeps_open = nullptr};
  }

  Status ReadAt(uint64_t offset, size_t n, char* to) const {
    for (size_t done = 0; done < n;) {
      const size_t wanted = os_ == nullptr ? n - done : os_->Allowed(OsCall::kRead, n - done);
      size_t got = 0;
      Status s = ReadOnce(offset + done, wanted, to + done, &got);
      if (!s.ok()) return s;
      if (got == 0) return EndsEarly(offset, n, done);
      done += got;
    }
    return Status::OK();
  }

  // The device's blocks that the bytes lie in, to memory of their own: a read that came short of
  // one goes on at its start.
  Status ReadBlocksAt(uint64_t offset, size_t n, char* to) const {
    const DeviceBlocks blocks = BlocksAround(offset, n);
    const uint64_t begin = blocks.begin;
    const size_t needed = offset - begin + n;
    const AlignedBytes buffer(
        static_cast<char*>(::operator new(blocks.bytes, std::align_val_t{kDeviceBlockBytes})));
    for (size_t done = 0; done < needed;) {
      size_t wanted = blocks.bytes - done;
      if (os_ != nullptr) {
        const size_t allowed = os_->Allowed(OsCall::kRead, wanted);
        wanted = std::max(kDeviceBlockBytes, allowed - allowed % kDeviceBlockBytes);
      }
      size_t got = 0;
      Status s = ReadOnce(begin + done, wanted, buffer.get() + done, &got);
      if (!s.ok()) return s;
      const size_t whole = done + got < needed ? got - got % kDeviceBlockBytes : got;
      if (whole == 0) return EndsEarly(offset, n, std::max(begin + done + got, offset) - offset);
      done += whole;
    }
    std::memcpy(to, buffer.get() + (offset - begin), n);
    return Status::OK();
  }

  Status ReadOnce(uint64_t offset, size_t n, char* to, size_t* got) const {
    while (true) {
      const ssize_t result = Hooked(os_, OsCall::kRead, path_, [&] {
        return pread(fd_.get(), to, n, static_cast<off_t>(offset));
      });
      if (result < 0 && errno == EINTR) continue;
      if (result < 0) return ErrnoStatus(Concat("read ", path_, " at offset ", offset), errno);
      *got = static_cast<size_t>(result);
      return Status::OK();
    }
  }

  struct FreeAligned {
    void operator()(char* bytes) const {
      ::operator delete(bytes, std::align_val_t{kDeviceBlockBytes});
    }
  };
  using AlignedBytes = std::unique_ptr<char, FreeAligned>;

  Status EndsEarly(uint64_t offset, size_t expected, uint64_t found) const {
    return Status::Corruption(
        Concat("read ", path_, " at offset ", offset, ": expected ", expected, " bytes, found ",
               found, "; the file was cut off, or what names that place is damaged"));
  }

  const Descriptor fd_;
  const std::string path_;
  const ReadVia via_;
  const uint64_t bytes_;
  OsHook* const os_;  // may be null
};

class PosixFileLock : public FileLock {
 public:
  explicit PosixFileLock(Descriptor fd) : fd_(std::move(fd)) {}
  // The pid in the file is the holder's. A forked child has the descriptor, too: neither keeps the
  // lock when the holder lets go of it, nor lets go of it for the holder.
  ~PosixFileLock() override {
    if (holder_ != getpid()) return;
    (void)ftruncate(fd_.get(), 0);
    (void)flock(fd_.get(), LOCK_UN);
  }

 private:
  Descriptor fd_;
  const pid_t holder_ = getpid();
};

// "process 4711" or "this process", from what the holder wrote.
std::string HolderName(int fd) {
  char text[32] = {};
  const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
  long pid = 0;
  if (n <= 0 || std::from_chars(text, text + n, pid).ec != std::errc()) return "another process";
  return pid == getpid() ? "this process" : Concat("process ", pid);
}

class PosixFileSystem : public FileSystem {
 public:
  explicit PosixFileSystem(OsHook* os) : os_(os) {}

  // A link that leads nowhere is there, too: what it led to may only be out of reach.
  bool Exists(const std::string& path) override {
    struct stat found{};
    return lstat(path.c_str(), &found) == 0;
  }

  Status CreateDirectory(const std::string& raw_path) override {
    const std::string path = WithoutTrailingSlashes(raw_path);
    if (path.empty()) return Status::InvalidArgument("create directory: the path is empty");
    struct stat found{};
    if (Hooked(os_, OsCall::kStat, path, [&] { return stat(path.c_str(), &found); }) == 0) {
      if (!S_ISDIR(found.st_mode))
        return Status::InvalidArgument(path + " is a file; a directory is needed here");
      return SyncFoundDirectory(DirectoryOf(path));
    }
    if (errno != ENOENT) return ErrnoStatus("create directory " + path, errno);
    const std::string parent = DirectoryOf(path);
    if (parent != path) {
      Status s = CreateDirectory(parent);
      if (!s.ok()) return s;
    }
    const auto make = [&] { return mkdir(path.c_str(), 0755); };
    if (Hooked(os_, OsCall::kMakeDirectory, path, make) != 0 && errno != EEXIST) {
      return ErrnoStatus("create directory " + path, errno);
    }
    return SyncDirectory(parent);
  }

  Status RemoveDirectory(const std::string& raw_path) override {
    const std::string path = WithoutTrailingSlashes(raw_path);
    const auto remove = [&] { return rmdir(path.c_str()); };
    if (Hooked(os_, OsCall::kRemoveDirectory, path, remove) == 0)
      return SyncDirectory(DirectoryOf(path));
    if (errno == ENOENT) return SyncFoundDirectory(DirectoryOf(path));
    if (errno == ENOTEMPTY || errno == EEXIST) {
      return Status::InvalidArgument("remove directory " + path +
                                     ": it holds files that are none of the store's");
    }
    return ErrnoStatus("remove directory " + path, errno);
  }

  Status ListDirectory(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    if (Hooked(os_, OsCall::kList, path, [] { return 0; }) != 0)
      return ErrnoStatus("list directory " + path, errno);
    // Names take memory, which may be refused.
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), &closedir);
    if (directory == nullptr) return ErrnoStatus("list directory " + path, errno);
    for (;;) {
      errno = 0;
      const dirent* const entry = readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names->emplace_back(name);
    }
    if (errno != 0) return ErrnoStatus("list directory " + path, errno);
    std::sort(names->begin(), names->end());
    return Status::OK();
  }

  Status SyncDirectory(const std::string& path) override {
    const Descriptor fd(Hooked(os_, OsCall::kOpen, path, [&] {
      return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }));
    if (!fd.ok()) return ErrnoStatus("open directory " + path, errno);
    // Some file systems know no fsync of a directory: there is nothing to make durable then.
    const auto sync = [&] { return fsync(fd.get()); };
    if (Hooked(os_, OsCall::kSyncDirectory, path, sync) != 0 && errno != EINVAL) {
      return ErrnoStatus("sync directory " + path, errno);
    }
    return Status::OK();
  }

  Status FileSize(const std::string& path, uint64_t* bytes) override {
    struct stat found{};
    if (Hooked(os_, OsCall::kStat, path, [&] { return stat(path.c_str(), &found); }) != 0) {
      return ErrnoStatus("stat " + path, errno);
    }
    *bytes = static_cast<uint64_t>(found.st_size);
    return Status::OK();
  }

  Status RemoveFile(const std::string& path) override {
    const auto remove = [&] { return unlink(path.c_str()); };
    if (Hooked(os_, OsCall::kRemove, path, remove) == 0) return SyncDirectory(DirectoryOf(path));
    return errno == ENOENT ? SyncFoundDirectory(DirectoryOf(path))
                           : ErrnoStatus("remove " + path, errno);
  }

  Status RenameFile(const std::string& from, const std::string& to) override {
    const auto move = [&] { return rename(from.c_str(), to.c_str()); };
    if (Hooked(os_, OsCall::kRename, to, move) != 0)
      return ErrnoStatus(Concat("rename ", from, " to ", to), errno);
    return SyncDirectory(DirectoryOf(to));
  }

  Status ReadFile(const std::string& path, std::string* content) override {
    const Descriptor fd = OpenToRead(path);
    if (!fd.ok()) return ErrnoStatus("open " + path, errno);
    return ReadAll(fd.get(), path, content, os_);
  }

  // What a crash leaves after each step:
  //   working file written and synced    the old content; the next call replaces the working file
  //   renamed                            the old content or the new one
  //   directory synced                   the new content
  Status WriteFile(const std::string& path, std::string_view content) override {
    const std::string working = path + ".new";
    Status s = WriteAndSync(working, content);
    if (s.ok()) return RenameFile(working, path);
    Hooked(os_, OsCall::kRemove, working, [&] { return unlink(working.c_str()); });
    return s;
  }

  Status NewAppendFile(const std::string& path, std::unique_ptr<AppendFile>* file) override {
    Descriptor fd = CreateOrEmpty(path);
    if (!fd.ok()) return ErrnoStatus("create " + path, errno);
    *file = std::make_unique<PosixAppendFile>(std::move(fd), path, os_);
    return Status::OK();
  }

  Status NewRandomFile(const std::string& path, ReadVia via,
                       std::unique_ptr<RandomFile>* file) override {
    Descriptor fd = OpenToRead(path, via == ReadVia::kDevice ? O_DIRECT : 0);
    if (!fd.ok() && via == ReadVia::kDevice && errno == EINVAL) {
      return Status::NotSupported(Concat("open ", path,
                                         " past the page cache: its file system does not know "
                                         "O_DIRECT; put it on another, or read through the cache"));
    }
    if (!fd.ok()) return ErrnoStatus("open " + path, errno);
    struct stat found{};
    if (Hooked(os_, OsCall::kStat, path, [&] { return fstat(fd.get(), &found); }) != 0) {
      return ErrnoStatus("stat " + path, errno);
    }
    if (!S_ISREG(found.st_mode))
      return Status::Corruption(path + ": expected a file, found a directory, a pipe or a device");
    const auto bytes = static_cast<uint64_t>(found.st_size);
    *file = std::make_unique<PosixRandomFile>(std::move(fd), path, via, bytes, os_);
    return Status::OK();
  }

  Status LockFile(const std::string& path, std::unique_ptr<FileLock>* lock) override {
    Descriptor fd(Hooked(os_, OsCall::kCreate, path,
                         [&] { return open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644); }));
    if (!fd.ok()) return ErrnoStatus("open lock file " + path, errno);
    // The lock is the open file's, not the process's: a second open of this process is refused as
    // another one's is, and the kernel lets go of it when the process ends, however it does.
    if (Hooked(os_, OsCall::kLock, path, [&] { return flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoStatus("lock " + path, errno);
      return Status::Busy(Concat(path, " is locked by ", HolderName(fd.get()),
                                 ", which has the store open; close it there"));
    }
    // Who destroys a store removes the lock file, locked.
    struct stat locked{};
    struct stat named{};
    if (fstat(fd.get(), &locked) != 0 || stat(path.c_str(), &named) != 0 ||
        locked.st_dev != named.st_dev || locked.st_ino != named.st_ino) {
      return Status::Busy(
          path + " was removed while it was being locked: the store was destroyed; open it again");
    }
    const std::string pid = Concat(getpid(), "\n");
    const auto truncate = [&] { return ftruncate(fd.get(), 0); };
    Status s = Hooked(os_, OsCall::kTruncate, path, truncate) == 0
                   ? WriteAll(fd.get(), pid, path, os_)
                   : ErrnoStatus("truncate " + path, errno);
    // The pid is for messages only: a full disk must not keep a store from being opened.
    if (!s.ok() && !s.IsNoSpace()) return s;
    *lock = std::make_unique<PosixFileLock>(std::move(fd));
    return Status::OK();
  }

 private:
  // O_NONBLOCK: of a pipe that somebody put there, open would wait for who writes it.
  Descriptor OpenToRead(const std::string& path, int flags = 0) const {
    return Descriptor(Hooked(os_, OsCall::kOpen, path, [&] {
      return open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags);
    }));
  }

  Descriptor CreateOrEmpty(const std::string& path) const {
    return Descriptor(Hooked(os_, OsCall::kCreate, path, [&] {
      return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    }));
  }

  // What is found as it should be may have been made so by a call that did not live to sync it, or
  // failed to. A directory that is not there, or that this user may not open, holds nothing of
  // ours.
  Status SyncFoundDirectory(const std::string& path) {
    if (access(path.c_str(), R_OK) != 0) return Status::OK();
    return SyncDirectory(path);
  }

  Status WriteAndSync(const std::string& path, std::string_view content) const {
    const Descriptor fd = CreateOrEmpty(path);
    if (!fd.ok()) return ErrnoStatus("create " + path, errno);
    Status s = WriteAll(fd.get(), content, path, os_);
    return s.ok() ? SyncFile(fd.get(), path, os_) : s;
  }

  OsHook* const os_;  // may be null
};

}  // namespace

FileSystem* FileSystem::Posix() {
  // never destroyed: locks may outlive main
  static PosixFileSystem* const posix = new PosixFileSystem(nullptr);
  return posix;
}

std::unique_ptr<FileSystem> FileSystem::PosixOver(OsHook* os) {
  return std::make_unique<PosixFileSystem>(os);
}

}  // namespace lamella
