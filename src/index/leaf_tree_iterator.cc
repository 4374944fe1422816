#include <memory>
#include <utility>

#include "index/leaf_tree.h"

namespace lamella {

// I1: it walks the leaves of one root, that of its last seek, and of each leaf the order that it
//     had when the walk came to it. Leaves that were replaced since stay as they were then, and
//     slots as they are but for newer versions in them (Leaf L2): so a walk is in order, and misses
//     nothing that was in the tree at the seek (LeafTree T3).
class LeafTreeIterator final : public InternalIterator {
 public:
  LeafTreeIterator(const LeafTree* tree, bool verify)
      : tree_(tree), verify_(verify), leaf_(nullptr) {}

  bool Valid() const override { return cell_ != nullptr; }
  InternalKey key() const override { return cell_->internal_key(); }
  std::string_view value() const override { return cell_->value_words(); }
  Status status() const override { return status_; }
  uint64_t place_word() const override { return place_.word; }
  Status VerifyChecksum() const override { return VerifyCell(*tree_->pool_, place_); }

  void SeekToFirst() override {
    Begin();
    leaf_.SeekToFirst();
    StandInLeaf(true);
  }
  void SeekToLast() override {
    Begin();
    leaf_.SeekToLast();
    StandInLeaf(false);
  }
  void Seek(const InternalKey& target) override {
    if (!Search(target)) return;
    if (at_ < view_.count()) return Stand();
    leaf_.Next();
    StandInLeaf(true);
  }
  void SeekForPrev(const InternalKey& target) override {
    if (!Search(target)) return;
    if (at_ < view_.count()) {
      Stand();
      if (!Valid() || CompareInternal(key(), target) == 0) return;
    }
    Back();
  }
  void Next() override {
    if (++at_ < view_.count()) return Stand();
    leaf_.Next();
    StandInLeaf(true);
  }
  void Prev() override { Back(); }

 private:
  void Begin() {
    leaf_ = LeafIndex::Cursor(tree_->Root());
    cell_ = nullptr;
    status_ = Status::OK();
  }
  // Takes the leaf that the cursor stands on as it is now. False where there is none, or damage.
  bool Enter() {
    cell_ = nullptr;
    if (!leaf_.Valid()) return false;
    view_ = LeafView(tree_->pool_, leaf_.leaf(), leaf_.low().key);
    status_ = view_.Ready();
    return status_.ok();
  }
  bool Search(const InternalKey& target) {
    Begin();
    leaf_.Seek(target);
    if (!Enter()) return false;
    status_ = view_.LowerBound(target, verify_, &at_);
    return status_.ok();
  }
  // No leaf is empty (LeafTree T1); one that is all the same is damaged.
  void StandInLeaf(bool first) {
    if (!Enter()) return;
    if (view_.count() == 0) {
      status_ = LeafDamage(*tree_->pool_, leaf_.leaf(), "is empty");
      return;
    }
    at_ = first ? 0 : view_.count() - 1;
    Stand();
  }
  void Back() {
    if (at_ > 0) {
      at_--;
      return Stand();
    }
    leaf_.Prev();
    StandInLeaf(false);
  }
  void Stand() {
    const uint64_t link = view_.cell_link(at_);
    status_ = ReadCell(*tree_->pool_, view_.place(), link, verify_, &cell_);
    if (!status_.ok()) cell_ = nullptr;
    DecodeLeafLink(link, &place_);
  }

  const LeafTree* const tree_;
  const bool verify_;
  LeafIndex::Cursor leaf_;
  LeafView view_;
  uint32_t at_ = 0;
  PmPtr place_;
  const LeafCell* cell_ = nullptr;  // null: it stands on none
  Status status_;
};

std::unique_ptr<InternalIterator> LeafTree::NewIterator(bool verify) const {
  return std::make_unique<LeafTreeIterator>(this, verify);
}

}  // namespace lamella
