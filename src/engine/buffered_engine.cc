#include "engine/buffered_engine.h"

#include <algorithm>
#include <bit>

#include "iterator/merging_iterator.h"

namespace lamella {

namespace {

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

void BufferedEngine::StartWriting(uint32_t shards, bool unified, const std::vector<uint64_t>& next_ordinal,
                                  uint64_t sequence_last, std::vector<std::shared_ptr<MemTable>> sealed,
                                  std::shared_ptr<const TableSet> tables) {
  unified_ = unified;
  log_ = std::make_unique<PmLog>(pool_, shards, next_ordinal);
  sequencer_.Reset(sequence_last);
  auto read_set = std::make_shared<ReadSet>();
  read_set->active = std::make_shared<MemTable>(pool_, next_memtable_id_.fetch_add(1));
  read_set->sealed = std::move(sealed);
  read_set->tables = std::move(tables);
  active_.store(read_set->active.get(), std::memory_order_release);
  const std::lock_guard lock(read_set_mu_);
  owned_read_set_ = read_set;
  read_set_.store(read_set.get(), std::memory_order_release);
}

uint32_t BufferedEngine::RandomHeight(Random* random) {
  // One in four goes a layer up.
  const uint64_t bits = random->Next() | (uint64_t{1} << (2 * (kHeightMax - 1)));
  return 1 + static_cast<uint32_t>(std::countr_zero(bits)) / 2;
}

Status BufferedEngine::Write(std::span<const WriteOperation> operations) {
  if (has_error_.load(std::memory_order_acquire)) return BackgroundError();
  uint64_t last = 0;
  bool full = false;
  for (int attempt = 0;; ++attempt) {
    PmLog::Shard& shard = log_->ShardOfThisCpu();
    Status s = WriteToShard(&shard, operations, &last, &full);
    if (s.ok()) break;
    if (!s.IsNoSpace()) return s;
    s = MakeRoom(s, attempt);
    if (!s.ok()) return s;
  }
  sequencer_.Publish(log_.get(), last);
  if (full) [[unlikely]]
    SwitchMemTable(false);
  return Status::OK();
}

Status BufferedEngine::WriteToShard(PmLog::Shard* shard, std::span<const WriteOperation> operations, uint64_t* last,
                                    bool* full) {
  const std::lock_guard lock(shard->mu);
  sequencer_.PrefetchDraw(shard);
  RecordAppender& appender = *shard->appender;
  const uint32_t count = static_cast<uint32_t>(operations.size());
  const uint64_t chunks_before = appender.next_ordinal();
  bool all_deletes = true;
  uint64_t user_bytes = 0;

  // Heights and space first, so that nothing can fail once numbers are drawn.
  uint32_t one_height = 0;
  PmPtr one_place;
  std::vector<uint32_t> heights;
  std::vector<PmPtr> places;
  if (count == 1) {
    const WriteOperation& op = operations[0];
    one_height = unified_ ? RandomHeight(&shard->random) : 0;
    all_deletes = op.kind == RecordKind::kDelete;
    user_bytes = op.key.size() + op.value.size();
    Status s = appender.Prepare(RecordBytes(one_height, op.key.size(), op.value.size()),
                                all_deletes && DeletesMayUseReserve());
    if (!s.ok()) return s;
  } else {
    std::vector<uint64_t> bytes(count);
    heights.resize(count);
    places.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      const WriteOperation& op = operations[i];
      heights[i] = unified_ ? RandomHeight(&shard->random) : 0;
      bytes[i] = RecordBytes(heights[i], op.key.size(), op.value.size());
      all_deletes = all_deletes && op.kind == RecordKind::kDelete;
      user_bytes += op.key.size() + op.value.size();
    }
    Status s = appender.Prepare(bytes.data(), count, all_deletes && DeletesMayUseReserve());
    if (!s.ok()) return s;
  }

  if (appender.next_ordinal() != chunks_before) context_.wake();  // chunks are provided in the background

