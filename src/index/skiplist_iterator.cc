#include "index/skiplist_iterator.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "log/record_iterator.h"
#include "memtable/head_tree.h"

namespace lamella {

namespace {

class SkipListIterator final : public RecordIterator {
 public:
  SkipListIterator(const PmSkipList* list, const SecondChanceCache* guide, bool verify,
                   const std::atomic<bool>* merged)
      : RecordIterator(list->pool()),
        list_(list),
        guide_(guide),
        verify_(verify),
        merged_(merged),
        ahead_(nullptr) {}

  bool Superseded() const override {
    return merged_ != nullptr && merged_->load(std::memory_order_acquire);
  }

  void SeekToFirst() override {
    back_.clear();
    if (AskGuide()) ahead_.SeekToFirst();
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
    if (AskGuide()) {
      ahead_.Seek(target);
      StartFetching();
      if (tree_->FindAtOrBefore(target, &entry)) start = entry.place();
    }
    // The guide's element may be the target itself; then it is the answer.
    if (start && !list_->IsBefore(start, target)) {
      Arrive(start);
      return;
    }
    Arrive(list_->FindAtOrAfter(target, start, nullptr, verify_));
  }
  void SeekForPrev(const InternalKey& target) override {
    back_.clear();
    fetched_count_ = 0;
    // The last at or before is the last before what comes next: the next smaller tag of the key
    // (tags descend), or the next key.
    if (target.tag > 0) {
      Arrive(Before({target.user_key, target.tag - 1}));
    } else {
      std::string next_key(target.user_key);
      next_key.push_back('\0');
      Arrive(Before({next_key, kTagFirst}));
    }
  }
  void Next() override {
    back_.clear();
    Fetch();
    Arrive(list_->Next(place(), 0, 0));
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
  static constexpr uint32_t kFetchAhead = 16;
  // Fetched at once: the processor looks up the pages of several together, which each cost a walk
  // of the page table, but does not go on after one before it is found.
  static constexpr uint32_t kFetchTogether = 8;
  static constexpr uint32_t kBackSteps = 24;
  static constexpr uint32_t kBackLayer = 2;  // one element in kBackSteps, or so, reaches up to it
  static constexpr uint32_t kStaleSteps = 64;

  void Arrive(PmPtr place) {
    status_ = Status::OK();
    if (place && !place.damaged() && verify_ && !VerifyRecord(*pool_, place).ok())
      place = PmPtr::DamagedAt(place);
    if (place.damaged()) [[unlikely]] {
      status_ = DescribeDamage(*pool_, place);
      place = PmPtr();
    }
    StandOn(place);
  }

  // Takes the guide's current tree (keeps I3). False where there is none.
  bool AskGuide() {
    if (guide_ != nullptr && guide_->Renew(&tree_)) ahead_ = HeadTree::Iterator(tree_.get());
    return tree_ != nullptr;
  }

  PmPtr Before(const InternalKey& target) {
    PmPtr start;
    HeadTree::Entry entry;
    if (AskGuide() && tree_->FindAtOrBefore(JustBefore(target), &entry)) start = entry.place();
    return list_->FindBefore(target, start, nullptr, verify_);
  }

  // Walks forward from some way back, keeping the elements before this one, so that a run of Prev
  // costs one search.
  void FillBack() {
    const InternalKey here = key();
    PmPtr from;
    if (AskGuide()) {
      // Of those that reach up to a layer there is one in four of the layer below.
      const uint32_t steps = std::max(kBackSteps >> (2 * (guide_->height_min() - 1)), 1u);
      HeadTree::Iterator before(tree_.get());
      before.SeekForPrev(JustBefore(here));
      for (uint32_t i = 0; i < steps && before.Valid(); i++, before.Prev()) {
        from = before.entry().place();
        PrefetchRecord<1>(pool_->Address(from));
      }
    }
    // No guide, or nothing of it this early in the list.
    if (!from) from = list_->FindBefore(here, PmPtr(), nullptr, verify_, kBackLayer);
    if (!from) from = list_->First();
    for (PmPtr at = from; at; at = list_->Next(at, 0, 0)) {
      if (!at.damaged() && verify_ && !VerifyRecord(*pool_, at).ok()) at = PmPtr::DamagedAt(at);
      if (at.damaged()) {
        back_ = {at};
        return;
      }
      if (!list_->IsBefore(at, here)) return;
      back_.push_back(at);
    }
  }

  void StartFetching() {
    fetched_count_ = 0;
    stale_ = 0;
    if (tree_ == nullptr) return;
    FillFetched();
  }
  // The first lines of all, then the next two of each: those cost no more walks.
  void FillFetched() {
    const uint32_t from = fetched_count_;
    for (; fetched_count_ < kFetchAhead && ahead_.Valid(); fetched_count_++, ahead_.Next()) {
      const PmPtr place = ahead_.entry().place();
      fetched_[(fetched_first_ + fetched_count_) % kFetchAhead] = place;
      PrefetchRecord<1>(pool_->Address(place));
    }
    for (uint32_t i = from; i < fetched_count_; i++)
      PrefetchRecord<2>(pool_->Address(fetched_[(fetched_first_ + i) % kFetchAhead]) + kLineBytes);
  }
  // Called before leaving the current element: keeps kFetchAhead of the guide's elements on their
  // way, or up to kFetchTogether fewer.
  void Fetch() {
    if (tree_ == nullptr) return;
    if (fetched_count_ > 0 && fetched_[fetched_first_] == place()) {
      fetched_first_ = (fetched_first_ + 1) % kFetchAhead;
      fetched_count_--;
      stale_ = 0;
      if (fetched_count_ <= kFetchAhead - kFetchTogether && ahead_.Valid()) FillFetched();
    } else if (++stale_ > kStaleSteps) {  // the element waited for was unlinked or passed by
      AskGuide();
      ahead_.Seek(key());
      if (ahead_.Valid() && ahead_.entry().place() == place()) ahead_.Next();  // it is left
      StartFetching();
    }
  }

  const PmSkipList* const list_;
  const SecondChanceCache* const guide_;
  const bool verify_;
  const std::atomic<bool>* const merged_;
  std::shared_ptr<const HeadTree> tree_;  // the guide's, as of the last search
  // over tree_; what it names is fetched, never stepped on
  HeadTree::Iterator ahead_;
  std::array<PmPtr, kFetchAhead> fetched_;  // a ring of what was fetched and not reached
  uint32_t fetched_first_ = 0;
  uint32_t fetched_count_ = 0;
  uint32_t stale_ = 0;
  std::vector<PmPtr> back_;  // elements before this one, the nearest last
};

}  // namespace

std::unique_ptr<InternalIterator> NewSkipListIterator(const PmSkipList* list,
                                                      const SecondChanceCache* guide, bool verify,
                                                      const std::atomic<bool>* merged) {
  return std::make_unique<SkipListIterator>(list, guide, verify, merged);
}

}  // namespace lamella
