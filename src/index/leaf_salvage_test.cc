#include "index/leaf_salvage.h"

#include <bit>
#include <set>

#include "base/sanitizer.h"
#include "index/leaf_tree_test_base.h"

namespace lamella {
namespace {

class LeafSalvageTest : public LeafTreeTest {
 protected:
  void StartWith(uint64_t count) {
    Start();
    Random random(count);
    for (int i = 0; i < 8; i++) MustInsert(NewBatch(&random, count / 8, 600));
    // So that there are slots, and leaves, that nothing names any more.
    const OwnedKey from = std::next(store_.Walk().begin(), 20)->first;
    const OwnedKey last = std::next(store_.Walk().begin(), 70)->first;
    const InternalKey last_view = last.view();
    ASSERT_TRUE(store_.Remove(from.view(), &last_view).ok());
    model_ = store_.Walk();
  }
  LeafModel Salvaged(LeafSalvage* salvage) const {
    LeafModel left;
    *salvage = SalvageLeaves(*store_.pool, *store_.head, [&](const LeafCell& cell) {
      left[OwnedKey{std::string(cell.key()), cell.tag}] = {cell.location, cell.value_size};
    });
    return left;
  }
  /// How many entries differ.
  uint64_t Others(const LeafModel& left) const {
    uint64_t others = 0;
    for (const auto& [key, value] : model_) {
      const auto at = left.find(key);
      others += at == left.end() || at->second != value ? 1 : 0;
    }
    for (const auto& [key, value] : left) others += model_.contains(key) ? 0 : 1;
    return others;
  }
  void Flip(void* base, size_t bit) const {
    static_cast<char*>(base)[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  /// Each bit of that: what is lost.
  void FlipAll(void* base, size_t bytes, uint64_t others_max) const {
    for (size_t bit = 0; bit < bytes * 8; bit += kSanitized ? 9 : 1) {
      Flip(base, bit);
      LeafSalvage salvage;
      const LeafModel left = Salvaged(&salvage);
      EXPECT_TRUE(salvage.to_the_end) << bit;
      EXPECT_LE(Others(left), others_max) << bit;
      EXPECT_GE(salvage.lost, others_max == 0 ? 0 : Others(left)) << bit;
      Flip(base, bit);
    }
  }
  std::vector<PmPtr> Leaves() const {
    std::vector<PmPtr> leaves;
    const PmWord* link = store_.head;
    for (PmPtr at; DecodeLeafLink(link->load(), &at) && at; link = &store_.pool->At<Leaf>(at)->next)
      leaves.push_back(at);
    return leaves;
  }

  LeafModel model_;
};

// By linearity it is enough to look at the differences to one link.
TEST(LeafLink, DiffersFromEachOtherInFourBitsAtLeast) {
  const auto bits = [](uint64_t target) {
    return std::popcount(EncodeLeafLink(PmPtr(target)) ^ kLeafEndLink);
  };
  for (int a = 0; a < 52; a++) {
    EXPECT_GE(bits(uint64_t{1} << a), 4) << a;
    for (int b = 0; b < a; b++) {
      EXPECT_GE(bits(uint64_t{1} << a | uint64_t{1} << b), 4) << a << " " << b;
      for (int c = 0; c < b; c++)
        EXPECT_GE(bits(uint64_t{1} << a | uint64_t{1} << b | uint64_t{1} << c), 4);
    }
  }
}

TEST(LeafLink, OneFlippedBitIsMendedAndTwoAreFound) {
  Random random(1);
  for (int i = 0; i < 200; i++) {
    const PmPtr to(static_cast<uint32_t>(random.Uniform(16)), random.Next() & PmPtr::kOffsetMask);
    const uint64_t link = EncodeLeafLink(to);
    EXPECT_EQ(MendLeafLink(link), to);
    for (int a = 0; a < 64; a++) {
      PmPtr at;
      EXPECT_FALSE(DecodeLeafLink(link ^ uint64_t{1} << a, &at));
      EXPECT_EQ(MendLeafLink(link ^ uint64_t{1} << a), to);
      for (int b = 0; b < a; b++)
        EXPECT_EQ(MendLeafLink(link ^ uint64_t{1} << a ^ uint64_t{1} << b), std::nullopt);
    }
  }
  EXPECT_EQ(MendLeafLink(0), std::nullopt);
}

TEST_F(LeafSalvageTest, OfASoundTreeAllIsLeft) {
  StartWith(600);
  LeafSalvage salvage;
  EXPECT_EQ(Others(Salvaged(&salvage)), 0u);
  EXPECT_TRUE(salvage.to_the_end);
  EXPECT_EQ(salvage.lost, 0u);
  EXPECT_EQ(salvage.entries, model_.size());
  Start();
  EXPECT_TRUE(Salvaged(&salvage).empty());
  EXPECT_TRUE(salvage.to_the_end);
}

TEST_F(LeafSalvageTest, AFlippedBitOfALeafOrAHeadCostsNothing) {
  StartWith(600);
  FlipAll(store_.head, sizeof(PmWord), 0);
  const std::vector<PmPtr> leaves = Leaves();
  ASSERT_GT(leaves.size(), 10u);
  for (const PmPtr place : {leaves.front(), leaves[3], leaves[leaves.size() / 2], leaves.back()})
    FlipAll(store_.pool->At<Leaf>(place), sizeof(Leaf), 0);
}

TEST_F(LeafSalvageTest, AFlippedBitOfACellCostsItsEntry) {
  StartWith(200);
  const auto it = store_.tree->NewIterator(false);
  uint64_t tried = 0;
  for (it->SeekToFirst(); it->Valid() && tried < 20; it->Next(), tried++) {
    auto* cell = store_.pool->At<LeafCell>(PmPtr(it->place_word()));
    FlipAll(cell, LeafCell::kKeyOffset + std::min<size_t>(cell->key_size, 20), 1);
  }
  EXPECT_EQ(tried, 20u);
}

// Damage that is no flipped bit is told, and what cells are left is found.
TEST_F(LeafSalvageTest, WhereTheListBreaksCellsAreLeft) {
  StartWith(600);
  const std::vector<PmPtr> leaves = Leaves();
  store_.pool->At<Leaf>(leaves[4])->next.store(0x1234'5678'9abc);
  LeafSalvage salvage;
  const LeafModel left = Salvaged(&salvage);
  EXPECT_FALSE(salvage.to_the_end);
  EXPECT_LT(left.size(), model_.size());
  std::set<std::pair<std::string, uint64_t>> cells;
  ForEachCell(*store_.pool, LeafStore::kSpaceKind,
              [&](const LeafCell& cell) { cells.emplace(cell.key(), cell.tag); });
  for (const auto& [key, value] : model_)
    EXPECT_TRUE(cells.contains({std::string(key.view().user_key), key.view().tag}));
}

}  // namespace
}  // namespace lamella
