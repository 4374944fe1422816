#include "engine/buffered_engine.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/concat.h"
#include "base/hash.h"
#include "base/no_throw.h"
#include "base/raise_to.h"
#include "base/timed.h"
#include "engine/log_recovery.h"
#include "iterator/merging_iterator.h"

namespace lamella {

namespace {

// A MemTable's part of what the log that is not merged yet may take: some are merged or wait for it
// while one is filled.
constexpr uint64_t kUnmergedTables = 8;
// A MemTable's records may take this part of what the pool uses already: more of it would be dead
// before anybody looks.
constexpr uint64_t kLogPerUsed = 16;
// A MemTable so many times as large as it should be is switched whoever must be waited for.
constexpr uint64_t kOverfull = 2;

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
  pool_->LeavePromised(&copy_bytes_);
  log_ = std::make_unique<PmLog>(pool_, shards, contents.next_ordinal, copy_beside_);
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
  return Timed(&recovery_log_us_,
               [&] { return SortLogged(state, std::move(tables), std::move(oldest)); });
}

Status BufferedEngine::SortLogged(const LogState& state, std::shared_ptr<const TableSet> tables,
                                  std::shared_ptr<MemTable> oldest) {
  unified_ = state.unified;
  loaded_log_ = std::make_unique<LogContents>();
  Status s = ReadLog(*pool_, state.boundary, state.flushed_sequence, state.gaps,
                     state.may_have_holes, loaded_log_.get(), state.is_whole);
  if (s.ok() && state.may_have_holes) s = CheckSynced(*pool_, state.gaps, *loaded_log_);
  if (!s.ok()) return s;
  recovered_records_.store(loaded_log_->entries.size(), std::memory_order_relaxed);
  LogSorting sorting{.memtable_bytes = memtable_bytes_,
                     .memory = context_.memory,
                     .boundary = state.boundary,
                     .copy_bytes_max = nullptr};
  if (!unified_) {
    sorting.copy_bytes_max = [this](const Record& record) {
      RaiseTo(&copy_run_, FlushRunMax(record.bytes(), record.header.key_size));
      return FlushBytesMax(record.bytes(), record.header.key_size);
    };
  }
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

// Where memory is short, a store that has its share of it flushes early.
bool BufferedEngine::IsFull(const MemTable& memtable) const {
  const uint64_t bytes = memtable.memory_bytes();
  if (bytes >= memtable_bytes_ || log_full_.load(std::memory_order_relaxed)) return true;
  return bytes >= kMemTableBytesMin && context_.memory != nullptr &&
         context_.memory->MustShrink() && bytes >= context_.memory->ShareOf(memtable_bytes_);
}

bool BufferedEngine::IsOverfull() const {
  const EpochPin pin(pool_->readers());  // another may switch it meanwhile
  return active_.load(std::memory_order_acquire)->memory_bytes() >= kOverfull * memtable_bytes_ ||
         log_claimed_bytes_.load(std::memory_order_relaxed) >= kOverfull * LogBytesMax();
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
  const bool wait = force || IsOverfull();
  if (wait) {
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
    // would wait for that. One of them would even here: it leaves the switch to the next, as long
    // as the MemTable is not far too large.
    if (wait) {
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
    const uint64_t claimed = flush_claimed_.exchange(0, std::memory_order_relaxed);
    copy_bytes_.fetch_sub(flushed->copy_bytes() - claimed, std::memory_order_release);
    ReviseCopyRun();
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

bool BufferedEngine::HasUnflushed() const {
  const MutexLock lock(&read_set_mu_);
  return flushing_ != nullptr || !owned_read_set_->sealed.empty();
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
            {
              const MutexLock done(&read_set_mu_);
              flushing_ = nullptr;
              flushed_.notify_all();
            }
            jobs_.NotifyAll();  // AwaitReclaimed
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

size_t BufferedEngine::AwaitHeld() {
  {
    const MutexLock lock(&jobs_.mu);
  }
  return pool_->AwaitDeferred();
}

BufferedEngine::Reclaiming::Reclaiming(BufferedEngine* engine) : engine_(engine) {
  const MutexLock lock(&engine_->jobs_.mu);
  engine_->is_reclaiming_ = true;
}

BufferedEngine::Reclaiming::~Reclaiming() {
  const MutexLock lock(&engine_->jobs_.mu);
  engine_->is_reclaiming_ = false;
  engine_->reclaims_ended_++;
}

// Gets that are under way hold back tables that were replaced, and so the frees of what they lay
// in: only those count as deferred. What was retired since they were waited for may be such.
// What is to be done may be many jobs, as of a level 0 that has to be merged before anything is to
// be had. So the time is counted anew when one ends; but jobs that others ask for end for ever.
bool BufferedEngine::AwaitReclaimed(const BeginReclaim& begin, const IsReclaimed& is_done) {
  constexpr std::chrono::seconds kAtMost{5};  // without the end of a job
  constexpr std::chrono::minutes kInAllAtMost{1};
  constexpr std::chrono::milliseconds kLook{500};  // for errors, and the time: no job's end tells
  constexpr std::chrono::milliseconds kReadersAtMost{100};
  using std::chrono::steady_clock;
  SwitchMemTable(true);
  EpochDomain* const readers = pool_->readers();
  const uint64_t seen = readers->retirements();
  const bool readers_hold = !readers->AwaitRetired(kReadersAtMost);
  const bool has_deferred = AwaitHeld() != 0 || readers_hold;
  {
    const MutexLock lock(&jobs_.mu);
    if (!begin(has_deferred || readers->retirements() != seen)) return false;
  }
  const auto begun_at = steady_clock::now();
  context_.wake();
  {
    const MutexLock lock(&jobs_.mu);
    // The one that is under way may have begun before the call; those that come after the next are
    // for others.
    const uint64_t last = reclaims_ended_ + 1;
    uint64_t ends = jobs_.ends();
    auto ended_at = begun_at;
    const auto is_late = [&]() LAMELLA_REQUIRES(jobs_.mu) {
      const bool is_under_way = is_reclaiming_ && reclaims_ended_ <= last;
      const auto now = steady_clock::now();
      if (std::exchange(ends, jobs_.ends()) != jobs_.ends()) ended_at = now;
      return !is_under_way && (now >= ended_at + kAtMost || now >= begun_at + kInAllAtMost);
    };
    while (!is_done() && BackgroundError().ok() && !is_late()) jobs_.AwaitEnd(kLook);
  }
  pool_->AwaitDeferred();
  context_.wake();  // what that freed is for jobs, too
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
  stats->recovery_log_us += recovery_log_us_.load(std::memory_order_relaxed);
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
