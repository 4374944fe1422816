#include "engine/buffered_engine.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/assert.h"
#include "base/concat.h"
#include "base/hash.h"
#include "base/no_throw.h"
#include "engine/log_recovery.h"
#include "iterator/merging_iterator.h"

namespace lamella {

namespace {

// Of each part: what compaction needs to get on.
constexpr uint64_t kCompactionExtents = 3;
// The log that is not merged yet may take so much, or so often what lives. Writers wait from half
// of it on: new keys alone never make them, since a log of those is what lives.
constexpr double kUnmergedBytesMin = 24 << 20;
constexpr double kUnmergedPerLive = 3;
// A MemTable's part of it: some are merged or wait for it while one is filled.
constexpr uint64_t kUnmergedTables = 8;
// A MemTable's records may take this part of what the pool uses already: more of it would be dead
// before anybody looks.
constexpr uint64_t kLogPerUsed = 16;

uint32_t ShardCount(const Options& options) {
  constexpr uint32_t kShardsMax = 16;
  if (options.log_shards != 0) return options.log_shards;
  return std::clamp<uint32_t>(std::thread::hardware_concurrency(), 1, kShardsMax);
}

// Keeps a ReadSet alive as long as an iterator over its parts.
class ReadSetIterator final : public InternalIterator {
 public:
  ReadSetIterator(std::shared_ptr<const ReadSet> read_set, std::unique_ptr<InternalIterator> source)
      : read_set_(std::move(read_set)), source_(std::move(source)) {}
  bool Valid() const override { return source_->Valid(); }
  void SeekToFirst() override { source_->SeekToFirst(); }
  void SeekToLast() override { source_->SeekToLast(); }
  void Seek(const InternalKey& target) override { source_->Seek(target); }
  void SeekForPrev(const InternalKey& target) override { source_->SeekForPrev(target); }
  void Next() override { source_->Next(); }
  void Prev() override { source_->Prev(); }
  InternalKey key() const override { return source_->key(); }
  std::string_view value() const override { return source_->value(); }
  Status status() const override { return source_->status(); }
  Status VerifyChecksum() const override { return source_->VerifyChecksum(); }

