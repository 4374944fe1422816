// HeldUpEnd says when to move the few chunks that keep the pool from giving much of itself back:
// once for each size of the pool, each merge, each chunk that no longer waits for a reader, and
// each time that less is in use, as when a reader let go of something. So moving comes to an end.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_HELD_UP_END_H_
#define LAMELLA_ENGINE_HELD_UP_END_H_

#include <cstdint>

#include "pool/pool.h"

namespace lamella {

class HeldUpEnd {
 public:
  explicit HeldUpEnd(Pool* pool) : pool_(pool) {}

  /// Whether Pool::IsInTheWay now names chunks to be moved. `merges`: so many there were,
  /// `released` (Evacuation::released): so many chunks could not be moved before.
  bool Due(uint64_t merges, uint64_t released) {
    const Looked now{pool_->pool_bytes(), pool_->used_bytes(), merges, released};
    if (now.pool_bytes == last_.pool_bytes && now.merges == last_.merges &&
        now.released == last_.released && now.used_bytes >= last_.used_bytes)
      return false;
    if (!pool_->IsHeldUp()) return false;
    last_ = now;
    return true;
  }

 private:
  struct Looked {
    uint64_t pool_bytes = 0;
    uint64_t used_bytes = 0;
    uint64_t merges = 0;
    uint64_t released = 0;
  };
  Pool* const pool_;
  Looked last_;  // when Due was last true
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_HELD_UP_END_H_
