#include "engine/record_region.h"

namespace lamella {

// Key and value are summed once, for the checksum that is there and for the one to be.
Status RecordRegion::Copy(PmPtr from, PmPtr* to) {
  const Record* const record = pool_->At<Record>(from);
  ChunkRef chunk;
  if (!OwningChunk(*pool_, from, &chunk)) return VerifyRecord(*pool_, from);
  const uint64_t end = pool_->ChunkStart(chunk).offset() + chunk.run_chunks * pool_->chunk_bytes();
  if (!RecordIsPlausible(record->header, end - from.offset())) return VerifyRecord(*pool_, from);
  const std::string_view key = record->key();
  const std::string_view value = record->value();
  const uint32_t body = BodyChecksum(key, value);
  RecordHeader header = record->header;
  header.checksum = 0;
  header.mark = 0;
  if (RecordChecksum(body, header, from, chunk.epoch) != record->header.checksum)
    return VerifyRecord(*pool_, from);
  return Append(header, key, value, body, to);
}

Status RecordRegion::Write(const InternalKey& key, std::string_view value, PmPtr* to) {
  RecordHeader header{};
  header.tag = key.tag;
  header.key_size = static_cast<uint16_t>(key.user_key.size());
  header.value_size = static_cast<uint32_t>(value.size());
  return Append(header, key.user_key, value, BodyChecksum(key.user_key, value), to);
}

Status RecordRegion::Append(RecordHeader header, std::string_view key, std::string_view value,
                            uint32_t body, PmPtr* to) {
  Status s = writer_.Prepare(RecordBytes(0, key.size(), value.size()));
  if (!s.ok()) return s;
  *to = writer_.place();
  // Alone it is no part of a batch, nor does it tell what else was published.
  header.shape = kReachUnknown << 4;
  header.batch_remaining = 0;
  header.checksum = RecordChecksum(body, header, *to, writer_.epoch());
  writer_.Write({reinterpret_cast<const char*>(&header), sizeof(header)});
  writer_.Write(key);
  writer_.Write(value);
  writer_.Pad(sizeof(uint64_t));
  return s;
}

}  // namespace lamella
