#include "engine/buffered_engine.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/assert.h"
#include "base/concat.h"
#include "base/no_throw.h"
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

BufferedEngine::BufferedEngine(const EngineContext& context, uint64_t memtable_bytes)
    : context_(context), pool_(context.pool), memtable_bytes_(memtable_bytes) {}

void BufferedEngine::StartWriting(uint32_t shards, bool unified,
                                  const std::vector<uint64_t>& next_ordinal, uint64_t sequence_last,
                                  std::vector<std::shared_ptr<MemTable>> sealed,
                                  std::shared_ptr<const TableSet> tables) {
  unified_ = unified;
  log_ = std::make_unique<PmLog>(pool_, shards, next_ordinal);
  sequencer_.Reset(sequence_last);
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

uint32_t BufferedEngine::RandomHeight(Random* random) {
  // One in four goes a layer up.
  const uint64_t bits = random->Next() | (uint64_t{1} << (2 * (kHeightMax - 1)));
  return 1 + static_cast<uint32_t>(std::countr_zero(bits)) / 2;
}

// Copying a large value takes longer than everything else of a write together: it is done without
// the lock that other writes of the shard wait for. Records below kRecordBytesMin are copied in
// less time than entering them takes.
bool BufferedEngine::IsLarge(std::span<const WriteOperation> operations) {
  constexpr uint64_t kWriteBytesMin = 4096;
  constexpr uint64_t kRecordBytesMin = 1024;
  uint64_t bytes = 0;
  for (const WriteOperation& op : operations) bytes += op.key.size() + op.value.size();
  return bytes >= std::max(kWriteBytesMin, kRecordBytesMin * operations.size());
}

Status BufferedEngine::Write(std::span<const WriteOperation> operations) {
  if (has_error_.load(std::memory_order_acquire)) return BackgroundError();
  const bool large = IsLarge(operations);
  uint64_t last = 0;
  bool full = false;
  bool claimed = false;
  for (int attempt = 0;; attempt++) {
    Status s = Status::NoSpace("");
    // A pool part may be full while another has room: the shards of all are asked.
    for (uint32_t turn = 0; s.IsNoSpace() && turn < log_->turns(); turn++) {
      WritePlaces places;
      s = WriteToShard(operations, large, turn, &places, &last, &full);
      claimed = claimed || places.claimed;
    }
    if (s.ok()) break;
    if (!s.IsNoSpace()) return s;
    s = MakeRoom(s, attempt);
    if (!s.ok()) return s;
  }
  sequencer_.Await(last);
  if (claimed || full) [[unlikely]] {
    // The write is done, whatever memory is refused here: the next one tries again. Not under a
    // shard's lock: a job may run here.
    (void)NoThrow([&] {
      if (full) SwitchMemTable(false);
      if (claimed) context_.wake();  // chunks are provided in the background
      return Status::OK();
    });
  }
  return Status::OK();
}

// Heights and space, before anything is written: nothing can fail from there on.
Status BufferedEngine::Prepare(PmLog::Shard* shard, std::span<const WriteOperation> operations,
                               WritePlaces* places) {
  RecordAppender& appender = *shard->appender;
  const uint64_t claimed_before = appender.claimed_bytes();
  const auto is_delete = [](const WriteOperation& op) { return op.kind == RecordKind::kDelete; };
  const bool makes_room =
      std::all_of(operations.begin(), operations.end(), is_delete) && DeletesMayUseReserve();
  const Claimant claimant = makes_room ? Claimant::kReclaim : Claimant::kWriter;
  const auto count = static_cast<uint32_t>(operations.size());
  if (count > 1) places->many.resize(count);
  std::vector<uint64_t> bytes(count > 1 ? count : 0);
  size_t key_bytes = 0;
  for (uint32_t i = 0; i < count; i++) {
    const WriteOperation& op = operations[i];
    (*places)[i].height = unified_ ? RandomHeight(&shard->random) : 0;
    key_bytes = std::max(key_bytes, op.key.size());
    const uint64_t each = RecordBytes((*places)[i].height, op.key.size(), op.value.size());
    places->record_bytes += each;
    if (!unified_) places->copy_bytes += CopyBytesMax(each);
    if (count > 1) bytes[i] = each;
  }
  Status s;
  if (!active_.load(std::memory_order_acquire)->ProvideFor(count, key_bytes, &shard->spare)) {
    return StatusOfException("memory for the MemTable");
  }
  if (!unified_) {
    s = ReserveCopies(places->record_bytes, places->copy_bytes, claimant);
    if (!s.ok()) return s;
  }
  s = NoThrow([&] {
    return count > 1 ? appender.Prepare(bytes.data(), count, claimant)
                     : appender.Prepare(places->record_bytes, claimant);
  });
  if (!s.ok()) copy_bytes_.fetch_sub(places->copy_bytes, std::memory_order_relaxed);
  if (const uint64_t claimed = appender.claimed_bytes() - claimed_before; claimed != 0)
      [[unlikely]] {
    const uint64_t before = log_claimed_bytes_.fetch_add(claimed, std::memory_order_relaxed);
    if (before + claimed > LogBytesMax()) log_full_.store(true, std::memory_order_relaxed);
    places->claimed = true;
  }
  return s;
}

// Nothing that takes as long as the write is large stands between drawing its numbers and entering
// its records.
Status BufferedEngine::WriteToShard(std::span<const WriteOperation> operations, bool large,
                                    uint32_t turn, WritePlaces* written, uint64_t* last,
                                    bool* full) {
  std::unique_lock<Mutex> staging;
  std::unique_lock<Mutex> lock;
  PmLog::Shard* shard =
      large ? log_->TakeShardForLarge(&staging, turn) : log_->TakeShard(&lock, turn);
  sequencer_.PrefetchDraw();
  WritePlaces& places = *written;
  Status s = Prepare(shard, operations, &places);
  if (!s.ok()) return s;
  const auto count = static_cast<uint32_t>(operations.size());
  // Entering many small records takes longer than copying them: they are copied once, headers and
  // all.
  const bool stages = large || places.record_bytes <= RecordAppender::kStagedBytesMax;
  for (uint32_t i = 0; stages && i < count; i++) {
    places[i].staged = shard->appender->Stage(InputOf(operations, i, 0, places[i].height, 0));
  }
  if (large) lock = std::unique_lock(shard->mu);
  const uint64_t published = sequencer_.published();
  const uint64_t first = sequencer_.Draw(count);
  for (uint32_t i = 0; i < count; i++) {
    const RecordInput input = InputOf(operations, i, first, places[i].height, published);
    if (stages) {
      shard->appender->Complete(places[i].staged, input);
    } else {
      places[i].staged.place = shard->appender->Append(input);
    }
  }
  shard->appender->Commit();  // the one fence
  Enter(shard, operations, first, places, full);
  if (large) shard->end = shard->appender->Seal();  // keeps PmLog's I3
  *last = first + count - 1;
  return s;
}

RecordInput BufferedEngine::InputOf(std::span<const WriteOperation> operations, uint32_t i,
                                    uint64_t first, uint32_t height, uint64_t published) {
  return {.tag = MakeTag(first + i, operations[i].kind),
          .key = operations[i].key,
          .value = operations[i].value,
          .height = height,
          .batch_remaining = static_cast<uint32_t>(operations.size()) - 1 - i,
          .published = published};
}

// What is durable becomes visible. REQUIRES: the shard's lock.
void BufferedEngine::Enter(PmLog::Shard* shard, std::span<const WriteOperation> operations,
                           uint64_t first, WritePlaces& places, bool* full) {
  MemTable* table = active_.load(std::memory_order_acquire);
  const auto count = static_cast<uint32_t>(operations.size());
  uint64_t user_bytes = 0;
  uint32_t deletes = 0;
  for (uint32_t i = 0; i < count; i++) {
    const WriteOperation& op = operations[i];
    table->Add(op.key, MakeTag(first + i, op.kind), places[i].staged.place, &shard->spare);
    user_bytes += op.key.size() + op.value.size();
    deletes += op.kind == RecordKind::kDelete ? 1 : 0;
  }
  sequencer_.Finish(first, count);
  if (places.copy_bytes != 0) table->AddCopyBytes(places.copy_bytes);

  // written under the shard's lock only
  const auto add = [](std::atomic<uint64_t>& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  };
  add(shard->puts, count - deletes);
  add(shard->deletes, deletes);
  add(shard->batches, count > 1 ? 1 : 0);
  add(shard->user_bytes, user_bytes);
  *full = IsFull(*table) || IsEarly(*table);
}

// Links and rounding; and what is left empty of an extent, since the next record did not fit: at
// most that one's size, or, where it is small, a share of the extent.
uint64_t BufferedEngine::CopyBytesMax(uint64_t record_bytes) const {
  constexpr uint64_t kLinkBytesMean = 16;
  const uint64_t bytes = record_bytes + kLinkBytesMean;
  return bytes <= pool_->chunk_bytes() / 16 ? bytes + bytes / 15 + 1 : 2 * bytes;
}

// Keeps I6. The reserve stays for what it is there for, but that deletes may take of it. Copies are
// made in the first part.
Status BufferedEngine::ReserveCopies(uint64_t record_bytes, uint64_t copy_bytes,
                                     Claimant claimant) {
  const uint64_t copies = copy_bytes_.fetch_add(copy_bytes, std::memory_order_relaxed) + copy_bytes;
  const uint64_t extents = claimant == Claimant::kReclaim ? kCompactionExtents : kReserveExtentsMin;
  const uint64_t kept =
      std::max(extents * pool_->extent_chunks(0), pool_->chunks_kept_for_index(0));
  const uint64_t needed = kept + (record_bytes + copies) / pool_->chunk_bytes() + 1;
  const uint64_t available = pool_->chunks_available(0);
  if (needed <= available) return Status::OK();
  copy_bytes_.fetch_sub(copy_bytes, std::memory_order_relaxed);
  return Status::NoSpace(
      Concat("the pool is full: ", available, " chunks of ", pool_->chunk_bytes(),
             " bytes are left, and ", needed,
             " are needed for this write, its flush and that of those before it; raise "
             "pool_bytes_max or delete data"));
}

// Compaction needs the last chunks, or what the deletes let go of would never come back.
bool BufferedEngine::DeletesMayUseReserve() const {
  for (uint32_t part = 0; part < pool_->part_count(); part++) {
    if (pool_->chunks_available(part) <= kCompactionExtents * pool_->extent_chunks(part))
      return false;
  }
  return true;
}

Status BufferedEngine::MakeRoom(const Status& no_space, int attempt) {
  constexpr int kAttemptsMax = 8;
  if (attempt >= kAttemptsMax) return no_space;
  using std::chrono::steady_clock;
  const auto start = steady_clock::now();
  const bool reclaimed = ReclaimSpace();
  const auto stalled = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now() - start).count());
  stall_ns_.fetch_add(stalled, std::memory_order_relaxed);
  stall_count_.fetch_add(1, std::memory_order_relaxed);
  uint64_t longest = stall_ns_max_.load(std::memory_order_relaxed);
  while (stalled > longest &&
         !stall_ns_max_.compare_exchange_weak(longest, stalled, std::memory_order_relaxed)) {
  }
  if (!reclaimed) return no_space;
  if (has_error_.load(std::memory_order_acquire)) return BackgroundError();
  return Status::OK();
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
  if (!tree.HeadsAlike()) return;  // those of now fit, or none are needed
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
    std::vector<std::unique_lock<Mutex>> locks;
    for (uint32_t i = 0; i < log_->shard_count(); i++) locks.emplace_back(log_->shard(i).mu);
    LAMELLA_CHECK(sequencer_.published() == sequencer_.last_drawn());  // keeps I2: Sequencer's I3
    owned_read_set_->active->Seal(sequencer_.last_drawn(), log_->SealAll());
    owned_read_set_->active->SetLogBytes(log_claimed_bytes_.exchange(0, std::memory_order_relaxed));
    read_set_.store(next.get(), std::memory_order_release);
    active_.store(fresh.get(), std::memory_order_release);
    locks.clear();                                    // writers go on
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
  const uint64_t most = std::max(2 * memtable_bytes_, pool_->used_bytes() / 16);
  return std::min(most, unmerged_bytes_max_.load(std::memory_order_relaxed) / kUnmergedTables);
}

