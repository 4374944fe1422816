// LevelTable is an immutable table of an engine with levels (LeveledEngine): sorted records, made
// once, found by key, walked in order. What it is made of is its design's.
// I1: a table keeps the regions that it refers to (TableRegion) as long as it lives.
// I2: what the iterators of a table in the pool show, keys and values, lies there: views of it stay
//     as long as the table does. Those of a table in a file stay until the iterator moves.
// Threads: any.
#ifndef LAMELLA_ENGINE_LEVEL_TABLE_H_
#define LAMELLA_ENGINE_LEVEL_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/table_levels.h"
#include "engine/table_region.h"

namespace lamella {

/// A region that a table refers to, and how many of its bytes are the table's.
struct RegionShare {
  uint64_t region = 0;
  uint64_t bytes = 0;
  bool operator==(const RegionShare&) const = default;
};

/// What TableInfo::place is, of the tables of a LeveledEngine: where it lies, and what is in it.
struct LevelPlace {
  uint64_t live_bytes = 0;  // keys and values of puts that no version in the table is newer than
  uint64_t deletes = 0;
  uint64_t kept_versions = 0;        // that only snapshots still see
  uint64_t kept_bytes = 0;           // of them
  uint64_t kept_until = 0;           // none is seen any more once no snapshot is older than this
  std::vector<RegionShare> regions;  // none of a table that lies in a file
  std::string design;                // what its design adds

  /// Counts a record of `record_bytes`, before which a table has the version numbered `newer` of
  /// the same key (0: none).
  void Count(const InternalKey& key, std::string_view value, uint64_t newer, uint64_t record_bytes);

  std::string Encode() const;
  /// False: the bytes are none.
  static bool Decode(std::string_view bytes, LevelPlace* place);
  bool operator==(const LevelPlace&) const = default;
};

class LevelTable : public std::enable_shared_from_this<LevelTable> {
 public:
  using RegionPtr = std::shared_ptr<const TableRegion>;

  /// REQUIRES: info.place is place.Encode(), and `regions` are those that it names, in its order.
  LevelTable(TableInfo info, LevelPlace place, std::vector<RegionPtr> regions)
      : info_(std::move(info)), place_(std::move(place)), regions_(std::move(regions)) {}
  LevelTable(const LevelTable&) = delete;
  LevelTable& operator=(const LevelTable&) = delete;
  virtual ~LevelTable() = default;

  const TableInfo& info() const { return info_; }
  const LevelPlace& place() const { return place_; }
  const std::vector<RegionPtr>& regions() const { return regions_; }
  /// It lies in a file: nobody looks into it within an epoch (Engine::Get).
  bool in_file() const { return regions_.empty(); }
  /// Bytes of the pool that it takes, or, where it lies in a file, that its records would.
  virtual uint64_t pool_bytes() const { return info_.bytes; }
  /// It was read at this time, of whoever's clock.
  void NoteRead(uint64_t time) const {
    if (read_at_.load(std::memory_order_relaxed) != time)
      read_at_.store(time, std::memory_order_relaxed);
  }
  uint64_t read_at() const { return read_at_.load(std::memory_order_relaxed); }

  /// A catalog may name it from now on: what it is made of outlives it, and the process.
  virtual void Keep() const {
    for (const RegionPtr& region : regions_) region->Keep();
  }
  /// No catalog names it any more: what it has alone goes with it. Regions it may share.
  virtual void Drop() const {}

  /// Find is about to be called for a key of this hash (Hash64): what it reads first is on its way.
  virtual void Prefetch(uint64_t /*hash*/) const {}
  /// The newest version of the key at or below the target's sequence: kAbsent, kFound, kDeleted, or
  /// kDamaged. With `verify` it checks what the search depends on. The caller is pinned, or holds
  /// the table.
  virtual Lookup Find(const InternalKey& target, uint64_t hash, bool verify) const = 0;
  /// Walks all versions. The table outlives it. Its place_word() is where a record lies, for those
  /// who refer to it.
  virtual std::unique_ptr<InternalIterator> NewIterator(bool verify) const = 0;
  /// The same for who reads all of it once, as merges do.
  virtual std::unique_ptr<InternalIterator> NewMergeIterator(bool verify) const {
    return NewIterator(verify);
  }
  /// Walks all of it, checks every checksum, and that entries and records agree: adds records and
  /// problems. Nobody changes the pool.
  virtual void Check(CheckReport* report) const = 0;
  /// Stats::Level::runs of it.
  virtual uint64_t run_count() const { return 0; }
  /// Made anew by itself the table would be the same, but for what its place says.
  virtual bool IsMerged() const { return true; }

 private:
  const TableInfo info_;
  const LevelPlace place_;
  const std::vector<RegionPtr> regions_;  // keeps I1
  mutable std::atomic<uint64_t> read_at_{0};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LEVEL_TABLE_H_
