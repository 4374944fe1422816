// Recount counts anew what is dead in the chunks that an open found filled: a crash may have lost
// counts, and what a session left open never had any. In the background, a few chunks at a time.
// Threads: Prepare and Some from one at a time; the others from any.
#ifndef LAMELLA_ENGINE_RECOUNT_H_
#define LAMELLA_ENGINE_RECOUNT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "engine/pending_frees.h"
#include "log/pm_log.h"
#include "log/record_appender.h"

namespace lamella {

class Recount {
 public:
  /// Both outlive it.
  Recount(Pool* pool, PendingFrees* frees) : pool_(pool), frees_(frees) {}
  Recount(const Recount&) = delete;
  Recount& operator=(const Recount&) = delete;

  /// Takes up the chunks of which `has_records` is true: those that a session left open, which have
  /// no counts; after a crash all others, too. Of those a mapped file has lost next to nothing
  /// unless the power was cut, and then its index is rebuilt, so they can wait until a pool is
  /// full. On DAX cache lines persist in any order.
  void Prepare(const std::function<bool(const ChunkRef&)>& has_records, bool crashed) {
    std::vector<ChunkRef> later;
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (!has_records(chunk)) return;
      const bool open = UsedBytes(*pool_, chunk) == 0;
      if (open || crashed) (open || !pool_->LosesUnsynced() ? chunks_ : later).push_back(chunk);
    });
    chunks_.insert(chunks_.begin(), later.begin(), later.end());
    later_.store(later.size(), std::memory_order_relaxed);
    left_.store(chunks_.size(), std::memory_order_release);
  }

  bool done() const { return left_.load(std::memory_order_acquire) == 0; }
  /// `full`: the pool is, and every chunk counts.
  bool Due(bool full) const {
    return left_.load(std::memory_order_acquire) >
           (full ? 0 : later_.load(std::memory_order_relaxed));
  }

  using IsDead = std::function<bool(const ChunkRef&, const Record*, PmPtr)>;
  /// As much of what is left as one job should read. A chunk that never had a record is freed. What
  /// is dead in one with damage is not known: its count stays.
  void Some(const IsDead& is_dead) {
    constexpr uint64_t kBytes = 16ull << 20;
    for (uint64_t bytes = 0; !chunks_.empty() && bytes < kBytes; chunks_.pop_back()) {
      const ChunkRef& chunk = chunks_.back();
      // Other jobs free chunks: what nobody has begun to free is not another's while this is read.
      const EpochPin pin(pool_->readers());
      ChunkRef now;
      const bool is_there = !frees_->Contains(chunk) &&
                            pool_->Describe(chunk.part, chunk.index, &now) &&
                            now.epoch == chunk.epoch;
      if (!is_there) continue;  // freed since
      Count(chunk, is_dead);
      bytes += uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
    }
    later_.store(std::min(later_.load(std::memory_order_relaxed), chunks_.size()),
                 std::memory_order_relaxed);
    left_.store(chunks_.size(), std::memory_order_release);
  }

 private:
  void Count(const ChunkRef& chunk, const IsDead& is_dead) {
    uint64_t dead = 0;
    std::optional<uint64_t> damage;  // where it begins
    const uint64_t end = ForEachRecord(
        *pool_, chunk, 0,
        [&](const Record* record, PmPtr place) {
          if (is_dead(chunk, record, place)) dead += record->bytes();
        },
        [&](PmPtr from, PmPtr) {
          if (!damage) damage = from.offset() - pool_->ChunkStart(chunk).offset();
        });
    const uint64_t whole = WholeBytes(*pool_, chunk);
    if (!damage && end < whole) damage = end;  // no record follows that would tell of it
    ChunkDescriptor* const descriptor = pool_->Descriptor(chunk.part, chunk.index);
    if (UsedBytes(*pool_, chunk) == 0) {
      // A list may lead to what is damaged.
      if (end == 0 && whole == 0) return frees_->Free(chunk);
      SetUsedBytes(*pool_, chunk, std::max(end, whole));
    }
    // A power cut took it. What lies beyond damage says nothing of whether that is a tear.
    if (const uint64_t sound = damage.value_or(end); whole < sound)
      SetWholeBytes(*pool_, chunk, sound);
    if (!damage) descriptor->dead_bytes.store(dead, std::memory_order_relaxed);
  }

  Pool* const pool_;
  PendingFrees* const frees_;
  std::vector<ChunkRef> chunks_;  // counted from the back
  std::atomic<size_t> left_{0};
  std::atomic<size_t> later_{0};  // of those: only when the pool is full
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_RECOUNT_H_
