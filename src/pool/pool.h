// Pool is a set of chunks on one or more Regions (parts, one per NUMA node), with a superblock and
// a chunk table each.
//
// Layout of a part: chunk 0 holds the two superblock copies (superblock.h); chunks 1 and 2 and the
// first chunks of each later group hold chunk tables and their mirrors (chunk_table.h). Everything
// else is claimable. The file's size says how many chunks there are.
// Owners that fill chunks one after the other claim extents: runs whose length grows with the part,
// so that a small store is small and a large one has few of them.
//
// I1: a chunk is free or has exactly one owner; the descriptor's state word says which, and changes
//     by one publish.
// I2: a freed chunk is not claimed again while a pin of readers() or of holders() that could reach
//     it is live (FreeDeferred), and, on page media, before a Sync that covers what made it free.
// I3: a chunk's epoch goes up at each claim and is never reused within the chunk: bytes of an
//     earlier life do not validate.
// I4: a superblock change is in one copy durably before the other copy is touched (superblock.h).
// I5: after a power cut every later claim takes a higher epoch than any claim whose descriptor the
//     cut may have taken back.
// I6: a part's file loses its end only after the superblocks say that it may, and that every later
//     claim takes a higher epoch than any that the chunks there had: I3 holds although their
//     descriptors may go with them (pool_shrink.cc).
// I7: what an unclean open finds is durable before anything is stored on top of it: a killed
//     process leaves what it did not flush to be read, and a power cut after the recovery would
//     take it.
// I8: after each deferred free comes a Collect that sees it, or the listener of OnDeferred has been
//     told since the last one began: whoever lets go of something last, the store is not left idle
//     with what it freed.
// Threads: Claim, Free*, Provision, GiveBack, Sync and the superblock calls from any; reads of
// descriptors from any. Lifetime: every Persister of its gate and every pin of its epochs is gone
// before the Pool is.
#ifndef LAMELLA_POOL_POOL_H_
#define LAMELLA_POOL_POOL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/annotations.h"
#include "base/mutex.h"
#include "base/numa.h"
#include "lamella/options.h"
#include "lamella/stats.h"
#include "lamella/status.h"
#include "pmem/gate.h"
#include "pmem/region.h"
#include "pool/chunk_table.h"
#include "pool/epoch.h"
#include "pool/pm_ptr.h"
#include "pool/superblock.h"

