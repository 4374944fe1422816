#include "engine/write_path.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/no_throw.h"
#include "log/record.h"

namespace lamella {

namespace {
bool IsDelete(const WriteOperation& op) { return op.kind == RecordKind::kDelete; }
}  // namespace

// One record needs no memory of its own.
struct WritePath::Records {
  struct Many {
    explicit Many(size_t count) : heights(count), bytes(count), staged(count), locations(count) {}
    std::vector<uint32_t> heights;
    std::vector<uint64_t> bytes;
    std::vector<StagedWrite> staged;
    std::vector<Location> locations;
  };

  explicit Records(size_t records) : count(records) {
    if (count > 1) many = std::make_unique<Many>(count);
  }
  uint32_t& height(size_t i) { return many == nullptr ? one_height : many->heights[i]; }
  uint64_t& bytes(size_t i) { return many == nullptr ? one_bytes : many->bytes[i]; }
  StagedWrite& staged(size_t i) { return many == nullptr ? one_staged : many->staged[i]; }
  Location& location(size_t i) { return many == nullptr ? one_location : many->locations[i]; }

  const size_t count;
  uint32_t one_height = 0;
  uint64_t one_bytes = 0;
  StagedWrite one_staged;
  Location one_location;
  std::unique_ptr<Many> many;
  uint64_t bytes_sum = 0;
  uint64_t reserved = 0;  // the target's
};

void WritePath::Start(Log* log, bool with_links, uint64_t sequence_last) {
  log_ = log;
  with_links_ = with_links;
  sequencer_.Reset(sequence_last);
}

uint32_t WritePath::RandomHeight(Random* random) {
  const uint64_t bits = random->Next() | (uint64_t{1} << (2 * (kHeightMax - 1)));
  return 1 + static_cast<uint32_t>(std::countr_zero(bits)) / 2;
}

uint32_t WritePath::CopyHeight(const Record& record, uint64_t chunk_bytes, Random* random) {
  constexpr uint32_t kCounted = 2;
  const uint32_t height = RandomHeight(random);
  const auto bytes = [&](uint32_t links) {
    return RecordBytes(links, record.key().size(), record.value().size());
  };
  if (height <= kCounted || bytes(height) <= chunk_bytes) return height;
  const auto chunks = [&](uint32_t links) {
    return (bytes(links) + chunk_bytes - 1) / chunk_bytes;
  };
  return chunks(height) > chunks(kCounted) ? kCounted : height;
}

void WritePath::CheckAllPublished() const {
  LAMELLA_CHECK(sequencer_.published() == sequencer_.last_drawn());  // Sequencer's I3
}

// Copying so much takes longer than the locks and the line's padding that a shard for large writes
// costs: it is done without the lock that other writes of the shard wait for.
bool WritePath::IsLarge(std::span<const WriteOperation> operations) {
  constexpr uint64_t kLargeBytesMin = 4096;
  uint64_t bytes = 0;
  for (const WriteOperation& op : operations)
    bytes += sizeof(RecordHeader) + op.key.size() + op.value.size() + op.beside.size();
  return bytes >= kLargeBytesMin;
}

// Who finds that others wrote while room was made for it has it made anew with nobody beside it:
// else of many writers on a full pool some would find none again and again though there is enough
// to be made for all, and a large one would not find any beside small ones.
Status WritePath::Write(std::span<const WriteOperation> operations) {
  const bool large = IsLarge(operations);
  uint64_t last = 0;
  bool entered = false;
  bool log_grown = false;
  bool is_last = false;
  uint64_t drawn = 0;  // by all, when it last found no room
  std::optional<Alone> alone;
  for (int attempt = 0;; attempt++) {
    if (is_alone_.load(std::memory_order_relaxed) && !alone &&
        !std::ranges::all_of(operations, IsDelete)) [[unlikely]] {
      const MutexLock after(&room_mu_);
    }
    Status s = Status::NoSpace("");
    // A part of the medium may be full while another has room: the shards of all are asked.
    const Log::Shard* asked = nullptr;
    for (uint32_t turn = 0; s.IsNoSpace() && turn < log_->turns(); turn++)
      s = WriteToShard(operations, large, &asked, &last, &entered, &log_grown);
    if (s.ok()) break;
    if (!s.IsNoSpace()) return s;
    const uint64_t drawn_before = std::exchange(drawn, sequencer_.last_drawn());
    if (attempt != 0 && drawn != drawn_before && !alone) {
      alone.emplace(this);
      attempt = 0;
      is_last = false;
    }
    if (is_last) return s;
    s = MakeRoom(attempt);
    is_last = s.IsNoSpace();  // what there is by now may have come since it was asked for
    if (!s.ok() && !is_last) return s;
  }
  alone.reset();
  sequencer_.Await(last);
  if (log_grown || entered) [[unlikely]] {
    // The write is done, whatever memory is refused here: the next one tries again. Not under a
    // shard's lock: a job may run here.
    (void)NoThrow([&] {
      target_->OnWritten(entered, log_grown);
      return Status::OK();
    });
  }
  return Status::OK();
}

// Heights, memory and space, before anything is written (keeps W3).
Status WritePath::Prepare(Log::Shard* shard, std::span<const WriteOperation> operations,
                          Records* records, bool* log_grown) {
  const bool makes_room =
      std::ranges::all_of(operations, IsDelete) && target_->DeletesMayUseReserve();
  WriteTarget::Needs needs;
  needs.claimant = makes_room ? Claimant::kReclaim : Claimant::kWriter;
  for (size_t i = 0; i < operations.size(); i++) {
    const WriteOperation& op = operations[i];
    const uint32_t height = with_links_ ? RandomHeight(&shard->random) : 0;
    records->height(i) = height;
    records->bytes(i) = RecordBytes(height, op.key.size(), op.value.size());
    records->bytes_sum += records->bytes(i);
    needs.key_bytes_max = std::max(needs.key_bytes_max, op.key.size());
  }
  needs.record_bytes = {&records->bytes(0), records->count};
  needs.bytes = records->bytes_sum;
  Status s = target_->Provide(needs, &shard->spare, &records->reserved);
  if (!s.ok()) return s;
  LogWriter& writer = *shard->writer;
  const uint64_t claimed_before = writer.claimed_bytes();
  s = NoThrow([&] { return writer.Prepare(&records->bytes(0), records->count, needs.claimant); });
  target_->OnClaimed(needs.bytes);
  if (!s.ok()) target_->Abandon(records->reserved);
  if (const uint64_t claimed = writer.claimed_bytes() - claimed_before; claimed != 0) [[unlikely]] {
    target_->OnLogGrown(claimed);
    *log_grown = true;
  }
  return s;
}

Status WritePath::WriteToShard(std::span<const WriteOperation> operations, bool large,
                               const Log::Shard** asked, uint64_t* last, bool* entered,
                               bool* log_grown) {
  const auto count = static_cast<uint32_t>(operations.size());
  Records records(count);
  std::unique_lock<Mutex> staging;
  std::unique_lock<Mutex> lock;
  Log::Shard* const shard =
      large ? log_->TakeShardForLarge(&staging, *asked) : log_->TakeShard(&lock, *asked);
  *asked = shard;
  sequencer_.PrefetchDraw();
  // The target is asked under the lock, for it may look at what BetweenWrites changes; only the
  // copying is done without.
  if (large) lock = std::unique_lock(shard->mu);
  Status s = Prepare(shard, operations, &records, log_grown);
  if (large) lock.unlock();
  if (!s.ok()) return s;
  LogWriter& writer = *shard->writer;
  for (uint32_t i = 0; i < count; i++)
    records.staged(i) = writer.Stage(InputOf(operations, i, 0, records.height(i), 0));
  if (large) lock = std::unique_lock(shard->mu);
  const uint64_t published = sequencer_.published();
  const uint64_t first = sequencer_.Draw(count);
  for (uint32_t i = 0; i < count; i++) {
    writer.Complete(records.staged(i), InputOf(operations, i, first, records.height(i), published));
    records.location(i) = records.staged(i).location;
  }
  s = writer.Commit();  // the one fence
  if (s.ok()) [[likely]] {
    *entered = target_->Enter(operations, first, {&records.location(0), records.count},
                              records.reserved, &shard->spare);
    Count(shard, operations);
  } else {
    target_->Abandon(records.reserved);
  }
  sequencer_.Finish(first, count);
  if (large) shard->end = writer.Seal();  // keeps Log's I3
  *last = first + count - 1;
  return s;
}

RecordInput WritePath::InputOf(std::span<const WriteOperation> operations, uint32_t i,
                               uint64_t first, uint32_t height, uint64_t published) {
  return {.tag = MakeTag(first + i, operations[i].kind),
          .key = operations[i].key,
          .value = operations[i].value,
          .beside = operations[i].beside,
          .height = height,
          .batch_remaining = static_cast<uint32_t>(operations.size()) - 1 - i,
          .published = published};
}

// REQUIRES: the shard's lock.
void WritePath::Count(Log::Shard* shard, std::span<const WriteOperation> operations) {
  uint64_t user_bytes = 0;
  uint64_t deletes = 0;
  for (const WriteOperation& op : operations) {
    const bool elsewhere = op.kind == RecordKind::kPutElsewhere;
    user_bytes += op.key.size() + (elsewhere ? op.beside : op.value).size();
    deletes += op.kind == RecordKind::kDelete ? 1 : 0;
  }
  const auto add = [](std::atomic<uint64_t>& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  };
  add(shard->puts, operations.size() - deletes);
  add(shard->deletes, deletes);
  add(shard->batches, operations.size() > 1 ? 1 : 0);
  add(shard->user_bytes, user_bytes);
}

Status WritePath::MakeRoom(int attempt) {
  constexpr int kAttemptsMax = 8;
  if (attempt >= kAttemptsMax) return Status::NoSpace("");
  const StallCounter::Stall stall(&stalls_);
  return target_->MakeSpace();
}

void WritePath::AddStats(Stats* stats) const {
  for (uint32_t i = 0; i < log_->shard_count(); i++) {
    const Log::Shard& shard = log_->shard(i);
    stats->puts += shard.puts.load(std::memory_order_relaxed);
    stats->deletes += shard.deletes.load(std::memory_order_relaxed);
    stats->batches += shard.batches.load(std::memory_order_relaxed);
    stats->user_bytes_written += shard.user_bytes.load(std::memory_order_relaxed);
  }
  stalls_.AddTo(stats);
  stats->sequence = published();
}

}  // namespace lamella
