// Records: the bytes of log chunks through RecordIsValid, ForEachRecord and ReadLog.
//
// An input: flags u8 (1: holes are allowed); base u8; gaps u8, then of each distance u8 and length
// u8; boundaries u8, then of each ordinal u8 and offset u16; then of each chunk its size u16 and
// its bytes. A checksum of kSealHere becomes the right one. The chunks are the last ones of the
// pool: a read beyond their end is a fault.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/concat.h"
#include "fuzz/fuzz.h"
#include "log/pm_log.h"
#include "log/record.h"
#include "pool/pool.h"
#include "testing/temp_dir.h"

namespace lamella::fuzz {
namespace {

constexpr uint32_t kChunks = 4;  // two for each of two shards

class LogPool {
 public:
  LogPool() {
    PoolOptions options;
    options.part_paths = {dir_.Sub("pool.0")};
    options.chunk_bytes = kChunkBytesMin;
    options.medium = MediumKind::kVolatile;
    Status s = Pool::Create(options, &pool_);
    FUZZ_CHECK(s.ok(), s.ToString());
    Persister persister(pool_->gate(), WriteCause::kLog);
    ChunkRef unused;
    while (s.ok() && pool_->free_chunks() > kChunks) {
      s = pool_->Claim(0, ChunkKind::kEngineFirst, 0, 0, 1, Claimant::kIndex, &persister, &unused);
    }
    for (uint32_t i = 0; s.ok() && i < kChunks; i++) {
      s = pool_->Claim(0, ChunkKind::kLog, i / 2, 1 + i % 2, 1, Claimant::kIndex, &persister,
                       &chunks_[i]);
    }
    FUZZ_CHECK(s.ok() && chunks_[kChunks - 1].index + 1 == pool_->chunk_count(0), s.ToString());
  }

  const Pool& pool() const { return *pool_; }
  const ChunkRef& chunk(uint32_t i) const { return chunks_[i]; }

  void Fill(uint32_t i, std::string_view bytes) {
    char* base = pool_->ChunkAddress(chunks_[i]);
    bytes = bytes.substr(0, pool_->chunk_bytes());
    std::memset(base, 0, pool_->chunk_bytes());
    std::memcpy(base, bytes.data(), bytes.size());
    // From the back, so that a record that holds others is sealed over what they became.
    for (uint64_t at = bytes.size() & ~uint64_t{7}; at > 0;) {
      at -= 8;
      auto* record = reinterpret_cast<Record*>(base + at);
      if (pool_->chunk_bytes() - at < sizeof(RecordHeader) || record->header.checksum != kSealHere)
        continue;
      if (!RecordIsPlausible(record->header, pool_->chunk_bytes() - at)) continue;
      record->header.checksum = RecordChecksum(BodyChecksum(record->key(), record->value()),
                                               record->header, PlaceAt(i, at), chunks_[i].epoch);
    }
  }
  PmPtr PlaceAt(uint32_t i, uint64_t at) const {
    return {0, pool_->ChunkStart(chunks_[i]).offset() + at};
  }

