#include "sst/block_cache.h"

#include <bit>
#include <iterator>
#include <utility>

#include "base/no_throw.h"

namespace lamella {
namespace {

// Of a shard, for blocks that were asked for more than once.
constexpr uint64_t kReusedFifths = 4;
// Blocks that go for each that comes while others are short of memory.
constexpr int kGivenBack = 2;

}  // namespace

BlockCache::BlockCache(uint64_t bytes_max, MemoryAccount* memory)
    : memory_(memory), bytes_max_(bytes_max) {}

BlockCache::~BlockCache() { Resize(0); }

void BlockCache::Remove(Shard* shard, List::iterator entry, List* gone) {
  const uint64_t bytes = entry->bytes();
  List& list = entry->reused ? shard->reused : shard->entered;
  shard->found.erase(entry->key);
  shard->bytes -= bytes;
  if (entry->reused) shard->reused_bytes -= bytes;
  if (memory_ != nullptr) memory_->Release(bytes);
  gone->splice(gone->end(), list, entry);
}

void BlockCache::Trim(Shard* shard, uint64_t bytes, List* gone) {
  while (shard->bytes > bytes) {
    List& list = shard->entered.empty() ? shard->reused : shard->entered;
    const auto last = std::prev(list.end());
    const size_t hash = HashKey()(last->key);
    if (!shard->fallen.empty()) FallenAt(&shard->fallen, hash) = static_cast<uint32_t>(hash);
    Remove(shard, last, gone);
    shard->evictions++;
  }
}

void BlockCache::Balance(Shard* shard) {
  while (shard->reused_bytes > ShardBytesMax() / 5 * kReusedFifths) {
    const auto last = std::prev(shard->reused.end());
    shard->reused_bytes -= last->bytes();
    last->reused = false;
    shard->entered.splice(shard->entered.begin(), shard->reused, last);
  }
}

bool BlockCache::Charge(Shard* shard, uint64_t bytes, List* gone) {
  if (memory_ == nullptr) return true;
  for (int i = 0; i < kGivenBack && memory_->MustShrink() && shard->bytes > 0; i++)
    Trim(shard, shard->bytes - 1, gone);
  while (!memory_->TryCharge(bytes)) {
    if (shard->bytes == 0) return false;
    Trim(shard, shard->bytes - 1, gone);
  }
  return true;
}

std::shared_ptr<const Block> BlockCache::Find(uint64_t table, uint64_t offset) {
  const Key key{table, offset};
  Shard& shard = ShardOf(key);
  const MutexLock lock(&shard.mu);
  const auto found = shard.found.find(key);
  if (found == shard.found.end()) {
    shard.misses++;
    return nullptr;
  }
  shard.hits++;
  const List::iterator entry = found->second;
  List& from = entry->reused ? shard.reused : shard.entered;
  if (!entry->reused) shard.reused_bytes += entry->bytes();
  entry->reused = true;
  shard.reused.splice(shard.reused.begin(), from, entry);
  std::shared_ptr<const Block> block = entry->block;
  Balance(&shard);
  return block;
}

void BlockCache::Insert(uint64_t table, uint64_t offset, std::shared_ptr<const Block> block,
                        bool needed_often) {
  const Key key{table, offset};
  Shard& shard = ShardOf(key);
  List gone;  // freed after the lock
  // Without memory for a node the block is not kept.
  (void)NoThrow([&] {
    List made;
    made.push_back({.key = key, .block = std::move(block), .reused = needed_often});
    Entry& entry = made.front();
    const uint64_t bytes = entry.bytes();
    if (bytes > ShardBytesMax() / 2) return Status::OK();  // C2
    const MutexLock lock(&shard.mu);
    if (shard.bytes + bytes > ShardBytesMax()) {
      const size_t blocks = std::bit_ceil(shard.found.size());
      if (shard.fallen.size() < blocks) shard.fallen.assign(blocks, 0);
    }
    const size_t hash = HashKey()(key);
    if (!shard.fallen.empty() && FallenAt(&shard.fallen, hash) == static_cast<uint32_t>(hash))
      entry.reused = true;
    const auto [at, is_new] = shard.found.try_emplace(key, made.begin());
    if (!is_new) return Status::OK();  // another reader of it was first
    if (!Charge(&shard, bytes, &gone)) {
      shard.found.erase(at);
      return Status::OK();
    }
    List& to = entry.reused ? shard.reused : shard.entered;
    to.splice(to.begin(), made);
    shard.bytes += bytes;
    if (entry.reused) shard.reused_bytes += bytes;
    Balance(&shard);
    Trim(&shard, ShardBytesMax(), &gone);
    return Status::OK();
  }).ok();
}

void BlockCache::Remove(uint64_t table, uint64_t offset) {
  const Key key{table, offset};
  Shard& shard = ShardOf(key);
  List gone;  // freed after the lock
  const MutexLock lock(&shard.mu);
  const auto found = shard.found.find(key);
  if (found != shard.found.end()) Remove(&shard, found->second, &gone);
}

void BlockCache::Drop(uint64_t table) {
  for (Shard& shard : shards_) {
    List gone;
    const MutexLock lock(&shard.mu);
    for (List* list : {&shard.entered, &shard.reused}) {
      for (auto entry = list->begin(); entry != list->end();) {
        const auto next = std::next(entry);
        if (entry->key.table == table) Remove(&shard, entry, &gone);
        entry = next;
      }
    }
  }
}

void BlockCache::Resize(uint64_t bytes_max) {
  bytes_max_.store(bytes_max, std::memory_order_relaxed);
  for (Shard& shard : shards_) {
    List gone;
    const MutexLock lock(&shard.mu);
    Balance(&shard);
    Trim(&shard, ShardBytesMax(), &gone);
  }
}

BlockCache::Figures BlockCache::figures() const {
  Figures sum;
  for (const Shard& shard : shards_) {
    const MutexLock lock(&shard.mu);
    sum.hits += shard.hits;
    sum.misses += shard.misses;
    sum.evictions += shard.evictions;
    sum.bytes += shard.bytes;
    sum.blocks += shard.found.size();
  }
  return sum;
}

}  // namespace lamella
