// Creation, opening and superblocks of a pool. Its chunks are in pool.cc.
#include <bit>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/assert.h"
#include "base/concat.h"
#include "pmem/boot_id.h"
#include "pool/pool.h"
#include "pool/pool_part.h"

namespace lamella {
namespace {

constexpr uint64_t kReserveBytesDefault = 1ull << 40;
// more than a chunk's claims between two write-backs of its descriptor
constexpr uint32_t kLostEpochs = 1u << 16;
// more than any store's life; after it epochs would begin anew
constexpr uint32_t kEpochMax = ~uint32_t{0} - (1u << 20);
constexpr char kWorkingSuffix[] = ".new";  // of a part that is being created

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

uint64_t ReserveBytes(const PoolOptions& options) {
  if (options.pool_bytes_max == 0) return kReserveBytesDefault;
  const uint64_t most = options.pool_bytes_max / options.part_paths.size();
  return std::min(most, PmPtr::kOffsetMask + 1) + options.chunk_bytes;
}

uint32_t ChunksMax(const PoolOptions& options, uint64_t chunk_bytes) {
  uint64_t chunks = std::min<uint64_t>((PmPtr::kOffsetMask + 1) / chunk_bytes, ~uint32_t{0});
  if (options.pool_bytes_max != 0) {
    chunks = std::min(chunks, options.pool_bytes_max / options.part_paths.size() / chunk_bytes);
  }
  return UsableChunks(static_cast<uint32_t>(std::countr_zero(chunk_bytes)),
                      static_cast<uint32_t>(chunks));
}

Status CheckOptions(const PoolOptions& options) {
  if (options.part_paths.empty() || options.part_paths.size() > kPoolPartsMax) {
    return Status::InvalidArgument(Concat("a pool has 1 to ", kPoolPartsMax, " parts; ",
                                          options.part_paths.size(), " were given"));
  }
  if (!std::has_single_bit(options.chunk_bytes) || options.chunk_bytes < kChunkBytesMin ||
      options.chunk_bytes > kChunkBytesMax) {
    return Status::InvalidArgument(Concat("chunk_bytes must be a power of two from ",
                                          kChunkBytesMin, " to ", kChunkBytesMax, "; ",
                                          options.chunk_bytes, " was given"));
  }
  if (ChunksMax(options, options.chunk_bytes) < kPartChunksMin) {
    return Status::InvalidArgument(
        Concat("pool_bytes_max must be 0 (no limit) or at least ",
               kPartChunksMin * options.chunk_bytes * options.part_paths.size(), " (",
               kPartChunksMin, " chunks of ", options.chunk_bytes, " bytes for each of ",
               options.part_paths.size(), " parts); ", options.pool_bytes_max, " was given"));
  }
  return Status::OK();
}

std::array<uint8_t, 16> NewUuid() {
  std::random_device entropy;
  std::array<uint8_t, 16> uuid;
  for (uint8_t& byte : uuid) byte = static_cast<uint8_t>(entropy());
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0f) | 0x40);  // version 4: random
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

// A part other than the first, left by a creation that was cut short, holds nothing: it was never
// opened.
Status RemoveIfNeverOpened(const std::string& path, OsHook* os) {
  std::unique_ptr<Region> region;
  Superblock superblock;
  Status s = Region::Open(path, 0, &region, os);
  if (s.IsBusy() || s.IsNotFound()) return s;
  if (s.ok()) s = ReadSuperblock(path, region->base(), region->bytes(), &superblock);
  if (!s.ok() || superblock.generation != 1) {
    return Status::InvalidArgument(
        path + " exists and may hold data of another store; move it away to create one here");
  }
  return region->Unlink();
}

// In order: kByte < kCacheLine < kPage < kVolatile
bool IsFiner(MediumKind kind, MediumKind than) { return kind < than; }

}  // namespace

Pool::Pool() = default;

