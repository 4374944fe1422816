// The chunks of a pool: claims, frees, growth. Its opening and superblocks are in pool_open.cc,
// giving back in pool_shrink.cc.
#include "pool/pool.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/assert.h"
#include "base/concat.h"
#include "pool/pool_part.h"

namespace lamella {
namespace {

// Growth in the background: one chunk for so many that there are, up to so many bytes. One step is
// up to some 100 ms on a busy disk.
constexpr uint64_t kGrowPart = 8;
constexpr uint64_t kGrowBytesMax = 256ull << 20;
// Growth that a claim waits for: a few milliseconds.
constexpr uint32_t kGrowExtentsInline = 4;
// Extents that are kept ready in the background: one of so many, within these.
constexpr uint32_t kReadyPart = 8;
constexpr uint32_t kReadyExtentsMin = 2;
constexpr uint32_t kReadyExtentsMax = 16;
// A part is divided into so many extents, and one of so many is its reserve, within bounds.
constexpr uint32_t kExtentsPerPart = 64;
// More than one free chunk of so many, and no row as long as an extent: that is mostly holes.
constexpr uint32_t kHolesPart = 8;

}  // namespace

// What Provision has to do for a part.
struct Pool::Readiness {
  uint32_t missing = 0;  // chunks to grow by
  uint32_t extent = 0;
  std::optional<uint32_t> cold;  // an extent to fault in
};

uint32_t Pool::chunk_count(uint32_t part) const {
  // acquire pairs with GrowPart: the chunks counted are mapped.
  return parts_[part]->chunks.load(std::memory_order_acquire);
}

// Of a part of so many chunks; as the next two.
uint32_t Pool::ExtentChunks(uint32_t chunks) const {
  const uint64_t longest = std::max<uint64_t>(1, kExtentBytesMax >> chunk_shift_);
  return static_cast<uint32_t>(
      std::bit_floor(std::clamp<uint64_t>(chunks / kExtentsPerPart, 1, longest)));
}

uint32_t Pool::Reserve(uint32_t chunks) const {
  const uint32_t extent = ExtentChunks(chunks);
  return extent * std::clamp<uint32_t>(chunks / extent / kExtentsPerPart, kReserveExtentsMin,
                                       kReserveExtentsMax);
}

uint32_t Pool::KeptFrom(Claimant claimant, const Part& part) const {
  if (claimant == Claimant::kWriter) return Reserve(part.chunks.load(std::memory_order_relaxed));
  return claimant == Claimant::kReclaim ? static_cast<uint32_t>(chunks_kept_for_index(part.number))
                                        : 0;
}

uint32_t Pool::ReadyExtents(uint32_t chunks) const {
  return std::clamp(chunks / ExtentChunks(chunks) / kReadyPart, kReadyExtentsMin, kReadyExtentsMax);
}

// relaxed: a size that is about right will do.
uint32_t Pool::extent_chunks(uint32_t part) const {
  return ExtentChunks(parts_[part]->chunks.load(std::memory_order_relaxed));
}

bool Pool::MayGrow(const Part& part) const {
  return part.chunks.load(std::memory_order_relaxed) < chunks_max_ &&
         !part.disk_full.load(std::memory_order_relaxed);
}

void Pool::AskForAllRoom() {
  for (const std::unique_ptr<Part>& part : parts_) {
    part->sharers = static_cast<uint32_t>(std::ranges::count_if(parts_, [&](const auto& other) {
      return part->region->IsBesideOnFileSystem(*other->region);
    }));
    AskForRoom(part.get());
  }
}

// What the file has by now and the part has not counted yet is room, too. What its file system has
// is shared alike by the parts that lie there.
void Pool::AskForRoom(Part* part) const {
  if (!MayGrow(*part)) return;
  const uint64_t counted = uint64_t{part->chunks.load(std::memory_order_relaxed)} << chunk_shift_;
  const uint64_t bytes = part->region->bytes();
  const uint64_t beside = bytes - std::min(bytes, counted);
  const uint64_t room = part->region->RoomToGrow(part->sharers);
  part->room_to_grow.store((room + std::min(beside, ~room)) >> chunk_shift_,
                           std::memory_order_relaxed);
}

// Where much of the part is free and no row is as long as an extent, shorter ones are used before
// it grows.
bool Pool::IsMostlyHoles(const Part& part, uint32_t free) const {
  return free > part.chunks.load(std::memory_order_relaxed) / kHolesPart;
}

// The length of the run to claim, 0 where the part must grow for it. Called with the part's lock.
uint32_t Pool::RunToTake(const Part& part, uint32_t needed, uint32_t wanted,
                         uint32_t reserve) const {
  const uint32_t free = part.free.count();
  if (free < needed + reserve) return 0;
  const uint32_t most = std::min(free - reserve, part.free.longest());
  if (most >= wanted) return wanted;
  return most >= needed && (!MayGrow(part) || IsMostlyHoles(part, free - reserve)) ? most : 0;
}

Status Pool::ClaimExtent(uint32_t part_number, ChunkKind kind, uint32_t owner, uint64_t ordinal,
                         uint32_t needed, uint32_t wanted, Claimant claimant, Persister* persister,
                         ChunkRef* chunk) {
  LAMELLA_CHECK(part_number < parts_.size() && needed >= 1);
  if (needed > run_chunks_max()) {
    return Status::InvalidArgument(Concat("a run of ", needed, " chunks of ", chunk_bytes_,
                                          " bytes exceeds the ", run_chunks_max(),
                                          " that are adjacent"));
  }
  wanted = std::clamp(wanted, needed, run_chunks_max());
  Part* part = parts_[part_number].get();
  while (true) {
    const uint32_t reserve = KeptFrom(claimant, *part);
    std::optional<uint32_t> first;
    uint32_t run = 0;
    {
      MutexLock lock(&part->mu);
      run = RunToTake(*part, needed, wanted, reserve);
      if (run != 0) first = part->free.Take(run);
      if (first) part->claimed.fetch_add(run, std::memory_order_relaxed);
    }
    if (first) {
      free_chunks_.fetch_sub(run, std::memory_order_relaxed);
      AskForRoom(part);
      *chunk = part->table->Publish(*first, kind, owner, ordinal, run,
                                    epoch_floor_.load(std::memory_order_relaxed), persister);
      return Status::OK();
    }
    Status s = GrowForClaim(part, wanted, reserve);
    if (s.ok()) continue;
    if (!s.IsNoSpace() || wanted == needed) return s;
    wanted = std::max(needed, wanted / 2);
  }
}

// Grows so far that the run fits at the end and the reserve is left, if nobody else takes it first.
Status Pool::GrowForClaim(Part* part, uint32_t run_chunks, uint32_t reserve) {
  uint64_t needed;
  {
    MutexLock lock(&part->mu);
    const uint32_t chunks = part->chunks.load(std::memory_order_relaxed);  // stored under mu
    const uint32_t row = part->free.RowBefore(chunks);
    needed = RunStart(chunk_shift_, chunks - row, run_chunks) + run_chunks;
    const uint32_t free = part->free.count();
    const uint32_t wanted = run_chunks + reserve;
    if (free < wanted) needed = std::max<uint64_t>(needed, uint64_t{chunks} + wanted - free);
    if (needed <= chunks) return Status::OK();  // another thread grew or freed meanwhile
  }
  // Not to where a later group has nothing but tables: an open counts no such group, and would miss
  // chunks that the superblock says there are.
  needed = RunStart(chunk_shift_, needed - 1, 1) + 1;
  if (needed > chunks_max_) {
    const uint32_t chunks = part->chunks.load(std::memory_order_relaxed);
    return Status::NoSpace(Concat(part->region->path(), " is full: ", chunks, " chunks of ",
                                  chunk_bytes_, " bytes, ", part->free.count(), " of them free (",
                                  Reserve(chunks), " are kept for deletes and compaction), and ",
                                  limited_ ? "pool_bytes_max" : "the format", " allows ",
                                  chunks_max_, "; raise pool_bytes_max or delete data"));
  }
  const uint64_t wanted =
      std::min<uint64_t>(chunks_max_, needed + kGrowExtentsInline * extent_chunks(part->number));
  return GrowPart(part, static_cast<uint32_t>(needed), static_cast<uint32_t>(wanted));
}

void Pool::TellMapped(const Part& part) const {
  if (PersistHook* hook = gate_->hook())
    hook->OnMap(part.number, part.region->base(), part.region->bytes());
}

// Grows to `chunks_wanted`, or as far as the file system lets it, but at least to `chunks_needed`,
// which is usable.
Status Pool::GrowPart(Part* part, uint32_t chunks_needed, uint32_t chunks_wanted) {
  MutexLock grow_lock(&part->grow_mu);
  const uint32_t chunks = part->chunks.load(std::memory_order_relaxed);  // stored under grow_mu
  if (chunks >= chunks_needed) return Status::OK();
  uint32_t target = std::max(chunks_needed, UsableChunks(chunk_shift_, chunks_wanted));
  Status s = part->region->Grow(uint64_t{target} << chunk_shift_);
  while (s.IsNoSpace() && target > chunks_needed) {
    target = std::max(chunks_needed,
                      UsableChunks(chunk_shift_, chunks_needed + (target - chunks_needed) / 2));
    s = part->region->Grow(uint64_t{target} << chunk_shift_);
  }
  part->disk_full.store(!s.ok(), std::memory_order_relaxed);
  if (!s.ok()) return s;
  part->keeps_end.store(false, std::memory_order_relaxed);
  TellMapped(*part);
  Persister persister(gate_.get(), WriteCause::kCatalog);
  s = part->table->Prepare(chunks, target, &persister);
  if (!s.ok()) return s;
  {
    MutexLock lock(&part->mu);
    const uint32_t free_before = part->free.count();
    AddFree(part, chunks, target);
    free_chunks_.fetch_add(part->free.count() - free_before, std::memory_order_relaxed);
    // pairs with chunk_count
    part->chunks.store(target, std::memory_order_release);
    // pairs with Contains
    bytes_[part->number].store(uint64_t{target} << chunk_shift_, std::memory_order_release);
  }
  AskForRoom(part);
  return s;
}

Status Pool::GrowUntilFree(uint32_t parts, uint64_t chunks, uint32_t run) {
  Status s;
  uint64_t free = 0;
  uint64_t most = 0;  // once they have grown as far as they may
  const auto rows_max = static_cast<uint32_t>(
      std::min<uint64_t>(chunks / run + 1, std::numeric_limits<uint32_t>::max()));
  struct Look {
    uint64_t free = 0;
    uint64_t most = 0;
  };
  const auto look_at = [&](Part* part) -> Look {
    // each write comes by here: without the lock
    if (run == 1) return {part->free.count(), FreeOnceGrown(*part)};
    const MutexLock lock(&part->mu);
    const uint64_t here = uint64_t{part->free.Look(run, rows_max).rows} * run;
    const uint32_t now = part->chunks.load(std::memory_order_relaxed);  // stored under mu
    const uint32_t end = std::max(now, chunks_max_);
    // the first of what is added may have its beginning in what there is
    return {here, here + (RowsWithin(now, end, run, rows_max) + 1) * run};
  };
  for (uint32_t i = 0; i < parts; i++) {
    const Look look = look_at(parts_[i].get());
    free += look.free;
    most += look.most;
  }
  if (most < chunks) parts = 0;  // nothing grows for what there cannot be
  for (uint32_t i = 0; free < chunks && i < parts; i++) {
    Part* const part = parts_[i].get();
    uint64_t here = look_at(part).free;
    const uint64_t others = free - std::min(free, here);
    while (others + here < chunks) {
      const uint32_t now = part->chunks.load(std::memory_order_relaxed);
      const uint64_t needed = RunStart(chunk_shift_, now, 1) + 1;
      if (needed > chunks_max_) break;
      const uint64_t wanted =
          now + chunks - std::min(chunks, others + here) + std::max(extent_chunks(i), run);
      s = GrowPart(part, static_cast<uint32_t>(needed),
                   static_cast<uint32_t>(std::clamp<uint64_t>(wanted, needed, chunks_max_)));
      if (!s.ok()) break;
      here = look_at(part).free;
    }
    free = others + here;
  }
  if (free >= chunks) return Status::OK();
  if (!s.ok()) return s;
  return Status::NoSpace(Concat("the pool has ", free, " free chunks of ", chunk_bytes_, " bytes",
                                run > 1 ? Concat(" in rows of ", run) : "",
                                " and may not grow to have the ", chunks,
                                " that are needed; raise pool_bytes_max or delete data"));
}

// The chunks [from, to) but for those of tables are free.
void Pool::AddFree(Part* part, uint32_t from, uint32_t to) const {
  part->free.ProvideFor(to);  // all of them, or none
  while (from < to) {
    const ChunkGroup group = GroupOf(chunk_shift_, from);
    const auto end = static_cast<uint32_t>(std::min<uint64_t>(to, group.end()));
    const uint32_t first = std::max(from, group.claimable());
    if (first < end) part->free.Add(first, end - first);
    from = end;
  }
}

void Pool::Free(const ChunkRef& chunk, Persister* persister) {
  Part* part = parts_[chunk.part].get();
  part->table->Unpublish(chunk, persister);
  MutexLock lock(&part->mu);
  part->free.Add(chunk.index, chunk.run_chunks);
  part->claimed.fetch_sub(chunk.run_chunks, std::memory_order_relaxed);
  free_chunks_.fetch_add(chunk.run_chunks, std::memory_order_relaxed);
}

void Pool::FreeNow(const ChunkRef& chunk) {
  MutexLock lock(&deferred_mu_);
  Free(chunk, deferred_persister_.get());
  deferred_chunks_.fetch_sub(chunk.run_chunks, std::memory_order_relaxed);
}

// Both halves are made here: when the readers are gone, there may be no memory for the second.
EpochDomain::Retirement Pool::AfterAllPins(std::function<void()> callback) {
  auto after_holders = std::make_shared<EpochDomain::Retirement>(std::move(callback));
  return EpochDomain::Retirement(
      [this, after_holders] { holders_.Retire(std::move(*after_holders)); });
}

void Pool::FreeDeferred(const ChunkRef& chunk) {
  EpochDomain::Retirement retirement = AfterAllPins([this, chunk] { FreeNow(chunk); });
  deferred_chunks_.fetch_add(chunk.run_chunks, std::memory_order_relaxed);
  readers_.Retire(std::move(retirement));  // keeps I2
  if (is_told_.exchange(true, std::memory_order_acq_rel)) return;
  const MutexLock lock(&listener_mu_);
  if (listener_) listener_();  // keeps I8
}

void Pool::OnDeferred(std::function<void()> listener) {
  const MutexLock lock(&listener_mu_);
  listener_ = std::move(listener);
}

// acq_rel, as in FreeDeferred: who found that it was told had retired before what follows here.
size_t Pool::CollectDeferred() {
  is_told_.exchange(false, std::memory_order_acq_rel);
  readers_.Collect();
  holders_.Collect();
  return deferred_chunks_.load(std::memory_order_relaxed);
}

size_t Pool::AwaitDeferred() {
  is_told_.exchange(false, std::memory_order_acq_rel);
  readers_.Collect();
  readers_.AwaitRunning();  // what it runs may retire what waits for holders
  holders_.Collect();
  holders_.AwaitRunning();
  return deferred_chunks_.load(std::memory_order_relaxed);
}

bool Pool::Describe(uint32_t part, uint32_t index, ChunkRef* chunk) const {
  return part < parts_.size() && index < chunk_count(part) &&
         parts_[part]->table->Describe(index, chunk);
}

void Pool::ForEachChunk(const std::function<void(const ChunkRef&)>& visit) const {
  for (uint32_t part = 0; part < part_count(); part++) {
    const uint32_t chunks = chunk_count(part);
    for (uint64_t index = 0; index < chunks; index++) {
      ChunkRef chunk;
      if (!Describe(part, static_cast<uint32_t>(index), &chunk) ||
          chunk.kind == ChunkKind::kRunTail)
        continue;
      visit(chunk);
      // of a chunk that is claimed meanwhile: its tails were nobody's
      index += std::max(1u, chunk.run_chunks) - 1;
    }
  }
}

Pool::Readiness Pool::Look(Part* part) const {
  MutexLock lock(&part->mu);
  const uint32_t chunks = part->chunks.load(std::memory_order_relaxed);  // stored under mu
  const uint32_t extent = ExtentChunks(chunks);
  const uint32_t ready = ReadyExtents(chunks);
  const FreeSet::Outlook outlook = part->free.Look(extent, ready);
  Readiness readiness{.extent = extent, .cold = outlook.cold};
  if (!MayGrow(*part)) return readiness;
  const uint32_t reserve = Reserve(chunks);
  const uint32_t wanted = ready * extent + reserve;
  const uint32_t free = part->free.count();
  if (free < wanted) {
    readiness.missing = wanted - free;
  } else if (outlook.rows == 0 && !IsMostlyHoles(*part, free - reserve)) {
    readiness.missing = ready * extent;
  }
  return readiness;
}

Status Pool::Provision() {
  Status result;
  for (const std::unique_ptr<Part>& part : parts_) {
    Readiness readiness = Look(part.get());
    while (readiness.missing != 0) {
      const uint32_t now = part->chunks.load(std::memory_order_relaxed);
      const auto step = static_cast<uint32_t>(std::max<uint64_t>(
          readiness.missing, std::min<uint64_t>(now / kGrowPart, kGrowBytesMax >> chunk_shift_)));
      // at most chunks_max_, which is usable, too
      const uint64_t needed = RunStart(chunk_shift_, now, 1) + 1;
      const uint64_t wanted = std::min<uint64_t>(chunks_max_, uint64_t{now} + step);
      Status s = GrowPart(part.get(), static_cast<uint32_t>(needed), static_cast<uint32_t>(wanted));
      if (!s.ok()) {
        result = s;
        break;
      }
      readiness = Look(part.get());
    }
    while (readiness.cold) {
      {
        MutexLock lock(&part->mu);
        part->free.MarkWarm(*readiness.cold, readiness.extent);
      }
      // Harmless if it is claimed, or given back, meanwhile.
      part->region->Prefault(uint64_t{*readiness.cold} << chunk_shift_,
                             uint64_t{readiness.extent} << chunk_shift_);
      readiness = Look(part.get());
    }
  }
  return result;
}

bool Pool::NeedsProvision() const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const std::unique_ptr<Part>& part) {
    const Readiness readiness = Look(part.get());
    return readiness.missing != 0 || readiness.cold;
  });
}

