// NoThrow runs a call at the library's edge, or a thread's: what it throws becomes a Status. The
// code beneath throws nothing of its own; the standard library does, where there is no memory.
#ifndef LAMELLA_BASE_NO_THROW_H_
#define LAMELLA_BASE_NO_THROW_H_

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/annotations.h"
#include "lamella/status.h"

namespace lamella {

inline Status StatusOfException(const char* what) {
  try {
    return Status::IOError(
        std::string("the system refused what a call needed: ") + what +
        "; free memory, or raise what the process may have (ulimit -v, the container's limit)");
  } catch (...) {
    return Status::IOError({});  // not even for a message
  }
}

/// `call` runs where it stands: of locks it may require what its caller holds, which the analysis
/// does not see from here.
template <class Call>
Status NoThrow(Call&& call) LAMELLA_NO_THREAD_SAFETY_ANALYSIS {
  try {
    return std::forward<Call>(call)();
  } catch (const std::exception& error) {
    return StatusOfException(error.what());
  }
}

}  // namespace lamella

#endif  // LAMELLA_BASE_NO_THROW_H_