Pool::~Pool() {
  if (gate_ == nullptr) return;
  // Nothing is pinned any more, so each round runs all there is; what runs may defer more.
  for (int rounds = 0;
       readers_.Collect() != 0 || holders_.Collect() != 0 || readers_.Collect() != 0; rounds++) {
    LAMELLA_CHECK(rounds < 100);  // a pin is left
  }
  LAMELLA_CHECK(deferred_chunks_.load(std::memory_order_relaxed) == 0);
  superblock_persister_.reset();
  deferred_persister_.reset();
  if (PersistHook* hook = gate_->hook()) {
    for (uint32_t part = 0; part < part_count(); part++) hook->OnUnmap(part);
  }
}

Status Pool::Create(const PoolOptions& options, std::unique_ptr<Pool>* pool) {
  Status s = CheckOptions(options);
  if (!s.ok()) return s;
  if (Exists(options.part_paths[0])) {
    return Status::InvalidArgument(options.part_paths[0] +
                                   " exists already; open it, or remove it to create a store here");
  }
  std::unique_ptr<Pool> made(new Pool);
  s = CreateParts(options, made.get());
  if (s.ok()) {
    *pool = std::move(made);
    return s;
  }
  // By the names that they have now, and no others: those may be another creation's. The first
  // failure is the one to report.
  for (const std::unique_ptr<Part>& part : made->parts_) (void)part->region->Unlink().ok();
  return s;
}

// Who holds the lock of part 0's working file creates the pool: no other creation gets further, and
// so none is under way whose files could be taken for what a crash left.
Status Pool::CreateFile(const PoolOptions& options, Pool* pool, uint64_t bytes) {
  const std::string& path = options.part_paths[pool->part_count()];
  auto part = std::make_unique<Part>();
  part->number = pool->part_count();
  Status s = Region::Remove(path + kWorkingSuffix, options.os);
  if (s.ok() && part->number > 0 && Exists(path)) s = RemoveIfNeverOpened(path, options.os);
  if (!s.ok()) return s;
  s = Region::Create(path + kWorkingSuffix, bytes, ReserveBytes(options), &part->region,
                     options.os);
  if (s.IsInvalidArgument()) {  // it was removed above
    return Status::Busy(path + kWorkingSuffix +
                        " was made meanwhile: another creation of this pool is under way");
  }
  if (!s.ok()) return s;
  pool->parts_.push_back(std::move(part));
  if (pool->part_count() == 1 && Exists(path)) {
    return Status::Busy(path + " was made meanwhile, by another creation of this pool; open it");
  }
  return s;
}

// What a crash leaves after each step (PoolOpen.AnInterruptedCreationIsMadeAnew):
//   working files, superblocks durable           no part under its name: no pool
//   parts renamed, last to second                no first part: no pool, and parts of generation 1
//                                                that Create removes
//   first part renamed                           the pool
Status Pool::CreateParts(const PoolOptions& options, Pool* pool) {
  pool->chunk_bytes_ = options.chunk_bytes;
  pool->chunk_shift_ = static_cast<uint32_t>(std::countr_zero(options.chunk_bytes));
  pool->chunks_max_ = ChunksMax(options, options.chunk_bytes);
  pool->limited_ = options.pool_bytes_max != 0;
  pool->state_.engine = options.engine;
  pool->state_.engine_flags = options.engine_flags;
  pool->state_.uuid = options.uuid ? *options.uuid : NewUuid();
  // A random start, so that a chunk copied here from another store has another epoch than the one
  // it lands in.
  pool->RaiseEpochFloor(1 + (std::random_device{}() & 0x7fffffffu));
  const uint32_t chunks = std::min(kInitialChunks, pool->chunks_max_);
  for (const std::string& path : options.part_paths) {
    Status s = CreateFile(options, pool, chunks * options.chunk_bytes);
    if (!s.ok()) return s;
    Part* part = pool->parts_.back().get();
    pool->bases_[part->number] = part->region->base();
    part->table = std::make_unique<ChunkTable>(path, part->region->base(), part->number,
                                               pool->chunk_shift_, pool->state_.uuid);
    part->chunks.store(chunks, std::memory_order_relaxed);  // no other thread sees the pool yet
    pool->bytes_[part->number].store(chunks * options.chunk_bytes, std::memory_order_relaxed);
    pool->AddFree(part, 0, chunks);
    pool->free_chunks_.fetch_add(part->free.count(), std::memory_order_relaxed);
  }
  pool->MakeGate(options);
  pool->AskForAllRoom();
  Status s;
  for (const std::unique_ptr<Part>& part : pool->parts_) {
    MutexLock lock(&pool->deferred_mu_);
    if (s.ok()) s = part->table->Prepare(0, chunks, pool->deferred_persister_.get());
  }
  if (!s.ok()) return s;
  s = pool->UpdateSuperblocks([&](Superblock* superblock) LAMELLA_REQUIRES(pool->superblock_mu_) {
    superblock->magic = kSuperblockMagic;
    superblock->format_major = kFormatMajor;
    superblock->format_minor = kFormatMinor;
    superblock->uuid = pool->state_.uuid;
    superblock->part_count = pool->part_count();
    superblock->chunk_bytes = options.chunk_bytes;
    superblock->engine = static_cast<uint8_t>(options.engine);
    superblock->engine_flags = options.engine_flags;
    pool->SayWhere(superblock);
  });
  for (uint32_t i = pool->part_count(); s.ok() && i-- > 0;)
    s = pool->parts_[i]->region->Rename(options.part_paths[i]);
  return s;
}