namespace lamella {

/// An extent is at most this long (or one chunk, where that is longer), and below it 1/64 of the
/// part.
inline constexpr uint64_t kExtentBytesMax = 2ull << 20;
/// Extents of a part that are kept for deletes, and after those for the copies that gc makes to
/// give space back. In between, the reserve is 1/64 of the part.
inline constexpr uint32_t kReserveExtentsMin = 6;
inline constexpr uint32_t kReserveExtentsMax = 16;
/// Of a part's limit, at least: superblock, table, mirror, reserve, and seven for data.
inline constexpr uint32_t kPartChunksMin = 16;

/// Who claims chunks, by how much of a part it leaves to those after it.
enum class Claimant : uint8_t {
  kWriter,   // leaves the reserve
  kReclaim,  // deletes, what a flush and gc copy: leaves what the index takes (Pool::KeepForIndex)
  kIndex     // the catalog and what it names: leaves nothing, for without it nothing else goes on
};

/// What the superblock says beside sizes; see docs/FORMAT.md for its bytes.
struct PoolState {
  EngineKind engine = EngineKind::kListDb;
  bool clean = false;  // closed in order; cleared by the first MarkOpen
  // written in this boot of the machine, these files, and no sync failed since (else as after a
  // power cut)
  bool same_boot = true;
  // not clean, another boot, a page medium: what was not synced reached it in any order
  bool pages_lost = false;
  uint32_t catalog_chunk = 0;  // of part 0; 0: none yet
  uint64_t engine_flags = 0;   // fixed at creation, for the engine
  std::array<uint8_t, 16> uuid{};
};

struct PoolOptions {
  std::vector<std::string> part_paths;  // the files, pool.0 first
  uint64_t chunk_bytes = 64ull << 10;
  uint64_t pool_bytes_max = 0;
  MediumKind medium = MediumKind::kAuto;
  MediaProfile media_profile;
  bool count_reads = false;                 // Gate::ReadBytes
  EngineKind engine = EngineKind::kListDb;  // Create only
  uint64_t engine_flags = 0;                // Create only
  /// Create only: in place of one that no store has. Of a store that lost its pool.
  std::optional<std::array<uint8_t, 16>> uuid;
  PersistHook* hook = nullptr;
  OsHook* os = nullptr;
  /// Open only, for repair: a chunk of which both descriptors are damaged is no Corruption, but
  /// mended, or ChunkKind::kLost (see ChunkTable::Repair). What was found is said here.
  std::vector<std::string>* mended = nullptr;
};

class Pool {
 public:
  /// Makes the parts' files; the first part appears last, so that what was interrupted is no pool
  /// and is made anew. On failure what was made is removed. InvalidArgument, NoSpace, IOError; Busy
  /// while another creation is under way.
  static Status Create(const PoolOptions& options, std::unique_ptr<Pool>* pool);
  /// Maps the parts and verifies superblocks (magic, format, uuid, part numbers, sizes against
  /// files) and that descriptors are possible. NotFound, Busy (open already), Corruption,
  /// NotSupported (newer format), IOError. The files are locked until the Pool goes, and their
  /// names are durable. Changes nothing on the medium: what a crash left is read as Mend will have
  /// it. REQUIRES: Mend, before anything is changed in it.
  static Status Open(const PoolOptions& options, std::unique_ptr<Pool>* pool);
  /// Makes durable what a killed process left in caches (I7), and mends what Open found; OK and
  /// nothing where there is nothing. One thread, before all others. It may be cut by another crash
  /// anywhere. IOError.
  Status Mend();
  /// Removes the files of a pool, whatever they hold, and what an interrupted Create left. OK where
  /// there are none; Busy, and nothing is removed, where one is open.
  static Status Remove(const std::vector<std::string>& part_paths, OsHook* os = nullptr);
  ~Pool();  // runs deferred frees; does not mark clean
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Gate* gate() const { return gate_.get(); }
  /// What was not synced may be gone after a power cut, the kernel having written pages in any
  /// order.
  bool LosesUnsynced() const { return gate_->medium() == MediumKind::kPage; }
  /// Every record up to this number is synced. Any thread; nothing on other than page media.
  void NoteSynced(uint64_t sequence);
  /// The last number of which that is known, also from earlier sessions; more may be synced, for a
  /// note is durable with the next sync (S4). 0: none.
  uint64_t SyncedThrough() const;
  /// This open follows a power cut, and some of it is gone.
  bool LostUnsynced() const { return LosesUnsynced() && !state_.clean && !state_.same_boot; }
  uint32_t part_count() const { return static_cast<uint32_t>(parts_.size()); }
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  const MediumReport& medium_report() const { return medium_report_; }

  char* Address(PmPtr p) const { return bases_[p.part()] + p.offset(); }
  template <class T>
  T* At(PmPtr p) const {
    return reinterpret_cast<T*>(Address(p));
  }
  /// REQUIRES: `address` lies in `part`.
  PmPtr PointerTo(uint32_t part, const void* address) const {
    return PmPtr(part, static_cast<uint64_t>(static_cast<const char*>(address) - bases_[part]));
  }
  /// True if [p, p+n) lies within the mapped pool: for pointers read from bytes that may be
  /// damaged.
  bool Contains(PmPtr p, uint64_t n) const {
    if (p.part() >= kPoolPartsMax) return false;
    // what was counted is mapped
    const uint64_t bytes = bytes_[p.part()].load(std::memory_order_acquire);
    return p.offset() <= bytes && n <= bytes - p.offset();
  }
  char* ChunkAddress(const ChunkRef& c) const {
    return bases_[c.part] + uint64_t{c.index} * chunk_bytes_;
  }
  PmPtr ChunkStart(const ChunkRef& c) const {
    return PmPtr(c.part, uint64_t{c.index} * chunk_bytes_);
  }
  uint32_t ChunkIndex(PmPtr p) const { return static_cast<uint32_t>(p.offset() >> chunk_shift_); }

