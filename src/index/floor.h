// Floor is one sorted run of a Skip-Array Tree (Zhang and Du, "NVLSM: A Persistent Memory Key-Value
// Store Using Log-Structured Merge Tree with Accumulative Compaction", 2021): a sorted array of
// entries, one for each record, apart from the records. The array is kept by column, so that each
// use touches few lines:
//
//   header | heads: 8 bytes of each key | places of the records | links | filter | prefix
//
// A binary search reads heads alone, a merge places alone, the step to the floor below one link or
// two. A head is the 8 bytes of the key that follow what all keys of the floor begin with, its
// prefix; where heads are equal the records tell.
// I1: a floor never changes: it is written once, and durable before anything names it.
// I2: entries are in internal-key order, no two equal; heads that differ order as their keys do.
// I3: the link of an entry leads to the first entry not before it in the floor next below, or,
//     where that ends before it, in the next one that does not; to none where all do.
// I4: what a crash or damage left of it does not validate: header and the rest have a checksum
//     each, seeded with where the floor lies and with its chunk's epoch. Nothing of it is followed
//     before it validated (Ready).
// I5: the entry before the first, the paper's virtual key `min`, is smaller than any key and links
//     to the first entry of the floor next below. Every floor has it, and it takes no bytes.
// Threads: any.
#ifndef LAMELLA_INDEX_FLOOR_H_
#define LAMELLA_INDEX_FLOOR_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "index/line_filter.h"
#include "iterator/internal_iterator.h"
#include "lamella/status.h"
#include "log/record.h"
#include "pool/pool.h"

namespace lamella {

/// What a link's 2 bytes of offset reach, whatever the entries' bytes. A floor may have more where
/// none is to lie on top of it.
inline constexpr uint32_t kFloorEntriesMax = 65535;
/// Floors of one tree: what a link's byte tells apart, less the one that is none.
inline constexpr uint32_t kFloorsMax = 255;

/// Where a link leads. Floors of a tree are numbered from the bottom.
struct FloorLink {
  static constexpr uint8_t kNone = 255;
  uint8_t floor = kNone;
  uint16_t offset = 0;

  bool leads() const { return floor != kNone; }
  bool operator==(const FloorLink&) const = default;
};

/// Media type: a floor begins with it.
struct FloorHeader {
  uint64_t magic;            // 0
  uint32_t header_checksum;  // 8: of these 64 bytes, this field zero
  uint32_t body_checksum;    // 12: of what follows the header
  uint32_t entry_count;      // 16: never 0
  uint32_t floors_below;     // 20: when it was added: links lead to those
  uint32_t prefix_bytes;     // 24: what all keys begin with
  uint32_t filter_lines;     // 28: of the filter
  uint64_t index_bytes;      // 32: of all this
  uint8_t reserved[24];      // 40
};
static_assert(sizeof(FloorHeader) == 64);
static_assert(offsetof(FloorHeader, entry_count) == 16 &&
              offsetof(FloorHeader, index_bytes) == 32 && offsetof(FloorHeader, reserved) == 40);
inline constexpr uint64_t kFloorMagic = 0x00726f6f6c466d4c;  // "LmFloor" and a zero byte

/// Where the columns of a floor begin.
struct FloorLayout {
  static constexpr uint64_t kLinkBytes = 3;

  static FloorLayout Of(uint32_t entries, uint32_t filter_lines, uint32_t prefix_bytes);

  uint64_t heads = 0;
  uint64_t places = 0;
  uint64_t links = 0;
  uint64_t filter = 0;
  uint64_t prefix = 0;
  uint64_t end = 0;  // of all, in whole lines
};

uint32_t FloorHeaderChecksum(const FloorHeader& header, PmPtr place, uint32_t epoch);
uint32_t FloorBodyChecksum(const char* body, uint64_t bytes, PmPtr place, uint32_t epoch);

class Floor {
 public:
  /// The floor at `place`. What lies there may be damaged: Ready tells.
  Floor(const Pool* pool, PmPtr place);
  Floor(const Floor&) = delete;
  Floor& operator=(const Floor&) = delete;

  /// Corruption: it does not validate. Verifies all of it the first time; of what this process
  /// wrote nothing. `below`: the floors under it, the bottom one first, ready.
  /// REQUIRES: nothing but damage() and place() is asked of a floor that was never OK here.
  Status Ready(const std::vector<std::shared_ptr<const Floor>>& floors, size_t number) const {
    return ready_.load(std::memory_order_acquire) ? Status::OK() : Verify(floors, number);
  }
  /// Of one that was just written, by this process.
  void TakeForReady() const { ready_.store(true, std::memory_order_release); }
  /// Verifies it, whatever is known.
  Status Verify(const std::vector<std::shared_ptr<const Floor>>& floors, size_t number) const;

  PmPtr place() const { return place_; }
  /// Fields of a header that did not validate are zero.
  const FloorHeader& header() const { return header_; }
  uint32_t count() const { return header_.entry_count; }
  std::string_view prefix() const { return prefix_; }
  uint64_t head(uint32_t i) const { return heads_[i]; }
  PmPtr record_place(uint32_t i) const { return PmPtr(places_[i]); }
  const Record* record(uint32_t i) const { return pool_->At<Record>(record_place(i)); }
  FloorLink link(uint32_t i) const {
    uint32_t word;  // one byte more than it is: what follows the links is the floor's, too
    std::memcpy(&word, links_ + i * FloorLayout::kLinkBytes, sizeof(word));
    return {static_cast<uint8_t>(word), static_cast<uint16_t>(word >> 8)};
  }
  void PrefetchAt(uint32_t i) const {
    __builtin_prefetch(heads_ + i);
    __builtin_prefetch(links_ + i * FloorLayout::kLinkBytes);
  }

  void PrefetchFilter(uint64_t hash) const {
    if (header_.filter_lines != 0) __builtin_prefetch(FilterLineFor(hash));
  }
  /// False: no entry has a user key of this hash.
  bool MayHold(uint64_t hash) const {
    if (header_.filter_lines == 0) return true;
    pool_->gate()->OnRead(kLineBytes);
    return FilterLineFor(hash)->MayHold(hash);
  }

  /// What a search found: the first entry at or after its target, or the end of its range.
  struct Bound {
    uint32_t at = 0;
    bool same_key = false;  // the entry there is a version of the target's user key
    PmPtr damaged;          // null, or the record at which the search stopped
  };
  /// Of the entries from `from` on, up to `to`, at most count(). With `verify` the checksum of
  /// every record that it looks at. REQUIRES: those before `from` are before the target.
  Bound LowerBound(const InternalKey& target, uint32_t from, uint32_t to, bool verify) const;

 private:
  /// Where the target's head stands among those of the floor.
  enum class Side : uint8_t { kBefore, kAmong, kAfter };
  Side HeadOf(std::string_view user_key, uint64_t* head) const;
  uint32_t FirstHeadFrom(uint64_t head, uint32_t from, uint32_t to) const;
  const FilterLine* FilterLineFor(uint64_t hash) const {
    return filter_ + FilterLineOf(hash, header_.filter_lines);
  }
  Status VerifyHeader() const;
  Status Damage(const char* what) const;

  const Pool* const pool_;
  const PmPtr place_;
  FloorHeader header_{};  // these are constant after construction
  uint32_t epoch_ = 0;
  std::string prefix_;  // a copy: searches need it first
  const uint64_t* heads_ = nullptr;
  const uint64_t* places_ = nullptr;
  const char* links_ = nullptr;
  const FilterLine* filter_ = nullptr;
  mutable std::atomic<bool> ready_{false};
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_FLOOR_H_