Status Pool::Open(const PoolOptions& options, std::unique_ptr<Pool>* pool) {
  if (options.part_paths.empty() || options.part_paths.size() > kPoolPartsMax)
    return CheckOptions(options);
  std::unique_ptr<Pool> opened(new Pool);
  Status s = opened->OpenParts(options);
  if (s.ok()) *pool = std::move(opened);
  return s;
}

Status Pool::OpenParts(const PoolOptions& options) {
  std::vector<Superblock> superblocks(options.part_paths.size());
  for (uint32_t i = 0; i < superblocks.size(); i++) {
    Status s = OpenPart(options, i, &superblocks[i]);
    if (!s.ok()) return s;
    if (superblocks[i].part_count != superblocks.size()) {
      return Status::InvalidArgument(
          Concat(options.part_paths[i], ": the pool has ", superblocks[i].part_count, " parts and ",
                 superblocks.size(), " were named; name the directories it was created with"));
    }
  }
  const Superblock& first = superblocks[0];
  chunk_bytes_ = first.chunk_bytes;
  chunk_shift_ = static_cast<uint32_t>(std::countr_zero(first.chunk_bytes));
  chunks_max_ = ChunksMax(options, chunk_bytes_);
  limited_ = options.pool_bytes_max != 0;
  state_.engine = static_cast<EngineKind>(first.engine);
  state_.engine_flags = first.engine_flags;
  state_.clean = first.clean != 0;
  constexpr std::array<uint8_t, 16> kUnknown{};
  state_.same_boot =
      first.boot_id == BootId() && first.boot_id != kUnknown && first.sync_failed == 0;
  // A copy, or a disk that was attached again, has what its medium had, and not what the page cache
  // of the file had.
  for (size_t i = 0; i < superblocks.size(); i++) {
    const auto& file_id = parts_[i]->region->file_id();
    state_.same_boot &= superblocks[i].file_id == file_id && file_id != kUnknown;
    parts_[i]->file_id = superblocks[i].file_id;
  }
  state_.catalog_chunk = first.catalog_chunk;
  state_.uuid = first.uuid;
  Status s = CheckSiblings(superblocks);
  if (!s.ok()) return s;
  MakeGate(options);
  opened_ = true;
  return ScanParts(superblocks, options.mended);
}

ChunkDescriptor* Pool::UnmendedDescriptor(uint32_t part, uint32_t index) const {
  return parts_[part]->table->At(index);
}