  /// Claims a chunk (or `run_chunks` adjacent ones) of `part` for an owner: one publish. NoSpace
  /// when the part may not grow, or cannot; InvalidArgument for a run of more than
  /// run_chunks_max().
  /// The last chunks of a part are given only to those for whom they are kept.
  Status Claim(uint32_t part, ChunkKind kind, uint32_t owner, uint64_t ordinal, uint32_t run_chunks,
               Claimant claimant, Persister* persister, ChunkRef* chunk) {
    return ClaimExtent(part, kind, owner, ordinal, run_chunks, run_chunks, claimant, persister,
                       chunk);
  }
  /// The same of a run of at least `needed` chunks, and of `wanted` where there is such a row or
  /// the part may grow.
  Status ClaimExtent(uint32_t part, ChunkKind kind, uint32_t owner, uint64_t ordinal,
                     uint32_t needed, uint32_t wanted, Claimant claimant, Persister* persister,
                     ChunkRef* chunk);
  /// Grows the first `parts` parts, if need be, until they have so many free chunks together,
  /// claimed by anybody; of which those count that lie in rows of `run`. NoSpace: they may not
  /// grow, or cannot, so far.
  Status GrowUntilFree(uint32_t parts, uint64_t chunks, uint32_t run = 1);
  /// Keeps so many chunks of the first part for the next claim of the catalog, and one for the
  /// heads that it names.
  void KeepForIndex(uint32_t catalog_chunks) {
    kept_for_index_.store(catalog_chunks + 1, std::memory_order_relaxed);
  }
  /// A close leaves each part so many free chunks, if it has them: for a next session in which it
  /// may not grow, or cannot.
  void LeaveAtClose(uint32_t chunks) { left_at_close_.store(chunks, std::memory_order_relaxed); }
  /// GiveBack leaves each part so many bytes free, as they are then: of copies that writes were
  /// promised room for. The file system may not give it again. `bytes` outlives it.
  void LeavePromised(const std::atomic<uint64_t>* bytes) { promised_bytes_ = bytes; }
  /// Chunks of an extent of the part, as it is now.
  uint32_t extent_chunks(uint32_t part) const;
  /// Frees now. REQUIRES: nothing can reach it (a failed recovery's chunk, say).
  void Free(const ChunkRef& chunk, Persister* persister);
  /// For readers(): what runs once no pin of readers() or holders() is left that was live when it
  /// was retired. A reader may turn its pin into a holder's (a PinnedValue) before it lets go: so
  /// holders are waited for after the readers.
  EpochDomain::Retirement AfterAllPins(std::function<void()> callback);
  /// Frees once no pin of readers() or holders() is left that was live at this call. On page media
  /// the caller has synced before.
  void FreeDeferred(const ChunkRef& chunk);
  /// Runs deferred frees that are due. Returns how many chunks still wait.
  size_t CollectDeferred();
  /// The same, and waits for those that another thread has begun to run. REQUIRES: the caller is no
  /// such free.
  size_t AwaitDeferred();
  /// Has `listener` called when a free was deferred that no Collect may see yet (I8), in the thread
  /// that deferred it, whatever locks it has: it must be short, not throw, and not call the pool.
  /// Null: nobody, from the return on.
  void OnDeferred(std::function<void()> listener) LAMELLA_EXCLUDES(listener_mu_);

  uint32_t run_chunks_max() const { return RunChunksMax(chunk_shift_); }

  /// The part on the NUMA node that the caller runs on: part i is taken to lie on node i.
  uint32_t NearestPart() const { return part_count() == 1 ? 0 : CurrentNumaNode() % part_count(); }
  /// REQUIRES: the chunk is within the part.
  ChunkDescriptor* Descriptor(uint32_t part, uint32_t index) const {
    if (unmended_) [[unlikely]]
      return UnmendedDescriptor(part, index);
    return DescriptorAt(bases_[part], chunk_shift_, index);
  }
  ChunkDescriptor* DescriptorOf(PmPtr p) const { return Descriptor(p.part(), ChunkIndex(p)); }
  /// Decodes a descriptor; false where the chunk is free, a table, or beyond the part.
  bool Describe(uint32_t part, uint32_t index, ChunkRef* chunk) const;
  /// Calls visit for every owned chunk (first of run only), part by part, index ascending.
  void ForEachChunk(const std::function<void(const ChunkRef&)>& visit) const;
  uint32_t chunk_count(uint32_t part) const;

