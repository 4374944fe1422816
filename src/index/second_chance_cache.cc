#include "index/second_chance_cache.h"

#include <algorithm>

namespace lamella {

namespace {
constexpr uint64_t kBytesPerEntry = 48;  // at the usual fill of leaves
// A search that would go back further starts at the list's head.
constexpr uint32_t kEmptiedLeavesMax = 16;
}  // namespace

SecondChanceCache::SecondChanceCache(Pool* pool, uint64_t bytes_max, MemoryAccount* memory)
    : pool_(pool), bytes_max_(bytes_max), memory_(memory) {
  owned_ = NewTree();
  tree_.store(owned_.get(), std::memory_order_release);
}

// A tree that is kept alive shares its address with no other.
bool SecondChanceCache::Renew(std::shared_ptr<const HeadTree>* tree) const {
  // acquire: pairs with Swap's release.
  if (bytes_max_ == 0 || tree_.load(std::memory_order_acquire) == tree->get()) return false;
  const MutexLock lock(&mu_);
  *tree = owned_;
  return true;
}

HeadTree::Entry SecondChanceCache::FindTallAtOrBefore(const InternalKey& target, uint32_t height_min, int part) const {
  HeadTree::Entry entry;
  if (bytes_max_ == 0) return entry;
  const auto serves = [&](const HeadTree::Entry& e) {
    return e.height() >= height_min && (part < 0 || e.place().part() == static_cast<uint32_t>(part));
  };
  const HeadTree* tree = tree_.load(std::memory_order_acquire);
  if (!tree->FindAtOrBefore(target, &entry)) return HeadTree::Entry{};
  if (serves(entry)) return entry;
  // One in four reaches a layer higher. Who needs more than a few of them starts at the list's head.
  constexpr uint32_t kStepsMax = 4096;
  HeadTree::Iterator at(tree);
  at.SeekForPrev(target);
  for (uint32_t steps = 0; at.Valid() && steps < kStepsMax; at.Prev(), steps++) {
    if (serves(at.entry())) return at.entry();
  }
  return HeadTree::Entry{};
}

void SecondChanceCache::Swap(std::shared_ptr<HeadTree> tree) {
  std::shared_ptr<HeadTree> old;
  {
    const MutexLock lock(&mu_);
    old = owned_;
  }
  EpochDomain::Retirement retirement([old] {});
  {
    const MutexLock lock(&mu_);
    tree_.store(tree.get(), std::memory_order_release);
    owned_ = std::move(tree);
  }
  pool_->readers()->Retire(std::move(retirement));  // readers that loaded the raw pointer are pinned there
}

bool SecondChanceCache::Insert(const Record* record, PmPtr place) {
  if (bytes_max_ == 0 || record->height() < height_min()) return true;
  HeadTree* tree = tree_.load(std::memory_order_relaxed);
  try {
    tree->Insert(record->key(), record->tag(), place, record->height());
    if (tree->memory_bytes() > BytesMax()) MakeRoom();
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void SecondChanceCache::Remove(const Record* record, PmPtr place) {
  if (bytes_max_ == 0 || record->height() < height_min()) return;
  HeadTree* tree = tree_.load(std::memory_order_relaxed);
  if (!tree->Remove(record->internal_key(), place)) return;
  // Where the smallest keys are always deleted, leaf by leaf is emptied, and stays in the tree.
  constexpr uint64_t kRemovedMin = 4096;
  if (++removed_ > kRemovedMin && removed_ > tree->count()) Rebuild();
}

void SecondChanceCache::Warm(const PmSkipList& list, uint64_t elements, WalkVisitor* beside) {
  class Visitor : public WalkVisitor {
   public:
    Visitor(SecondChanceCache* cache, const PmSkipList& list, WalkVisitor* beside)
        : cache_(cache), list_(list), beside_(beside) {}
    bool OnElement(PmPtr place, bool whole) override {
      if (whole) cache_->Insert(list_.At(place), place);  // keeps I1
      return true;
    }
    void OnNeighbours(PmPtr before, PmPtr place) override {
      if (beside_ != nullptr) beside_->OnNeighbours(before, place);
    }

   private:
    SecondChanceCache* const cache_;
    const PmSkipList& list_;
    WalkVisitor* const beside_;
  };
  // One in four reaches a layer higher.
  uint32_t height_min = this->height_min();
  while (height_min < kHeightMax && (elements >> (2 * (height_min - 1))) * kBytesPerEntry > BytesMax()) height_min++;
  height_min_.store(height_min, std::memory_order_relaxed);
  for (uint32_t lane = 0; lane < list.lane_count(); lane++) {
    Visitor visitor(this, list, beside);
    // Layer 0 is that of all lanes.
    const uint32_t lowest = lane == 0 ? (beside != nullptr ? 0 : height_min - 1) : std::max(1u, height_min - 1);
    WalkInterleaved(list, lane, lowest, &visitor);
  }
}

std::shared_ptr<HeadTree> SecondChanceCache::NewTree() const {
  return std::make_shared<HeadTree>(pool_, memory_, kEmptiedLeavesMax);
}

void SecondChanceCache::Clear() { Swap(NewTree()); }

uint64_t SecondChanceCache::BytesMax() const {
  if (memory_ == nullptr || !memory_->MustShrink()) return bytes_max_;
  constexpr uint64_t kBytesMin = 16 << 10;  // an empty tree takes a part of it
  return std::min(bytes_max_, std::max(memory_->ShareOf(bytes_max_), kBytesMin));
}

// Each round drops a height's elements, until none are left.
void SecondChanceCache::Shrink() {
  while (IsTooLarge() && height_min() < kHeightMax) MakeRoom();
  if (IsTooLarge()) Clear();
}

// Drops the shortest elements; none where most of the memory is in emptied leaves.
void SecondChanceCache::MakeRoom() {
  const HeadTree* old = tree_.load(std::memory_order_relaxed);
  if (old->count() * kBytesPerEntry > BytesMax() / 2 && height_min() < kHeightMax) {
    height_min_.fetch_add(1, std::memory_order_relaxed);
  }
  Rebuild();
}

void SecondChanceCache::Rebuild() {
  auto tree = NewTree();
  HeadTree::Iterator entries(tree_.load(std::memory_order_relaxed));
  for (entries.SeekToFirst(); entries.Valid(); entries.Next()) {
    if (entries.entry().height() >= height_min()) tree->InsertEntry(entries.entry());
  }
  removed_ = 0;
  Swap(std::move(tree));
}

}  // namespace lamella