  const uint64_t published = sequencer_.published();
  const uint64_t first = sequencer_.Draw(shard, count);
  uint32_t deletes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const WriteOperation& op = operations[i];
    const PmPtr place = appender.Append({.tag = MakeTag(first + i, op.kind),
                                         .key = op.key,
                                         .value = op.value,
                                         .height = count == 1 ? one_height : heights[i],
                                         .batch_remaining = count - 1 - i,
                                         .published = published});
    (count == 1 ? one_place : places[i]) = place;
    deletes += op.kind == RecordKind::kDelete ? 1 : 0;
  }
  appender.Commit();  // the one fence
  MemTable* table = active_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const WriteOperation& op = operations[i];
    table->Add(op.key, MakeTag(first + i, op.kind), count == 1 ? one_place : places[i]);
  }
  sequencer_.Finish(shard);

  const auto add = [](std::atomic<uint64_t>& counter, uint64_t n) {  // written under the shard's lock only
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  };
  add(shard->puts, count - deletes);
  add(shard->deletes, deletes);
  add(shard->batches, count > 1 ? 1 : 0);
  add(shard->user_bytes, user_bytes);
  *last = first + count - 1;
  *full = table->memory_bytes() >= memtable_bytes_;
  return Status::OK();
}

// Compaction needs the last chunks, or what the deletes let go of would never come back.
bool BufferedEngine::DeletesMayUseReserve() const {
  constexpr uint64_t kCompactionChunks = 3;
  for (uint32_t part = 0; part < pool_->part_count(); ++part) {
    if (pool_->chunks_available(part) <= kCompactionChunks) return false;
  }
  return true;
}

Status BufferedEngine::MakeRoom(const Status& no_space, int attempt) {
  constexpr int kAttemptsMax = 8;
  if (attempt >= kAttemptsMax || !ReclaimSpace()) return no_space;
  if (has_error_.load(std::memory_order_acquire)) return BackgroundError();
  return Status::OK();
}

void BufferedEngine::SwitchMemTable(bool force) {
  std::unique_lock switching(switch_mu_, std::defer_lock);
  if (force) {
    switching.lock();
  } else if (!switching.try_lock()) {
    return;  // another writer does it
  }
  const MemTable* active = active_.load(std::memory_order_acquire);
  if (active->count() == 0 || (!force && active->memory_bytes() < memtable_bytes_)) return;
  auto fresh = std::make_shared<MemTable>(pool_, next_memtable_id_.fetch_add(1));
  auto next = std::make_shared<ReadSet>();
  next->active = fresh;
  {
    std::vector<std::unique_lock<std::mutex>> locks;
    for (uint32_t i = 0; i < log_->shard_count(); ++i) locks.emplace_back(log_->shard(i).mu);
    const std::lock_guard lock(read_set_mu_);
    // Keeps I2: a writer that left its shard may have lost the processor before it published what it wrote.
    sequencer_.PublishDrawn();
    owned_read_set_->active->Seal(sequencer_.last_drawn(), log_->SealAll());
    next->sealed.push_back(owned_read_set_->active);
    next->sealed.insert(next->sealed.end(), owned_read_set_->sealed.begin(), owned_read_set_->sealed.end());
    next->tables = owned_read_set_->tables;
    read_set_.store(next.get(), std::memory_order_release);
    pool_->readers()->Retire([old = owned_read_set_] {});  // unreachable by now
    owned_read_set_ = next;
    active_.store(fresh.get(), std::memory_order_release);
  }
  UpdateWriteDelay();
  context_.wake();
}

void BufferedEngine::Install(std::shared_ptr<const TableSet> tables, const MemTable* flushed) {
  {
    const std::lock_guard lock(read_set_mu_);
    auto next = std::make_shared<ReadSet>(*owned_read_set_);
    next->tables = std::move(tables);
    if (flushed != nullptr && !next->sealed.empty() && next->sealed.back().get() == flushed) next->sealed.pop_back();
    read_set_.store(next.get(), std::memory_order_release);
    pool_->readers()->Retire([old = owned_read_set_] {});  // unreachable by now
    owned_read_set_ = next;
    flushed_.notify_all();
  }
  UpdateWriteDelay();
}

std::shared_ptr<const ReadSet> BufferedEngine::CurrentReadSet() const {
  const std::lock_guard lock(read_set_mu_);
  return owned_read_set_;
}

