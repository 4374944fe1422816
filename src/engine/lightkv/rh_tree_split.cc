#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <utility>

#include "base/assert.h"
#include "base/key_head.h"
#include "engine/lightkv/rh_tree.h"
#include "engine/lightkv/rh_tree_node.h"

namespace lamella {

// A leaf that is to have so many entries, and some more.
std::unique_ptr<RhTree::Leaf> RhTree::NewLeaf(Symbol low, Symbol high, size_t entries) const {
  uint32_t buckets = Leaf::kBucketsMin;
  while (uint64_t{buckets} * Leaf::kBucketEntries < entries + entries / 2) buckets *= 2;
  return std::make_unique<Leaf>(low, high, buckets);
}

void RhTree::Fill(Leaf* leaf, const Item* first, const Item* last) {
  for (const Item* item = first; item != last; item++) {
    if (!leaf->Put(*item))  // those of one signature
      leaf->PutInList(*item, AllocateBytes(sizeof(Leaf::Listed), nullptr));
  }
}

bool RhTree::MakeRoom(const Way& way) {
  const Leaf& leaf = *way.leaf;
  const bool is_small = leaf.bucket_count < options_.leaf_buckets_max;
  const bool may_split = leaf.count > 1 && leaf_count() < options_.leaf_nodes_max;
  try {
    if (leaf.is_half_full() && (is_small || !may_split)) {
      Grow(way);
    } else if (may_split) {
      Split(way);
    } else {
      return false;
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;  // R6
  }
}

void RhTree::Grow(const Way& way) {
  Items items;
  items.reserve(way.leaf->count);
  way.leaf->ForEach([&](const Item& item) { items.push_back(item); });
  auto grown = std::make_unique<Leaf>(way.leaf->low, way.leaf->high, 2 * way.leaf->bucket_count);
  Fill(grown.get(), items.data(), items.data() + items.size());
  Replace(way, std::move(grown), nullptr, nullptr);
}

void RhTree::Split(const Way& way) {
  Items items;
  items.reserve(way.leaf->count);
  std::array<uint32_t, kSymbolCount> counts{};
  way.leaf->ForEach([&](const Item& item) { items.push_back(item); });
  const Symbol slot = items.front().cache.at(0);
  std::unique_ptr<Inner> inner;
  if (std::ranges::all_of(items, [&](const Item& i) { return i.cache.at(0) == slot; }))
    inner = NewLevel(way, &items);
  for (const Item& item : items) counts[item.cache.at(0)]++;

  // The right leaf begins with the slot before which about half is, and something.
  Symbol right_low = 0;
  size_t before = 0;
  size_t left_count = 0;
  const size_t total = items.size();
  const auto unevenness = [&](size_t n) { return n > total - n ? 2 * n - total : total - 2 * n; };
  for (Symbol s = 0; s < kSymbolCount; before += counts[s++]) {
    if (before == 0 || before == total || counts[s] == 0) continue;
    if (left_count != 0 && unevenness(before) >= unevenness(left_count)) continue;
    right_low = s;
    left_count = before;
  }
  LAMELLA_CHECK(left_count != 0);
  std::ranges::partition(items, [&](const Item& i) { return i.cache.at(0) < right_low; });

  const Symbol low = inner ? kBeforePrefix : way.leaf->low;
  const Symbol high = inner ? kAfterPrefix : way.leaf->high;
  auto left = NewLeaf(low, right_low - 1, left_count);
  auto right = NewLeaf(right_low, high, total - left_count);
  Fill(left.get(), items.data(), items.data() + left_count);
  Fill(right.get(), items.data() + left_count, items.data() + total);
  (inner ? level_splits_ : normal_splits_).fetch_add(1, std::memory_order_relaxed);
  Replace(way, std::move(left), std::move(right), std::move(inner));
}

// Whether at place `at` of their caches all entries have a symbol, and not all the same.
bool RhTree::CacheTells(const Items& items, size_t at) {
  const Symbol first = items.front().cache.at(at);
  return std::ranges::none_of(items,
                              [&](const Item& i) { return i.cache.at(at) == kUnknownSymbol; }) &&
         std::ranges::any_of(items, [&](const Item& i) { return i.cache.at(at) != first; });
}

// An inner node for entries that all have one slot of their parent: their next symbols that are not
// all the same are their slots in it. It takes the whole run of slots that the leaf had, so its
// prefix begins where all keys of those are the same still (keeps R1).
std::unique_ptr<RhTree::Inner> RhTree::NewLevel(const Way& way, Items* items) {
  const Inner& parent = *way.parent;
  const Leaf& leaf = *way.leaf;
  const bool any_key = leaf.low == kBeforePrefix || leaf.high == kAfterPrefix;
  const size_t base = any_key ? parent.base : parent.slot_at();
  const KeyCache cache = items->front().cache;
  std::string prefix = any_key ? parent.prefix : "";
  for (size_t at = 1; at < KeyCache::kSymbols && IsByte(cache.at(at - 1)); at++) {
    prefix += ByteOf(cache.at(at - 1));
    if (!CacheTells(*items, at)) continue;
    for (Item& item : *items) item.cache = item.cache.Skip(at);
    return std::make_unique<Inner>(leaf.low, leaf.high, base, std::move(prefix));
  }
  const std::string_view key = RecordAt(items->front().location)->key();
  size_t shared = key.size();
  for (const Item& item : *items)
    shared = std::min(shared, SharedBytes(key, RecordAt(item.location)->key()));
  auto inner = std::make_unique<Inner>(leaf.low, leaf.high, base,
                                       std::string(key.substr(base, shared - base)));
  for (Item& item : *items) item.cache = inner->CacheOf(RecordAt(item.location)->key());
  key_reads_.fetch_add(items->size(), std::memory_order_relaxed);
  return inner;
}

void RhTree::Replace(const Way& way, std::unique_ptr<Leaf> left, std::unique_ptr<Leaf> right,
                     std::unique_ptr<Inner> inner) {
  Leaf* const old = way.leaf;
  EpochDomain::Retirement retirement([old] { delete old; });
  // From here on nothing fails.
  Inner* const over = inner ? inner.get() : way.parent;
  std::array<Leaf*, 2> leaves = {left.release(), right.release()};
  for (Leaf* const leaf : leaves) {
    if (leaf == nullptr) continue;
    leaf->lock.lock();  // keeps R4
    over->SetChild(leaf->low, leaf->high, leaf);
    Charge(leaf->bytes());
  }
  if (inner) {
    Adopt(inner.get());
    way.parent->SetChild(old->low, old->high, inner.release());
  }
  if (leaves[1] != nullptr) leaves_.fetch_add(1, std::memory_order_relaxed);
  old->replaced = true;
  Release(old->bytes());
  for (Leaf* const leaf : leaves) {
    if (leaf != nullptr) leaf->lock.unlock();
  }
  readers_->Retire(std::move(retirement));
}

std::unique_ptr<RhTree> RhTree::EmptyCopy(
    const std::function<bool(std::string_view begin)>& keeps) const {
  std::vector<bool> kept;
  for (const Range& range : Ranges()) kept.push_back(!keeps || keeps(range.begin));
  auto copy = std::make_unique<RhTree>(pool_, readers_, options_, memory_);
  const std::unique_ptr<Leaf> first(static_cast<Leaf*>(copy->root_->Child(kBeforePrefix)));
  copy->root_->SetChild(kBeforePrefix, kAfterPrefix, nullptr);
  copy->leaves_.store(0, std::memory_order_relaxed);
  auto at = kept.cbegin();
  copy->CopyShape(*root_, &at, copy->root_);
  copy->Release(first->bytes());
  return copy;
}

void RhTree::CopyShape(const Inner& from, std::vector<bool>::const_iterator* kept, Inner* to) {
  for (Symbol s = 0; s < kSymbolCount;) {
    const Node* const child = from.Child(s);
    s = child->high + 1;
    if (child->is_leaf) {
      ++*kept;
      Symbol high = child->high;
      for (; s < kSymbolCount; s = high + 1) {
        const Node* const next = from.Child(s);
        if (!next->is_leaf || **kept) break;
        ++*kept;
        high = next->high;
      }
      auto leaf = NewLeaf(child->low, high, 0);
      Charge(leaf->bytes());
      to->SetChild(child->low, high, leaf.release());
      leaves_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    const auto& inner = static_cast<const Inner&>(*child);
    auto made = std::make_unique<Inner>(inner.low, inner.high, inner.base, inner.prefix);
    Adopt(made.get());
    Inner* const below = made.release();
    to->SetChild(below->low, below->high, below);
    CopyShape(inner, kept, below);
  }
}

RhTree::Splits RhTree::splits() const {
  return {.normal = normal_splits_.load(std::memory_order_relaxed),
          .level = level_splits_.load(std::memory_order_relaxed),
          .key_reads = key_reads_.load(std::memory_order_relaxed)};
}

}  // namespace lamella