Status Pool::Mend() {
  if (!std::exchange(opened_, false)) return Status::OK();
  unmended_ = false;
  const bool power_cut = !state_.clean && !state_.same_boot;
  MutexLock superblock_lock(&superblock_mu_);
  Status s;
  // The kernel dropped pages that it could not write, and takes what it still shows of them for
  // written.
  for (size_t i = 0; s.ok() && superblock_.sync_failed != 0 && i < parts_.size(); i++)
    s = parts_[i]->region->DirtyAll();
  if (state_.clean) {
    WriteBackSuperblocks();
  } else if (s.ok()) {
    s = WriteBackLeft();
  }
  if (!s.ok()) return s;
  {
    MutexLock lock(&deferred_mu_);
    for (const std::unique_ptr<Part>& part : parts_) part->table->Mend(deferred_persister_.get());
  }
  return power_cut ? UpdateSuperblocksLocked([](Superblock*) {}) : s;
}

// What says that the store was closed in order may itself be in caches alone, where the process
// was killed in saying so; all else was durable before. The next update would write a second copy
// over what must stand in for a first one that a power cut can still tear (keeps I7).
void Pool::WriteBackSuperblocks() {
  for (uint32_t i = 0; i < part_count(); i++) {
    for (const uint64_t offset : kSuperblockOffsets)
      superblock_persister_->Flush(bases_[i] + offset, sizeof(Superblock));
  }
  superblock_persister_->Fence();
}

// What a killed process had stored is here to be read, and yet in caches alone: the processor's,
// where it was not flushed, or the kernel's pages. Recovery goes by it, and what it makes durable
// on top must not outlive it (keeps I7). The kernel knows which pages of a file were stored to; of
// a device nobody does.
Status Pool::WriteBackLeft() {
  if (!gate_->flushes() && gate_->medium() != MediumKind::kPage) return Status::OK();
  for (const std::unique_ptr<Part>& part : parts_) {
    if (part->region->is_device()) {
      MutexLock lock(&deferred_mu_);
      deferred_persister_->Persist(part->region->base(), part->region->bytes());
      continue;
    }
    Status s = part->region->Sync(gate_.get());
    if (s.ok()) continue;
    MarkSyncFailed();
    return s;
  }
  return Status::OK();
}

Status Pool::OpenPart(const PoolOptions& options, uint32_t number, Superblock* superblock) {
  const std::string& path = options.part_paths[number];
  auto part = std::make_unique<Part>();
  part->number = number;
  Status s = Region::Open(path, ReserveBytes(options), &part->region, options.os);
  if (s.IsNotFound() && number > 0) {
    return Status::Corruption(Concat(path, ": expected part ", number, " of the pool that ",
                                     options.part_paths[0],
                                     " is part 0 of, found no file; restore it"));
  }
  if (s.ok()) s = ReadSuperblock(path, part->region->base(), part->region->bytes(), superblock);
  if (s.ok()) s = part->region->FillHoles();
  if (!s.ok()) return s;
  bases_[number] = part->region->base();
  parts_.push_back(std::move(part));
  return s;
}

Status Pool::CheckSiblings(const std::vector<Superblock>& superblocks) const {
  const Superblock& first = superblocks[0];
  for (uint32_t i = 0; i < superblocks.size(); i++) {
    const Superblock& found = superblocks[i];
    const std::string& path = parts_[i]->region->path();
    if (found.uuid != first.uuid) {
      return Status::Corruption(Concat(path, ": expected a part of pool ", UuidText(first.uuid),
                                       ", found one of pool ", UuidText(found.uuid),
                                       "; the files of two stores were mixed"));
    }
    if (found.part != i || found.chunk_bytes != first.chunk_bytes) {
      return Status::Corruption(Concat(path, ": expected part ", i, " with chunks of ",
                                       first.chunk_bytes, " bytes, found part ", found.part,
                                       " with chunks of ", found.chunk_bytes));
    }
    if (found.generation != first.generation && found.generation != first.generation + 1) {  // S2
      return Status::Corruption(Concat(path, ": expected superblock generation ", first.generation,
                                       " as in part 0, found ", found.generation,
                                       "; one of the two is an older copy"));
    }
  }
  return Status::OK();
}

