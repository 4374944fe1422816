// Leaf is a node of a LeafTree's lowest level, in persistent memory: up to 14 entries that lie in
// slots, in the order that one word says. An entry is 8 bytes of a key, its head, and a link to a
// cell, which has the whole key and says where the value lies.
//
// LAB-DB (Kim et al., "An LSM Tree Augmented with B+ Tree on Nonvolatile Memory", 2024) shifts
// entries within a leaf, as FAST-FAIR does, and lets readers step over the entry that is twice
// there. That needs stores which become durable in their order, which neither our strict medium nor
// AArch64 grants. The order word does not: it comes from wB+-trees (Chen and Jin, "Persistent
// B+-Trees in Non-Volatile Main Memory", 2015).
// L1: the order word and the link to the next leaf change by one 8-byte store each, after what they
//     newly name is durable: what a cut leaves is a whole leaf, before or after.
// L2: a slot is written once in a leaf's life, while its cell word is zero. After that only its
//     cell word changes, by one store, to another version of the same key. So readers take no lock,
//     and need not look twice. What is in slots that the order does not name means nothing.
// L3: heads leave out the first left_out bytes, which all keys of a leaf share, the leaf's prefix:
//     heads that differ order as their keys do, and equal ones send the search to the cells.
// L4: a cell never changes. Order word, links, cells and what is constant in a leaf carry a check
//     each: no flipped bit goes unnoticed. One in a link its check mends, one in the order word the
//     copy beside it, for a repair (SalvageLeaves).
// Threads: one writer; readers at any time, pinned.
#ifndef LAMELLA_INDEX_LEAF_H_
#define LAMELLA_INDEX_LEAF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "index/leaf_link.h"
#include "iterator/internal_iterator.h"
#include "lamella/status.h"
#include "log/record.h"
#include "pmem/gate.h"
#include "pool/pool.h"

namespace lamella {

inline constexpr uint32_t kLeafSlots = 14;

/// The order of a leaf's entries, in one word: count : 4 | slot of each entry : 4 each | check : 4.
struct LeafOrder {
  uint64_t word = 0;  // which is no order

  static LeafOrder Of(std::span<const uint8_t> slots);
  uint32_t count() const { return static_cast<uint32_t>(word & 0xf); }
  uint32_t slot(uint32_t i) const { return static_cast<uint32_t>(word >> (4 + 4 * i) & 0xf); }
  /// False for a word with a flipped bit, and for one that leads out of the leaf.
  bool MayBeRead() const {
    uint64_t fold = word ^ word >> 32;
    fold ^= fold >> 16;
    fold ^= fold >> 8;
    fold ^= fold >> 4;
    const uint64_t beyond = word >> 1 & word >> 2 & word >> 3 & 0x0111'1111'1111'1110;
    return (fold & 0xf) == kCheck && beyond == 0 && count() <= kLeafSlots;
  }
  /// True if it is one that Of makes.
  bool IsSound() const;

  static constexpr uint64_t kCheck = 0x5;  // the exclusive or of all 16 nibbles
};

/// Media type.
struct LeafSlot {
  PmWord head;  // 0: HeadAfter(key, left_out)
  PmWord cell;  // 8: a link to a LeafCell (EncodeLeafLink); 0 in a slot that was never written
};
static_assert(sizeof(LeafSlot) == 16);

/// Media type: one media block.
struct Leaf {
  PmWord order;                // 0: LeafOrder
  PmWord next;                 // 8: a link to the leaf after it (EncodeLeafLink)
  uint32_t seal;               // 16: LeafSeal
  uint16_t left_out;           // 20: bytes of each key that its head leaves out
  uint16_t reserved0;          // 22
  PmWord order_copy;           // 24: what order is, but for a cut between the two
  LeafSlot slots[kLeafSlots];  // 32
};
static_assert(sizeof(Leaf) == kMediaBlockBytes && offsetof(Leaf, slots) == 32);

/// A leaf as it is to be written.
using LeafImage = std::array<uint64_t, sizeof(Leaf) / sizeof(uint64_t)>;

/// The check of what is constant in a leaf, and of where it lies.
uint32_t LeafSeal(uint16_t left_out, PmPtr place, uint32_t epoch);

/// Media type: one version of a key, and where its value lies. The key's bytes follow key_size.
struct LeafCell {
  uint64_t tag;         // 0: sequence number : 56 | kind : 8
  uint64_t location;    // 8: of the value, in the words of the tree's owner
  uint32_t value_size;  // 16
  uint32_t checksum;    // 20: over the cell, this field zero, and where it lies
  uint16_t key_size;    // 24
  char key_start[6];    // 26

