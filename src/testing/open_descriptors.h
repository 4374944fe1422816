// How many files this process has open: for tests of what closes them. Threads: while none opens.
#ifndef LAMELLA_TESTING_OPEN_DESCRIPTORS_H_
#define LAMELLA_TESTING_OPEN_DESCRIPTORS_H_

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace lamella::testing {

inline size_t OpenDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(open), end(open)));
}

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_OPEN_DESCRIPTORS_H_
