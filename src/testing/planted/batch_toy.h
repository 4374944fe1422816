// BatchToy is a log of batches without a tail: each record carries a checksum, its batch's size and
// the epoch of its chunk. When the chunk is full, it is used again from its start under a new
// epoch: the number of the first batch in it.
// I1: a batch counts when all its records are there, valid and of the chunk's epoch.
// I2: the new epoch is durable before a record of the old one is stored over.
#ifndef LAMELLA_TESTING_PLANTED_BATCH_TOY_H_
#define LAMELLA_TESTING_PLANTED_BATCH_TOY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "testing/planted/toy.h"

namespace lamella::testing {

enum class BatchBug : uint8_t {
  kNone,
  kTornBatchTaken,
  kStaleEpochTaken,
  kEpochNotFenced,
  kFlushesFromUnaligned,
  kSumOfHeadOnly,
  kAcknowledgedBeforeFence,
  kCount,
};
inline constexpr std::array<const char*, 7> kBatchBugNames = {
    "none",
    "torn batch taken as whole",
    "stale chunk epoch taken",
    "chunk used again before its epoch is durable",
    "flush steps a line from an unaligned start",
    "checksum covers the head only",
    "acknowledged before the fence"};

template <BatchBug kBug>
class BatchToy final : public Toy {
 public:
  BatchToy(char* base, Persister* persister) : Toy(base, persister), epoch_(Load(0)) {
    for (uint64_t n = BatchAt(used_); n != 0; n = BatchAt(used_)) {
      used_ += n;
      batches_++;
    }
  }

  void Step(uint64_t number) override {
    const uint64_t records = SizeOf(number);
    if (used_ + records > kRecordsMax) StartChunk(number);
    const uint64_t start = Place(used_);
    for (uint64_t i = 0; i < records; i++) Append(MakeRecord(number, i, epoch_));
    if constexpr (kBug == BatchBug::kFlushesFromUnaligned) {
      for (uint64_t at = start; at < Place(used_); at += kLineBytes) Flush(at, 1);
    }
    if constexpr (kBug != BatchBug::kAcknowledgedBeforeFence) Fence();
    batches_++;
  }

  std::string Check(uint64_t steps) const override {
    if (epoch_ + batches_ != steps)
      return "found " + std::to_string(epoch_ + batches_) + " batches, not " +
             std::to_string(steps);
    uint64_t at = 0;
    for (uint64_t number = epoch_; number < steps; number++) {
      for (uint64_t i = 0; i < SizeOf(number); i++, ++at) {
        const Record expected = MakeRecord(number, i, epoch_);
        if (at >= kRecordsMax || std::memcmp(At(Place(at)), &expected, sizeof(expected)) != 0) {
          return "record " + std::to_string(i) + " of batch " + std::to_string(number) +
                 " is not there";
        }
      }
    }
    return "";
  }

 private:
  struct Record {
    uint64_t epoch;
    uint64_t index;
    uint64_t size;  // of its batch, in records
    uint64_t payload[9];
    uint64_t sum;
  };
  static_assert(sizeof(Record) == 104);
  static constexpr uint64_t kRecordsMax = 15;

  static uint64_t SizeOf(uint64_t number) { return number % 3 + 1; }
  static uint64_t Place(uint64_t record) { return 520 + record * sizeof(Record); }  // across lines
  static uint64_t SumOf(const Record& record) {
    return HashOf(&record, kBug == BatchBug::kSumOfHeadOnly ? offsetof(Record, payload)
                                                            : offsetof(Record, sum));
  }
  static Record MakeRecord(uint64_t number, uint64_t index, uint64_t epoch) {
    Record record{epoch, index, SizeOf(number), {}, 0};
    for (uint64_t i = 0; i < 9; i++) record.payload[i] = Value(number, index * 9 + i);
    record.sum = SumOf(record);
    return record;
  }

  void StartChunk(uint64_t number) {
    epoch_ = number;
    used_ = batches_ = 0;
    if constexpr (kBug == BatchBug::kEpochNotFenced) {
      Store(0, epoch_);
      Flush(0);
    } else {
      Publish(0, epoch_);  // keeps I2
    }
  }
  void Append(const Record& record) {
    if constexpr (kBug == BatchBug::kFlushesFromUnaligned) {
      std::memcpy(At(Place(used_)), &record, sizeof(record));
    } else {
      Copy(Place(used_), record);
    }
    used_++;
  }
  // The size of the batch that starts at a record; 0 where none does (I1).
  uint64_t BatchAt(uint64_t first) const {
    uint64_t size = 1;
    for (uint64_t i = 0; i < size; i++) {
      if (first + i >= kRecordsMax) return 0;
      const Record record = Read<Record>(Place(first + i));
      if (record.size == 0 || record.sum != SumOf(record) || record.index != i) return 0;
      if (kBug != BatchBug::kStaleEpochTaken && record.epoch != epoch_) return 0;
      size = record.size;
      if (kBug == BatchBug::kTornBatchTaken) return size;
    }
    return size;
  }

  uint64_t epoch_;
  uint64_t used_ = 0;     // records of the chunk
  uint64_t batches_ = 0;  // in the chunk
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_BATCH_TOY_H_