  /// Keeps some free, faulted-in extents per part ready, more for a larger part, and grows the pool
  /// within its limit. For a background thread.
  Status Provision();
  /// True when Provision has work to do.
  bool NeedsProvision() const;
  /// Gives free chunks at the parts' ends back to the file system, where that is much and leaves
  /// enough for the pool not to grow at once again. For a background thread of a store with nothing
  /// better to do. Fails only where the superblocks cannot be written; a file that cannot be
  /// shortened stays as it is, and is not tried again before it has grown.
  Status GiveBack();
  /// True when GiveBack has work to do.
  bool CanGiveBack() const;
  /// True where a part would give back its last quarter (or more) but for a few chunks in it: those
  /// that IsInTheWay names until the next call, and that whoever can move should.
  bool IsHeldUp();
  bool IsInTheWay(const ChunkRef& chunk) const;
  uint64_t free_chunks() const { return free_chunks_.load(std::memory_order_relaxed); }
  /// Free chunks plus what growth may add, under pool_bytes_max and as the file systems and the
  /// process's limits had room at the last claim.
  uint64_t chunks_available() const;
  uint64_t chunks_available(uint32_t part) const;
  /// Whether the file systems may end it before pool_bytes_max does, as of the last claim.
  bool MayStayBelowLimit() const;
  /// Those of chunks_available that lie in rows of `run` adjacent ones; of more than `most` nothing
  /// is said.
  uint64_t chunks_available_in_rows(uint32_t part, uint32_t run, uint64_t most) const;
  /// Those of them that only Claimant::kIndex gets.
  uint64_t chunks_kept_for_index(uint32_t part) const {
    return part == 0 ? kept_for_index_.load(std::memory_order_relaxed) : 0;
  }
  uint64_t pool_bytes() const;
  uint64_t used_bytes() const;

  const PoolState& state() const { return state_; }
  /// The following write the superblocks of all parts, after a Sync of everything else. Durable on
  /// return. Says that the store is open, in this boot. To be called once recovery is complete and
  /// before the first new write: until then a crash leaves the next Open to see what this one saw.
  Status MarkOpen();
  /// Says that the store was closed in order. Gives back all that the next session does not need at
  /// once.
  Status MarkClean();
  Status SwitchCatalog(uint32_t chunk_index);

  /// Verifies both superblock copies of every part and every descriptor of a quiet pool; one line
  /// for each problem.
  void Check(std::vector<std::string>* problems) const;

  /// msync of all parts on page media; OK and nothing elsewhere. A failure is remembered in the
  /// superblock: the next open takes what it finds for what a power cut leaves, and writes all of
  /// it again.
  Status Sync();

  /// Readers that hold pointers for the length of one call.
  EpochDomain* readers() { return &readers_; }
  /// Iterators and PinnedValues: they may hold for long, and only chunks wait for them.
  EpochDomain* holders() { return &holders_; }

 private:
  struct Part;

