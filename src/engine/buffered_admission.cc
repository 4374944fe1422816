// When a BufferedEngine lets a write in: once there is room for the copies that its records will
// need (I6), and after a delay that grows with what compaction is behind (I5).
#include <algorithm>

#include "base/concat.h"
#include "base/no_throw.h"
#include "base/raise_to.h"
#include "engine/buffered_engine.h"

namespace lamella {

namespace {

// Of each part: what compaction needs to get on.
constexpr uint64_t kCompactionExtents = 3;
// Of each, beside what the index has, which copies do not get: what small writes claim at once, and
// nothing is noted of.
constexpr uint64_t kClaimedAtOnce = 2;
// The log that is not merged yet may take so much, or so often what lives. Writers wait from half
// of it on: new keys alone never make them, since a log of those is what lives.
constexpr double kUnmergedBytesMin = 24 << 20;
constexpr double kUnmergedPerLive = 3;
// Of a pool that was full, what is to be free beside what a write needs: with less it is full again
// at once, and each time a smaller MemTable is flushed.
constexpr uint64_t kFreePart = 4;

// Records of which so many fill a chunk are small: one in so many may be missing at its end.
constexpr uint64_t kSmallPerChunk = 16;
// More than any pool has: for who needs chunks side by side all is reclaimed, whatever is free.
constexpr uint64_t kInRows = UINT64_MAX / 2;

// What was claimed of a room; more was not kept for it.
uint64_t ClaimedOf(uint64_t room, int64_t claimed) {
  return std::min(room, static_cast<uint64_t>(std::max<int64_t>(claimed, 0)));
}

}  // namespace

// What is reserved is for the copies (I6).
Status BufferedEngine::Provide(const Needs& needs, SpareMemory* spare, uint64_t* reserved) {
  const MemTable* const active = active_.load(std::memory_order_acquire);
  if (!active->ProvideFor(needs.record_bytes.size(), needs.key_bytes_max, spare))
    return StatusOfException("memory for the MemTable");
  if (unified_) return Status::OK();
  uint32_t run = 1;
  for (const uint64_t bytes : needs.record_bytes) {
    *reserved += FlushBytesMax(bytes, needs.key_bytes_max);
    run = std::max(run, FlushRunMax(bytes, needs.key_bytes_max));
  }
  return ReserveCopies(needs.bytes, *reserved, run, needs.claimant);
}

void BufferedEngine::Abandon(uint64_t reserved) { TakeBack(reserved); }

void BufferedEngine::OnClaimed(uint64_t record_bytes) {
  if (const uint64_t noted = NotedUntilClaimed(record_bytes); !unified_ && noted != 0)
    TakeBack(noted);
}

// Until the log has claimed them others would take them for free. What small writes claim at once
// is not noted: it is of what is kept beside.
uint64_t BufferedEngine::NotedUntilClaimed(uint64_t record_bytes) const {
  return record_bytes <= pool_->chunk_bytes() / kSmallPerChunk ? 0 : record_bytes;
}

// What lies beside it, and rounding; and what is left empty of an extent, since the next record did
// not fit: at most that one's size, or, where it is small, a share of the extent.
uint64_t BufferedEngine::CopyBytesMax(uint64_t record_bytes) const {
  const uint64_t bytes = record_bytes + copy_cost_.bytes_per_record;
  return bytes <= pool_->chunk_bytes() / kSmallPerChunk ? bytes + bytes / (kSmallPerChunk - 1) + 1
                                                        : 2 * bytes;
}

uint32_t BufferedEngine::FlushRunMax(uint64_t record_bytes, size_t key_bytes) const {
  const uint64_t chunk_bytes = pool_->chunk_bytes();
  constexpr uint64_t kIndexHeaders = 1024;
  const uint64_t index_bytes =
      copy_cost_.keys_in_row == 1 ? 0 : copy_cost_.keys_in_row * key_bytes + kIndexHeaders;
  const uint64_t bytes =
      std::max(FlushedBytes(record_bytes, key_bytes), index_bytes) + copy_cost_.bytes_per_record;
  if (bytes <= chunk_bytes) return 1;  // nearly all are: no division for those
  return static_cast<uint32_t>((bytes + chunk_bytes - 1) / chunk_bytes);
}

// What merging takes was left free as the pool came to its end. One that is larger than it may be
// now has what its last close did not give back; others may have taken what the file system had;
// and what deletes are flushed to needs room, too. Where less is left, then, some of it is for
// merges, which are done in pieces.
uint64_t BufferedEngine::DeletesLeave(uint64_t write_bytes, uint32_t copy_run) const {
  constexpr uint64_t kPartForMerges = 4;
  const uint64_t least = merge_bytes_least_.load(std::memory_order_relaxed);
  if (least == 0) return 0;
  const uint64_t chunk_bytes = pool_->chunk_bytes();
  const uint64_t taken = copy_bytes_.load(std::memory_order_relaxed) + write_bytes;
  const uint32_t run = std::max(copy_run, copy_run_.load(std::memory_order_relaxed));
  // Each sum is rounded up; and others may note a little meanwhile.
  constexpr uint64_t kRounding = 3;
  const uint64_t others =
      ChunksKept(kCompactionExtents) + taken / chunk_bytes + kRounding + (run > 1 ? run : 0);
  const uint64_t available =
      run > 1 ? AvailableInRows(run, others + least / chunk_bytes + 1) : AvailableForCopies();
  const uint64_t left = available - std::min(available, others);
  if (left > least / chunk_bytes) return least;
  return std::max(left, available / kPartForMerges) * chunk_bytes;
}

void BufferedEngine::LeaveForMerge() {
  const uint64_t bytes = merge_bytes_.load(std::memory_order_relaxed);
  if (bytes == 0) return;
  const uint64_t chunks =
      ChunksKept(kReserveExtentsMin) + (bytes + pool_->chunk_bytes() - 1) / pool_->chunk_bytes();
  const uint64_t each = (chunks + PartsOfCopies() - 1) / PartsOfCopies();
  pool_->LeaveAtClose(static_cast<uint32_t>(std::min<uint64_t>(each, UINT32_MAX)));
}

uint64_t BufferedEngine::ChunksKept(uint64_t extents) const {
  uint64_t chunks = copy_cost_.ends;
  for (uint32_t part = 0; part < PartsOfCopies(); part++) {
    const uint64_t index = pool_->chunks_kept_for_index(part);
    const uint64_t extent = pool_->extent_chunks(part);
    // not more than puts leave; what compaction takes is noted
    const uint64_t at_once =
        extents == 0 ? 0 : std::min(index + kClaimedAtOnce, kReserveExtentsMin * extent);
    chunks += std::max({index, extents * extent, at_once});
  }
  return chunks;
}

uint32_t BufferedEngine::PartsOfCopies() const {
  return copy_cost_.in_all_parts ? pool_->part_count() : 1;
}

uint64_t BufferedEngine::AvailableForCopies() const {
  uint64_t available = 0;
  for (uint32_t part = 0; part < PartsOfCopies(); part++)
    available += std::min(pool_->chunks_available(part), UINT64_MAX / kPoolPartsMax);
  return available;
}

uint64_t BufferedEngine::AvailableInRows(uint32_t run, uint64_t most) const {
  uint64_t available = 0;
  for (uint32_t part = 0; part < PartsOfCopies(); part++) {
    available +=
        std::min(pool_->chunks_available_in_rows(part, run, most), UINT64_MAX / kPoolPartsMax);
  }
  return available;
}

// The reserve stays for what it is there for, but that deletes may take of it.
Status BufferedEngine::ReserveCopies(uint64_t record_bytes, uint64_t copy_bytes, uint32_t copy_run,
                                     Claimant claimant) {
  const bool is_delete = claimant == Claimant::kReclaim;
  const uint64_t extents = is_delete ? kCompactionExtents : kReserveExtentsMin;
  const uint64_t least = is_delete ? DeletesLeave(record_bytes + copy_bytes, copy_run)
                                   : merge_bytes_least_.load(std::memory_order_relaxed);
  const uint64_t merge_bytes = is_delete ? least : merge_bytes_.load(std::memory_order_relaxed);
  uint64_t soon = merge_bytes;
  uint64_t kept = 0;
  if (copy_cost_.merges_copy) {  // that is much: what one of them takes is to be there
    soon = least / 2;
    kept = merge_bytes - std::min(soon, merge_bytes);
    const uint64_t copies = copy_bytes_.load(std::memory_order_relaxed) + copy_bytes;
    if (!is_delete)
      kept += copies - std::min(copies, compaction_bytes_.load(std::memory_order_relaxed));
  }
  const uint64_t noted = NotedUntilClaimed(record_bytes);
  Room room;
  Status grown = LetInOnceGrown(record_bytes - noted + soon, noted + copy_bytes, copy_run, extents,
                                kept, &room);
  if (room.suffices()) return grown;
  const uint64_t others = copy_bytes_.load(std::memory_order_relaxed) / pool_->chunk_bytes();
  RaiseTo(&refused_chunks_, room.run > 1 ? kInRows : room.needed - std::min(room.needed, others));
  return Status::NoSpace(
      Concat("the pool is full: ", room.available, " chunks of ", pool_->chunk_bytes(),
             " bytes are left, and ", room.needed,
             " are needed for this write, its flush and that of those before it; raise "
             "pool_bytes_max or delete data"));
}

uint64_t BufferedEngine::TakeRefused() {
  return refused_chunks_.exchange(0, std::memory_order_relaxed);
}

bool BufferedEngine::HasRoomFor(uint64_t refused) const {
  uint64_t chunks = 0;
  for (uint32_t part = 0; part < pool_->part_count(); part++) chunks += pool_->chunk_count(part);
  return refused != 0 && pool_->chunks_available() >= refused + chunks / kFreePart;
}

// A file system once full may have room again: so what the pool says that there is, is tried.
// Growth that is refused memory fails like any other: what was noted is taken back.
Status BufferedEngine::LetInOnceGrown(uint64_t record_bytes, uint64_t copy_bytes, uint32_t copy_run,
                                      uint64_t extents_kept, uint64_t kept_bytes, Room* room) {
  for (bool tried = false;; tried = true) {
    *room = LetIn(record_bytes, copy_bytes, copy_run, extents_kept, kept_bytes);
    // What others need in rows was there when they were let in.
    const uint32_t run = copy_run > 1 || !room->suffices() ? room->run : 1;
    Status grown = NoThrow([&] {
      return pool_->GrowUntilFree(PartsOfCopies(), room->suffices() ? room->soon : room->needed,
                                  run);
    });
    if (!room->suffices() && grown.ok() && !tried) continue;
    if (room->suffices() && !grown.ok()) LetOut(copy_bytes, *room);
    return grown;
  }
}

// Keeps I6. Copies of which one needs chunks side by side find them: while such are to be made what
// lies in shorter rows counts for none, and what others claim before the next write is asked may
// cut one of the longer.
BufferedEngine::Room BufferedEngine::LetIn(uint64_t record_bytes, uint64_t copy_bytes,
                                           uint32_t copy_run, uint64_t extents_kept,
                                           uint64_t kept_bytes) {
  uint64_t copies = copy_bytes;
  Room room;
  if (copy_run > 1) {
    const MutexLock lock(&copy_run_mu_);
    copies += NoteCopies(copy_bytes);
    room.run_before = copy_run_.load(std::memory_order_relaxed);
    RaiseTo(&copy_run_, copy_run);
    room.raise = ++copy_run_raises_;
  } else {
    copies += NoteCopies(copy_bytes);
  }
  const uint32_t run = copy_run_.load(std::memory_order_relaxed);
  const uint64_t chunk_bytes = pool_->chunk_bytes();
  const uint64_t written = (record_bytes + copies + chunk_bytes - 1) / chunk_bytes;
  room.needed = ChunksKept(extents_kept) + written + (kept_bytes + chunk_bytes - 1) / chunk_bytes;
  room.soon = copy_cost_.ends + written;
  for (uint32_t part = 0; part < PartsOfCopies(); part++)
    room.soon += pool_->chunks_kept_for_index(part);
  room.run = run;
  if (run > 1) {
    room.needed += run;
    room.soon += run;
  }
  room.available = run > 1 ? AvailableInRows(run, room.needed) : AvailableForCopies();
  if (!room.suffices()) LetOut(copy_bytes, room);
  return room;
}

// Nor is it any more for what is refused that rows are needed.
void BufferedEngine::LetOut(uint64_t copy_bytes, const Room& room) {
  TakeBack(copy_bytes);
  if (room.raise == 0) return;
  const MutexLock lock(&copy_run_mu_);
  if (room.raise == copy_run_raises_)
    copy_run_.store(std::min(room.run_before, copy_run_.load(std::memory_order_relaxed)),
                    std::memory_order_relaxed);
}

// acquire: pairs with TakeBack. Who misses bytes that the log has claimed sees that it has.
uint64_t BufferedEngine::NoteCopies(uint64_t copy_bytes) {
  return copy_bytes_.fetch_add(copy_bytes, std::memory_order_acquire);
}

void BufferedEngine::TakeBack(uint64_t copy_bytes) {
  copy_bytes_.fetch_sub(copy_bytes, std::memory_order_release);
  if (copy_run_.load(std::memory_order_relaxed) > 1) ReviseCopyRun();
}

void BufferedEngine::AddCompactionCopies(uint64_t bytes) {
  const MutexLock lock(&copy_run_mu_);
  copy_bytes_.fetch_add(bytes, std::memory_order_release);  // as TakeBack: it may be less
  compaction_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void BufferedEngine::SetFlushClaimed(uint64_t bytes) {
  const MutexLock lock(&copy_run_mu_);
  const uint64_t before = flush_claimed_.exchange(bytes, std::memory_order_relaxed);
  copy_bytes_.fetch_add(before - bytes, std::memory_order_release);  // as TakeBack: it may be less
}

void BufferedEngine::ReviseCopyRun() {
  const MutexLock lock(&copy_run_mu_);
  const uint64_t copies =
      copy_bytes_.load(std::memory_order_relaxed) + flush_claimed_.load(std::memory_order_relaxed);
  if (copies <= compaction_bytes_.load(std::memory_order_relaxed))
    copy_run_.store(1, std::memory_order_relaxed);
}

// What the file system has more since the pool asked it last is found by growing.
bool BufferedEngine::CompactionRoom::Reserve(uint64_t bytes) {
  if (!engine_->LetIn(0, bytes, 1, 0).suffices()) return Take(bytes, "copies").ok();
  Note(bytes);
  return true;
}

// LetIn has noted them: until here they count as a flush's.
void BufferedEngine::CompactionRoom::Note(uint64_t bytes) {
  {
    const MutexLock lock(&engine_->copy_run_mu_);
    engine_->compaction_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  reserved_ += bytes;
  bytes_ += bytes;
}

void BufferedEngine::CompactionRoom::Claimed(int64_t bytes) {
  claimed_ += bytes;
  const uint64_t kept = reserved_ - ClaimedOf(reserved_, claimed_);
  engine_->AddCompactionCopies(kept - bytes_);  // or less
  bytes_ = kept;
}

BufferedEngine::FlushRoom::~FlushRoom() { engine_->SetFlushClaimed(0); }

void BufferedEngine::FlushRoom::Claimed(int64_t bytes) {
  claimed_ += bytes;
  engine_->SetFlushClaimed(ClaimedOf(bytes_max_, claimed_));
}

Status BufferedEngine::CompactionRoom::Take(uint64_t bytes, std::string_view for_what) {
  Room room;
  Status grown = engine_->LetInOnceGrown(0, bytes, 1, 0, 0, &room);
  if (!room.suffices()) {
    return Status::NoSpace(Concat("no room is left for ", for_what, ": ", bytes, " bytes beside ",
                                  "what is not flushed; ", grown.message()));
  }
  if (grown.ok()) Note(bytes);
  return grown;
}

bool BufferedEngine::IsLargerThanItMayBe() const {
  const uint64_t limit = context_.options->pool_bytes_max;
  return limit != 0 && pool_->pool_bytes() > limit;
}

// Compaction needs the last chunks, or what the deletes let go of would never come back. Of a store
// that is larger than it may be, one part may have none, by where its last close left their ends:
// there it is the last ones of all of them.
bool BufferedEngine::DeletesMayUseReserve() const {
  uint64_t available = 0;
  uint64_t kept = 0;
  bool in_each = true;
  for (uint32_t part = 0; part < pool_->part_count(); part++) {
    const uint64_t kept_here = kCompactionExtents * pool_->extent_chunks(part);
    const uint64_t available_here =
        std::min(pool_->chunks_available(part), UINT64_MAX / kPoolPartsMax);
    in_each = in_each && available_here > kept_here;
    available += available_here;
    kept += kept_here;
  }
  return in_each || (IsLargerThanItMayBe() && available > kept);
}

Status BufferedEngine::MakeSpace() {
  const bool may_be_some = ReclaimSpace();
  Status error = error_.Get();
  return may_be_some || !error.ok() ? error : Status::NoSpace("");
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

}  // namespace lamella
