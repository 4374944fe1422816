#include "pmem/file_id.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "base/concat.h"
#include "base/hash.h"

namespace lamella {
namespace {

// Counts the disks that were attached since the machine started; 0 where the file lies on none, or
// the kernel does not count. A partition's number stands beside it, in the directory of its disk.
uint64_t DiskSequence(uint32_t major, uint32_t minor) {
  if (major == 0) return 0;
  const std::string disk = Concat("/sys/dev/block/", major, ":", minor);
  for (const char* name : {"/diskseq", "/../diskseq"}) {
    std::FILE* file = std::fopen((disk + name).c_str(), "re");
    if (file == nullptr) continue;
    unsigned long long sequence = 0;
    const int found = std::fscanf(file, "%llu", &sequence);
    std::fclose(file);
    if (found == 1) return sequence;
  }
  return 0;
}

}  // namespace

std::array<uint8_t, 16> FileId(int fd) {
  std::array<uint8_t, 16> id{};
  struct statx found{};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found) != 0) return id;
  // An inode's number is given to another file once it is removed: the time of its birth tells them
  // apart.
  const bool has_birth = (found.stx_mask & STATX_BTIME) != 0;
  const uint64_t words[] = {uint64_t{found.stx_dev_major} << 32 | found.stx_dev_minor,
                            uint64_t{found.stx_rdev_major} << 32 | found.stx_rdev_minor,
                            DiskSequence(found.stx_dev_major, found.stx_dev_minor),
                            found.stx_ino,
                            has_birth ? static_cast<uint64_t>(found.stx_btime.tv_sec) : 0,
                            has_birth ? found.stx_btime.tv_nsec : 0};
  const std::string_view bytes(reinterpret_cast<const char*>(words), sizeof(words));
  for (uint64_t half = 0; half < 2; half++) {
    const uint64_t hash = Hash64(bytes, half);
    std::memcpy(id.data() + 8 * half, &hash, sizeof(hash));
  }
  return id;
}

}  // namespace lamella
