#include "index/leaf_space.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "index/leaf.h"

namespace lamella {

namespace {

// What is left of a block is a block where it has room for the smallest.
constexpr uint64_t kBytesMin = sizeof(LeafCell);

}  // namespace

Status LeafSpace::ClaimFor(Use use, uint64_t bytes, Persister* persister) {
  const uint32_t part = pool_->NearestPart();
  const auto needed = static_cast<uint32_t>((bytes - 1) / pool_->chunk_bytes() + 1);
  ChunkRef chunk;
  Status s = pool_->ClaimExtent(part, kind_, owner_, static_cast<uint64_t>(use), needed,
                                std::max(needed, pool_->extent_chunks(part)), claimant_, persister,
                                &chunk);
  if (!s.ok()) return s;
  const uint64_t claimed = chunk.run_chunks * pool_->chunk_bytes();
  claimed_bytes_.fetch_add(claimed, std::memory_order_relaxed);
  FreeOf(use)[claimed].push_back(pool_->ChunkStart(chunk));
  return Status::OK();
}

Status LeafSpace::Allocate(Use use, uint64_t bytes, Persister* persister, Block* block,
                           uint32_t* epoch) {
  MutexLock lock(&mu_);
  BySize& free = FreeOf(use);
  auto at = free.lower_bound(bytes);
  // a size without a block is what was left where the system had no memory for it
  while (at != free.end() && at->second.empty()) at = free.erase(at);
  if (at == free.end()) {
    Status s = ClaimFor(use, bytes, persister);
    if (!s.ok()) return s;
    at = free.lower_bound(bytes);
  }
  const PmPtr place = at->second.back();
  const uint64_t rest = at->first - bytes;
  if (rest >= kBytesMin) free[rest].push_back(PmPtr(place.word + bytes));
  at->second.pop_back();
  if (at->second.empty()) free.erase(at);
  *block = {use, place, bytes};
  LAMELLA_CHECK(MayHold(*block, epoch));
  return Status::OK();
}

void LeafSpace::Free(const Block& block) {
  if (closed()) return;
  MutexLock lock(&mu_);
  FreeOf(block.use)[block.bytes].push_back(block.place);
}

bool LeafSpace::MayHold(const Block& block, uint32_t* epoch) const {
  const uint64_t unit = block.use == Use::kLeaf ? sizeof(Leaf) : sizeof(uint64_t);
  ChunkRef chunk;
  if (block.place.offset() % unit != 0 || !pool_->Contains(block.place, block.bytes) ||
      !OwningChunk(*pool_, block.place, &chunk) || chunk.kind != kind_ || chunk.owner != owner_ ||
      chunk.ordinal != static_cast<uint64_t>(block.use))
    return false;
  *epoch = chunk.epoch;
  return block.place.offset() + block.bytes <=
         pool_->ChunkStart(chunk).offset() + chunk.run_chunks * pool_->chunk_bytes();
}

void LeafSpace::MarkTaken(const Block& block) {
  MutexLock lock(&mu_);
  taken_.push_back({block.place.word, block.bytes});
}

Status LeafSpace::Opened() {
  MutexLock lock(&mu_);
  BySize* const free_by_use = free_.data();
  std::vector<Taken> all_taken = std::exchange(taken_, {});
  std::ranges::sort(all_taken, {}, &Taken::place);
  size_t next = 0;
  Status s;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != kind_ || chunk.owner != owner_ || chunk.ordinal > 1) return;
    const uint64_t bytes = chunk.run_chunks * pool_->chunk_bytes();
    claimed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    BySize& free = free_by_use[chunk.ordinal];
    uint64_t from = pool_->ChunkStart(chunk).word;
    const uint64_t end = from + bytes;
    const auto add_gap = [&](uint64_t to) {
      if (to - from >= kBytesMin) free[to - from].push_back(PmPtr(from));
    };
    for (; next < all_taken.size() && all_taken[next].place < end; next++) {
      const Taken& taken = all_taken[next];
      if (taken.place < from) {
        s = Status::Corruption(Concat("two blocks of leaves lie over each other at ",
                                      DescribePlace(*pool_, PmPtr(taken.place)),
                                      "; `lamella check` lists all damage"));
        return;
      }
      add_gap(taken.place);
      from = taken.place + taken.bytes;
    }
    add_gap(end);
  });
  return s;
}

}  // namespace lamella
