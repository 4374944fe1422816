// FaultFileSystem is the operating system's file system with faults, and with a power switch. It
// counts the calls that can fail, lets the nth fail, and remembers what would be on the medium if
// the power were cut: of each file what it held when it was last synced, of each directory the
// names it had when it was.
// It is both ways in which a store reaches files: FileSystem for small ones, those of tables and
// directories, OsHook for the pool's (and beneath FileSystem, so that each step of its calls, and
// of those of the files that it opened, fails by itself).
//
// I1: a page (4 KiB) that is dirty when a sync fails is dropped: a later sync that succeeds does
//     not bring it to the medium, unless it was written again. So do Linux's file systems.
// I2: calls are counted in the order in which they are made: with jobs run inline, equal histories
//     meet equal faults.
// I3: what is under the root when it is made is durable.
// Threads: any, but for LimitTransfers and PowerCut, which need it to themselves. Calls that are
// made at the same time are counted in any order.
#ifndef LAMELLA_TESTING_FAULT_FILE_SYSTEM_H_
#define LAMELLA_TESTING_FAULT_FILE_SYSTEM_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/os_hook.h"
#include "base/random.h"
#include "testing/file_system_over.h"

namespace lamella::testing {

const char* OsCallName(OsCall call);

struct Fault {
  uint64_t nth = 0;              // of the calls that may fail, from 1; 0 is none
  bool persistent = false;       // and all that follow it
  int error = 0;                 // errno
  OsCall only = OsCall::kCount;  // count and fail calls of this kind alone; kCount is all
  uint32_t also_syncs = 0;       // so many syncs after it fail too
  bool passes_syncs = false;     // they are neither counted nor fail
  bool pretends = false;         // a planted fault: a sync that fails says that it did not
};

class FaultFileSystem final : public OsHook, public FileSystemOver {
 public:
  /// Without `power_cuts` nothing is remembered, and PowerCut must not be called: runs are faster.
  FaultFileSystem(std::string root, bool power_cuts);
  ~FaultFileSystem() override;

  /// Counts from here.
  void Arm(const Fault& fault) LAMELLA_EXCLUDES(mu_);
  void Disarm() { Arm({}); }
  /// No more faults; what was counted stays.
  void EndFaults() LAMELLA_EXCLUDES(mu_);
  /// While there is one, calls of its thread are neither counted nor fail: somebody looks on.
  class Onlooker {
   public:
    Onlooker() { onlookers_++; }
    ~Onlooker() { onlookers_--; }
    Onlooker(const Onlooker&) = delete;
    Onlooker& operator=(const Onlooker&) = delete;
  };
  /// Reads and writes move so many bytes at most; 0 is no limit.
  void LimitTransfers(size_t bytes) { transfer_bytes_max_ = bytes; }

  /// Since Arm: calls counted, and those that failed.
  uint64_t calls() const LAMELLA_EXCLUDES(mu_);
  uint64_t faults() const LAMELLA_EXCLUDES(mu_);
  /// "msync of /tmp/x/pool.0", the first that failed since Arm.
  std::string first_fault() const LAMELLA_EXCLUDES(mu_);
  /// Calls seen since the beginning, by kind.
  uint64_t seen(OsCall call) const LAMELLA_EXCLUDES(mu_);

  /// What is under the root is now what was durable. Of what was not synced each sector (512
  /// bytes), and of each file its size, is kept with a chance of a half where `kept` is given, and
  /// all is lost where it is null. REQUIRES: no file under the root is open or mapped.
  void PowerCut(Random* kept) LAMELLA_EXCLUDES(mu_);

  int Before(OsCall call, const std::string& path) override LAMELLA_EXCLUDES(mu_);
  size_t Allowed(OsCall call, size_t n) override;

  Status NewAppendFile(const std::string& path, std::unique_ptr<AppendFile>* file) override
      LAMELLA_EXCLUDES(mu_);

 private:
  // A file, whatever its names are. Its descriptor keeps the inode number from being given to
  // another one.
  struct File {
    int fd = -1;
    char* map = nullptr;  // of `mapped` bytes, to look at
    size_t mapped = 0;
    std::string durable;
    std::map<uint64_t, std::string> dropped;  // pages, by number, that a failed sync left behind
  };

  File* Find(const std::string& path, ino_t* inode) LAMELLA_REQUIRES(mu_);
  void Synced(const std::string& path, bool ok) LAMELLA_REQUIRES(mu_);
  void DirectorySynced(const std::string& path) LAMELLA_REQUIRES(mu_);
  void LearnAll() LAMELLA_REQUIRES(mu_);
  static bool IsSync(OsCall call);
  static std::string_view Content(File* file);
  void Forget() LAMELLA_REQUIRES(mu_);

  static thread_local int onlookers_;
  const std::string root_;
  const bool power_cuts_;
  size_t transfer_bytes_max_ = 0;
  mutable Mutex mu_;
  Fault fault_ LAMELLA_GUARDED_BY(mu_);
  uint64_t calls_ LAMELLA_GUARDED_BY(mu_) = 0;
  uint64_t faults_ LAMELLA_GUARDED_BY(mu_) = 0;
  uint64_t syncs_failed_ LAMELLA_GUARDED_BY(mu_) = 0;
  std::string first_fault_ LAMELLA_GUARDED_BY(mu_);
  std::array<uint64_t, static_cast<size_t>(OsCall::kCount)> seen_ LAMELLA_GUARDED_BY(mu_){};
  std::map<ino_t, File> files_ LAMELLA_GUARDED_BY(mu_);
  // durable, by path; 0 is a directory
  std::map<std::string, ino_t> names_ LAMELLA_GUARDED_BY(mu_);
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_FAULT_FILE_SYSTEM_H_
