#include "pmem/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mman.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include <libpmem2.h>

#include "base/assert.h"
#include "base/concat.h"
#include "base/errno_status.h"
#include "base/sanitizer.h"
#include "base/standard_streams.h"
#include "pmem/file_id.h"
#include "pmem/line.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace lamella {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kHugePageBytes = 2ull << 20;
// Sanitizers need most of the address space for their shadow.
constexpr uint64_t kReserveBytesMax = LAMELLA_THREAD_SANITIZER != 0    ? 4ull << 30
                                      : LAMELLA_ADDRESS_SANITIZER != 0 ? 64ull << 30
                                                                       : ~uint64_t{0};

// Up to this in all, each region of the process gets the addresses that it asks for: what is mapped
// never moves, so a file cannot grow further while it is open. Beyond it, a region gets room for
// the file to become several times as large: of the 128 TiB that a process has, a thousand regions
// then take less than two thirds.
constexpr uint64_t kReserveBytesFree = 16ull << 40;
constexpr uint64_t kReserveBytesMany = 64ull << 30;
constexpr uint64_t kReserveFactorMany = 8;
// Where the process may not have all addresses (RLIMIT_AS), a region takes this share of those that
// are left.
constexpr uint64_t kReserveShareLimited = 8;

std::atomic<uint64_t> reserved_by_all{0};  // a figure; guards nothing

uint64_t ReserveBytesFor(uint64_t wanted, uint64_t needed) {
  const uint64_t reserved = reserved_by_all.load(std::memory_order_relaxed);
  uint64_t most = std::min(wanted, kReserveBytesMax);
  if (reserved >= kReserveBytesFree)
    most = std::min(most, std::max(kReserveBytesMany, needed * kReserveFactorMany));
  struct rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const uint64_t left = limit.rlim_cur > reserved ? limit.rlim_cur - reserved : 0;
    most = std::min(most, left / kReserveShareLimited);
  }
  return std::max(most, needed);
}

constexpr uint64_t PagesDown(uint64_t bytes) { return bytes & ~(kPageBytes - 1); }
constexpr uint64_t RoundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

