#include "sst/block_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/no_throw.h"

namespace lamella {
namespace {

// Of a shard, for blocks that were asked for more than once.
constexpr uint64_t kReusedFifths = 4;
// Blocks that go for each that comes while others are short of memory.
constexpr int kGivenBack = 2;
// Marked blocks that begin again, at most, for one that comes into the second list: nobody waits
// for a walk around all of it.
constexpr int kBegunAgain = 16;
constexpr size_t kSlotsMin = 16;

}  // namespace

BlockCache::BlockCache(uint64_t bytes_max, MemoryAccount* memory)
    : memory_(memory), bytes_max_(bytes_max) {}

BlockCache::~BlockCache() { Resize(0); }

BlockCache::EntryList::~EntryList() {
  while (!empty()) {
    Entry* const entry = newest_;
    Take(entry);
    delete entry;
  }
}

void BlockCache::EntryList::Add(Entry* entry) {
  entry->newer = nullptr;
  entry->older = newest_;
  (empty() ? oldest_ : newest_->newer) = entry;
  newest_ = entry;
}

void BlockCache::EntryList::Take(Entry* entry) {
  (entry->newer == nullptr ? newest_ : entry->newer->older) = entry->older;
  (entry->older == nullptr ? oldest_ : entry->older->newer) = entry->newer;
}

BlockCache::Entry* BlockCache::EntryTable::Find(const Key& key, uint64_t hash) const {
  if (slots_.empty()) return nullptr;
  Entry* entry = slots_[hash & (slots_.size() - 1)];
  while (entry != nullptr && entry->key != key) entry = entry->next_of_slot;
  return entry;
}

void BlockCache::EntryTable::Add(Entry* entry) {
  if (size_ == slots_.size()) Grow();
  Entry*& slot = SlotOf(entry->key);
  entry->next_of_slot = slot;
  slot = entry;
  size_++;
}

void BlockCache::EntryTable::Take(const Entry* entry) {
  Entry** at = &SlotOf(entry->key);
  while (*at != entry) at = &(*at)->next_of_slot;
  *at = entry->next_of_slot;
  size_--;
}

void BlockCache::EntryTable::Grow() {
  std::vector<Entry*> before(std::max(kSlotsMin, 2 * slots_.size()));
  slots_.swap(before);
  for (Entry* entry : before) {
    while (entry != nullptr) {
      Entry*& slot = SlotOf(entry->key);
      Entry* const next = std::exchange(entry->next_of_slot, slot);
      slot = std::exchange(entry, next);
    }
  }
}

void BlockCache::TableChains::Reserve() {
  if (size_ < slots_.size()) return;
  std::vector<Entry*> before(std::max(kSlotsMin, 2 * slots_.size()));
  slots_.swap(before);
  size_ = 0;
  for (Entry* entry : before) {
    while (entry != nullptr) {
      Entry* const next = entry->next_of_table;
      Add(entry);
      entry = next;
    }
  }
}

void BlockCache::TableChains::Add(Entry* entry) {
  Entry*& slot = slots_[SlotOf(entry->key.table)];
  entry->next_of_table = slot;
  if (slot != nullptr) slot->of_table = &entry->next_of_table;
  entry->of_table = &slot;
  slot = entry;
  size_++;
}

void BlockCache::TableChains::Take(Entry* entry) {
  *entry->of_table = entry->next_of_table;
  if (entry->next_of_table != nullptr) entry->next_of_table->of_table = entry->of_table;
  size_--;
}

void BlockCache::Remove(Shard* shard, Entry* entry, EntryList* gone) {
  const uint64_t bytes = entry->bytes();
  shard->found.Take(entry);
  shard->of_tables.Take(entry);
  (entry->reused ? shard->reused : shard->entered).Take(entry);
  shard->bytes -= bytes;
  if (entry->reused) shard->reused_bytes -= bytes;
  if (memory_ != nullptr) memory_->Release(bytes);
  gone->Add(entry);
}

void BlockCache::Trim(Shard* shard, uint64_t bytes, EntryList* gone) {
  while (shard->bytes > bytes) {
    Entry* const last = (shard->entered.empty() ? shard->reused : shard->entered).oldest();
    const uint64_t hash = last->key.Hash();
    if (!shard->fallen.empty()) FallenAt(&shard->fallen, hash) = static_cast<uint32_t>(hash);
    Remove(shard, last, gone);
    shard->evictions++;
  }
}

void BlockCache::Balance(Shard* shard) {
  int begun_again = 0;
  while (shard->reused_bytes > ShardBytesMax() / 5 * kReusedFifths) {
    Entry* const last = shard->reused.oldest();
    shard->reused.Take(last);
    if (std::exchange(last->asked, false) && begun_again++ < kBegunAgain) {
      shard->reused.Add(last);
      continue;
    }
    shard->reused_bytes -= last->bytes();
    last->reused = false;
    shard->entered.Add(last);
  }
}

bool BlockCache::Charge(Shard* shard, uint64_t bytes, EntryList* gone) {
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
  const uint64_t hash = key.Hash();
  Shard& shard = ShardOf(hash);
  const MutexLock lock(&shard.mu);
  Entry* const entry = shard.found.Find(key, hash);
  if (entry == nullptr) {
    shard.misses++;
    return nullptr;
  }
  shard.hits++;
  std::shared_ptr<const Block> block = entry->block;
  if (entry->reused) {
    entry->asked = true;
    return block;
  }
  shard.entered.Take(entry);
  shard.reused.Add(entry);
  entry->reused = true;
  shard.reused_bytes += entry->bytes();
  Balance(&shard);
  return block;
}

std::shared_ptr<const Block> BlockCache::Peek(uint64_t table, uint64_t offset) const {
  const Key key{table, offset};
  const uint64_t hash = key.Hash();
  const Shard& shard = ShardOf(hash);
  const MutexLock lock(&shard.mu);
  const Entry* const entry = shard.found.Find(key, hash);
  return entry == nullptr ? nullptr : entry->block;
}

void BlockCache::Replace(uint64_t table, uint64_t offset, std::shared_ptr<const Block> block,
                         bool needed_often) {
  const Key key{table, offset};
  const uint64_t hash = key.Hash();
  Shard& shard = ShardOf(hash);
  EntryList gone;  // freed after the lock
  {
    const MutexLock lock(&shard.mu);
    Entry* const entry = shard.found.Find(key, hash);
    if (entry != nullptr && entry->block->memory_bytes() == block->memory_bytes()) {
      entry->block.swap(block);  // what it was goes after the lock
      return;
    }
    if (entry != nullptr) {
      needed_often |= entry->reused;
      Remove(&shard, entry, &gone);
    }
  }
  Insert(table, offset, std::move(block), needed_often);
}

void BlockCache::Insert(uint64_t table, uint64_t offset, std::shared_ptr<const Block> block,
                        bool needed_often) {
  const Key key{table, offset};
  const uint64_t hash = key.Hash();
  Shard& shard = ShardOf(hash);
  EntryList gone;  // freed after the lock
  // Without memory for an entry the block is not kept.
  (void)NoThrow([&] {
    auto made = std::make_unique<Entry>(
        Entry{.key = key, .block = std::move(block), .reused = needed_often});
    const uint64_t bytes = made->bytes();
    if (bytes > ShardBytesMax() / 2) return Status::OK();  // C2
    const MutexLock lock(&shard.mu);
    if (shard.found.Find(key, hash) != nullptr) return Status::OK();  // another reader was first
    if (shard.bytes + bytes > ShardBytesMax()) {
      const size_t blocks = std::bit_ceil(shard.found.size());
      if (shard.fallen.size() < blocks) shard.fallen.assign(blocks, 0);
    }
    if (!shard.fallen.empty() && FallenAt(&shard.fallen, hash) == static_cast<uint32_t>(hash))
      made->reused = true;
    shard.of_tables.Reserve();
    shard.found.Add(made.get());
    if (!Charge(&shard, bytes, &gone)) {
      shard.found.Take(made.get());
      return Status::OK();
    }
    Entry* const entry = made.release();
    shard.of_tables.Add(entry);
    (entry->reused ? shard.reused : shard.entered).Add(entry);
    shard.bytes += bytes;
    if (entry->reused) shard.reused_bytes += bytes;
    Balance(&shard);
    Trim(&shard, ShardBytesMax(), &gone);
    return Status::OK();
  }).ok();
}

void BlockCache::Drop(uint64_t table) {
  for (Shard& shard : shards_) {
    EntryList gone;
    const MutexLock lock(&shard.mu);
    for (Entry* entry = shard.of_tables.FirstOf(table); entry != nullptr;) {
      Entry* const next = entry->next_of_table;
      if (entry->key.table == table) Remove(&shard, entry, &gone);
      entry = next;
    }
  }
}

void BlockCache::Resize(uint64_t bytes_max) {
  bytes_max_.store(bytes_max, std::memory_order_relaxed);
  for (Shard& shard : shards_) {
    EntryList gone;
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
