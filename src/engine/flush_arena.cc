#include "engine/flush_arena.h"

#include "base/hash.h"
#include "base/random.h"
#include "engine/write_path.h"
#include "memtable/record_walk.h"

namespace lamella {

void FlushArena::Start(ChunkKind kind, uint32_t owner, uint64_t next_ordinal) {
  appender_ =
      std::make_unique<RecordAppender>(pool_, 0, kind, owner, next_ordinal, WriteCause::kFlush);
  floor_.store(next_ordinal, std::memory_order_seq_cst);
}

uint64_t FlushArena::NextOrdinal() const {
  const ChunkRef& open = appender_->open_chunk();
  return open.kind == ChunkKind::kFree ? appender_->next_ordinal() : open.ordinal;
}

uint64_t FlushArena::Begin() {
  const uint64_t first = NextOrdinal();
  floor_.store(first, std::memory_order_seq_cst);
  return first;
}

void FlushArena::End() {
  copies_.clear();
  floor_.store(NextOrdinal(), std::memory_order_seq_cst);
}

Status FlushArena::Copy(const MemTable& memtable, HeadTree* copied) {
  Random random(memtable.id() * 0x9e3779b97f4a7c15ull);
  copies_.reserve(memtable.count());
  for (RecordWalk at(pool_, &memtable.tree()); at.Valid(); at.Next()) {
    Status s = VerifyRecord(*pool_, at.entry().place());
    if (!s.ok()) return s;
    const Record* record = pool_->At<Record>(at.entry().place());
    const uint32_t height = WritePath::CopyHeight(*record, pool_->chunk_bytes(), &random);
    const uint64_t bytes = RecordBytes(height, record->key().size(), record->value().size());
    s = appender_->Prepare(bytes, Claimant::kReclaim);
    if (!s.ok()) return s;
    copies_.push_back(
        appender_->Append({.tag = record->tag(),
                           .key = record->key(),
                           .value = record->value(),
                           .height = height,
                           // after a power cut on page media the copies may be all that
                           // is left of a batch, or of a part of one
                           .batch_remaining = record->header.batch_remaining}));
  }
  appender_->Commit();
  appender_->Seal();                   // the records' links are written from now on
  for (const PmPtr place : copies_) {  // now that their keys can be read there
    const Record* record = pool_->At<Record>(place);
    copied->Insert(record->key(), record->tag(), place, record->height());
  }
  return Status::OK();
}

void FlushArena::Drop(Persister* persister) {
  appender_->Commit();
  appender_->Seal();
  lookup_cache_->AdvanceGeneration();
  for (const PmPtr copy : copies_) {
    Record* const record = pool_->At<Record>(copy);
    if (lookup_cache_->enabled()) lookup_cache_->Remove(Hash64(record->key()), copy);
    record->MarkObsolete(persister);  // no rebuilding may find it beside its original
    dead_->Count(copy);
  }
  persister->Fence();
  End();  // gc may have them
}

}  // namespace lamella
