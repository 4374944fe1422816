// HeldReads is what somebody holds of a store while things happen to it: a snapshot, an iterator
// that stands somewhere, a value that is pinned. Each is to show for as long what it showed when it
// was taken. Header only.
// Threads: one at a time.
#ifndef LAMELLA_TESTING_HELD_READS_H_
#define LAMELLA_TESTING_HELD_READS_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/random.h"
#include "lamella/db.h"

namespace lamella::testing {

class HeldReads {
 public:
  using State = std::map<std::string, std::string>;

  HeldReads() = default;
  ~HeldReads() { LetGo(); }
  HeldReads(const HeldReads&) = delete;
  HeldReads& operator=(const HeldReads&) = delete;

  /// Of the store as it is, which holds `state`: each of the three with a chance of a half.
  void Take(DB* db, const State& state, Random* random) {
    LetGo();
    db_ = db;
    state_ = state;
    if (random->OneIn(2)) snapshot_ = db->GetSnapshot();
    if (random->OneIn(2)) {
      iterator_ = db->NewIterator({});
      iterator_->SeekToFirst();
      at_ = state_.begin();
    }
    if (!state_.empty() && random->OneIn(2)) {
      pinned_key_ =
          std::next(state_.begin(), static_cast<std::ptrdiff_t>(random->Uniform(state_.size())))
              ->first;
      pin_ = db->Get({}, pinned_key_, &pinned_);
    }
  }
  bool is_taken() const { return db_ != nullptr; }
  void LetGo() {
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(std::exchange(snapshot_, nullptr));
    iterator_.reset();
    pinned_.Reset();
    pinned_key_.clear();
    db_ = nullptr;
  }

  /// "" if all is as it was, else what is not. Leaves the iterator where it stands, or moves it on.
  std::string Look(Random* random) {
    std::string wrong = snapshot_ == nullptr ? "" : LookAtSnapshot();
    if (wrong.empty() && iterator_ != nullptr) wrong = LookAtIterator(random);
    if (wrong.empty() && !pinned_key_.empty() &&
        !(pin_.ok() && pinned_.view() == state_[pinned_key_]))
      wrong = "a pinned value is another one: " + pin_.ToString();
    return wrong;
  }

 private:
  std::string LookAtSnapshot() {
    ReadOptions options;
    options.snapshot = snapshot_;
    State found;
    const auto it = db_->NewIterator(options);
    for (it->SeekToFirst(); it->Valid(); it->Next()) found.emplace(it->key(), it->value());
    if (!it->status().ok()) return "a snapshot's scan: " + it->status().ToString();
    if (found != state_) return "a snapshot shows another state than when it was taken";
    for (const auto& [key, value] : state_) {
      std::string got;
      const Status s = db_->Get(options, key, &got);
      if (!s.ok() || got != value) return "a snapshot's get: " + s.ToString();
    }
    return "";
  }

  std::string LookAtIterator(Random* random) {
    const uint64_t moves = random->OneIn(2) ? 0 : random->Uniform(2 * state_.size() + 1);
    for (uint64_t move = 0;; move++) {
      if (!iterator_->status().ok()) return "an iterator: " + iterator_->status().ToString();
      const bool is_right = at_ == state_.end()
                                ? !iterator_->Valid()
                                : iterator_->Valid() && iterator_->key() == at_->first &&
                                      iterator_->value() == at_->second;
      if (!is_right) return Concat("an iterator shows something else, after ", move, " moves");
      if (move == moves) return "";
      if (at_ == state_.end()) {
        iterator_->SeekToFirst();
        at_ = state_.begin();
      } else if (at_ != state_.begin() && random->OneIn(3)) {
        iterator_->Prev();
        --at_;
      } else {
        iterator_->Next();
        ++at_;
      }
    }
  }

  DB* db_ = nullptr;
  State state_;
  const Snapshot* snapshot_ = nullptr;
  std::unique_ptr<Iterator> iterator_;
  State::const_iterator at_;  // where it stands
  std::string pinned_key_;    // empty: none
  PinnedValue pinned_;
  Status pin_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_HELD_READS_H_
