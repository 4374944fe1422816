// PinnedTombstones remembers the deletes in a list after which a version was unlinked, until no
// iterator is left that may stand on that version: a walk backwards from it must still meet the
// delete.
// Threads: Add, Holds, Close from the one job that changes L1; Forget from any.
#ifndef LAMELLA_ENGINE_PINNED_TOMBSTONES_H_
#define LAMELLA_ENGINE_PINNED_TOMBSTONES_H_

#include <cstdint>
#include <unordered_map>

#include "base/mutex.h"

namespace lamella {

class PinnedTombstones {
 public:
  /// The delete with this sequence number lost a version after it just now.
  void Add(uint64_t sequence) {
    const MutexLock lock(&mu_);
    held_[sequence] = generation_;
    added_ = true;
  }
  bool Holds(uint64_t sequence) const {
    const MutexLock lock(&mu_);
    return held_.contains(sequence);
  }
  /// Ends a generation of additions: its number, or 0 if it has none.
  uint64_t Close() {
    const MutexLock lock(&mu_);
    if (!added_) return 0;
    added_ = false;
    return generation_++;
  }
  /// Lets go of what was added up to that generation and not since.
  void Forget(uint64_t generation) {
    const MutexLock lock(&mu_);
    std::erase_if(held_, [generation](const auto& held) { return held.second <= generation; });
  }

 private:
  mutable Mutex mu_;
  // Sequence number to generation.
  std::unordered_map<uint64_t, uint64_t> held_ LAMELLA_GUARDED_BY(mu_);
  uint64_t generation_ LAMELLA_GUARDED_BY(mu_) = 1;
  bool added_ LAMELLA_GUARDED_BY(mu_) = false;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_PINNED_TOMBSTONES_H_
