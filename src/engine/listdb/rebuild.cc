// The records are the truth, every index is a cache: rebuilding the indexes from the records, and
// checking them.

#include <algorithm>

#include "base/concat.h"
#include "engine/listdb/listdb.h"
#include "engine/listdb/type.h"
#include "engine/skiplist_check.h"

namespace lamella {

bool ListDb::IsLinkedInto(const std::vector<DamagedPlace>& places) const {
  if (places.empty()) return false;
  const auto leads_into = [&](const PmSkipList& list) {
    for (PmPtr at = list.First(); at; at = list.Next(at, 0, 0)) {
      if (at.damaged()) return true;
      for (const DamagedPlace& place : places) {
        if (place.from.word <= at.word && at.word < place.to.word) return true;
      }
    }
    return false;
  };
  const auto tables = CurrentTables();
  return leads_into(*l1_) ||
         std::any_of(tables->l0.begin(), tables->l0.end(),
                     [&](const auto& table) { return leads_into(*table->list); });
}

GatherBasis ListDb::BasisOfGathering(bool power_cut, bool catalog_lost) const {
  const MutexLock lock(&catalog_mu_);
  return {.power_cut = power_cut,
          .catalog_lost = catalog_lost,
          .flush_copies = !unified_,
          .gaps = state_.gaps,
          .boundary = state_.boundary,
          .flushed_sequence = state_.flushed_sequence,
          .synced_sequence = state_.synced_sequence,
          .records_of = [](const ChunkRef& chunk) {
            if (chunk.kind == ChunkKind::kLog) return RecordsOf::kLog;
            if (chunk.kind != kListDbArena) return RecordsOf::kNone;
            return chunk.owner == kGcArena ? RecordsOf::kGarbageCollection : RecordsOf::kFlush;
          }};
}

// Of each version one record: one with links, or, where a plain log's has no room for them, a copy
// made here. The others, which a crash within gc or within an earlier rebuilding left, are marked:
// no list leads to them, so nobody would mark them when a newer version comes, and once that was a
// delete and is dropped, the next rebuilding would bring them back. Rebuild has synced what is
// found, so that one without a mark is left whichever marks a power cut keeps.
Status ListDb::EnterRebuilt(const std::vector<LogEntry>& kept, HeadTree* tree) {
  Random random(0x5eed);
  for (size_t i = 0; i < kept.size();) {
    const uint64_t tag = kept[i].tag;
    size_t end = i;
    size_t chosen = kept.size();
    for (; end < kept.size() && kept[end].tag == tag; end++) {
      if (pool_->At<Record>(kept[end].place)->obsolete()) continue;
      if (chosen == kept.size() || pool_->At<Record>(kept[chosen].place)->height() == 0)
        chosen = end;
    }
    for (; i < end; i++) {
      if (i == chosen) continue;
      Record* other = pool_->At<Record>(kept[i].place);
      if (!other->obsolete()) other->MarkObsolete(&compaction_persister_);
      CountDead(kept[i].place, other->bytes());
    }
    if (chosen == kept.size()) continue;
    PmPtr place = kept[chosen].place;
    const Record* record = pool_->At<Record>(place);
    if (record->height() == 0) {
      const uint32_t height = WritePath::RandomHeight(&random);
      RecordAppender& arena = *gc_arenas_[place.part()];
      Status s = arena.Prepare(RecordBytes(height, record->key().size(), record->value().size()),
                               Claimant::kReclaim);
      if (!s.ok()) return s;
      place = arena.Append(
          {.tag = tag, .key = record->key(), .value = record->value(), .height = height});
      arena.Commit();
    }
    tree->Insert(pool_->At<Record>(place)->key(), tag, place, pool_->At<Record>(place)->height());
  }
  return Status::OK();
}

// Links the newest version of each key; marks the older ones, durably, before the deletes that
// hide them are left out.
Status ListDb::LinkRebuilt(const HeadTree& tree, SkipListHeads* heads, uint64_t* linked) {
  Persister& persister = compaction_persister_;
  PmWord* last[kPoolPartsMax][kHeightMax];
  for (uint32_t lane = 0; lane < kPoolPartsMax; lane++) {
    for (uint32_t layer = 0; layer < kHeightMax; layer++)
      last[lane][layer] = &heads->next[lane][layer];
  }
  uint32_t lanes = 1;
  {
    const MutexLock lock(&catalog_mu_);
    lanes = state_.lanes;
  }
  const PmSkipList list(pool_, heads, lanes > 1);
  const auto set = [&](PmWord* word, PmPtr to) {
    persister.Store(word, EncodeLink(to));
    persister.Flush(word, sizeof(*word));
  };
  std::string_view previous;
  HeadTree::Iterator at(&tree);
  for (at.SeekToFirst(); at.Valid(); at.Next()) {
    const PmPtr place = at.entry().place();
    Record* record = pool_->At<Record>(place);
    const bool older = record->key() == previous;
    previous = record->key();
    if (older || record->kind() == RecordKind::kDelete) {
      if (older) record->MarkObsolete(&persister);
      CountDead(place, record->bytes());
      continue;
    }
    AddLive(record);
    const uint32_t lane = list.Lane(place);
    for (uint32_t layer = 0; layer < record->height(); layer++) {
      PmWord*& before = last[layer == 0 ? 0 : lane][layer];
      set(before, place);
      before = record->link(layer);
    }
    ++*linked;
  }
  for (auto& lane : last) {
    for (PmWord* word : lane) set(word, PmPtr());
  }
  persister.Fence();
  return Status::OK();
}

// Persist order, and what a crash after each step leaves:
//   1  the edit kRebuildBegin    the next open rebuilds again
//   2  links and marks           the same; the new heads are in a chunk that no state names
//   3  the edit kRebuildDone     the rebuilt L1; no L0, no log after the boundary
Status ListDb::Rebuild(RepairReport* report) {
  unified_ = (pool_->state().engine_flags & kListDbFlagUnifiedLog) != 0;
  bool power_cut = LosesUnsynced() && !pool_->state().clean && !pool_->state().same_boot;
  Status s;
  bool has_catalog = false;
  {
    const MutexLock lock(&catalog_mu_);
    has_catalog = catalog_ != nullptr;
  }
  if (!has_catalog && pool_->state().catalog_chunk != 0) {
    s = OpenCatalog();
    has_catalog = s.ok();
    if (!s.ok()) {
      report->notes.push_back("the catalog is lost (" + s.ToString() +
                              "); numbers declared void are not known");
      power_cut = false;  // nor is what was synced: everything that validates is kept
    }
  }
  // Where chunks are lost, a number that is missing does not tell that what follows was never
  // synced.
  if (report->records_lost != 0) power_cut = false;
  // With the edit kRebuildBegin in it: a crash must not leave an empty store.
  if (!has_catalog) s = CreateEmpty(true);
  if (s.ok())
    s = Edit(ListDbEdit::kRebuildBegin, [](ListDbState* state) { state->rebuilding = true; });
  if (s.ok()) s = pool_->Sync();
  if (!s.ok()) return s;
  MakeArenas();
  // of copies in the arena too, whose originals may be lost
  const Gathered gathered = GatherRecords(pool_, BasisOfGathering(power_cut, !has_catalog));
  const std::vector<LogEntry>& kept = gathered.kept;
  report->records_lost += gathered.lost;

  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    pool_->Descriptor(chunk.part, chunk.index)->dead_bytes.store(0, std::memory_order_relaxed);
  });
  HeadTree tree(pool_);
  s = EnterRebuilt(kept, &tree);
  if (!s.ok()) return s;
  for (auto& arena : gc_arenas_) arena->CloseChunk();

  ChunkRef heads;
  s = pool_->Claim(0, kListDbHeads, 0, 1, 1, Claimant::kIndex, &compaction_persister_, &heads);
  if (!s.ok()) return s;
  ClearHeads(reinterpret_cast<SkipListHeads*>(pool_->ChunkAddress(heads)), &compaction_persister_);
  uint64_t linked = 0;
  live_bytes_.store(0, std::memory_order_relaxed);
  s = LinkRebuilt(tree, reinterpret_cast<SkipListHeads*>(pool_->ChunkAddress(heads)), &linked);
  if (s.ok()) s = pool_->Sync();
  if (!s.ok()) return s;

  LogContents contents;  // for the shards' ordinals and the numbers that were seen
  s = ReadLog(*pool_, {}, 0, {}, true, &contents);
  if (!s.ok()) return s;
  const uint64_t last = kept.empty() ? 0 : TagSequence(kept.back().tag);
  s = Edit(ListDbEdit::kRebuildDone, [&](ListDbState* state) {
    state->l1_heads = pool_->ChunkStart(heads);
    state->l1_count = linked;
    state->live_bytes = live_bytes_.load(std::memory_order_relaxed);
    state->uncounted = false;
    state->l0.clear();
    state->merging = 0;
    state->boundary.clear();
    for (const uint64_t ordinal : contents.next_ordinal) state->boundary.push_back({ordinal, 0});
    state->merged = state->boundary;
    const uint64_t seen =
        std::max({last, state->flushed_sequence, contents.sequence_seen, gathered.sequence_seen,
                  state->gaps.empty() ? 0 : state->gaps.back().last});
    // what was cut off must not come back with the next rebuilding
    AddGap(&state->gaps, last, seen);
    state->flushed_sequence = state->merged_sequence = seen;
    state->synced_sequence = state->flushed_sequence;
    state->rebuilding = false;
  });
  if (s.ok()) s = pool_->Sync();
  report->records_kept += linked;
  return s;
}

