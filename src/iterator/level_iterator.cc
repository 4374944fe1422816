#include "iterator/level_iterator.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace lamella {

namespace {

class LevelIterator final : public InternalIterator {
 public:
  LevelIterator(size_t count, std::function<std::string_view(size_t)> largest,
                std::function<std::unique_ptr<InternalIterator>(size_t)> open)
      : count_(count), largest_(std::move(largest)), open_(std::move(open)) {}

  bool Valid() const override { return table_ != nullptr && table_->Valid(); }
  void WillSeek(const InternalKey& target) override {
    if (Open(TableOf(target))) table_->WillSeek(target);
  }
  void SeekToFirst() override {
    if (Open(0)) table_->SeekToFirst();
    SkipEndedForward();
  }
  void SeekToLast() override {
    if (Open(count_ - 1)) table_->SeekToLast();
    SkipEndedBackward();
  }
  void Seek(const InternalKey& target) override {
    if (Open(TableOf(target))) table_->Seek(target);
    SkipEndedForward();
  }
  void SeekForPrev(const InternalKey& target) override {
    const size_t i = TableOf(target);
    if (i == count_) return SeekToLast();
    if (Open(i)) table_->SeekForPrev(target);
    SkipEndedBackward();
  }
  void Next() override {
    table_->Next();
    SkipEndedForward();
  }
  void Prev() override {
    table_->Prev();
    SkipEndedBackward();
  }
  InternalKey key() const override { return table_->key(); }
  std::string_view value() const override { return table_->value(); }
  Status status() const override { return table_ == nullptr ? Status::OK() : table_->status(); }
  uint64_t place_word() const override { return table_->place_word(); }
  Status VerifyChecksum() const override { return table_->VerifyChecksum(); }

 private:
  // The first whose keys do not all lie before it.
  size_t TableOf(const InternalKey& target) const {
    const auto numbers = std::views::iota(size_t{0}, count_);
    return *std::ranges::lower_bound(numbers, target.user_key, {}, largest_);
  }
  // False: there is none. Beyond either end, counted from 0, is the same.
  bool Open(size_t i) {
    if (i >= count_) {
      table_ = nullptr;
      return false;
    }
    if (table_ == nullptr || at_ != i || !table_->status().ok()) table_ = open_(i);
    at_ = i;
    return true;
  }
  // An error is not passed over.
  bool Ended() const { return table_ != nullptr && !table_->Valid() && table_->status().ok(); }
  void SkipEndedForward() {
    while (Ended() && Open(at_ + 1)) table_->SeekToFirst();
  }
  void SkipEndedBackward() {
    while (Ended() && Open(at_ - 1)) table_->SeekToLast();
  }

  const size_t count_;
  const std::function<std::string_view(size_t)> largest_;
  const std::function<std::unique_ptr<InternalIterator>(size_t)> open_;
  std::unique_ptr<InternalIterator> table_;  // null beyond the ends
  size_t at_ = 0;                            // its number
};

}  // namespace

std::unique_ptr<InternalIterator> NewLevelIterator(
    size_t count, std::function<std::string_view(size_t)> largest,
    std::function<std::unique_ptr<InternalIterator>(size_t)> open) {
  return std::make_unique<LevelIterator>(count, std::move(largest), std::move(open));
}

}  // namespace lamella
