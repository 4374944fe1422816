#include "engine/lightkv/rh_tree.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "base/assert.h"
#include "base/hash.h"
#include "engine/lightkv/rh_tree_node.h"

namespace lamella {

namespace {

constexpr size_t kSlabBytes = 4096;
// An insert makes one of a version and an entry of a list, or a version and what it follows.
constexpr size_t kInsertBytes = kLineBytes;

}  // namespace

RhTree::RhTree(const Pool* pool, EpochDomain* readers, const RhTreeOptions& options,
               MemoryAccount* memory)
    : pool_(pool), readers_(readers), options_(options), memory_(memory) {
  static_assert(sizeof(Version) <= kInsertBytes && sizeof(Leaf::Listed) <= kInsertBytes);
  LAMELLA_CHECK(std::has_single_bit(options.leaf_buckets_max));
  LAMELLA_CHECK(options.leaf_buckets_max >= Leaf::kBucketsMin);
  auto leaf = NewLeaf(kBeforePrefix, kAfterPrefix, 0);
  root_ = new Inner(kBeforePrefix, kAfterPrefix, 0, "");
  root_->SetChild(kBeforePrefix, kAfterPrefix, leaf.get());
  Charge(leaf.release()->bytes());
  Adopt(root_);
}

RhTree::~RhTree() {
  for (const Inner* inner = inners_; inner != nullptr; inner = inner->next) {
    for (Symbol s = 0; s < kSymbolCount;) {
      Node* const child = inner->Child(s);
      if (child == nullptr) break;  // of a copy that was not finished
      s = child->high + 1;
      if (child->is_leaf) delete static_cast<Leaf*>(child);
    }
  }
  while (inners_ != nullptr) delete std::exchange(inners_, inners_->next);
  while (slabs_ != nullptr) MemoryBlock::Delete(std::exchange(slabs_, slabs_->next));
  if (memory_ != nullptr) memory_->Release(memory_bytes());
}

void RhTree::Charge(uint64_t bytes) {
  memory_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (memory_ != nullptr) memory_->Charge(bytes);
}

void RhTree::Release(uint64_t bytes) {
  memory_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (memory_ != nullptr) memory_->Release(bytes);
}

void RhTree::Adopt(Inner* inner) {
  Charge(sizeof(Inner) + inner->prefix.size());
  const MutexLock lock(&arena_mu_);
  inner->next = std::exchange(inners_, inner);
}

bool RhTree::ProvideFor(uint64_t inserts, SpareMemory* spare) {
  return spare->Provide(inserts * kInsertBytes);
}

char* RhTree::AllocateBytes(size_t bytes, SpareMemory* spare) {
  const MutexLock lock(&arena_mu_);
  if (slab_left_ < bytes) {
    MemoryBlock* const block = MemoryBlock::New(kSlabBytes, kLineBytes);
    if (block == nullptr) {
      char* const taken = spare != nullptr ? spare->Take(kInsertBytes, &slabs_) : nullptr;
      if (taken == nullptr) throw std::bad_alloc();
      Charge(kInsertBytes);
      return taken;
    }
    block->next = std::exchange(slabs_, block);
    slab_ = reinterpret_cast<char*>(block + 1);
    slab_left_ = kSlabBytes - sizeof(MemoryBlock);
    Charge(kSlabBytes);
  }
  slab_left_ -= bytes;
  return slab_ + slab_left_;
}

uint32_t RhTree::SignatureOf(std::string_view key) const {
  return static_cast<uint32_t>(Hash64(key) >> 32) >> (32 - options_.signature_bits);
}

RhTree::Way RhTree::Descend(std::string_view key) const {
  for (Inner* inner = root_;;) {
    Node* const child = inner->Child(inner->SlotOf(key));
    if (child->is_leaf) return {inner, static_cast<Leaf*>(child)};
    inner = static_cast<Inner*>(child);
  }
}

const Record* RhTree::RecordAt(uint64_t location) const {
  pool_->gate()->OnRead(kLineBytes);
  return pool_->At<Record>(Version::PlaceAt(location));
}

uint64_t RhTree::TagAt(uint64_t location) const {
  const Version* const version = Version::At(location);
  return version == nullptr ? RecordAt(location)->tag() : version->tag;
}

// Two writers of a key may come in either order: the older one's version goes after the newer's.
void RhTree::AddVersion(std::atomic<uint64_t>* slot, uint64_t tag, PmPtr place,
                        SpareMemory* spare) {
  auto* const added = new (AllocateBytes(sizeof(Version), spare)) Version{tag, place};
  for (;;) {
    const uint64_t location = slot->load(std::memory_order_relaxed);
    const bool is_newest = location == 0 || TagAt(location) < tag;
    Version* const version = Version::At(location);
    if (is_newest || version == nullptr) {
      if (is_newest) {
        added->older.store(location, std::memory_order_relaxed);
      } else {  // the newer one is a record's place, and gets a version to lead on from
        added->tag = TagAt(location);
        added->place = PmPtr(location);
        added->older.store(place.word, std::memory_order_relaxed);
      }
      slot->store(added->location(), std::memory_order_release);  // pairs with readers' acquire
      return;
    }
    slot = &version->older;
  }
}

void RhTree::Insert(std::string_view key, uint64_t tag, PmPtr place, SpareMemory* spare) {
  const uint32_t signature = SignatureOf(key);
  const EpochPin pin(readers_);
  for (bool entered = false; !entered;) {
    const Way way = Descend(key);
    Leaf* const leaf = way.leaf;
    const std::lock_guard lock(leaf->lock);
    if (leaf->replaced) continue;  // keeps R4
    const auto is_it = [&](uint64_t location) { return RecordAt(location)->key() == key; };
    const Item item{signature, way.parent->CacheOf(key), place.word};
    if (std::atomic<uint64_t>* const slot = leaf->Find(signature, is_it)) {
      AddVersion(slot, tag, place, spare);  // keeps R5
    } else if (!leaf->Put(item)) {
      if (MakeRoom(way)) continue;
      leaf->PutInList(item, AllocateBytes(sizeof(Leaf::Listed), spare));  // keeps R6
    }
    entered = true;
  }
  count_.Add();
}

bool RhTree::FindVersion(const InternalKey& target, Entry* found) const {
  Leaf* const leaf = Descend(target.user_key).leaf;
  const std::atomic<uint64_t>* slot =
      leaf->Find(SignatureOf(target.user_key),
                 [&](uint64_t location) { return RecordAt(location)->key() == target.user_key; });
  while (slot != nullptr) {
    const uint64_t location = slot->load(std::memory_order_acquire);
    if (location == 0) return false;
    const uint64_t tag = TagAt(location);
    if (tag <= target.tag) {
      *found = {{target.user_key, tag}, Version::PlaceAt(location)};
      return true;
    }
    const Version* const version = Version::At(location);
    slot = version == nullptr ? nullptr : &version->older;
  }
  return false;
}

// What of the range is the child's. `path`: the parent's path and prefix.
RhTree::Range RhTree::Narrow(const std::string& path, const Node* child, const Range& range) {
  // Where a slot, not the first, begins; the range's end where nothing is in it.
  const auto begin_of = [&](Symbol slot) -> std::optional<std::string> {
    if (slot == kKeyEnd) return path;
    if (IsByte(slot)) return path + ByteOf(slot);
    std::string after = path;  // the least that is greater than all that begins with the path
    while (!after.empty() && static_cast<unsigned char>(after.back()) == 0xff) after.pop_back();
    if (after.empty()) return range.end;
    after.back()++;
    return range.end && *range.end < after ? range.end : after;
  };
  Range narrowed = range;
  if (child->low != kBeforePrefix) narrowed.begin = begin_of(child->low).value_or(range.begin);
  if (child->high != kAfterPrefix) narrowed.end = begin_of(child->high + 1);
  return narrowed;
}

RhTree::Way RhTree::FindPartition(std::optional<std::string_view> key, bool before,
                                  Range* range) const {
  *range = Range();
  std::string path;
  for (Inner* inner = root_;;) {
    path += inner->prefix;
    Node* child = inner->Child(key ? inner->SlotOf(*key) : kAfterPrefix);
    Range narrowed = Narrow(path, child, *range);
    if (before && key && narrowed.begin == *key) {  // the last one within what is before that
      child = inner->Child(child->low - 1);
      narrowed = Narrow(path, child, *range);
      key.reset();
    }
    *range = std::move(narrowed);
    if (child->is_leaf) return {inner, static_cast<Leaf*>(child)};
    inner = static_cast<Inner*>(child);
    path.resize(inner->base);
  }
}

void RhTree::CopySlots(const Way& way, Partition* partition) {
  std::vector<Slot>& slots = partition->slots;
  slots.clear();
  uint32_t symbols = KeyCache::kSymbols;
  way.leaf->ForEach([&](const Item& item) {
    if (IsByte(item.cache.at(0))) symbols = std::min(symbols, item.cache.known());
    slots.push_back({item.cache.word, item.location});
  });
  for (Slot& slot : slots) slot.order = KeyCache{slot.order}.Order(symbols);
  partition->parent = way.parent;
  partition->symbols = symbols;
}

uint32_t RhTree::OrderOf(const Partition& partition, std::string_view key) {
  return static_cast<const Inner*>(partition.parent)->CacheOf(key).Order(partition.symbols);
}

void RhTree::Sort(const Slot* first, const Slot* last, std::vector<Entry>* entries) const {
  entries->clear();
  for (const Slot* slot = first; slot != last; slot++) {
    const std::string_view key = RecordAt(slot->location)->key();
    for (uint64_t location = slot->location; location != 0;) {
      entries->push_back({{key, TagAt(location)}, Version::PlaceAt(location)});
      const Version* const version = Version::At(location);
      location = version == nullptr ? 0 : version->older.load(std::memory_order_acquire);
    }
  }
  std::ranges::sort(
      *entries, [](const Entry& a, const Entry& b) { return CompareInternal(a.key, b.key) < 0; });
}

void RhTree::CopyPartition(std::string_view key, Partition* partition) const {
  const EpochPin pin(readers_);
  CopySlots(FindPartition(key, false, &partition->range), partition);
}

void RhTree::CopyPartitionBefore(std::optional<std::string_view> bound,
                                 Partition* partition) const {
  const EpochPin pin(readers_);
  CopySlots(FindPartition(bound, true, &partition->range), partition);
}

std::vector<RhTree::Range> RhTree::Ranges() const {
  const EpochPin pin(readers_);
  std::vector<Range> ranges(1);
  (void)FindPartition("", false, &ranges.back());
  while (ranges.back().end) {
    const std::string next = *ranges.back().end;
    (void)FindPartition(next, false, &ranges.emplace_back());
    ranges.back().begin = next;  // a leaf that was split may begin before
  }
  return ranges;
}

}  // namespace lamella
