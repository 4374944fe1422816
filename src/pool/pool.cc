// The chunks of a pool: claims, frees, growth. Its opening and superblocks are in pool_open.cc.
#include "pool/pool.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "base/concat.h"
#include "pool/pool_part.h"

namespace lamella {
namespace {

// Growth in the background: an eighth of the part, within these. One step is up to some 100 ms on a busy disk.
constexpr uint32_t kGrowChunksMin = 16;
constexpr uint32_t kGrowChunksMax = 128;
// Growth that a claim waits for: a few milliseconds.
constexpr uint32_t kGrowChunksInline = 4;

// The first chunk from `from` on at which a run of `run` chunks fits into a group.
uint64_t RunStart(uint32_t chunk_shift, uint64_t from, uint32_t run) {
  const uint64_t group = GroupChunks(chunk_shift);
  const uint64_t in_group = from % group;
  if (in_group == 0) return from + 1;  // behind the table
  return in_group + run <= group ? from : from - in_group + group + 1;
}

}  // namespace

uint32_t Pool::chunk_count(uint32_t part) const {
  // acquire pairs with GrowPart: the chunks counted are mapped.
  return parts_[part]->chunks.load(std::memory_order_acquire);
}

uint32_t Pool::Reserve(const Part& part) const {
  const uint32_t chunks = part.chunks.load(std::memory_order_relaxed);
  return std::clamp<uint32_t>((limited_ ? chunks_max_ : chunks) / 64, kReserveChunksMin, kReserveChunksMax);
}

bool Pool::MayGrow(const Part& part) const {
  return part.chunks.load(std::memory_order_relaxed) < chunks_max_ && !part.disk_full.load(std::memory_order_relaxed);
}

Status Pool::Claim(uint32_t part_number, ChunkKind kind, uint32_t owner, uint64_t ordinal, uint32_t run_chunks,
                   bool use_reserve, Persister* persister, ChunkRef* chunk) {
  LAMELLA_CHECK(part_number < parts_.size() && run_chunks >= 1);
  if (run_chunks > run_chunks_max()) {
    return Status::InvalidArgument(Concat("a run of ", run_chunks, " chunks of ", chunk_bytes_, " bytes exceeds the ",
                                          run_chunks_max(),
                                          " that are adjacent; create the store with larger chunk_bytes"));
  }
  Part* part = parts_[part_number].get();
  while (true) {
    const uint32_t reserve = use_reserve ? 0 : Reserve(*part);
    std::optional<uint32_t> first;
    {
      MutexLock lock(&part->mu);
      if (part->free.count() >= run_chunks + reserve) first = part->free.Take(run_chunks);
    }
    if (first) {
      free_chunks_.fetch_sub(run_chunks, std::memory_order_relaxed);
      *chunk = part->table->Publish(*first, kind, owner, ordinal, run_chunks, epoch_floor_, persister);
      return Status::OK();
    }
    Status s = GrowForClaim(part, run_chunks, reserve);
    if (!s.ok()) return s;
  }
}

// Grows so far that the run fits at the end and the reserve is left, if nobody else takes it first.
Status Pool::GrowForClaim(Part* part, uint32_t run_chunks, uint32_t reserve) {
  uint64_t needed;
  {
    MutexLock lock(&part->mu);
    const uint32_t chunks = part->chunks.load(std::memory_order_relaxed);  // stored under mu
    const uint32_t row = part->free.RowBefore(chunks);
    needed = RunStart(chunk_shift_, chunks - row, run_chunks) + run_chunks;
    const uint32_t free = part->free.count();
    const uint32_t wanted = run_chunks + reserve;
    if (free < wanted) needed = std::max<uint64_t>(needed, uint64_t{chunks} + wanted - free);
    if (needed <= chunks) return Status::OK();  // another thread grew or freed meanwhile
  }
  if (needed > chunks_max_) {
    return Status::NoSpace(Concat(part->region->path(), " is full: ", part->chunks.load(std::memory_order_relaxed),
                                  " chunks of ", chunk_bytes_, " bytes, ", part->free.count(), " of them free (",
                                  Reserve(*part), " are kept for deletes and compaction), and ",
                                  limited_ ? "pool_bytes_max" : "the format", " allows ", chunks_max_,
                                  "; raise pool_bytes_max or delete data"));
  }
  const uint64_t wanted = std::min<uint64_t>(chunks_max_, needed + kGrowChunksInline);
  return GrowPart(part, static_cast<uint32_t>(needed), static_cast<uint32_t>(wanted));
}

void Pool::TellMapped(const Part& part) const {
  if (PersistHook* hook = gate_->hook()) hook->OnMap(part.number, part.region->base(), part.region->bytes());
}

// Grows to `chunks_wanted`, or as far as the file system lets it, but at least to `chunks_needed`.
Status Pool::GrowPart(Part* part, uint32_t chunks_needed, uint32_t chunks_wanted) {
  MutexLock grow_lock(&part->grow_mu);
  const uint32_t chunks = part->chunks.load(std::memory_order_relaxed);  // stored under grow_mu
  if (chunks >= chunks_needed) return Status::OK();
  uint32_t target = std::max(chunks_needed, chunks_wanted);
  Status s = part->region->Grow(uint64_t{target} << chunk_shift_);
  while (s.IsNoSpace() && target > chunks_needed) {
    target = chunks_needed + (target - chunks_needed) / 2;
    s = part->region->Grow(uint64_t{target} << chunk_shift_);
  }
  part->disk_full.store(!s.ok(), std::memory_order_relaxed);
  if (!s.ok()) return s;
  TellMapped(*part);
  MutexLock lock(&part->mu);
  const uint32_t free_before = part->free.count();
  for (uint32_t index = chunks; index < target; index++) {
    if (!IsTableChunk(chunk_shift_, index)) part->free.Add(index);
  }
  free_chunks_.fetch_add(part->free.count() - free_before, std::memory_order_relaxed);
  part->chunks.store(target, std::memory_order_release);                                    // pairs with chunk_count
  bytes_[part->number].store(uint64_t{target} << chunk_shift_, std::memory_order_release);  // pairs with Contains
  return s;
}

void Pool::Free(const ChunkRef& chunk, Persister* persister) {
  Part* part = parts_[chunk.part].get();
  part->table->Unpublish(chunk, persister);
  MutexLock lock(&part->mu);
  for (uint32_t i = 0; i < chunk.run_chunks; i++) part->free.Add(chunk.index + i);
  free_chunks_.fetch_add(chunk.run_chunks, std::memory_order_relaxed);
}

void Pool::FreeNow(const ChunkRef& chunk) {
  MutexLock lock(&deferred_mu_);
  Free(chunk, deferred_persister_.get());
  deferred_chunks_.fetch_sub(chunk.run_chunks, std::memory_order_relaxed);
}

// A reader may turn its pin into a holder's (a PinnedValue) before it lets go: so holders are waited for after the
// readers.
void Pool::FreeDeferred(const ChunkRef& chunk) {
  deferred_chunks_.fetch_add(chunk.run_chunks, std::memory_order_relaxed);
  readers_.Retire([this, chunk] { holders_.Retire([this, chunk] { FreeNow(chunk); }); });  // keeps I2
}

size_t Pool::CollectDeferred() {
  readers_.Collect();
  holders_.Collect();
  return deferred_chunks_.load(std::memory_order_relaxed);
}

bool Pool::Describe(uint32_t part, uint32_t index, ChunkRef* chunk) const {
  return part < parts_.size() && index < chunk_count(part) && parts_[part]->table->Describe(index, chunk);
}

void Pool::ForEachChunk(const std::function<void(const ChunkRef&)>& visit) const {
  for (uint32_t part = 0; part < part_count(); part++) {
    const uint32_t chunks = chunk_count(part);
    for (uint32_t index = 0; index < chunks; index++) {
      ChunkRef chunk;
      if (Describe(part, index, &chunk) && chunk.kind != ChunkKind::kRunTail) visit(chunk);
    }
  }
}

Status Pool::Provision(uint32_t chunks) {
  Status result;
  for (const std::unique_ptr<Part>& part : parts_) {
    while (part->free.count() < chunks + Reserve(*part)) {
      const uint32_t now = part->chunks.load(std::memory_order_relaxed);
      if (now >= chunks_max_) break;
      const uint64_t step = std::clamp(now / 8, kGrowChunksMin, kGrowChunksMax);
      Status s = GrowPart(part.get(), now + 1, static_cast<uint32_t>(std::min<uint64_t>(chunks_max_, now + step)));
      if (!s.ok()) {
        result = s;
        break;
      }
    }
    while (true) {
      std::optional<uint32_t> cold;
      {
        MutexLock lock(&part->mu);
        cold = part->free.WarmNext(chunks);
      }
      if (!cold) break;
      part->region->Prefault(uint64_t{*cold} << chunk_shift_, chunk_bytes_);  // harmless if it is claimed meanwhile
    }
  }
  return result;
}

bool Pool::NeedsProvision(uint32_t chunks) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const std::unique_ptr<Part>& part) {
    const uint32_t free = part->free.count();
    return (free < chunks + Reserve(*part) && MayGrow(*part)) || part->free.warm_count() < std::min(chunks, free);
  });
}

