// The id of this process without a system call, for who asks at each read whether it was forked.
// Threads: any.
#ifndef LAMELLA_BASE_PROCESS_ID_H_
#define LAMELLA_BASE_PROCESS_ID_H_

#include <sys/types.h>

namespace lamella {

/// As getpid(2). A child that was made without its fork handlers, by clone(2) or _Fork(3), is told
/// its parent's.
pid_t ProcessId();

}  // namespace lamella

#endif  // LAMELLA_BASE_PROCESS_ID_H_
