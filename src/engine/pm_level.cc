#include "engine/pm_level.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/hash.h"
#include "base/no_throw.h"
#include "base/raise_to.h"
#include "index/lookup_cache_filler.h"

namespace lamella {

namespace {

// The figure may have lost something in a crash: it stops at nothing. Of the one thread that
// changes it.
void SubtractFrom(std::atomic<uint64_t>* figure, uint64_t much) {
  const uint64_t now = figure->load(std::memory_order_relaxed);
  figure->store(now - std::min(now, much), std::memory_order_relaxed);
}

// Puts the newest version of each key into the lookup cache.
class LookupVisitor : public WalkVisitor {
 public:
  LookupVisitor(const Pool* pool, LookupCache* cache, uint64_t generation)
      : pool_(pool), filler_(cache, PutFound{cache, generation}) {}
  void OnNeighbours(PmPtr before, PmPtr place) override {
    const Record* record = pool_->At<Record>(place);
    if (before && pool_->At<Record>(before)->key() == record->key()) return;  // an older version
    filler_.Add(Hash64(record->key()), place);
  }
  bool OnElement(PmPtr, bool) override { return true; }

 private:
  struct PutFound {
    LookupCache* cache;
    uint64_t generation;
    // The cache is empty, and grows with what it is given: nobody else does it meanwhile.
    void operator()(uint64_t hash, PmPtr place) const {
      if (!cache->PutFound(hash, place, generation)) return;
      cache->Grow();
      cache->PutFound(hash, place, generation);
    }
  };