// Builds the sets of free chunks. After a power cut the descriptors may be older than what chunks
// hold: the floor moves above every epoch that a claim can have had, before anything is claimed.
Status Pool::ScanParts(const std::vector<Superblock>& superblocks,
                       std::vector<std::string>* mended) {
  const bool power_cut = !state_.clean && !state_.same_boot;
  uint32_t epoch_max = superblocks[0].epoch_floor;
  for (const std::unique_ptr<Part>& part : parts_) {
    const bool unordered = power_cut && part->region->Detect().kind == MediumKind::kPage;
    state_.pages_lost |= unordered;
    const uint64_t bytes = part->region->bytes();
    const uint32_t chunks = UsableChunks(chunk_shift_, static_cast<uint32_t>(std::min<uint64_t>(
                                                           bytes >> chunk_shift_, ~uint32_t{0})));
    // beyond these are but tables of a group, which an older build may have counted
    const uint64_t least =
        unordered ? 2
                  : std::max(uint32_t{2},
                             UsableChunks(chunk_shift_, superblocks[part->number].chunks_min));
    if (chunks < least) {
      return Status::Corruption(Concat(part->region->path(), ": expected ", least << chunk_shift_,
                                       " bytes or more (", least, " chunks of ", chunk_bytes_,
                                       "), found ", bytes,
                                       "; the file was truncated, restore it from a backup"));
    }
    part->table = std::make_unique<ChunkTable>(part->region->path(), part->region->base(),
                                               part->number, chunk_shift_, state_.uuid);
    const ChunkTable::Found found{.chunks = chunks,
                                  .chunks_prepared = superblocks[part->number].chunks_min,
                                  .epoch_floor = superblocks[0].epoch_floor,
                                  .copies_agree = state_.clean && mended == nullptr,
                                  .after_power_cut = unordered};
    if (mended != nullptr) part->table->Repair(found, mended);
    Status s = part->table->Scan(found, [&](uint32_t index) { part->free.Add(index); });
    if (!s.ok()) return s;
    unmended_ |= !part->table->is_mended();
    part->chunks.store(chunks, std::memory_order_release);
    bytes_[part->number].store(uint64_t{chunks} << chunk_shift_, std::memory_order_release);
    free_chunks_.fetch_add(part->free.count(), std::memory_order_relaxed);
    part->claimed.store(
        static_cast<uint32_t>(ClaimableChunks(chunk_shift_, chunks)) - part->free.count(),
        std::memory_order_relaxed);
    epoch_max = std::max(epoch_max, part->table->EpochMax(0, chunks));
  }
  AskForAllRoom();
  MutexLock lock(&superblock_mu_);
  superblock_ = superblocks[0];
  RaiseEpochFloor(superblock_.epoch_floor);
  if (epoch_max > kEpochMax) {
    return Status::Corruption(Concat(parts_[0]->region->path(), ": expected epochs of at most ",
                                     kEpochMax, ", found ", epoch_max,
                                     "; the superblock or a chunk descriptor is damaged"));
  }
  if (power_cut) RaiseEpochFloor(epoch_max + kLostEpochs);  // keeps I5, once Mend has written it
  return Status::OK();
}

// A crash after the first copies of an update leaves second copies that are old or torn: they must
// be able to stand in for the first ones before those are written again.
void Pool::MendSecondCopies() {
  for (uint32_t i = 0; i < part_count(); i++) {
    Superblock first;
    std::memcpy(&first, bases_[i] + kSuperblockOffsets[0], sizeof(first));
    char* const second = bases_[i] + kSuperblockOffsets[1];
    if (std::memcmp(second, &first, sizeof(first)) == 0 ||
        first.checksum != SuperblockChecksum(first))
      continue;
    superblock_persister_->Copy(second, &first, sizeof(first));
    superblock_persister_->Fence();
  }
}