Status ListDb::Check(CheckReport* report) {
  Status s = FlushAllNow();
  if (!s.ok()) return s;
  // The log before this is read no more but along links: it is in L1 or dead, or (plain log) was
  // copied.
  std::vector<LogPosition> settled;
  std::vector<SequenceGap> voids;
  {
    const MutexLock lock(&catalog_mu_);
    settled = unified_ ? state_.merged : state_.boundary;
    voids = state_.gaps;
  }
  uint64_t records = 0;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    report->chunks++;
    if (chunk.kind != ChunkKind::kLog && chunk.kind != kListDbArena) return;
    // There a tear that no link leads into lost nothing: on page media a power cut may bring back
    // the owner of a chunk that was freed and already written over.
    const bool by_links =
        chunk.kind == kListDbArena ||
        (chunk.owner < settled.size() && chunk.ordinal < settled[chunk.owner].ordinal);
    const PmPtr end =
        PmPtr(chunk.part, pool_->ChunkStart(chunk).offset() + WholeBytes(*pool_, chunk));
    ForEachLiving(
        *pool_, chunk, voids, [&](const Record*, PmPtr) { ++records; },
        [&](const DamagedPlace& at) {
          if (by_links && at.to != end && !IsLinkedInto({at})) return;
          report->problems.push_back(Concat("damaged record at ", DescribePlace(*pool_, at.from),
                                            ": its checksum does not match, nor any in the ",
                                            at.to.offset() - at.from.offset(),
                                            " bytes from there"));
        });
  });
  const auto tables = CurrentTables();
  for (const auto& table : tables->l0) {
    CheckSkipList(*pool_, *table->list,
                  {.name = Concat("L0 table ", table->state.id), .elements_max = records}, report);
  }
  CheckSkipList(*pool_, *l1_, {.name = "L1", .elements_max = records, .obsolete_is_damage = true},
                report);
  return Status::OK();
}

}  // namespace lamella
