// Whether this runs under qemu's user emulation (scripts/under_qemu.sh), which leaves out some of
// what Linux does: a test of that skips itself there.
#ifndef LAMELLA_TESTING_EMULATED_H_
#define LAMELLA_TESTING_EMULATED_H_

#include <cstdlib>

namespace lamella {

inline bool IsEmulated() { return std::getenv("LAMELLA_TEST_EMULATED") != nullptr; }

}  // namespace lamella

#endif  // LAMELLA_TESTING_EMULATED_H_