  const Pool* const pool_;
  LookupCacheFiller<PutFound> filler_;
};

}  // namespace

PmLevel::PmLevel(const Surroundings& around)
    : around_(around),
      pool_(around.pool),
      lookup_cache_(around.lookup_cache),
      second_chance_(around.pool, around.second_chance_bytes_max, around.memory),
      settled_sequence_(std::make_shared<std::atomic<uint64_t>>(0)),
      pinned_tombstones_(std::make_shared<PinnedTombstones>()),
      settled_news_(std::make_shared<std::atomic<bool>>(false)) {
  if (around.is_last) persister_.emplace(around.pool->gate(), WriteCause::kGc);
}

PmLevel::~PmLevel() = default;

void PmLevel::Open(const Opened& opened) {
  list_ = std::make_unique<PmSkipList>(pool_, opened.heads, opened.braided);
  // Older versions let it go below zero after a crash.
  const uint64_t count_max = pool_->used_bytes() / sizeof(RecordHeader);
  count_.store(opened.count <= count_max ? opened.count : 0, std::memory_order_relaxed);
  live_bytes_.store(opened.live_bytes, std::memory_order_relaxed);
  settled_live_bytes_.store(opened.live_bytes, std::memory_order_relaxed);
  settled_sequence_->store(opened.merged_sequence, std::memory_order_relaxed);
}

void PmLevel::Warm(std::optional<uint64_t> lookup_generation) {
  std::optional<LookupVisitor> filler;
  if (lookup_generation && has_lookup_cache())
    filler.emplace(pool_, lookup_cache_, *lookup_generation);
  second_chance_.Warm(*list_, count(), filler ? &*filler : nullptr);
}

std::vector<std::string> PmLevel::SampleKeys() const {
  constexpr uint64_t kSampledKeys = 512;
  uint32_t layer = 0;  // one element in four reaches a layer higher
  while (layer + 1 < kHeightMax && count() >> (2 * layer) > kSampledKeys) layer++;
  std::vector<std::string> keys;
  for (PmPtr at = list_->Next(PmPtr(), 0, layer);
       at && !at.damaged() && keys.size() < 2 * kSampledKeys; at = list_->Next(at, 0, layer)) {
    if (VerifyRecord(*pool_, at).ok()) keys.emplace_back(list_->At(at)->key());
  }
  return keys;
}

PlacedVersion PmLevel::Find(const InternalKey& target, bool verify, HopTally* hops) const {
  if (!verify) {  // else the neighbours' checksums are asked for, too
    HeadTree::Entry entry;
    const SecondChanceCache::Answer answer = second_chance_.FindVersion(target, &entry);
    if (answer == SecondChanceCache::Answer::kAbsent) return {};
    if (answer == SecondChanceCache::Answer::kFound) return {entry.place(), TagKind(entry.tag)};
  }
  const PmPtr place = list_->FindAtOrAfter(target, StartOf(target), hops, verify);
  if (place.damaged()) return {place};
  if (!place) return {};
  const Record* record = list_->At(place);
  return record->key() == target.user_key ? PlacedVersion{place, record->kind()} : PlacedVersion();
}

// From the nearest element before it that the second-chance cache has; of a braided list, on the
// reader's NUMA node (dissertation 6.4), unless the cache has all of the level, or little of there.
PmPtr PmLevel::StartOf(const InternalKey& target) const {
  if (list_->lane_count() == 1 || second_chance_.height_min() == 1)
    return second_chance_.FindAtOrBefore(target);
  constexpr uint32_t kNearPerLane = 16;  // where each lane has its share
  const auto lane = static_cast<int>(list_->NearestLane());
  const PmPtr near = second_chance_
                         .FindTallAtOrBefore(target, second_chance_.height_min(), lane,
                                             kNearPerLane * list_->lane_count())
                         .place();
  return near ? near : second_chance_.FindAtOrBefore(target);
}

PmPtr PmLevel::FindBefore(const InternalKey& key) const {
  return list_->FindBefore(key, second_chance_.FindAtOrBefore(JustBefore(key)), nullptr);
}

PmLevel::Linked PmLevel::FindLinked(PmPtr place, PmPtr* before) const {
  *before = FindBefore(list_->At(place)->internal_key());
  return LinkedBy({place, *before, before->damaged() ? *before : list_->Next(*before, 0, 0)});
}

PmLevel::Linked PmLevel::LinkedBy(const Zipper::Place& found) const {
  if (found.next == found.element) return Linked::kLinked;
  const bool astray = found.next.damaged() ||
                      (found.before && !VerifyRecord(*pool_, found.before).ok()) ||
                      (found.next && !VerifyRecord(*pool_, found.next).ok());
  return astray ? Linked::kUnknown : Linked::kNotLinked;
}

void PmLevel::FindPlaces(std::span<Zipper::Place> places) {
  Zipper(list_.get(), &*persister_, this).FindPlaces(places);
}

// The level is asked, not the record's links: what a rebuilding left out has those of an earlier
// life, which may lead to where a record is being written now.
bool PmLevel::IsIdleDelete(PmPtr place) const {
  PmPtr before;
  const Linked linked = FindLinked(place, &before);
  return linked == Linked::kNotLinked || (linked == Linked::kLinked && !HasOlderAfter(place));
}

bool PmLevel::HasOlderAfter(PmPtr place) const {
  const PmPtr next = list_->Next(place, 0, 0);
  return next && (next.damaged() || list_->At(next)->key() == list_->At(place)->key());
}

void PmLevel::AddLive(const Record* record) {
  live_bytes_.fetch_add(record->key().size() + record->value().size(), std::memory_order_relaxed);
}

void PmLevel::SubtractLive(const Record* record) {
  SubtractFrom(&live_bytes_, record->key().size() + record->value().size());
}

std::shared_ptr<Zipper> PmLevel::NewMerge(Persister* persister, bool verify,
                                          std::shared_ptr<const KeyPrefixes> prefixes) {
  second_chance_.Fit(std::move(prefixes));
  SampleSnapshots();
  return std::make_shared<Zipper>(list_.get(), persister, static_cast<ZipperObserver*>(this),
                                  verify);
}

EpochDomain::Retirement PmLevel::Settling(uint64_t last_sequence) {
  return pool_->AfterAllPins([settled = settled_sequence_, news = settled_news_, last_sequence] {
    // Two threads may run those of two merges side by side, the later one's first.
    RaiseTo(settled.get(), last_sequence, std::memory_order_release);
    news->store(true, std::memory_order_release);
  });
}

void PmLevel::NoteMerged() { settled_live_bytes_.store(live_bytes(), std::memory_order_relaxed); }

bool PmLevel::Needed(uint64_t older, uint64_t newer) const {
  if (!sample_.Needed(older, newer)) return false;
  kept_versions_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void PmLevel::OnLinked(Record* record, PmPtr place) {
  second_chance_.Insert(record, place);
  count_.fetch_add(1, std::memory_order_relaxed);
  if (record->kind() != RecordKind::kDelete) {
    AddLive(record);
  } else if (around_.is_last && !HasOlderAfter(place)) {
    around_.dead->Count(place, record->bytes());  // it goes when gc comes by (I1)
  }
}

// In the order of Forget, each step for some of them at once. Needs no memory: what is obsolete
// must not stay in the caches.
void PmLevel::OnObsolete(std::span<const Obsolete> records) {
  if (records.empty()) return;
  constexpr size_t kAtOnce = 64;
  for (; records.size() > kAtOnce; records = records.subspan(kAtOnce))
    OnObsolete(records.first(kAtOnce));
  constexpr size_t kAhead = 8;
  std::array<uint64_t, kAtOnce> hashes;
  const size_t hashed = has_lookup_cache() ? records.size() : 0;
  for (size_t i = 0; i < hashed; i++) hashes[i] = Hash64(list_->At(records[i].place)->key());
  uint64_t unlinked = 0;
  for (const Obsolete& obsolete : records) {
    const Record* record = list_->At(obsolete.place);
    second_chance_.Remove(record, obsolete.place);
    const bool is_delete = record->kind() == RecordKind::kDelete;
    if (obsolete.was_linked) {
      unlinked++;
      if (!is_delete) SubtractLive(record);
      // counted before: its links are as they were
      if (is_delete && around_.is_last && !HasOlderAfter(obsolete.place)) continue;
    }
    around_.dead->Count(obsolete.place, record->bytes());
  }
  if (hashed != 0) lookup_cache_->AdvanceGeneration();
  for (size_t i = 0; i < hashed; i++) {
    if (i + kAhead < hashed) lookup_cache_->Prefetch(hashes[i + kAhead]);
    lookup_cache_->Remove(hashes[i], records[i].place);
  }
  SubtractFrom(&count_, unlinked);
}

PmLevel::Near PmLevel::Nearby(const InternalKey& key, uint32_t height_min, uint32_t lane) const {
  const int part = height_min > 1 && list_->lane_count() > 1 ? static_cast<int>(lane) : -1;
  const HeadTree::Entry found = second_chance_.FindTallAtOrBefore(key, height_min, part);
  return {found.place(), found.height()};
}

// An element left the level: takes it out of the caches. In this order: searches no longer start
// from it; a reader that found it before is refused once the generation moved; what such a reader
// had put in before goes.
void PmLevel::Forget(const Record* record, PmPtr place) {
  second_chance_.Remove(record, place);
  if (!has_lookup_cache()) return;
  lookup_cache_->AdvanceGeneration();
  lookup_cache_->Remove(Hash64(record->key()), place);
}

PmLevel::Drop PmLevel::DropIfDead(PmPtr before, PmPtr place) {
  Record* record = list_->At(place);
  const bool is_delete = record->kind() == RecordKind::kDelete;
  const bool newer_exists = before && list_->At(before)->key() == record->key();
  const bool hides_none = is_delete && !HasOlderAfter(place);
  if (!newer_exists || sample_.Needed(record->sequence(), list_->At(before)->sequence())) {
    if (newer_exists || !hides_none) return Drop::kNeeded;
    // What keeps it keeps freed chunks too: those who read when it was merged, or when what it
    // hid was dropped (I1).
    const uint64_t settled = settled_sequence_->load(std::memory_order_acquire);
    if (record->sequence() > settled || pinned_tombstones_->Holds(record->sequence()))
      return Drop::kLater;
  }
  // What is to be remembered has its room before anything is changed.
  std::vector<PmPtr>& dropped = is_delete ? dropped_deletes_ : dropped_puts_;
  if (dropped.size() == dropped.capacity()) dropped.reserve(2 * dropped.size() + 1);
  const bool hidden = newer_exists && list_->At(before)->kind() == RecordKind::kDelete;
  if (hidden) pinned_tombstones_->Add(list_->At(before)->sequence());
  if (!is_delete) {
    record->MarkLeaving(&*persister_);
    persister_->Fence();
  }
  if (!Zipper(list_.get(), &*persister_, this).Unlink(before, place)) return Drop::kNeeded;
  // A delete was counted when nothing lay after it any more.
  if (!hides_none) around_.dead->Count(place, record->bytes());
  if (hidden && !HasOlderAfter(before)) around_.dead->Count(before, list_->At(before)->bytes());
  if (!is_delete) SubtractLive(record);
  dropped.push_back(place);
  Forget(record, place);
  SubtractFrom(&count_, 1);
  return Drop::kDropped;
}

// What a crash after each step leaves (StoreCrash, EvacuationTest):
//   1  puts marked as leaving, a fence each   linked still, and no rebuilding finds them
//   2  unlinked, fence                        nor does a list
//   3  puts marked as obsolete, synced        the same on page media
//   4  deletes marked                         a rebuilding finds neither
// Obsolete before its unlinking is durable would let gc free what is linked still (I3). A delete is
// never dropped in the pass that drops what it hides (PinnedTombstones).
Status PmLevel::MarkDropped() {
  if (dropped_puts_.empty() && dropped_deletes_.empty()) return Status::OK();
  persister_->Fence();
  for (const PmPtr place : dropped_puts_) list_->At(place)->MarkObsolete(&*persister_);
  dropped_puts_.clear();
  Status s;
  if (!dropped_deletes_.empty()) {
    if (pool_->LosesUnsynced()) s = pool_->Sync();
    if (s.ok()) {
      for (const PmPtr place : dropped_deletes_) list_->At(place)->MarkObsolete(&*persister_);
    }
    dropped_deletes_.clear();
  }
  return s;
}

void PmLevel::UnpinTombstones() {
  const auto generation = std::make_shared<uint64_t>(0);
  EpochDomain::Retirement retirement(
      [pinned = pinned_tombstones_, generation, news = settled_news_] {
        pinned->Forget(*generation);
        news->store(true, std::memory_order_release);
      });
  *generation = pinned_tombstones_->Close();
  if (*generation != 0) pool_->holders()->Retire(std::move(retirement));
}

Status PmLevel::Sweep(std::string_view begin, std::string_view end, uint64_t elements_max,
                      std::string* rest) {
  SampleSnapshots();
  rest->clear();
  PmPtr before = begin.empty() ? PmPtr() : FindBefore({begin, kTagFirst});
  if (before.damaged()) return DescribeDamage(*pool_, before);
  PmPtr at = list_->Next(before, 0, 0);
  for (uint64_t elements = 0; at && !at.damaged(); elements++) {
    const Record* record = list_->At(at);
    if (!end.empty() && record->key() >= end) break;
    if (elements >= elements_max && (!before || list_->At(before)->key() != record->key())) {
      rest->assign(record->key());
      break;
    }
    const PmPtr next = list_->Next(at, 0, 0);
    if (DropIfDead(before, at) == Drop::kDropped) {
      at = next;
      continue;
    }
    // A delete hides the versions after it while those are dropped one by one: look at it again
    // when they are gone.
    PmPtr older = next;
    while (older && !older.damaged() && list_->At(older)->key() == record->key() &&
           DropIfDead(at, older) == Drop::kDropped) {
      older = list_->Next(at, 0, 0);
    }
    if (DropIfDead(before, at) != Drop::kDropped) before = at;
    at = older;
  }
  Status s = MarkDropped();
  UnpinTombstones();
  if (at.damaged()) return DescribeDamage(*pool_, at);
  return s;
}

// A crash before the links are swung leaves the copies in no list: dead space, which recovery
// marks. The originals' chunks are their owner's until all is durable.
Status PmLevel::Relocate(std::span<const Zipper::Move> moves) {
  Status s = NoThrow([&] { return Zipper(list_.get(), &*persister_, this).Replace(moves); });
  if (!s.ok()) return s;
  // The order keeps LookupCache I3: once the second-chance cache names the copies, no search finds
  // an original any more; whoever did is refused from the advance on, and what it had put in before
  // is replaced after it.
  for (const auto& [from, to] : moves) {
    // The same internal key: takes the new address.
    if (!second_chance_.Insert(list_->At(to), to)) second_chance_.Remove(list_->At(from), from);
  }
  if (!has_lookup_cache()) return Status::OK();
  lookup_cache_->AdvanceGeneration();
  for (const auto& [from, to] : moves)
    lookup_cache_->Replace(Hash64(list_->At(to)->key()), from, to);
  return Status::OK();
}

}  // namespace lamella
