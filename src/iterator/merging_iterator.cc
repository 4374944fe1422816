#include "iterator/merging_iterator.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"

namespace lamella {
namespace {

// The live children stand sorted by what they show, so that a step compares with the second alone
// while one child stays in front, and places a child that was passed by binary search.
// M1: live_ holds the valid children, in walking order of their keys, equal keys by rank; the front
//     one is shown.
// M2: after a step, the key shown lies strictly past last_ in walking order. A child may lead into
//     the records of another while they are merged, so records it shows may have been shown
//     already; no state of a child can tell, last_ can.
// M3: a child that is superseded goes, and those after it are sought again: they may have passed
//     what it had still to show. Kept, every merged child would walk the whole of the last.
class MergingIterator final : public InternalIterator {
 public:
  explicit MergingIterator(std::vector<std::unique_ptr<InternalIterator>> children) {
    children_.reserve(children.size());
    for (std::unique_ptr<InternalIterator>& child : children) {
      children_.push_back({std::move(child), {}, static_cast<uint32_t>(children_.size())});
    }
    live_.reserve(children_.size());
  }

  bool Valid() const override { return !live_.empty(); }
  Status status() const override { return status_; }
  InternalKey key() const override {
    LAMELLA_DCHECK(Valid());
    return live_.front()->key;
  }
  std::string_view value() const override {
    LAMELLA_DCHECK(Valid());
    return live_.front()->source->value();
  }
  uint64_t place_word() const override {
    LAMELLA_DCHECK(Valid());
    return live_.front()->source->place_word();
  }
  Status VerifyChecksum() const override {
    LAMELLA_DCHECK(Valid());
    return live_.front()->source->VerifyChecksum();
  }

  void WillSeek(const InternalKey& target) override {
    if (children_.size() == 1) return;  // it is now
    for (Child& child : children_) child.source->WillSeek(target);
  }
  void SeekToFirst() override {
    Position(true, [](Child& child) { child.source->SeekToFirst(); });
  }
  void SeekToLast() override {
    Position(false, [](Child& child) { child.source->SeekToLast(); });
  }
  void Seek(const InternalKey& target) override {
    WillSeek(target);
    Position(true, [&target](Child& child) { child.source->Seek(target); });
  }
  void SeekForPrev(const InternalKey& target) override {
    WillSeek(target);
    Position(false, [&target](Child& child) { child.source->SeekForPrev(target); });
  }
  void Next() override { Step(true); }
  void Prev() override { Step(false); }

 private:
  struct Child {
    std::unique_ptr<InternalIterator> source;
    InternalKey key;  // what source shows, while it is live
    uint32_t rank;    // place among the children: of equal records the lowest rank's is shown
  };

  static bool IsSuperseded(const Child& child) { return child.source->Superseded(); }

  // True if `a` comes before `b` in walking order.
  bool Before(const Child& a, const Child& b) const {
    const int c = CompareInternal(a.key, b.key);
    if (c != 0) return forward_ ? c < 0 : c > 0;
    return a.rank < b.rank;
  }
  bool IsPastLast(const InternalKey& key) const {
    const int c = CompareInternal(key, {last_key_, last_tag_});
    return forward_ ? c > 0 : c < 0;
  }

  // Takes the key of a child that was moved; false where it is at its end, or failed.
  bool Load(Child* child) {
    if (child->source->Valid()) {
      child->key = child->source->key();
      return true;
    }
    if (status_.ok()) status_ = child->source->status();
    return false;
  }

  void Fail() { live_.clear(); }

  // In order of rank: records move from a child to a later one, so one that has left a child is
  // found in a later.
  template <class Move>
  void Position(bool forward, Move move) {
    status_ = Status::OK();
    forward_ = forward;
    live_.clear();
    std::erase_if(children_, IsSuperseded);
    for (Child& child : children_) move(child);
    for (Child& child : children_) {
      if (Load(&child)) live_.push_back(&child);
    }
    if (!status_.ok()) return Fail();
    Sort();
  }

  void Sort() {
    std::sort(live_.begin(), live_.end(),
              [this](const Child* a, const Child* b) { return Before(*a, *b); });
  }

  void Step(bool forward) {
    LAMELLA_DCHECK(Valid());
    Child* shown = live_.front();
    last_key_.assign(shown->key.user_key);  // copied: the view dies with the move
    last_tag_ = shown->key.tag;
    if (forward != forward_) {
      TurnAround(shown);
      if (!status_.ok()) return Fail();
    }
    do {  // keeps M2
      if (!MoveFront()) return;
    } while (!live_.empty() && !IsPastLast(live_.front()->key));
  }

  // Turns every child but `shown` to the near side of last_; `shown` stays in front until it is
  // moved.
  void TurnAround(Child* shown) {
    forward_ = !forward_;
    live_.clear();
    for (Child& child : children_) {
      if (&child != shown) Return(&child);
    }
    for (Child& child : children_) {
      if (&child != shown && Load(&child)) live_.push_back(&child);
    }
    Sort();
    live_.insert(live_.begin(), shown);
  }

  // To the near side of the record that was last shown.
  void Return(Child* child) {
    const InternalKey last{last_key_, last_tag_};
    if (forward_) {
      child->source->Seek(last);
    } else {
      child->source->SeekForPrev(last);
    }
  }

  // Keeps M3; what is then in front may be what was last shown. False after an error.
  bool DropSuperseded() {
    const auto first = std::ranges::find_if(children_, IsSuperseded);
    const ptrdiff_t superseded_from = first - children_.begin();
    // From there on only: one ahead that is superseded by now goes the next time, or those after
    // it would not be sought again.
    children_.erase(std::remove_if(first, children_.end(), IsSuperseded), children_.end());
    live_.clear();
    for (Child& child : children_) {
      if (&child - children_.data() >= superseded_from) Return(&child);
      if (Load(&child)) live_.push_back(&child);
    }
    if (!status_.ok()) {
      Fail();
      return false;
    }
    Sort();
    return true;
  }

  // Moves the front child by one and restores M1. False after an error.
  bool MoveFront() {
    Child* child = live_.front();
    if (child->source->Superseded()) return DropSuperseded();
    if (forward_) {
      child->source->Next();
    } else {
      child->source->Prev();
    }
    if (!Load(child)) {
      live_.erase(live_.begin());
      if (!status_.ok()) Fail();
      return status_.ok();
    }
    if (live_.size() > 1 && !Before(*child, *live_[1])) {
      const auto place =
          std::lower_bound(live_.begin() + 2, live_.end(), child,
                           [this](const Child* a, const Child* b) { return Before(*a, *b); });
      std::rotate(live_.begin(), live_.begin() + 1, place);
    }
    return true;
  }

  std::vector<Child> children_;  // constant after construction, but for their positions
  std::vector<Child*> live_;
  bool forward_ = true;
  std::string last_key_;  // the record that was shown before the present step
  uint64_t last_tag_ = 0;
  Status status_;
};

}  // namespace

std::unique_ptr<InternalIterator> NewMergingIterator(
    std::vector<std::unique_ptr<InternalIterator>> children) {
  if (children.size() == 1) return std::move(children.front());
  return std::make_unique<MergingIterator>(std::move(children));
}

}  // namespace lamella