 private:
  testing::TempDir dir_;
  std::unique_ptr<Pool> pool_;
  ChunkRef chunks_[kChunks];
};

// The simplest reading: a record at the first place that has one, and on after it.
std::vector<PmPtr> PlacesOf(const LogPool& log, uint32_t i, uint64_t from) {
  const uint64_t end = log.pool().chunk_bytes();
  const char* base = log.pool().ChunkAddress(log.chunk(i));
  std::vector<PmPtr> places;
  for (uint64_t at = from; at + sizeof(RecordHeader) <= end;) {
    const auto* record = reinterpret_cast<const Record*>(base + at);
    if (RecordIsValid(record, end - at, log.PlaceAt(i, at), log.chunk(i).epoch)) {
      places.push_back(log.PlaceAt(i, at));
      at += record->bytes();
    } else {
      at += 8;
    }
  }
  return places;
}

void CheckChunk(const LogPool& log, uint32_t i) {
  std::vector<PmPtr> found;
  PmPtr last_damaged;
  const uint64_t behind = ForEachRecord(
      log.pool(), log.chunk(i), 0,
      [&](const Record* record, PmPtr place) {
        const Status s = VerifyRecord(log.pool(), place);
        FUZZ_CHECK(s.ok(), s.ToString());
        FUZZ_CHECK(record == log.pool().At<Record>(place),
                   "the record is not what lies at its place");
        if (!planted || found.size() != 1) found.push_back(place);
      },
      [&](PmPtr from, PmPtr to) {
        FUZZ_CHECK(last_damaged.word <= from.word && from.word < to.word, "damaged places ascend");
        FUZZ_CHECK(RecordsLostAtMost(log.pool(), from, to) > 0,
                   "where something is damaged something is lost");
        last_damaged = to;
      });
  const std::vector<PmPtr> expected = PlacesOf(log, i, 0);
  FUZZ_CHECK(found == expected,
             Concat("chunk ", i, ": ", expected.size(), " records, ", found.size(), " visited"));
  const uint64_t end =
      expected.empty() ? log.PlaceAt(i, 0).offset()
                       : expected.back().offset() + log.pool().At<Record>(expected.back())->bytes();
  FUZZ_CHECK(log.PlaceAt(i, behind).offset() == end,
             "ForEachRecord answers the end of the last record");
}

void CheckContents(const LogPool& log, const LogContents& contents, uint64_t base,
                   const std::vector<SequenceGap>& gaps) {
  uint64_t sequence = base;
  for (const LogEntry& entry : contents.entries) {
    do ++sequence;
    while (IsVoid(gaps, sequence));
    FUZZ_CHECK(TagSequence(entry.tag) == sequence,
               Concat("found number ", TagSequence(entry.tag), " at ", sequence));
    const Status s = VerifyRecord(log.pool(), entry.place);
    FUZZ_CHECK(s.ok() && log.pool().At<Record>(entry.place)->tag() == entry.tag, s.ToString());
  }
  FUZZ_CHECK(contents.entries.empty() || contents.entries.back().batch_remaining == 0,
             "the run ends in a batch");
  FUZZ_CHECK(contents.sequence_last == sequence, "sequence_last is that of the last entry");
  FUZZ_CHECK(contents.sequence_seen >= sequence, "sequence_seen is none below");
}

}  // namespace

void OneInput(const uint8_t* data, size_t size) {
  static LogPool log;
  Input input(data, size);
  const bool may_have_holes = (input.Take<uint8_t>() & 1) != 0;
  const uint64_t base = input.Take<uint8_t>();
  std::vector<SequenceGap> gaps(input.Take<uint8_t>() % 4);
  uint64_t after = 0;
  for (SequenceGap& gap : gaps) {
    gap.first = after + 1 + input.Take<uint8_t>();
    gap.last = gap.first + input.Take<uint8_t>();
    after = gap.last + 1;
  }
  std::vector<LogPosition> boundary(input.Take<uint8_t>() % 4);
  for (LogPosition& position : boundary) {
    position.ordinal = input.Take<uint8_t>() % 4;
    position.offset = input.Take<uint16_t>();
  }
  for (uint32_t i = 0; i < kChunks; i++) log.Fill(i, input.Bytes(input.Take<uint16_t>()));
  for (uint32_t i = 0; i < kChunks; i++) CheckChunk(log, i);

  LogContents contents;
  const Status s = ReadLog(log.pool(), boundary, base, gaps, may_have_holes, &contents);
  FUZZ_CHECK(s.ok() || s.IsCorruption(), s.ToString());
  if (!s.ok()) return;
  CheckContents(log, contents, base, gaps);
  // What was found and what was cut, told as recovery tells it, is what a second recovery finds.
  AddGap(&gaps, contents.sequence_last, contents.sequence_seen);
  LogContents again;
  const Status second = ReadLog(log.pool(), boundary, base, gaps, may_have_holes, &again);
  FUZZ_CHECK(second.ok(), second.ToString());
  const bool same = std::equal(
      contents.entries.begin(), contents.entries.end(), again.entries.begin(), again.entries.end(),
      [](const LogEntry& a, const LogEntry& b) { return a.tag == b.tag && a.place == b.place; });
  FUZZ_CHECK(same, "a second recovery finds the same");
}

}  // namespace lamella::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lamella::fuzz::OneInput(data, size);
  return 0;
}
