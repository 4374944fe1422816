// What lies in the pool may be damaged: a tree notices at open, and searches and walks tell what
// they meet, or answer as if nothing were.
#include <set>

#include "index/leaf_tree_test_base.h"

namespace lamella {
namespace {

class LeafTreeDamageTest : public LeafTreeTest {
 protected:
  void StartWith(uint64_t count) {
    Start();
    Random random(count);
    for (int i = 0; i < 8; i++) MustInsert(NewBatch(&random, count / 8, 600));
    model_ = store_.Walk();
  }
  /// The places of all leaves, along the list.
  std::vector<PmPtr> Leaves() const {
    std::vector<PmPtr> leaves;
    const PmWord* link = store_.head;
    for (PmPtr at; DecodeLeafLink(link->load(), &at) && at; link = &LeafAt(at)->next)
      leaves.push_back(at);
    EXPECT_EQ(link->load(), kLeafEndLink);
    return leaves;
  }
  Leaf* LeafAt(PmPtr place) const { return store_.pool->At<Leaf>(place); }
  void Flip(void* base, size_t bit) const {
    static_cast<char*>(base)[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  /// What a process says that opens the tree as it is now.
  Status OpenAnew() const {
    const auto space = std::make_shared<LeafSpace>(store_.pool.get(), LeafStore::kSpaceKind, 0);
    LeafTree tree(store_.pool.get(), space, store_.head);
    Status s = tree.Open();
    if (s.ok()) s = space->Opened();
    EXPECT_TRUE(s.ok() || s.IsCorruption()) << s.ToString();
    return s;
  }

  LeafModel model_;
};

TEST_F(LeafTreeDamageTest, AnyFlippedBitOfALeafThatCountsIsNoticedAtOpen) {
  StartWith(400);
  ASSERT_TRUE(OpenAnew().ok());
  const std::vector<PmPtr> leaves = Leaves();
  ASSERT_GT(leaves.size(), 10u);
  uint64_t noticed = 0;
  for (const PmPtr place : {leaves.front(), leaves[4], leaves.back()}) {
    Leaf* const leaf = LeafAt(place);
    const LeafOrder order{leaf->order.load()};
    std::set<uint32_t> named;
    for (uint32_t i = 0; i < order.count(); i++) named.insert(order.slot(i));
    for (size_t bit = 0; bit < sizeof(Leaf) * 8; bit++) {
      const size_t byte = bit / 8;
      const size_t slot = (byte - offsetof(Leaf, slots)) / sizeof(LeafSlot);  // large before them
      const bool counts =
          byte < offsetof(Leaf, order_copy) || named.contains(static_cast<uint32_t>(slot));
      Flip(leaf, bit);
      const Status s = OpenAnew();
      EXPECT_EQ(!s.ok(), counts) << "bit " << bit << " of " << DescribePlace(*store_.pool, place);
      if (!s.ok()) {
        EXPECT_TRUE(Says(s, "part 0 chunk")) << s.ToString();
        noticed++;
      }
      Flip(leaf, bit);
    }
  }
  EXPECT_GT(noticed, 3000u);
  for (size_t bit = 0; bit < 64; bit++) {
    Flip(store_.head, bit);
    EXPECT_FALSE(OpenAnew().ok());
    Flip(store_.head, bit);
  }
  EXPECT_TRUE(OpenAnew().ok());
}

TEST_F(LeafTreeDamageTest, AnyFlippedBitOfACellIsNoticedAtOpen) {
  StartWith(200);
  for (const PmPtr place : Leaves()) {
    const LeafView view(store_.pool.get(), place, {});
    const LeafCell* cell = nullptr;
    ASSERT_TRUE(view.Cell(0, true, &cell).ok());
    for (size_t bit = 0; bit < (LeafCell::kKeyOffset + cell->key_size) * 8; bit++) {
      Flip(const_cast<LeafCell*>(cell), bit);
      EXPECT_FALSE(OpenAnew().ok()) << "bit " << bit;
      Flip(const_cast<LeafCell*>(cell), bit);
      if (bit == 400) break;
    }
  }
  EXPECT_TRUE(OpenAnew().ok());
}

TEST_F(LeafTreeDamageTest, AListThatLeadsBackOrAsideIsCorruption) {
  StartWith(400);
  const std::vector<PmPtr> leaves = Leaves();
  const uint64_t last_link = LeafAt(leaves.back())->next.load();
  for (const PmPtr to : {leaves[0], leaves[3], leaves.back()}) {
    LeafAt(leaves.back())->next.store(EncodeLeafLink(to));
    const Status s = OpenAnew();
    EXPECT_TRUE(Says(s, "not in order")) << s.ToString();
    LeafAt(leaves.back())->next.store(last_link);
  }
  // To a cell, into the middle of a leaf, out of the pool, to a chunk of nobody.
  PmPtr cell;
  ASSERT_TRUE(DecodeLeafLink(LeafAt(leaves[0])->slots[0].cell.load(), &cell));
  for (const PmPtr to : {cell, PmPtr(leaves[0].word + 64), PmPtr(0, uint64_t{1} << 40),
                         PmPtr(3, 65536), PmPtr(0, 65536)}) {
    LeafAt(leaves.back())->next.store(EncodeLeafLink(to));
    const Status s = OpenAnew();
    EXPECT_TRUE(Says(s, "where leaves do not")) << s.ToString();
    LeafAt(leaves.back())->next.store(last_link);
  }
  EXPECT_TRUE(OpenAnew().ok());
}

TEST_F(LeafTreeDamageTest, TwoEntriesOfOneCellAndAnEmptyLeafAreCorruption) {
  StartWith(400);
  const std::vector<PmPtr> leaves = Leaves();
  Leaf* const leaf = LeafAt(leaves[2]);
  const uint64_t order = leaf->order.load();
  leaf->order.store(LeafOrder::Of({}).word);
  EXPECT_FALSE(OpenAnew().ok());
  leaf->order.store(order);
  // A leaf's entries may be in the wrong order, or lead to another's cells.
  const uint32_t first = LeafOrder{order}.slot(0);
  const uint32_t second = LeafOrder{order}.slot(1);
  const uint8_t swapped[] = {static_cast<uint8_t>(second), static_cast<uint8_t>(first)};
  leaf->order.store(LeafOrder::Of(swapped).word);
  EXPECT_TRUE(Says(OpenAnew(), "not in order"));
  leaf->order.store(order);
  const uint64_t cell = leaf->slots[first].cell.load();
  leaf->slots[first].cell.store(leaf->slots[second].cell.load());
  EXPECT_FALSE(OpenAnew().ok());
  leaf->slots[first].cell.store(cell);
  EXPECT_TRUE(OpenAnew().ok());
}

// Whatever is damaged under an open tree, what is asked of it answers or tells.
TEST_F(LeafTreeDamageTest, SearchesAndWalksOverDamageEndAndTell) {
  StartWith(400);
  const std::vector<PmPtr> leaves = Leaves();
  uint64_t told = 0;
  for (uint64_t seed = 1; seed <= 600; seed++) {
    Random random(seed);
    Leaf* const leaf = LeafAt(leaves[random.Uniform(leaves.size())]);
    void* base = leaf;
    size_t bits = sizeof(Leaf) * 8;
    PmPtr place;
    if (random.OneIn(2) && DecodeLeafLink(leaf->slots[0].cell.load(), &place) && place) {
      base = store_.pool->Address(place);
      bits = sizeof(LeafCell) * 8;
    }
    const size_t bit = random.Uniform(bits);
    Flip(base, bit);
    const auto it = tree()->NewIterator(true);
    uint64_t steps = 0;
    const bool forward = random.OneIn(2);
    for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
         forward ? it->Next() : it->Prev())
      ASSERT_LE(++steps, model_.size() + kLeafSlots);
    told += it->status().ok() ? 0 : 1;
    for (int i = 0; i < 30; i++) {
      const OwnedKey target = RandomTarget(&random, model_, 600);
      LeafVersion found;
      const Status s = tree()->Find(target.view(), true, &found);
      EXPECT_TRUE(s.ok() || s.IsCorruption());
      if (!s.ok() || !found.place) continue;
      const auto at = model_.find({target.user_key, found.tag});
      ASSERT_TRUE(at != model_.end()) << "made up";
      ASSERT_EQ(at->second, ValueAt(found.location, found.value_size));
    }
    Flip(base, bit);
  }
  EXPECT_GT(told, 100u);
}

TEST_F(LeafTreeDamageTest, AnInsertThatMeetsDamageChangesNothing) {
  StartWith(400);
  Random random(5);
  uint64_t refused = 0;
  for (int round = 0; round < 60; round++) {
    const std::vector<PmPtr> leaves = Leaves();
    Leaf* const leaf = LeafAt(leaves[random.Uniform(leaves.size())]);
    const uint64_t word = leaf->order.load();
    leaf->order.store(word ^ uint64_t{1} << random.Uniform(64));
    const LeafModel batch = NewBatch(&random, 200, 600);
    const Status s = store_.Insert(batch);
    leaf->order.store(word);
    if (s.ok()) {  // it had nothing for that leaf
      model_.insert(batch.begin(), batch.end());
      model_ = Newest(model_);
    } else {
      EXPECT_TRUE(s.IsCorruption()) << s.ToString();
      refused++;
    }
    ASSERT_EQ(Problem(model_, &random, 20, 600), "");
    ASSERT_TRUE(OpenAnew().ok());
  }
  EXPECT_GT(refused, 30u);
}

}  // namespace
}  // namespace lamella
