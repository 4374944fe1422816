// HoldAcrossFork keeps a lock of the whole process free for forked children: a child has one
// thread, and a lock that another of its parent's held at the fork would stay held for ever.
// Threads: any.
#ifndef LAMELLA_BASE_HELD_ACROSS_FORK_H_
#define LAMELLA_BASE_HELD_ACROSS_FORK_H_

#include "base/mutex.h"

namespace lamella {

/// From now on whoever forks holds it while doing so. REQUIRES: it lives as long as the process,
/// and nobody who has it takes another one of these.
void HoldAcrossFork(Mutex* mu);

}  // namespace lamella

#endif  // LAMELLA_BASE_HELD_ACROSS_FORK_H_