  static constexpr uint64_t kKeyOffset = 26;
  static constexpr uint64_t BytesFor(size_t key_size) {
    return (kKeyOffset + key_size + 7) & ~uint64_t{7};
  }
  uint64_t bytes() const { return BytesFor(key_size); }
  std::string_view key() const {
    return {reinterpret_cast<const char*>(this) + kKeyOffset, key_size};
  }
  InternalKey internal_key() const { return {key(), tag}; }
  /// location and value_size as they lie there.
  std::string_view value_words() const {
    return {reinterpret_cast<const char*>(&location), sizeof(location) + sizeof(value_size)};
  }
};
static_assert(sizeof(LeafCell) == 32 && offsetof(LeafCell, key_start) == LeafCell::kKeyOffset);

/// A version that goes into a tree.
struct LeafPut {
  InternalKey key;
  uint64_t location = 0;
  uint32_t value_size = 0;
  /// Of a delete: what it hides is in this tree, if anywhere. It goes with that, once nobody needs
  /// an older version. REQUIRES: none is put in after it, in this batch or later.
  bool leaves_nothing = false;
};

/// The bytes of a cell that is to lie at `place`, in a chunk of `epoch`.
std::string EncodeCell(const LeafPut& put, PmPtr place, uint32_t epoch);
/// The cell that a slot links to; with `verify` its checksum is compared. Corruption, naming the
/// leaf.
Status ReadCell(const Pool& pool, PmPtr leaf, uint64_t link, bool verify, const LeafCell** cell);
/// Corruption unless the cell at `place` matches its checksum.
Status VerifyCell(const Pool& pool, PmPtr place);
/// Corruption: "the leaf at (place) `what`", and what to do.
Status LeafDamage(const Pool& pool, PmPtr leaf, std::string_view what);

/// A leaf as it was at one moment, which is all that a search needs: later changes leave what it
/// names in place (L2).
class LeafView {
 public:
  LeafView() = default;
  /// `prefix_of`: a key, or more, that begins with the leaf's prefix, and outlives the view.
  LeafView(const Pool* pool, PmPtr place, std::string_view prefix_of)
      : pool_(pool), place_(place), leaf_(pool->At<Leaf>(place)) {
    pool_->gate()->OnRead(kMediaBlockBytes);
    // pairs with the release in Persister::Store (L1)
    order_.word = leaf_->order.load(std::memory_order_acquire);
    prefix_ = prefix_of.substr(0, leaf_->left_out);
  }

  /// Corruption: the order word is damaged. To be asked first.
  Status Ready() const {
    return order_.MayBeRead() ? Status::OK()
                              : LeafDamage(*pool_, place_, "has an order word that is none");
  }
  PmPtr place() const { return place_; }
  const Leaf* leaf() const { return leaf_; }
  LeafOrder order() const { return order_; }
  uint32_t count() const { return order_.count(); }
  uint64_t head(uint32_t i) const {
    return leaf_->slots[order_.slot(i)].head.load(std::memory_order_relaxed);  // constant (L2)
  }
  /// Acquire: pairs with the release of who links another version in.
  uint64_t cell_link(uint32_t i) const {
    return leaf_->slots[order_.slot(i)].cell.load(std::memory_order_acquire);
  }
  Status Cell(uint32_t i, bool verify, const LeafCell** cell) const {
    return ReadCell(*pool_, place_, cell_link(i), verify, cell);
  }

  /// Where a key stands by the leaf's prefix. Among: `head` is its head.
  enum class Side : uint8_t { kBefore, kAmong, kAfter };
  Side SideOf(std::string_view user_key, uint64_t* head) const;
  /// The first entry at or after the target; count() where there is none.
  Status LowerBound(const InternalKey& target, bool verify, uint32_t* at) const;

 private:
  const Pool* pool_ = nullptr;
  PmPtr place_;
  const Leaf* leaf_ = nullptr;
  LeafOrder order_;
  std::string_view prefix_;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_LEAF_H_
