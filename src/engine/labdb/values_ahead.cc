#include "engine/labdb/values_ahead.h"

#include <algorithm>

#include "base/no_throw.h"
#include "engine/labdb/stored_values.h"

namespace lamella {

namespace {

constexpr size_t kFirstWindow = 8;
// So many values in a row that were read alone have it begin, and begin anew though it is ahead:
// some that the trees do not have, those of MemTables, come between.
constexpr uint32_t kAloneToBegin = 1;
constexpr uint32_t kAloneToBeginAnew = 8;
// Entries of trees that it looks at, at a time, for each value that it reads: others are cached, or
// deletes.
constexpr size_t kSeenPerRead = 8;

}  // namespace

void ValuesAhead::Leave() {
  addresses_.clear();
  next_ = 0;
  alone_ = 0;
  begun_ = at_end_ = false;
}

void ValuesAhead::NoteAlone(std::chrono::nanoseconds took) {
  if (cost_ == nullptr) return;
  alone_++;
  cost_->Note(took);
}

Status ValuesAhead::Begin(const InternalKey& at, bool forward) {
  return NoThrow([&] {
    Leave();
    trees_ = new_trees_();  // those of before may be gone from the store
    forward_ = forward;
    window_ = kFirstWindow;
    begun_ = true;
    forward ? trees_->Seek(at) : trees_->SeekForPrev(at);
    return Fill();
  });
}

Status ValuesAhead::GoOn() {
  return NoThrow([&] {
    window_ = std::min(2 * window_, kMost);
    return Fill();
  });
}

Status ValuesAhead::Fill() {
  addresses_.clear();
  next_ = 0;
  for (size_t left = kSeenPerRead * window_;
       left > 0 && addresses_.size() < window_ && trees_->Valid(); left--) {
    if (LiesApart(trees_->key())) {
      const ValueAddress address = DecodeAddress(trees_->value());
      RecordCache::Found kept;
      const bool cached =
          cache_ != nullptr && cache_->Find(trees_->key().user_key, RecordPlaceOf(address), &kept);
      if (!cached && address.size <= kValueBytesMax) addresses_.push_back(address);
    }
    forward_ ? trees_->Next() : trees_->Prev();
  }
  at_end_ = !trees_->Valid();
  read_ = std::make_shared<std::vector<std::string>>();  // others may keep the one of before
  return values_->ReadAll(addresses_, read_.get());
}

// What lies before it is not wanted any more.
bool ValuesAhead::Find(const ValueAddress& address) {
  const auto found =
      std::find(addresses_.begin() + static_cast<ptrdiff_t>(next_), addresses_.end(), address);
  if (found == addresses_.end()) return false;
  next_ = static_cast<size_t>(found - addresses_.begin());
  return true;
}

// A window of which all was taken is followed by the next, if there was something in it.
bool ValuesAhead::Take(const InternalKey& at, bool forward, const ValueAddress& address,
                       ValueRead* read) {
  if (cost_ == nullptr) return false;
  bool found = Find(address);
  if (!found && !at_end_) {
    Status s;
    if (!addresses_.empty() && next_ == addresses_.size()) {
      s = GoOn();
    } else if (alone_ >= (begun_ ? kAloneToBeginAnew : kAloneToBegin) && cost_->IsSlow()) {
      s = Begin(at, forward);
    } else {
      return false;
    }
    if (!s.ok()) {  // until the scan goes elsewhere
      Leave();
      at_end_ = true;
    }
    found = Find(address);
  }
  if (!found) return false;
  alone_ = 0;
  *read = {.value = (*read_)[next_++], .owner = read_};
  return true;
}

}  // namespace lamella
