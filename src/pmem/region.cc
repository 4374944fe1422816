#include "pmem/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include <libpmem2.h>

#include "base/assert.h"
#include "base/concat.h"
#include "base/errno_status.h"
#include "base/sanitizer.h"
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

constexpr uint64_t PagesDown(uint64_t bytes) { return bytes & ~(kPageBytes - 1); }
constexpr uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

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
  const int fd =
      Hooked(os, OsCall::kOpen, directory, [&] { return open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) return ErrnoStatus("open directory " + directory, errno);
  const int error = Hooked(os, OsCall::kSyncDirectory, directory, [&] { return fsync(fd); }) == 0 ? 0 : errno;
  close(fd);
  // Some file systems know no fsync of a directory: there is nothing to make durable then.
  return error == 0 || error == EINVAL ? Status::OK() : ErrnoStatus("sync directory " + directory, error);
}

// Allocates [from, to) on the file system. On failure the file is as long as before.
Status Allocate(int fd, const std::string& path, uint64_t from, uint64_t to, OsHook* os) {
  int error;
  do {
    error = Hooked(os, OsCall::kAllocate, path,
                   [&] { return posix_fallocate(fd, static_cast<off_t>(from), static_cast<off_t>(to - from)); });
    if (error < 0) error = errno;  // the hook's
  } while (error == EINTR);
  if (error == 0) return Status::OK();
  if (Hooked(os, OsCall::kTruncate, path, [&] { return ftruncate(fd, static_cast<off_t>(from)); }) != 0) {
    return ErrnoStatus(Concat("allocate ", to - from, " bytes for ", path, " and take them back"), errno);
  }
  return ErrnoStatus(Concat("allocate ", to - from, " bytes at the end of ", path, " (now ", from, " bytes)"), error);
}

// Finds a free range that starts on a huge page, so that DAX and huge-page file systems can map by large pages.
void* AlignedHint(uint64_t bytes, uint64_t alignment) {
  void* range = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  munmap(range, bytes + alignment);
  return reinterpret_cast<void*>(RoundUp(reinterpret_cast<uintptr_t>(range), alignment));
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

struct Region::Maps {
  pmem2_source* source = nullptr;
  pmem2_vm_reservation* reservation = nullptr;
  std::vector<pmem2_map*> extents;  // in order; together [0, bytes_)

  ~Maps() {
    for (pmem2_map*& extent : extents) pmem2_map_delete(&extent);
    if (reservation != nullptr) pmem2_vm_reservation_delete(&reservation);
    if (source != nullptr) pmem2_source_delete(&source);
  }
};

Region::Region(OsHook* os) : os_(os), maps_(std::make_unique<Maps>()) {}

Region::~Region() {
  maps_.reset();
  if (fd_ >= 0) close(fd_);
}

Status Region::Create(const std::string& path, uint64_t bytes, uint64_t reserve_bytes, std::unique_ptr<Region>* region,
                      OsHook* os) {
  if (bytes == 0 || bytes % kPageBytes != 0) {
    return Status::InvalidArgument(Concat(path, ": ", bytes, " bytes is not a whole number of 4096-byte pages"));
  }
  std::unique_ptr<Region> made(new Region(os));
  made->path_ = path;
  made->fd_ = Hooked(os, OsCall::kCreate, path,
                     [&] { return open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644); });
  if (made->fd_ < 0) {
    if (errno == EEXIST) return Status::InvalidArgument(path + " exists already; remove it, or open it");
    return ErrnoStatus("create " + path, errno);
  }
  Status s = made->CheckFileSizeLimit(bytes);
  if (s.ok()) s = Allocate(made->fd_, path, 0, bytes, os);
  if (s.ok()) s = made->Reserve(reserve_bytes, bytes);
  if (s.ok()) s = made->Map(bytes);
  if (s.ok() && Hooked(os, OsCall::kSync, path, [&] { return fsync(made->fd_); }) != 0) {
    s = ErrnoStatus("sync " + path, errno);
  }
  if (s.ok()) s = SyncDirectoryOf(path, os);
  if (!s.ok()) {
    Hooked(os, OsCall::kRemove, path, [&] { return unlink(path.c_str()); });  // the first failure is the one to report
    return s;
  }
  *region = std::move(made);
  return s;
}

