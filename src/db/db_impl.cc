#include "db/db_impl.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/concat.h"
#include "base/no_throw.h"
#include "iterator/visible_iterator.h"

namespace lamella {

namespace {

class SnapshotOf final : public Snapshot {
 public:
  ~SnapshotOf() override = default;
  uint64_t sequence() const override { return sequence_; }
  void Stand(uint64_t sequence) { sequence_ = sequence; }

 private:
  uint64_t sequence_ = 0;
};

// An iterator that could not be made.
class ErrorIterator final : public Iterator {
 public:
  explicit ErrorIterator(Status status) : status_(std::move(status)) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(std::string_view) override {}
  void SeekForPrev(std::string_view) override {}
  void Next() override {}
  void Prev() override {}
  std::string_view key() const override { return {}; }
  std::string_view value() const override { return {}; }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

// A pin, and a point in time, registered so that compaction keeps the versions that the iterator
// sees. The pin would hold back all that is freed in a walk's life, however long, though the walk
// needs little of it at any time: so it moves on now and then, where something waits for it, and
// the point in time stays.
class StoreFooting final : public Footing {
 public:
  StoreFooting(StoreCore* core, const Snapshot* snapshot, bool verify,
               std::chrono::nanoseconds renewed_after)
      : core_(core),
        holders_(core->pool->holders()),
        pin_(holders_),
        sequence_(core->snapshots.Take([&] {
          return snapshot != nullptr ? snapshot->sequence() : core->engine->PublishedSequence();
        })),
        verify_(verify),
        renewed_after_(renewed_after) {
    // read by Close, which has the DB to itself
    core->iterators_open.fetch_add(1, std::memory_order_relaxed);
  }
  ~StoreFooting() override {
    core_->iterators_open.fetch_sub(1, std::memory_order_relaxed);
    core_->snapshots.Release(sequence_);
    holders_->Unpin(pin_.Release());  // it may take the core along
  }
  uint64_t sequence() const { return sequence_; }

