// AboveStandardStreams keeps the files of a store off the descriptors 0 to 2. Where a process was
// started with one of them closed, the next file that is opened gets it, and what somebody prints
// would be written over that file. HoldStandardStreams keeps off them whatever a program opens.
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

/// For a program, as it begins: a standard stream that is closed becomes one that refuses, as a
/// closed one does.
inline void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {  // open takes the lowest
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace lamella

#endif  // LAMELLA_BASE_STANDARD_STREAMS_H_