void Pool::MakeGate(const PoolOptions& options) {
  // The weakest part decides.
  medium_report_ = parts_[0]->region->Detect();
  for (const std::unique_ptr<Part>& part : parts_) {
    MediumReport report = part->region->Detect();
    const bool survives = medium_report_.survives_power && report.survives_power;
    if (IsFiner(medium_report_.kind, report.kind)) medium_report_ = std::move(report);
    medium_report_.survives_power = survives;
  }
  if (options.medium != MediumKind::kAuto) {
    if (IsFiner(options.medium, medium_report_.kind)) {
      medium_report_.survives_power = false;
      medium_report_.description += options.medium == MediumKind::kByte
                                        ? "; emulating byte persistence"
                                        : "; emulating cache-line persistence";
    }
    if (options.medium == MediumKind::kVolatile) medium_report_.survives_power = false;
    medium_report_.kind = options.medium;
  }
  gate_ = std::make_unique<Gate>(medium_report_.kind, options.media_profile, options.hook,
                                 options.count_reads);
  for (const std::unique_ptr<Part>& part : parts_) TellMapped(*part);
  superblock_persister_ = std::make_unique<Persister>(gate_.get(), WriteCause::kCatalog);
  deferred_persister_ = std::make_unique<Persister>(gate_.get(), WriteCause::kGc);
}

Status Pool::UpdateSuperblocks(const std::function<void(Superblock*)>& change) {
  MutexLock lock(&superblock_mu_);
  return UpdateSuperblocksLocked(change);
}

// What a crash leaves after each step (PoolCrash.ASuperblockUpdateCutAnywhereIsOldOrNew):
//   second copies mended, everything else synced  the old state
//   first copies of parts n-1 to 1, fence, sync   the old state; those parts are a generation
//                                                 ahead, or torn and so not
//   first copy of part 0, fence, sync             the new state, or torn: the old one from its
//                                                 second copy
//   second copies, fence, sync                    the new state
Status Pool::UpdateSuperblocksLocked(const std::function<void(Superblock*)>& change) {
  MendSecondCopies();  // keeps S1
  // acquire pairs with GrowPart: the files have the chunks that are named here. Before the sync, so
  // that what growth said of them in the chunk tables is durable on page media, too.
  std::array<uint32_t, kPoolPartsMax> chunks{};
  for (uint32_t i = 0; i < part_count(); i++)
    chunks[i] = parts_[i]->chunks.load(std::memory_order_acquire);
  Status s = SyncParts();
  if (!s.ok()) {
    MarkSyncFailed();
    return s;
  }
  Superblock next = superblock_;
  change(&next);
  next.generation++;
  next.epoch_floor = epoch_floor_.load(std::memory_order_relaxed);
  for (int copy = 0; s.ok() && copy < 2; copy++) {
    for (uint32_t i = part_count(); s.ok() && i-- > 0;) {
      Superblock own = next;
      own.part = i;
      own.file_id = parts_[i]->file_id;
      // The file has the chunks that are named here; it loses chunks only once they are not.
      own.chunks_min = chunks[i];
      own.checksum = SuperblockChecksum(own);
      superblock_persister_->Copy(bases_[i] + kSuperblockOffsets[copy], &own, sizeof(own));
      superblock_persister_->Fence();
      if (i == 0 || copy == 1) continue;
      s = SyncParts();  // keeps S2
    }
    if (s.ok()) s = SyncParts();  // keeps S1
  }
  if (s.ok()) {
    superblock_ = next;
  } else {
    MarkSyncFailed();
  }
  return s;
}

// In this boot, in these files.
void Pool::SayWhere(Superblock* superblock) {
  superblock->boot_id = BootId();
  for (const std::unique_ptr<Part>& part : parts_) part->file_id = part->region->file_id();
}

Status Pool::MarkOpen() {
  MutexLock lock(&superblock_mu_);
  return UpdateSuperblocksLocked([this](Superblock* superblock) LAMELLA_REQUIRES(superblock_mu_) {
    superblock->clean = 0;
    superblock->sync_failed = 0;  // all that recovery found and made is synced by now
    SayWhere(superblock);
  });
}

