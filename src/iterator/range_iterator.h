// RangeIterator is another iterator's records from one user key to another, for a merge, which goes
// forward.
// Threads: one.
#ifndef LAMELLA_ITERATOR_RANGE_ITERATOR_H_
#define LAMELLA_ITERATOR_RANGE_ITERATOR_H_

#include <string>
#include <string_view>

#include "base/assert.h"
#include "iterator/internal_iterator.h"

namespace lamella {

/// The least key after `key`, all versions of which come before it.
inline std::string KeyAfter(std::string_view key) { return std::string(key) + '\0'; }

class RangeIterator final : public InternalIterator {
 public:
  /// From `first` on, before `end`; an empty `end` is none. All outlive it.
  RangeIterator(InternalIterator* all, std::string_view first, std::string_view end)
      : all_(all), first_(first), end_(end) {}
  bool Valid() const override {
    return all_->Valid() && (end_.empty() || all_->key().user_key < end_);
  }
  void SeekToFirst() override { all_->Seek({first_, kTagFirst}); }
  void SeekToLast() override { LAMELLA_CHECK(false); }
  void Seek(const InternalKey& target) override { all_->Seek(target); }
  void SeekForPrev(const InternalKey&) override { LAMELLA_CHECK(false); }
  void Next() override { all_->Next(); }
  void Prev() override { LAMELLA_CHECK(false); }
  InternalKey key() const override { return all_->key(); }
  std::string_view value() const override { return all_->value(); }
  Status status() const override { return all_->status(); }
  uint64_t place_word() const override { return all_->place_word(); }

 private:
  InternalIterator* const all_;
  const std::string_view first_;
  const std::string_view end_;
};

}  // namespace lamella

#endif  // LAMELLA_ITERATOR_RANGE_ITERATOR_H_
