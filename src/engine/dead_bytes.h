// DeadBytes counts what is dead in the pool: in the descriptor of each record's chunk, which
// outlives the process but for what a crash loses, and in all since somebody last looked.
// Threads: all calls from any.
#ifndef LAMELLA_ENGINE_DEAD_BYTES_H_
#define LAMELLA_ENGINE_DEAD_BYTES_H_

#include <atomic>
#include <cstdint>

#include "log/record.h"
#include "pool/pool.h"

namespace lamella {

class DeadBytes {
 public:
  explicit DeadBytes(Pool* pool) : pool_(pool) {}
  DeadBytes(const DeadBytes&) = delete;
  DeadBytes& operator=(const DeadBytes&) = delete;

  /// So much of the record's chunk is dead from here on.
  void Count(PmPtr place, uint64_t bytes) {
    ChunkRef chunk;
    if (!OwningChunk(*pool_, place, &chunk)) return;
    pool_->Descriptor(chunk.part, chunk.index)
        ->dead_bytes.fetch_add(bytes, std::memory_order_relaxed);
    fresh_.fetch_add(bytes, std::memory_order_relaxed);
    unreclaimed_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void Count(PmPtr place) { Count(place, pool_->At<Record>(place)->bytes()); }

  /// Since ForgetFresh: since a pass of gc last looked at all chunks.
  uint64_t fresh() const { return fresh_.load(std::memory_order_relaxed); }
  void ForgetFresh() { fresh_.store(0, std::memory_order_relaxed); }
  /// Whether there may be something that gc, at its utmost, could free.
  bool any_unreclaimed() const { return unreclaimed_.load(std::memory_order_relaxed) != 0; }
  void NoteUnreclaimed() { unreclaimed_.store(1, std::memory_order_relaxed); }
  void NoteAllReclaimed() { unreclaimed_.store(0, std::memory_order_relaxed); }

 private:
  Pool* const pool_;
  std::atomic<uint64_t> fresh_{0};
  std::atomic<uint64_t> unreclaimed_{0};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_DEAD_BYTES_H_
