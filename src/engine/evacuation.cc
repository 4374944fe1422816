#include "engine/evacuation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/no_throw.h"
#include "log/record_appender.h"

namespace lamella {

namespace {

// A chunk is sparse where less than this part of it is used.
constexpr uint64_t kSparsePart = 4;
// Passes over the pool's end in one job.
constexpr int kClearPassesMax = 4;

// Searches whose results are used before the next begin: what they fetched is still in the
// processor's caches.
constexpr size_t kPlacesAtOnce = 1024;

}  // namespace

/// What the owner keeps for copies, while this lives.
Evacuation::Evacuation(Pool* pool, PmLevel* level, DeadBytes* dead, PendingFrees* frees,
                       EvacuationOwner* owner, double space_target)
    : pool_(pool),
      level_(level),
      dead_(dead),
      frees_(frees),
      owner_(owner),
      space_target_(space_target) {}

void Evacuation::Start(ChunkKind kind, uint32_t chunk_owner, uint64_t next_ordinal) {
  arenas_.clear();
  for (uint32_t part = 0; part < pool_->part_count(); part++) {
    arenas_.push_back(std::make_unique<RecordAppender>(pool_, part, kind, chunk_owner, next_ordinal,
                                                       WriteCause::kGc));
  }
}

void Evacuation::LeaveChunks(const std::function<bool(const ChunkRef&)>& leave) {
  for (const auto& arena : arenas_) {
    if (arena->open_chunk().kind != ChunkKind::kFree && leave(arena->open_chunk()))
      arena->CloseChunk();
  }
}

// Finds what lives in the victims, in key order, and drops what is dead. A victim with damage stays
// (I3). One with a delete that may go as soon as some reader is gone waits: freed now, it would
// wait for that reader all the same.
Status Evacuation::GatherLive(std::vector<ChunkRef>* victims, std::vector<Victim>* live) {
  const std::vector<SequenceGap> voids = owner_->VoidSequences();
  std::vector<Victim> unmarked;
  std::vector<HeldBack> chunks(victims->size());
  std::vector<bool> stays(victims->size());
  for (size_t i = 0; i < victims->size(); i++) {
    const ChunkRef& chunk = (*victims)[i];
    std::vector<DamagedPlace> damaged;
    ForEachLiving(
        *pool_, chunk, WholeBytes(*pool_, chunk), voids,
        [&](const Record* record, PmPtr place) {
          if (!record->obsolete()) unmarked.push_back({place, i});
        },
        [&](const DamagedPlace& at) { damaged.push_back(at); });
    // Else what is torn was dead (Check says how that comes). Of what is damaged `check` names the
    // place.
    chunks[i] = {chunk.epoch, owner_->IsLinkedInto(damaged)};
    stays[i] = chunks[i].damaged;
  }
  std::sort(unmarked.begin(), unmarked.end(), [&](const Victim& a, const Victim& b) {
    return CompareInternal(pool_->At<Record>(a.place)->internal_key(),
                           pool_->At<Record>(b.place)->internal_key()) < 0;
  });
  std::vector<Zipper::Place> places;
  for (size_t from = 0; from < unmarked.size(); from += kPlacesAtOnce) {
    const size_t to = std::min(unmarked.size(), from + kPlacesAtOnce);
    places.clear();
    for (size_t i = from; i < to; i++) places.push_back({.element = unmarked[i].place});
    level_->FindPlaces(places);
    PmPtr dropped;  // the last, which may have been before the next
    for (size_t i = from; i < to; i++) {
      const Victim& victim = unmarked[i];
      PmPtr before = places[i - from].before;
      const PmLevel::Linked linked = dropped && before == dropped
                                         ? level_->FindLinked(victim.place, &before)
                                         : level_->LinkedBy(places[i - from]);
      if (linked != PmLevel::Linked::kLinked) {  // replaced, or never linked
        if (linked == PmLevel::Linked::kUnknown)
          chunks[victim.chunk].damaged = stays[victim.chunk] = true;
        continue;
      }
      const PmLevel::Drop drop = level_->DropIfDead(before, victim.place);
      if (drop == PmLevel::Drop::kDropped) dropped = victim.place;
      if (drop == PmLevel::Drop::kNeeded) live->push_back(victim);
      if (drop == PmLevel::Drop::kLater) stays[victim.chunk] = true;
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
  return level_->MarkDropped();
}

// Copies the living, given in key order, into the arenas; durable on return.
Status Evacuation::CopyLive(std::span<const Victim> live, std::vector<Zipper::Move>* moves) {
  moves->reserve(live.size());
  Status s;
  for (const auto& [place, chunk] : live) {
    const Record* record = pool_->At<Record>(place);
    RecordAppender& arena = *arenas_[place.part()];
    s = NoThrow([&] { return arena.Prepare(record->bytes(), Claimant::kReclaim); });
    if (!s.ok()) break;
    moves->push_back({place, arena.Append({.tag = record->tag(),
                                           .key = record->key(),
                                           .value = record->value(),
                                           .height = record->height()})});
    bytes_relocated_.fetch_add(record->bytes(), std::memory_order_relaxed);
  }
  for (auto& arena : arenas_) {
    arena->Commit();
    arena->Seal();  // links of what it holds are written from now on
  }
  return s;
}

// Copies the living and swings the links to the copies. What a crash after each step leaves:
//   1  copies, durable                   in no list: dead space in the arena (MarkOrphans)
//   2  originals marked as leaving       a rebuilding finds the copies, an open the originals
//   3  links to the copies, durable      an open finds the copies, too
//   4  originals marked as obsolete      their chunks may stay for a while
// The victims are owned until all is durable.
Status Evacuation::Relocate(std::span<const Victim> live) {
  std::vector<Zipper::Move> moves;
  Persister* const persister = level_->persister();
  Status s = CopyLive(live, &moves);
  if (s.ok() && !moves.empty() && pool_->LosesUnsynced()) s = pool_->Sync();
  if (s.ok()) {
    // durable with Relocate's first fence, before it changes a link that leads to one
    for (const auto& [from, to] : moves) pool_->At<Record>(from)->MarkLeaving(persister);
    s = level_->Relocate(moves);
    if (!s.ok()) {
      for (const auto& [from, to] : moves) pool_->At<Record>(from)->ClearMark(persister);
      persister->Fence();
    }
  }
  if (!s.ok()) {  // what was copied so far is dead space
    const bool may_mark = !pool_->LosesUnsynced() || pool_->Sync().ok();
    for (const auto& [from, to] : moves) {
      // no rebuilding may find it when its original is gone
      if (may_mark) pool_->At<Record>(to)->MarkObsolete(persister);
      dead_->Count(to);
    }
    return s;
  }
  for (const auto& [from, to] : moves) pool_->At<Record>(from)->MarkObsolete(persister);
  return Status::OK();
}

// As if each copy began a chunk that the one before leaves no room in. Others may claim meanwhile:
// then Relocate ends with NoSpace.
bool Evacuation::ReserveCopiesOf(std::span<const Victim> live, CopyRoom* room_in_first) const {
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
Status Evacuation::Evacuate(std::vector<ChunkRef> victims, bool* progress) {
  std::vector<Victim> live;
  Status s = GatherLive(&victims, &live);
  const std::unique_ptr<CopyRoom> room = owner_->NewCopyRoom();
  if (s.ok() && !ReserveCopiesOf(live, room.get()))
    s = Status::NoSpace("no chunks for the copies that gc makes");
  if (s.ok()) s = Relocate(live);
  level_->persister()->Fence();  // links, marks: before any victim is free (I1)
  if (s.ok() && pool_->LosesUnsynced()) s = owner_->SyncAll();
  if (!s.ok()) return s;
  for (const ChunkRef& chunk : victims) frees_->Free(chunk);
  *progress = *progress || !victims.empty();
  return s;
}

ChunkSurvey Evacuation::Survey() const {
  ChunkSurvey survey;
  const auto standing_of = owner_->Standings();
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    const ChunkDescriptor* descriptor = pool_->Descriptor(chunk.part, chunk.index);
    const uint64_t used = UsedBytes(*pool_, chunk);
    if (used == 0 || frees_->Contains(chunk)) return;  // being filled, or free soon
    const bool in_the_way = pool_->IsInTheWay(chunk);
    const auto standing = standing_of({chunk, used});
    if (standing == EvacuationOwner::Standing::kUnmerged) return;
    const uint64_t bytes = uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
    survey.filled_bytes += bytes;
    if (IsHeldBack(chunk)) return;
    const uint64_t dead = std::min(used, descriptor->dead_bytes.load(std::memory_order_relaxed));
    const bool sparse =
        used < bytes / kSparsePart && standing == EvacuationOwner::Standing::kMergedMaybeSparse;
    if (dead > 0 || sparse || in_the_way)
      survey.candidates.push_back({chunk, bytes, used - dead, dead, sparse, in_the_way});
  });
  return survey;
}

// More than one pass: what waited for readers in one may go in the next. Not for ever: copies may
// lie in the way, too.
Status Evacuation::ClearEnd() {
  LeaveChunks([this](const ChunkRef& chunk) { return pool_->IsInTheWay(chunk); });
  Status s;
  bool progress = true;
  for (int pass = 0; pass < kClearPassesMax && progress && s.ok(); pass++)
    s = Collect(GcGoal::kEnd, &progress);
  return s;
}

Status Evacuation::Collect(GcGoal goal, bool* progress) {
  *progress = false;
  bool has_room = true;
  level_->SampleSnapshots();
  if (goal != GcGoal::kEnd) dead_->ForgetFresh();  // that one looks at few chunks
  for (bool again = true; again;) {
    if (level_->TakeSettledNews()) {
      const uint64_t let_go =
          std::erase_if(held_back_, [](const auto& held) { return !held.second.damaged; });
      released_.fetch_add(let_go, std::memory_order_relaxed);
      if (let_go != 0) dead_->NoteUnreclaimed();  // this pass may be content with less
    }
    const SpaceTarget target{.bytes_per_live = space_target_,
                             .live_bytes = level_->live_bytes(),
                             .chunk_bytes = pool_->chunk_bytes()};
    const std::vector<ChunkRef> victims = PickVictims(goal, target, Survey());
    if (!victims.empty()) {
      Status s = Evacuate(victims, progress);
      // A full pool: one at a time, the emptiest first, until the copies no longer fit.
      for (size_t i = 0; i < victims.size() && s.IsNoSpace(); i++) {
        s = Evacuate({victims[i]}, progress);
        if (s.IsNoSpace()) break;
        pool_->AwaitDeferred();
        if (i + 1 < victims.size()) s = Status::NoSpace("the rest is to do");
      }
      has_room = s.ok();
      if (!s.ok() && !s.IsNoSpace()) return s;
    }
    level_->UnpinTombstones();
    pool_->AwaitDeferred();
    // Where nobody reads, what waited for readers need not wait for the next pass.
    again = !*progress && level_->HasSettledNews();
  }
  if (goal == GcGoal::kAll && !*progress) {
    const uint64_t room = std::min(pool_->chunks_available(), UINT64_MAX - 1);
    no_room_with_.store(has_room ? UINT64_MAX : room, std::memory_order_relaxed);
    dead_->NoteAllReclaimed();
  }
  runs_.fetch_add(1, std::memory_order_relaxed);
  return Status::OK();
}

}  // namespace lamella
