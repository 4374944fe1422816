// FileId names a file among all that this boot of the machine has seen: a copy of it, one that was
// made anew under its name, and the same one on a disk that was detached and attached again each
// have another.
#ifndef LAMELLA_PMEM_FILE_ID_H_
#define LAMELLA_PMEM_FILE_ID_H_

#include <array>
#include <cstdint>

namespace lamella {

/// Of an open file. All zero where the system does not say, and then no two files are the same.
std::array<uint8_t, 16> FileId(int fd);

}  // namespace lamella

#endif  // LAMELLA_PMEM_FILE_ID_H_
