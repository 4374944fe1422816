// Regions: what immutable tables are made of. A region is chunks of one kind and one number,
// written by one writer from its beginning to its end, and then never changed: sorted entries, or a
// buffer of records. Several tables may refer to one; it is freed as a whole once no version does.
//
// R1: a chunk's ordinal is its region's number and its place in the region (OrdinalOf): so what a
//     region has is found in the chunk table, and a catalog that names the number names all of it.
// R2: a region's chunks are freed once whoever could reach it has let go of its TableRegion, unless
//     a catalog may name it: that is so from Keep, right after the edit that names it, until Drop,
//     when the edit after which no table refers to it is durable (on page media synced). They are
//     freed as Pool::FreeDeferred does: a Get holds a pin and no TableRegion.
// R3: a region that no table of the catalog refers to is a crash's leaving: Mend frees it.
// Threads: a TableRegion from any; a RegionWriter from one at a time.
#ifndef LAMELLA_ENGINE_TABLE_REGION_H_
#define LAMELLA_ENGINE_TABLE_REGION_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "file/table_file_name.h"
#include "pool/pool.h"

namespace lamella {

/// Chunk kinds of the engines whose tables are immutable.
inline constexpr ChunkKind kIndexRegion =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 2);
inline constexpr ChunkKind kRecordRegion =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 3);
constexpr bool IsRegion(ChunkKind kind) { return kind == kIndexRegion || kind == kRecordRegion; }

/// Chunks (or runs of them) that a region may have.
inline constexpr int kRegionExtentsShift = 24;
static_assert(kTableNumberMax << kRegionExtentsShift >> kRegionExtentsShift == kTableNumberMax);
constexpr uint64_t OrdinalOf(uint64_t region, uint64_t extent) {
  return region << kRegionExtentsShift | extent;
}
constexpr uint64_t RegionOf(uint64_t ordinal) { return ordinal >> kRegionExtentsShift; }

/// A run of a region is claimed of what was written before it, over this, and rounded up to whole
/// chunks: so much of the last one may be empty.
inline constexpr uint64_t kRegionUnusedPart = 16;

class TableRegion {
 public:
  /// `extents`: its chunks, in their order; there is one at least.
  TableRegion(Pool* pool, uint64_t number, std::vector<ChunkRef> extents, bool kept);
  ~TableRegion();  // keeps R2
  TableRegion(const TableRegion&) = delete;
  TableRegion& operator=(const TableRegion&) = delete;

  uint64_t number() const { return number_; }
  ChunkKind kind() const { return extents_.front().kind; }
  const std::vector<ChunkRef>& extents() const { return extents_; }
  /// Of its chunks.
  uint64_t bytes() const { return bases_.size() << chunk_shift_; }
  /// Of those what was left empty before the last run of chunks, since the next record did not fit:
  /// who copies the records will leave as much. By hints, which a power cut may take: then 0.
  uint64_t waste() const { return waste_; }
  /// The byte at this offset, counted over its chunks; what follows it up to the end of its chunk
  /// follows it here, too. REQUIRES: offset < bytes().
  const char* At(uint64_t offset) const {
    return bases_[offset >> chunk_shift_] + (offset & ((uint64_t{1} << chunk_shift_) - 1));
  }
  PmPtr PlaceAt(uint64_t offset) const;
  /// R2.
  void Keep() const { kept_.store(true, std::memory_order_release); }
  void Drop() const { kept_.store(false, std::memory_order_release); }

 private:
  Pool* const pool_;
  const uint64_t number_;
  const std::vector<ChunkRef> extents_;
  const int chunk_shift_;
  const std::vector<char*> bases_;  // of each chunk
  const uint64_t waste_;
  mutable std::atomic<bool> kept_;
};

/// By number.
using TableRegions = std::map<uint64_t, std::shared_ptr<const TableRegion>>;
/// All that the pool has, as kept.
TableRegions FindRegions(Pool* pool);

/// Is told of claims, so that what was reserved for them (BufferedEngine's I6) is not kept twice.
/// Below 0: what it claimed is about to be freed. Throws nothing.
using ClaimedBytes = std::function<void(int64_t bytes)>;

/// Writes a region. What is written goes to the medium in whole lines, past the cache; it is
/// durable after the Persister's next fence (on page media after Pool::Sync).
class RegionWriter {
 public:
  /// All outlive it. `claimed` (may be null) is told the bytes of the chunks that it claims.
  RegionWriter(Pool* pool, ChunkKind kind, uint64_t number, Persister* persister,
               ClaimedBytes claimed = nullptr);
  ~RegionWriter();  // frees the chunks of what was not finished
  RegionWriter(const RegionWriter&) = delete;
  RegionWriter& operator=(const RegionWriter&) = delete;

  /// Claims chunks for so many bytes in all, in as few runs as there are. NoSpace.
  Status Claim(uint64_t bytes);
  /// Sees to it that the next `bytes` lie in one run: what does not fit any more into the one that
  /// is being filled is left empty. Runs grow with what was written, so that little of the last one
  /// is not used.
  Status Prepare(uint64_t bytes) {
    return offset_ + bytes <= run_end_ ? Status::OK() : PrepareRun(bytes);
  }
  /// Offset in the region of what is written next.
  uint64_t offset() const { return offset_; }
  uint64_t number() const { return number_; }
  uint64_t claimed_bytes() const { return bases_.size() * chunk_bytes_; }
  /// Where it will lie, and the epoch of the claim there. REQUIRES: prepared.
  PmPtr place() const {
    return {extents_[run_].part,
            uint64_t{extents_[run_].index} * chunk_bytes_ + offset_ - run_start_};
  }
  uint32_t epoch() const { return extents_[run_].epoch; }
  /// Writes after the last byte. REQUIRES: claimed or prepared.
  void Write(std::string_view bytes);
  /// Zeros, up to a multiple of `alignment`, a power of two.
  void Pad(uint64_t alignment);
  /// The open line, padded: everything is on its way.
  void Flush();
  /// What was written is a region, not kept yet. REQUIRES: Flush. Throws std::bad_alloc.
  std::shared_ptr<const TableRegion> Finish();

 private:
  Status PrepareRun(uint64_t bytes);
  Status ClaimRun(uint64_t needed, uint64_t wanted);
  Status ClaimRunIn(uint32_t part, uint64_t needed, uint64_t wanted);
  void EnterRun(size_t run, uint64_t start);
  void Emit(bool all);

  Pool* const pool_;
  const ChunkKind kind_;
  const uint64_t number_;
  const uint64_t chunk_bytes_;
  Persister* const persister_;
  const ClaimedBytes claimed_;
  std::vector<ChunkRef> extents_;
  std::vector<char*> bases_;    // of each chunk
  std::vector<uint64_t> used_;  // of each run that was left
  size_t run_ = 0;              // the one that is being filled, if there is any
  uint64_t run_start_ = 0;
  uint64_t run_end_ = 0;
  uint64_t offset_ = 0;
  uint64_t emitted_ = 0;  // whole lines up to here are on their way
  static constexpr size_t kStageBytes = 4096;
  alignas(64) char stage_[kStageBytes];
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TABLE_REGION_H_