uint64_t Pool::chunks_available(uint32_t part_number) const {
  const Part& part = *parts_[part_number];
  const uint64_t free = part.free.count();
  if (part.disk_full.load(std::memory_order_relaxed)) return free;
  if (!MayGrow(part)) return FreeOnceGrown(part);
  const uint64_t room = part.room_to_grow.load(std::memory_order_relaxed);
  const uint64_t at_most = room < std::numeric_limits<uint64_t>::max() >> chunk_shift_
                               ? free + room
                               : std::numeric_limits<uint64_t>::max();
  return limited_ ? std::min(at_most, FreeOnceGrown(part)) : at_most;
}

// One count, which growing and giving back leave as it is: the sum of what is free and what may be
// added would miss, or count twice, what is moved from the one to the other meanwhile.
uint64_t Pool::FreeOnceGrown(const Part& part) const {
  // it may be longer than it may become
  const uint32_t chunks = part.chunks.load(std::memory_order_relaxed);
  const uint32_t most = ClaimableChunks(chunk_shift_, std::max(chunks, chunks_max_));
  return most - std::min(most, part.claimed.load(std::memory_order_relaxed));
}

// Rows of `run` chunks in [from, to), between tables, as far as `rows_max` of them or a few more.
uint64_t Pool::RowsWithin(uint32_t from, uint32_t to, uint32_t run, uint32_t rows_max) const {
  uint64_t rows = 0;
  for (uint64_t at = from; at < to && rows < rows_max;) {
    const ChunkGroup group = GroupOf(chunk_shift_, static_cast<uint32_t>(at));
    const uint64_t first = std::max<uint64_t>(at, group.claimable());
    const uint64_t end = std::min<uint64_t>(to, group.end());
    if (first < end) rows += (end - first) / run;
    at = group.end();
  }
  return rows;
}

