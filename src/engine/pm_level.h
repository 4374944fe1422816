// PmLevel is a level that is one skiplist through records in the pool, as L1 of ListDB is: what
// zipper compaction merges into it, what is taken out of it, and the caches that follow it. Where
// older versions may lie in levels below it, its deletes stay: nothing is swept out of it.
//
// I1: a delete stays until no older version lies after it, and no iterator is left that sees a
//     table apart from the level though it is merged, or stands on a version that was unlinked
//     after it: walking backwards, it would miss the delete and show what it deleted.
// I2: the caches never name what is not linked, for a search that begins after the unlinking
//     (SecondChanceCache I2, LookupCache I3).
// I3: a record is marked obsolete only when its unlinking is durable.
// Threads: one that changes the level (all that is not const, but as said there); searches and
// counts from any, pinned in the pool's readers.
#ifndef LAMELLA_ENGINE_PM_LEVEL_H_
#define LAMELLA_ENGINE_PM_LEVEL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/dead_bytes.h"
#include "engine/pinned_tombstones.h"
#include "engine/snapshot_list.h"
#include "index/lookup_cache.h"
#include "index/pm_skiplist.h"
#include "index/second_chance_cache.h"
#include "index/zipper.h"

namespace lamella {

class PmLevel final : private ZipperObserver {
 public:
  /// What it works with; all outlive it.
  struct Surroundings {
    Pool* pool = nullptr;
    const SnapshotList* snapshots = nullptr;
    DeadBytes* dead = nullptr;
    // names the newest versions of this level, too; null: there is none
    LookupCache* lookup_cache = nullptr;
    bool is_last = true;  // no older version of a key lies in a level below it
    MemoryAccount* memory = nullptr;
    uint64_t second_chance_bytes_max = 0;
  };
  explicit PmLevel(const Surroundings& around);
  ~PmLevel() override;
  PmLevel(const PmLevel&) = delete;
  PmLevel& operator=(const PmLevel&) = delete;

  // Opening: before anything else.
  struct Opened {
    SkipListHeads* heads = nullptr;
    bool braided = false;
    uint64_t count = 0;
    uint64_t live_bytes = 0;
    uint64_t merged_sequence = 0;  // the newest of the tables that were merged into it
  };
  void Open(const Opened& opened);
  /// It has no element yet, and the cache will hold all of them, while it has room. Throws
  /// std::bad_alloc.
  void BeginEmpty() { second_chance_.BeginWithAll(); }
  /// Fills the caches from one walk, after an open; a lookup cache only with its generation as of
  /// before it was known that no other table has a newer version of any key (LookupCache I2).
  void Warm(std::optional<uint64_t> lookup_generation);
  /// Keys of the lowest layer that has few enough: about evenly spread over the level's.
  std::vector<std::string> SampleKeys() const;

  // Searches. Any thread, pinned.
  /// The newest version at or below the target; null where there is none. Damaged where damage
  /// stopped the search.
  PlacedVersion Find(const InternalKey& target, bool verify, HopTally* hops) const;
  /// The last element before the key; null where there is none.
  PmPtr FindBefore(const InternalKey& key) const;
  // unknown: damage may have led the search astray
  enum class Linked : uint8_t { kLinked, kNotLinked, kUnknown };
  /// Whether the record is linked here, and after which element.
  Linked FindLinked(PmPtr place, PmPtr* before) const;
  /// What the places found for records say.
  Linked LinkedBy(const Zipper::Place& found) const;
  /// Finds the places of many at once. Nothing may change in the level meanwhile.
  void FindPlaces(std::span<Zipper::Place> places);
  /// Whether a delete serves for nothing, though no mark says so: with nothing older after it, or
  /// not linked here.
  bool IsIdleDelete(PmPtr place) const;

  // Merging.
  /// What merges a table's elements in. One at a time; it goes by the snapshots that there are now.
  /// Heads of the cache are cut by `prefixes` from here on.
  std::shared_ptr<Zipper> NewMerge(Persister* persister, bool verify,
                                   std::shared_ptr<const KeyPrefixes> prefixes);
  /// To be retired, once the table is no longer seen apart from the level, when all are gone who
  /// may see it so: its deletes may go then (I1).
  EpochDomain::Retirement Settling(uint64_t last_sequence);
  /// A merge is over: live_bytes is that of a whole level again.
  void NoteMerged();