Status Pool::MarkClean() {
  for (const std::unique_ptr<Part>& part : parts_) {
    Status s = GiveBackEnd(part.get(), Slack::kForOpening);
    if (!s.ok()) return s;
  }
  MutexLock lock(&superblock_mu_);
  return UpdateSuperblocksLocked([this](Superblock* superblock) LAMELLA_REQUIRES(superblock_mu_) {
    superblock->clean = 1;
    SayWhere(superblock);
  });
}

Status Pool::SwitchCatalog(uint32_t chunk_index) {
  Status s = UpdateSuperblocks(
      [chunk_index](Superblock* superblock) { superblock->catalog_chunk = chunk_index; });
  if (s.ok()) state_.catalog_chunk = chunk_index;
  return s;
}

Status Pool::Sync() {
  Status s = SyncParts();
  if (!s.ok()) {
    MutexLock lock(&superblock_mu_);
    MarkSyncFailed();
  }
  return s;
}

void Pool::NoteSynced(uint64_t sequence) {
  if (!LosesUnsynced()) return;
  const MutexLock lock(&superblock_mu_);
  if (sequence > SyncedThrough())
    superblock_persister_->Store(At<PmWord>(PmPtr(0, kSyncedOffset)), EncodeSynced(sequence));
}

uint64_t Pool::SyncedThrough() const {
  return DecodeSynced(At<PmWord>(PmPtr(0, kSyncedOffset))->load(std::memory_order_relaxed));
}

// Where the process ends after this, the next one must know. The mark needs no sync: a power cut
// says as much by itself.
void Pool::MarkSyncFailed() {
  Superblock first;
  std::memcpy(&first, bases_[0] + kSuperblockOffsets[0], sizeof(first));
  if (first.checksum != SuperblockChecksum(first)) return;
  first.clean = 0;
  first.sync_failed = 1;
  first.checksum = SuperblockChecksum(first);
  superblock_persister_->Copy(bases_[0] + kSuperblockOffsets[0], &first, sizeof(first));
  superblock_persister_->Fence();
}

Status Pool::SyncParts() {
  if (gate_->medium() != MediumKind::kPage) return Status::OK();
  for (const std::unique_ptr<Part>& part : parts_) {
    Status s = part->region->Sync(gate_.get());
    if (!s.ok()) return s;
  }
  return Status::OK();
}

void Pool::Check(std::vector<std::string>* problems) const {
  for (const std::unique_ptr<Part>& part : parts_) {
    for (uint64_t offset : kSuperblockOffsets) {
      Superblock copy;
      std::memcpy(&copy, part->region->base() + offset, sizeof(copy));
      if (copy.magic == kSuperblockMagic && copy.checksum == SuperblockChecksum(copy)) continue;
      problems->push_back(Concat(part->region->path(), ": superblock copy at offset ", offset,
                                 ": expected the checksum ", Hex{SuperblockChecksum(copy)},
                                 ", found ", Hex{copy.checksum}, "; the other copy is used"));
    }
    for (uint32_t index = 0; index < chunk_count(part->number); index++) {
      Status s = part->table->Check(index);
      if (!s.ok()) problems->push_back(s.ToString());
    }
  }
}

Status Pool::Remove(const std::vector<std::string>& part_paths, OsHook* os) {
  // all of them, or nothing is removed
  std::vector<std::unique_ptr<Region>> held(part_paths.size());
  for (size_t i = 0; i < part_paths.size(); i++) {
    Status s = Region::Hold(part_paths[i], &held[i], os);
    if (!s.ok() && !s.IsNotFound()) return s;
  }
  // The first part goes last: until then what is left is still a pool, and Remove can be called
  // again.
  for (size_t i = part_paths.size(); i-- > 0;) {
    Status s = Region::Remove(part_paths[i] + kWorkingSuffix, os);
    if (s.ok()) s = held[i] != nullptr ? held[i]->Unlink() : Region::Remove(part_paths[i], os);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

}  // namespace lamella
