// LogToy is a log of records of 40 bytes, most of them across two lines, and one word that says how
// many count.
// I1: a record is durable before the count that covers it.
#ifndef LAMELLA_TESTING_PLANTED_LOG_TOY_H_
#define LAMELLA_TESTING_PLANTED_LOG_TOY_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "testing/planted/toy.h"

namespace lamella::testing {

enum class LogBug : uint8_t {
  kNone,
  kRecordNotFlushed,
  kNoFenceBeforeTail,
  kTailFirst,
  kTailNotFlushed,
  kTailNotFenced,
  kFlushesFirstLineOnly,
  kTwoWordTail,
  kRecordAfterTail,
  kFencedByAnother,
  kCount,
};
inline constexpr std::array<const char*, 10> kLogBugNames = {"none",
                                                             "record not flushed",
                                                             "no fence before the tail",
                                                             "tail first",
                                                             "tail not flushed",
                                                             "tail not fenced",
                                                             "flushes the first line only",
                                                             "two-word tail",
                                                             "record after the tail",
                                                             "fence by another persister"};

template <LogBug kBug>
class LogToy final : public Toy {
 public:
  LogToy(char* base, Persister* persister)
      : Toy(base, persister), other_(gate(), WriteCause::kLog), count_(Load(0) + Load(64)) {}

  void Step(uint64_t number) override {
    const Record record = MakeRecord(number);
    const uint64_t place = kRecords + count_ * sizeof(record);
    count_++;
    if constexpr (kBug == LogBug::kTailFirst) PublishTail();
    if constexpr (kBug == LogBug::kRecordNotFlushed || kBug == LogBug::kFlushesFirstLineOnly) {
      std::memcpy(At(place), &record, sizeof(record));
      if constexpr (kBug == LogBug::kFlushesFirstLineOnly) Flush(place, 1);
    } else if constexpr (kBug == LogBug::kFencedByAnother) {
      Copy(place, record);
      other_.Fence();
      other_.Publish(Word(0), count_);
      return;
    } else if constexpr (kBug != LogBug::kRecordAfterTail) {
      Copy(place, record);
    }
    if constexpr (kBug != LogBug::kNoFenceBeforeTail) Fence();  // keeps I1
    if constexpr (kBug != LogBug::kTailFirst) PublishTail();
    if constexpr (kBug == LogBug::kRecordAfterTail) {
      Copy(place, record);
      Fence();
    }
  }

  std::string Check(uint64_t steps) const override {
    if (count_ != steps)
      return "found " + std::to_string(count_) + " records, not " + std::to_string(steps);
    for (uint64_t i = 0; i < steps; i++) {
      const Record expected = MakeRecord(i);
      if (std::memcmp(At(kRecords + i * sizeof(expected)), &expected, sizeof(expected)) != 0) {
        return "record " + std::to_string(i) + " is torn";
      }
    }
    return "";
  }

 private:
  using Record = std::array<uint64_t, 5>;
  static constexpr uint64_t kRecords = 128;

  static Record MakeRecord(uint64_t number) {
    Record record;
    for (uint64_t i = 0; i < record.size(); i++) record[i] = Value(number, i);
    return record;
  }
  void PublishTail() {
    if constexpr (kBug == LogBug::kTailNotFlushed) {
      Store(0, count_);
    } else if constexpr (kBug == LogBug::kTailNotFenced) {
      Store(0, count_);
      Flush(0);
    } else if constexpr (kBug ==
                         LogBug::
                             kTwoWordTail) {  // in units of 16, and the rest, on a line of its own
      Store(0, count_ / 16 * 16);
      Store(64, count_ % 16);
      Flush(0);
      Flush(64);
      Fence();
    } else {
      Publish(0, count_);
    }
  }

  Persister other_;
  uint64_t count_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_LOG_TOY_H_
