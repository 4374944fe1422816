#include "index/leaf.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "index/leaf_index.h"
#include "index/leaf_tree_test_base.h"
#include "testing/format_doc.h"

namespace lamella {
namespace {

TEST(Leaf, LiesAsTheDocumentSays) {
  EXPECT_EQ(testing::FormatDifference(
                "Leaf", sizeof(Leaf),
                {LAMELLA_FORMAT_FIELD(Leaf, order), LAMELLA_FORMAT_FIELD(Leaf, next),
                 LAMELLA_FORMAT_FIELD(Leaf, seal), LAMELLA_FORMAT_FIELD(Leaf, left_out),
                 LAMELLA_FORMAT_FIELD(Leaf, reserved0), LAMELLA_FORMAT_FIELD(Leaf, order_copy),
                 LAMELLA_FORMAT_FIELD(Leaf, slots)}),
            "");
  EXPECT_EQ(testing::FormatDifference(
                "LeafSlot", sizeof(LeafSlot),
                {LAMELLA_FORMAT_FIELD(LeafSlot, head), LAMELLA_FORMAT_FIELD(LeafSlot, cell)}),
            "");
  EXPECT_EQ(
      testing::FormatDifference(
          "LeafCell", sizeof(LeafCell),
          {LAMELLA_FORMAT_FIELD(LeafCell, tag), LAMELLA_FORMAT_FIELD(LeafCell, location),
           LAMELLA_FORMAT_FIELD(LeafCell, value_size), LAMELLA_FORMAT_FIELD(LeafCell, checksum),
           LAMELLA_FORMAT_FIELD(LeafCell, key_size), LAMELLA_FORMAT_FIELD(LeafCell, key_start)}),
      "");
}

TEST(Leaf, AnOrderReadsBackAndAFlippedBitOfItIsNoticed) {
  Random random(1);
  for (size_t count = 0; count <= kLeafSlots; count++) {
    std::vector<uint8_t> slots(kLeafSlots);
    std::iota(slots.begin(), slots.end(), uint8_t{0});
    for (size_t i = slots.size(); i-- > 1;) std::swap(slots[i], slots[random.Uniform(i + 1)]);
    slots.resize(count);
    const LeafOrder order = LeafOrder::Of(slots);
    EXPECT_TRUE(order.MayBeRead() && order.IsSound());
    ASSERT_EQ(order.count(), count);
    for (uint32_t i = 0; i < count; i++) EXPECT_EQ(order.slot(i), slots[i]);
    for (int bit = 0; bit < 64; bit++)
      EXPECT_FALSE(LeafOrder{order.word ^ uint64_t{1} << bit}.MayBeRead()) << bit;
  }
  EXPECT_FALSE(LeafOrder{}.MayBeRead()) << "zeros are no order";
}

TEST(Leaf, AnOrderThatNamesASlotTwiceOrLeadsOutOfTheLeafIsNotSound) {
  const uint8_t twice[] = {3, 7, 3};
  EXPECT_TRUE(LeafOrder::Of(twice).MayBeRead());
  EXPECT_FALSE(LeafOrder::Of(twice).IsSound());
  for (const uint8_t slot : {14, 15}) {
    const uint8_t beyond[] = {slot};
    EXPECT_FALSE(LeafOrder::Of(beyond).MayBeRead());
  }
  const std::vector<uint8_t> many(15, 1);
  EXPECT_FALSE(LeafOrder::Of(many).MayBeRead());
  // What is after the count is zero.
  const uint64_t stray = LeafOrder::Of(std::vector<uint8_t>{1, 2}).word ^ (uint64_t{0x33} << 12);
  EXPECT_TRUE(LeafOrder{stray}.MayBeRead());
  EXPECT_FALSE(LeafOrder{stray}.IsSound());
}

TEST(LeafIndex, ALowBoundIsBetweenItsNeighbours) {
  Random random(3);
  for (int i = 0; i < 20000; i++) {
    OwnedKey a{LeafKey(random.Uniform(400)), random.Next()};
    OwnedKey b{random.OneIn(4) ? a.user_key : LeafKey(random.Uniform(400)), random.Next()};
    if (!OwnedKeyLess()(a, b)) std::swap(a, b);
    if (a == b) continue;
    const size_t least = random.Uniform(b.user_key.size() + 1);
    const LeafLow low = LeafLow::Between(a.view(), b.view(), least);
    EXPECT_LT(CompareInternal(a.view(), low.view()), 0);
    EXPECT_LE(CompareInternal(low.view(), b.view()), 0);
    EXPECT_EQ(low.key.substr(0, least), b.user_key.substr(0, least));
  }
}

// Leaves by their low bounds.
using Bounds = std::map<OwnedKey, PmPtr, OwnedKeyLess>;

std::vector<PmPtr> LeavesOf(const LeafIndex::NodePtr& root, bool forward) {
  std::vector<PmPtr> leaves;
  LeafIndex::Cursor at(root.get());
  for (forward ? at.SeekToFirst() : at.SeekToLast(); at.Valid(); forward ? at.Next() : at.Prev())
    leaves.push_back(at.leaf());
  return leaves;
}

std::string IndexProblem(const LeafIndex::NodePtr& root, const Bounds& bounds, Random* random) {
  std::vector<PmPtr> leaves;
  for (const auto& [low, leaf] : bounds) leaves.push_back(leaf);
  if (LeavesOf(root, true) != leaves) return "its leaves are not those";
  std::ranges::reverse(leaves);
  if (LeavesOf(root, false) != leaves) return "backwards its leaves are not those";
  for (int i = 0; i < 200 && !bounds.empty(); i++) {
    const OwnedKey target{LeafKey(random->Uniform(3000)),
                          random->OneIn(2) ? kTagFirst : random->Next()};
    auto at = bounds.upper_bound(target);
    if (at != bounds.begin()) --at;
    LeafIndex::Cursor cursor(root.get());
    cursor.Seek(target.view());
    if (!cursor.Valid() || cursor.leaf() != at->second) return "a search ends elsewhere";
  }
  return "";
}

TEST(LeafIndex, EqualsAModelAndOldRootsStayAsTheyWere) {
  for (uint64_t seed = 1; seed <= 12; seed++) {
    SCOPED_TRACE(Concat("seed ", seed));
    Random random(seed);
    uint64_t next_leaf = 1;
    Bounds bounds;
    std::vector<LeafIndex::Child> first;
    const uint64_t count = seed % 4 == 0 ? 1 : random.Uniform(9000);
    for (uint64_t i = 0; i < count; i++) {
      bounds[{LeafKey(random.Uniform(3000)), random.OneIn(3) ? random.Next() : kTagFirst}] =
          PmPtr(next_leaf++);
    }
    for (const auto& [low, leaf] : bounds) first.push_back({{low.user_key, low.tag}, {}, leaf});
    LeafIndex::NodePtr root = LeafIndex::Build(std::move(first));
    ASSERT_EQ(IndexProblem(root, bounds, &random), "");
    for (int round = 0; round < 12 && root != nullptr; round++) {
      const LeafIndex::NodePtr before = root;
      const Bounds bounds_before = bounds;
      // Each leaf of some is replaced by none, one or more, all of its range; the last rounds take
      // out most.
      std::vector<LeafIndex::Edit> edits;
      const uint64_t one_in = uint64_t{1} << random.Uniform(9);
      const uint64_t none_in = round > 7 ? 1 : 4;
      for (auto at = bounds_before.begin(); at != bounds_before.end(); ++at) {
        if (!random.OneIn(one_in)) continue;
        LeafIndex::Edit edit{.low = {at->first.user_key, at->first.tag}};
        bounds.erase(at->first);
        Bounds in_place;
        if (!random.OneIn(none_in)) {
          in_place[at->first] = PmPtr(next_leaf++);
          const auto end = std::next(at);
          for (uint64_t more = random.Uniform(4); more > 0; more--) {
            const OwnedKey low{LeafKey(random.Uniform(3000)), kTagFirst};
            const bool fits = OwnedKeyLess()(at->first, low) &&
                              (end == bounds_before.end() || OwnedKeyLess()(low, end->first));
            if (fits) in_place[low] = PmPtr(next_leaf++);
          }
        }
        for (const auto& [low, leaf] : in_place)
          edit.leaves.push_back({{low.user_key, low.tag}, {}, leaf});
        bounds.insert(in_place.begin(), in_place.end());
        edits.push_back(std::move(edit));
      }
      root = LeafIndex::Apply(root, edits);
      ASSERT_EQ(root == nullptr, bounds.empty());
      ASSERT_EQ(IndexProblem(root, bounds, &random), "");
      ASSERT_EQ(IndexProblem(before, bounds_before, &random), "");
    }
  }
}

class LeafSpaceTest : public LeafTreeTest {};

TEST_F(LeafSpaceTest, BlocksThatAreTakenNeverLieOverEachOther) {
  Start();
  Random random(5);
  std::map<uint64_t, LeafSpace::Block> taken;  // by place
  LeafSpace* const space = store_.space.get();
  for (int i = 0; i < 6000; i++) {
    if (!taken.empty() && random.OneIn(i % 1000 < 500 ? 4 : 2)) {
      auto at = taken.lower_bound(random.Uniform(64 << 20));
      if (at == taken.end()) --at;
      space->Free(at->second);
      taken.erase(at);
      continue;
    }
    const bool leaf = random.OneIn(3);
    const uint64_t bytes = leaf ? sizeof(Leaf)
                           : random.OneIn(500)
                               ? LeafCell::BytesFor(UINT16_MAX)  // more than a chunk
                               : LeafCell::BytesFor(random.Uniform(random.OneIn(9) ? 2000 : 40));
    LeafSpace::Block block;
    uint32_t epoch = 0;
    const Status s = space->Allocate(leaf ? LeafSpace::Use::kLeaf : LeafSpace::Use::kCell, bytes,
                                     &*store_.persister, &block, &epoch);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_TRUE(!leaf || block.place.offset() % sizeof(Leaf) == 0);
    const auto after = taken.lower_bound(block.place.word);
    ASSERT_TRUE(after == taken.end() || block.place.word + bytes <= after->first);
    ASSERT_TRUE(after == taken.begin() ||
                std::prev(after)->first + std::prev(after)->second.bytes <= block.place.word);
    taken[block.place.word] = block;
  }
  const uint64_t claimed = space->claimed_bytes();
  // At the next open what is marked stays taken, and the rest is free.
  LeafSpace opened(store_.pool.get(), LeafStore::kSpaceKind, 0);
  uint64_t marked = 0;
  for (const auto& [place, block] : taken) {
    opened.MarkTaken(block);
    marked += block.bytes;
  }
  ASSERT_TRUE(opened.Opened().ok());
  EXPECT_EQ(opened.claimed_bytes(), claimed);
  uint64_t free = 0;
  for (;;) {
    LeafSpace::Block block;
    uint32_t epoch = 0;
    ASSERT_TRUE(
        opened.Allocate(LeafSpace::Use::kCell, sizeof(LeafCell), &*store_.persister, &block, &epoch)
            .ok());
    if (opened.claimed_bytes() != claimed) break;
    free += block.bytes;
    const auto after = taken.lower_bound(block.place.word);
    ASSERT_TRUE(after == taken.end() || block.place.word + block.bytes <= after->first);
    ASSERT_TRUE(after == taken.begin() ||
                std::prev(after)->first + std::prev(after)->second.bytes <= block.place.word);
  }
  EXPECT_GT(free, 0u);
  EXPECT_LE(free + marked, claimed);
}

TEST_F(LeafSpaceTest, WhereOnePartOfThePoolIsFullAnotherOneServes) {
  options_.part_paths.push_back(dir_.Sub("pool.1"));
  options_.pool_bytes_max = 2 << 20;
  Start();
  uint64_t taken = 0;
  std::set<uint32_t> parts;
  for (Status s; s.ok(); taken++) {
    LeafSpace::Block block;
    uint32_t epoch = 0;
    s = store_.space->Allocate(LeafSpace::Use::kLeaf, sizeof(Leaf), &*store_.persister, &block,
                               &epoch);
    EXPECT_TRUE(s.ok() || s.IsNoSpace()) << s.ToString();
    if (s.ok()) parts.insert(block.place.part());
    ASSERT_LT(taken, 1'000'000u);
  }
  EXPECT_EQ(parts.size(), 2u);
  EXPECT_LE(store_.pool->chunks_available(), store_.pool->chunks_kept_for_index(0));
}

// Keeps B3: what is to be left serves nobody, and goes with the last that is taken of it.
TEST_F(LeafSpaceTest, ChunksThatAreToBeLeftGoOnceNothingIsTakenOfThem) {
  Start();
  LeafSpace* const space = store_.space.get();
  Random random(7);
  std::vector<LeafSpace::Block> taken;
  const auto take = [&](int count) {
    for (int i = 0; i < count; i++) {
      const bool leaf = random.OneIn(3);
      LeafSpace::Block block;
      uint32_t epoch = 0;
      const Status s = space->Allocate(leaf ? LeafSpace::Use::kLeaf : LeafSpace::Use::kCell,
                                       leaf ? sizeof(Leaf) : LeafCell::BytesFor(random.Uniform(40)),
                                       &*store_.persister, &block, &epoch);
      ASSERT_TRUE(s.ok()) << s.ToString();
      taken.push_back(block);
    }
  };
  const auto chunk_of = [&](const LeafSpace::Block& block) {
    ChunkRef chunk;
    return OwningChunk(*store_.pool, block.place, &chunk) ? chunk.index : 0;
  };
  std::set<uint32_t> left;
  const auto leave = [&](const ChunkRef& chunk) { return left.contains(chunk.index); };
  for (int round = 0; round < 30; round++) {
    take(3000);
    std::set<uint32_t> used;
    for (const auto& block : taken) used.insert(chunk_of(block));
    left.clear();
    for (const uint32_t chunk : used)
      if (random.OneIn(3)) left.insert(chunk);
    EXPECT_EQ(space->LeaveChunks(leave, &*store_.persister), left.size());
    const size_t before = taken.size();
    take(1000);
    for (size_t i = before; i < taken.size(); i++)
      ASSERT_FALSE(left.contains(chunk_of(taken[i]))) << "round " << round;
    std::erase_if(taken, [&](const LeafSpace::Block& block) {
      if (!left.contains(chunk_of(block)) && !random.OneIn(4)) return false;
      space->Free(block);
      return true;
    });
    const uint64_t claimed = space->claimed_bytes();
    if (random.OneIn(3)) continue;  // they serve again
    EXPECT_EQ(space->LeaveChunks(leave, &*store_.persister), 0u);
    EXPECT_EQ(space->claimed_bytes() < claimed, !left.empty());
    ChunkRef chunk;
    for (const uint32_t index : left)
      EXPECT_FALSE(OwningChunk(*store_.pool, PmPtr(0, index * store_.pool->chunk_bytes()), &chunk));
    for (const auto& block : taken) ASSERT_NE(chunk_of(block), 0u);
    if (!random.OneIn(4)) continue;
    // The empty ones go by themselves, and what has something in it serves on.
    const uint32_t emptied = chunk_of(taken.front());
    std::erase_if(taken, [&](const LeafSpace::Block& block) {
      if (chunk_of(block) != emptied) return false;
      space->Free(block);
      return true;
    });
    EXPECT_TRUE(space->HasEmpty());
    space->FreeEmpty(&*store_.persister);
    EXPECT_FALSE(space->HasEmpty());
    EXPECT_FALSE(OwningChunk(*store_.pool, PmPtr(0, emptied * store_.pool->chunk_bytes()), &chunk));
    for (const auto& block : taken) ASSERT_NE(chunk_of(block), 0u);
  }
  for (const auto& block : taken) space->Free(block);
  const auto all = [](const ChunkRef&) { return true; };
  EXPECT_EQ(space->LeaveChunks(all, &*store_.persister), 0u);
  EXPECT_EQ(space->claimed_bytes(), 0u);
}

TEST_F(LeafSpaceTest, BlocksThatLieOverEachOtherAtOpenAreCorruption) {
  Start();
  LeafSpace::Block block;
  uint32_t epoch = 0;
  ASSERT_TRUE(
      store_.space->Allocate(LeafSpace::Use::kCell, 64, &*store_.persister, &block, &epoch).ok());
  LeafSpace opened(store_.pool.get(), LeafStore::kSpaceKind, 0);
  opened.MarkTaken(block);
  opened.MarkTaken({LeafSpace::Use::kCell, PmPtr(block.place.word + 32), 64});
  EXPECT_TRUE(opened.Opened().IsCorruption());
}

TEST_F(LeafSpaceTest, HoldsNothingOutsideItsChunks) {
  Start();
  LeafSpace::Block block;
  uint32_t epoch = 0;
  const auto allocate = [&](LeafSpace::Use use) {
    return store_.space->Allocate(use, sizeof(Leaf), &*store_.persister, &block, &epoch);
  };
  ASSERT_TRUE(allocate(LeafSpace::Use::kCell).ok());
  EXPECT_TRUE(store_.space->MayHold(block, &epoch));
  block.use = LeafSpace::Use::kLeaf;
  EXPECT_FALSE(store_.space->MayHold(block, &epoch)) << "a leaf where cells lie";
  ASSERT_TRUE(allocate(LeafSpace::Use::kLeaf).ok());
  EXPECT_TRUE(store_.space->MayHold(block, &epoch));
  block.place.word += 64;
  EXPECT_FALSE(store_.space->MayHold(block, &epoch)) << "not a leaf's place";
  block.place = PmPtr(0, 0);
  EXPECT_FALSE(store_.space->MayHold(block, &epoch));
  block.place = PmPtr(0, uint64_t{1} << 40);
  EXPECT_FALSE(store_.space->MayHold(block, &epoch));
  block.place = PmPtr(9, 64 << 10);
  EXPECT_FALSE(store_.space->MayHold(block, &epoch));
}

}  // namespace
}  // namespace lamella
