// The records are the truth, every index is a cache: rebuilding the indexes from the records, and
// checking them.

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "engine/listdb/listdb.h"
#include "engine/listdb/type.h"

namespace lamella {

uint64_t ListDb::ForEachLiving(const ChunkRef& chunk,
                               const std::function<void(const Record*, PmPtr)>& visit,
                               const std::function<void(const Gap&)>& damaged) const {
  std::vector<SequenceGap> voids;
  {
    const MutexLock lock(&catalog_mu_);
    voids = state_.gaps;
  }
  // before the records are read: more may be appended meanwhile
  const uint64_t whole = WholeBytes(*pool_, chunk);
  std::vector<Gap> gaps;
  const uint64_t behind = ForEachRecord(
      *pool_, chunk, 0,
      [&](const Record* record, PmPtr place) {
        if (IsVoid(voids, record->sequence())) return;
        for (const Gap& gap : gaps) damaged(gap);
        gaps.clear();
        visit(record, place);
      },
      [&](PmPtr from, PmPtr to) { gaps.push_back({from, to}); });
  const PmPtr start = pool_->ChunkStart(chunk);
  if (behind < whole)
    damaged({{start.part(), start.offset() + behind}, {start.part(), start.offset() + whole}});
  return behind;
}

bool ListDb::IsLinkedInto(const std::vector<Gap>& gaps) const {
  if (gaps.empty()) return false;
  const auto leads_into = [&](const PmSkipList& list) {
    for (PmPtr at = list.First(); at; at = list.Next(at, 0, 0)) {
      if (at.damaged()) return true;
      for (const Gap& gap : gaps) {
        if (gap.from.word <= at.word && at.word < gap.to.word) return true;
      }
    }
    return false;
  };
  const auto tables = CurrentTables();
  return leads_into(*l1_) ||
         std::any_of(tables->l0.begin(), tables->l0.end(),
                     [&](const auto& table) { return leads_into(*table->list); });
}

// True if bytes that are not zero follow, where the next record would be.
bool ListDb::HoldsMore(const ChunkRef& chunk, uint64_t behind) const {
  const uint64_t end = uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
  const char* const base = pool_->ChunkAddress(chunk);
  for (const uint64_t at : {behind, (behind + kLineBytes - 1) & ~uint64_t{kLineBytes - 1}}) {
    constexpr char kZeros[sizeof(RecordHeader)] = {};
    if (at + sizeof(RecordHeader) <= end &&
        std::memcmp(base + at, kZeros, sizeof(RecordHeader)) != 0)
      return true;
  }
  return false;
}

// What validates and counts. After a power cut on page media that is everything up to the last sync
// and the longest run without a hole after it (P3); in a repair it is everything but a torn batch
// at the end. What a plain log's flush copied counts by its copy: of the originals one shard may
// still have a version whose delete, in a chunk of another, is gone. `lost`: at most so many
// records that do not validate any more, or are not there though another says that they were
// published.
void ListDb::GatherRecords(bool power_cut, bool catalog_lost, std::vector<LogEntry>* kept,
                           uint64_t* sequence_seen, uint64_t* lost) {
  std::vector<LogEntry> all;
  std::vector<SequenceGap> gaps;
  std::vector<LogPosition> boundary;
  uint64_t base;
  uint64_t flushed;
  {
    const MutexLock lock(&catalog_mu_);
    gaps = state_.gaps;
    boundary = state_.boundary;
    base = state_.synced_sequence;
    flushed = state_.flushed_sequence;
  }
  const uint64_t copied = unified_ ? 0 : flushed;
  std::map<uint64_t, uint64_t> whole_bytes;  // of chunks, by where they start
  uint64_t published = 0;
  uint64_t lost_unflushed = 0;  // of the log after the boundary, where every number must be
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != ChunkKind::kLog && chunk.kind != kListDbArena) return;
    // What gc copied is of batches that were whole and synced, and of which some records may be
    // gone.
    const bool copy = chunk.kind == kListDbArena && chunk.owner == kGcArena;
    const LogPosition unflushed =
        chunk.owner < boundary.size() ? boundary[chunk.owner] : LogPosition{};
    // it may have reached the medium without what it counts
    if (power_cut) SetWholeBytes(*pool_, chunk, 0);
    whole_bytes[pool_->ChunkStart(chunk).word] = WholeBytes(*pool_, chunk);
    const uint64_t behind = ForEachLiving(
        chunk,
        [&](const Record* record, PmPtr place) {
          if (chunk.kind == ChunkKind::kLog)
            published = std::max(published, PublishedBefore(record->header));
          if (chunk.kind == ChunkKind::kLog && record->sequence() <= copied) return;
          all.push_back({record->tag(), place, copy ? 0 : record->header.batch_remaining});
        },
        [&](const Gap& gap) {
          const LogPosition at{chunk.ordinal,
                               gap.from.offset() - pool_->ChunkStart(chunk).offset()};
          uint64_t* count =
              chunk.kind == ChunkKind::kLog && at >= unflushed ? &lost_unflushed : lost;
          *count += RecordsLostAtMost(*pool_, gap.from, gap.to);
        });
    // Where a power cut took what the chunk said of itself, a record after the last sound one may
    // be damaged or a write that was cut, and what was flushed has no number that is missed.
    if (!power_cut && whole_bytes[pool_->ChunkStart(chunk).word] == 0 && HoldsMore(chunk, behind))
      ++*lost;
    SetWholeBytes(*pool_, chunk, behind);  // what is lost is reported once
    pool_->Descriptor(chunk.part, chunk.index)->used_bytes.store(behind, std::memory_order_relaxed);
  });
  // Copies of one record side by side, last the one that asks for no more of its batch: gc's.
  std::sort(all.begin(), all.end(), [](const LogEntry& a, const LogEntry& b) {
    return a.tag != b.tag ? a.tag < b.tag : a.batch_remaining > b.batch_remaining;
  });
  *sequence_seen = all.empty() ? 0 : TagSequence(all.back().tag);
  if (!catalog_lost && !power_cut) {
    lost_unflushed = std::max(lost_unflushed, CountMissing(all, flushed, gaps, published));
  }
  *lost += lost_unflushed;
  size_t keep = all.size();
  if (power_cut) {
    uint64_t last = base;
    size_t i = 0;
    while (i < all.size() && TagSequence(all[i].tag) <= base) i++;
    keep = i;
    for (; i < all.size(); i++) {
      uint64_t expected = last + 1;
      for (const SequenceGap& g : gaps) {
        if (g.first <= expected && expected <= g.last) expected = g.last + 1;
      }
      const uint64_t sequence = TagSequence(all[i].tag);
      // the last once more: a copy beside its original
      if (sequence != expected && sequence != last) break;
      last = sequence;
      if (all[i].batch_remaining == 0) keep = i + 1;
    }
  } else {
    const auto was_durable = [&](const LogEntry& e) {
      const auto chunk = std::prev(whole_bytes.upper_bound(e.place.word));
      return TagSequence(e.tag) <= published || e.place.word - chunk->first < chunk->second;
    };
    // Of what was flushed the rest of a batch was there, and may have been dropped since; without a
    // catalog that is not known. Of a batch that was acknowledged and lost its last record to
    // damage since, no part is kept.
    const auto may_lack_rest = [&](const LogEntry& e) {
      return e.batch_remaining == 0 || TagSequence(e.tag) <= flushed;
    };
    for (; keep > 0 && !may_lack_rest(all[keep - 1]); keep--)
      *lost += was_durable(all[keep - 1]) ? 1 : 0;
  }
  all.resize(keep);
  *kept = std::move(all);
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
  std::vector<LogEntry> kept;
  uint64_t sequence_seen = 0;  // of copies in the arena too, whose originals may be lost
  GatherRecords(power_cut, !has_catalog, &kept, &sequence_seen, &report->records_lost);

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
        std::max({last, state->flushed_sequence, contents.sequence_seen, sequence_seen,
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

// One layer of one lane: records that validate, in order, linked by links that do, and held by the
// layer below too (Zipper I5). `places`: those of the layer below, ascending; then of this one.
void ListDb::CheckLayer(const PmSkipList& list, const std::string& name, uint32_t lane,
                        uint32_t layer, uint64_t elements_max, std::vector<uint64_t>* places,
                        CheckReport* report) const {
  const auto problem = [&](const std::string& what) {
    report->problems.push_back(name + ", layer " + std::to_string(layer) + ": " + what);
  };
  std::vector<uint64_t> below;
  below.swap(*places);
  PmPtr before;
  for (uint64_t count = 0;; count++) {
    PmPtr at;
    if (!DecodeLink(list.Link(before, lane, layer)->load(std::memory_order_acquire), &at)) {
      return problem("the link of " +
                     (before ? "the record at " + DescribePlace(*pool_, before) : "the head") +
                     " is damaged");
    }
    if (!at) return;
    if (count == elements_max)
      return problem("more elements than records exist; the links run in a circle");
    Status s = VerifyRecord(*pool_, at);
    if (!s.ok()) return problem(s.ToString());  // links of a damaged record cannot be followed
    const Record* record = list.At(at);
    if (record->height() <= layer || (layer > 0 && list.Lane(at) != lane)) {
      return problem("the record at " + DescribePlace(*pool_, at) + " has no link in this layer");
    }
    if (before && CompareInternal(list.At(before)->internal_key(), record->internal_key()) >= 0) {
      return problem("the record at " + DescribePlace(*pool_, at) +
                     " is not after its predecessor at " + DescribePlace(*pool_, before));
    }
    if (layer == 0) {
      report->records++;
    } else if (!std::binary_search(below.begin(), below.end(), at.word)) {
      return problem("the record at " + DescribePlace(*pool_, at) + " is not in the layer below");
    }
    if (&list == l1_.get() && record->obsolete()) {
      problem("the record at " + DescribePlace(*pool_, at) +
              " is linked, and marked obsolete: gc would free it");
    }
    places->push_back(at.word);
    before = at;
  }
}

void ListDb::CheckList(const PmSkipList& list, const std::string& name, uint64_t elements_max,
                       CheckReport* report) const {
  std::vector<uint64_t> bottom;
  CheckLayer(list, name, 0, 0, elements_max, &bottom, report);
  std::sort(bottom.begin(), bottom.end());
  for (uint32_t lane = 0; lane < list.lane_count(); lane++) {
    std::vector<uint64_t> places = bottom;
    for (uint32_t layer = 1; layer < kHeightMax; layer++) {
      CheckLayer(list, name, lane, layer, elements_max, &places, report);
      std::sort(places.begin(), places.end());
    }
  }
  report->tables++;
}

Status ListDb::Check(CheckReport* report) {
  Status s = FlushAllNow();
  if (!s.ok()) return s;
  // The log before this is read no more but along links: it is in L1 or dead, or (plain log) was
  // copied.
  std::vector<LogPosition> settled;
  {
    const MutexLock lock(&catalog_mu_);
    settled = unified_ ? state_.merged : state_.boundary;
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
        chunk, [&](const Record*, PmPtr) { ++records; },
        [&](const Gap& gap) {
          if (by_links && gap.to != end && !IsLinkedInto({gap})) return;
          report->problems.push_back("damaged record at " + DescribePlace(*pool_, gap.from) +
                                     ": its checksum does not match, nor any in the " +
                                     std::to_string(gap.to.offset() - gap.from.offset()) +
                                     " bytes from there");
        });
  });
  const auto tables = CurrentTables();
  for (const auto& table : tables->l0) {
    CheckList(*table->list, "L0 table " + std::to_string(table->state.id), records, report);
  }
  CheckList(*l1_, "L1", records, report);
  return Status::OK();
}

}  // namespace lamella