  Pool();
  static Status CreateParts(const PoolOptions& options, Pool* pool);
  static Status CreateFile(const PoolOptions& options, Pool* pool, uint64_t bytes);
  Status OpenParts(const PoolOptions& options);
  Status OpenPart(const PoolOptions& options, uint32_t part, Superblock* superblock);
  Status CheckSiblings(const std::vector<Superblock>& superblocks) const;
  Status ScanParts(const std::vector<Superblock>& superblocks, std::vector<std::string>* mended);
  Status SyncParts();
  Status WriteBackLeft() LAMELLA_REQUIRES(superblock_mu_);
  void WriteBackSuperblocks() LAMELLA_REQUIRES(superblock_mu_);
  ChunkDescriptor* UnmendedDescriptor(uint32_t part, uint32_t index) const;
  void MarkSyncFailed() LAMELLA_REQUIRES(superblock_mu_);
  void MendSecondCopies() LAMELLA_REQUIRES(superblock_mu_);
  void MakeGate(const PoolOptions& options);
  void TellMapped(const Part& part) const;
  Status UpdateSuperblocks(const std::function<void(Superblock*)>& change);
  void SayWhere(Superblock* superblock) LAMELLA_REQUIRES(superblock_mu_);
  Status UpdateSuperblocksLocked(const std::function<void(Superblock*)>& change)
      LAMELLA_REQUIRES(superblock_mu_);
  uint32_t ExtentChunks(uint32_t chunks) const;
  uint32_t RunToTake(const Part& part, uint32_t needed, uint32_t wanted, uint32_t reserve) const;
  Status GrowForClaim(Part* part, uint32_t run_chunks, uint32_t reserve);
  Status GrowPart(Part* part, uint32_t chunks_needed, uint32_t chunks_wanted);
  void AddFree(Part* part, uint32_t from, uint32_t to) const;
  struct Readiness;
  Readiness Look(Part* part) const;
  uint32_t Reserve(uint32_t chunks) const;
  uint32_t KeptFrom(Claimant claimant, const Part& part) const;
  uint32_t ReadyExtents(uint32_t chunks) const;
  enum class Slack : uint8_t { kForGrowth, kForOpening };
  uint32_t FreeEnd(const Part& part) const;
  struct Ending;
  uint32_t PromisedChunks(uint32_t chunks) const;
  Ending LookAtEnd(const Part& part, Slack slack) const;
  Status GiveBackEnd(Part* part, Slack slack);
  void RaiseEpochFloor(uint32_t floor);
  bool MayGrow(const Part& part) const;
  void AskForRoom(Part* part) const;
  void AskForAllRoom();
  uint64_t FreeOnceGrown(const Part& part) const;
  bool IsMostlyHoles(const Part& part, uint32_t free) const;
  uint64_t RowsWithin(uint32_t from, uint32_t to, uint32_t run, uint32_t rows_max) const;
  void FreeNow(const ChunkRef& chunk);

  // constant after opening, as all up to gate_
  std::array<char*, kPoolPartsMax> bases_{};
  std::array<std::atomic<uint64_t>, kPoolPartsMax> bytes_{};  // of each part's chunks
  uint64_t chunk_bytes_ = 0;
  uint32_t chunk_shift_ = 0;
  uint32_t chunks_max_ = 0;  // of a part
  bool limited_ = false;     // by pool_bytes_max, not only by what can be addressed
  bool unmended_ = false;    // between Open and Mend, as the next; one thread
  bool opened_ = false;
  // Of claims. It only goes up, before the chunks that it goes up for can be claimed: what hands
  // them out orders it.
  std::atomic<uint32_t> epoch_floor_{1};
  std::atomic<uint32_t> kept_for_index_{2};
  std::atomic<uint32_t> left_at_close_{0};
  const std::atomic<uint64_t>* promised_bytes_ = nullptr;  // set before anything is promised
  std::vector<std::unique_ptr<Part>> parts_;
  MediumReport medium_report_;
  std::unique_ptr<Gate> gate_;

  PoolState state_;  // catalog_chunk changes under the engine's catalog lock, the rest never
  Mutex superblock_mu_;
  Superblock superblock_ LAMELLA_GUARDED_BY(superblock_mu_) = {};  // part 0's, as last written
  std::unique_ptr<Persister> superblock_persister_ LAMELLA_PT_GUARDED_BY(superblock_mu_);
  Mutex deferred_mu_;
  std::unique_ptr<Persister> deferred_persister_ LAMELLA_PT_GUARDED_BY(deferred_mu_);

  std::atomic<uint64_t> free_chunks_{0};
  std::atomic<uint64_t> deferred_chunks_{0};  // a figure; guards nothing
  // The listener was told, and no Collect has begun since: it is on its way.
  std::atomic<bool> is_told_{false};
  Mutex listener_mu_;
  std::function<void()> listener_ LAMELLA_GUARDED_BY(listener_mu_);
  EpochDomain readers_;
  EpochDomain holders_;
};

}  // namespace lamella

#endif  // LAMELLA_POOL_POOL_H_