  std::unique_ptr<InternalIterator> NewSource() const {
    const EpochPin pin(core_->pool->readers());
    return core_->engine->NewIterator(verify_);
  }
  bool IsForked() const override { return core_->IsForked(); }
  bool Renew(std::unique_ptr<InternalIterator>* source) override {
    return holders_->IsWatched(pin_.token()) && RenewWatched(source);
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool RenewWatched(std::unique_ptr<InternalIterator>* source) {
    if (renewed_after_ != renewed_after_.zero()) {
      const Clock::time_point now = Clock::now();
      if (!watched_since_) watched_since_ = now;
      if (now - *watched_since_ < renewed_after_) return false;
    }
    if (!core_->renewing.try_lock()) return false;  // another iterator's turn; soon again
    const MutexLock lock(&core_->renewing, AdoptMutex());
    if (core_->renewals_over) return false;
    const uint64_t epoch = holders_->Now();
    // without the memory for it the walk goes on as before
    std::unique_ptr<InternalIterator> renewed;
    const Status s = NoThrow([&] {
      renewed = NewSource();
      return renewed->status();
    });
    if (!s.ok()) return false;
    *source = std::move(renewed);
    holders_->Advance(pin_.token(), epoch);
    watched_since_.reset();
    return true;
  }

  StoreCore* const core_;
  EpochDomain* const holders_;
  EpochPin pin_;
  const uint64_t sequence_;
  const bool verify_;
  const std::chrono::nanoseconds renewed_after_;
  std::optional<Clock::time_point> watched_since_;
};

// A value that lies in DRAM, or in what a version of an engine's tables keeps: it holds back
// nothing else, and its store is told when it goes.
struct OwnedValue {
  std::shared_ptr<const void> owner;
  StoreCore* core;
};

Status Closed() noexcept {
  try {
    return Status::Aborted("the store was closed; open it again");
  } catch (...) {
    return Status::Aborted({});  // no memory for a message
  }
}

}  // namespace

void StoreCore::LetGoOfUser() {
  // acq_rel: who lets go of it all comes after all that the others did
  if (users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  pool->holders()->WhenUnpinned(std::move(let_go));  // it may take this along
}

bool StoreCore::IsRead() const {
  // nobody takes anything any more; what goes meanwhile was there
  return pool->holders()->pinned() != 0 || users.load(std::memory_order_acquire) > 1;
}

void StoreCore::LetGo() {
  engine.reset();
  // Whatever fails, the next open recovers it.
  if (closes_with_last) {
    (void)NoThrow([this] {
      while (pool->CollectDeferred() != 0) {  // nothing holds any of it back
      }
      return pool->MarkClean();
    }).ok();
  }
  pool.reset();
  memory.reset();
  resources.reset();  // with threads of its own, they end
  lock.reset();
}

// The pool is mapped by parent and child alike, and the parent goes on with it: the child has no
// more to do with it than to leave it alone, and all that would change it or wait for the parent's
// threads.
DbImpl::~DbImpl() {
  if (IsForked()) {
    core_->itself = core_;
    return;
  }
  if (open_.load(std::memory_order_acquire)) (void)Shut().ok();  // a destructor cannot report
}

Status DbImpl::CheckWrite(std::string_view key, std::string_view value) const {
  const auto refuse_key = [](const std::string& found) {
    return Status::InvalidArgument(Concat(found, "; keys are 1 to ", kKeyBytesMax, " bytes"));
  };
  if (key.empty()) return refuse_key("an empty key");
  if (key.size() > kKeyBytesMax) return refuse_key(Concat("a key of ", key.size(), " bytes"));
  if (value.size() > kValueBytesMax) {
    return Status::InvalidArgument(Concat("a value of ", value.size(),
                                          " bytes; values are at most ", kValueBytesMax >> 30,
                                          " GiB (", kValueBytesMax, ")"));
  }
  return Status::OK();
}

// Back-pressure. What each record is to wait is owed until it is worth going to sleep for: many
// short sleeps would last longer than they should, and every put would be slow instead of one in a
// thousand.
Status DbImpl::AwaitRoom(uint32_t delay_ns, size_t records) {
  constexpr uint64_t kSleepNs = 2'000'000;
  if (delay_ns != kStopWriting) {
    const uint64_t owed = uint64_t{delay_ns} * records;
    if (owed_ns_.fetch_add(owed, std::memory_order_relaxed) + owed < kSleepNs) return Status::OK();
  }
  const StallCounter::Stall stall(&stalls_);
  const uint64_t owed = std::min(owed_ns_.exchange(0, std::memory_order_relaxed), kSleepNs);
  std::this_thread::sleep_for(std::chrono::nanoseconds(owed));
  Status s;
  while (engine_->WriteDelayNs() == kStopWriting) {
    s = engine_->BackgroundError();
    if (!s.ok()) break;
    scheduler_.Wake();  // without threads it does all that there is to do
    engine_->AwaitWriting();
  }
  return s;
}

Status DbImpl::WriteOperations(const WriteOptions& options,
                               std::span<const WriteOperation> operations) {
  if (const uint32_t delay_ns = engine_->WriteDelayNs(); delay_ns != 0) [[unlikely]] {
    Status s = AwaitRoom(delay_ns, operations.size());
    if (!s.ok()) return s;
  }
  Status s = NoThrow([&] { return engine_->Write(operations); });
  if (s.ok() && options.sync) [[unlikely]]
    return Sync();
  return s;
}

Status DbImpl::Put(const WriteOptions& options, std::string_view key, std::string_view value) {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  Status s = NoThrow([&] { return CheckWrite(key, value); });
  if (!s.ok()) return s;
  const WriteOperation operation{RecordKind::kPut, key, value};
  return WriteOperations(options, {&operation, 1});
}

Status DbImpl::Delete(const WriteOptions& options, std::string_view key) {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  Status s = NoThrow([&] { return CheckWrite(key, {}); });
  if (!s.ok()) return s;
  const WriteOperation operation{RecordKind::kDelete, key, {}};
  return WriteOperations(options, {&operation, 1});
}

Status DbImpl::Write(const WriteOptions& options, const WriteBatch& batch) {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  if (batch.Count() == 0) return options.sync ? Sync() : Status::OK();
  struct Collector {
    void Put(std::string_view key, std::string_view value) { Add(RecordKind::kPut, key, value); }
    void Delete(std::string_view key) { Add(RecordKind::kDelete, key, {}); }
    void Add(RecordKind kind, std::string_view key, std::string_view value) {
      if (status.ok()) status = db->CheckWrite(key, value);
      operations.push_back({kind, key, value});
    }
    const DbImpl* db;
    std::vector<WriteOperation> operations;
    Status status;
  };
  return NoThrow([&] {
    Collector collector{this, {}, {}};
    collector.operations.reserve(batch.Count());
    batch.Iterate(collector);
    if (!collector.status.ok()) return collector.status;
    return WriteOperations(options, collector.operations);
  });
}

uint64_t DbImpl::ReadSequence(const ReadOptions& options) const {
  return options.snapshot != nullptr ? options.snapshot->sequence() : engine_->PublishedSequence();
}

// REQUIRES: pinned before the sequence number was taken, or that is registered (BufferedEngine's
// I3).
Status DbImpl::Find(const ReadOptions& options, std::string_view key, uint64_t sequence,
                    EpochPin* pin, Lookup* lookup) {
  gets_.Add();
  *lookup = engine_->Get(key, sequence, options.verify_checksums || options_.verify_checksums, pin);
  switch (lookup->state) {
    case LookupState::kFound:
      gets_found_.Add();
      return Status::OK();
    case LookupState::kDamaged:
      // NotFound is of keys alone.
      if (lookup->damage.IsNotFound()) {
        return Status::Corruption(
            Concat(lookup->damage.message(),
                   "; a file of the store was there when it was opened: put it back"));
      }
      return lookup->damage;
    case LookupState::kAbsent:
    case LookupState::kDeleted:
      break;
  }
  return Status::NotFound();
}

Status DbImpl::Get(const ReadOptions& options, std::string_view key, std::string* value) {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  EpochPin pin(pool_->readers());
  const uint64_t sequence = ReadSequence(options);
  return NoThrow([&] {
    Lookup lookup;
    Status found = Find(options, key, sequence, &pin, &lookup);
    if (found.ok()) value->assign(lookup.value);
    return found;
  });
}

Status DbImpl::Get(const ReadOptions& options, std::string_view key, PinnedValue* value) {
  const PinnedValue before = std::move(*value);  // `key` may be a view of it
  if (!open_.load(std::memory_order_acquire)) return Closed();
  EpochPin pin(pool_->readers());
  const uint64_t sequence = ReadSequence(options);
  return NoThrow([&] {
    Lookup lookup;
    Status found = Find(options, key, sequence, &pin, &lookup);
    if (!found.ok()) return found;
    if (lookup.owner != nullptr) {
      auto* const owned = new OwnedValue{std::move(lookup.owner), core_.get()};
      core_->users.fetch_add(1, std::memory_order_relaxed);
      value->Pin(
          lookup.value,
          [](void* held, unsigned long long) {
            auto* const owned_value = static_cast<OwnedValue*>(held);
            StoreCore* const core = owned_value->core;
            if (core->IsForked()) return;
            delete owned_value;  // it may be of the pool
            core->LetGoOfUser();
          },
          owned, 0);
    } else {
      // The reader's pin becomes a holder's (Pool::AfterAllPins).
      EpochPin hold(pool_->holders());
      value->Pin(
          lookup.value,
          [](void* held, unsigned long long token) {
            auto* const core = static_cast<StoreCore*>(held);
            if (core->IsForked()) return;
            core->pool->holders()->Unpin(token);  // the last one takes the core along
          },
          core_.get(), hold.Release());
    }
    return found;
  });
}

std::vector<Status> DbImpl::MultiGet(const ReadOptions& options,
                                     std::span<const std::string_view> keys,
                                     std::vector<std::string>* values) {
  std::vector<Status> statuses;
  const Status room = NoThrow([&] {
    values->assign(keys.size(), {});
    statuses.resize(keys.size());
    return Status::OK();
  });
  if (!room.ok()) return statuses;
  if (!open_.load(std::memory_order_acquire)) {
    std::fill(statuses.begin(), statuses.end(), Closed());
    return statuses;
  }
  // One point in time for all, registered, so that each has a pin of its own.
  uint64_t sequence = 0;
  const Status taken = NoThrow([&] {
    sequence = snapshots_.Take([&] { return ReadSequence(options); });
    return Status::OK();
  });
  if (!taken.ok()) {
    std::fill(statuses.begin(), statuses.end(), taken);
    return statuses;
  }
  for (size_t i = 0; i < keys.size(); i++) {
    statuses[i] = NoThrow([&] {
      Lookup lookup;
      EpochPin pin(pool_->readers());
      Status found = Find(options, keys[i], sequence, &pin, &lookup);
      if (found.ok()) (*values)[i].assign(lookup.value);
      return found;
    });
  }
  snapshots_.Release(sequence);
  return statuses;
}

std::unique_ptr<Iterator> DbImpl::NewIterator(const ReadOptions& options) {
  if (!open_.load(std::memory_order_acquire))
    return std::unique_ptr<Iterator>(new (std::nothrow) ErrorIterator(Closed()));
  iterators_.Add();
  std::unique_ptr<Iterator> made;
  Status s = NoThrow([&] {
    const bool verify = options.verify_checksums || options_.verify_checksums;
    auto footing = std::make_unique<StoreFooting>(
        core_.get(), options.snapshot, verify,
        seams_.inline_jobs ? std::chrono::nanoseconds(0) : seams_.renewed_after);
    const uint64_t sequence = footing->sequence();
    std::unique_ptr<InternalIterator> source = footing->NewSource();
    made = NewVisibleIterator(std::move(source), sequence, options, verify, std::move(footing));
    return Status::OK();
  });
  if (s.ok()) return made;
  return std::unique_ptr<Iterator>(new (std::nothrow) ErrorIterator(std::move(s)));
}

const Snapshot* DbImpl::GetSnapshot() {
  if (!open_.load(std::memory_order_acquire)) return nullptr;
  try {
    auto snapshot = std::make_unique<SnapshotOf>();
    snapshot->Stand(snapshots_.Take([&] { return engine_->PublishedSequence(); }));
    snapshots_open_.fetch_add(1, std::memory_order_relaxed);
    return snapshot.release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void DbImpl::ReleaseSnapshot(const Snapshot* snapshot) {
  if (snapshot == nullptr) return;
  snapshots_open_.fetch_sub(1, std::memory_order_relaxed);
  snapshots_.Release(snapshot->sequence());
  delete static_cast<const SnapshotOf*>(snapshot);
}

Status DbImpl::Sync() {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  const uint64_t sequence = engine_->PublishedSequence();
  Status s = NoThrow([this] { return pool_->Sync(); });
  if (!s.ok()) {
    engine_->SetBackgroundError(s);
  } else {
    pool_->NoteSynced(sequence);
  }
  return s;
}

Status DbImpl::Flush() {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  return NoThrow([this] { return engine_->Flush(); });
}

Status DbImpl::CompactRange(std::string_view begin, std::string_view end) {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  return NoThrow([&] {
    if (!end.empty() && begin >= end) {
      return Status::InvalidArgument(
          "a range whose begin is not before its end; an empty end is unbounded");
    }
    const uint64_t resumes = scheduler_.resumes();
    Status s = engine_->CompactRange(begin, end);
    if (s.IsIOError()) scheduler_.SetError(s, resumes);  // as of a background job
    return s;
  });
}

Status DbImpl::WaitForIdle() {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  return NoThrow([this] { return scheduler_.WaitForIdle(); });
}

Status DbImpl::Resume() {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  return NoThrow([this] {
    // on page media a failed one stays failed: what the kernel dropped is not durable
    Status s = pool_->Sync();
    if (!s.ok()) return s;
    scheduler_.Resume();
    return Status::OK();
  });
}

void DbImpl::StopJobs() {
  if (engine_ != nullptr) engine_->Hurry();  // none where it could not be opened
  scheduler_.Stop();
}

Status DbImpl::CheckQuietly(CheckReport* report) {
  StopJobs();
  return engine_->Check(report);
}

void DbImpl::Abandon() {
  open_.store(false, std::memory_order_release);
  EndRenewals();
  StopJobs();
  LetGo();
}

Status DbImpl::Close() {
  if (!open_.load(std::memory_order_acquire)) return Closed();
  if (IsForked()) {
    return NoThrow([this] {
      return Status::Aborted(Concat("the store in ", path_, " was opened by process ",
                                    core_->process,
                                    ", which forked this one: the store is that one's, and is not "
                                    "to be closed here"));
    });
  }
  Status s = NoThrow([this] { return CheckReleased(); });
  return s.ok() ? Shut() : s;
}

Status DbImpl::CheckReleased() const {
  // nobody else calls
  const uint64_t iterators = core_->iterators_open.load(std::memory_order_relaxed);
  const uint64_t snapshots = snapshots_open_.load(std::memory_order_relaxed);
  const uint64_t owned = core_->users.load(std::memory_order_relaxed) - 1;
  const uint64_t pins = pool_->holders()->pinned() - iterators + owned;
  if (iterators + snapshots + pins == 0) return Status::OK();
  return Status::Busy(
      Concat("the store in ", path_, " stays open: ", iterators, " iterators, ", snapshots,
             " snapshots and ", pins,
             " pinned values of it are left; destroy or release them, and close it again"));
}

// From the return on the engine has no caller left but this.
void DbImpl::EndRenewals() {
  const MutexLock lock(&core_->renewing);
  core_->renewals_over = true;
}

Status DbImpl::Shut() {
  open_.store(false, std::memory_order_release);
  EndRenewals();
  StopJobs();
  Status s = NoThrow([&] {
    Status closed = engine_->BackgroundError();
    if (closed.ok()) closed = engine_->Close();
    // So that what is free is known when the pool is closed, and gives it back; and so that nothing
    // in it changes once it says that it was closed in order. A power cut would not be taken for
    // one then, and it may leave half of a change.
    const bool is_read = core_->IsRead();
    const bool is_deferred = pool_->CollectDeferred() != 0;
    core_->closes_with_last = closed.ok() && (is_read || is_deferred);
    return closed.ok() && !core_->closes_with_last ? pool_->MarkClean() : closed;
  });
  LetGo();
  return s;
}

// Now, or with the last iterator or PinnedValue that is left.
void DbImpl::LetGo() {
  engine_ = nullptr;
  if (std::exchange(pool_, nullptr) == nullptr) return core_->LetGo();
  core_->let_go = std::move(let_go_);
  core_->LetGoOfUser();
}

}  // namespace lamella
