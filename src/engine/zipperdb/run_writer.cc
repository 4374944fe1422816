#include "engine/zipperdb/run_writer.h"

#include <algorithm>
#include <utility>

#include "engine/write_path.h"
#include "log/gather.h"

namespace lamella {

namespace {

std::vector<ChunkRef> ChunksOf(const Pool& pool, const Runs& runs) {
  std::vector<ChunkRef> chunks;
  pool.ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == kZipperDbArena && runs.Contains(chunk)) chunks.push_back(chunk);
  });
  std::ranges::sort(chunks, {}, &ChunkRef::ordinal);
  return chunks;
}

}  // namespace

void RunWriter::Begin(uint64_t records, uint64_t bytes) {
  Abandon();
  run_.runs = {owner_, next_ordinal_, next_ordinal_};
  run_.places.reserve(records);
  appender_ =
      std::make_unique<RecordAppender>(pool_, 0, kZipperDbArena, owner_, next_ordinal_, cause_);
  appender_->Expect(bytes);
}

Status RunWriter::Copy(const Record& record) {
  const uint32_t height = WritePath::CopyHeight(record, pool_->chunk_bytes(), &random_);
  const uint64_t bytes = RecordBytes(height, record.key().size(), record.value().size());
  Status s = appender_->Prepare(bytes, Claimant::kReclaim);
  if (!s.ok()) return s;
  run_.places.push_back(appender_->Append(
      {.tag = record.tag(), .key = record.key(), .value = record.value(), .height = height}));
  run_.bytes += bytes;
  run_.last_sequence = std::max(run_.last_sequence, record.sequence());
  return s;
}

void RunWriter::Finish() {
  appender_->Commit();
  appender_->CloseChunk();
  run_.runs.end = next_ordinal_ = appender_->next_ordinal();
  appender_ = nullptr;
}

SortedRun RunWriter::End() {
  Finish();
  SortedRun run = std::move(run_);
  run_.runs = run.runs;
  return run;
}

void RunWriter::Abandon() {
  if (appender_ != nullptr) Finish();
  Persister persister(pool_->gate(), cause_);
  for (const ChunkRef& chunk : ChunksOf(*pool_, run_.runs)) pool_->Free(chunk, &persister);
  run_ = SortedRun{};
}

Status RecordsOfRuns(const Pool& pool, const Runs& runs, SortedRun* run) {
  run->runs = runs;
  Status s;
  for (const ChunkRef& chunk : ChunksOf(pool, runs)) {
    ForEachLiving(
        pool, chunk, WholeBytes(pool, chunk), {},
        [run](const Record* record, PmPtr place) {
          run->places.push_back(place);
          run->bytes += record->bytes();
          run->last_sequence = std::max(run->last_sequence, record->sequence());
        },
        [&](const DamagedPlace& at) {
          if (s.ok()) s = DescribeDamage(pool, PmPtr::DamagedAt(at.from));
        });
  }
  return s;
}

}  // namespace lamella