Status Region::Open(const std::string& path, uint64_t reserve_bytes, std::unique_ptr<Region>* region, OsHook* os) {
  std::unique_ptr<Region> opened(new Region(os));
  opened->path_ = path;
  opened->fd_ = Hooked(os, OsCall::kOpen, path, [&] { return open(path.c_str(), O_RDWR | O_CLOEXEC); });
  if (opened->fd_ < 0) return ErrnoStatus("open " + path, errno);
  struct stat file{};
  if (Hooked(os, OsCall::kStat, path, [&] { return fstat(opened->fd_, &file); }) != 0) {
    return ErrnoStatus("stat " + path, errno);
  }
  uint64_t bytes = static_cast<uint64_t>(file.st_size);
  if (S_ISCHR(file.st_mode)) {
    int error = pmem2_source_from_fd(&opened->maps_->source, opened->fd_);
    size_t device_bytes = 0;
    if (error == 0) error = pmem2_source_size(opened->maps_->source, &device_bytes);
    if (error != 0) return Pmem2Status("size of device " + path, error);
    bytes = device_bytes;
  } else if (!S_ISREG(file.st_mode)) {
    return Status::InvalidArgument(path + " is neither a file nor a DAX device");
  }
  if (bytes < kPageBytes) {
    return Status::Corruption(
        Concat(path, ": expected at least one page of ", kPageBytes, " bytes, found ", bytes, " bytes"));
  }
  Status s = opened->Reserve(reserve_bytes, PagesDown(bytes));
  if (s.ok()) s = opened->Map(PagesDown(bytes));
  if (s.ok()) *region = std::move(opened);
  return s;
}

// Takes the range of addresses that the file may grow into: what is asked for, or half of it, or a quarter ... but
// never less than what is needed now.
Status Region::Reserve(uint64_t reserve_bytes, uint64_t needed_bytes) {
  if (maps_->source == nullptr) {
    const int error = pmem2_source_from_fd(&maps_->source, fd_);
    if (error != 0) return Pmem2Status("use " + path_, error);
  }
  size_t alignment = 0;
  int error = pmem2_source_alignment(maps_->source, &alignment);
  if (error != 0) return Pmem2Status("alignment of " + path_, error);
  const uint64_t unit = std::max<uint64_t>(alignment, kHugePageBytes);
  const uint64_t least = RoundUp(needed_bytes, unit);
  uint64_t want = std::max(least, RoundUp(std::min(reserve_bytes, kReserveBytesMax), unit));
  while (true) {
    const int refused = os_ == nullptr ? 0 : os_->Before(OsCall::kReserve, path_);
    void* hint = refused != 0 ? nullptr : AlignedHint(want, unit);
    error = refused != 0      ? -refused
            : hint == nullptr ? -ENOMEM
                              : pmem2_vm_reservation_new(&maps_->reservation, hint, want);
    if (error != 0 && hint != nullptr) {  // another thread took the range that was free a moment ago
      error = pmem2_vm_reservation_new(&maps_->reservation, nullptr, want);
    }
    if (error == 0) break;
    if (want == least) return Pmem2Status(Concat("reserve ", want, " bytes of addresses for ", path_), error);
    want = std::max(least, RoundUp(want / 2, unit));
  }
  base_ = static_cast<char*>(pmem2_vm_reservation_get_address(maps_->reservation));
  reserved_ = want;
  return Status::OK();
}