uint64_t Pool::chunks_available(uint32_t part_number) const {
  const Part& part = *parts_[part_number];
  const uint64_t free = part.free.count();
  if (!MayGrow(part)) return free;
  if (!limited_) return std::numeric_limits<uint64_t>::max();
  return free + chunks_max_ - part.chunks.load(std::memory_order_relaxed);
}

uint64_t Pool::chunks_available() const {
  uint64_t available = 0;
  for (uint32_t part = 0; part < part_count(); part++) {
    const uint64_t here = chunks_available(part);
    if (here == std::numeric_limits<uint64_t>::max()) return here;
    available += here;
  }
  return available;
}

uint64_t Pool::pool_bytes() const {
  uint64_t chunks = 0;
  for (uint32_t part = 0; part < part_count(); part++) chunks += chunk_count(part);
  return chunks << chunk_shift_;
}

uint64_t Pool::used_bytes() const {
  uint64_t claimable = 0;
  for (uint32_t part = 0; part < part_count(); part++) {
    const uint32_t chunks = chunk_count(part);
    const uint32_t groups = (chunks + GroupChunks(chunk_shift_) - 1) >> (chunk_shift_ - kDescriptorShift);
    claimable += chunks - groups - 1;  // the superblock's chunk, and a table for each group
  }
  const uint64_t free = std::min(free_chunks(), claimable);  // the two counts are not read at one instant
  return (claimable - free) << chunk_shift_;
}

}  // namespace lamella
