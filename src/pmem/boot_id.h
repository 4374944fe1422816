// BootId names this boot of the machine, so that a pool can tell a crash of the process from one of
// the machine.
#ifndef LAMELLA_PMEM_BOOT_ID_H_
#define LAMELLA_PMEM_BOOT_ID_H_

#include <array>
#include <cstdint>

namespace lamella {

/// The kernel's boot id; all zero where there is none, and then no two boots are the same.
std::array<uint8_t, 16> BootId();

}  // namespace lamella

#endif  // LAMELLA_PMEM_BOOT_ID_H_