// Maps the file from bytes_ to `bytes` behind what is mapped. REQUIRES: allocated, and within the reservation.
Status Region::Map(uint64_t bytes) {
  const uint64_t from = bytes_.load(std::memory_order_relaxed);  // only the growing thread stores it
  pmem2_config* config = nullptr;
  int error = os_ == nullptr ? 0 : -os_->Before(OsCall::kMap, path_);
  if (error == 0) error = pmem2_config_new(&config);
  if (error == 0) error = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
  if (error == 0) error = pmem2_config_set_offset(config, from);
  if (error == 0) error = pmem2_config_set_length(config, bytes - from);
  if (error == 0) error = pmem2_config_set_vm_reservation(config, maps_->reservation, from);
  pmem2_map* extent = nullptr;
  if (error == 0) error = pmem2_map_new(&extent, config, maps_->source);
  if (config != nullptr) pmem2_config_delete(&config);
  if (error != 0) return Pmem2Status(Concat("map ", bytes - from, " bytes of ", path_, " at offset ", from), error);
  maps_->extents.push_back(extent);
  bytes_.store(bytes, std::memory_order_release);  // pairs with bytes(): who sees the size sees the mapping
  return Status::OK();
}

// Growing past RLIMIT_FSIZE raises a signal that would end the process: see it first.
Status Region::CheckFileSizeLimit(uint64_t bytes) const {
  struct rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) {
    return Status::OK();
  }
  return Status::NoSpace(Concat(path_, " wants to be ", bytes, " bytes, and this process may write files of at most ",
                                limit.rlim_cur, "; raise the limit (ulimit -f)"));
}

MediumReport Region::Detect() const {
  MediumReport report;
  struct stat file{};
  struct statfs fs{};
  const bool device = fstat(fd_, &file) == 0 && S_ISCHR(file.st_mode);
  const bool known = !device && fstatfs(fd_, &fs) == 0;
  const std::string name = device ? "DAX device" : known ? FileSystemName(fs) : "unknown file system";
  LAMELLA_CHECK(!maps_->extents.empty());
  switch (pmem2_map_get_store_granularity(maps_->extents.front())) {
    case PMEM2_GRANULARITY_BYTE:
      report.kind = MediumKind::kByte;
      report.description = name + ", DAX with caches inside the persistence domain: a fence makes stores durable";
      break;
    case PMEM2_GRANULARITY_CACHE_LINE:
      report.kind = MediumKind::kCacheLine;
      report.description = name + ", DAX: a flush and a fence make stores durable";
      break;
    case PMEM2_GRANULARITY_PAGE:
      report.kind = MediumKind::kPage;
      report.description = name + ", pages: a sync makes stores survive a power cut";
      break;
  }
  if (known && IsMemoryFileSystem(fs)) {
    report.survives_power = false;
    report.description = name + ": survives the process, not the power";
  }
  return report;
}

Status Region::Grow(uint64_t bytes) {
  const uint64_t mapped = bytes_.load(std::memory_order_relaxed);  // only the growing thread stores it
  if (bytes % kPageBytes != 0) {
    return Status::InvalidArgument(Concat(path_, ": ", bytes, " bytes is not a whole number of 4096-byte pages"));
  }
  if (bytes <= mapped) return Status::OK();
  if (bytes > reserved_) {
    return Status::NoSpace(
        Concat(path_, " wants ", bytes, " bytes, and ", reserved_,
               " bytes of addresses were reserved for it at open; open the store again to grow further"));
  }
  struct stat file{};
  if (Hooked(os_, OsCall::kStat, path_, [&] { return fstat(fd_, &file); }) != 0)
    return ErrnoStatus("stat " + path_, errno);
  if (S_ISCHR(file.st_mode))
    return Status::NoSpace(Concat(path_, " is a device of ", mapped, " bytes and cannot grow"));
  Status s = CheckFileSizeLimit(bytes);
  if (!s.ok()) return s;
  // A crash between allocation and use leaves the file longer than it was: then there is less to allocate.
  const uint64_t found = static_cast<uint64_t>(file.st_size);
  if (found < bytes) s = Allocate(fd_, path_, found, bytes, os_);
  if (!s.ok()) return s;
  // On DAX the new size must be durable before bytes in it are called so. Elsewhere Sync carries it.
  const bool pages = pmem2_map_get_store_granularity(maps_->extents.front()) == PMEM2_GRANULARITY_PAGE;
  if (s.ok() && !pages && Hooked(os_, OsCall::kSync, path_, [&] { return fsync(fd_); }) != 0)
    s = ErrnoStatus("sync " + path_, errno);
  if (s.ok()) s = Map(bytes);
  const auto give_back = [&] { return ftruncate(fd_, static_cast<off_t>(found)); };
  if (!s.ok() && found < bytes && Hooked(os_, OsCall::kTruncate, path_, give_back) != 0) {
    return ErrnoStatus(Concat("give back the growth of ", path_, " after: ", s.ToString()), errno);
  }
  return s;
}

