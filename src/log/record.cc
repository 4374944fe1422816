#include "log/record.h"

#include <string>

#include "base/concat.h"
#include "base/crc32c.h"

namespace lamella {

uint32_t BodyChecksum(std::string_view key, std::string_view value) {
  if (key.data() + key.size() == value.data()) {  // as in a placed record: one pass
    return Crc32c(0, key.data(), key.size() + value.size());
  }
  return Crc32c(Crc32c(0, key.data(), key.size()), value.data(), value.size());
}

uint32_t RecordChecksum(uint32_t body_checksum, const RecordHeader& header, PmPtr place,
                        uint32_t epoch) {
  const struct {
    uint64_t place;
    uint64_t epoch;
    RecordHeader header;
  } head{place.word,
         epoch,
         // Field by field: the mark may be set meanwhile.
         {.tag = header.tag,
          .checksum = 0,
          .value_size = header.value_size,
          .key_size = header.key_size,
          .shape = header.shape,
          .mark = 0,
          .batch_remaining = header.batch_remaining}};
  return Crc32c(body_checksum, &head, sizeof(head));
}

bool RecordIsPlausible(const RecordHeader& header, uint64_t available) {
  if (available < sizeof(RecordHeader)) return false;
  const RecordKind kind = TagKind(header.tag);
  return kind >= RecordKind::kDelete && kind <= RecordKind::kPutElsewhere && header.key_size != 0 &&
         ShapeHeight(header.shape) <= kHeightMax && (IsPut(kind) || header.value_size == 0) &&
         TagSequence(header.tag) != 0 &&
         RecordBytes(ShapeHeight(header.shape), header.key_size, header.value_size) <= available;
}

bool RecordIsValid(const Record* record, uint64_t available, PmPtr place, uint32_t epoch) {
  return RecordIsPlausible(record->header, available) &&
         RecordChecksum(BodyChecksum(record->key(), record->value()), record->header, place,
                        epoch) == record->header.checksum;
}

std::string DescribePlace(const Pool& pool, PmPtr place) {
  const uint64_t chunk = place.offset() / pool.chunk_bytes();
  return Concat("part ", place.part(), " chunk ", chunk, " offset ",
                place.offset() - chunk * pool.chunk_bytes());
}

bool OwningChunk(const Pool& pool, PmPtr place, ChunkRef* chunk) {
  const uint32_t at = pool.ChunkIndex(place);
  if (!pool.Describe(place.part(), at, chunk)) return false;
  // A record within a run belongs to the chunk that starts it; a tail says how far back that is.
  if (chunk->kind != ChunkKind::kRunTail) return true;
  const uint64_t distance = chunk->ordinal;
  return distance <= at &&
         pool.Describe(place.part(), at - static_cast<uint32_t>(distance), chunk) &&
         chunk->kind != ChunkKind::kRunTail && chunk->run_chunks > distance;
}

Status DescribeDamage(const Pool& pool, PmPtr damaged) {
  const PmPtr culprit = damaged.culprit();
  if (culprit) {
    Status s = VerifyRecord(pool, culprit);
    if (!s.ok()) return s;
  }
  return Status::Corruption(
      "a link of " +
      (culprit ? "the record at " + DescribePlace(pool, culprit) : std::string("a list's head")) +
      " is damaged; run `lamella repair` to rebuild the index from the records");
}

Status VerifyRecord(const Pool& pool, PmPtr place) {
  if (!pool.Contains(place, sizeof(RecordHeader)) || place.offset() % 8 != 0) {
    return Status::Corruption(
        Concat("a link leads outside the pool, to part ", place.part(), " byte ", place.offset(),
               "; run `lamella repair` to rebuild the index from the records"));
  }
  ChunkRef chunk;
  if (!OwningChunk(pool, place, &chunk)) {
    return Status::Corruption(
        "a link leads to " + DescribePlace(pool, place) +
        ", which no table owns; run `lamella repair` to rebuild the index from the records");
  }
  const uint64_t end =
      pool.ChunkStart(chunk).offset() + uint64_t{chunk.run_chunks} * pool.chunk_bytes();
  const uint64_t available = end > place.offset() ? end - place.offset() : 0;
  if (!pool.Contains(place, available) ||
      !RecordIsValid(pool.At<Record>(place), available, place, chunk.epoch)) {
    return Status::Corruption("the record at " + DescribePlace(pool, place) +
                              " does not match its checksum; `lamella check` lists all damage, "
                              "`lamella repair` saves what validates");
  }
  return Status::OK();
}

}  // namespace lamella
