// What the benchmark asks of the machine: memory faulted in, sizes, CPU time, scratch directories.
#ifndef LAMELLA_BENCH_MACHINE_H_
#define LAMELLA_BENCH_MACHINE_H_

#include <cstdint>
#include <string>

#include "lamella/status.h"

namespace lamella::bench {

/// Touches `bytes` of file memory in `dir` and gives them back, so that no store is the first to
/// use the machine's pages (in a virtual machine the first touch of a page costs ten times what the
/// next does).
Status WarmMemory(const std::string& dir, uint64_t bytes);
/// Anonymous memory of this process that is resident, bytes; mapped files are not in it.
uint64_t ResidentAnonymousBytes();
/// Gives free heap back to the system, so that what the next store uses is seen.
void TrimHeap();
/// CPU time of all threads of this process so far, seconds.
double CpuSeconds();
/// Bytes that the files beneath `dir` take on their file system (holes are not counted).
uint64_t DirectoryBytes(const std::string& dir);
/// Free bytes on the file system of `dir`.
uint64_t FreeBytes(const std::string& dir);
/// "tmpfs", "ext4", or the magic number.
std::string FileSystemName(const std::string& dir);
/// "AMD EPYC, 2 CPUs".
std::string MachineName();

/// Removes a directory and what is in it, and what links in it lead to. IOError.
Status RemoveWithLinked(const std::string& dir);
/// *path is the directory of a store's files in `parent`, where the store itself is in `dir`. With
/// `fresh`, what there was is removed, and `dir` gets a link to it, so that RemoveWithLinked takes
/// it along; who asks for it makes it. IOError.
Status DirectoryElsewhere(const std::string& parent, const std::string& dir, bool fresh,
                          std::string* path);

/// A directory of its own beneath `parent`, removed with everything in it when this goes; and when
/// the process ends before: another one, the keeper, waits for that. It may be gigabytes of memory.
class ScratchDirectory {
 public:
  ScratchDirectory() = default;
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory();
  Status Create(const std::string& parent, const std::string& prefix);
  const std::string& path() const { return path_; }

 private:
  void StartKeeper();

  std::string path_;
  int owner_pid_ = 0;   // a forked child must not remove what its parent made
  int keeper_pid_ = 0;  // 0: none could be had
  int keeper_fd_ = -1;  // what the keeper reads: a byte, and then nothing is left to do
};

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_MACHINE_H_