Status Region::Rename(const std::string& path) {
  if (Hooked(os_, OsCall::kRename, path, [&] { return rename(path_.c_str(), path.c_str()); }) != 0) {
    return ErrnoStatus(Concat("rename ", path_, " to ", path), errno);
  }
  path_ = path;
  return SyncDirectoryOf(path_, os_);
}

Status Region::Remove(const std::string& path, OsHook* os) {
  if (Hooked(os, OsCall::kRemove, path, [&] { return unlink(path.c_str()); }) != 0) {
    if (errno != ENOENT) return ErrnoStatus("remove " + path, errno);
    if (access(DirectoryOf(path).c_str(), R_OK) != 0) return Status::OK();
  }
  return SyncDirectoryOf(path, os);  // also of what is gone: an earlier call may have failed to
}

// An atomic "or" with nothing is a write to the page tables and none to the bytes, whoever else stores there.
__attribute__((no_sanitize("thread"))) static void TouchPages(char* from, char* to) {
  for (char* p = from; p < to; p += kPageBytes) {
    reinterpret_cast<std::atomic<uint8_t>*>(p)->fetch_or(0, std::memory_order_relaxed);
  }
}

void Region::Prefault(uint64_t offset, uint64_t n) {
  const uint64_t from = PagesDown(offset);
  const uint64_t to = std::min(RoundUp(offset + n, kPageBytes), bytes());
  if (from >= to) return;
  // The kernel faults all of it in by one call, and answers an error where a touch would be a signal.
  if (madvise(base_ + from, to - from, MADV_POPULATE_WRITE) == 0) return;
  if (errno == EINVAL) TouchPages(base_ + from, base_ + to);  // a kernel before 5.14
}

Status Region::DirtyAll() {
  const uint64_t n = bytes();
  if (Hooked(os_, OsCall::kDirty, path_, [&] { return madvise(base_, n, MADV_POPULATE_WRITE); }) == 0)
    return Status::OK();
  if (errno != EINVAL) return ErrnoStatus("write the pages of " + path_ + " again", errno);
  TouchPages(base_, base_ + n);  // a kernel before 5.14
  return Status::OK();
}

Status Region::Sync(Gate* gate, const Site& site) {
  const uint64_t n = bytes();
  if (gate->hook() != nullptr) gate->hook()->OnSync(base_, n, site);
  // relaxed: the latch is only ever set, and a Sync that races with the failing one may report either.
  if (sync_failed_.load(std::memory_order_relaxed)) {
    return Status::IOError("an earlier sync of " + path_ +
                           " failed: what was written since the last good one may be lost; " +
                           "close the store, check the medium and open it again");
  }
  if (Hooked(os_, OsCall::kSyncMap, path_, [&] { return msync(base_, n, MS_SYNC); }) == 0) return Status::OK();
  const int error = errno;
  sync_failed_.store(true, std::memory_order_relaxed);
  return Status::IOError(Concat("sync ", path_, ": ", ErrnoText(error), "; the store takes no more writes"));
}

}  // namespace lamella
