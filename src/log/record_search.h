// RecordSearch finds the records of a chunk (or run) where nothing says where they begin: after a
// tear or damage.
//
// Any 8 bytes may look like a header whose record reaches to the chunk's end, and a value's writer
// chooses those bytes. Were each such record checksummed by itself, a search would cost the square
// of the value's size.
// I1: a search costs time in proportion to the bytes it passes, whatever they hold: every byte is
//     checksummed once, from the search's start on, and the checksum of any range follows from two
//     of those sums (Crc32cJoin).
// I2: words between records (links, marks) may be changed by others meanwhile: a search reads
//     words, each in one load. Sums that such a change has parted are noticed and not used: no
//     record is missed for it.
// Threads: one.
#ifndef LAMELLA_LOG_RECORD_SEARCH_H_
#define LAMELLA_LOG_RECORD_SEARCH_H_

#include <cstdint>
#include <vector>

#include "log/record.h"
#include "pool/pool.h"

namespace lamella {

class RecordSearch {
 public:
  RecordSearch(const Pool& pool, const ChunkRef& chunk);

  /// Bytes of the chunk or run.
  uint64_t end() const { return end_; }
  const Record* At(uint64_t offset) const {
    return reinterpret_cast<const Record*>(base_ + offset);
  }
  PmPtr PlaceAt(uint64_t offset) const { return {start_.part(), start_.offset() + offset}; }
  /// True if a record is there. Costs time in proportion to its size.
  bool IsValid(uint64_t offset) const {
    return RecordIsValid(At(offset), end_ - offset, PlaceAt(offset), epoch_);
  }
  /// The first offset from `from` on, in steps of 8, where a record is; end() where there is none.
  /// Offsets ascend from call to call.
  uint64_t FirstFrom(uint64_t from);

  /// Bytes that FirstFrom has checksummed, for tests: what I1 bounds.
  uint64_t bytes_checksummed() const { return bytes_checksummed_; }

 private:
  static constexpr uint64_t kStride = 256;  // divides a chunk

  bool IsValidBySums(uint64_t offset);
  bool SumUpTo(uint64_t offset, uint32_t* sum);
  uint32_t Sum(uint64_t offset, uint64_t bytes);

  const char* const base_;
  const PmPtr start_;
  const uint64_t end_;
  const uint32_t epoch_;
  // sums_[i]: CRC of the bytes from sums_from_ to sums_from_ + i * kStride. Empty before the first
  // search.
  std::vector<uint32_t> sums_;
  uint64_t sums_from_ = 0;
  uint64_t bytes_checksummed_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_RECORD_SEARCH_H_
