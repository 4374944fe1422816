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
  while (count_ > 0) DropFirst();
  alone_ = 0;
  at_end_ = false;
}

void ValuesAhead::DropFirst() {
  (void)helpers_.threads->Finish(&At(0));
  At(0).read = {};
  first_ = (first_ + 1) % kMost;
  count_--;
}

void ValuesAhead::NoteAlone(std::chrono::nanoseconds took) {
  if (helpers_.threads == nullptr) return;
  alone_++;
  helpers_.cost->Note(took);
}

void ValuesAhead::Begin(const InternalKey& at, bool forward) {
  Leave();
  trees_ = new_trees_();  // those of before may be gone from the store
  if (reads_ == nullptr) {
    reads_ = std::make_unique<Read[]>(kMost);
    for (size_t i = 0; i < kMost; i++) reads_[i].values = values_;
  }
  forward_ = forward;
  window_ = kFirstWindow;
  forward ? trees_->Seek(at) : trees_->SeekForPrev(at);
  Fill();
}

// Those that are wanted first are posted last: helpers take them first.
void ValuesAhead::Fill() {
  const size_t from = count_;
  for (size_t left = kSeenPerRead * window_; left > 0 && count_ < window_ && trees_->Valid();
       left--) {
    if (LiesApart(trees_->key())) {
      const ValueAddress address = DecodeAddress(trees_->value());
      const bool cached = cache_ != nullptr && cache_->Find(address) != nullptr;
      if (!cached && address.size <= kValueBytesMax) At(count_++).address = address;
    }
    if (forward_) {
      trees_->Next();
    } else {
      trees_->Prev();
    }
  }
  at_end_ = !trees_->Valid();
  for (size_t i = count_; i > from; i--) helpers_.threads->Post(&At(i - 1));
}

// What lies before it is not wanted any more.
bool ValuesAhead::Find(const ValueAddress& address) {
  size_t skipped = 0;
  while (skipped < count_ && At(skipped).address != address) skipped++;
  if (skipped == count_) return false;
  for (; skipped > 0; skipped--) DropFirst();
  return true;
}

// Without memory nothing is read ahead.
bool ValuesAhead::Take(const InternalKey& at, bool forward, const ValueAddress& address,
                       ValueRead* read) {
  if (helpers_.threads == nullptr) return false;
  bool found = Find(address);
  Status s;
  if (!found) {
    if (at_end_ || alone_ < (count_ == 0 ? kAloneToBegin : kAloneToBeginAnew) ||
        !helpers_.threads->IsWorth(helpers_.cost->mean()))
      return false;
    s = NoThrow([&] {
      Begin(at, forward);
      return Status::OK();
    });
    found = s.ok() && Find(address);
  } else if (count_ <= window_ / 2 && !at_end_) {
    window_ = std::min(2 * window_, kMost);
    s = NoThrow([&] {
      Fill();
      return Status::OK();
    });
  }
  alone_ = 0;
  if (!s.ok()) at_end_ = true;
  if (!found) return false;
  Read& first = At(0);
  if (!helpers_.threads->Finish(&first)) first.Run();
  const bool ok = first.ok;
  if (ok) *read = std::move(first.read);
  DropFirst();
  return ok;
}

}  // namespace lamella
