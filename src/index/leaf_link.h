// Links of leaves, and to them, as they are stored: check : 12 | part : 4 | offset : 48.
//
// A link leads to all that comes after it, so one bit that flips must not cost more than itself:
// the check mends it. It is a code of Hsiao's (M. Y. Hsiao, "A Class of Optimal Minimum
// Odd-weight-column SEC-DED Codes", 1970): each bit of the target is in three bits of the check, no
// two in the same three. So two links differ in four bits at least; one bit that flips tells which
// it was, two are found. A word of zeros is no link.
// Threads: any.
#ifndef LAMELLA_INDEX_LEAF_LINK_H_
#define LAMELLA_INDEX_LEAF_LINK_H_

#include <cstdint>
#include <optional>

#include "pool/pm_ptr.h"

namespace lamella {

/// Of a target's bits, twelve at a time: bits i of all of them are in bits i and i + 1 of the
/// check, and in one more, that is another for each twelve.
constexpr uint64_t LeafLinkCheck(uint64_t target) {
  uint64_t folded = 0;
  uint64_t turned = 0;
  for (int group = 0; group < 5; group++) {
    const uint64_t bits = target >> (12 * group) & 0xfff;
    folded ^= bits;
    turned ^= bits << (2 + group);
  }
  const uint64_t all = folded ^ folded << 1 ^ turned;
  return ((all ^ all >> 12) & 0xfff) ^ 0x5a7;
}
constexpr uint64_t EncodeLeafLink(PmPtr to) { return LeafLinkCheck(to.word) << 52 | to.word; }
inline constexpr uint64_t kLeafEndLink = EncodeLeafLink(PmPtr());
/// False where the word is no link.
constexpr bool DecodeLeafLink(uint64_t word, PmPtr* to) {
  to->word = word & ((uint64_t{1} << 52) - 1);
  return word >> 52 == LeafLinkCheck(to->word);
}
/// Where the word leads, or led before one bit of it flipped. Empty: it is neither.
constexpr std::optional<PmPtr> MendLeafLink(uint64_t word) {
  PmPtr to;
  if (DecodeLeafLink(word, &to)) return to;
  for (uint64_t bit = 1; bit != 0; bit <<= 1) {
    if (DecodeLeafLink(word ^ bit, &to)) return to;
  }
  return std::nullopt;
}

}  // namespace lamella

#endif  // LAMELLA_INDEX_LEAF_LINK_H_
