#include "engine/level_rebuild.h"

#include <algorithm>
#include <string_view>

#include "base/concat.h"
#include "base/random.h"
#include "engine/list_heads.h"
#include "engine/write_path.h"
#include "index/list_builder.h"

namespace lamella {

// A pool without a catalog was never synced.
bool IsSyncedUnknown(const Pool& pool, bool catalog_lost, uint64_t synced_sequence,
                     RepairReport* report) {
  if (catalog_lost) return pool.state().catalog_chunk != 0;
  if (synced_sequence != kSyncedUnknown) return false;
  report->notes.emplace_back("the rebuilding of a store whose catalog was lost is gone on with");
  return true;
}

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
      if (at(kept[end])->hidden()) continue;
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
LinkedRecords LinkRebuilt(const HeadTree& tree, const PmSkipList& list, DeadBytes* dead,
                          Persister* persister) {
  LinkedRecords linked;
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
    linked.count++;
    linked.live_bytes += record->key().size() + record->value().size();
  }
  builder.Finish();
  persister->Fence();
  return linked;
}

namespace {

// Of those dropped the ones before the last that is kept, as runs.
std::vector<SequenceGap> NumbersDropped(std::vector<uint64_t> dropped,
                                        const std::vector<LogEntry>& kept) {
  std::vector<SequenceGap> runs;
  std::ranges::sort(dropped);
  auto at = kept.begin();
  for (const uint64_t number : dropped) {
    while (at != kept.end() && TagSequence(at->tag) < number) ++at;
    if (at == kept.end()) break;
    if (TagSequence(at->tag) == number) continue;
    if (!runs.empty() && number <= runs.back().last + 1) {
      runs.back().last = number;
    } else {
      runs.push_back({number, number});
    }
  }
  return runs;
}

}  // namespace

Status RebuildLevel(Pool* pool, const GatherBasis& basis, bool may_lose, ChunkKind heads,
                    bool braided, Evacuation* arenas, DeadBytes* dead, Persister* persister,
                    RebuiltLevel* level, uint64_t list_id) {
  const Gathered gathered = GatherRecords(pool, basis);
  level->records_lost = gathered.lost;
  if (!may_lose && gathered.lost_to_damage != 0) {
    return Status::Corruption(
        Concat("at most ", gathered.lost_to_damage,
               " records that were acknowledged do not match their checksums, or are missing; "
               "`lamella repair`, also where one was cut, saves what validates"));
  }
  level->reach = gathered.reach;
  pool->ForEachChunk([&](const ChunkRef& chunk) {
    pool->Descriptor(chunk.part, chunk.index)->dead_bytes.store(0, std::memory_order_relaxed);
  });
  std::vector<uint64_t> dropped;
  for (const PmPtr place : gathered.dropped) {
    Record* record = pool->At<Record>(place);
    record->MarkObsolete(persister);
    dead->Count(place);
    dropped.push_back(record->sequence());
  }
  HeadTree tree(pool);
  Status s = EnterRebuilt(pool, gathered.kept, arenas, dead, persister, &tree);
  if (s.ok()) s = ClaimHeads(pool, heads, persister, &level->heads, list_id);
  if (!s.ok()) return s;
  const PmSkipList list(pool, pool->At<SkipListHeads>(level->heads), braided);
  level->linked = LinkRebuilt(tree, list, dead, persister);
  s = pool->Sync();
  LogContents contents;  // for the shards' ordinals and the numbers that were seen
  if (s.ok()) s = ReadLog(*pool, {}, 0, {}, true, &contents);
  for (const uint64_t ordinal : contents.next_ordinal) level->log_end.push_back({ordinal, 0});
  level->sequence_last = gathered.kept.empty() ? 0 : TagSequence(gathered.kept.back().tag);
  level->dropped = NumbersDropped(std::move(dropped), gathered.kept);
  level->sequence_seen =
      std::max({level->sequence_last, contents.sequence_seen, gathered.sequence_seen,
                pool->SyncedThrough()});  // of a number that counts as synced none is to come
  return s;
}

uint64_t DeclareVoid(const RebuiltLevel& level, uint64_t flushed_sequence,
                     std::vector<SequenceGap>* gaps) {
  const uint64_t seen = std::max(
      {flushed_sequence, level.sequence_seen, gaps->empty() ? uint64_t{0} : gaps->back().last});
  for (const SequenceGap& dropped : level.dropped) {  // none of them is void yet
    const auto after = std::ranges::lower_bound(*gaps, dropped.first, {}, &SequenceGap::first);
    gaps->insert(after, dropped);
  }
  AddGap(gaps, level.sequence_last, seen);
  return seen;
}

}  // namespace lamella
