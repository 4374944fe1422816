#include "index/skip_array_iterator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "log/record_iterator.h"

namespace lamella {

namespace {

// I1: before_[i] is how many entries of floor i come before the one that is shown.
// I2: live_ has, of each floor that has one, the entry that the walk comes to next there, in
//     walking order; the one that is shown is first.
class SkipArrayIterator final : public RecordIterator {
 public:
  SkipArrayIterator(std::shared_ptr<const SkipArrayTree> tree, bool verify)
      : RecordIterator(tree->pool()),
        tree_(std::move(tree)),
        verify_(verify),
        unsound_(tree_->Ready()),
        before_(tree_->floor_count()) {
    live_.reserve(before_.size());
  }

  void SeekToFirst() override {
    std::ranges::fill(before_, 0);
    Start(true);
  }
  void SeekToLast() override {
    for (uint32_t i = 0; unsound_.ok() && i < before_.size(); i++)
      before_[i] = tree_->floor(i)->count();
    Start(false);
  }
  void Seek(const InternalKey& target) override {
    if (Search(target)) Start(true);
  }
  void SeekForPrev(const InternalKey& target) override {
    // The last at or before is the last before what comes next: the next smaller tag of the key
    // (tags descend), or the next key.
    if (target.tag > 0) {
      if (Search({target.user_key, target.tag - 1})) Start(false);
      return;
    }
    std::string next(target.user_key);
    next.push_back('\0');
    if (Search({next, kTagFirst})) Start(false);
  }
  void Next() override {
    const uint32_t floor = live_.front().floor;
    before_[floor]++;
    if (!forward_) return Start(true);
    Advance(floor);
  }
  void Prev() override {
    if (forward_) return Start(false);  // what is shown is not before itself (I1)
    Advance(live_.front().floor);
  }

 private:
  struct Live {
    InternalKey key;
    PmPtr place;
    uint32_t floor;
  };

  bool Search(const InternalKey& target) {
    if (!unsound_.ok()) {
      Fail(unsound_);
      return false;
    }
    const PmPtr damaged = tree_->Seek(target, verify_, before_.data());
    if (damaged) Fail(DescribeDamage(*pool_, damaged));
    return !damaged;
  }

  void Fail(Status status) {
    status_ = std::move(status);
    live_.clear();
    StandOn(PmPtr());
  }

  // `a` comes before `b` in walking order; equal entries, which no two floors have, by floor.
  bool Before(const Live& a, const Live& b) const {
    const int c = CompareInternal(a.key, b.key);
    if (c != 0) return forward_ ? c < 0 : c > 0;
    return forward_ ? a.floor > b.floor : a.floor < b.floor;
  }

  // Takes up I2 from before_, of which the entries at it are not passed.
  void Start(bool forward) {
    forward_ = forward;
    live_.clear();
    status_ = unsound_;
    for (uint32_t i = 0; status_.ok() && i < before_.size(); i++) {
      Live live;
      if (Load(i, &live)) live_.push_back(live);
    }
    if (!status_.ok()) return Fail(status_);
    std::ranges::sort(live_, [this](const Live& a, const Live& b) { return Before(a, b); });
    Show();
  }

  // The first in walking order is shown; backward, it is one less before it from then on.
  void Show() {
    if (live_.empty()) return StandOn(PmPtr());
    if (!forward_) before_[live_.front().floor]--;
    StandOn(live_.front().place);
  }

  // The entry that the walk comes to next in a floor. False where there is none, or it is damaged.
  bool Load(uint32_t number, Live* live) {
    const Floor& floor = *tree_->floor(number);
    const uint32_t before = before_[number];
    if (forward_ ? before == floor.count() : before == 0) return false;
    const uint32_t at = forward_ ? before : before - 1;
    if (forward_ && at + 1 < floor.count()) {
      __builtin_prefetch(pool_->Address(floor.record_place(at + 1)));
    } else if (!forward_ && at > 0) {
      __builtin_prefetch(pool_->Address(floor.record_place(at - 1)));
    }
    live->place = floor.record_place(at);
    live->floor = number;
    if (verify_) {
      const Status s = VerifyRecord(*pool_, live->place);
      if (!s.ok()) {
        status_ = s;
        return false;
      }
    }
    live->key = pool_->At<Record>(live->place)->internal_key();
    return true;
  }

  // Replaces the shown entry by the next one of its floor, in its place in live_.
  void Advance(uint32_t floor) {
    Live next;
    const bool more = Load(floor, &next);
    if (!status_.ok()) return Fail(status_);
    if (!more) {
      live_.erase(live_.begin());
    } else if (live_.size() == 1 || Before(next, live_[1])) {
      live_.front() = next;
    } else {
      const auto to =
          std::lower_bound(live_.begin() + 2, live_.end(), next,
                           [this](const Live& a, const Live& b) { return Before(a, b); });
      std::move(live_.begin() + 1, to, live_.begin());
      *(to - 1) = next;
    }
    Show();
  }

  const std::shared_ptr<const SkipArrayTree> tree_;
  const bool verify_;
  const Status unsound_;  // OK, or what Ready answered
  std::vector<uint32_t> before_;
  std::vector<Live> live_;
  bool forward_ = true;
};

}  // namespace

std::unique_ptr<InternalIterator> NewSkipArrayIterator(std::shared_ptr<const SkipArrayTree> tree,
                                                       bool verify) {
  return std::make_unique<SkipArrayIterator>(std::move(tree), verify);
}

}  // namespace lamella
