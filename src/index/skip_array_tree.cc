#include "index/skip_array_tree.h"

#include <algorithm>
#include <array>

#include "base/concat.h"
#include "base/hash.h"
#include "base/key_head.h"

namespace lamella {

Status SkipArrayTree::VerifyFloors() const {
  for (size_t i = 0; i < floors_.size(); i++) {
    Status s = floors_[i]->Ready(floors_, i);
    if (!s.ok()) return s;
  }
  ready_.store(true, std::memory_order_release);
  return Status::OK();
}

// Cascading search (the paper's Algorithm 1), from floor `from` down. visit(floor, bound) is called
// for each floor in which the search looks, top down, and ends it by false; of a floor that it
// passes by, every entry is before the target. Returns the damaged record that stopped it, or null.
//
// Let p be the first entry at or after the target in a floor. The entry before it is before the
// target: what its link leads to is the first that the target may be at, and the floors that its
// link passes by end before it, so before the target. The link of p leads to an entry that is not
// before p, nor before the target: where that is in the same floor, the target is not after it.
//
// The printed algorithm goes by the last entry not after the target, and then by its link and that
// of a neighbour. It misses keys at the ends of floors: where the target is before a floor's first
// entry it takes that entry's link for both ends of the range below, which leaves out all before
// it; and where a floor's last entry has a link that leads before the target, that link again for
// both, which leaves out all after it. It is said there that the corners are left to the reader.
// Here what is before the first entry is the virtual key `min` (Floor I5), of every floor and not
// only of those that begin after the floor below ends; and after the last one there is nothing that
// bounds the range but the end of the floor below. Neither of the other two cases that it tells
// apart, of a neighbour's link to another floor, needs a step of its own then: the first of the two
// links never leads to a lower floor than the second.
//
// Where both links lead to one entry nothing lies between those that they are of, so there is
// nothing to look at: what is there is not before p, which is of another key than the target's
// (else visit has ended the search for it), so it is of another key, too.
template <class Visit>
PmPtr SkipArrayTree::Cascade(const InternalKey& target, uint32_t from, bool verify,
                             Visit&& visit) const {
  uint32_t number = from;
  uint32_t first = 0;
  uint32_t last = floors_[from]->count();
  for (;;) {
    const Floor& floor = *floors_[number];
    const Floor::Bound bound =
        first < last ? floor.LowerBound(target, first, last, verify) : Floor::Bound{.at = first};
    if (bound.damaged) return bound.damaged;
    if (!visit(number, bound) || number == 0) return PmPtr();
    const FloorLink low =
        bound.at == 0 ? FloorLink{static_cast<uint8_t>(number - 1), 0} : floor.link(bound.at - 1);
    if (!low.leads()) return PmPtr();  // all that is below is before the target
    const FloorLink high = bound.at < floor.count() ? floor.link(bound.at) : FloorLink();
    pool_->gate()->OnRead(kLineBytes);
    number = low.floor;
    first = low.offset;
    last = high.floor == low.floor ? high.offset : floors_[number]->count();
    floors_[number]->PrefetchAt(first);
  }
}

// The search begins in the highest floor that may hold the key, as the filters say, and ends in the
// lowest.
PlacedVersion SkipArrayTree::Find(const InternalKey& target, uint64_t hash, bool verify) const {
  for (const FloorPtr& floor : floors_) floor->PrefetchFilter(hash);
  std::array<bool, kFloorsMax> may_hold;
  uint32_t lowest = kFloorsMax;
  uint32_t highest = 0;
  for (uint32_t i = 0; i < floor_count(); i++) {
    may_hold[i] = floors_[i]->MayHold(hash);
    if (!may_hold[i]) continue;
    lowest = std::min(lowest, i);
    highest = i;
  }
  PlacedVersion found;
  if (lowest == kFloorsMax) return found;
  const auto look = [&](uint32_t number, const Floor::Bound& bound) {
    if (!bound.same_key) return number > lowest;
    found.place = floors_[number]->record_place(bound.at);
    found.kind = pool_->At<Record>(found.place)->kind();
    return false;
  };
  PmPtr damaged;
  if (linked_) {
    damaged = Cascade(target, highest, verify, look);
  } else {
    for (uint32_t i = highest;; i--) {
      if (may_hold[i]) {
        const Floor::Bound bound = floors_[i]->LowerBound(target, 0, floors_[i]->count(), verify);
        damaged = bound.damaged;
        if (damaged || !look(i, bound)) break;
      }
      if (i == lowest) break;
    }
  }
  if (damaged) found.place = damaged;
  return found;
}

PmPtr SkipArrayTree::Seek(const InternalKey& target, bool verify, uint32_t* positions) const {
  for (uint32_t i = 0; i < floor_count(); i++) positions[i] = floors_[i]->count();
  if (linked_) {
    return Cascade(target, floor_count() - 1, verify,
                   [&](uint32_t number, const Floor::Bound& bound) {
                     positions[number] = bound.at;
                     return true;
                   });
  }
  for (uint32_t i = 0; i < floor_count(); i++) {
    const Floor::Bound bound = floors_[i]->LowerBound(target, 0, positions[i], verify);
    if (bound.damaged) return bound.damaged;
    positions[i] = bound.at;
  }
  return PmPtr();
}

FloorLinker::FloorLinker(const SkipArrayTree* tree) : tree_(tree) {
  if (tree_ != nullptr) at_ = {static_cast<uint8_t>(tree_->floor_count() - 1), 0};
}

FloorLink FloorLinker::LinkOf(const InternalKey& key) {
  while (at_.leads()) {
    const Floor& floor = *tree_->floor(at_.floor);
    // Doubles its stride until it is at or after the key: the next one is mostly near.
    uint32_t first = at_.offset;
    uint32_t last = first;
    for (uint32_t stride = 1;; stride *= 2) {
      last = std::min(first + stride, floor.count());
      const Floor::Bound bound = floor.LowerBound(key, first, last, false);
      if (bound.at < last || last == floor.count()) {
        first = bound.at;
        break;
      }
      first = last;
    }
    if (first < floor.count()) {
      at_.offset = static_cast<uint16_t>(first);
      return at_;
    }
    // The floor ends before the key. So do those that its last entry's link passes by.
    at_ = floor.link(floor.count() - 1);
  }
  return at_;
}

uint64_t SkipArrayTree::Check(const std::function<void(std::string)>& report) const {
  uint64_t records = 0;
  bool sound = true;
  const auto tell = [&](const Status& s) {
    if (s.ok()) return;
    report(std::string(s.message()));
    sound = false;
  };
  for (uint32_t i = 0; i < floor_count(); i++) {
    const Floor& floor = *floors_[i];
    records += floor.count();
    const Status s = floor.Verify(floors_, i);
    tell(s);
    for (uint32_t j = 0; s.ok() && j < floor.count(); j++)
      tell(VerifyRecord(*pool_, floor.record_place(j)));
  }
  // What records say is compared only where all validated.
  for (uint32_t i = 0; i < floor_count() && sound; i++) CheckFloor(i, report);
  return records;
}

void SkipArrayTree::CheckFloor(uint32_t number,
                               const std::function<void(std::string)>& report) const {
  const Floor& floor = *floors_[number];
  const SkipArrayTree below(pool_, {floors_.begin(), floors_.begin() + number}, linked_);
  FloorLinker linker(linked_ && number > 0 ? &below : nullptr);
  for (uint32_t i = 0; i < floor.count(); i++) {
    const InternalKey key = floor.record(i)->internal_key();
    const char* wrong = nullptr;
    if (!key.user_key.starts_with(floor.prefix())) {
      wrong = "does not begin with the floor's prefix";
    } else if (HeadAfter(key.user_key, floor.prefix().size()) != floor.head(i)) {
      wrong = "has another head than its key";
    } else if (i > 0 && CompareInternal(floor.record(i - 1)->internal_key(), key) >= 0) {
      wrong = "is not after the one before it";
    } else if (!floor.MayHold(Hash64(key.user_key))) {
      wrong = "is not in the filter";
    } else if (linker.LinkOf(key) != floor.link(i)) {
      wrong = "does not link to the first entry that is not before it";
    }
    if (wrong != nullptr) {
      report(Concat("entry ", i, " of the floor at ", DescribePlace(*pool_, floor.place()), " ",
                    wrong, "; run `lamella repair`"));
    }
  }
}

}  // namespace lamella
