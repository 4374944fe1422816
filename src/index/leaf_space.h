// LeafSpace is where the leaves and cells of LeafTrees lie: chunks of a pool, cut into blocks. What
// is free is known in DRAM alone, and found anew at each open: what no tree leads to is free. So to
// take a block and to give it back costs no store, and what a cut leaves of either is nothing.
// B1: leaves and cells lie in chunks of their own, which the chunk's ordinal tells apart (Use): a
//     leaf lies in one media block.
// B2: a block is taken by the smallest free one that has room; the rest of that is a smaller one.
//     Free neighbours become one again at the next open.
// B3: chunks are claimed as they are needed, and kept, since trees come and go in the same space,
//     but for those that are to be left (LeaveChunks): nothing is taken from these any more, and
//     they go once nothing is taken of them; and for empty ones where others need them (FreeEmpty).
// Threads: any.
#ifndef LAMELLA_INDEX_LEAF_SPACE_H_
#define LAMELLA_INDEX_LEAF_SPACE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/annotations.h"
#include "base/mutex.h"
#include "lamella/status.h"
#include "pool/pool.h"

namespace lamella {

class LeafSpace {
 public:
  enum class Use : uint8_t { kLeaf = 0, kCell = 1 };
  struct Block {
    Use use = Use::kLeaf;
    PmPtr place;
    uint64_t bytes = 0;  // a multiple of 8; of a leaf always the same
  };

  /// The chunks of this kind and owner are its own.
  LeafSpace(Pool* pool, ChunkKind kind, uint32_t owner, Claimant claimant = Claimant::kReclaim)
      : pool_(pool), kind_(kind), owner_(owner), claimant_(claimant) {}
  LeafSpace(const LeafSpace&) = delete;
  LeafSpace& operator=(const LeafSpace&) = delete;

  /// `epoch`: of the chunk, which the block's check is to cover. NoSpace, IOError: as Pool::Claim.
  Status Allocate(Use use, uint64_t bytes, Persister* persister, Block* block, uint32_t* epoch);
  /// REQUIRES: nobody can reach it any more. Throws std::bad_alloc, and has not taken it then.
  void Free(const Block& block);
  /// Nothing is taken any more. From now on to free a block does nothing, and so does not throw:
  /// for what is still to be freed when the pool goes.
  void Close() { closed_.store(true, std::memory_order_relaxed); }
  bool closed() const { return closed_.load(std::memory_order_relaxed); }
  /// Leaves the chunks that `leave` names, and frees those of which nothing is taken, of these and
  /// of those that were left earlier. Returns how many of these it could not free.
  size_t LeaveChunks(const std::function<bool(const ChunkRef&)>& leave, Persister* persister);
  /// Frees the chunks of which nothing is taken: for a pool that has none for others.
  void FreeEmpty(Persister* persister);
  /// Whether that would free any.
  bool HasEmpty();
  /// Of chunks that it has.
  uint64_t claimed_bytes() const { return claimed_bytes_.load(std::memory_order_relaxed); }

  /// True if such a block can lie there: for links that are read at open.
  bool MayHold(const Block& block, uint32_t* epoch) const;
  /// At open, of a space that nothing was taken from: this block is not free. Then, once, Opened.
  void MarkTaken(const Block& block);
  /// All that was not marked is free. Corruption: blocks overlap.
  Status Opened();

 private:
  struct Taken {
    uint64_t place;
    uint64_t bytes;
  };
  struct Chunk {
    ChunkRef ref;
    uint64_t taken_bytes = 0;
    bool leaving = true;  // none of its blocks is among the free ones then
  };
  using BySize = std::map<uint64_t, std::vector<PmPtr>>;
  BySize& FreeOf(Use use) LAMELLA_REQUIRES(mu_) { return free_[static_cast<size_t>(use)]; }
  Chunk& ChunkOf(const Block& block) LAMELLA_REQUIRES(mu_);
  Status ClaimFor(Use use, uint64_t bytes, Persister* persister) LAMELLA_REQUIRES(mu_);
  size_t LeaveAndFree(const std::function<bool(const Chunk&)>& leave, Persister* persister)
      LAMELLA_REQUIRES(mu_);
  /// All of a chunk, of which nothing is taken, is a free block.
  void Offer(Chunk* chunk) LAMELLA_REQUIRES(mu_);

  Pool* const pool_;
  const ChunkKind kind_;
  const uint32_t owner_;
  const Claimant claimant_;
  std::atomic<bool> closed_{false};         // guards nothing, as the next
  std::atomic<uint64_t> claimed_bytes_{0};  // a figure
  Mutex mu_;
  std::array<BySize, 2> free_ LAMELLA_GUARDED_BY(mu_);
  std::map<uint64_t, Chunk> chunks_ LAMELLA_GUARDED_BY(mu_);  // by where they begin
  std::vector<Taken> taken_ LAMELLA_GUARDED_BY(mu_);          // until Opened
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_LEAF_SPACE_H_
