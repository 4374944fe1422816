// OsHook sees each call into the operating system that can fail before it is made, and may answer
// it with an error: so tests see what a store does then (testing/fault_file_system.h). Without one,
// a call costs one predictable branch more.
// Threads: any.
#ifndef LAMELLA_BASE_OS_HOOK_H_
#define LAMELLA_BASE_OS_HOOK_H_

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lamella {

enum class OsCall : uint8_t {
  kOpen,
  kCreate,
  kStat,
  kRead,
  kWrite,
  kTruncate,
  kAllocate,       // posix_fallocate
  kReserve,        // of addresses
  kMap,            // mmap of a file's bytes
  kDirty,          // every page of a mapped file becomes one to write
  kSync,           // fsync of a file
  kSyncMap,        // msync
  kSyncDirectory,  // open and fsync of a directory
  kRename,
  kRemove,
  kMakeDirectory,
  kRemoveDirectory,
  kList,
  kLock,
  kCount,
};

class OsHook {
 public:
  OsHook() = default;
  OsHook(const OsHook&) = delete;
  OsHook& operator=(const OsHook&) = delete;
  virtual ~OsHook() = default;

  /// 0, or the error number that the call ends with instead of being made.
  virtual int Before(OsCall call, const std::string& path) = 0;
  /// How many of `n` bytes a read or a write moves at most: 1 to n.
  virtual size_t Allowed(OsCall call, size_t n) = 0;
};

/// What `run` returns, or -1 with errno set where the hook answers in its place.
template <class Run>
auto Hooked(OsHook* os, OsCall call, const std::string& path, Run&& run) -> decltype(run()) {
  if (os != nullptr) [[unlikely]] {
    const int error = os->Before(call, path);
    if (error != 0) {
      errno = error;
      return static_cast<decltype(run())>(-1);
    }
  }
  return run();
}

}  // namespace lamella

#endif  // LAMELLA_BASE_OS_HOOK_H_
