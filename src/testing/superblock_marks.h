// What a test writes into the superblocks of a pool's file so that the next open takes it for what
// it stands for: the file of a store that lost its power, or the file itself where the test put a
// copy in its place.
#ifndef LAMELLA_TESTING_SUPERBLOCK_MARKS_H_
#define LAMELLA_TESTING_SUPERBLOCK_MARKS_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "pmem/file_id.h"
#include "pool/superblock.h"

namespace lamella::testing {

/// Changes each superblock copy that validates, at the start of a part's bytes.
template <class Change>
void EditSuperblocks(char* base, Change&& change) {
  for (const uint64_t offset : kSuperblockOffsets) {
    Superblock copy;
    std::memcpy(&copy, base + offset, sizeof(copy));
    if (copy.magic != kSuperblockMagic || copy.checksum != SuperblockChecksum(copy)) continue;
    change(&copy);
    copy.checksum = SuperblockChecksum(copy);
    std::memcpy(base + offset, &copy, sizeof(copy));
  }
}

/// The same in a file, with its descriptor; nothing where there is none.
template <class Change>
void EditSuperblocksOf(const std::string& path, Change&& change) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  char bytes[kSuperblockOffsets[1] + sizeof(Superblock)] = {};
  const auto n = static_cast<ssize_t>(sizeof(bytes));
  if (::pread(fd, bytes, sizeof(bytes), 0) == n) {
    EditSuperblocks(bytes, [&](Superblock* copy) { change(copy, fd); });
    if (::pwrite(fd, bytes, sizeof(bytes), 0) != n) std::abort();
  }
  ::close(fd);
}

/// Another boot of the machine finds the file.
inline void MarkAnotherBoot(const std::string& path) {
  // never back to an earlier one
  EditSuperblocksOf(path, [](Superblock* copy, int) { copy->boot_id[0]++; });
}

/// The bytes in the file stand for those of a file that was never copied.
inline void MarkSameFile(const std::string& path) {
  EditSuperblocksOf(path, [](Superblock* copy, int fd) { copy->file_id = FileId(fd); });
}

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_SUPERBLOCK_MARKS_H_
