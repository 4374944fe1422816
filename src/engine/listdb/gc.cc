// Garbage collection of chunks (6.5.4, and the future work named there): the living records of
// mostly dead chunks are copied in key order into fresh chunks, which also restores locality, and
// the old chunks become free. Which chunks those are victims.h says.
//
// It comes to an end: a chunk is evacuated only where it has dead records, or is sparse and of an
// earlier session, and the copies are neither.

#include <algorithm>
#include <array>

#include "base/hash.h"
#include "engine/listdb/listdb.h"

namespace lamella {

namespace {

// Searches whose results are used before the next begin: what they fetched is still in the
// processor's caches.
constexpr size_t kPlacesAtOnce = 1024;

}  // namespace

struct ListDb::Victim {
  PmPtr place;
  size_t chunk;  // of the victims
};

PmPtr ListDb::FindBeforeInL1(const InternalKey& key) const {
  return l1_->FindBefore(key, second_chance_.FindAtOrBefore(JustBefore(key)), nullptr);
}

ListDb::InL1 ListDb::FindInL1(PmPtr place, PmPtr* before) const {
  *before = FindBeforeInL1(pool_->At<Record>(place)->internal_key());
  return InL1By({place, *before, before->damaged() ? *before : l1_->Next(*before, 0, 0)});
}

ListDb::InL1 ListDb::InL1By(const Zipper::Place& found) const {
  if (found.next == found.element) return InL1::kLinked;
  const bool astray = found.next.damaged() ||
                      (found.before && !VerifyRecord(*pool_, found.before).ok()) ||
                      (found.next && !VerifyRecord(*pool_, found.next).ok());
  return astray ? InL1::kUnknown : InL1::kNotLinked;
}

bool ListDb::HasOlderBehind(PmPtr place) const {
  const PmPtr next = l1_->Next(place, 0, 0);
  return next && (next.damaged() || l1_->At(next)->key() == l1_->At(place)->key());
}

// Takes a linked element out of L1 if it is an old version that nobody needs, or a delete with
// nothing after it.
ListDb::Drop ListDb::DropIfDead(PmPtr before, PmPtr place) {
  Record* record = pool_->At<Record>(place);
  const bool is_delete = record->kind() == RecordKind::kDelete;
  const bool newer_exists = before && l1_->At(before)->key() == record->key();
  const bool hides_none = is_delete && !HasOlderBehind(place);
  if (!newer_exists || snapshots_.Needed(record->sequence(), l1_->At(before)->sequence())) {
    if (newer_exists || !hides_none) return Drop::kNeeded;
    // What keeps it keeps freed chunks too: those who read when it was merged, or when what it
    // hid was dropped (I4).
    const uint64_t settled = settled_sequence_->load(std::memory_order_acquire);
    if (record->sequence() > settled || pinned_tombstones_->Holds(record->sequence()))
      return Drop::kLater;
  }
  // What is to be remembered has its room before anything is changed.
  std::vector<PmPtr>& dropped = is_delete ? dropped_deletes_ : dropped_puts_;
  if (dropped.size() == dropped.capacity()) dropped.reserve(2 * dropped.size() + 1);
  const bool hidden = newer_exists && l1_->At(before)->kind() == RecordKind::kDelete;
  if (hidden) pinned_tombstones_->Add(l1_->At(before)->sequence());
  if (!Zipper(l1_.get(), &gc_persister_, this).Unlink(before, place)) return Drop::kNeeded;
  // A delete was counted when nothing lay after it any more.
  if (!hides_none) CountDead(place, record->bytes());
  if (hidden && !HasOlderBehind(before)) CountDead(before, l1_->At(before)->bytes());
  if (!is_delete) SubtractLive(record);
  dropped.push_back(place);
  Forget(record, place);
  l1_count_.fetch_sub(1, std::memory_order_relaxed);
  return Drop::kDropped;
}

// Marks what was dropped. What a crash after each step leaves (StoreCrash):
//   1  unlinked, fence       nothing marked, all of it found again by the next gc
//   2  puts marked, synced   a rebuilding finds the deletes, and no put after them
//   3  deletes marked        a rebuilding finds neither
// A mark before its unlinking is durable would let gc free what is linked still. The fence is also
// what makes the marks of earlier passes durable: a delete is never dropped in the pass that drops
// what it hides (PinnedTombstones), so its put's mark is older.
Status ListDb::MarkDropped() {
  if (dropped_puts_.empty() && dropped_deletes_.empty()) return Status::OK();
  gc_persister_.Fence();
  for (const PmPtr place : dropped_puts_) pool_->At<Record>(place)->MarkObsolete(&gc_persister_);
  dropped_puts_.clear();
  Status s;
  if (!dropped_deletes_.empty()) {
    if (LosesUnsynced()) s = pool_->Sync();
    if (s.ok()) {
      for (const PmPtr place : dropped_deletes_)
        pool_->At<Record>(place)->MarkObsolete(&gc_persister_);
    }
    dropped_deletes_.clear();
  }
  return s;
}

// Lets go of the deletes that lost what they hid, once no iterator is left that may stand on
// it.
void ListDb::UnpinTombstones() {
  const auto generation = std::make_shared<uint64_t>(0);
  EpochDomain::Retirement retirement(
      [pinned = pinned_tombstones_, generation, news = settled_news_] {
        pinned->Forget(*generation);
        news->store(true, std::memory_order_release);
      });
  *generation = pinned_tombstones_->Close();
  if (*generation != 0) pool_->holders()->Retire(std::move(retirement));
}

// Finds what lives in the victims, in key order, and drops what is dead. A victim with damage is
// left as it is: moving records would give them fresh checksums. One with a delete that may go as
// soon as some reader is gone waits: freed now, it would wait for that reader all the same.
Status ListDb::GatherLive(std::vector<ChunkRef>* victims, std::vector<Victim>* live) {
  std::vector<SequenceGap> voids;
  {
    const MutexLock lock(&catalog_mu_);
    voids = state_.gaps;
  }
  std::vector<Victim> unmarked;
  std::vector<HeldBack> chunks(victims->size());
  std::vector<bool> stays(victims->size());
  for (size_t i = 0; i < victims->size(); i++) {
    const ChunkRef& chunk = (*victims)[i];
    std::vector<DamagedPlace> damaged;
    ForEachLiving(
        *pool_, chunk, voids,
        [&](const Record* record, PmPtr place) {
          if (!record->obsolete()) unmarked.push_back({place, i});
        },
        [&](const DamagedPlace& at) { damaged.push_back(at); });
    // Else what is torn was dead (Check says how that comes). Of what is damaged `check` names the
    // place.
    chunks[i] = {chunk.epoch, IsLinkedInto(damaged)};
    stays[i] = chunks[i].damaged;
  }
  std::sort(unmarked.begin(), unmarked.end(), [&](const Victim& a, const Victim& b) {
    return CompareInternal(pool_->At<Record>(a.place)->internal_key(),
                           pool_->At<Record>(b.place)->internal_key()) < 0;
  });
  const Zipper searches(l1_.get(), &gc_persister_, this);
  std::vector<Zipper::Place> places;
  for (size_t from = 0; from < unmarked.size(); from += kPlacesAtOnce) {
    const size_t to = std::min(unmarked.size(), from + kPlacesAtOnce);
    places.clear();
    for (size_t i = from; i < to; i++) places.push_back({.element = unmarked[i].place});
    searches.FindPlaces(places);
    PmPtr dropped;  // the last, which may have been before the next
    for (size_t i = from; i < to; i++) {
      const Victim& victim = unmarked[i];
      PmPtr before = places[i - from].before;
      const InL1 in_l1 =
          dropped && before == dropped ? FindInL1(victim.place, &before) : InL1By(places[i - from]);
      if (in_l1 != InL1::kLinked) {  // replaced, or never linked
        if (in_l1 == InL1::kUnknown) chunks[victim.chunk].damaged = stays[victim.chunk] = true;
        continue;
      }
      const Drop drop = DropIfDead(before, victim.place);
      if (drop == Drop::kDropped) dropped = victim.place;
      if (drop == Drop::kNeeded) live->push_back(victim);
      if (drop == Drop::kLater) stays[victim.chunk] = true;
    }
  }
  std::vector<ChunkRef> sound;
  for (size_t i = 0; i < victims->size(); i++) {
    if (stays[i]) {
      held_back_[ChunkKey((*victims)[i])] = chunks[i];
    } else {
      sound.push_back((*victims)[i]);
    }
  }
  std::erase_if(*live, [&](const Victim& victim) { return stays[victim.chunk]; });
  *victims = std::move(sound);
  return MarkDropped();
}

// Copies the living, given in key order, into the arenas; durable on return.
Status ListDb::CopyLive(std::span<const Victim> live, std::vector<Zipper::Move>* moves) {
  moves->reserve(live.size());
  Status s;
  for (const auto& [place, chunk] : live) {
    const Record* record = pool_->At<Record>(place);
    RecordAppender& arena = *gc_arenas_[place.part()];
    s = NoThrow([&] { return arena.Prepare(record->bytes(), Claimant::kReclaim); });
    if (!s.ok()) break;
    moves->push_back({place, arena.Append({.tag = record->tag(),
                                           .key = record->key(),
                                           .value = record->value(),
                                           .height = record->height()})});
    gc_bytes_relocated_.fetch_add(record->bytes(), std::memory_order_relaxed);
  }
  for (auto& arena : gc_arenas_) {
    arena->Commit();
    arena->Seal();  // links of what it holds are written from now on
  }
  return s;
}

// Copies the living and swings the links to the copies (Zipper::Replace). A crash before that
// leaves the copies in no list: dead space in the arena, which recovery marks (MarkOrphans). The
// victims are owned until all is durable.
Status ListDb::Relocate(std::span<const Victim> live) {
  std::vector<Zipper::Move> moves;
  Status s = CopyLive(live, &moves);
  if (s.ok()) s = NoThrow([&] { return Zipper(l1_.get(), &gc_persister_, this).Replace(moves); });
  if (!s.ok()) {  // what was copied so far is dead space
    for (const auto& [from, to] : moves) {
      // no rebuilding may find it when its original is gone
      pool_->At<Record>(to)->MarkObsolete(&gc_persister_);
      CountDead(to, pool_->At<Record>(to)->bytes());
    }
    return s;
  }
  // The order keeps LookupCache I3: once the second-chance cache names the copies, no search finds
  // an original any more; whoever did is refused from the advance on, and what it had put in before
  // is replaced after it.
  for (const auto& [from, to] : moves) {
    // The same internal key: takes the new address.
    if (!second_chance_.Insert(pool_->At<Record>(to), to))
      second_chance_.Remove(pool_->At<Record>(from), from);
  }
  lookup_cache_.AdvanceGeneration();
  for (const auto& [from, to] : moves) {
    if (lookup_cache_.enabled())
      lookup_cache_.Replace(Hash64(pool_->At<Record>(to)->key()), from, to);
  }
  // the copies, before the originals are marked
  if (!moves.empty() && LosesUnsynced()) s = pool_->Sync();
  if (!s.ok()) return s;
  // Their chunks may stay for a while, and be read by a rebuilding.
  for (const auto& [from, to] : moves) pool_->At<Record>(from)->MarkObsolete(&gc_persister_);
  return Status::OK();
}

// As if each copy began a chunk that the one before leaves no room in. Others may claim meanwhile:
// then Relocate ends with NoSpace.
bool ListDb::ReserveCopiesOf(std::span<const Victim> live, CompactionRoom* room_in_first) const {
  std::array<uint64_t, kPoolPartsMax> chunks{};
  std::array<uint64_t, kPoolPartsMax> room{};
  for (const Victim& victim : live) {
    const uint32_t part = victim.place.part();
    const uint64_t bytes = pool_->At<Record>(victim.place)->bytes();
    if (bytes > room[part]) {
      const uint64_t needed = (bytes + pool_->chunk_bytes() - 1) / pool_->chunk_bytes();
      chunks[part] += needed;
      room[part] = needed * pool_->chunk_bytes();
    }
    room[part] -= bytes;
  }
  for (uint32_t part = 1; part < pool_->part_count(); part++) {
    if (chunks[part] > pool_->chunks_available(part)) return false;
  }
  return chunks[0] == 0 || room_in_first->Reserve(chunks[0] * pool_->chunk_bytes());
}

// Evacuates the chunks and frees them. NoSpace: there was no room for the copies, and they stay as
// they are.
Status ListDb::Evacuate(std::vector<ChunkRef> victims, bool* progress) {
  std::vector<Victim> live;
  Status s = GatherLive(&victims, &live);
  CompactionRoom room(this);
  if (s.ok() && !ReserveCopiesOf(live, &room))
    s = Status::NoSpace("no chunks for the copies that gc makes");
  if (s.ok()) s = Relocate(live);
  gc_persister_.Fence();  // links, marks: before any victim is free (I5)
  if (s.ok() && LosesUnsynced()) s = SyncAll();
  if (!s.ok()) return s;
  for (const ChunkRef& chunk : victims) pending_frees_.Free(chunk);
  *progress = *progress || !victims.empty();
  return s;
}

// One pass: as much as one job should copy.
Status ListDb::CollectGarbage(GcGoal goal, bool* progress) {
  *progress = false;
  snapshots_ = context_.snapshots->Now();
  // that one looks at few chunks
  if (goal != GcGoal::kEnd) garbage_bytes_.store(0, std::memory_order_relaxed);
  for (bool again = true; again;) {
    if (settled_news_->exchange(false)) {
      std::erase_if(held_back_, [](const auto& held) { return !held.second.damaged; });
    }
    const SpaceTarget target{.bytes_per_live = context_.options->space_target,
                             .live_bytes = live_bytes_.load(std::memory_order_relaxed),
                             .chunk_bytes = pool_->chunk_bytes()};
    const std::vector<ChunkRef> victims = PickVictims(goal, target, Survey());
    if (!victims.empty()) {
      Status s = Evacuate(victims, progress);
      // A full pool: one at a time, the emptiest first, until the copies no longer fit.
      for (size_t i = 0; i < victims.size() && s.IsNoSpace(); i++) {
        s = Evacuate({victims[i]}, progress);
        if (s.IsNoSpace()) break;
        pool_->CollectDeferred();
        if (i + 1 < victims.size()) s = Status::NoSpace("the rest is to do");
      }
      if (!s.ok() && !s.IsNoSpace()) return s;
    }
    UnpinTombstones();
    pool_->CollectDeferred();
    // Where nobody reads, what waited for readers need not wait for the next pass.
    again = !*progress && settled_news_->load(std::memory_order_acquire);
  }
  if (goal == GcGoal::kAll && !*progress) unreclaimed_bytes_.store(0, std::memory_order_relaxed);
  gc_runs_.fetch_add(1, std::memory_order_relaxed);
  return Status::OK();
}

// Walks L1 over [begin, end), or the first `elements_max` of it, and takes out what nobody needs
// any more. Damage ends it. `rest` is where it stopped short, else empty.
Status ListDb::SweepRange(std::string_view begin, std::string_view end, uint64_t elements_max,
                          std::string* rest) {
  snapshots_ = context_.snapshots->Now();
  rest->clear();
  PmPtr before = begin.empty() ? PmPtr() : FindBeforeInL1({begin, kTagFirst});
  if (before.damaged()) return DescribeDamage(*pool_, before);
  PmPtr at = l1_->Next(before, 0, 0);
  for (uint64_t elements = 0; at && !at.damaged(); elements++) {
    const Record* record = l1_->At(at);
    if (!end.empty() && record->key() >= end) break;
    if (elements >= elements_max && (!before || l1_->At(before)->key() != record->key())) {
      rest->assign(record->key());
      break;
    }
    const PmPtr next = l1_->Next(at, 0, 0);
    if (DropIfDead(before, at) == Drop::kDropped) {
      at = next;
      continue;
    }
    // A delete hides the versions after it while those are dropped one by one: look at it again
    // when they are gone.
    PmPtr behind = next;
    while (behind && !behind.damaged() && l1_->At(behind)->key() == record->key() &&
           DropIfDead(at, behind) == Drop::kDropped) {
      behind = l1_->Next(at, 0, 0);
    }
    if (DropIfDead(before, at) != Drop::kDropped) before = at;
    at = behind;
  }
  // the last marks are hints: a delete may be found again, a put has a newer version
  Status s = MarkDropped();
  UnpinTombstones();
  if (at.damaged()) return DescribeDamage(*pool_, at);
  return s;
}

}  // namespace lamella
