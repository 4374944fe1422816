#include "index/leaf_tree.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/key_head.h"

namespace lamella {

namespace {

bool Share(std::string_view a, std::string_view b, size_t bytes) {
  return a.size() >= bytes && b.size() >= bytes && a.substr(0, bytes) == b.substr(0, bytes);
}

}  // namespace

void LeafTree::Count(const LeafTally& tally) {
  leaves_.fetch_add(static_cast<uint64_t>(tally.leaves), std::memory_order_relaxed);
  entries_.fetch_add(static_cast<uint64_t>(tally.entries), std::memory_order_relaxed);
  cell_bytes_.fetch_add(static_cast<uint64_t>(tally.cell_bytes), std::memory_order_relaxed);
}

// Verifies one leaf, whose keys must be after the last one, and that `last` is set to its own last.
Status LeafTree::OpenLeaf(PmPtr place, std::string* last_key, uint64_t* last_tag,
                          LeafIndex::Child* child) {
  uint32_t epoch = 0;
  const LeafSpace::Block block{LeafSpace::Use::kLeaf, place, sizeof(Leaf)};
  if (!space_->MayHold(block, &epoch))
    return LeafDamage(*pool_, place, "is none: it lies where leaves do not");
  const auto* leaf = pool_->At<Leaf>(place);
  const LeafView view(pool_, place, {});
  if (leaf->seal != LeafSeal(leaf->left_out, place, epoch) || leaf->reserved0 != 0)
    return LeafDamage(*pool_, place, "does not match its seal");
  if (!view.order().IsSound() || view.count() == 0)
    return LeafDamage(*pool_, place, "has an order word that is none");
  LeafTally tally{.leaves = 1, .entries = view.count()};
  std::string_view first;
  for (uint32_t i = 0; i < view.count(); i++) {
    const LeafCell* cell = nullptr;
    Status s = view.Cell(i, true, &cell);
    if (!s.ok()) return s;
    PmPtr at;
    const bool holds = DecodeLeafLink(view.cell_link(i), &at) &&
                       space_->MayHold({LeafSpace::Use::kCell, at, cell->bytes()}, &epoch);
    if (!holds) return LeafDamage(*pool_, place, "has an entry whose cell lies where none does");
    const InternalKey key = cell->internal_key();
    if (i == 0) first = key.user_key;
    if (!Share(first, key.user_key, leaf->left_out) ||
        view.head(i) != HeadAfter(key.user_key, leaf->left_out))
      return LeafDamage(*pool_, place, "has a head that is not its key's");
    // So a list that leads back to itself is found out, too (keeps T1).
    const bool is_first_of_all = leaf_count() == 0 && i == 0;
    if (!is_first_of_all && CompareInternal({*last_key, *last_tag}, key) >= 0)
      return LeafDamage(*pool_, place, "has entries that are not in order");
    if (i == 0) {
      child->low = is_first_of_all ? LeafLow::OfFirst(key, leaf->left_out)
                                   : LeafLow::Between({*last_key, *last_tag}, key, leaf->left_out);
      child->leaf = place;
    }
    *last_key = key.user_key;
    *last_tag = key.tag;
    if (TagKind(key.tag) == RecordKind::kPutElsewhere)
      elsewhere_last_ = std::max(elsewhere_last_, cell->location);
    space_->MarkTaken({LeafSpace::Use::kCell, at, cell->bytes()});
    tally.cell_bytes += static_cast<int64_t>(cell->bytes());
  }
  space_->MarkTaken(block);
  Count(tally);
  return Status::OK();
}

Status LeafTree::Open() {
  std::vector<LeafIndex::Child> leaves;
  std::string last_key;
  uint64_t last_tag = 0;
  const PmWord* link = head_;
  for (PmPtr at;; link = &pool_->At<Leaf>(at)->next) {
    const PmPtr from = at;
    if (!DecodeLeafLink(link->load(std::memory_order_acquire), &at)) {
      if (from) return LeafDamage(*pool_, from, "has a damaged link to the next one");
      return Status::Corruption("the link to a tree's first leaf is damaged");
    }
    if (!at) break;
    LeafIndex::Child child;
    Status s = OpenLeaf(at, &last_key, &last_tag, &child);
    if (!s.ok()) return s;
    leaves.push_back(std::move(child));
  }
  owned_root_ = LeafIndex::Build(std::move(leaves));
  root_.store(owned_root_.get(), std::memory_order_release);  // pairs with Root
  return Status::OK();
}

Status LeafTree::Find(const InternalKey& target, bool verify, LeafVersion* found) const {
  *found = {};
  LeafIndex::Cursor leaf(Root());
  leaf.Seek(target);
  if (!leaf.Valid()) return Status::OK();
  LeafView view(pool_, leaf.leaf(), leaf.low().key);
  uint32_t at = 0;
  Status s = view.Ready();
  if (s.ok()) s = view.LowerBound(target, verify, &at);
  if (!s.ok()) return s;
  if (at == view.count()) {
    // Of a key whose versions fill leaves the next one may have those that are older.
    leaf.Next();
    if (!leaf.Valid() || leaf.low().key != target.user_key) return s;
    view = LeafView(pool_, leaf.leaf(), leaf.low().key);
    at = 0;
    s = view.Ready();
    if (!s.ok()) return s;
  }
  uint64_t head = 0;
  if (view.SideOf(target.user_key, &head) != LeafView::Side::kAmong || view.head(at) != head)
    return s;
  const uint64_t link = view.cell_link(at);
  const LeafCell* cell = nullptr;
  s = ReadCell(*pool_, view.place(), link, verify, &cell);
  if (!s.ok() || cell->key() != target.user_key || cell->tag > target.tag) return s;
  DecodeLeafLink(link, &found->place);
  found->tag = cell->tag;
  found->location = cell->location;
  found->value_size = cell->value_size;
  return s;
}

Status LeafTree::Make(LeafChange* change) {
  Status s = change->Make(head_, &owned_root_);
  if (!change->made()) return s;
  root_.store(owned_root_.get(), std::memory_order_release);  // pairs with Root
  change->Retire();
  Count(change->tally());
  return s;
}

Status LeafTree::Insert(std::span<const LeafPut> puts, const VersionNeeded& needed,
                        Persister* persister) {
  // Neighbouring leaves of which all but a delete that leaves nothing went.
  struct Run {
    InternalKey from, last;
    size_t leaves = 0;
  };
  Run longest;
  {
    LeafChange change(pool_, space_, persister);
    Run run;
    PmPtr expected;  // the leaf after the run
    while (!puts.empty()) {
      LeafIndex::Cursor leaf(owned_root_.get());
      leaf.Seek(puts.front().key);
      LeafIndex::Cursor after = leaf;
      if (after.Valid()) after.Next();
      size_t here = puts.size();
      if (after.Valid()) {
        const auto is_here = [high = after.low().view()](const LeafPut& put) {
          return CompareInternal(put.key, high) < 0;
        };
        here = static_cast<size_t>(std::ranges::partition_point(puts, is_here) - puts.begin());
      }
      Status s = change.PlanPuts(leaf, puts.first(here), needed);
      if (!s.ok()) return s;
      puts = puts.subspan(here);
      if (const LeafPut* const alone = change.left_alone()) {
        if (run.leaves == 0 || leaf.leaf() != expected) run = {alone->key, alone->key, 0};
        run.last = alone->key;
        run.leaves++;
        expected = after.Valid() ? after.leaf() : PmPtr();
        if (run.leaves > longest.leaves) longest = run;
      }
    }
    Status s = Make(&change);
    if (!s.ok() || longest.leaves == 0) return s;
  }
  // One change more, whatever there is. What it leaves alone hides nothing.
  Status s = Remove(longest.from, &longest.last, persister);
  return s.IsNoSpace() ? Status::OK() : s;
}

Status LeafTree::Remove(const InternalKey& from, const InternalKey* last, Persister* persister) {
  LeafChange change(pool_, space_, persister);
  Status s = change.PlanRemoval(owned_root_.get(), from, last);
  return s.ok() ? Make(&change) : s;
}

void LeafTree::GiveBack() {
  while (!space_->closed() && (!leaving_.empty() || owned_root_ != nullptr)) {
    if (leaving_.empty()) {
      leaving_ = Blocks();
      owned_root_ = nullptr;
      root_.store(nullptr, std::memory_order_release);  // pairs with Root
    }
    for (; !leaving_.empty(); leaving_.pop_back()) space_->Free(leaving_.back());
  }
}

std::vector<LeafSpace::Block> LeafTree::Blocks() const {
  std::vector<LeafSpace::Block> blocks;
  LeafIndex::Cursor leaf(owned_root_.get());
  for (leaf.SeekToFirst(); leaf.Valid(); leaf.Next()) {
    const LeafView view(pool_, leaf.leaf(), leaf.low().key);
    for (uint32_t i = 0; view.Ready().ok() && i < view.count(); i++) {
      const LeafCell* cell = nullptr;
      PmPtr at;
      if (!view.Cell(i, true, &cell).ok() || !DecodeLeafLink(view.cell_link(i), &at)) continue;
      blocks.push_back({LeafSpace::Use::kCell, at, cell->bytes()});
    }
    blocks.push_back({LeafSpace::Use::kLeaf, leaf.leaf(), sizeof(Leaf)});
  }
  return blocks;
}

}  // namespace lamella