std::optional<Job> BufferedEngine::PickFlush() {
  const std::lock_guard lock(read_set_mu_);
  if (flushing_ != nullptr || owned_read_set_ == nullptr || owned_read_set_->sealed.empty()) return std::nullopt;
  flushing_ = owned_read_set_->sealed.back();  // keeps I4
  return Job{"flush", [this, memtable = flushing_] {
               Status s = FlushMemTable(memtable);
               if (s.ok()) flushes_.fetch_add(1, std::memory_order_relaxed);
               const std::lock_guard done(read_set_mu_);
               flushing_ = nullptr;
               flushed_.notify_all();
               return s;
             }};
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
  std::unique_lock lock(read_set_mu_);
  // Only what is sealed by now: while somebody writes there is always another. The newest of it is flushed last (I4).
  const auto newest = owned_read_set_->sealed.empty() ? flushing_ : owned_read_set_->sealed.front();
  const auto under_way = [&] {
    const auto& left = owned_read_set_->sealed;
    return newest == flushing_ || std::find(left.begin(), left.end(), newest) != left.end();
  };
  while (newest != nullptr && under_way()) {
    if (has_error_.load(std::memory_order_acquire)) {
      lock.unlock();
      return BackgroundError();
    }
    flushed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  return Status::OK();
}

// The debt is what a read may have to look through. Up to half of what may be held it costs writers
// nothing; from there on each record waits longer, by the square, until at the end it waits for room.
// Writers and compaction thus meet where the delay makes up for the difference of their speeds: about
// a microsecond a record.
// Stored under the lock that the read set is read under: an older answer that came after a newer one
// would hold writers back for good.
void BufferedEngine::UpdateWriteDelay() {
  constexpr double kFreeShare = 0.5;
  constexpr double kDelayNsMax = 20'000;
  const std::lock_guard lock(read_set_mu_);
  uint64_t bytes = memtable_bytes_ + UncompactedBytes(*owned_read_set_->tables);
  for (const auto& memtable : owned_read_set_->sealed) bytes += memtable->memory_bytes();
  const double share = static_cast<double>(bytes) / static_cast<double>(BufferedBytesMax());
  const double over = std::max(0.0, (share - kFreeShare) / (1 - kFreeShare));
  delay_ns_.store(over > 1 ? kStopWriting : static_cast<uint32_t>(kDelayNsMax * over * over),
                  std::memory_order_relaxed);
  delay_changed_.notify_all();
}

void BufferedEngine::AwaitWriteDelayChange(std::chrono::nanoseconds at_most) {
  std::unique_lock lock(read_set_mu_);
  delay_changed_.wait_for(lock, at_most, [this] {
    return WriteDelayNs() != kStopWriting || has_error_.load(std::memory_order_acquire);
  });
}

Lookup BufferedEngine::Get(std::string_view key, uint64_t sequence, bool verify) {
  const ReadSet* read_set = read_set_.load(std::memory_order_acquire);
  const InternalKey target{key, SeekTag(sequence)};
  const Candidates candidates = FindCandidates(key);
  HeadTree::Entry entry;
  bool found = read_set->active->Get(target, &entry);
  for (size_t i = 0; !found && i < read_set->sealed.size(); ++i) found = read_set->sealed[i]->Get(target, &entry);
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
  return std::make_unique<ReadSetIterator>(std::move(read_set), NewMergingIterator(std::move(children)));
}

void BufferedEngine::AddStats(Stats* stats) const {
  for (uint32_t i = 0; i < log_->shard_count(); ++i) {
    const PmLog::Shard& shard = log_->shard(i);
    stats->puts += shard.puts.load(std::memory_order_relaxed);
    stats->deletes += shard.deletes.load(std::memory_order_relaxed);
    stats->batches += shard.batches.load(std::memory_order_relaxed);
    stats->user_bytes_written += shard.user_bytes.load(std::memory_order_relaxed);
  }
  stats->gets_memtable += gets_memtable_.Sum();
  stats->sequence = PublishedSequence();
  stats->flushes += flushes_.load(std::memory_order_relaxed);
  const auto read_set = CurrentReadSet();
  stats->dram_bytes += read_set->active->memory_bytes();
  for (const auto& memtable : read_set->sealed) stats->dram_bytes += memtable->memory_bytes();
}

Status BufferedEngine::BackgroundError() const {
  const std::lock_guard lock(error_mu_);
  return error_;
}

void BufferedEngine::SetBackgroundError(const Status& status) {
  {
    const std::lock_guard lock(error_mu_);
    if (!error_.ok() || status.ok()) return;
    error_ = Status::ReadOnly("the store is read-only since an error: " + status.ToString() +
                              "; mend the cause and call DB::Resume, or reopen the store");
  }
  {
    const std::lock_guard lock(read_set_mu_);  // who waits has looked before it, or is told
    has_error_.store(true, std::memory_order_release);
  }
  flushed_.notify_all();
  delay_changed_.notify_all();
}

void BufferedEngine::ClearBackgroundError() {
  const std::lock_guard lock(error_mu_);
  error_ = Status::OK();
  has_error_.store(false, std::memory_order_release);
}

}  // namespace lamella
