// UnhiddenIterator walks what a table has that somebody may still read, beside tables that are
// newer and stay as they are: of a key that they have, what a snapshot sees (NeededVersions, N1).
// Forwards only. Threads: one.
#ifndef LAMELLA_ENGINE_UNHIDDEN_ITERATOR_H_
#define LAMELLA_ENGINE_UNHIDDEN_ITERATOR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "engine/snapshot_list.h"
#include "iterator/internal_iterator.h"

namespace lamella {

class UnhiddenIterator final : public InternalIterator {
 public:
  /// `upper`: all that is newer. All outlive it.
  UnhiddenIterator(InternalIterator* table, InternalIterator* upper,
                   const SnapshotList::Sample* snapshots)
      : table_(table), upper_(upper), snapshots_(snapshots) {}

  bool Valid() const override { return table_->Valid(); }
  void SeekToFirst() override {
    table_->SeekToFirst();
    if (table_->Valid()) upper_->Seek({table_->key().user_key, kTagFirst});
    newer_ = 0;
    PassHidden();
  }
  void SeekToLast() override { LAMELLA_CHECK(false); }
  void Seek(const InternalKey&) override { LAMELLA_CHECK(false); }
  void SeekForPrev(const InternalKey&) override { LAMELLA_CHECK(false); }
  void Next() override {
    table_->Next();
    PassHidden();
  }
  void Prev() override { LAMELLA_CHECK(false); }
  InternalKey key() const override { return table_->key(); }
  std::string_view value() const override { return table_->value(); }
  Status status() const override {
    Status s = table_->status();
    return s.ok() ? upper_->status() : s;
  }
  uint64_t place_word() const override { return table_->place_word(); }

 private:
  void PassHidden() {
    for (; table_->Valid(); table_->Next()) {
      const InternalKey at = table_->key();
      if (newer_ == 0 || at.user_key != key_) {
        key_ = at.user_key;
        newer_ = OldestUpper();
      }
      const uint64_t sequence = TagSequence(at.tag);
      const bool needed = newer_ == 0 || snapshots_->Needed(sequence, newer_);
      newer_ = sequence;
      if (needed) return;
    }
  }
  // Of the key, the number of the oldest version there; 0: none.
  uint64_t OldestUpper() {
    uint64_t oldest = 0;
    for (; upper_->Valid(); upper_->Next()) {
      const InternalKey at = upper_->key();
      const int order = at.user_key.compare(key_);
      if (order > 0) break;
      if (order == 0) oldest = TagSequence(at.tag);
    }
    return oldest;
  }

  InternalIterator* const table_;
  InternalIterator* const upper_;
  const SnapshotList::Sample* const snapshots_;
  std::string key_;
  uint64_t newer_ = 0;  // the number of the version before, of key_; 0: there is no key yet
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_UNHIDDEN_ITERATOR_H_
