#include "pool/superblock.h"

#include <bit>
#include <cstring>

#include "base/concat.h"
#include "base/crc32c.h"
#include "pool/chunk_table.h"

namespace lamella {
namespace {

constexpr uint64_t kSyncedMax = (uint64_t{1} << 48) - 1;

Status CheckFormat(const std::string& path, const Superblock& found) {
  if (found.format_major > kFormatMajor) {
    return Status::NotSupported(Concat(path, ": expected format ", kFormatMajor, ".", kFormatMinor,
                                       ", found ", found.format_major, ".", found.format_minor,
                                       "; open it with a newer Lamella"));
  }
  if (found.format_major < kFormatMajor) {
    return Status::NotSupported(Concat(path, ": expected format ", kFormatMajor, ".x, found ",
                                       found.format_major, ".", found.format_minor,
                                       "; dump it with the Lamella that made it, and load that"));
  }
  const uint64_t unknown = found.incompatible_features & ~kIncompatibleFeatures;
  if (unknown != 0) {
    return Status::NotSupported(Concat(path, ": uses the features ", Hex{unknown}, " of format ",
                                       found.format_major, ".", found.format_minor,
                                       ", which this build (", kFormatMajor, ".", kFormatMinor,
                                       ") lacks; open it with a newer Lamella"));
  }
  if (!std::has_single_bit(found.chunk_bytes) || found.chunk_bytes < kChunkBytesMin ||
      found.chunk_bytes > kChunkBytesMax) {
    return Status::Corruption(Concat(path, ": expected chunks of a power of two from ",
                                     kChunkBytesMin, " to ", kChunkBytesMax,
                                     " bytes, the superblock says ", found.chunk_bytes));
  }
  if (found.part_count == 0 || found.part_count > kPoolPartsMax || found.part >= found.part_count) {
    return Status::Corruption(Concat(path, ": the superblock says part ", found.part, " of ",
                                     found.part_count, "; expected 1 to ", kPoolPartsMax,
                                     " parts"));
  }
  return Status::OK();
}

}  // namespace

// Any one bit that flips shows, and a word of zeros says nothing.
uint64_t EncodeSynced(uint64_t sequence) {
  if (sequence > kSyncedMax) return 0;
  return sequence | ((sequence ^ sequence >> 16 ^ sequence >> 32 ^ 0x5a5a) & 0xffff) << 48;
}

uint64_t DecodeSynced(uint64_t word) {
  const uint64_t sequence = word & kSyncedMax;
  return word == EncodeSynced(sequence) ? sequence : 0;
}

uint32_t SuperblockChecksum(const Superblock& superblock) {
  Superblock copy = superblock;
  copy.checksum = 0;
  return Crc32c(0, &copy, sizeof(copy));
}

Status ReadSuperblock(const std::string& path, const char* base, uint64_t bytes,
                      Superblock* superblock) {
  const uint64_t least = kSuperblockOffsets[1] + sizeof(Superblock);
  if (bytes < least) {
    return Status::Corruption(Concat(path, ": expected a pool part of ", least,
                                     " bytes or more, found ", bytes,
                                     " bytes; the file was truncated, or is no Lamella pool"));
  }
  Superblock copies[2];
  for (int i = 0; i < 2; i++) {
    std::memcpy(&copies[i], base + kSuperblockOffsets[i], sizeof(Superblock));
    if (copies[i].magic == kSuperblockMagic &&
        copies[i].checksum == SuperblockChecksum(copies[i])) {
      // keeps S1: the first copy, where it is whole, is never the older one
      *superblock = copies[i];
      return CheckFormat(path, copies[i]);
    }
  }
  if (copies[0].magic != kSuperblockMagic && copies[1].magic != kSuperblockMagic) {
    return Status::Corruption(Concat(path, ": not a Lamella pool: expected the magic ",
                                     Hex{kSuperblockMagic}, " at offsets 0 and 4096, found ",
                                     Hex{copies[0].magic}, " and ", Hex{copies[1].magic}));
  }
  return Status::Corruption(
      Concat(path, ": both superblock copies (offsets 0 and 4096) are damaged: expected checksums ",
             Hex{SuperblockChecksum(copies[0])}, " and ", Hex{SuperblockChecksum(copies[1])},
             ", found ", Hex{copies[0].checksum}, " and ", Hex{copies[1].checksum},
             "; restore the file from a backup"));
}

std::string UuidText(const std::array<uint8_t, 16>& uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < uuid.size(); i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.push_back('-');
    text.push_back(kDigits[uuid[i] >> 4]);
    text.push_back(kDigits[uuid[i] & 15]);
  }
  return text;
}

}  // namespace lamella
