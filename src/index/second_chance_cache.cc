#include "index/second_chance_cache.h"

#include <algorithm>
#include <new>
#include <optional>

#include "base/no_throw.h"

namespace lamella {

namespace {
constexpr uint64_t kBytesPerEntry = 48;  // at the usual fill of leaves
// A search that would go back further starts at the list's head.
constexpr uint32_t kEmptiedLeavesMax = 16;
}  // namespace

SecondChanceCache::SecondChanceCache(Pool* pool, uint64_t bytes_max, MemoryAccount* memory)
    : pool_(pool), enabled_(bytes_max != 0), bytes_max_(bytes_max), memory_(memory) {
  owned_ = NewTree();
  tree_.store(owned_.get(), std::memory_order_release);
}

// A tree that is kept alive shares its address with no other.
bool SecondChanceCache::Renew(std::shared_ptr<const HeadTree>* tree) const {
  // acquire: pairs with Swap's release.
  if (!enabled_ || tree_.load(std::memory_order_acquire) == tree->get()) return false;
  const MutexLock lock(&mu_);
  *tree = owned_;
  return true;
}

void SecondChanceCache::Tree::BeComplete(EpochDomain* readers) {
  RenewFilter(readers);
  complete_.store(true, std::memory_order_release);
}

// Not at every element that is left out: readers have the line.
void SecondChanceCache::Tree::BeIncomplete() {
  if (complete_.load(std::memory_order_relaxed)) complete_.store(false, std::memory_order_release);
}

bool SecondChanceCache::Tree::MayHold(std::string_view key) const {
  // acquire pairs with RenewFilter.
  return filter_.load(std::memory_order_acquire)
      ->MayHold(KeyPrefixes::HeadOf(prefixes().get(), key));
}

// For twice as many as there are, so that renewals cost each entry a constant.
void SecondChanceCache::Tree::RenewFilter(EpochDomain* readers) {
  constexpr uint64_t kHeadsMin = 512;
  auto filter = std::make_shared<HeadFilter>(std::max(kHeadsMin, 2 * count()), memory());
  EpochDomain::Retirement retirement([old = owned_filter_] {});
  constexpr int kAhead = 16;  // each entry's line is somewhere else
  HeadTree::Iterator ahead(this);
  ahead.SeekToFirst();
  const auto prefetch = [&] {
    if (!ahead.Valid()) return;
    filter->Prefetch(ahead.entry());
    ahead.Next();
  };
  for (int i = 0; i < kAhead; i++) prefetch();
  HeadTree::Iterator entries(this);
  for (entries.SeekToFirst(); entries.Valid(); entries.Next()) {
    prefetch();
    filter->Add(entries.entry());
  }
  filtered_ = count();
  filter_bytes_.store(filter->memory_bytes(), std::memory_order_relaxed);
  filter_.store(filter.get(), std::memory_order_release);
  owned_filter_ = std::move(filter);
  readers->Retire(std::move(retirement));
}

void SecondChanceCache::Tree::InsertFiltered(const Record* record, PmPtr place,
                                             EpochDomain* readers) {
  if (complete_.load(std::memory_order_relaxed)) {  // keeps I4
    if (filtered_ >= owned_filter_->heads_max()) RenewFilter(readers);
    owned_filter_->Add(KeyPrefixes::HeadOf(prefixes().get(), record->key()));
    filtered_++;
  }
  Insert(record->key(), record->tag(), place, record->height());
}

SecondChanceCache::Answer SecondChanceCache::FindVersion(const InternalKey& target,
                                                         HeadTree::Entry* found) const {
  if (!enabled_) return Answer::kUnknown;
  // one tree: what it says of itself is of what it holds
  const Tree* const tree = tree_.load(std::memory_order_acquire);
  if (!tree->complete()) return Answer::kUnknown;
  if (!tree->MayHold(target.user_key)) return Answer::kAbsent;
  const std::optional<bool> has = tree->FindVersionNear(target, found);
  return !has ? Answer::kUnknown : *has ? Answer::kFound : Answer::kAbsent;
}

HeadTree::Entry SecondChanceCache::FindTallAtOrBefore(const InternalKey& target,
                                                      uint32_t height_min, int part,
                                                      uint32_t near) const {
  HeadTree::Entry entry;
  if (!enabled_) return entry;
  const auto serves = [&](const HeadTree::Entry& e) {
    return e.height() >= height_min &&
           (part < 0 || e.place().part() == static_cast<uint32_t>(part));
  };
  const HeadTree* tree = tree_.load(std::memory_order_acquire);
  if (!tree->FindAtOrBefore(target, &entry)) return HeadTree::Entry{};
  if (serves(entry)) return entry;
  HeadTree::Iterator at(tree);
  at.SeekForPrev(target);
  for (uint32_t steps = 0; at.Valid() && steps < near; at.Prev(), steps++) {
    if (serves(at.entry())) return at.entry();
  }
  return HeadTree::Entry{};
}

void SecondChanceCache::Swap(std::shared_ptr<Tree> tree) {
  std::shared_ptr<Tree> old;
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
  // readers that loaded the raw pointer are pinned there
  pool_->readers()->Retire(std::move(retirement));
}

bool SecondChanceCache::Insert(const Record* record, PmPtr place) {
  if (!enabled_) return true;
  Tree* tree = tree_.load(std::memory_order_relaxed);
  if (!Keeps(record)) {
    tree->BeIncomplete();
    return true;
  }
  try {
    tree->InsertFiltered(record, place, pool_->readers());
    if (tree->memory_bytes() + tree->filter_bytes() > BytesMax()) MakeRoom();
  } catch (const std::bad_alloc&) {
    tree_.load(std::memory_order_relaxed)->BeIncomplete();  // it may be another by now
    return false;
  }
  return true;
}

void SecondChanceCache::Remove(const Record* record, PmPtr place) {
  if (!enabled_ || !Keeps(record)) return;
  Tree* tree = tree_.load(std::memory_order_relaxed);
  if (!tree->Remove(record->internal_key(), place)) return;
  // Where the smallest keys are always deleted, leaf by leaf is emptied, and stays in the tree.
  constexpr uint64_t kRemovedMin = 4096;
  removed_++;
  if (removed_ <= kRemovedMin || removed_ <= tree->count()) return;
  removed_ = 0;
  RebuildIfMemory(
      halvings_.load(std::memory_order_relaxed));  // else emptied leaves stay until the next
}

void SecondChanceCache::Warm(const PmSkipList& list, uint64_t elements, WalkVisitor* beside) {
  class Visitor : public WalkVisitor {
   public:
    Visitor(SecondChanceCache* cache, const PmSkipList& list, WalkVisitor* beside)
        : cache_(cache), list_(list), beside_(beside) {}
    bool OnElement(PmPtr place, bool whole) override {
      seen_++;
      if (whole && cache_->Insert(list_.At(place), place)) inserted_++;  // keeps I1
      return true;
    }
    void OnDamage() override { damaged_ = true; }
    void OnNeighbours(PmPtr before, PmPtr place) override {
      if (beside_ != nullptr) beside_->OnNeighbours(before, place);
    }

    uint64_t seen() const { return seen_; }
    uint64_t inserted() const { return inserted_; }
    bool damaged() const { return damaged_; }

   private:
    SecondChanceCache* const cache_;
    const PmSkipList& list_;
    WalkVisitor* const beside_;
    uint64_t seen_ = 0;
    uint64_t inserted_ = 0;
    bool damaged_ = false;
  };
  const uint32_t before = halvings_.load(std::memory_order_relaxed);
  uint32_t halvings = before;
  while (halvings < kHalvingsMax && (elements >> halvings) * kBytesPerEntry > BytesMax())
    halvings++;
  if (halvings != before) RebuildIfMemory(halvings);  // merges may have come before
  const uint32_t layer_min = halvings / 2;            // the lowest with elements that are kept
  uint64_t seen = 0;  // of layer 0, which is walked with the first lane
  uint64_t inserted = 0;
  bool damaged = false;
  for (uint32_t lane = 0; lane < list.lane_count(); lane++) {
    Visitor visitor(this, list, beside);
    // Layer 0 is that of all lanes.
    const uint32_t lowest =
        lane == 0 ? (beside != nullptr ? 0 : layer_min) : std::max(1u, layer_min);
    WalkInterleaved(list, lane, lowest, &visitor);
    if (lane == 0) seen = visitor.seen();
    inserted += visitor.inserted();
    damaged = damaged || visitor.damaged();
  }
  // keeps I3: layer 0 was walked, with no element that was not whole or did not fit
  const bool all = enabled_ && this->height_min() == 1 && !damaged && inserted == seen;
  if (!all) return;
  (void)NoThrow([this] {  // without memory for its filter it is as one that has not all
    BeginWithAll();
    return Status::OK();
  });
}

// An element costs a look at its record: only once there are twice as many again, since prefixes
// that fit no better would be tried at every merge.
void SecondChanceCache::Fit(std::shared_ptr<const KeyPrefixes> prefixes) {
  if (!enabled_ || prefixes == prefixes_) return;
  prefixes_ = std::move(prefixes);
  const Tree* const tree = tree_.load(std::memory_order_relaxed);
  if (tree->count() != 0 && (!tree->HeadsAlike() || tree->count() < 2 * fitted_count_)) return;
  fitted_count_ = tree->count();
  // else the current tree serves, if more slowly
  RebuildIfMemory(halvings_.load(std::memory_order_relaxed));
}

void SecondChanceCache::BeginWithAll() {
  tree_.load(std::memory_order_relaxed)->BeComplete(pool_->readers());
}

std::shared_ptr<SecondChanceCache::Tree> SecondChanceCache::NewTree() const {
  return std::make_shared<Tree>(pool_, memory_, prefixes_, kEmptiedLeavesMax);
}

void SecondChanceCache::Clear() { Swap(NewTree()); }

uint64_t SecondChanceCache::BytesMax() const {
  const uint64_t bytes_max = bytes_max_.load(std::memory_order_relaxed);
  if (memory_ == nullptr || !memory_->MustShrink()) return bytes_max;
  return std::min(bytes_max, std::max(memory_->ShareOf(bytes_max), kEmptyBytesMax));
}

// Each round drops half of the elements, until nearly none are left.
void SecondChanceCache::Shrink() {
  while (IsTooLarge() && halvings_.load(std::memory_order_relaxed) < kHalvingsMax) MakeRoom();
  if (IsTooLarge()) Clear();
}

// Drops the filter, where that is enough; else half of the elements, the shortest, or none where
// most of the memory is in emptied leaves. Where it is not in those it is in keys: the tree copies
// a long one for each leaf.
void SecondChanceCache::MakeRoom() {
  const Tree* const old = tree_.load(std::memory_order_relaxed);
  if (old->complete() && old->memory_bytes() < BytesMax() / 4 * 3)
    return Rebuild(halvings_.load(std::memory_order_relaxed), false);
  const uint32_t halvings = halvings_.load(std::memory_order_relaxed);
  const bool full_of_entries = old->count() * kBytesPerEntry > BytesMax() / 2;
  if (!full_of_entries || halvings == kHalvingsMax) Rebuild(halvings);
  if (halvings == kHalvingsMax) return;
  const Tree* const now = tree_.load(std::memory_order_relaxed);
  if (full_of_entries || now->memory_bytes() + now->filter_bytes() > BytesMax() / 4 * 3)
    Rebuild(halvings + 1);
}

void SecondChanceCache::Rebuild(uint32_t halvings, bool with_filter) {
  auto tree = NewTree();
  const Tree* const old = tree_.load(std::memory_order_relaxed);
  bool all = old->complete() && with_filter;
  HeadTree::Iterator entries(old);
  for (entries.SeekToFirst(); entries.Valid(); entries.Next()) {
    const HeadTree::Entry entry = entries.entry();
    const bool stays = Keeps(halvings, entry.height(), TagSequence(entry.tag));
    if (stays) tree->InsertEntry(*old, entry);
    all = all && stays;
  }
  if (all) tree->BeComplete(pool_->readers());
  Swap(std::move(tree));
  halvings_.store(halvings, std::memory_order_relaxed);
  removed_ = 0;
}

void SecondChanceCache::RebuildIfMemory(uint32_t halvings) {
  (void)NoThrow([&] {
    Rebuild(halvings);
    return Status::OK();
  });
}

}  // namespace lamella
