// RecordIterator is the part that iterators over records in the pool share: what they show of the
// record they stand on.
#ifndef LAMELLA_LOG_RECORD_ITERATOR_H_
#define LAMELLA_LOG_RECORD_ITERATOR_H_

#include "iterator/internal_iterator.h"
#include "log/record.h"
#include "pool/pool.h"

namespace lamella {

class RecordIterator : public InternalIterator {
 public:
  bool Valid() const final { return record_ != nullptr; }
  InternalKey key() const final { return record_->internal_key(); }
  std::string_view value() const final { return record_->value(); }
  Status status() const final { return status_; }
  Status VerifyChecksum() const final { return VerifyRecord(*pool_, place_); }
  PmPtr place() const { return place_; }
  uint64_t place_word() const final { return place_.word; }
  const Record* record() const { return record_; }

 protected:
  explicit RecordIterator(const Pool* pool) : pool_(pool) {}
  /// On none where `place` is null. Of a record whose size damage has made one that leads out of
  /// the pool nothing is shown, whether checksums are looked at or not: status_ says so.
  void StandOn(PmPtr place) {
    place_ = place;
    record_ = place ? pool_->At<Record>(place) : nullptr;
    if (!place) return;
    pool_->gate()->OnRead(kMediaBlockBytes);
    if (pool_->Contains(place, record_->bytes())) [[likely]]
      return;
    record_ = nullptr;
    status_ = DescribeDamage(*pool_, PmPtr::DamagedAt(place));
  }

  const Pool* const pool_;
  Status status_;

 private:
  PmPtr place_;
  const Record* record_ = nullptr;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_RECORD_ITERATOR_H_
