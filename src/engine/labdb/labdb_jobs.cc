// Flushes into the tree, the compaction of the immutable tree and of levels, and what writers wait
// for.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/assert.h"
#include "base/no_throw.h"
#include "engine/labdb/labdb.h"
#include "engine/table_cuts.h"
#include "iterator/merging_iterator.h"
#include "log/value_format.h"

namespace lamella {

namespace {

// Versions that go into a tree at once: what a change keeps in DRAM until it is made.
constexpr uint64_t kPutsAtOnce = 1024;
// What a compaction takes of a tree, by its values and keys; or all of a smaller tree's share.
constexpr uint64_t kPartBytes = 16 << 20;
constexpr uint64_t kPartsMin = 8;  // of a tree
// Of values that a compaction has in DRAM, at most, and by the memory that the store may take. They
// lie in the order in which they were written: the more, the nearer to each other.
constexpr uint64_t kWindowBytes = 8 << 20;
constexpr uint64_t kWindowsOfMemory = 8;
// What jobs are worth, beside compactions of levels, which are worth less.
constexpr double kFirst = 1e18;

// Walks the versions of a MemTable that somebody may still read, in their order. With `verify` it
// checks each record, those that it leaves out too, for that goes by their keys: Corruption ends
// the walk.
template <class Visit>
Status ForEachRead(const MemTable& memtable, const SnapshotList::Sample& snapshots, bool verify,
                   const Visit& visit) {
  const auto from = memtable.NewIterator();
  std::string_view key;
  uint64_t newer = 0;  // the version before, of the same key; 0 is none
  Status s;
  for (from->SeekToFirst(); s.ok() && from->Valid(); from->Next()) {
    if (verify) s = from->VerifyChecksum();
    if (!s.ok()) break;
    const InternalKey at = from->key();
    if (at.user_key != key) newer = 0;
    key = at.user_key;
    const uint64_t sequence = TagSequence(at.tag);
    if (newer == 0 || snapshots.Needed(sequence, newer)) s = visit(at, from->value());
    newer = sequence;
  }
  return s.ok() ? from->status() : s;
}

}  // namespace

Status LabDb::TryForRoom(RoomFor what, const std::function<Status()>& job) {
  uint64_t attempt;
  {
    const MutexLock lock(&jobs_.mu);
    attempt = rooms_[what].Begin();
  }
  Status status = NoThrow(job);
  const MutexLock lock(&jobs_.mu);
  if (!rooms_[what].Note(attempt, status)) return status;
  SetStarved(true);  // keeps B8
  return Status::OK();
}

void LabDb::NeedRoom() {
  for (FileRoom& room : rooms_) room.Need();
}

// Who resumes says that there may be room again.
void LabDb::ClearBackgroundError() {
  {
    const MutexLock lock(&jobs_.mu);
    NeedRoom();
    reclaimed_for_ = 0;
  }
  BufferedEngine::ClearBackgroundError();
}

void LabDb::OfferJobs(std::vector<JobOffer>* offers) {
  const auto tables = CurrentTables();
  const auto offer = [&](const char* name, Claims claims, double worth,
                         std::function<Status()> run) {
    offers->push_back({.name = name,
                       .claims = std::move(claims),
                       .benefit = worth,
                       .cost = 1,
                       .run = std::move(run)});
  };
  if (!consumed_.empty() && consumed_.front().settled->load(std::memory_order_acquire))
    offer("leave the tree", {{kLevel0, {}}}, 2 * kFirst, [this] { return LeaveTree(); });
  if (reclaim_wanted_ && (flush_waits_ || !HasUnflushed()))
    offer("reclaim", {{kLevel0, {}}, {kLevel0 + 1, {}}}, 3 * kFirst, [this] { return Reclaim(); });
  if (rooms_[kForTables].MayHaveSome()) {
    if (tables->older != nullptr) {
      offer("compact the tree", {{kLevel0, {}}, {kLevel0 + 1, {}}}, kFirst,
            [this] { return TryForRoom(kForTables, [this] { return CompactPart(); }); });
    }
    for (Compaction& wanted : FindCompactions(tables->infos, rules_)) {
      Claims claims = ClaimsOf(wanted, kLevel0);
      const double worth = wanted.benefit / static_cast<double>(1 + wanted.read_bytes);
      offer("compact", std::move(claims), worth, [this, compaction = std::move(wanted)] {
        return TryForRoom(kForTables, [&] { return CompactLevels(compaction); });
      });
    }
  }
  if (pool_->CanGiveBack()) {
    offer("give back", {{kPoolEnd, {}}}, 0, [this] { return pool_->GiveBack(); });
  } else if (offers->empty() && !jobs_.AnyBusy() &&
             held_up_end_.Due(changes_.load(std::memory_order_relaxed))) {
    offer("clear the pool's end", {{kPoolEnd, {}}, {kLevel0, {}}, {kLevel0 + 1, {}}}, 0,
          [this] { return ClearEnd(); });
  }
}

// What is being filled at the pool's end is ended there: it goes once it is flushed, or in a file,
// and the next one begins where there is room before it. Trees that have something there become
// tables.
Status LabDb::ClearEnd() {
  const auto in_the_way = [this](const ChunkRef& chunk) { return pool_->IsInTheWay(chunk); };
  log_->LeaveChunks(in_the_way);
  Status s = catalog_.LeaveEnd();
  std::vector<LogPosition> boundary;
  {
    const MutexLock lock(&change_mu_);  // a flush's, until no reader goes by its MemTable any more
    boundary = catalog_.Get().boundary;
  }
  if (s.ok()) s = pool_->Sync();  // of the edit that says so
  if (!s.ok()) return s;
  pending_frees_.FreeLogBefore(boundary);
  values_->Seal();
  Persister persister(pool_->gate(), WriteCause::kIndex);
  // Once: what readers keep there afterwards no other compaction frees.
  if (space_->LeaveChunks(in_the_way, &persister) > 0) trees_in_the_way_ = true;
  if (trees_in_the_way_) {
    s = TryForRoom(kForTables, [this] {
      Status compacted = CompactTrees();
      if (compacted.ok()) trees_in_the_way_ = false;
      return compacted;
    });
    pool_->AwaitDeferred();
    space_->LeaveChunks(in_the_way, &persister);
  }
  context_.wake();
  return s;
}

std::optional<Job> LabDb::PickJob(JobClass job_class) {
  if (job_class == JobClass::kUrgent) {
    {
      const MutexLock lock(&jobs_.mu);
      const Claims claims = {{kValues, {}}};
      if (values_->NeedsWriteOn() && rooms_[kForValues].MayHaveSome() && jobs_.MayBegin(claims)) {
        return jobs_.Begin(
            {.name = "write on", .claims = claims, .run = [this] { return TryWriteOn(); }});
      }
      if (flush_waits_) return std::nullopt;  // the reclaim's end tells
    }
    return PickUrgentJob();
  }
  const MutexLock lock(&jobs_.mu);
  std::vector<JobOffer> offers;
  OfferJobs(&offers);
  return jobs_.BeginBest(std::move(offers));
}

Status LabDb::FlushMemTable(const std::shared_ptr<MemTable>& memtable) {
  Status s = NoThrow([&] { return PutIntoTree(*memtable); });
  {
    const MutexLock lock(&jobs_.mu);
    flush_has_no_room_ = s.IsNoSpace();
  }
  if (s.ok()) context_.wake();
  return s;
}

// There is room for it by BufferedEngine's I6, but perhaps in no row of chunks that is long enough
// for a key. What the trees have lies in many: once all of it is in tables there are rows again.
// Once for each MemTable, and again once trees that were read meanwhile have given their chunks
// back: what that does not help is a full pool. So often at most, and not at once: chunks that a
// try itself has left empty look the same.
void LabDb::ReclaimForFlush(const MemTable& memtable) {
  constexpr int kReclaimsMax = 20;
  constexpr std::chrono::milliseconds kApart{50};
  const MutexLock lock(&jobs_.mu);
  const bool is_another = reclaimed_for_ != memtable.last_sequence();
  reclaimed_for_ = memtable.last_sequence();
  if (is_another) reclaims_for_flush_ = 0;
  const bool may_help = reclaims_for_flush_ < kReclaimsMax && space_->HasEmpty() &&
                        std::chrono::steady_clock::now() - reclaimed_for_flush_at_ >= kApart;
  if (!is_another && !may_help) return;
  reclaims_for_flush_++;
  flush_waits_ = true;
  reclaim_wanted_ = true;
  NeedRoom();
}

// For who has no jobs beside it.
Status LabDb::FlushAlone() {
  Status s = FlushAllNow();
  if (!s.IsNoSpace()) return s;
  s = NoThrow([this] { return CompactTrees(); });
  Persister persister(pool_->gate(), WriteCause::kIndex);
  pool_->AwaitDeferred();
  space_->FreeEmpty(&persister);
  return s.ok() ? FlushAllNow() : s;
}

Status LabDb::PutIntoTree(const MemTable& memtable) {
  // Gets of before it was sealed may want versions that its own make unneeded.
  pool_->readers()->AwaitRetired();
  const MutexLock lock(&tree_mu_);
  bool found_no_room = false;
  bool tables_have_room = false;  // where they have none, old files would stay for the older tree
  {
    const MutexLock jobs(&jobs_.mu);
    found_no_room = flush_has_no_room_;
    tables_have_room = rooms_[kForTables].none().ok();
  }
  Status s = RemoveUnneeded(found_no_room && (flushed_since_ > 0 || unneeded_.load()));
  const bool for_files = too_many_files_ && tables_have_room;
  if (s.ok() && (for_files || IsFull(*CurrentTables()->tree))) s = TurnOver();
  const bool was_moved = moved_ && moved_->through == memtable.last_sequence();
  if (s.ok() && !was_moved) {
    // One sample for both: what is moved is what is put, by the next tries, too. Snapshots of after
    // it are of after all that is sealed.
    Moved moved{.through = memtable.last_sequence(),
                .snapshots = context_.snapshots->Now(),
                .addresses = {}};
    moved_.reset();
    s = MoveInline(memtable, moved.snapshots, &moved.addresses);
    if (s.ok()) moved_ = std::move(moved);
  }
  if (s.ok()) {
    s = InsertAll(CurrentTables()->tree.get(), memtable, *moved_, was_moved);
    if (s.IsNoSpace()) ReclaimForFlush(memtable);
  }
  if (s.ok()) {
    s = Install(LabDbEdit::kFlush, {}, &memtable, nullptr, [&](LabDbState* state) {
      state->boundary = memtable.sealed();
      state->flushed_sequence = memtable.last_sequence();
      std::erase_if(state->gaps,
                    [&](const SequenceGap& gap) { return gap.last <= state->flushed_sequence; });
    });
  }
  if (!s.ok()) return s;
  flushed_since_ += memtable.count();
  moved_.reset();
  pending_frees_.FreeLogBefore(memtable.sealed());
  return s;
}

// Values that were logged with their keys go to a file, in the order of the keys. Here records are
// looked at, before the tree gets any: there, or in a file, what is damaged would be sound.
Status LabDb::MoveInline(const MemTable& memtable, const SnapshotList::Sample& snapshots,
                         std::vector<ValueAddress>* moved) {
  const std::unique_ptr<ValueWriter> writer = values_->NewWriter();
  const auto move = [&](const InternalKey& key, std::string_view value) {
    if (TagKind(key.tag) != RecordKind::kPut) return Status::OK();
    moved->emplace_back();
    Status added = writer->Add(value, &moved->back());
    if (added.ok()) records_.Renew(key.user_key, RecordPlaceOf(moved->back()), key.tag, value);
    return added;
  };
  Status s = ForEachRead(memtable, snapshots, true, move);
  return s.ok() ? writer->Finish() : s;
}

// `verify`: who looked at the records, MoveInline, did so at an earlier try.
Status LabDb::InsertAll(LeafTree* tree, const MemTable& memtable, const Moved& moved, bool verify) {
  Persister persister(pool_->gate(), WriteCause::kFlush);
  const auto needed = [&](uint64_t older, uint64_t newer) {
    return moved.snapshots.Needed(older, newer);
  };
  std::vector<LeafPut> puts;
  puts.reserve(kPutsAtOnce);
  size_t inlined = 0;
  const auto insert = [&] {
    Status inserted = puts.empty() ? Status::OK() : tree->Insert(puts, needed, &persister);
    puts.clear();
    return inserted;
  };
  const auto take = [&](const InternalKey& key, std::string_view value) {
    const bool is_older = !puts.empty() && puts.back().key.user_key == key.user_key;
    if (is_older) puts.back().leaves_nothing = false;
    Status inserted = !is_older && puts.size() >= kPutsAtOnce ? insert() : Status::OK();
    LeafPut put{.key = key};
    const RecordKind kind = TagKind(key.tag);
    if (kind == RecordKind::kDelete) put.leaves_nothing = HidesNothing(key.user_key);
    if (IsPut(kind)) {
      const ValueAddress address =
          kind == RecordKind::kPut ? moved.addresses[inlined++] : DecodeAddress(value);
      put.key.tag = MakeTag(TagSequence(key.tag), RecordKind::kPutElsewhere);
      put.location = address.word;
      put.value_size = address.size;
    }
    puts.push_back(put);
    return inserted;
  };
  Status s = ForEachRead(memtable, moved.snapshots, verify, take);
  return s.ok() ? insert() : s;
}

// Keeps B7. The pin keeps parts in the immutable tree that are not in these tables yet (B3).
bool LabDb::HidesNothing(std::string_view key) const {
  const EpochPin pin(pool_->readers());
  const auto tables = CurrentTables();
  LeafVersion found;
  if (tables->older != nullptr) {
    const Status s = tables->older->Find({key, kTagFirst}, false, &found);
    if (!s.ok() || found.place) return false;
  }
  return !tables->levels->MayHold(1, key);
}

// Keeps B2.
Status LabDb::TurnOver() {
  const auto tables = CurrentTables();
  if (tables->older != nullptr || tables->tree->entry_count() == 0) return Status::OK();
  const uint32_t next = 1 - catalog_.Get().active;
  if (HeadOf(next)->load() != kLeafEndLink) {  // whoever emptied it failed before B6
    Status s = ClearOther();
    if (!s.ok()) return s;
  }
  const TreePtr fresh = NewTree(next);
  after_.clear();  // nobody compacts before there is an immutable tree
  any_after_ = false;
  too_many_files_ = false;
  return Install(
      LabDbEdit::kTurnOver, {}, nullptr,
      [&](Tables* changed) {
        changed->older = changed->tree;
        changed->tree = fresh;
      },
      [&](LabDbState* state) {
        state->active = next;
        state->has_older = 1;
      });
}

// The room that it found is for what is behind, too; that which other jobs find is not.
Status LabDb::CompactPart() {
  Status s = CompactNext();
  if (!s.ok()) return s;
  const MutexLock lock(&jobs_.mu);
  for (FileRoom& room : rooms_) room.NoteFound();
  SetStarved(false);
  return s;
}

// The next keys of the immutable tree, with the tables of level 1 that they overlap, become tables
// of level 1.
Status LabDb::CompactNext() {
  const auto tables = CurrentTables();
  const auto from = tables->older->NewIterator(true);
  const uint64_t part_bytes = std::max<uint64_t>(std::min(kPartBytes, options_.table_bytes), 1);
  const uint64_t entries_max =
      std::max<uint64_t>(tables->older->entry_count() / kPartsMin, kPutsAtOnce);
  if (any_after_) {
    from->Seek({after_, 0});
    while (from->Valid() && from->key().user_key == after_) from->Next();
  } else {
    from->SeekToFirst();
  }
  const auto in_one_table = [&](std::string_view a, std::string_view b) {
    const SstTable* const table = tables->levels->FindTable(1, a);
    return table != nullptr && table == tables->levels->FindTable(1, b);
  };
  Consumed part;
  uint64_t bytes = 0;
  uint64_t entries = 0;
  for (; from->Valid(); from->Next(), entries++) {
    const std::string_view key = from->key().user_key;
    // Not within a table, which would be written again for the next part, too.
    const bool is_enough = bytes >= part_bytes || entries >= entries_max;
    const bool may_end = entries >= 2 * entries_max || !in_one_table(part.last, key);
    if (entries != 0 && key != part.last && is_enough && may_end) break;
    if (entries == 0) part.first = key;
    if (entries == 0 || key != part.last) part.last = key;
    bytes += key.size();
    if (IsPut(TagKind(from->key().tag))) bytes += DecodeAddress(from->value()).size;
  }
  Status s = from->status();
  if (!s.ok()) return s;
  const bool is_last = !from->Valid();
  if (entries == 0) return DropOlder();
  const SstLevels::Level overlapped = tables->levels->Overlapping(1, {part.first, part.last});
  std::vector<std::unique_ptr<InternalIterator>> children;
  const uint64_t window_bytes =
      std::min(kWindowBytes, context_.options->memory_budget_bytes / kWindowsOfMemory);
  children.push_back(NewTreePart(tables->older->NewIterator(true), part.first, part.last,
                                 values_.get(), window_bytes));
  if (!overlapped.empty()) {
    SstFiles::AddIterators(1, std::make_shared<const SstLevels::Level>(overlapped), kMergeScan,
                           &children);
  }
  const auto merged = NewMergingIterator(std::move(children));
  MadeSsts made;
  s = files_.Write(
      merged.get(), context_.snapshots->Now(),
      [&](std::string_view key) { return tables->levels->MayHold(2, key); }, &made, {}, false,
      TableCuts::EndsIn(*tables->levels, 2, {part.first, part.last}));
  if (!s.ok()) return s;
  SstEdit edit;
  for (const auto& table : overlapped) edit.removed.push_back(table->info().number);
  for (const auto& table : made) edit.added.push_back({1, table});
  part.settled = std::make_shared<std::atomic<bool>>(false);
  std::string last = part.last;
  EpochDomain::Retirement settling = pool_->AfterAllPins(
      [settled = part.settled] { settled->store(true, std::memory_order_release); });
  {
    const MutexLock lock(&jobs_.mu);  // memory for it, which the edit cannot wait for
    consumed_.push_back(std::move(part));
  }
  s = Install(LabDbEdit::kCompact, edit, nullptr, nullptr, nullptr);
  if (!s.ok()) {
    const MutexLock lock(&jobs_.mu);
    consumed_.pop_back();
    return s;
  }
  pool_->readers()->Retire(std::move(settling));  // keeps B3
  for (const auto& table : overlapped) table->MakeObsolete();
  after_ = std::move(last);
  any_after_ = true;
  compactions_.fetch_add(1, std::memory_order_relaxed);
  return is_last ? DropOlder() : s;
}

// What is in tables, and whose readers are gone, leaves the tree, so that the other one may grow.
// What there is no room to cut off goes with all of the tree.
Status LabDb::LeaveTree() {
  Consumed part;
  {
    const MutexLock lock(&jobs_.mu);
    part = std::move(consumed_.front());
    consumed_.pop_front();
  }
  const auto tables = CurrentTables();
  Persister persister(pool_->gate(), WriteCause::kCompaction);
  const InternalKey last{part.last, 0};
  const Status s = tables->older->Remove({part.first, kTagFirst}, &last, &persister);
  return s.IsNoSpace() ? Status::OK() : s;
}

// All of it is in tables: it is no part of the store any more (B2), and what it has is given back
// once nobody reads it. Until its head is empty no other tree may become immutable (TurnOver): the
// head that is cleared would be that one's, or the new tree's, which has records meanwhile.
Status LabDb::DropOlder() {
  const TreePtr older = CurrentTables()->older;
  EpochDomain::Retirement leaving = pool_->AfterAllPins([older] { older->GiveBack(); });
  {
    const MutexLock tree(&tree_mu_);
    Status s = Install(
        LabDbEdit::kEmptied, {}, nullptr, [](Tables* changed) { changed->older = nullptr; },
        [](LabDbState* state) { state->has_older = 0; });
    if (CurrentTables()->older != older) {  // also where only the sync failed
      const MutexLock lock(&jobs_.mu);
      consumed_.clear();
    }
    if (s.ok()) s = ClearOther();
    if (!s.ok()) return s;
  }
  pool_->readers()->Retire(std::move(leaving));
  unneeded_.store(true);
  return Status::OK();
}

// Keeps B6, of a store without an immutable tree.
Status LabDb::ClearOther() {
  LAMELLA_CHECK(CurrentTables()->older == nullptr);
  Persister persister(pool_->gate(), WriteCause::kIndex);
  LeafTree::Clear(HeadOf(1 - catalog_.Get().active), &persister);
  return pool_->Sync();
}

Status LabDb::CompactLevels(const Compaction& compaction) {
  const auto tables = CurrentTables();
  SstEdit edit;
  Status s = files_.Compact(compaction, *tables->levels, context_.snapshots->Now(), &edit);
  if (s.ok()) s = Install(LabDbEdit::kCompact, edit, nullptr, nullptr, nullptr);
  if (!s.ok()) return s;
  std::set<uint64_t> kept;
  for (const auto& added : edit.added) kept.insert(added.table->info().number);
  const std::set<uint64_t> gone(edit.removed.begin(), edit.removed.end());
  tables->levels->ForEach([&](uint32_t, const auto& table) {
    const uint64_t number = table->info().number;
    if (gone.contains(number) && !kept.contains(number)) table->MakeObsolete();
  });
  compactions_.fetch_add(1, std::memory_order_relaxed);
  return s;
}

// Trees are in the pool, tables are not: so what they have becomes tables, the immutable one's
// first. The earlier a tree has to go, the more often tables are written again for few values: so
// none does where flushes alone made room, nor the other one where the first did.
Status LabDb::Reclaim() {
  const Reclaiming reclaiming(this);
  const uint64_t refused = TakeRefused();
  const uint64_t flushes = flush_count();
  bool for_flush = false;  // which was refused none: it wants rows of chunks
  {
    const MutexLock lock(&jobs_.mu);
    for_flush = flush_waits_;
  }
  Persister persister(pool_->gate(), WriteCause::kIndex);
  const auto give_back = [&] {
    pool_->AwaitDeferred();
    space_->FreeEmpty(&persister);
    return !for_flush && HasRoomFor(refused);
  };
  bool has_room = give_back();
  const auto compact = [&] {
    Status compacted = CompactOlder();
    has_room = give_back();
    return compacted.ok() && !has_room ? CompactTrees() : compacted;
  };
  const Status s = has_room ? Status::OK() : TryForRoom(kForTables, compact);
  if (!has_room) give_back();
  const MutexLock lock(&jobs_.mu);
  reclaim_wanted_ = false;
  if (std::exchange(flush_waits_, false))
    reclaimed_for_flush_at_ = std::chrono::steady_clock::now();
  // All that there was to be had, or that could be: to try it again at once would be in vain.
  if (!has_room && !HasNewlyFlushed(flushes))
    reclaimed_at_ = changes_.load(std::memory_order_relaxed);
  return s;
}

bool LabDb::ReclaimSpace() {
  const auto is_done = [this]() LAMELLA_REQUIRES(jobs_.mu) {
    return !HasUnflushed() && !reclaim_wanted_;
  };
  const auto begin = [&](bool has_deferred) LAMELLA_REQUIRES(jobs_.mu) {
    // First: what was tried is told by what the flushes changed that had ended by then.
    const bool done = is_done();
    // A tree that was read during the last one has given its chunks back since.
    const bool was_tried =
        reclaimed_at_ == changes_.load(std::memory_order_relaxed) && !space_->HasEmpty();
    const bool files_may_have_room =
        std::ranges::any_of(rooms_, &FileRoom::MayHaveSomeAgain);  // keeps B5
    if (done && !has_deferred && was_tried && !files_may_have_room) return false;
    reclaim_wanted_ = true;
    NeedRoom();
    return true;
  };
  return AwaitReclaimed(begin, is_done);
}

Status LabDb::CompactOlder() {
  Status s;
  while (s.ok() && CurrentTables()->older != nullptr) s = CompactPart();
  return s;
}

Status LabDb::CompactTrees() {
  Status s = CompactOlder();
  if (!s.ok()) return s;
  {
    const MutexLock lock(&tree_mu_);
    s = TurnOver();
  }
  return s.ok() ? CompactOlder() : s;
}

// Tables of the last level that are older than the call may have versions that snapshots saw, and
// what deletes hid from those.
Status LabDb::RewriteLast(const KeyRange& keys, uint64_t before) {
  const auto tables = CurrentTables();
  const uint32_t last = static_cast<uint32_t>(tables->levels->level_count()) - 1;
  Status s;
  if (tables->levels->level_count() < 2) return s;
  for (const auto& table : tables->levels->Overlapping(last, keys)) {
    if (table->info().number >= before) continue;
    MadeSsts made;
    s = files_.Write(
        Sst::NewIterator(table->sst(), kMergeScan).get(), context_.snapshots->Now(),
        [](std::string_view) { return false; }, &made);
    SstEdit edit{.removed = {table->info().number}, .added = {}};
    for (const auto& one : made) edit.added.push_back({last, one});
    if (s.ok()) s = Install(LabDbEdit::kCompact, edit, nullptr, nullptr, nullptr);
    if (!s.ok()) return s;
    table->MakeObsolete();
  }
  return s;
}

// What the trees have goes to tables, and of the range all into the last level that has tables.
Status LabDb::CompactRange(std::string_view begin, std::string_view end) {
  Status s = Flush();
  if (!s.ok()) return s;
  const uint64_t begun_at = NewNumber();
  Claims claims;
  for (uint32_t i = 0; i < kTableLevelsMax; i++) claims.push_back({kLevel0 + i, {}});
  JobBoard::Held held = jobs_.Take(std::move(claims));
  const auto empty_trees = [this] {
    Status emptied = CompactTrees();
    return emptied.ok() ? WriteAllOn() : emptied;  // tables have its values: the file goes at once
  };
  s = NoThrow([&] {
    Status compacted = empty_trees();
    if (compacted.ok() || compacted.IsNoSpace()) {
      Status looked;
      {
        const MutexLock lock(&tree_mu_);
        looked = RemoveUnneeded(true);
      }
      if (compacted.ok() || !looked.ok()) {
        compacted = looked;
      } else {
        compacted = empty_trees();  // there may be room where that was
      }
    }
    const KeyRange keys = KeyRange::Of(begin, end);
    for (uint32_t level = 1; compacted.ok() && level < rules_.last_level; level++) {
      const auto tables = CurrentTables();
      if (level + 1 >= tables->levels->level_count()) break;
      for (const auto& table : tables->levels->Overlapping(level, keys)) {
        const auto now = CurrentTables();
        Compaction compaction{.level = level,
                              .inputs = {table->info().number},
                              .next = {},
                              .keys = {table->info().smallest, table->info().largest}};
        for (const auto& next : now->levels->Overlapping(level + 1, compaction.keys))
          compaction.next.push_back(next->info().number);
        compaction.read_bytes = compaction.next.empty() ? 0 : table->info().bytes;
        compacted = CompactLevels(compaction);
        if (!compacted.ok()) break;
      }
    }
    return compacted.ok() ? RewriteLast(keys, begun_at) : compacted;
  });
  pool_->AwaitDeferred();
  held.GiveBack();  // tells of what is free by now
  return s;
}

Status LabDb::Close() {
  log_->LeaveChunks([](const ChunkRef&) { return true; });
  Status s = FlushAlone();
  return s.ok() ? pool_->Sync() : s;
}

}  // namespace lamella
