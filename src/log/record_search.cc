#include "log/record_search.h"

#include <algorithm>
#include <atomic>

#include "base/crc32c.h"

namespace lamella {

namespace {

// Copies whole words, each in one load: others may store into some of them meanwhile (I2).
void CopyWords(const char* from, uint64_t bytes, void* to) {
  auto* words = reinterpret_cast<uint64_t*>(const_cast<char*>(from));
  for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i++) {
    static_cast<uint64_t*>(to)[i] = std::atomic_ref(words[i]).load(std::memory_order_relaxed);
  }
}

}  // namespace

RecordSearch::RecordSearch(const Pool& pool, const ChunkRef& chunk)
    : base_(pool.ChunkAddress(chunk)),
      start_(pool.ChunkStart(chunk)),
      end_(uint64_t{chunk.run_chunks} * pool.chunk_bytes()),
      epoch_(chunk.epoch) {}

uint64_t RecordSearch::FirstFrom(uint64_t from) {
  for (uint64_t at = from; at + sizeof(RecordHeader) <= end_; at += 8) {
    if (IsValidBySums(at)) return at;
  }
  return end_;
}

bool RecordSearch::IsValidBySums(uint64_t offset) {
  RecordHeader header;
  CopyWords(base_ + offset, sizeof(header), &header);
  if (!RecordIsPlausible(header, end_ - offset)) return false;
  if (sums_.empty()) {
    sums_from_ = offset & ~(kStride - 1);
    sums_.push_back(0);
  }
  const uint64_t key = offset + sizeof(RecordHeader) + ShapeHeight(header.shape) * sizeof(uint64_t);
  const uint64_t bytes = uint64_t{header.key_size} + header.value_size;
  uint32_t before;
  uint32_t after;
  const uint32_t body = SumUpTo(key, &before) && SumUpTo(key + bytes, &after)
                            ? Crc32cJoin(before, after, bytes)
                            : Sum(key, bytes);  // keeps I2
  return RecordChecksum(body, header, PlaceAt(offset), epoch_) == header.checksum;
}

// The CRC from sums_from_ to `offset`. False where the bytes around it have changed since they were
// summed.
bool RecordSearch::SumUpTo(uint64_t offset, uint32_t* sum) {
  const uint64_t index = (offset - sums_from_) / kStride;
  uint64_t bytes[kStride / sizeof(uint64_t)];
  while (sums_.size() <= index) {
    CopyWords(base_ + sums_from_ + (sums_.size() - 1) * kStride, kStride, bytes);
    sums_.push_back(Crc32c(sums_.back(), bytes, kStride));
    bytes_checksummed_ += kStride;
  }
  const uint64_t at = sums_from_ + index * kStride;
  const uint64_t in_stride = offset - at;
  *sum = sums_[index];
  if (in_stride == 0) return true;
  // From a copy: the part up to `offset` and the whole must be of one moment.
  CopyWords(base_ + at, kStride, bytes);
  *sum = Crc32c(*sum, bytes, in_stride);
  bytes_checksummed_ += kStride;
  const uint32_t whole =
      Crc32c(*sum, reinterpret_cast<const char*>(bytes) + in_stride, kStride - in_stride);
  if (sums_.size() == index + 1) sums_.push_back(whole);
  return whole == sums_[index + 1];
}

// The CRC of the bytes from `offset` on.
uint32_t RecordSearch::Sum(uint64_t offset, uint64_t bytes) {
  uint32_t crc = 0;
  uint64_t word;
  for (const uint64_t end = offset + bytes; offset < end;) {
    const uint64_t in_word = offset % sizeof(word);
    const uint64_t n = std::min(end - offset, sizeof(word) - in_word);
    CopyWords(base_ + offset - in_word, sizeof(word), &word);
    crc = Crc32c(crc, reinterpret_cast<const char*>(&word) + in_word, n);
    offset += n;
  }
  bytes_checksummed_ += bytes;
  return crc;
}

}  // namespace lamella