 private:
  const std::shared_ptr<const ReadSet> read_set_;
  const std::unique_ptr<InternalIterator> source_;
};

}  // namespace

BufferedEngine::BufferedEngine(const EngineContext& context, uint64_t memtable_bytes,
                               CopyCost copy_cost)
    : context_(context),
      pool_(context.pool),
      jobs_(context.wake),
      memtable_bytes_(memtable_bytes),
      copy_cost_(copy_cost) {}

void BufferedEngine::StartWriting(uint32_t shards, bool unified, const LogContents& contents,
                                  std::vector<std::shared_ptr<MemTable>> sealed,
                                  std::shared_ptr<const TableSet> tables) {
  unified_ = unified;
  log_ = std::make_unique<PmLog>(pool_, shards, contents.next_ordinal);
  write_path_.Start(log_.get(), unified, contents.sequence_seen);
  auto read_set = std::make_shared<ReadSet>();
  std::shared_ptr<const KeyPrefixes> prefixes;
  if (!sealed.empty()) prefixes = sealed.front()->tree().prefixes();
  read_set->active =
      std::make_shared<MemTable>(pool_, next_memtable_id_.fetch_add(1), context_.memory, prefixes);
  read_set->sealed = std::move(sealed);
  read_set->tables = std::move(tables);
  for (const auto& memtable : read_set->sealed)
    copy_bytes_.fetch_add(memtable->copy_bytes(), std::memory_order_relaxed);
  active_.store(read_set->active.get(), std::memory_order_release);
  const MutexLock lock(&read_set_mu_);
  prefixes_ = std::move(prefixes);
  owned_read_set_ = read_set;
  read_set_.store(read_set.get(), std::memory_order_release);
  UpdateWriteDelay();
}

Status BufferedEngine::LoadLog(const LogState& state, std::shared_ptr<const TableSet> tables,
                               std::shared_ptr<MemTable> oldest) {
  unified_ = state.unified;
  loaded_log_ = std::make_unique<LogContents>();
  Status s = ReadLog(*pool_, state.boundary, state.flushed_sequence, state.gaps,
                     state.may_have_holes, loaded_log_.get());
  if (!s.ok()) return s;
  recovered_records_.store(loaded_log_->entries.size(), std::memory_order_relaxed);
  LogSorting sorting{.memtable_bytes = memtable_bytes_,
                     .memory = context_.memory,
                     .boundary = state.boundary,
                     .copy_bytes_max = nullptr};
  if (!unified_) sorting.copy_bytes_max = [this](uint64_t bytes) { return CopyBytesMax(bytes); };
  std::vector<std::shared_ptr<MemTable>> memtables = SortLog(pool_, *loaded_log_, sorting);
  std::reverse(memtables.begin(), memtables.end());  // newest first
  if (oldest != nullptr) memtables.push_back(std::move(oldest));
  StartWriting(ShardCount(*context_.options), unified_, *loaded_log_, std::move(memtables),
               std::move(tables));
  return s;
}

bool BufferedEngine::MendLog(std::vector<SequenceGap>* gaps, Persister* persister) {
  const std::unique_ptr<LogContents> contents = std::move(loaded_log_);
  ClearStaleMarks(*pool_, contents->entries, persister);
  const uint64_t void_last = gaps->empty() ? 0 : gaps->back().last;
  AddGap(gaps, contents->sequence_last, contents->sequence_seen);
  return !gaps->empty() && gaps->back().last != void_last;
}

Status BufferedEngine::Write(std::span<const WriteOperation> operations) {
  Status s = error_.Get();
  return s.ok() ? write_path_.Write(operations) : s;
}

// What is reserved is for the copies (I6).
Status BufferedEngine::Provide(const Needs& needs, SpareMemory* spare, uint64_t* reserved) {
  const MemTable* const active = active_.load(std::memory_order_acquire);
  if (!active->ProvideFor(needs.record_bytes.size(), needs.key_bytes_max, spare))
    return StatusOfException("memory for the MemTable");
  if (unified_) return Status::OK();
  for (const uint64_t bytes : needs.record_bytes) *reserved += CopyBytesMax(bytes);
  return ReserveCopies(needs.bytes, *reserved, needs.claimant);
}

void BufferedEngine::Abandon(uint64_t reserved) {
  copy_bytes_.fetch_sub(reserved, std::memory_order_relaxed);
}

bool BufferedEngine::Enter(std::span<const WriteOperation> operations, uint64_t first,
                           std::span<const Location> locations, uint64_t reserved,
                           SpareMemory* spare) {
  MemTable* const table = active_.load(std::memory_order_acquire);
  for (size_t i = 0; i < operations.size(); i++) {
    table->Add(operations[i].key, MakeTag(first + i, operations[i].kind), PlaceOf(locations[i]),
               spare);
  }
  if (reserved != 0) table->AddCopyBytes(reserved);
  return IsFull(*table) || IsEarly(*table);
}

void BufferedEngine::OnLogGrown(uint64_t bytes) {
  const uint64_t before = log_claimed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (before + bytes > LogBytesMax()) log_full_.store(true, std::memory_order_relaxed);
}

void BufferedEngine::OnWritten(bool entered, bool log_grown) {
  if (entered) SwitchMemTable(false);
  if (log_grown) context_.wake();  // chunks are provided in the background
}

// What lies beside it, and rounding; and what is left empty of an extent, since the next record did
// not fit: at most that one's size, or, where it is small, a share of the extent.
uint64_t BufferedEngine::CopyBytesMax(uint64_t record_bytes) const {
  constexpr uint64_t kSmallPerChunk = 16;  // of those, one in so many may be missing at the end
  const uint64_t bytes = record_bytes + copy_cost_.bytes_per_record;
  return bytes <= pool_->chunk_bytes() / kSmallPerChunk ? bytes + bytes / (kSmallPerChunk - 1) + 1
                                                        : 2 * bytes;
}

// The reserve stays for what it is there for, but that deletes may take of it.
Status BufferedEngine::ReserveCopies(uint64_t record_bytes, uint64_t copy_bytes,
                                     Claimant claimant) {
  const bool is_delete = claimant == Claimant::kReclaim;
  const uint64_t extents = is_delete ? kCompactionExtents : kReserveExtentsMin;
  const uint64_t merge_bytes =
      (is_delete ? merge_bytes_least_ : merge_bytes_).load(std::memory_order_relaxed);
  uint64_t soon = merge_bytes;
  uint64_t kept = 0;
  if (copy_cost_.merges_copy) {  // that is much: what one of them takes is to be there
    soon = merge_bytes_least_.load(std::memory_order_relaxed) / 2;
    kept = merge_bytes - std::min(soon, merge_bytes);
    const uint64_t copies = copy_bytes_.load(std::memory_order_relaxed) + copy_bytes;
    if (!is_delete)
      kept += copies - std::min(copies, compaction_bytes_.load(std::memory_order_relaxed));
  }
  Room room;
  Status grown = LetInOnceGrown(record_bytes + soon, copy_bytes, extents, kept, &room);
  if (room.suffices()) return grown;
  return Status::NoSpace(
      Concat("the pool is full: ", room.available, " chunks of ", pool_->chunk_bytes(),
             " bytes are left, and ", room.needed,
             " are needed for this write, its flush and that of those before it; raise "
             "pool_bytes_max or delete data"));
}

// A file system once full may have room again: so what the pool says that there is, is tried.
Status BufferedEngine::LetInOnceGrown(uint64_t record_bytes, uint64_t copy_bytes,
                                      uint64_t extents_kept, uint64_t kept_bytes, Room* room) {
  const uint32_t parts = copy_cost_.in_all_parts ? pool_->part_count() : 1;
  for (bool tried = false;; tried = true) {
    *room = LetIn(record_bytes, copy_bytes, extents_kept, kept_bytes);
    Status grown = pool_->GrowUntilFree(parts, room->suffices() ? room->soon : room->needed);
    if (!room->suffices() && grown.ok() && !tried) continue;
    if (room->suffices() && !grown.ok())
      copy_bytes_.fetch_sub(copy_bytes, std::memory_order_relaxed);
    return grown;
  }
}

// Keeps I6.
BufferedEngine::Room BufferedEngine::LetIn(uint64_t record_bytes, uint64_t copy_bytes,
                                           uint64_t extents_kept, uint64_t kept_bytes) {
  const uint64_t copies = copy_bytes_.fetch_add(copy_bytes, std::memory_order_relaxed) + copy_bytes;
  const uint64_t chunk_bytes = pool_->chunk_bytes();
  Room room;
  room.needed = copy_cost_.ends + (record_bytes + copies + chunk_bytes - 1) / chunk_bytes;
  room.soon = room.needed;
  room.needed += (kept_bytes + chunk_bytes - 1) / chunk_bytes;
  const uint32_t parts = copy_cost_.in_all_parts ? pool_->part_count() : 1;
  for (uint32_t part = 0; part < parts; part++) {
    room.needed +=
        std::max(extents_kept * pool_->extent_chunks(part), pool_->chunks_kept_for_index(part));
    room.soon += pool_->chunks_kept_for_index(part);
    room.available += std::min(pool_->chunks_available(part), UINT64_MAX / kPoolPartsMax);
  }
  if (!room.suffices()) copy_bytes_.fetch_sub(copy_bytes, std::memory_order_relaxed);
  return room;
}

bool BufferedEngine::CompactionRoom::Reserve(uint64_t bytes) {
  if (!engine_->LetIn(0, bytes, 0).suffices()) return false;
  Note(bytes);
  return true;
}

void BufferedEngine::CompactionRoom::Note(uint64_t bytes) {
  engine_->compaction_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  bytes_ += bytes;
}

Status BufferedEngine::CompactionRoom::Take(uint64_t bytes, std::string_view for_what) {
  Room room;
  Status grown = engine_->LetInOnceGrown(0, bytes, 0, 0, &room);
  if (!room.suffices()) {
    return Status::NoSpace(Concat("no room is left for ", for_what, ": ", bytes, " bytes beside ",
                                  "what is not flushed; ", grown.message()));
  }
  if (grown.ok()) Note(bytes);
  return grown;
}

// Compaction needs the last chunks, or what the deletes let go of would never come back.
bool BufferedEngine::DeletesMayUseReserve() const {
  for (uint32_t part = 0; part < pool_->part_count(); part++) {
    if (pool_->chunks_available(part) <= kCompactionExtents * pool_->extent_chunks(part))
      return false;
  }
  return true;
}

Status BufferedEngine::MakeSpace() {
  if (!ReclaimSpace()) return Status::NoSpace("");
  return error_.Get();
}

// Where memory is short, a store that has its share of it flushes early.
bool BufferedEngine::IsFull(const MemTable& memtable) const {
  const uint64_t bytes = memtable.memory_bytes();
  if (bytes >= memtable_bytes_ || log_full_.load(std::memory_order_relaxed)) return true;
  return bytes >= kMemTableBytesMin && context_.memory != nullptr &&
         context_.memory->MustShrink() && bytes >= context_.memory->ShareOf(memtable_bytes_);
}

// The first MemTables of a session know nothing of its keys: where their heads turn out to be alike
// they make room for one that learned from them. A second one, since a flush takes its time.
bool BufferedEngine::IsEarly(const MemTable& memtable) const {
  return early_switches_left_.load(std::memory_order_relaxed) != 0 &&
         memtable.tree().prefixes() == nullptr && memtable.tree().HeadsAlike();
}

std::shared_ptr<const KeyPrefixes> BufferedEngine::prefixes() const {
  const MutexLock lock(&read_set_mu_);
  return prefixes_;
}

void BufferedEngine::LearnPrefixes(const HeadTree& tree) {
  constexpr size_t kSampledKeys = 512;
  if (!tree.HeadsAlike()) return;  // the current ones fit, or none are needed
  SetPrefixes(KeyPrefixes::Learn(tree.SampleKeys(kSampledKeys)));
}

// Trees of the same ones take over each other's heads.
void BufferedEngine::SetPrefixes(std::shared_ptr<const KeyPrefixes> learned) {
  const MutexLock lock(&read_set_mu_);
  const bool same =
      learned != nullptr && prefixes_ != nullptr && learned->prefixes() == prefixes_->prefixes();
  if (!same) prefixes_ = std::move(learned);
}

void BufferedEngine::SwitchMemTable(bool force) {
  if (force) {
    switch_mu_.lock();
  } else if (!switch_mu_.try_lock()) {
    return;  // another writer does it
  }
  const MutexLock switching(&switch_mu_, AdoptMutex{});
  const MemTable* active = active_.load(std::memory_order_acquire);
  const bool early = IsEarly(*active);
  if (active->count() == 0 || (!force && !early && !IsFull(*active))) return;
  auto next = std::make_shared<ReadSet>();
  {
    // Before the shards': a background thread may have lost the processor with it, and writers
    // would wait for that. One of them would even here: it leaves the switch to the next.
    if (force) {
      read_set_mu_.lock();
    } else if (!read_set_mu_.try_lock()) {
      return;
    }
    const MutexLock lock(&read_set_mu_, AdoptMutex{});
    // Until `fresh` is published only memory may fail, and nothing is changed.
    auto fresh = std::make_shared<MemTable>(pool_, next_memtable_id_.fetch_add(1), context_.memory,
                                            prefixes_);
    next->active = fresh;
    EpochDomain::Retirement retirement([old = owned_read_set_] {});
    next->sealed.reserve(owned_read_set_->sealed.size() + 1);
    next->sealed.push_back(owned_read_set_->active);
    next->sealed.insert(next->sealed.end(), owned_read_set_->sealed.begin(),
                        owned_read_set_->sealed.end());
    next->tables = owned_read_set_->tables;
    write_path_.BetweenWrites([&](uint64_t last, std::vector<LogPosition> ends)
                                  LAMELLA_REQUIRES(read_set_mu_) {  // keeps I2
                                    owned_read_set_->active->Seal(last, std::move(ends));
                                    owned_read_set_->active->SetLogBytes(
                                        log_claimed_bytes_.exchange(0, std::memory_order_relaxed));
                                    read_set_.store(next.get(), std::memory_order_release);
                                    active_.store(fresh.get(), std::memory_order_release);
                                  });
    pool_->readers()->Retire(std::move(retirement));  // unreachable by now
    owned_read_set_ = next;
    UpdateWriteDelay();
    log_full_.store(false, std::memory_order_relaxed);
    if (early) early_switches_left_.fetch_sub(1, std::memory_order_relaxed);
  }
  context_.wake();
}

// What a MemTable's records may take in the log: large ones would fill it with what is dead long
// since, and only merging finds that.
uint64_t BufferedEngine::LogBytesMax() const {
  const uint64_t most = std::max(2 * memtable_bytes_, pool_->used_bytes() / kLogPerUsed);
  return std::min(most, unmerged_bytes_max_.load(std::memory_order_relaxed) / kUnmergedTables);
}

// More sealed MemTables than that there are never at once: writers stand still.
BufferedEngine::InstallMemory::InstallMemory()
    : next(std::make_shared<ReadSet>()),
      old(std::make_shared<std::shared_ptr<const ReadSet>>()),
      retirement([old = old] {}) {
  constexpr size_t kSealedMax = 64;
  next->sealed.reserve(kSealedMax);
}

void BufferedEngine::Install(std::shared_ptr<const TableSet> tables, const MemTable* flushed,
                             InstallMemory memory) {
  const MutexLock lock(&read_set_mu_);
  const std::shared_ptr<ReadSet> next = std::move(memory.next);
  next->active = owned_read_set_->active;
  next->sealed = owned_read_set_->sealed;
  next->tables = std::move(tables);
  if (flushed != nullptr && !next->sealed.empty() && next->sealed.back().get() == flushed) {
    next->sealed.pop_back();
    copy_bytes_.fetch_sub(flushed->copy_bytes(), std::memory_order_relaxed);
  }
  *memory.old = owned_read_set_;
  read_set_.store(next.get(), std::memory_order_release);
  pool_->readers()->Retire(std::move(memory.retirement));  // unreachable by now
  owned_read_set_ = next;
  flushed_.notify_all();
  UpdateWriteDelay();
}

std::shared_ptr<const ReadSet> BufferedEngine::CurrentReadSet() const {
  const MutexLock lock(&read_set_mu_);
  return owned_read_set_;
}

std::optional<Job> BufferedEngine::PickFlush() {
  const MutexLock lock(&read_set_mu_);
  if (flushing_ != nullptr || owned_read_set_ == nullptr || owned_read_set_->sealed.empty())
    return std::nullopt;
  const std::shared_ptr<MemTable> oldest = owned_read_set_->sealed.back();  // keeps I4
  Job job{"flush", [this, memtable = oldest] {
            (void)NoThrow([&] {  // without memory the next tables' heads are as they were
              LearnPrefixes(memtable->tree());
              return Status::OK();
            });
            const auto began = std::chrono::steady_clock::now();
            Status s = NoThrow([&] { return FlushMemTable(memtable); });
            if (s.ok()) CountFlush(memtable->count(), std::chrono::steady_clock::now() - began);
            const MutexLock done(&read_set_mu_);
            flushing_ = nullptr;
            flushed_.notify_all();
            return s;
          }};
  flushing_ = oldest;
  return job;
}

std::optional<Job> BufferedEngine::PickUrgentJob() {
  if (auto flush = PickFlush()) return flush;
  const MutexLock lock(&jobs_.mu);
  if (jobs_.IsBusy(kFreshChunks) || !pool_->NeedsProvision()) return std::nullopt;
  return jobs_.Begin({.name = "provision", .claims = {{kFreshChunks, {}}}, .run = [this] {
                        Status s = pool_->Provision();
                        // writers will find out, and wait for space
                        return s.IsNoSpace() ? Status::OK() : s;
                      }});
}

bool BufferedEngine::AwaitReclaimed(const BeginReclaim& begin, const IsReclaimed& is_done) {
  constexpr std::chrono::seconds kAtMost{5};
  using std::chrono::steady_clock;
  SwitchMemTable(true);
  const bool has_deferred = pool_->AwaitDeferred() != 0;
  {
    const MutexLock lock(&jobs_.mu);
    if (!begin(has_deferred)) return false;
  }
  const auto deadline = steady_clock::now() + kAtMost;
  context_.wake();
  {
    const MutexLock lock(&jobs_.mu);
    while (!is_done() && BackgroundError().ok() && steady_clock::now() < deadline)
      jobs_.AwaitEnd(deadline - steady_clock::now());
  }
  pool_->AwaitDeferred();
  return true;
}

Status BufferedEngine::FlushAllNow() {
  SwitchMemTable(true);
  while (auto job = PickFlush()) {
    Status s = job->run();
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status BufferedEngine::Flush() {
  SwitchMemTable(true);
  context_.wake();
  const MutexLock lock(&read_set_mu_);
  // Only what is sealed by now: while somebody writes there is always another. The newest of it is
  // flushed last (I4).
  const auto newest = owned_read_set_->sealed.empty() ? flushing_ : owned_read_set_->sealed.front();
  const auto under_way = [&]() LAMELLA_REQUIRES(read_set_mu_) {
    const auto& left = owned_read_set_->sealed;
    return newest == flushing_ || std::find(left.begin(), left.end(), newest) != left.end();
  };
  while (newest != nullptr && under_way()) {
    Status s = error_.Get();
    if (!s.ok()) return s;
    flushed_.wait(read_set_mu_);
  }
  return Status::OK();
}

double BufferedEngine::SampleLiveShare(
    const MemTable& memtable, const std::function<bool(std::string_view, uint64_t)>& has_put) {
  constexpr size_t kSampled = 128;
  const std::vector<std::string> keys = memtable.tree().SampleKeys(kSampled);
  uint64_t dead = 0;
  for (const std::string& key : keys) {
    HeadTree::Entry entry;
    const bool deleted =
        memtable.Get({key, kTagFirst}, &entry) && TagKind(entry.tag) == RecordKind::kDelete;
    dead += (deleted ? 1 : 0) + (has_put(key, Hash64(key)) ? 1 : 0);
  }
  if (keys.empty()) return 1;
  return 1 - std::min(1.0, static_cast<double>(dead) / static_cast<double>(keys.size()));
}

// Of what the log that is not merged yet may take, how much it does. The bound goes by what lives,
// and what of that log will, by what flushes saw (Unmerged).
double BufferedEngine::UnmergedShare() {
  std::optional<Unmerged> unmerged = UnmergedOf(*owned_read_set_->tables);
  if (!unmerged) return 0;
  live_share_ = unmerged->live_share_of_last.value_or(live_share_);
  double bytes = static_cast<double>(unmerged->bytes);
  double live_bytes = static_cast<double>(LiveBytes() + unmerged->live_bytes);
  for (const auto& memtable : owned_read_set_->sealed) {
    // where a flush copies records it has them twice for a while
    bytes += static_cast<double>(memtable->log_bytes() + memtable->copy_bytes());
    live_bytes += static_cast<double>(memtable->log_bytes()) * live_share_;
  }
  const double bytes_max = std::max(kUnmergedBytesMin, kUnmergedPerLive * live_bytes);
  unmerged_bytes_max_.store(static_cast<uint64_t>(bytes_max), std::memory_order_relaxed);
  return (bytes + static_cast<double>(LogBytesMax())) / bytes_max;
}

// The debt is what a read may have to look through, and what the pool may hold of dead records that
// nobody has found (keeps I5). Up to half of what may be held of either it costs writers nothing;
// from there on each record waits longer, by the square, until at the end it waits for room.
// Writers and compaction thus meet where the delay makes up for the difference of their speeds:
// about a microsecond a record.
// Stored under the lock that the read set is read under: an older answer that came after a newer
// one would hold writers back for good. It is stored here alone, and whoever waits in AwaitWriting
// with that lock is told; an active MemTable by itself is far from the end, so what stopped writers
// is to be flushed or compacted, and Install comes by once it is.
void BufferedEngine::UpdateWriteDelay() {
  constexpr double kFreeShare = 0.5;
  constexpr double kDelayNsMax = 20'000;
  uint64_t bytes = memtable_bytes_ + UncompactedBytes(*owned_read_set_->tables);
  for (const auto& memtable : owned_read_set_->sealed) bytes += memtable->memory_bytes();
  double share = static_cast<double>(bytes) / static_cast<double>(BufferedBytesMax());
  const double behind = std::max(UnmergedShare(), ReadDebt(*owned_read_set_->tables));
  share = std::max(share, starved_ ? std::min(behind, 1.0) : behind);
  const double over = std::max(0.0, (share - kFreeShare) / (1 - kFreeShare));
  delay_ns_.store(over > 1 ? kStopWriting
                           : std::max(static_cast<uint32_t>(kDelayNsMax * over * over),
                                      CompactionDelayNs(*owned_read_set_->tables)),
                  std::memory_order_relaxed);
  delay_changed_.notify_all();
}

void BufferedEngine::ReviseWriteDelay() {
  const MutexLock lock(&read_set_mu_);
  UpdateWriteDelay();
}

void BufferedEngine::SetStarved(bool starved) {
  const MutexLock lock(&read_set_mu_);
  if (starved_ == starved) return;
  starved_ = starved;
  UpdateWriteDelay();
}

void BufferedEngine::AwaitWriting() {
  const MutexLock lock(&read_set_mu_);
  while (WriteDelayNs() == kStopWriting && !error_.is_set()) delay_changed_.wait(read_set_mu_);
}

Lookup BufferedEngine::Get(std::string_view key, uint64_t sequence, bool verify, EpochPin* pin) {
  const ReadSet* read_set = read_set_.load(std::memory_order_acquire);
  const InternalKey target{key, SeekTag(sequence)};
  const Candidates candidates = FindCandidates(key);
  HeadTree::Entry entry;
  bool found = read_set->active->Get(target, &entry);
  for (size_t i = 0; !found && i < read_set->sealed.size(); i++)
    found = read_set->sealed[i]->Get(target, &entry);
  Lookup lookup;
  if (found) {
    gets_memtable_.Add();
    lookup = Found(entry.place(), TagKind(entry.tag));
  } else {
    lookup = SearchTables(*read_set->tables, target, candidates, verify, pin);
  }
  if (verify && lookup.place) {
    lookup.damage = VerifyRecord(*pool_, lookup.place);
    if (!lookup.damage.ok()) lookup.state = LookupState::kDamaged;
  }
  return lookup;
}

Lookup BufferedEngine::Found(PmPtr place, RecordKind kind) const {
  Lookup lookup;
  lookup.place = place;
  if (kind == RecordKind::kDelete) {
    lookup.state = LookupState::kDeleted;
  } else {
    pool_->gate()->OnRead(kMediaBlockBytes);
    const Record* record = pool_->At<Record>(place);
    if (!pool_->Contains(place, record->bytes())) [[unlikely]]
      return Damaged(PmPtr::DamagedAt(place));
    lookup.state = LookupState::kFound;
    lookup.value = record->value();
  }
  return lookup;
}

Lookup BufferedEngine::Damaged(PmPtr damaged) const {
  Lookup lookup;
  lookup.state = LookupState::kDamaged;
  lookup.damage = DescribeDamage(*pool_, damaged);
  return lookup;
}

std::unique_ptr<InternalIterator> BufferedEngine::NewIterator(bool verify) {
  std::shared_ptr<const ReadSet> read_set = CurrentReadSet();
  std::vector<std::unique_ptr<InternalIterator>> children;
  if (read_set->active->count() > 0) children.push_back(read_set->active->NewIterator());
  for (const auto& memtable : read_set->sealed) children.push_back(memtable->NewIterator());
  AddTableIterators(read_set->tables, verify, &children);
  return std::make_unique<ReadSetIterator>(std::move(read_set),
                                           NewMergingIterator(std::move(children)));
}

void BufferedEngine::CountFlush(uint64_t records, std::chrono::nanoseconds took) {
  flushes_.fetch_add(1, std::memory_order_relaxed);
  flushed_records_.fetch_add(records, std::memory_order_relaxed);
  flush_ns_.fetch_add(static_cast<uint64_t>(took.count()), std::memory_order_relaxed);
}

void BufferedEngine::AddStats(Stats* stats) const {
  write_path_.AddStats(stats);
  stats->sources.push_back({"MemTable", gets_memtable_.Sum()});
  stats->flushes += flushes_.load(std::memory_order_relaxed);
  stats->flushed_records += flushed_records_.load(std::memory_order_relaxed);
  stats->flush_ns += flush_ns_.load(std::memory_order_relaxed);
  stats->recovered_records += recovered_records_.load(std::memory_order_relaxed);
  const auto read_set = CurrentReadSet();
  stats->dram_bytes += read_set->active->memory_bytes();
  for (const auto& memtable : read_set->sealed) stats->dram_bytes += memtable->memory_bytes();
}

std::string BufferedEngine::Describe() const {
  const auto read_set = CurrentReadSet();
  return Concat("MemTables: active ", read_set->active->count(), " records, ",
                read_set->active->memory_bytes(), " bytes of DRAM; sealed ",
                read_set->sealed.size(), "\n");
}

void BufferedEngine::SetBackgroundError(const Status& status) {
  {
    const MutexLock lock(&read_set_mu_);  // who waits has looked before it, or is told
    if (!error_.Set(status)) return;
  }
  flushed_.notify_all();
  delay_changed_.notify_all();
  jobs_.NotifyAll();  // ReclaimSpace
}

}  // namespace lamella
