#include <algorithm>
#include <string>
#include <utility>

#include "engine/lightkv/rh_tree.h"
#include "log/record_iterator.h"

namespace lamella {

namespace {

using Slot = RhTree::Slot;

bool IsBefore(const RhTree::Entry& entry, const InternalKey& target) {
  return CompareInternal(entry.key, target) < 0;
}
bool IsAfter(const InternalKey& target, const RhTree::Entry& entry) {
  return CompareInternal(target, entry.key) < 0;
}
bool IsLess(const Slot& a, const Slot& b) { return a.order < b.order; }

// Stands in a copy of one partition. Its bounds stay bounds (R2), so whatever is split meanwhile,
// what is next is from its end on: in the next partition, or, while that is split off from this
// one, in a leaf that still has both.
//
// Of the copy it sorts what it comes by: of slots, by their orders, a window [low_, high_), before
// which no slot has more and after which none has less; of keys, which are read for that, those of
// one order at a time, the group [first_, last_) in the window.
class RhTreeIterator final : public RecordIterator {
 public:
  RhTreeIterator(const Pool* pool, std::shared_ptr<const RhTree> tree, bool verify)
      : RecordIterator(pool), tree_(std::move(tree)), verify_(verify) {}

  void SeekToFirst() override { Seek({"", kTagFirst}); }
  void SeekToLast() override {
    CopyBefore(std::nullopt);
    StandAt(slots().size());
    ArriveBackward();
  }
  void Seek(const InternalKey& target) override {
    Enter(target, false);
    ArriveForward();
  }
  void SeekForPrev(const InternalKey& target) override {
    Enter(target, true);
    ArriveBackward();
  }
  void Next() override {
    at_++;
    ArriveForward();
  }
  void Prev() override { ArriveBackward(); }

 private:
  static constexpr size_t kStepMin = 32;

  std::vector<Slot>& slots() { return partition_.slots; }
  void CopyBefore(std::optional<std::string_view> bound) {
    is_copy_ = false;  // until it is whole
    tree_->CopyPartitionBefore(bound, &partition_);
    is_copy_ = true;
  }
  // To the first entry that is not before the target, or, with `beyond`, that is after it; of the
  // partition that holds the target.
  void Enter(const InternalKey& target, bool beyond) {
    if (!is_copy_ || !partition_.range.Contains(target.user_key)) {
      is_copy_ = false;
      tree_->CopyPartition(target.user_key, &partition_);
      is_copy_ = true;
    }
    SeekWithin(target, beyond);
  }
  void SeekWithin(const InternalKey& target, bool beyond) {
    const uint32_t order = RhTree::OrderOf(partition_, target.user_key);
    const auto at = std::partition(slots().begin(), slots().end(),
                                   [order](const Slot& slot) { return slot.order < order; });
    StandAt(static_cast<size_t>(at - slots().begin()));
    if (last_ == slots().size()) return;
    EnterNextGroup();
    const auto found = beyond ? std::upper_bound(group_.begin(), group_.end(), target, IsAfter)
                              : std::lower_bound(group_.begin(), group_.end(), target, IsBefore);
    at_ = static_cast<size_t>(found - group_.begin());
  }
  // Before the slots from `at` on; those before are less.
  void StandAt(size_t at) {
    low_ = high_ = first_ = last_ = at;
    step_ = kStepMin;
    group_.clear();
    at_ = 0;
  }

  void ExtendUp() {
    const auto from = slots().begin() + static_cast<ptrdiff_t>(high_);
    high_ = std::min(slots().size(), high_ + step_);
    const auto to = slots().begin() + static_cast<ptrdiff_t>(high_);
    std::nth_element(from, to, slots().end(), IsLess);
    std::sort(from, to, IsLess);
    step_ *= 2;
  }
  void ExtendDown() {
    const auto to = slots().begin() + static_cast<ptrdiff_t>(low_);
    low_ -= std::min(low_, step_);
    const auto from = slots().begin() + static_cast<ptrdiff_t>(low_);
    std::nth_element(slots().begin(), from, to, IsLess);
    std::sort(from, to, IsLess);
    step_ *= 2;
  }
  // REQUIRES: last_ is before the end.
  void EnterNextGroup() {
    if (last_ == high_) ExtendUp();
    first_ = last_;
    const uint32_t order = slots()[first_].order;
    while (last_ < slots().size() && slots()[last_].order == order) {
      if (++last_ == high_ && high_ < slots().size()) ExtendUp();
    }
    SortGroup();
    at_ = 0;
  }
  // REQUIRES: first_ is after the beginning.
  void EnterGroupBefore() {
    if (first_ == low_) ExtendDown();
    last_ = first_;
    const uint32_t order = slots()[first_ - 1].order;
    while (first_ > 0 && slots()[first_ - 1].order == order) {
      if (--first_ == low_ && low_ > 0) ExtendDown();
    }
    SortGroup();
    at_ = group_.size();
  }
  // A null place is beyond either end.
  void Show(PmPtr place) {
    status_ = verify_ && place ? VerifyRecord(*pool_, place) : Status::OK();
    StandOn(status_.ok() ? place : PmPtr());
  }
  void SortGroup() { tree_->Sort(&slots()[first_], slots().data() + last_, &group_); }

  // At `at_` of the group, or the first after it.
  void ArriveForward() {
    while (at_ == group_.size()) {
      if (last_ < slots().size()) {
        EnterNextGroup();
      } else if (partition_.range.end) {
        const std::string bound = *partition_.range.end;
        Enter({bound, kTagFirst}, false);
      } else {
        return Show(PmPtr());
      }
    }
    Show(group_[at_].place);
  }
  // At the last before `at_` of the group.
  void ArriveBackward() {
    while (at_ == 0) {
      if (first_ > 0) {
        EnterGroupBefore();
      } else if (!partition_.range.begin.empty()) {
        const std::string bound = partition_.range.begin;
        CopyBefore(bound);
        if (partition_.range.Contains(bound)) {
          SeekWithin({bound, kTagFirst}, false);
        } else {
          StandAt(slots().size());
        }
      } else {
        return Show(PmPtr());
      }
    }
    Show(group_[--at_].place);
  }

  const std::shared_ptr<const RhTree> tree_;
  const bool verify_;
  RhTree::Partition partition_;
  bool is_copy_ = false;
  size_t low_ = 0;
  size_t high_ = 0;
  size_t first_ = 0;
  size_t last_ = 0;
  size_t step_ = kStepMin;
  std::vector<RhTree::Entry> group_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<InternalIterator> NewRhTreeIterator(const Pool* pool,
                                                    std::shared_ptr<const RhTree> tree,
                                                    bool verify) {
  return std::make_unique<RhTreeIterator>(pool, std::move(tree), verify);
}

}  // namespace lamella
