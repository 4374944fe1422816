// FreeSet is the free chunks of a part, in DRAM: which there are, and which of them are warm, that is, faulted into
// this process, so that their first writer does not pay for it.
// Chunks are given out lowest first, which keeps a pool compact and its recycled, warm chunks in use.
// Threads: one at a time (the part's lock); the counts may be read from any.
#ifndef LAMELLA_POOL_FREE_SET_H_
#define LAMELLA_POOL_FREE_SET_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace lamella {

class FreeSet {
 public:
  /// Adds a chunk that is not in it.
  void Add(uint32_t index);
  /// Takes `run` adjacent chunks out, the lowest there are; nullopt if there are none. They count as warm from now on.
  std::optional<uint32_t> Take(uint32_t run);
  /// Marks the lowest cold one among the `among` lowest chunks warm and gives it, for the caller to fault in.
  std::optional<uint32_t> WarmNext(uint32_t among);
  /// The length of the row of free chunks that ends just before chunk `end`.
  uint32_t RowBefore(uint32_t end) const;

  uint32_t count() const { return count_.load(std::memory_order_relaxed); }            // a figure; guards nothing
  uint32_t warm_count() const { return warm_count_.load(std::memory_order_relaxed); }  // a figure; guards nothing

 private:
  bool Has(uint32_t index) const { return index / 64 < free_.size() && (free_[index / 64] >> (index % 64) & 1) != 0; }
  bool IsWarm(uint32_t index) const { return (warm_[index / 64] >> (index % 64) & 1) != 0; }
  std::optional<uint32_t> NextFrom(uint32_t index) const;

  std::vector<uint64_t> free_;  // a bit for each chunk
  std::vector<uint64_t> warm_;  // kept while a chunk is owned: it stays faulted in
  uint32_t lowest_ = 0;         // no free chunk is below
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> warm_count_{0};
};

}  // namespace lamella

#endif  // LAMELLA_POOL_FREE_SET_H_
