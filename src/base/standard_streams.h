// AboveStandardStreams keeps the files of a store off the descriptors 0 to 2. Where a process was
// started with one of them closed, the next file that is opened gets it, and what somebody prints
// would be written over that file.
// Threads: any.
#ifndef LAMELLA_BASE_STANDARD_STREAMS_H_
#define LAMELLA_BASE_STANDARD_STREAMS_H_

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace lamella {

/// `fd`, or another descriptor of the same open file, in whose place it is closed. Negative, with
/// errno, where it is, or where there is no other.
inline int AboveStandardStreams(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return above;
}

}  // namespace lamella

#endif  // LAMELLA_BASE_STANDARD_STREAMS_H_
