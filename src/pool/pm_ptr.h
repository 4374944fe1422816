// PmPtr names a byte of a pool wherever its parts are mapped: 16 bits of pool part, 48 bits of
// offset. Zero is null: offset 0 of part 0 is the superblock, which nothing points to.
#ifndef LAMELLA_POOL_PM_PTR_H_
#define LAMELLA_POOL_PM_PTR_H_

#include <cstdint>

namespace lamella {

inline constexpr uint32_t kPoolPartsMax = 16;

struct PmPtr {
  static constexpr int kOffsetBits = 48;
  static constexpr uint64_t kOffsetMask = (uint64_t{1} << kOffsetBits) - 1;

  static constexpr uint64_t kDamagedBit = uint64_t{1} << 63;

  uint64_t word = 0;

  constexpr PmPtr() = default;
  constexpr explicit PmPtr(uint64_t raw) : word(raw) {}
  constexpr PmPtr(uint32_t part, uint64_t offset)
      : word((uint64_t{part} << kOffsetBits) | offset) {}

  constexpr uint32_t part() const { return static_cast<uint32_t>(word >> kOffsetBits); }
  constexpr uint64_t offset() const { return word & kOffsetMask; }
  /// What a search answers where damage stopped it: the place of the damaged record, or of the one
  /// that holds a damaged link (null: a list's first links). Never stored.
  static constexpr PmPtr DamagedAt(PmPtr culprit) { return PmPtr(culprit.word | kDamagedBit); }
  constexpr bool damaged() const { return (word & kDamagedBit) != 0; }
  constexpr PmPtr culprit() const { return PmPtr(word & ~kDamagedBit); }
  constexpr explicit operator bool() const { return word != 0; }
  constexpr bool operator==(const PmPtr&) const = default;
};
static_assert(sizeof(PmPtr) == 8);

}  // namespace lamella

#endif  // LAMELLA_POOL_PM_PTR_H_
