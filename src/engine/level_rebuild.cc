#include "engine/level_rebuild.h"

#include <string_view>

#include "base/random.h"
#include "engine/write_path.h"
#include "index/list_builder.h"

namespace lamella {

// The copies that are not chosen, which a crash within gc or within an earlier rebuilding left, are
// marked: no list leads to them, so nobody would mark them when a newer version comes, and once
// that was a delete and is dropped, the next rebuilding would bring them back. The caller has
// synced what is found, so that one without a mark is left whichever marks a power cut keeps.
Status EnterRebuilt(Pool* pool, const std::vector<LogEntry>& kept, Evacuation* arenas,
                    DeadBytes* dead, Persister* persister, HeadTree* tree) {
  const auto at = [pool](const LogEntry& entry) { return pool->At<Record>(entry.place); };
  Random random(0x5eed);
  for (size_t i = 0; i < kept.size();) {
    const uint64_t tag = kept[i].tag;
    size_t end = i;
    size_t chosen = kept.size();
    for (; end < kept.size() && kept[end].tag == tag; end++) {
      if (at(kept[end])->obsolete()) continue;
      if (chosen == kept.size() || at(kept[chosen])->height() == 0) chosen = end;
    }
    for (; i < end; i++) {
      if (i == chosen) continue;
      if (!at(kept[i])->obsolete()) at(kept[i])->MarkObsolete(persister);
      dead->Count(kept[i].place);
    }
    if (chosen == kept.size()) continue;
    PmPtr place = kept[chosen].place;
    const Record* record = pool->At<Record>(place);
    if (record->height() == 0) {
      const uint32_t height = WritePath::RandomHeight(&random);
      RecordAppender& arena = *arenas->arena(place.part());
      Status s = arena.Prepare(RecordBytes(height, record->key().size(), record->value().size()),
                               Claimant::kReclaim);
      if (!s.ok()) return s;
      place = arena.Append(
          {.tag = tag, .key = record->key(), .value = record->value(), .height = height});
      arena.Commit();
    }
    tree->Insert(pool->At<Record>(place)->key(), tag, place, pool->At<Record>(place)->height());
  }
  arenas->LeaveChunks([](const ChunkRef&) { return true; });
  return Status::OK();
}

// The older ones are marked durably before the deletes that hide them are left out.
RebuiltLevel LinkRebuilt(const HeadTree& tree, const PmSkipList& list, DeadBytes* dead,
                         Persister* persister) {
  RebuiltLevel level;
  ListBuilder builder(&list, [persister](PmWord* word, uint64_t link) {
    persister->Store(word, link);
    persister->Flush(word, sizeof(*word));
  });
  std::string_view previous;
  HeadTree::Iterator at(&tree);
  for (at.SeekToFirst(); at.Valid(); at.Next()) {
    const PmPtr place = at.entry().place();
    Record* record = list.At(place);
    const bool older = record->key() == previous;
    previous = record->key();
    if (older || record->kind() == RecordKind::kDelete) {
      if (older) record->MarkObsolete(persister);
      dead->Count(place);
      continue;
    }
    builder.Append(place);
    level.linked++;
    level.live_bytes += record->key().size() + record->value().size();
  }
  builder.Finish();
  persister->Fence();
  return level;
}

}  // namespace lamella
