// Superblock is what a pool part says of itself, in two copies of 128 bytes at offsets 0 and 4096
// of the part.
// S1: a change is written to the first copy, made durable, and then to the second: of a torn copy
//     or of damage to one copy the other one keeps what was last durable, and an older state is
//     never taken for the present one. A second copy that a crash left older than its first is
//     brought up to it before the first is written again.
// S2: the parts of a pool are written together, part 0 last: part 0 decides, and another part is at
//     its generation or one ahead.
//     But for sync_failed, which is set in part 0's first copy alone, with no sync: it is for a
//     later open in the same boot.
// S3: magic and checksum keep their places, and the checksum its 128 bytes, in every version of the
//     format, so that a newer one is told from damage.
// S4: the word after part 0's first copy says up to which number records were synced (page media).
//     It is stored once they were, and durable with the next sync: what it says is true, whenever
//     it came to the medium.
#ifndef LAMELLA_POOL_SUPERBLOCK_H_
#define LAMELLA_POOL_SUPERBLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "lamella/status.h"

namespace lamella {

inline constexpr uint64_t kSuperblockMagic = 0x316c6c656d614cull;  // "Lamell1", a zero byte
inline constexpr uint16_t kFormatMajor = 6;
inline constexpr uint16_t kFormatMinor = 0;
// known to this build; unknown ones may be ignored
inline constexpr uint64_t kCompatibleFeatures = 0;
// known to this build; with an unknown one the pool is not opened
inline constexpr uint64_t kIncompatibleFeatures = 0;
inline constexpr uint64_t kSuperblockOffsets[2] = {0, 4096};

/// Media type.
struct Superblock {
  uint64_t magic;                  // 0
  uint32_t checksum;               // 8: crc32c of the 128 bytes, this field zero
  uint16_t format_major;           // 12
  uint16_t format_minor;           // 14
  uint64_t compatible_features;    // 16
  uint64_t incompatible_features;  // 24
  // 32: of this state; 1 is a pool that was never opened after its creation
  uint64_t generation;
  std::array<uint8_t, 16> uuid;     // 40: the same in all parts
  uint32_t part;                    // 56
  uint32_t part_count;              // 60
  uint64_t chunk_bytes;             // 64
  uint32_t chunks_min;              // 72: the part has this many chunks, or more
  uint32_t catalog_chunk;           // 76: of part 0; 0 is none
  uint64_t engine_flags;            // 80
  uint8_t engine;                   // 88
  uint8_t clean;                    // 89: 1 where the store was closed in order
  uint8_t sync_failed;              // 90: 1 where a sync failed since it was opened (page media)
  uint8_t reserved0;                // 91
  uint32_t epoch_floor;             // 92: every later claim takes at least this epoch
  std::array<uint8_t, 16> boot_id;  // 96: of the boot that last opened or closed the store
  std::array<uint8_t, 16> file_id;  // 112: of this part's file, as it then was (pmem/file_id.h)
};
static_assert(sizeof(Superblock) == 128);
static_assert(std::is_trivially_copyable_v<Superblock> &&
              std::has_unique_object_representations_v<Superblock>);
static_assert(offsetof(Superblock, generation) == 32 && offsetof(Superblock, uuid) == 40);
static_assert(offsetof(Superblock, chunk_bytes) == 64 && offsetof(Superblock, engine_flags) == 80);
static_assert(offsetof(Superblock, boot_id) == 96 && offsetof(Superblock, file_id) == 112);

inline constexpr uint64_t kSyncedOffset = 128;
/// The word of S4, check : 16 | number : 48; and its number, 0 where the word was never written, is
/// damaged, or the number too large for it.
uint64_t EncodeSynced(uint64_t sequence);
uint64_t DecodeSynced(uint64_t word);

/// The checksum that the superblock should have.
uint32_t SuperblockChecksum(const Superblock& superblock);

/// Reads the copies at the start of a part's mapping and gives the one that counts. Corruption: no
/// Lamella pool, or both copies damaged, or a size that cannot be. NotSupported: a newer format.
Status ReadSuperblock(const std::string& path, const char* base, uint64_t bytes,
                      Superblock* superblock);

/// "0123abcd-...", for messages.
std::string UuidText(const std::array<uint8_t, 16>& uuid);

}  // namespace lamella

#endif  // LAMELLA_POOL_SUPERBLOCK_H_