Status Pmem2Status(std::string_view what, int error) {
  // Negative numbers above the library's own range are errno of the system call below it.
  if (error < 0 && error > PMEM2_E_UNKNOWN) return ErrnoStatus(what, -error);
  return Status::IOError(Concat(what, ": ", pmem2_errormsg(), " (libpmem2 error ", error, ")"));
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A new or renamed file is found after a power cut only once its directory is on the medium too.
Status SyncDirectoryOf(const std::string& path, OsHook* os) {
  const std::string directory = DirectoryOf(path);
  const int fd = Hooked(os, OsCall::kOpen, directory, [&] {
    return open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  });
  if (fd < 0) return ErrnoStatus("open directory " + directory, errno);
  const int error =
      Hooked(os, OsCall::kSyncDirectory, directory, [&] { return fsync(fd); }) == 0 ? 0 : errno;
  close(fd);
  // Some file systems know no fsync of a directory: there is nothing to make durable then.
  return error == 0 || error == EINVAL ? Status::OK()
                                       : ErrnoStatus("sync directory " + directory, error);
}

// Allocates [from, to) on the file system. On failure the file is as long as before.
Status Allocate(int fd, const std::string& path, uint64_t from, uint64_t to, OsHook* os) {
  int error;
  do {
    error = Hooked(os, OsCall::kAllocate, path, [&] {
      return posix_fallocate(fd, static_cast<off_t>(from), static_cast<off_t>(to - from));
    });
    if (error < 0) error = errno;  // the hook's
  } while (error == EINTR);
  if (error == 0) return Status::OK();
  if (Hooked(os, OsCall::kTruncate, path,
             [&] { return ftruncate(fd, static_cast<off_t>(from)); }) != 0) {
    return ErrnoStatus(Concat("allocate ", to - from, " bytes for ", path, " and take them back"),
                       errno);
  }
  return ErrnoStatus(
      Concat("allocate ", to - from, " bytes at the end of ", path, " (now ", from, " bytes)"),
      error);
}

std::string FileSystemName(const struct statfs& fs) {
  switch (static_cast<uint64_t>(fs.f_type)) {
    case TMPFS_MAGIC:
      return "tmpfs";
    case RAMFS_MAGIC:
      return "ramfs";
    case HUGETLBFS_MAGIC:
      return "hugetlbfs";
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case XFS_SUPER_MAGIC:
      return "xfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlayfs";
    case NFS_SUPER_MAGIC:
      return "nfs";
    default:
      return Concat("file system ", Hex{static_cast<uint64_t>(fs.f_type)});
  }
}

bool IsMemoryFileSystem(const struct statfs& fs) {
  const auto type = static_cast<uint64_t>(fs.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
}

}  // namespace

Region::Region(OsHook* os, std::string path) : os_(os), path_(std::move(path)) {}

Region::~Region() {
  if (base_ != nullptr) munmap(base_, reserved_);  // what is mapped of the file lies within
  reserved_by_all.fetch_sub(reserved_, std::memory_order_relaxed);
  if (source_ != nullptr) pmem2_source_delete(&source_);
  // A forked child has the descriptor, too. The lock ends when the process that took it lets go,
  // whatever children it has; and not where a child does.
  if (locked_by_ == getpid()) flock(fd_, LOCK_UN);
  if (fd_ >= 0) close(fd_);
}

// The lock is the open file's, not the process's: a second open of this process is refused as
// another one's is, and the kernel lets go of it when the process ends, however it does. By then
// the name may lead to another file, or to none. Keeps I3.
Status Region::Lock() {
  if (Hooked(os_, OsCall::kLock, path_, [&] { return flock(fd_, LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus("lock " + path_, errno);
    return Status::Busy(path_ +
                        " is open already, in this process or in another one; close the store "
                        "there, and destroy what iterators "
                        "and pinned values of it are left");
  }
  locked_by_ = getpid();
  file_id_ = FileId(fd_);
  struct stat locked{};
  struct stat named{};
  if (Hooked(os_, OsCall::kStat, path_, [&] { return fstat(fd_, &locked); }) != 0) {
    return ErrnoStatus("stat " + path_, errno);
  }
  device_ = locked.st_dev;
  if (stat(path_.c_str(), &named) == 0 && named.st_dev == locked.st_dev &&
      named.st_ino == locked.st_ino) {
    return Status::OK();
  }
  return Status::Busy(path_ + " was removed or replaced while it was being opened; open it again");
}

Status Region::Create(const std::string& path, uint64_t bytes, uint64_t reserve_bytes,
                      std::unique_ptr<Region>* region, OsHook* os) {
  if (bytes == 0 || bytes % kPageBytes != 0) {
    return Status::InvalidArgument(
        Concat(path, ": ", bytes, " bytes is not a whole number of 4096-byte pages"));
  }
  std::unique_ptr<Region> made(new Region(os, path));
  made->fd_ = AboveStandardStreams(Hooked(os, OsCall::kCreate, path, [&] {
    return open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  }));
  if (made->fd_ < 0) {
    if (errno == EEXIST)
      return Status::InvalidArgument(path + " exists already; remove it, or open it");
    return ErrnoStatus("create " + path, errno);
  }
  Status s = made->Lock();
  if (s.IsBusy()) return s;  // it is somebody else's by now
  if (s.ok()) s = CheckFileSizeLimit(path, bytes);
  if (s.ok()) s = Allocate(made->fd_, path, 0, bytes, os);
  if (s.ok()) s = made->Reserve(reserve_bytes, bytes);
  if (s.ok()) s = made->Map(bytes);
  if (s.ok() && Hooked(os, OsCall::kSync, path, [&] { return fsync(made->fd_); }) != 0) {
    s = ErrnoStatus("sync " + path, errno);
  }
  if (s.ok()) s = SyncDirectoryOf(path, os);
  if (!s.ok()) {
    // the first failure is the one to report
    Hooked(os, OsCall::kRemove, path, [&] { return unlink(path.c_str()); });
    return s;
  }
  *region = std::move(made);
  return s;
}

Status Region::Open(const std::string& path, uint64_t reserve_bytes,
                    std::unique_ptr<Region>* region, OsHook* os) {
  std::unique_ptr<Region> opened(new Region(os, path));
  opened->fd_ = AboveStandardStreams(
      Hooked(os, OsCall::kOpen, path, [&] { return open(path.c_str(), O_RDWR | O_CLOEXEC); }));
  if (opened->fd_ < 0) return ErrnoStatus("open " + path, errno);
  Status s = opened->Lock();
  if (!s.ok()) return s;
  struct stat file{};
  if (Hooked(os, OsCall::kStat, path, [&] { return fstat(opened->fd_, &file); }) != 0) {
    return ErrnoStatus("stat " + path, errno);
  }
  uint64_t bytes = static_cast<uint64_t>(file.st_size);
  if (S_ISCHR(file.st_mode)) {
    int error = pmem2_source_from_fd(&opened->source_, opened->fd_);
    size_t device_bytes = 0;
    if (error == 0) error = pmem2_source_size(opened->source_, &device_bytes);
    if (error != 0) return Pmem2Status("size of device " + path, error);
    bytes = device_bytes;
    opened->is_device_ = true;
  } else if (!S_ISREG(file.st_mode)) {
    return Status::InvalidArgument(path + " is neither a file nor a DAX device");
  }
  if (bytes < kPageBytes) {
    return Status::Corruption(Concat(path, ": expected at least one page of ", kPageBytes,
                                     " bytes, found ", bytes, " bytes"));
  }
  s = opened->Reserve(reserve_bytes, PagesDown(bytes));
  if (s.ok()) s = opened->Map(PagesDown(bytes));
  // A growth that was cut short may have left a size that is not durable: as in Grow.
  const auto sync = [&] { return fsync(opened->fd_); };
  if (s.ok() && opened->medium_ != MediumKind::kPage && !opened->is_device_ &&
      Hooked(os, OsCall::kSync, path, sync) != 0) {
    s = ErrnoStatus("sync " + path, errno);
  }
  if (s.ok() && !opened->is_device_) s = SyncDirectoryOf(path, os);  // keeps I4
  if (s.ok()) *region = std::move(opened);
  return s;
}

Status Region::Hold(const std::string& path, std::unique_ptr<Region>* region, OsHook* os) {
  std::unique_ptr<Region> held(new Region(os, path));
  held->fd_ = Hooked(os, OsCall::kOpen, path,
                     [&] { return open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
  if (held->fd_ < 0) return ErrnoStatus("open " + path, errno);
  Status s = held->Lock();
  if (s.ok()) *region = std::move(held);
  return s;
}

// Takes the range of addresses that the file may grow into: what is asked for, or half of it, or a
// quarter ... but never less than what is needed now.
Status Region::Reserve(uint64_t reserve_bytes, uint64_t needed_bytes) {
  if (source_ == nullptr) {
    const int error = pmem2_source_from_fd(&source_, fd_);
    if (error != 0) return Pmem2Status("use " + path_, error);
  }
  size_t alignment = 0;
  int error = pmem2_source_alignment(source_, &alignment);
  if (error != 0) return Pmem2Status("alignment of " + path_, error);
  const uint64_t unit = std::max<uint64_t>(alignment, kHugePageBytes);
  const uint64_t least = RoundUp(needed_bytes, unit);
  uint64_t want = RoundUp(ReserveBytesFor(reserve_bytes, least), unit);
  intptr_t range = -1;  // of MAP_FAILED, as an address
  while (true) {
    range = Hooked(os_, OsCall::kReserve, path_, [&] {
      return reinterpret_cast<intptr_t>(mmap(nullptr, want + unit, PROT_NONE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    });
    if (range != -1) break;
    if (want == least)
      return ErrnoStatus(Concat("reserve ", want, " bytes of addresses for ", path_), errno);
    want = std::max(least, RoundUp(want / 2, unit));
  }
  // It starts on a huge page, so that DAX and huge-page file systems can map by large pages; what
  // is before and after it goes back.
  char* first = reinterpret_cast<char*>(range);
  base_ = reinterpret_cast<char*>(RoundUp(static_cast<uintptr_t>(range), unit));
  reserved_ = want;
  reserved_by_all.fetch_add(want, std::memory_order_relaxed);
  if (base_ != first) munmap(first, static_cast<size_t>(base_ - first));
  const uint64_t after = unit - static_cast<uint64_t>(base_ - first);
  if (after != 0) munmap(base_ + want, after);
  return Status::OK();
}

// What the platform promises of stores to this file: libpmem2 maps a piece of it to find out.
Status Region::AskGranularity() {
  size_t alignment = 0;
  pmem2_config* config = nullptr;
  pmem2_map* map = nullptr;
  int error = pmem2_source_alignment(source_, &alignment);
  if (error == 0) error = pmem2_config_new(&config);
  if (error == 0)
    error = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
  if (error == 0) error = pmem2_config_set_length(config, std::max<size_t>(alignment, kPageBytes));
  if (error == 0) error = pmem2_map_new(&map, config, source_);
  if (error == 0) {
    switch (pmem2_map_get_store_granularity(map)) {
      case PMEM2_GRANULARITY_BYTE:
        medium_ = MediumKind::kByte;
        break;
      case PMEM2_GRANULARITY_CACHE_LINE:
        medium_ = MediumKind::kCacheLine;
        break;
      case PMEM2_GRANULARITY_PAGE:
        medium_ = MediumKind::kPage;
        break;
    }
  }
  if (map != nullptr) pmem2_map_delete(&map);
  if (config != nullptr) pmem2_config_delete(&config);
  return error == 0 ? Status::OK()
                    : Pmem2Status("find out what stores to " + path_ + " need", error);
}

// Maps the file from bytes_ to `bytes` after what is mapped. REQUIRES: allocated, and within the
// reservation.
Status Region::Map(uint64_t bytes) {
  // only the growing thread stores it
  const uint64_t from = bytes_.load(std::memory_order_relaxed);
  if (from == 0) {
    Status s = AskGranularity();
    if (!s.ok()) return s;
  }
  const auto map = [&](int flags) {
    return Hooked(os_, OsCall::kMap, path_, [&] {
             return reinterpret_cast<intptr_t>(mmap(base_ + from, bytes - from,
                                                    PROT_READ | PROT_WRITE, MAP_FIXED | flags, fd_,
                                                    static_cast<off_t>(from)));
           }) != -1;
  };
  // On a DAX file system MAP_SYNC makes the file's own metadata durable before a page of it can be
  // stored to: flushed lines are nothing without. A DAX device has none, and what only the user
  // calls DAX (PMEM2_FORCE_GRANULARITY) does not know the flag.
  bool mapped =
      medium_ == MediumKind::kPage ? map(MAP_SHARED) : map(MAP_SHARED_VALIDATE | MAP_SYNC);
  if (!mapped && (errno == EOPNOTSUPP || errno == EINVAL)) mapped = map(MAP_SHARED);
  if (!mapped)
    return ErrnoStatus(Concat("map ", bytes - from, " bytes of ", path_, " at offset ", from),
                       errno);
  // pairs with bytes(): who sees the size sees the mapping
  bytes_.store(bytes, std::memory_order_release);
  return Status::OK();
}

// Where the file system packs what it holds, a file without holes looks as if it had some, and this
// changes nothing.
Status Region::FillHoles() {
  constexpr uint64_t kStatBlockBytes = 512;
  if (is_device_) return Status::OK();
  struct stat file{};
  if (Hooked(os_, OsCall::kStat, path_, [&] { return fstat(fd_, &file); }) != 0) {
    return ErrnoStatus("stat " + path_, errno);
  }
  if (static_cast<uint64_t>(file.st_blocks) * kStatBlockBytes >= bytes()) return Status::OK();
  int error;
  do {
    error = Hooked(os_, OsCall::kAllocate, path_,
                   [&] { return posix_fallocate(fd_, 0, static_cast<off_t>(bytes())); });
    if (error < 0) error = errno;  // the hook's
  } while (error == EINTR);
  if (error == 0) return Status::OK();
  return ErrnoStatus(
      Concat("fill the holes of ", path_, ", which a copy may have, up to its ", bytes(), " bytes"),
      error);
}

MediumReport Region::Detect() const {
  MediumReport report;
  struct statfs fs{};
  const bool known = !is_device_ && fstatfs(fd_, &fs) == 0;
  const std::string name = is_device_ ? "DAX device"
                           : known    ? FileSystemName(fs)
                                      : "unknown file system";
  report.kind = medium_;
  if (medium_ == MediumKind::kByte) {
    report.description =
        name + ", DAX with caches inside the persistence domain: a fence makes stores durable";
  } else if (medium_ == MediumKind::kCacheLine) {
    report.description = name + ", DAX: a flush and a fence make stores durable";
  } else {
    report.description = name + ", pages: a sync makes stores survive a power cut";
  }
  if (known && IsMemoryFileSystem(fs)) {
    report.survives_power = false;
    report.description = name + ": survives the process, not the power";
  }
  return report;
}

// What Grow looks at.
uint64_t Region::RoomToGrow(uint32_t sharers) const {
  if (is_device_) return 0;
  const uint64_t mapped = bytes();
  const uint64_t most = std::min(reserved_, FileSizeLimit());
  const uint64_t room = most - std::min(most, mapped);
  struct statfs fs{};
  if (fstatfs(fd_, &fs) != 0 || fs.f_blocks == 0) return room;
  uint64_t bytes;
  return __builtin_mul_overflow(fs.f_bavail, fs.f_bsize, &bytes) ? room
                                                                 : std::min(room, bytes / sharers);
}

Status Region::Grow(uint64_t bytes) {
  // only the growing thread stores it
  const uint64_t mapped = bytes_.load(std::memory_order_relaxed);
  if (bytes % kPageBytes != 0) {
    return Status::InvalidArgument(
        Concat(path_, ": ", bytes, " bytes is not a whole number of 4096-byte pages"));
  }
  if (bytes <= mapped) return Status::OK();
  if (bytes > reserved_) {
    return Status::NoSpace(Concat(
        path_, " wants ", bytes, " bytes, and ", reserved_,
        " bytes of addresses were reserved for it at open; open the store again to grow further"));
  }
  if (is_device_)
    return Status::NoSpace(Concat(path_, " is a device of ", mapped, " bytes and cannot grow"));
  struct stat file{};
  if (Hooked(os_, OsCall::kStat, path_, [&] { return fstat(fd_, &file); }) != 0) {
    return ErrnoStatus("stat " + path_, errno);
  }
  Status s = CheckFileSizeLimit(path_, bytes);
  if (!s.ok()) return s;
  // A crash between allocation and use leaves the file longer than it was: then there is less to
  // allocate.
  const uint64_t found = static_cast<uint64_t>(file.st_size);
  if (found < bytes) s = Allocate(fd_, path_, found, bytes, os_);
  if (!s.ok()) return s;
  // On DAX the new size must be durable before bytes in it are called so. Elsewhere Sync carries
  // it.
  if (s.ok() && medium_ != MediumKind::kPage &&
      Hooked(os_, OsCall::kSync, path_, [&] { return fsync(fd_); }) != 0) {
    s = ErrnoStatus("sync " + path_, errno);
  }
  if (s.ok()) s = Map(bytes);
  const auto give_back = [&] { return ftruncate(fd_, static_cast<off_t>(found)); };
  if (!s.ok() && found < bytes && Hooked(os_, OsCall::kTruncate, path_, give_back) != 0) {
    return ErrnoStatus(Concat("give back the growth of ", path_, " after: ", s.ToString()), errno);
  }
  return s;
}

// The addresses get anonymous memory before the file loses the bytes, so that there is no moment at
// which a read of them is a signal (keeps I6). Nothing of it is taken by reads, and it cannot be
// stored to.
Status Region::Shrink(uint64_t bytes) {
  // only the shrinking thread stores it
  const uint64_t mapped = bytes_.load(std::memory_order_relaxed);
  if (bytes % kPageBytes != 0 || bytes == 0) {
    return Status::InvalidArgument(
        Concat(path_, ": ", bytes, " bytes is not a whole number of 4096-byte pages"));
  }
  if (bytes >= mapped) return Status::OK();
  if (is_device_)
    return Status::NotSupported(
        Concat(path_, " is a device of ", mapped, " bytes and cannot shrink"));
  MutexLock lock(&shrink_mu_);
  const bool replaced = Hooked(os_, OsCall::kMap, path_, [&] {
                          return reinterpret_cast<intptr_t>(
                              mmap(base_ + bytes, mapped - bytes, PROT_READ,
                                   MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
                        }) != -1;
  Status s;
  if (!replaced) {
    s = ErrnoStatus(
        Concat("map nothing over ", mapped - bytes, " bytes of ", path_, " at offset ", bytes),
        errno);
  } else if (Hooked(os_, OsCall::kTruncate, path_,
                    [&] { return ftruncate(fd_, static_cast<off_t>(bytes)); }) != 0) {
    s = ErrnoStatus(Concat("shorten ", path_, " to ", bytes, " bytes"), errno);
  }
  bytes_.store(bytes, std::memory_order_release);
  // A mapping that failed may have taken the old one away already, too. Where this one fails, the
  // file is longer than what is mapped of it, as after a crash: Grow finds the bytes. The first
  // failure is the one to report.
  if (!s.ok()) (void)Map(mapped).ok();
  return s;
}

Status Region::Rename(const std::string& path) {
  if (Hooked(os_, OsCall::kRename, path, [&] { return rename(path_.c_str(), path.c_str()); }) !=
      0) {
    return ErrnoStatus(Concat("rename ", path_, " to ", path), errno);
  }
  path_ = path;
  return SyncDirectoryOf(path_, os_);
}

Status Region::Unlink() {
  if (Hooked(os_, OsCall::kRemove, path_, [&] { return unlink(path_.c_str()); }) != 0) {
    return ErrnoStatus("remove " + path_, errno);
  }
  return SyncDirectoryOf(path_, os_);
}

Status Region::Remove(const std::string& path, OsHook* os) {
  std::unique_ptr<Region> held;
  Status s = Hold(path, &held, os);
  if (s.ok()) return held->Unlink();
  if (!s.IsNotFound()) return s;
  if (access(DirectoryOf(path).c_str(), R_OK) != 0) return Status::OK();
  return SyncDirectoryOf(path, os);  // also of what is gone: an earlier call may have failed to
}

// An atomic "or" with nothing is a write to the page tables and none to the bytes, whoever else
// stores there.
__attribute__((no_sanitize("thread"))) static void TouchPages(char* from, char* to) {
  for (char* p = from; p < to; p += kPageBytes) {
    reinterpret_cast<std::atomic<uint8_t>*>(p)->fetch_or(0, std::memory_order_relaxed);
  }
}

void Region::Prefault(uint64_t offset, uint64_t n) {
  MutexLock lock(&shrink_mu_);
  const uint64_t from = PagesDown(offset);
  const uint64_t to = std::min(RoundUp(offset + n, kPageBytes), bytes());
  if (from >= to) return;
  // The kernel faults all of it in by one call, and answers an error where a touch would be a
  // signal.
  if (madvise(base_ + from, to - from, MADV_POPULATE_WRITE) == 0) return;
  if (errno == EINVAL) TouchPages(base_ + from, base_ + to);  // a kernel before 5.14
}

Status Region::DirtyAll() {
  const uint64_t n = bytes();
  if (Hooked(os_, OsCall::kDirty, path_, [&] { return madvise(base_, n, MADV_POPULATE_WRITE); }) ==
      0)
    return Status::OK();
  if (errno != EINVAL) return ErrnoStatus("write the pages of " + path_ + " again", errno);
  TouchPages(base_, base_ + n);  // a kernel before 5.14
  return Status::OK();
}

Status Region::Sync(Gate* gate, const Site& site) {
  if (gate->hook() != nullptr) gate->hook()->OnSync(base_, bytes(), site);
  MutexLock lock(&sync_mu_);
  const uint64_t wanted = syncs_begun_ + 1;  // one that begins after this call
  while (syncing_ && syncs_done_ < wanted) synced_.wait(sync_mu_);
  if (sync_failed_) {
    return Status::IOError("an earlier sync of " + path_ +
                           " failed: what was written since the last good one may be lost; " +
                           "close the store, check the medium and open it again");
  }
  if (syncs_done_ >= wanted) return Status::OK();
  syncing_ = true;
  syncs_begun_++;
  sync_mu_.unlock();
  const uint64_t n = bytes();
  const int error =
      Hooked(os_, OsCall::kSyncMap, path_, [&] { return msync(base_, n, MS_SYNC); }) == 0 ? 0
                                                                                          : errno;
  sync_mu_.lock();
  syncing_ = false;
  syncs_done_ = syncs_begun_;
  sync_failed_ = error != 0;
  synced_.notify_all();
  if (error == 0) return Status::OK();
  return Status::IOError(
      Concat("sync ", path_, ": ", ErrnoText(error), "; the store takes no more writes"));
}

}  // namespace lamella