void BufferedEngine::Install(std::shared_ptr<const TableSet> tables, const MemTable* flushed) {
  {
    const MutexLock lock(&read_set_mu_);
    auto next = std::make_shared<ReadSet>(*owned_read_set_);
    EpochDomain::Retirement retirement([old = owned_read_set_] {});
    next->tables = std::move(tables);
    if (flushed != nullptr && !next->sealed.empty() && next->sealed.back().get() == flushed) {
      next->sealed.pop_back();
      copy_bytes_.fetch_sub(flushed->copy_bytes(), std::memory_order_relaxed);
    }
    read_set_.store(next.get(), std::memory_order_release);
    pool_->readers()->Retire(std::move(retirement));  // unreachable by now
    owned_read_set_ = next;
    flushed_.notify_all();
    UpdateWriteDelay();
  }
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
            Status s = NoThrow([&] { return FlushMemTable(memtable); });
            if (s.ok()) flushes_.fetch_add(1, std::memory_order_relaxed);
            const MutexLock done(&read_set_mu_);
            flushing_ = nullptr;
            flushed_.notify_all();
            return s;
          }};
  flushing_ = oldest;
  return job;
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
    if (has_error_.load(std::memory_order_acquire)) return BackgroundError();
    flushed_.wait(read_set_mu_);
  }
  return Status::OK();
}

