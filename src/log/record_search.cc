#include "log/record_search.h"

#include <cstring>

#include "base/crc32c.h"

namespace lamella {

RecordSearch::RecordSearch(const Pool& pool, const ChunkRef& chunk)
    : base_(pool.ChunkAddress(chunk)),
      start_(pool.ChunkStart(chunk)),
      end_(uint64_t{chunk.run_chunks} * pool.chunk_bytes()),
      epoch_(chunk.epoch) {}

uint64_t RecordSearch::FirstFrom(uint64_t from) {
  for (uint64_t at = from; at + sizeof(RecordHeader) <= end_; at += 8) {
    if (RecordIsPlausible(At(at)->header, end_ - at) && IsValidBySums(at)) return at;
  }
  return end_;
}

bool RecordSearch::IsValidBySums(uint64_t offset) {
  const RecordHeader header = At(offset)->header;  // a copy: what is no record may change
  if (!RecordIsPlausible(header, end_ - offset)) return false;
  if (sums_.empty()) {
    sums_from_ = offset & ~(kStride - 1);
    sums_.push_back(0);
  }
  const uint64_t key = offset + sizeof(RecordHeader) + ShapeHeight(header.shape) * sizeof(uint64_t);
  const uint64_t bytes = uint64_t{header.key_size} + header.value_size;
  uint32_t before;
  uint32_t behind;
  if (!SumUpTo(key, &before) || !SumUpTo(key + bytes, &behind)) return IsValid(offset);  // keeps I2
  // Key and value continue the head's checksum as they continue `before`, which their own CRC follows from. Join is linear.
  const uint32_t head = RecordHeadChecksum(header, PlaceAt(offset), epoch_);
  return Crc32cJoin(head ^ before, behind, bytes) == header.checksum;
}

// The CRC from sums_from_ to `offset`. False where the bytes around it have changed since they were summed.
bool RecordSearch::SumUpTo(uint64_t offset, uint32_t* sum) {
  const uint64_t index = (offset - sums_from_) / kStride;
  while (sums_.size() <= index) {
    sums_.push_back(Crc32c(sums_.back(), base_ + sums_from_ + (sums_.size() - 1) * kStride, kStride));
    bytes_checksummed_ += kStride;
  }
  const uint64_t at = sums_from_ + index * kStride;
  const uint64_t in_stride = offset - at;
  *sum = sums_[index];
  if (in_stride == 0) return true;
  // From a copy: the part up to `offset` and the whole must be of one moment.
  char bytes[kStride];
  std::memcpy(bytes, base_ + at, kStride);
  *sum = Crc32c(*sum, bytes, in_stride);
  bytes_checksummed_ += kStride;
  const uint32_t whole = Crc32c(*sum, bytes + in_stride, kStride - in_stride);
  if (sums_.size() == index + 1) sums_.push_back(whole);
  return whole == sums_[index + 1];
}

}  // namespace lamella
