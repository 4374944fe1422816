// LeafChange is one change of a LeafTree, of any number of its leaves: first planned, then made.
//
// Planning changes nothing that a tree leads to: what is to be written takes blocks of its own, and
// a plan that fails has only to give those back. A leaf whose new entries have room gets them in
// slots that were never used. One that has none for them is replaced by others, whole: a split
// moves nothing out of a leaf, it puts two in the place of one, or as many as a batch fills, by one
// store of the link that led to it. So a cut leaves no entry in two leaves.
//
// Persist order, and what a cut after each step leaves (LeafTreeCrash.* cut at each):
//   1  cells, new leaves and entries in       nothing: no order word and no link names them
//      unused slots are durable
//   2  links, order words and cell words      any of these stores, each of which takes one leaf, or
//      are stored, in any order               a run of neighbours, from whole to whole: the batch
//                                             is there in part, and doing it again completes it
//   3  they are durable                       the batch
// That is two fences, however many versions there are, and on page media two syncs.
// C1: what a change takes out is given back once the change is durable and no pin is left that was
//     there before it (Pool::AfterAllPins).
// C2: a leaf that stays keeps its range. Where leaves go, the one that takes over their range is
//     replaced by a copy: else who walks by an older root would meet there what came in since, and
//     then the leaves that went.
// Threads: one change of a tree at a time.
#ifndef LAMELLA_INDEX_LEAF_CHANGE_H_
#define LAMELLA_INDEX_LEAF_CHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "index/leaf.h"
#include "index/leaf_index.h"
#include "index/leaf_space.h"
#include "lamella/status.h"
#include "pool/pool.h"

namespace lamella {

/// True if somebody may still read the version of sequence number `older` although `newer`, the
/// next version of the key, exists. Null: nobody.
using VersionNeeded = std::function<bool(uint64_t older, uint64_t newer)>;

/// How much a tree has.
struct LeafTally {
  int64_t leaves = 0;
  int64_t entries = 0;
  int64_t cell_bytes = 0;
};

class LeafChange {
 public:
  LeafChange(Pool* pool, std::shared_ptr<LeafSpace> space, Persister* persister)
      : pool_(pool), space_(std::move(space)), persister_(persister) {}
  ~LeafChange();
  LeafChange(const LeafChange&) = delete;
  LeafChange& operator=(const LeafChange&) = delete;

  /// Plans that these versions, all of the range of the leaf that `at` stands on (or of a tree
  /// without leaves), be put into it. Corruption, NoSpace. REQUIRES: they are in internal-key
  /// order, and outlive the change; leaves are planned in their order, each once, as below.
  Status PlanPuts(const LeafIndex::Cursor& at, std::span<const LeafPut> puts,
                  const VersionNeeded& needed);
  /// After PlanPuts: the delete that is all there is in that leaf, and is to leave nothing; null
  /// else, and where the leaf after it has versions that it hides. It stays for now: no leaf is
  /// empty (T1), and how leaves go is PlanRemoval's.
  const LeafPut* left_alone() const { return left_alone_; }
  /// Plans that what is not before `from`, nor (where it is not null) after `last`, be taken out of
  /// the tree. Corruption, NoSpace. REQUIRES: nothing else is planned.
  Status PlanRemoval(const LeafIndex::Node* root, const InternalKey& from, const InternalKey* last);
  /// Makes the change. `head` links to the first leaf. `root`, of the tree that was planned,
  /// becomes that of the changed one, where made() then says so: it is to be published, and then
  /// Retire to be called. Else nothing is changed. IOError where it is made, but not durable.
  Status Make(PmWord* head, LeafIndex::NodePtr* root);
  bool made() const { return made_; }
  /// Keeps C1. REQUIRES: made(); nobody begins to read by the old root any more.
  void Retire() noexcept { pool_->readers()->Retire(std::move(*retirement_)); }
  /// What it adds.
  const LeafTally& tally() const { return tally_; }

 private:
  static constexpr uint8_t kNoSlot = 0xff;
  /// An entry of a leaf as it is to be.
  struct Item {
    uint64_t head = 0;
    uint64_t cell = 0;             // the link to it
    uint8_t slot = kNoSlot;        // none: it is new
    bool switched = false;         // its cell takes the place of another in the slot
    const LeafPut* put = nullptr;  // it has this
    const LeafCell* at = nullptr;  // it has what is here; null: not looked at yet

    InternalKey key() const { return put != nullptr ? put->key : at->internal_key(); }
  };
  struct NewLeaf {
    PmPtr place;
    LeafImage image{};
  };
  struct Edit {
    LeafIndex::Cursor at;
    bool replaces = false;        // the leaf, by `leaves`; else these three are its changes
    std::vector<NewLeaf> leaves;  // none: it goes
    std::vector<Item> fresh;      // to be written into unused slots
    std::vector<Item> switched;   // whose slots' cell words change
    uint64_t order = 0;           // 0: stays
    uint64_t link = 0;            // to the first leaf in its place
    bool joins = false;  // the leaf before it is replaced, too: what replaces that links on
  };
  /// What is given back, and what readers may still use.
  struct Garbage {
    std::vector<LeafSpace::Block> blocks;
    LeafIndex::NodePtr root;
  };
  /// The leaf of one put, and where it stands by the leaf's prefix.
  struct Target {
    const LeafIndex::Cursor& at;
    bool by_head;  // heads tell, but for equal ones; else keys alone do
    uint64_t head;
    const LeafPut& put;
  };

  Leaf* LeafAt(const LeafIndex::Cursor& at) const { return pool_->At<Leaf>(at.leaf()); }
  Status TakeItems(const LeafView& view, std::vector<Item>* items) const;
  Status Look(const LeafIndex::Cursor& at, Item* item) const;
  Status IsBefore(const Target& target, Item* item, bool* is) const;
  Status HasKey(const Target& target, Item* item, bool* has) const;
  Status IsThere(const Target& target, Item* item, bool* is) const;
  Status Allocate(LeafSpace::Use use, uint64_t bytes, PmPtr* place, uint32_t* epoch);
  Status NewItem(const Target& target, Item* item);
  void Drop(const Item& item);
  Status MayLeave(const Target& target, const VersionNeeded& needed, std::vector<Item>* items,
                  size_t from, size_t* end, bool* may) const;
  Status PutOne(const Target& target, const VersionNeeded& needed, std::vector<Item>* items,
                bool is_last, size_t* from, bool* erased);
  bool PlanInPlace(const LeafIndex::Cursor& at, const std::vector<Item>& items, bool erased);
  Status PlanReplacement(const LeafIndex::Cursor& at, std::vector<Item>* items);
  Status MakeLeaf(std::span<const Item> items, size_t left_out, NewLeaf* leaf);
  Status WriteUnseen(PmWord* head);
  void Expose(PmWord* head);
  void StoreAndFlush(PmWord* word, uint64_t value);

  Pool* const pool_;
  const std::shared_ptr<LeafSpace> space_;
  Persister* const persister_;
  std::vector<Edit> edits_;
  std::vector<LeafIndex::Edit> index_edits_;  // of those that replace
  std::vector<LeafSpace::Block> taken_;       // for it; to be given back unless it is made
  const std::shared_ptr<Garbage> garbage_ = std::make_shared<Garbage>();
  std::optional<EpochDomain::Retirement> retirement_;
  const LeafPut* left_alone_ = nullptr;
  LeafTally tally_;
  bool made_ = false;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_LEAF_CHANGE_H_
