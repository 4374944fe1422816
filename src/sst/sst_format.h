// The media types of an SST: a file of blocks, one after the other, and a footer (docs/FORMAT.md,
// Sorted string tables).
//
// Data blocks hold the records in internal-key order. Some of them, one after the other, are a
// section; the index block of the section follows them. The root, read once, leads to the index
// blocks. So a table of any size is opened by reading little, and written with little memory.
//
// F1: a block's checksum covers all of it and is bound to the store, the table and the place in the
//     file: what was written elsewhere never validates here.
// F2: a size that was read is believed only after the checksum over it was seen to hold, and is
//     compared with the file's size before.
// Threads: any.
#ifndef LAMELLA_SST_SST_FORMAT_H_
#define LAMELLA_SST_SST_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/hash.h"
#include "base/random.h"
#include "iterator/internal_iterator.h"

namespace lamella {

inline constexpr uint64_t kSstMagic = 0x3153545353454d4cull;  // "LMESSTS1"
/// In the footer. A build reads no table with another one.
inline constexpr uint32_t kSstFormat = 1;
/// Records between two with a whole key, where a search in a block may start.
inline constexpr uint32_t kRestartInterval = 16;
inline constexpr uint32_t kBlockRecordsMax = 4096;
inline constexpr size_t kSstKeyBytesMax = 65535;
inline constexpr size_t kSstValueBytesMax = size_t{1} << 30;
/// A place in a file has 40 bits (SstLocation).
inline constexpr uint64_t kSstBytesMax = uint64_t{1} << 40;

/// Which table of which store: what all checksums in the file are seeded with.
struct SstIdentity {
  std::array<uint8_t, 16> store{};
  uint64_t number = 0;

  bool operator==(const SstIdentity&) const = default;
};

enum class BlockKind : uint8_t { kData = 1, kIndex = 2, kRoot = 3, kProperties = 4 };
const char* BlockKindName(BlockKind kind);

enum class BlockCodec : uint8_t { kNone = 0, kLz4 = 1, kZstd = 2 };

struct BlockHeader {      // then stored_bytes of content
  uint64_t checksum;      // 0: XXH3 of the 16 bytes that follow, seeded with that of the content
  uint32_t stored_bytes;  // 8: after compression
  uint32_t raw_bytes;     // 12: before it
  uint32_t records;       // 16
  uint8_t kind;           // 20: BlockKind
  uint8_t codec;          // 21: BlockCodec
  uint16_t reserved;      // 22: 0
};
static_assert(sizeof(BlockHeader) == 24 && offsetof(BlockHeader, records) == 16);
static_assert(std::has_unique_object_representations_v<BlockHeader>);

/// At the end of the file. The last 24 bytes keep their places in every format, and so does what
/// the checksum covers: so that a newer format is told from damage.
struct SstFooter {
  std::array<uint8_t, 16> store;  // 0
  uint64_t number;                // 16
  uint64_t file_bytes;            // 24: with the footer
  uint64_t root_offset;           // 32
  uint32_t root_bytes;            // 40: of the block, with its header
  uint32_t properties_bytes;      // 44: of the block that follows the root
  uint64_t reserved0;             // 48: 0
  uint64_t checksum;              // 56: XXH3 of the 80 bytes, this field zero, seeded (F1)
  uint32_t format;                // 64
  uint32_t reserved1;             // 68: 0
  uint64_t magic;                 // 72
};
static_assert(sizeof(SstFooter) == 80 && offsetof(SstFooter, checksum) == 56);
static_assert(std::has_unique_object_representations_v<SstFooter>);

/// What the properties block begins with; the smallest and the largest user key follow, each with
/// its size as u32.
struct SstProperties {
  uint64_t records;         // 0
  uint64_t deletes;         // 8: of the records
  uint64_t key_bytes;       // 16: of all records' user keys
  uint64_t value_bytes;     // 24: of all records' values
  uint64_t raw_data_bytes;  // 32: of data blocks before compression
  uint64_t data_blocks;     // 40
  uint64_t sections;        // 48
  uint64_t first_sequence;  // 56: the lowest and
  uint64_t last_sequence;   // 64: the highest number of a record
  uint32_t block_bytes;     // 72: what data blocks were to have at most; one record may have more
  uint8_t codec;            // 76: BlockCodec that was asked for
  uint8_t reserved0;        // 77: 0
  int16_t level;            // 78: of compression, as its library counts
};
static_assert(sizeof(SstProperties) == 80 && offsetof(SstProperties, block_bytes) == 72);
static_assert(std::has_unique_object_representations_v<SstProperties>);

/// What is known of a table without reading its records.
struct SstInfo {
  uint64_t file_bytes = 0;
  std::string smallest;  // user keys, both in it
  std::string largest;
  SstProperties properties{};
};
/// The content of a properties block.
std::string EncodeProperties(const SstInfo& info);
/// False: that is none.
bool DecodeProperties(std::string_view content, SstInfo* info);

/// Seeds the checksums of a table's blocks, which add their places (F1).
inline uint64_t SstSeed(const SstIdentity& identity) {
  char bytes[24];
  std::memcpy(bytes, identity.store.data(), 16);
  std::memcpy(bytes + 16, &identity.number, 8);
  return Hash64({bytes, sizeof(bytes)});
}
inline uint64_t PlaceSeed(uint64_t sst_seed, uint64_t offset) { return sst_seed ^ MixBits(offset); }
/// Of the content, seeded with the place, and then of the header, seeded with that: so a writer
/// need not bring them together.
uint64_t BlockChecksum(uint64_t sst_seed, uint64_t offset, const BlockHeader& header,
                       std::string_view content);
/// Seeded with the store and the number that the footer names: whoever expects another table
/// compares those.
uint64_t FooterChecksum(const SstFooter& footer, uint64_t offset);

/// Where a block lies: what index and root entries hold as two varints.
struct BlockHandle {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // with the header

  uint64_t end() const { return offset + bytes; }
  bool operator==(const BlockHandle&) const = default;
};
void AppendHandle(std::string* out, const BlockHandle& handle);
/// False: these bytes are no handle of a block that lies before `end`.
bool DecodeHandle(std::string_view bytes, uint64_t end, BlockHandle* handle);

/// The lowest key above `before` that is at or before `first` and short: what leads to a block that
/// begins with `first` in an index. Any record of the table is on the same side of it as of
/// `first`. REQUIRES: `before` is before `first`.
InternalKey ShortLowerBound(const InternalKey& before, const InternalKey& first);

/// Where a record lies in a table, in 8 bytes, such that one read brings its block: the block's
/// offset in bits 0-39, its size (128 bytes or more, rounded up to 8 bits of precision) in 40-51,
/// and the record's number in the block in 52-63.
class SstLocation {
 public:
  SstLocation() = default;
  /// REQUIRES: the block ends at or below kSstBytesMax; index < kBlockRecordsMax.
  SstLocation(const BlockHandle& block, uint32_t index);
  static SstLocation FromBits(uint64_t bits) {
    SstLocation location;
    location.bits_ = bits;
    return location;
  }

  uint64_t bits() const { return bits_; }
  /// What to read: the block, and up to 1/128 of it more, which may be beyond the file's end.
  BlockHandle ToRead() const;
  uint32_t index() const { return static_cast<uint32_t>(bits_ >> 52); }
  bool operator==(const SstLocation&) const = default;

 private:
  uint64_t bits_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_SST_SST_FORMAT_H_
