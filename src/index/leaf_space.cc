#include "index/leaf_space.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "index/leaf.h"

namespace lamella {

namespace {

// What is left of a block is a block where it has room for the smallest.
constexpr uint64_t kBytesMin = sizeof(LeafCell);

}  // namespace

LeafSpace::Chunk& LeafSpace::ChunkOf(const Block& block) {
  const auto after = chunks_.upper_bound(block.place.word);
  LAMELLA_CHECK(after != chunks_.begin());
  return std::prev(after)->second;
}

void LeafSpace::Offer(Chunk* chunk) {
  const uint64_t bytes = chunk->ref.run_chunks * pool_->chunk_bytes();
  free_[chunk->ref.ordinal][bytes].push_back(pool_->ChunkStart(chunk->ref));
  chunk->leaving = false;
}

Status LeafSpace::ClaimFor(Use use, uint64_t bytes, Persister* persister) {
  for (auto& [place, chunk] : chunks_) {
    if (!chunk.leaving || chunk.taken_bytes != 0 || chunk.ref.ordinal != static_cast<uint64_t>(use))
      continue;
    if (chunk.ref.run_chunks * pool_->chunk_bytes() < bytes) continue;
    Offer(&chunk);
    return Status::OK();
  }
  std::map<uint64_t, Chunk> made;  // memory first: a chunk that is claimed is known
  made[0];
  const uint32_t parts = pool_->part_count();
  const uint32_t nearest = pool_->NearestPart();
  const auto needed = static_cast<uint32_t>((bytes - 1) / pool_->chunk_bytes() + 1);
  ChunkRef chunk;
  Status s;
  for (uint32_t turn = 0; turn < parts && (turn == 0 || s.IsNoSpace()); turn++) {
    const uint32_t part = (nearest + turn) % parts;
    s = pool_->ClaimExtent(part, kind_, owner_, static_cast<uint64_t>(use), needed,
                           std::max(needed, pool_->extent_chunks(part)), claimant_, persister,
                           &chunk);
  }
  if (!s.ok()) return s;
  claimed_bytes_.fetch_add(chunk.run_chunks * pool_->chunk_bytes(), std::memory_order_relaxed);
  auto node = made.extract(made.begin());
  node.key() = pool_->ChunkStart(chunk).word;
  node.mapped().ref = chunk;
  Offer(&chunks_.insert(std::move(node)).position->second);
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
  ChunkOf(*block).taken_bytes += bytes;
  LAMELLA_CHECK(MayHold(*block, epoch));
  return Status::OK();
}

void LeafSpace::Free(const Block& block) {
  if (closed()) return;
  MutexLock lock(&mu_);
  Chunk& chunk = ChunkOf(block);
  if (!chunk.leaving) FreeOf(block.use)[block.bytes].push_back(block.place);
  chunk.taken_bytes -= block.bytes;
}

size_t LeafSpace::LeaveChunks(const std::function<bool(const ChunkRef&)>& leave,
                              Persister* persister) {
  MutexLock lock(&mu_);
  return LeaveAndFree([&](const Chunk& chunk) { return leave(chunk.ref); }, persister);
}

void LeafSpace::FreeEmpty(Persister* persister) {
  MutexLock lock(&mu_);
  LeaveAndFree([](const Chunk& chunk) { return chunk.taken_bytes == 0; }, persister);
}

bool LeafSpace::HasEmpty() {
  MutexLock lock(&mu_);
  return std::ranges::any_of(chunks_, [](const auto& at) { return at.second.taken_bytes == 0; });
}

size_t LeafSpace::LeaveAndFree(const std::function<bool(const Chunk&)>& leave,
                               Persister* persister) {
  size_t left = 0;
  for (auto& [place, chunk] : chunks_) {
    if (chunk.leaving || !leave(chunk)) continue;
    chunk.leaving = true;
    if (chunk.taken_bytes != 0) left++;
  }
  for (BySize& by_size : free_) {
    for (auto& [bytes, places] : by_size) {
      std::erase_if(places, [&, size = bytes](PmPtr place) LAMELLA_REQUIRES(mu_) {
        return ChunkOf({.place = place, .bytes = size}).leaving;
      });
    }
  }
  for (auto at = chunks_.begin(); at != chunks_.end();) {
    const Chunk& chunk = at->second;
    if (!chunk.leaving || chunk.taken_bytes != 0) {
      ++at;
      continue;
    }
    claimed_bytes_.fetch_sub(chunk.ref.run_chunks * pool_->chunk_bytes(),
                             std::memory_order_relaxed);
    pool_->Free(chunk.ref, persister);
    at = chunks_.erase(at);
  }
  return left;
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
  std::map<uint64_t, Chunk>* const chunks = &chunks_;
  std::vector<Taken> all_taken = std::exchange(taken_, {});
  std::ranges::sort(all_taken, {}, &Taken::place);
  size_t next = 0;
  Status s;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != kind_ || chunk.owner != owner_ || chunk.ordinal > 1) return;
    const uint64_t bytes = chunk.run_chunks * pool_->chunk_bytes();
    claimed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    BySize& free = free_by_use[chunk.ordinal];
    Chunk& known = (*chunks)[pool_->ChunkStart(chunk).word];
    known = {.ref = chunk, .taken_bytes = 0, .leaving = false};
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
      known.taken_bytes += taken.bytes;
      from = taken.place + taken.bytes;
    }
    add_gap(end);
  });
  return s;
}

}  // namespace lamella
