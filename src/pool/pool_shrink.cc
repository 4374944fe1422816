// How a pool gives space back: free chunks at the end of a part's file leave it.
//
// Who might still look there? Readers of what was freed are gone before it is free (I2). Others ask
// the pool how many chunks there are and then look at a descriptor, or follow a place that they
// have yet to verify: those read zeros (Region I6), a chunk that nobody owns.
#include <algorithm>

#include "base/raise_to.h"
#include "pool/pool.h"
#include "pool/pool_part.h"

namespace lamella {
namespace {

// Less than this is not worth the syncs that it takes.
constexpr uint64_t kGiveBackBytesMin = 1ull << 20;
// While a store is open: nor is less than a quarter of the part, of what growth and a cycle of gc
// take and leave no part goes back and forth; but where that is much (as the next says), a
// thirty-second, so that a large store's files are not much larger than what is in them.
constexpr uint32_t kGiveBackShareSmall = 4;
constexpr uint32_t kGiveBackShareLarge = 32;
constexpr uint64_t kMuchBytes = 32ull << 20;
// At a close an eighth: one step of growth alone stays.
constexpr uint32_t kGiveBackShareClosing = 8;
// What stays free beside what growth keeps ready anyway while a store is open: of what is in use
// this share, but no more than much.
constexpr uint32_t kSlackShareOpen = 3;
// Owned chunks are in the way where they are at most this share of what would be given back without
// them: to move them is cheap.
constexpr uint32_t kInTheWayShareMax = 4;

// Of a part the chunks that hold so many beside superblock and tables.
constexpr uint32_t ChunksThatHold(uint32_t chunk_shift, uint32_t claimable) {
  const ChunkGroup first = GroupOf(chunk_shift, 0);
  if (claimable <= first.chunks - first.claimable()) return first.claimable() + claimable;
  const uint32_t rest = claimable - (first.chunks - first.claimable());
  const ChunkGroup later = GroupOf(chunk_shift, first.chunks);
  const uint32_t table = later.claimable() - later.first;
  const uint32_t groups = (rest - 1) / (later.chunks - table) + 1;
  return first.chunks + groups * table + rest;
}
static_assert(ClaimableChunks(16, ChunksThatHold(16, 7)) == 7);
static_assert(ClaimableChunks(16, ChunksThatHold(16, 5'000)) == 5'000);
static_assert(ClaimableChunks(16, ChunksThatHold(16, 50'000)) == 50'000);

}  // namespace

// The place from which on nobody owns a chunk. A later group's table goes with its last chunk.
// Called with the part's lock.
uint32_t Pool::FreeEnd(const Part& part) const {
  uint32_t end = part.chunks.load(std::memory_order_relaxed);  // stored under mu
  while (true) {
    end -= part.free.RowBefore(end);
    // end is 2 at least: the first group's table stays
    const ChunkGroup group = GroupOf(chunk_shift_, end - 1);
    if (group.first == 0 || end > group.claimable()) return end;
    end = group.first;
  }
}

// What a part would be without its end. Called with the part's lock.
struct Pool::Ending {
  uint32_t chunks = 0;
  uint32_t keep = 0;  // as `chunks` where there is too little to give
  // where it would be worth it, were it not for a few chunks after this
  uint32_t in_the_way_from = ~uint32_t{0};
};

// Of a part of so many.
uint32_t Pool::PromisedChunks(uint32_t chunks) const {
  if (promised_bytes_ == nullptr) return 0;
  const uint64_t bytes = promised_bytes_->load(std::memory_order_relaxed);
  return static_cast<uint32_t>(std::min<uint64_t>((bytes >> chunk_shift_) + 1, chunks));
}

Pool::Ending Pool::LookAtEnd(const Part& part, Slack slack) const {
  const bool closing = slack == Slack::kForOpening;
  const uint32_t chunks = part.chunks.load(std::memory_order_relaxed);  // stored under mu
  const uint32_t free = part.free.count();
  Ending ending{.chunks = chunks, .keep = chunks};
  const auto much = static_cast<uint32_t>(kMuchBytes >> chunk_shift_);
  const uint32_t share = closing ? chunks / kGiveBackShareClosing
                                 : std::max(std::min(chunks / kGiveBackShareSmall, much),
                                            chunks / kGiveBackShareLarge);
  const uint32_t least =
      std::max({uint32_t{1}, static_cast<uint32_t>(kGiveBackBytesMin >> chunk_shift_), share});
  if (free < least || part.region->is_device() || part.keeps_end.load(std::memory_order_relaxed))
    return ending;
  const uint32_t owned = ClaimableChunks(chunk_shift_, chunks) - free;
  const uint32_t about =
      owned +
      (closing ? 0 : std::max(std::min(owned / kSlackShareOpen, much), PromisedChunks(chunks)));
  const uint32_t left = closing ? left_at_close_.load(std::memory_order_relaxed) : 0;
  const uint32_t ready = std::max(ReadyExtents(about) * ExtentChunks(about) + Reserve(about), left);
  const uint32_t wanted = std::max(kInitialChunks, ChunksThatHold(chunk_shift_, about + ready));
  if (wanted >= chunks || chunks - wanted < least) return ending;
  const uint32_t keep = UsableChunks(chunk_shift_, std::max(wanted, FreeEnd(part)));
  if (chunks - keep >= least) {
    ending.keep = keep;
    return ending;
  }
  // all that could go, or the least that is worth it
  for (const uint32_t from : {wanted, chunks - least}) {
    const uint32_t gone = chunks - from;
    if (part.free.CountFrom(from) < gone - gone / kInTheWayShareMax) continue;
    ending.in_the_way_from = from;
    break;
  }
  return ending;
}

// What a crash leaves after each step (PoolShrink.ACutAnywhereLeavesThePart):
//   the end's chunks taken out of the free ones   the part as it was: that is in DRAM alone
//   superblocks, durable (chunks_min, floor)      the part as it was; its chunks are claimed from
//                                                 the higher floor on
//   the file shortened                            the shorter part, or, after a power cut, the
//                                                 longer one as it was
// The floor is above every epoch of the chunks that go: their descriptors may go, too, and come
// back as zeros (keeps I6).
Status Pool::GiveBackEnd(Part* part, Slack slack) {
  MutexLock grow_lock(&part->grow_mu);
  uint32_t chunks;
  uint32_t keep;
  // stored under grow_mu and mu; pairs with chunk_count and Contains
  const auto resize = [&](uint32_t to) {
    part->chunks.store(to, std::memory_order_release);
    bytes_[part->number].store(uint64_t{to} << chunk_shift_, std::memory_order_release);
  };
  {
    MutexLock lock(&part->mu);
    chunks = part->chunks.load(std::memory_order_relaxed);
    keep = LookAtEnd(*part, slack).keep;
    if (keep == chunks) return Status::OK();
    const uint32_t free_before = part->free.count();
    part->free.CutFrom(keep);
    free_chunks_.fetch_sub(free_before - part->free.count(), std::memory_order_relaxed);
    resize(keep);
  }
  RaiseEpochFloor(part->table->EpochMax(keep, chunks) + 1);
  Status s = UpdateSuperblocks([](Superblock*) {});
  if (s.ok()) {
    // A failure is nobody's: the part stays as long as it is.
    const bool shortened = part->region->Shrink(uint64_t{keep} << chunk_shift_).ok();
    if (shortened) part->disk_full.store(false, std::memory_order_relaxed);
    part->keeps_end.store(!shortened, std::memory_order_relaxed);
    if (shortened) TellMapped(*part);
  }
  if (part->region->bytes() >> chunk_shift_ >= chunks) {
    MutexLock lock(&part->mu);
    const uint32_t free_before = part->free.count();
    AddFree(part, keep, chunks);
    free_chunks_.fetch_add(part->free.count() - free_before, std::memory_order_relaxed);
    resize(chunks);
  }
  AskForRoom(part);
  return s;
}

Status Pool::GiveBack() {
  if (!CanGiveBack()) return Status::OK();
  // most of what the superblocks' change syncs: a claim that must grow waits for that one
  Status result = Sync();
  if (!result.ok()) return result;
  for (const std::unique_ptr<Part>& part : parts_) {
    Status s = GiveBackEnd(part.get(), Slack::kForGrowth);
    if (!s.ok()) result = s;
  }
  return result;
}

bool Pool::CanGiveBack() const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const std::unique_ptr<Part>& part) {
    MutexLock lock(&part->mu);
    const Ending ending = LookAtEnd(*part, Slack::kForGrowth);
    return ending.keep != ending.chunks;
  });
}

bool Pool::IsHeldUp() {
  bool held_up = false;
  for (const std::unique_ptr<Part>& part : parts_) {
    MutexLock lock(&part->mu);
    const uint32_t from = LookAtEnd(*part, Slack::kForGrowth).in_the_way_from;
    part->in_the_way_from.store(from, std::memory_order_relaxed);
    held_up = held_up || from != ~uint32_t{0};
  }
  return held_up;
}

bool Pool::IsInTheWay(const ChunkRef& chunk) const {
  return uint64_t{chunk.index} + chunk.run_chunks >
         parts_[chunk.part]->in_the_way_from.load(std::memory_order_relaxed);
}

void Pool::RaiseEpochFloor(uint32_t floor) {
  RaiseTo(&epoch_floor_, floor);  // relaxed, as the member says
}

}  // namespace lamella