// Of what the log that is not merged yet may take, how much it does. The bound goes by what lives,
// and what of that log will, by what flushes saw (Unmerged). REQUIRES: read_set_mu_ is held.
double BufferedEngine::UnmergedShare() {
  std::optional<Unmerged> unmerged = UnmergedOf(*owned_read_set_->tables);
  if (!unmerged) return 0;
  live_share_ = unmerged->live_share_of_last.value_or(live_share_);
  double bytes = static_cast<double>(unmerged->bytes);
  double live_bytes = static_cast<double>(LiveBytes() + unmerged->live_bytes);
  for (const auto& memtable : owned_read_set_->sealed) {
    bytes += static_cast<double>(memtable->log_bytes());
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
// one would hold writers back for good.
void BufferedEngine::UpdateWriteDelay() {
  constexpr double kFreeShare = 0.5;
  constexpr double kDelayNsMax = 20'000;
  uint64_t bytes = memtable_bytes_ + UncompactedBytes(*owned_read_set_->tables);
  for (const auto& memtable : owned_read_set_->sealed) bytes += memtable->memory_bytes();
  double share = static_cast<double>(bytes) / static_cast<double>(BufferedBytesMax());
  share = std::max(share, UnmergedShare());
  const double over = std::max(0.0, (share - kFreeShare) / (1 - kFreeShare));
  delay_ns_.store(over > 1 ? kStopWriting : static_cast<uint32_t>(kDelayNsMax * over * over),
                  std::memory_order_relaxed);
  delay_changed_.notify_all();
}

void BufferedEngine::AwaitWriteDelayChange(std::chrono::nanoseconds at_most) {
  const MutexLock lock(&read_set_mu_);
  delay_changed_.wait_for(read_set_mu_, at_most, [this] {
    return WriteDelayNs() != kStopWriting || has_error_.load(std::memory_order_acquire);
  });
}

Lookup BufferedEngine::Get(std::string_view key, uint64_t sequence, bool verify) {
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
    lookup = SearchTables(*read_set->tables, target, candidates, verify);
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

void BufferedEngine::AddStats(Stats* stats) const {
  for (uint32_t i = 0; i < log_->shard_count(); i++) {
    const PmLog::Shard& shard = log_->shard(i);
    stats->puts += shard.puts.load(std::memory_order_relaxed);
    stats->deletes += shard.deletes.load(std::memory_order_relaxed);
    stats->batches += shard.batches.load(std::memory_order_relaxed);
    stats->user_bytes_written += shard.user_bytes.load(std::memory_order_relaxed);
  }
  stats->stall_ns += stall_ns_.load(std::memory_order_relaxed);
  stats->stall_count += stall_count_.load(std::memory_order_relaxed);
  stats->stall_ns_max =
      std::max(stats->stall_ns_max, stall_ns_max_.load(std::memory_order_relaxed));
  stats->sources.push_back({"MemTable", gets_memtable_.Sum()});
  stats->sequence = PublishedSequence();
  stats->flushes += flushes_.load(std::memory_order_relaxed);
  const auto read_set = CurrentReadSet();
  stats->dram_bytes += read_set->active->memory_bytes();
  for (const auto& memtable : read_set->sealed) stats->dram_bytes += memtable->memory_bytes();
}

Status BufferedEngine::BackgroundError() const {
  const MutexLock lock(&error_mu_);
  return error_;
}

void BufferedEngine::SetBackgroundError(const Status& status) {
  {
    const MutexLock lock(&error_mu_);
    if (!error_.ok() || status.ok()) return;
    error_ = Status::ReadOnly({});
    // of want of memory, too, it tells, if with fewer words
    (void)NoThrow([&]() LAMELLA_REQUIRES(error_mu_) {
      error_ = Status::ReadOnly("the store is read-only since an error: " + status.ToString() +
                                "; mend the cause and call DB::Resume, or reopen the store");
      return Status::OK();
    });
  }
  {
    const MutexLock lock(&read_set_mu_);  // who waits has looked before it, or is told
    has_error_.store(true, std::memory_order_release);
  }
  flushed_.notify_all();
  delay_changed_.notify_all();
}

void BufferedEngine::ClearBackgroundError() {
  const MutexLock lock(&error_mu_);
  error_ = Status::OK();
  has_error_.store(false, std::memory_order_release);
}

}  // namespace lamella
