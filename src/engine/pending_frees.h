// PendingFrees frees chunks once those who may read them are gone, each once: until then a chunk
// stays its owner's, and whoever looks through the pool meets it again.
// Threads: all calls from any.
#ifndef LAMELLA_ENGINE_PENDING_FREES_H_
#define LAMELLA_ENGINE_PENDING_FREES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "log/log_writer.h"
#include "log/record_appender.h"
#include "pool/pool.h"

namespace lamella {

/// Tells chunks apart by where they lie; of what was freed and claimed again the epoch differs.
constexpr uint64_t ChunkKey(const ChunkRef& chunk) {
  return uint64_t{chunk.part} << 32 | chunk.index;
}

class PendingFrees {
 public:
  explicit PendingFrees(Pool* pool) : pool_(pool) {}
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;

  bool Contains(const ChunkRef& chunk) const {
    const MutexLock lock(&mu_);
    return Has(chunk);
  }
  /// Pool::FreeDeferred, or nothing if that was done. Whoever met the chunk may have been held up
  /// while others freed it, claimed it and freed that life, too: then nothing is done, either.
  /// Throws std::bad_alloc, and nothing is done.
  void Free(const ChunkRef& chunk) {
    const MutexLock lock(&mu_);
    if (Has(chunk) || !IsOwned(chunk)) return;
    const auto at = epochs_.insert_or_assign(ChunkKey(chunk), chunk.epoch).first;
    try {
      pool_->FreeDeferred(chunk);
    } catch (...) {  // the next who comes by frees it
      epochs_.erase(at);
      throw;
    }
  }
  /// The same of all chunks of the log that lie before the position in their shard, or end there
  /// and are filled no more.
  void FreeLogBefore(const std::vector<LogPosition>& boundary) {
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind == ChunkKind::kLog && chunk.owner < boundary.size() &&
          EndOf(chunk) <= boundary[chunk.owner])
        Free(chunk);
    });
  }

 private:
  bool Has(const ChunkRef& chunk) const LAMELLA_REQUIRES(mu_) {
    const auto at = epochs_.find(ChunkKey(chunk));
    return at != epochs_.end() && at->second == chunk.epoch;
  }

  bool IsOwned(const ChunkRef& chunk) const {
    ChunkRef now;
    return pool_->Describe(chunk.part, chunk.index, &now) && now.epoch == chunk.epoch;
  }

  LogPosition EndOf(const ChunkRef& chunk) const {
    const uint64_t used = UsedBytes(*pool_, chunk);
    return used == 0 ? LogPosition{chunk.ordinal, UINT64_MAX} : LogPosition{chunk.ordinal, used};
  }

  Pool* const pool_;
  mutable Mutex mu_;
  std::map<uint64_t, uint32_t> epochs_ LAMELLA_GUARDED_BY(mu_);  // by ChunkKey
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_PENDING_FREES_H_
