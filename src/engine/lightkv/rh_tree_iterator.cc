#include <algorithm>
#include <string>
#include <utility>

#include "engine/lightkv/rh_tree.h"
#include "log/record_iterator.h"

namespace lamella {

namespace {

bool IsBefore(const RhTree::Entry& entry, const InternalKey& target) {
  return CompareInternal(entry.key, target) < 0;
}
bool IsAfter(const InternalKey& target, const RhTree::Entry& entry) {
  return CompareInternal(target, entry.key) < 0;
}

// Stands in a copy of one partition. Its bounds stay bounds (R2), so whatever is split meanwhile,
// what is next is from its end on: in the next partition, or, while that is split off from this
// one, in a leaf that still has both.
class RhTreeIterator final : public RecordIterator {
 public:
  RhTreeIterator(const Pool* pool, std::shared_ptr<const RhTree> tree)
      : RecordIterator(pool), tree_(std::move(tree)) {}

  void SeekToFirst() override {
    Enter("");
    at_ = 0;
    ArriveForward();
  }
  void SeekToLast() override {
    tree_->CopyPartitionBefore(std::nullopt, &partition_);
    is_copy_ = true;
    at_ = entries().size();
    ArriveBackward();
  }
  void Seek(const InternalKey& target) override {
    Enter(target.user_key);
    at_ =
        std::lower_bound(entries().begin(), entries().end(), target, IsBefore) - entries().begin();
    ArriveForward();
  }
  void SeekForPrev(const InternalKey& target) override {
    Enter(target.user_key);
    at_ = std::upper_bound(entries().begin(), entries().end(), target, IsAfter) - entries().begin();
    ArriveBackward();
  }
  void Next() override {
    at_++;
    ArriveForward();
  }
  void Prev() override { ArriveBackward(); }

 private:
  const std::vector<RhTree::Entry>& entries() const { return partition_.entries; }
  size_t CountBefore(const InternalKey& target) const {
    return std::lower_bound(entries().begin(), entries().end(), target, IsBefore) -
           entries().begin();
  }
  void Enter(std::string_view key) {
    if (is_copy_ && partition_.range.Contains(key)) return;
    is_copy_ = false;  // until it is whole
    tree_->CopyPartition(key, &partition_);
    is_copy_ = true;
  }
  // At `at_`, or the first after it.
  void ArriveForward() {
    while (at_ == entries().size()) {
      if (!partition_.range.end) return StandOn(PmPtr());
      const std::string bound = *partition_.range.end;
      Enter(bound);
      at_ = CountBefore({bound, kTagFirst});
    }
    StandOn(entries()[at_].place);
  }
  // At the last before `at_`.
  void ArriveBackward() {
    while (at_ == 0) {
      if (partition_.range.begin.empty()) return StandOn(PmPtr());
      const std::string bound = partition_.range.begin;
      is_copy_ = false;
      tree_->CopyPartitionBefore(bound, &partition_);
      is_copy_ = true;
      at_ = CountBefore({bound, kTagFirst});
    }
    StandOn(entries()[--at_].place);
  }

  const std::shared_ptr<const RhTree> tree_;
  RhTree::Partition partition_;
  bool is_copy_ = false;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<InternalIterator> NewRhTreeIterator(const Pool* pool,
                                                    std::shared_ptr<const RhTree> tree) {
  return std::make_unique<RhTreeIterator>(pool, std::move(tree));
}

}  // namespace lamella
