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

  /// Whether Pool::IsInTheWay now names chunks to be moved. `changes`: merges so far, and chunks
  /// that no longer wait for a reader (Evacuation::released).
  bool Due(uint64_t changes) {
    const Looked now{pool_->pool_bytes(), pool_->used_bytes(), changes};
    if (now.pool_bytes == last_.pool_bytes && now.changes == last_.changes &&
        now.used_bytes >= last_.used_bytes)
      return false;
    if (!pool_->IsHeldUp()) return false;
    last_ = now;
    return true;
  }

 private:
  struct Looked {
    uint64_t pool_bytes = 0;
    uint64_t used_bytes = 0;
    uint64_t changes = 0;
  };
  Pool* const pool_;
  Looked last_;  // when Due was last true
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_HELD_UP_END_H_
