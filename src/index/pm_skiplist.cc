#include "index/pm_skiplist.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "log/record_iterator.h"

namespace lamella {

PmPtr PmSkipList::FindBefore(const InternalKey& target, PmPtr start, HopTally* tally) const {
  PmPtr at = start;
  // From the head, any lane will do: the upper layers only bring the search closer. Part 0's is never worse than another.
  const uint32_t lane = start ? Lane(start) : 0;
  uint32_t here = start ? start.part() : lane;
  HopTally hops;
  for (uint32_t layer = start ? At(start)->height() : kHeightMax; layer-- > 0;) {
    for (;;) {
      const PmPtr next = Next(at, lane, layer);
      if (!next) break;
      ++(next.part() == here ? hops.local : hops.remote);
      here = next.part();
      if (!IsBefore(next, target)) break;
      at = next;
    }
  }
  if (tally != nullptr) {
    tally->local += hops.local;
    tally->remote += hops.remote;
  }
  return at;
}

PmPtr PmSkipList::FindAtOrAfter(const InternalKey& target, PmPtr start, HopTally* tally) const {
  PmPtr next = Next(FindBefore(target, start, tally), 0, 0);
  while (next && IsBefore(next, target)) next = Next(next, 0, 0);  // inserted since
  return next;
}

PmPtr PmSkipList::FindLast() const {
  PmPtr at;
  for (uint32_t layer = kHeightMax; layer-- > 0;) {
    for (PmPtr next = Next(at, 0, layer); next; next = Next(at, 0, layer)) at = next;
  }
  return at;
}

namespace {

class SkipListIterator final : public RecordIterator {
 public:
  SkipListIterator(const PmSkipList* list, std::shared_ptr<const HeadTree> guide)
      : RecordIterator(list->pool()), list_(list), guide_(std::move(guide)), ahead_(guide_.get()) {}

  void SeekToFirst() override {
    back_.clear();
    if (guide_) ahead_.SeekToFirst();
    StartFetching();
    Arrive(list_->First());
  }
  void SeekToLast() override {
    back_.clear();
    fetched_count_ = 0;
    Arrive(list_->FindLast());
  }
  void Seek(const InternalKey& target) override {
    back_.clear();
    PmPtr start;
    HeadTree::Entry entry;
    if (guide_) {
      ahead_.Seek(target);
      StartFetching();
      if (guide_->FindAtOrBefore(target, &entry)) start = entry.place();
    }
    // The guide's element may be the target itself; then it is the answer.
    if (start && !list_->IsBefore(start, target)) {
      Arrive(start);
      return;
    }
    Arrive(list_->FindAtOrAfter(target, start, nullptr));
  }
  void SeekForPrev(const InternalKey& target) override {
    back_.clear();
    fetched_count_ = 0;
    // The last at or before is the last before what comes next: the next smaller tag of the key (tags descend), or the next key.
    if (target.tag > 0) {
      Arrive(Before({target.user_key, target.tag - 1}));
    } else {
      std::string behind(target.user_key);
      behind.push_back('\0');
      Arrive(Before({behind, kTagFirst}));
    }
  }
  void Next() override {
    back_.clear();
    Fetch();
    Arrive(record()->next(0));
  }
  void Prev() override {
    fetched_count_ = 0;
    if (back_.empty()) FillBack();
    if (back_.empty()) {
      Arrive(PmPtr());
      return;
    }
    const PmPtr place = back_.back();
    back_.pop_back();
    Arrive(place);
  }

 private:
  static constexpr uint32_t kFetchAhead = 12;
  static constexpr uint32_t kBackSteps = 24;
  static constexpr uint32_t kStaleSteps = 64;

  void Arrive(PmPtr place) { StandOn(place); }

  PmPtr Before(const InternalKey& target) const {
    PmPtr start;
    HeadTree::Entry entry;
    if (guide_ && guide_->FindAtOrBefore(JustBefore(target), &entry)) start = entry.place();
    return list_->FindBefore(target, start, nullptr);
  }

  // Walks forward from some way back, keeping the elements before this one, so that a run of Prev costs one search.
  void FillBack() {
    const InternalKey here = key();
    PmPtr from;
    if (guide_) {
      HeadTree::Iterator behind(guide_.get());
      behind.SeekForPrev(JustBefore(here));
      for (uint32_t i = 0; i < kBackSteps && behind.Valid(); ++i, behind.Prev()) {
        from = behind.entry().place();
        __builtin_prefetch(pool_->Address(from));
      }
    }
    if (!from) {  // no guide, or nothing of it this early in the list
      from = list_->FindBefore(here, PmPtr(), nullptr);
      if (from) back_.push_back(from);
      return;
    }
    for (PmPtr at = from; at && list_->IsBefore(at, here); at = list_->At(at)->next(0)) back_.push_back(at);
  }

  void StartFetching() {
    fetched_count_ = 0;
    stale_ = 0;
    if (!guide_) return;
    while (fetched_count_ < kFetchAhead && ahead_.Valid()) PushFetch();
  }
  void PushFetch() {
    const PmPtr place = ahead_.entry().place();
    const char* address = pool_->Address(place);
    __builtin_prefetch(address);
    __builtin_prefetch(address + kLineBytes);
    __builtin_prefetch(address + 2 * kLineBytes);
    fetched_[(fetched_first_ + fetched_count_++) % kFetchAhead] = place;
    ahead_.Next();
  }
  // Called before leaving the current element: keeps kFetchAhead of the guide's elements on their way.
  void Fetch() {
    if (!guide_) return;
    if (fetched_count_ > 0 && fetched_[fetched_first_] == place()) {
      fetched_first_ = (fetched_first_ + 1) % kFetchAhead;
      --fetched_count_;
      stale_ = 0;
      if (ahead_.Valid()) PushFetch();
    } else if (++stale_ > kStaleSteps) {  // the element waited for was unlinked or passed by
      ahead_.Seek(key());
      StartFetching();
    }
  }

  const PmSkipList* const list_;
  const std::shared_ptr<const HeadTree> guide_;
  HeadTree::Iterator ahead_;
  std::array<PmPtr, kFetchAhead> fetched_;  // a ring of what was fetched and not reached
  uint32_t fetched_first_ = 0;
  uint32_t fetched_count_ = 0;
  uint32_t stale_ = 0;
  std::vector<PmPtr> back_;  // elements before this one, the nearest last
};

}  // namespace

std::unique_ptr<InternalIterator> NewSkipListIterator(const PmSkipList* list, std::shared_ptr<const HeadTree> guide) {
  return std::make_unique<SkipListIterator>(list, std::move(guide));
}

}  // namespace lamella
