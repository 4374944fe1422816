#include "index/leaf_change.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "base/assert.h"
#include "base/key_head.h"
#include "base/no_throw.h"

namespace lamella {

namespace {

// Of a new leaf's slots those that are used at once, so that it has room for more.
constexpr size_t kFilled = 11;

using Use = LeafSpace::Use;

// Whether the leaf after that one has versions of the key, too, which fill more than one.
bool GoesOnAfter(LeafIndex::Cursor leaf, std::string_view user_key) {
  if (leaf.Valid()) leaf.Next();
  return leaf.Valid() && leaf.low().key == user_key;
}

}  // namespace

LeafChange::~LeafChange() {
  if (made_) return;
  // what there is no memory to give back is found at the next open
  for (const LeafSpace::Block& block : taken_) {
    if (block.bytes == 0) continue;  // Allocate threw
    (void)NoThrow([&] {
      space_->Free(block);
      return Status::OK();
    }).ok();
  }
}

Status LeafChange::TakeItems(const LeafView& view, std::vector<Item>* items) const {
  Status s = view.Ready();
  if (!s.ok()) return s;
  items->reserve(kLeafSlots + 1);
  for (uint32_t i = 0; i < view.count(); i++) {
    items->push_back({.head = view.head(i),
                      .cell = view.cell_link(i),
                      .slot = static_cast<uint8_t>(view.order().slot(i))});
  }
  return Status::OK();
}

// What a change goes by is verified: a damaged key would lead others to where nobody finds them.
Status LeafChange::Look(const LeafIndex::Cursor& at, Item* item) const {
  if (item->put != nullptr || item->at != nullptr) return Status::OK();
  return ReadCell(*pool_, at.leaf(), item->cell, true, &item->at);
}

Status LeafChange::IsBefore(const Target& target, Item* item, bool* is) const {
  *is = item->head < target.head;
  if (target.by_head && item->head != target.head) return Status::OK();
  Status s = Look(target.at, item);
  if (s.ok()) *is = CompareInternal(item->key(), target.put.key) < 0;
  return s;
}

Status LeafChange::HasKey(const Target& target, Item* item, bool* has) const {
  *has = false;
  if (target.by_head && item->head != target.head) return Status::OK();
  Status s = Look(target.at, item);
  if (s.ok()) *has = item->key().user_key == target.put.key.user_key;
  return s;
}

// What is put in again stays as it is: else each try of who finds no room would take some for it,
// and what it took the place of may be kept by readers.
Status LeafChange::IsThere(const Target& target, Item* item, bool* is) const {
  const LeafPut& put = target.put;
  *is = false;
  bool same = false;
  Status s = HasKey(target, item, &same);
  if (!s.ok() || !same || item->put != nullptr) return s;
  const LeafCell& cell = *item->at;
  *is =
      cell.tag == put.key.tag && cell.location == put.location && cell.value_size == put.value_size;
  return s;
}

Status LeafChange::Allocate(Use use, uint64_t bytes, PmPtr* place, uint32_t* epoch) {
  taken_.emplace_back();  // before there is a block that would be lost where it has no room
  Status s = space_->Allocate(use, bytes, persister_, &taken_.back(), epoch);
  *place = taken_.back().place;
  if (!s.ok()) taken_.pop_back();
  return s;
}

Status LeafChange::NewItem(const Target& target, Item* item) {
  const LeafPut& put = target.put;
  LAMELLA_CHECK(put.key.user_key.size() <= UINT16_MAX);
  PmPtr place;
  uint32_t epoch = 0;
  Status s = Allocate(Use::kCell, LeafCell::BytesFor(put.key.user_key.size()), &place, &epoch);
  if (!s.ok()) return s;
  const std::string cell = EncodeCell(put, place, epoch);
  persister_->Copy(pool_->Address(place), cell.data(), cell.size());
  *item = {.head = target.head, .cell = EncodeLeafLink(place), .put = &put};
  tally_.entries++;
  tally_.cell_bytes += static_cast<int64_t>(cell.size());
  return s;
}

// REQUIRES: it was looked at, and is not of this change.
void LeafChange::Drop(const Item& item) {
  PmPtr place;
  LAMELLA_CHECK(DecodeLeafLink(item.cell, &place));
  garbage_->blocks.push_back({Use::kCell, place, item.at->bytes()});
  tally_.entries--;
  tally_.cell_bytes -= static_cast<int64_t>(item.at->bytes());
}

// Whether nobody needs any older version of a delete's key, of which those in this leaf are the
// items from `from` to `end`.
Status LeafChange::MayLeave(const Target& target, const VersionNeeded& needed,
                            std::vector<Item>* items, size_t from, size_t* end, bool* may) const {
  uint64_t newer = TagSequence(target.put.key.tag);
  *may = true;
  for (*end = from; *end < items->size(); ++*end) {
    Item* const item = &(*items)[*end];
    bool same = false;
    Status s = HasKey(target, item, &same);
    if (!s.ok() || !same) return s;
    const uint64_t sequence = TagSequence(item->key().tag);
    if (item->key().tag != target.put.key.tag && needed != nullptr && needed(sequence, newer))
      *may = false;
    newer = sequence;
  }
  if (GoesOnAfter(target.at, target.put.key.user_key)) *may = false;  // it may have more
  return Status::OK();
}

// Puts one version where it belongs, from `from` on, and takes out those that it makes unneeded.
// `is_last`: of the puts of its leaf.
Status LeafChange::PutOne(const Target& target, const VersionNeeded& needed,
                          std::vector<Item>* items, bool is_last, size_t* from, bool* erased) {
  const auto is_needed = [&](uint64_t older, uint64_t newer) {
    return needed != nullptr && needed(older, newer);
  };
  const uint64_t tag = target.put.key.tag;
  size_t at = *from;
  Status s;
  for (bool before = true; at < items->size(); at++) {
    s = IsBefore(target, &(*items)[at], &before);
    if (!s.ok()) return s;
    if (!before) break;
  }
  *from = at;
  bool same = false;
  if (at > 0) s = HasKey(target, &(*items)[at - 1], &same);
  if (!s.ok()) return s;
  if (same && !is_needed(TagSequence(tag), TagSequence((*items)[at - 1].key().tag))) return s;
  bool may = false;  // go, with all that it hides
  if (target.put.leaves_nothing) {
    size_t end = at;
    s = MayLeave(target, needed, items, at, &end, &may);
    if (!s.ok()) return s;
    const bool empties = is_last && target.at.Valid() && items->size() == end - at;
    if (may && !empties) {
      const auto gone = items->begin() + static_cast<ptrdiff_t>(at);
      for (size_t i = at; i < end; i++) Drop((*items)[i]);
      items->erase(gone, items->begin() + static_cast<ptrdiff_t>(end));
      *erased |= end != at;
      return s;
    }
  }
  Item fresh;
  bool placed = false;
  if (at < items->size() && !may) s = IsThere(target, &(*items)[at], &placed);
  if (s.ok() && !placed) s = NewItem(target, &fresh);
  if (!s.ok()) return s;
  uint64_t newer = TagSequence(tag);
  for (size_t older = placed ? at + 1 : at; older < items->size();) {
    Item* const item = &(*items)[older];
    s = HasKey(target, item, &same);
    if (!s.ok()) return s;
    if (!same) break;
    const uint64_t sequence = TagSequence(item->key().tag);
    if (item->key().tag != tag && is_needed(sequence, newer)) {
      older++;
    } else if (Drop(*item); older == at && !placed) {
      fresh.slot = item->slot;
      fresh.switched = true;
      *item = fresh;
      placed = true;
      older++;
    } else {
      items->erase(items->begin() + static_cast<ptrdiff_t>(older));
      *erased = true;
    }
    newer = sequence;
  }
  if (!placed) items->insert(items->begin() + static_cast<ptrdiff_t>(at), fresh);
  *from = at + 1;
  return s;
}

Status LeafChange::PlanPuts(const LeafIndex::Cursor& at, std::span<const LeafPut> puts,
                            const VersionNeeded& needed) {
  std::vector<Item> items;
  bool by_head = at.Valid();
  std::vector<uint64_t> heads(puts.size());
  if (at.Valid()) {
    const LeafView view(pool_, at.leaf(), at.low().key);
    Status s = TakeItems(view, &items);
    if (!s.ok()) return s;
    for (size_t i = 0; i < puts.size(); i++)
      by_head &= view.SideOf(puts[i].key.user_key, &heads[i]) == LeafView::Side::kAmong;
  }
  size_t from = 0;
  bool erased = false;
  for (size_t i = 0; i < puts.size(); i++) {
    const bool is_last = i + 1 == puts.size();
    Status s = PutOne({at, by_head, heads[i], puts[i]}, needed, &items, is_last, &from, &erased);
    if (!s.ok()) return s;
  }
  left_alone_ = nullptr;
  if (items.empty()) return Status::OK();  // of a tree without leaves
  const LeafPut* const only = items.size() == 1 ? items.front().put : nullptr;
  const bool hides_none =
      only != nullptr && only->leaves_nothing && !GoesOnAfter(at, only->key.user_key);
  if (at.Valid() && hides_none) left_alone_ = only;
  return by_head && PlanInPlace(at, items, erased) ? Status::OK() : PlanReplacement(at, &items);
}

Status LeafChange::PlanRemoval(const LeafIndex::Node* root, const InternalKey& from,
                               const InternalKey* last) {
  struct Planned {
    LeafIndex::Cursor at;
    std::vector<Item> items;  // those that stay
    bool erased = false;
  };
  std::vector<Planned> leaves;
  LeafIndex::Cursor at(root);
  at.Seek(from);
  // The leaf before the range and the one after it are looked at, too: see C2.
  if (LeafIndex::Cursor before = at; before.Valid()) {
    before.Prev();
    if (before.Valid()) at = before;
  }
  for (bool beyond = false; at.Valid() && !beyond; at.Next()) {
    Planned leaf{.at = at};
    Status s = TakeItems(LeafView(pool_, at.leaf(), at.low().key), &leaf.items);
    for (size_t i = 0; s.ok() && i < leaf.items.size(); i++) s = Look(at, &leaf.items[i]);
    if (!s.ok()) return s;
    leaf.erased = std::erase_if(leaf.items, [&](const Item& item) {
                    if (CompareInternal(item.key(), from) < 0) return false;
                    if (last != nullptr && CompareInternal(item.key(), *last) > 0)
                      return !(beyond = true);
                    Drop(item);
                    return true;
                  }) != 0;
    leaves.push_back(std::move(leaf));
  }
  bool first_went = false;  // with all leaves up to here
  for (size_t i = 0; i < leaves.size(); i++) {
    Planned& leaf = leaves[i];
    const bool takes_over = first_went || (i + 1 < leaves.size() && leaves[i + 1].items.empty());
    first_went = leaf.items.empty() && (first_went || i == 0);
    if (leaf.items.empty() || takes_over) {
      Status s = PlanReplacement(leaf.at, &leaf.items);
      if (!s.ok()) return s;
    } else {
      LAMELLA_CHECK(PlanInPlace(leaf.at, leaf.items, leaf.erased));
    }
  }
  return Status::OK();
}

// False, and nothing is planned, where the leaf has too few slots that were never used (keeps L2).
bool LeafChange::PlanInPlace(const LeafIndex::Cursor& at, const std::vector<Item>& items,
                             bool erased) {
  if (items.size() > kLeafSlots) return false;
  Edit edit{.at = at};
  uint8_t slots[kLeafSlots];
  uint8_t unused = 0;
  for (size_t i = 0; i < items.size(); i++) {
    slots[i] = items[i].slot;
    if (items[i].switched) edit.switched.push_back(items[i]);
    if (items[i].slot != kNoSlot) continue;
    while (unused < kLeafSlots &&
           LeafAt(at)->slots[unused].cell.load(std::memory_order_relaxed) != 0)  // one writer
      unused++;
    if (unused == kLeafSlots) return false;
    edit.fresh.push_back(items[i]);
    edit.fresh.back().slot = slots[i] = unused++;
  }
  if (!edit.fresh.empty() || erased) edit.order = LeafOrder::Of({slots, items.size()}).word;
  if (edit.order != 0 || !edit.switched.empty()) edits_.push_back(std::move(edit));
  return true;
}

Status LeafChange::MakeLeaf(std::span<const Item> items, size_t left_out, NewLeaf* leaf) {
  uint32_t epoch = 0;
  Status s = Allocate(Use::kLeaf, sizeof(Leaf), &leaf->place, &epoch);
  if (!s.ok()) return s;
  uint8_t slots[kLeafSlots];
  std::iota(slots, slots + items.size(), uint8_t{0});
  const auto bytes = static_cast<uint16_t>(left_out);
  leaf->image[0] = LeafOrder::Of({slots, items.size()}).word;
  leaf->image[offsetof(Leaf, order_copy) / sizeof(uint64_t)] = leaf->image[0];
  leaf->image[2] = LeafSeal(bytes, leaf->place, epoch) | uint64_t{bytes} << 32;
  uint64_t* word = &leaf->image[offsetof(Leaf, slots) / sizeof(uint64_t)];
  for (const Item& item : items) {
    *word++ = HeadAfter(item.key().user_key, left_out);
    *word++ = item.cell;
  }
  tally_.leaves++;
  return s;
}

// The bytes that a new leaf's heads leave out are those that its range shares, so that no later key
// of it is without them. A range without an end shares nothing: there the entries decide, and a key
// that does not begin as they do has the leaf replaced. But the range begins where it did: else the
// leaf before it, which stays, would get what it gave up (C2).
Status LeafChange::PlanReplacement(const LeafIndex::Cursor& at, std::vector<Item>* items) {
  Status s;
  for (size_t i = 0; s.ok() && i < items->size(); i++) s = Look(at, &(*items)[i]);
  if (!s.ok()) return s;
  const size_t count = items->size();
  const auto key = [&](size_t i) { return (*items)[i].key(); };
  const auto same = [&](size_t i) { return key(i - 1).user_key == key(i).user_key; };

  // As few leaves as there can be, about as full; versions of a key stay in one that has the room.
  const size_t parts = (count + kFilled - 1) / kFilled;
  std::vector<size_t> cuts{0};
  while (cuts.back() < count) {
    const size_t from = cuts.back();
    const size_t even = std::min(from + (count + parts - 1) / parts, count);
    size_t cut = even;
    while (cut < count && cut > from && same(cut)) cut--;
    if (cut == from) cut = even;
    while (cut < count && cut - from < kLeafSlots && same(cut)) cut++;
    cuts.push_back(cut);
  }

  LeafIndex::Cursor before = at;
  LeafIndex::Cursor after = at;
  if (at.Valid()) {
    before.Prev();
    after.Next();
  }
  Edit edit{.at = at, .replaces = true};
  LeafIndex::Edit index_edit;
  for (size_t i = 0; i + 1 < cuts.size(); i++) {
    const bool keeps_low = i == 0 && at.Valid() && CompareInternal(at.low().view(), key(0)) <= 0;
    index_edit.leaves.push_back({.low = keeps_low ? at.low()
                                        : i == 0
                                            ? LeafLow::OfFirst(key(0), key(0).user_key.size())
                                            : LeafLow::Between(key(cuts[i] - 1), key(cuts[i]), 0)});
  }
  for (size_t i = 0; i + 1 < cuts.size(); i++) {
    LeafIndex::Child* const child = &index_edit.leaves[i];
    const InternalKey first = key(cuts[i]);
    const LeafLow* const high = i + 2 < cuts.size() ? &index_edit.leaves[i + 1].low
                                : after.Valid()     ? &after.low()
                                                    : nullptr;
    size_t left_out = 0;
    if (high != nullptr) {
      left_out = SharedBytes(child->low.key, high->key);
    } else if (cuts[i + 1] - cuts[i] > 1) {
      left_out = SharedBytes(first.user_key, key(cuts[i + 1] - 1).user_key);
    }
    if (i == 0 && before.Valid())  // keeps C2
      left_out = std::min(left_out, SharedBytes(child->low.key, first.user_key));
    // keeps X2
    if (SharedBytes(child->low.key, first.user_key) < left_out)
      child->low = LeafLow::OfFirst(first, left_out);
    NewLeaf leaf;
    s = MakeLeaf({items->data() + cuts[i], cuts[i + 1] - cuts[i]}, left_out, &leaf);
    if (!s.ok()) return s;
    child->leaf = leaf.place;
    edit.leaves.push_back(leaf);
  }
  if (at.Valid()) {
    index_edit.low = at.low();
    garbage_->blocks.push_back({Use::kLeaf, at.leaf(), sizeof(Leaf)});
    tally_.leaves--;
  }
  edits_.push_back(std::move(edit));
  index_edits_.push_back(std::move(index_edit));
  return s;
}

// Step 1: the last leaf first, since each is written with the link to what follows it.
Status LeafChange::WriteUnseen(PmWord* head) {
  for (size_t i = edits_.size(); i-- > 0;) {
    Edit& edit = edits_[i];
    for (const Item& item : edit.fresh) {
      LeafSlot* const slot = &LeafAt(edit.at)->slots[item.slot];
      persister_->Store(&slot->head, item.head);
      persister_->Store(&slot->cell, item.cell);
      persister_->Flush(slot, sizeof(*slot));
    }
    if (!edit.replaces) continue;
    const PmWord* const next = edit.at.Valid() ? &LeafAt(edit.at)->next : head;
    edit.link = next->load(std::memory_order_relaxed);  // one writer
    if (PmPtr to; !DecodeLeafLink(edit.link, &to))
      return LeafDamage(*pool_, edit.at.leaf(), "has a damaged link to the next one");
    if (i + 1 < edits_.size() && edits_[i + 1].replaces) {
      LeafIndex::Cursor after = edit.at;
      after.Next();
      edits_[i + 1].joins = after.leaf() == edits_[i + 1].at.leaf();
      if (edits_[i + 1].joins) edit.link = edits_[i + 1].link;
    }
    for (size_t l = edit.leaves.size(); l-- > 0;) {
      NewLeaf& leaf = edit.leaves[l];
      leaf.image[offsetof(Leaf, next) / sizeof(uint64_t)] = edit.link;
      persister_->Copy(pool_->Address(leaf.place), leaf.image.data(), sizeof(leaf.image));
      edit.link = EncodeLeafLink(leaf.place);
    }
  }
  return Status::OK();
}

void LeafChange::StoreAndFlush(PmWord* word, uint64_t value) {
  persister_->Store(word, value);
  persister_->Flush(word, sizeof(*word));
}

// Step 2.
void LeafChange::Expose(PmWord* head) {
  for (const Edit& edit : edits_) {
    if (edit.replaces && !edit.joins) {
      LeafIndex::Cursor before = edit.at;
      if (before.Valid()) before.Prev();
      StoreAndFlush(before.Valid() ? &LeafAt(before)->next : head, edit.link);
    }
    if (edit.replaces) continue;
    Leaf* const leaf = LeafAt(edit.at);
    if (edit.order != 0) {
      persister_->Store(&leaf->order_copy, edit.order);  // of the same line
      StoreAndFlush(&leaf->order, edit.order);
    }
    for (const Item& item : edit.switched) StoreAndFlush(&leaf->slots[item.slot].cell, item.cell);
  }
}

Status LeafChange::Make(PmWord* head, LeafIndex::NodePtr* root) {
  if (edits_.empty()) return Status::OK();
  Status s = WriteUnseen(head);
  if (!s.ok()) return s;
  LeafIndex::NodePtr changed = *root;
  if (changed != nullptr) {
    if (!index_edits_.empty()) changed = LeafIndex::Apply(changed, index_edits_);
  } else if (!index_edits_.empty()) {
    changed = LeafIndex::Build(std::move(index_edits_.front().leaves));
  }
  retirement_ = pool_->AfterAllPins([space = space_, garbage = garbage_] {
    garbage->root = nullptr;
    for (; !garbage->blocks.empty(); garbage->blocks.pop_back())
      space->Free(garbage->blocks.back());
  });
  persister_->Fence();
  if (pool_->LosesUnsynced()) s = pool_->Sync();
  if (!s.ok()) return s;
  Expose(head);
  persister_->Fence();
  if (pool_->LosesUnsynced()) s = pool_->Sync();
  made_ = true;
  garbage_->root = std::exchange(*root, std::move(changed));
  // What a power cut may lead back to must stay what it is.
  if (!s.ok()) garbage_->blocks.clear();
  return s;
}

}  // namespace lamella
