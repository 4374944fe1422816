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
  Status status() const override { return Status::OK(); }
  Status VerifyChecksum() const final { return VerifyRecord(*pool_, place_); }
  PmPtr place() const { return place_; }
  uint64_t place_word() const final { return place_.word; }
  const Record* record() const { return record_; }

 protected:
  explicit RecordIterator(const Pool* pool) : pool_(pool) {}
  void StandOn(PmPtr place) {
    place_ = place;
    record_ = place ? pool_->At<Record>(place) : nullptr;
    if (place) pool_->gate()->OnRead(kMediaBlockBytes);
  }

  const Pool* const pool_;

 private:
  PmPtr place_;
  const Record* record_ = nullptr;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_RECORD_ITERATOR_H_
