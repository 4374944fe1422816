// Region is one file (or DAX device) mapped into a reserved range of addresses, growing and
// shrinking in place.
// I1: bytes are allocated on the file system before they are mapped, or, of a file that was there,
//     before they are stored to: a full disk is an error at Grow or FillHoles, never a SIGBUS.
// I2: the base address never changes while the Region lives.
// I3: a file belongs to one Region at a time, of all processes: its lock is taken before a byte of
//     it is read or written, and its name is created, changed or removed only by who holds the lock
//     of the file that has the name.
// I4: the name under which a file was opened is durable: whoever made it may have been killed
//     before it synced the directory.
// I5: syncs run one at a time. Of two at once the kernel would tell one of them that it dropped
//     pages, and the other OK.
// I6: what was mapped once can be read as long as the Region lives: what is given back reads as
//     zeros.
// Threads: Grow and Shrink from one thread at a time; Sync and Prefault from any.
#ifndef LAMELLA_PMEM_REGION_H_
#define LAMELLA_PMEM_REGION_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>

#include "base/annotations.h"
#include "base/mutex.h"
#include "base/os_hook.h"
#include "lamella/options.h"
#include "lamella/status.h"
#include "pmem/gate.h"

struct pmem2_source;

namespace lamella {

struct MediumReport {
  MediumKind kind = MediumKind::kPage;
  bool survives_power = true;  // false on tmpfs and the like, whatever the granularity
  std::string description;     // "tmpfs: survives the process, not the power" ...
};

class Region {
 public:
  /// Creates the file with `bytes` allocated (NoSpace, IOError, InvalidArgument if it exists, Busy
  /// if somebody else took it since).
  static Status Create(const std::string& path, uint64_t bytes, uint64_t reserve_bytes,
                       std::unique_ptr<Region>* region, OsHook* os = nullptr);
  /// Maps all of an existing file. NotFound, IOError; Busy where it is open already; Corruption for
  /// an empty file.
  static Status Open(const std::string& path, uint64_t reserve_bytes,
                     std::unique_ptr<Region>* region, OsHook* os = nullptr);
  /// Opens a file only to keep others from it until it is unlinked: nothing is mapped. NotFound,
  /// IOError, Busy.
  static Status Hold(const std::string& path, std::unique_ptr<Region>* region,
                     OsHook* os = nullptr);
  /// Removes a file, durably. OK where there is none; Busy where it is open.
  static Status Remove(const std::string& path, OsHook* os = nullptr);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  char* base() const { return base_; }
  bool is_device() const { return is_device_; }
  uint64_t bytes() const { return bytes_.load(std::memory_order_acquire); }
  const std::string& path() const { return path_; }
  /// pmem/file_id.h.
  const std::array<uint8_t, 16>& file_id() const { return file_id_; }

  /// What the platform says of this file (libpmem2's granularity, the file system's kind).
  MediumReport Detect() const;

  /// Allocates what the file has no bytes on the medium for (I1): a copy may have holes where there
  /// were zeros, as cp, tar and rsync leave them. NoSpace, IOError.
  Status FillHoles();
  /// So many bytes the file may grow by: its part, one of `sharers`, of what its file system says,
  /// by the process's limits and the addresses that are reserved. A hint, for others take of it,
  /// and some file systems say less than they have.
  uint64_t RoomToGrow(uint32_t sharers) const;
  /// Whether they take room from each other.
  bool IsBesideOnFileSystem(const Region& other) const { return device_ == other.device_; }
  /// Allocates and maps up to `bytes`. On failure (NoSpace, IOError) nothing has changed.
  Status Grow(uint64_t bytes);
  /// Gives the file's bytes from `bytes` on back to the file system; Grow takes them anew, as
  /// zeros. Durable with the next Sync, or when it grows again: until then a power cut may bring
  /// them back. On failure (IOError; NotSupported on a device) the file is as it was, and so is its
  /// mapping, unless bytes() says otherwise. REQUIRES: nobody stores there any more.
  Status Shrink(uint64_t bytes);
  /// Renames the file, durably: what was made under a working name appears at once, whole.
  Status Rename(const std::string& path);
  /// Removes the file's name, durably. The mapping stays until the Region goes.
  Status Unlink();
  /// Faults in [offset, offset+n) for writing, so that the writer does not pay for it later.
  void Prefault(uint64_t offset, uint64_t n);
  /// Makes every page one that the next Sync writes. IOError.
  Status DirtyAll();
  /// msync of everything mapped. After a failure every later Sync fails too: pages the kernel
  /// dropped are not durable. Calls that wait for one under way are served by one more together.
  Status Sync(Gate* gate, const Site& site = Site::current());

 private:
  Region(OsHook* os, std::string path);
  Status Lock();
  Status Reserve(uint64_t reserve_bytes, uint64_t needed_bytes);
  Status AskGranularity();
  Status Map(uint64_t bytes);

  OsHook* const os_;  // may be null
  std::string path_;
  char* base_ = nullptr;            // constant after construction
  std::atomic<uint64_t> bytes_{0};  // mapped, whole pages
  Mutex shrink_mu_;                 // keeps Prefault out of what Shrink takes away
  uint64_t reserved_ = 0;           // constant after construction
  int fd_ = -1;
  std::array<uint8_t, 16> file_id_{};  // constant after construction
  uint64_t device_ = 0;                // st_dev; constant after construction
  // the process that locked the file; 0: none. Constant after construction
  int locked_by_ = 0;
  Mutex sync_mu_;
  std::condition_variable_any synced_;
  bool syncing_ LAMELLA_GUARDED_BY(sync_mu_) = false;
  uint64_t syncs_begun_ LAMELLA_GUARDED_BY(sync_mu_) = 0;
  uint64_t syncs_done_ LAMELLA_GUARDED_BY(sync_mu_) = 0;
  bool sync_failed_ LAMELLA_GUARDED_BY(sync_mu_) = false;
  pmem2_source* source_ = nullptr;
  MediumKind medium_ = MediumKind::kPage;  // constant after construction
  bool is_device_ = false;                 // constant after construction
};

}  // namespace lamella

#endif  // LAMELLA_PMEM_REGION_H_
