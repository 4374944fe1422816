#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace lamella {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(
      stderr,
      "lamella: internal error at %s:%d: expected %s; stopping before data can be damaged\n", file,
      line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace lamella
