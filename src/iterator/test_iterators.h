// Iterators over maps in DRAM, for the tests of this folder. Header only, never in the library.
#ifndef LAMELLA_ITERATOR_TEST_ITERATORS_H_
#define LAMELLA_ITERATOR_TEST_ITERATORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "iterator/internal_iterator.h"

namespace lamella {

/// A record's name in internal-key order.
struct OwnedKey {
  std::string user_key;
  uint64_t tag = 0;

  InternalKey view() const { return {user_key, tag}; }
  bool operator==(const OwnedKey&) const = default;
};
struct OwnedKeyLess {
  bool operator()(const OwnedKey& a, const OwnedKey& b) const {
    return CompareInternal(a.view(), b.view()) < 0;
  }
};
using RecordMap = std::map<OwnedKey, std::string, OwnedKeyLess>;

/// A table whose records may change between moves. While it is merged into `next`, record by record
/// from its end, its list leads from the first merged place on through the records of `next`.
struct LiveTable {
  RecordMap records;
  LiveTable* next = nullptr;
  std::optional<OwnedKey> merged_from;  // at and after it the list runs through `next`
  mutable int searches = 0;

  /// The first record of the list after `key` (at it, too, if `inclusive`); null at the end.
  const RecordMap::value_type* After(const InternalKey& key, bool inclusive) const {
    searches++;
    const OwnedKey from{std::string(key.user_key), key.tag};
    auto own = inclusive ? records.lower_bound(from) : records.upper_bound(from);
    const RecordMap::value_type* found =
        own == records.end() || IsMerged(own->first) ? nullptr : &*own;
    if (found == nullptr && merged_from) {
      return OwnedKeyLess()(from, *merged_from) ? next->After(merged_from->view(), true)
                                                : next->After(key, inclusive);
    }
    return found;
  }
  const RecordMap::value_type* Before(const InternalKey& key, bool inclusive) const {
    searches++;
    const OwnedKey from{std::string(key.user_key), key.tag};
    if (merged_from) {
      const RecordMap::value_type* found = next->Before(key, inclusive);
      if (found != nullptr && IsMerged(found->first)) return found;
    }
    auto own = inclusive ? records.upper_bound(from) : records.lower_bound(from);
    while (own != records.begin()) {
      own--;
      if (!IsMerged(own->first)) return &*own;
    }
    return nullptr;
  }
  /// Merges the last record that is not merged yet into `into`. False when there is none.
  bool MergeOne(LiveTable* into) {
    auto last = merged_from ? records.lower_bound(*merged_from) : records.end();
    if (last == records.begin()) return false;
    last--;
    next = into;
    into->records[last->first] = last->second;
    merged_from = last->first;
    return true;
  }

  /// True once every record is in `next`, and was there at some time.
  bool IsWhollyMerged() const { return next != nullptr && IsMerged(records.begin()->first); }

  static constexpr std::string_view kEnd = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";

 private:
  bool IsMerged(const OwnedKey& key) const {
    return merged_from && !OwnedKeyLess()(key, *merged_from);
  }
};

/// Walks a LiveTable. Holds no place but a key, so that any change of the table is allowed. Its
/// views are copies that the next move overwrites, so that one held too long shows. Can be made to
/// fail.
class LiveIterator final : public InternalIterator {
 public:
  explicit LiveIterator(const LiveTable* table) : table_(table) {}

  bool Valid() const override { return valid_ && status_.ok(); }
  void SeekToFirst() override { Move(table_->After({"", ~uint64_t{0}}, true)); }
  void SeekToLast() override { Move(table_->Before({LiveTable::kEnd, 0}, true)); }
  void Seek(const InternalKey& target) override { Move(table_->After(target, true)); }
  void SeekForPrev(const InternalKey& target) override { Move(table_->Before(target, true)); }
  void Next() override {
    LAMELLA_CHECK(Valid());
    Move(table_->After(key(), false));
  }
  void Prev() override {
    LAMELLA_CHECK(Valid());
    Move(table_->Before(key(), false));
  }
  InternalKey key() const override {
    LAMELLA_CHECK(Valid());
    return {*key_, tag_};
  }
  std::string_view value() const override {
    LAMELLA_CHECK(Valid());
    return *value_;
  }
  Status status() const override { return status_; }
  Status VerifyChecksum() const override {
    verified_++;
    if (damaged_ && *damaged_ == OwnedKey{*key_, tag_})
      return Status::Corruption("damaged in the test");
    return Status::OK();
  }

  bool Superseded() const override { return table_->IsWhollyMerged(); }

  /// Fails every move from the `moves`th on; 0 stops failing.
  void FailAfter(int moves) {
    fail_after_ = moves;
    status_ = Status::OK();
  }
  void Damage(OwnedKey key) { damaged_ = std::move(key); }
  int moves() const { return moves_; }
  int verified() const { return verified_; }

 private:
  void Move(const RecordMap::value_type* record) {
    moves_++;
    valid_ = record != nullptr;
    // New strings first, so that the old views' memory is not reused before they are freed: ASan
    // sees a view held too long.
    auto key = valid_ ? std::make_unique<std::string>(record->first.user_key) : nullptr;
    auto value = valid_ ? std::make_unique<std::string>(record->second) : nullptr;
    tag_ = valid_ ? record->first.tag : 0;
    if (key_) key_->assign(key_->size(), '!');
    if (value_) value_->assign(value_->size(), '!');
    key_ = std::move(key);
    value_ = std::move(value);
    status_ = Status::OK();
    if (fail_after_ > 1) {
      fail_after_--;
    } else if (fail_after_ == 1) {
      valid_ = false;
      status_ = Status::Corruption("failed in the test");
    }
  }

  const LiveTable* const table_;
  bool valid_ = false;
  uint64_t tag_ = 0;
  std::unique_ptr<std::string> key_;
  std::unique_ptr<std::string> value_;
  Status status_;
  int fail_after_ = 0;
  int moves_ = 0;
  mutable int verified_ = 0;
  std::optional<OwnedKey> damaged_;
};

}  // namespace lamella

#endif  // LAMELLA_ITERATOR_TEST_ITERATORS_H_