  // Taking out. Changes are flushed, and marked by MarkDropped.
  enum class Drop : uint8_t { kDropped, kNeeded, kLater };  // later: once some reader is gone
  /// From here on it goes by the snapshots that there are now.
  void SampleSnapshots() { sample_ = around_.snapshots->Now(); }
  /// Takes a linked element out if it is an old version that nobody needs, or a delete with nothing
  /// after it. `before` is its predecessor. Throws std::bad_alloc, and nothing is changed.
  Drop DropIfDead(PmPtr before, PmPtr place);
  /// Marks what was dropped, durably but for the last marks, which are hints: a delete may be found
  /// again, a put has a newer version.
  Status MarkDropped();
  /// Lets go of the deletes that lost what they hid, once no iterator is left that may stand on it.
  void UnpinTombstones();
  /// Walks [begin, end), or the first `elements_max` of it, and drops what nobody needs any more.
  /// Damage ends it. `rest` is where it stopped short, else empty.
  Status Sweep(std::string_view begin, std::string_view end, uint64_t elements_max,
               std::string* rest);
  /// Puts durable copies in the places of their originals (Zipper::Replace), which the caches then
  /// no longer name. Where it fails nothing is changed.
  Status Relocate(std::span<const Zipper::Move> moves);
  /// Deletes may go that could not before; TakeSettledNews tells it once.
  bool HasSettledNews() const { return settled_news_->load(std::memory_order_acquire); }
  bool TakeSettledNews() { return settled_news_->exchange(false); }

  // Counts. Any thread.
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  /// Keys and values of its puts.
  uint64_t live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  /// The same as of between merges: one links puts before the deletes of others.
  uint64_t settled_live_bytes() const {
    return settled_live_bytes_.load(std::memory_order_relaxed);
  }
  /// Versions that were left for snapshots since ForgetKeptVersions.
  uint64_t kept_versions() const { return kept_versions_.load(std::memory_order_relaxed); }
  void ForgetKeptVersions() { kept_versions_.store(0, std::memory_order_relaxed); }

  const PmSkipList* list() const { return list_.get(); }
  /// Of all that takes out and moves; of the thread that changes the level. REQUIRES: it is a last
  /// level.
  Persister* persister() { return &*persister_; }
  SecondChanceCache* second_chance() { return &second_chance_; }
  const SecondChanceCache* second_chance() const { return &second_chance_; }

 private:
  bool Needed(uint64_t older, uint64_t newer) const override;
  void OnLinked(Record* record, PmPtr place) override;
  void OnObsolete(std::span<const Obsolete> records) override;
  Near Nearby(const InternalKey& key, uint32_t height_min, uint32_t lane) const override;

  bool has_lookup_cache() const { return lookup_cache_ != nullptr && lookup_cache_->enabled(); }
  PmPtr StartOf(const InternalKey& target) const;
  bool HasOlderAfter(PmPtr place) const;
  void Forget(const Record* record, PmPtr place);
  void AddLive(const Record* record);
  void SubtractLive(const Record* record);

  const Surroundings around_;
  Pool* const pool_;
  LookupCache* const lookup_cache_;
  SecondChanceCache second_chance_;
  std::unique_ptr<PmSkipList> list_;  // constant after Open
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> live_bytes_{0};
  std::atomic<uint64_t> settled_live_bytes_{0};
  mutable std::atomic<uint64_t> kept_versions_{0};

  // Of the thread that changes the level.
  std::optional<Persister> persister_;  // of a last level; the others may outlive the pool's gate
  SnapshotList::Sample sample_;
  std::vector<PmPtr> dropped_puts_;     // unlinked and not yet marked
  std::vector<PmPtr> dropped_deletes_;  // the same
  // Merged tables up to here are seen apart from the level by nobody (I1).
  const std::shared_ptr<std::atomic<uint64_t>> settled_sequence_;
  const std::shared_ptr<PinnedTombstones> pinned_tombstones_;
  const std::shared_ptr<std::atomic<bool>> settled_news_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_PM_LEVEL_H_