uint64_t Pool::chunks_available_in_rows(uint32_t part_number, uint32_t run, uint64_t most) const {
  Part* const part = parts_[part_number].get();
  const uint64_t available = chunks_available(part_number);
  const auto rows_max = static_cast<uint32_t>(
      std::min<uint64_t>(most / run + 1, std::numeric_limits<uint32_t>::max()));
  const uint64_t room = part->room_to_grow.load(std::memory_order_relaxed);
  // Of what the part may have once it has grown.
  const auto rows_from = [&](uint32_t from, uint32_t now) -> uint64_t {
    if (!MayGrow(*part)) return 0;
    const uint64_t most_grown = std::min<uint64_t>(room, chunks_max_);
    const auto to = static_cast<uint32_t>(std::min<uint64_t>(chunks_max_, now + most_grown));
    return RowsWithin(from, to, run, rows_max);
  };
  const uint32_t before = part->chunks.load(std::memory_order_relaxed);
  if (rows_from(before, before) >= rows_max) return available;
  const MutexLock lock(&part->mu);
  uint64_t rows = part->free.Look(run, rows_max).rows;
  const uint32_t chunks = part->chunks.load(std::memory_order_relaxed);  // stored under mu
  const uint32_t last = part->free.RowBefore(chunks);
  // it lengthens the last row
  if (const uint64_t grown = rows_from(chunks - last, chunks); grown > last / run)
    rows += grown - last / run;
  return std::min(available, rows * run);
}

uint64_t Pool::chunks_available() const {
  uint64_t available = 0;
  for (uint32_t part = 0; part < part_count(); part++) {
    const uint64_t here = chunks_available(part);
    if (here == std::numeric_limits<uint64_t>::max()) return here;
    available += here;
  }
  return available;
}

bool Pool::MayStayBelowLimit() const {
  if (!limited_) return true;
  for (uint32_t part = 0; part < part_count(); part++) {
    if (chunks_available(part) < FreeOnceGrown(*parts_[part])) return true;
  }
  return false;
}

uint64_t Pool::pool_bytes() const {
  uint64_t chunks = 0;
  for (uint32_t part = 0; part < part_count(); part++) chunks += chunk_count(part);
  return chunks << chunk_shift_;
}

uint64_t Pool::used_bytes() const {
  uint64_t claimable = 0;
  for (uint32_t part = 0; part < part_count(); part++) {
    claimable += ClaimableChunks(chunk_shift_, chunk_count(part));
  }
  // the two counts are not read at one instant
  const uint64_t free = std::min(free_chunks(), claimable);
  return (claimable - free) << chunk_shift_;
}

}  // namespace lamella
