#include "engine/tlsm/tlsm_table.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/sanitizer.h"
#include "engine/table_header.h"
#include "engine/tlsm/salvage.h"
#include "engine/tlsm/tlsm_test_base.h"
#include "testing/format_doc.h"

namespace lamella {
namespace {

using TlsmTableTest = TlsmTest;
using TlsmTableDamage = TlsmTest;

constexpr testing::KeyShape kShapes[] = {
    testing::KeyShape::kMixed, testing::KeyShape::kCommonPrefix, testing::KeyShape::kBinary};

// Of every size of the layers, and of keys whose heads are alike.
TEST_F(TlsmTableTest, FindsWhatASortedMapFinds) {
  Random random(301);
  for (const Shape shape : kShapes) {
    for (const uint64_t count : {1, 2, 7, 8, 9, 63, 64, 65, 256, 257, 3000, 9000}) {
      const uint64_t keys = count / 2 + 1;
      const Elements elements = RandomElements(&random, shape, count, keys);
      const TablePtr table = BuildOne(elements);
      ASSERT_NE(table, nullptr);
      EXPECT_EQ(table->info().records, elements.size());
      for (int i = 0; i < 400; i++) {
        const OwnedKey target = RandomTarget(&random, shape, keys, elements);
        const InternalKey key{target.user_key, target.tag};
        for (const bool verify : {false, true}) {
          const Lookup found = FindIn(*table, key, verify);
          const auto expected = elements.lower_bound(target);
          if (expected == elements.end() || expected->first.user_key != target.user_key) {
            ASSERT_EQ(found.state, LookupState::kAbsent);
            continue;
          }
          const bool deleted = TagKind(expected->first.tag) == RecordKind::kDelete;
          ASSERT_EQ(found.state, deleted ? LookupState::kDeleted : LookupState::kFound);
          ASSERT_EQ(At(found.place)->tag(), expected->first.tag);
          ASSERT_EQ(At(found.place)->key(), target.user_key);
          if (!deleted) {
            ASSERT_EQ(found.value, At(expected->second)->value());
          }
        }
      }
      EXPECT_EQ(ProblemsOf(*table), std::vector<std::string>());
    }
  }
}

// Of a pool that has single free chunks only: the parts of a table lie far from each other.
TEST_F(TlsmTableTest, AnIndexMayLieInManyRuns) {
  Random random(308);
  options_.pool_bytes_max = 16 << 20;
  CreateParts(1);
  const Elements elements = RandomElements(&random, Shape::kMixed, 9000, 9000);
  std::vector<ChunkRef> claimed(1);
  while (Claim(&claimed.back(), 1, Claimant::kReclaim).ok()) claimed.emplace_back();
  claimed.pop_back();
  for (size_t i = 0; i < claimed.size(); i += 2) pool_->Free(claimed[i], &*persister_);
  const TablePtr table = BuildOne(elements);
  ASSERT_NE(table, nullptr);
  ASSERT_GT(table->regions().front()->extents().size(), 2u) << "the control";
  for (const auto& [key, place] : elements) {
    const Lookup found = FindIn(*table, {key.user_key, key.tag}, true);
    ASSERT_TRUE(found.state == LookupState::kFound || found.state == LookupState::kDeleted);
    ASSERT_EQ(At(found.place)->tag(), key.tag);
  }
  EXPECT_EQ(ProblemsOf(*table), std::vector<std::string>());
}

TEST_F(TlsmTableTest, IteratorsWalkBothWaysFromEverywhere) {
  Random random(302);
  for (const Shape shape : kShapes) {
    const Elements elements = RandomElements(&random, shape, 700, 400);
    const TablePtr table = BuildOne(elements);
    std::vector<OwnedKey> keys;
    for (const auto& [key, place] : elements) keys.push_back(key);
    const auto it = table->NewIterator(true);
    const auto expect_at = [&](size_t i) {
      ASSERT_EQ(it->Valid(), i < keys.size()) << i;
      if (i >= keys.size()) return;
      ASSERT_EQ(it->key().user_key, keys[i].user_key);
      ASSERT_EQ(it->key().tag, keys[i].tag);
    };
    it->SeekToFirst();
    for (size_t i = 0; i <= keys.size(); i++) {
      expect_at(i);
      if (i < keys.size()) it->Next();
    }
    it->SeekToLast();
    for (size_t i = keys.size(); i-- > 0;) {
      expect_at(i);
      it->Prev();
    }
    EXPECT_FALSE(it->Valid());
    for (int i = 0; i < 500; i++) {
      const OwnedKey target = RandomTarget(&random, shape, 400, elements);
      const auto after = elements.lower_bound(target);
      const auto index = static_cast<size_t>(std::distance(elements.begin(), after));
      it->Seek({target.user_key, target.tag});
      expect_at(index);
      it->SeekForPrev({target.user_key, target.tag});
      const bool exact = index < keys.size() && keys[index].user_key == target.user_key &&
                         keys[index].tag == target.tag;
      expect_at(exact ? index : index - 1);
    }
  }
}

// With checksums verified: what is found is right, or damage is reported, whichever byte of the
// list is another; and a check finds it.
TEST_F(TlsmTableDamage, AChangedByteIsNeverAWrongAnswer) {
  Random random(303);
  const Elements elements = RandomElements(&random, Shape::kMixed, 300, 150);
  const TablePtr table = BuildOne(elements);
  TableHeader header;
  uint64_t header_bytes = 0;
  ASSERT_TRUE(ReadTableHeader(*table->regions().front(), &header, &header_bytes));
  std::vector<char*> bytes = IndexBytes(*table);
  uint64_t reported = 0;
  constexpr uint64_t kStep = LAMELLA_ADDRESS_SANITIZER ? 7 : 1;
  for (uint64_t at = header_bytes; at < bytes.size() - kLineBytes; at += kStep) {
    *bytes[at] = static_cast<char>(*bytes[at] ^ 1 << at % 8);
    bool damaged = false;
    for (const auto& [key, place] : elements) {
      const Lookup found = FindIn(*table, {key.user_key, key.tag}, true);
      if (found.state == LookupState::kDamaged) {
        damaged = true;
        continue;
      }
      ASSERT_NE(found.state, LookupState::kAbsent) << "byte " << at;
      ASSERT_EQ(At(found.place)->tag(), key.tag) << "byte " << at;
    }
    reported += damaged ? 1 : 0;
    if (damaged) {
      EXPECT_FALSE(ProblemsOf(*table).empty()) << "byte " << at;
    }
    *bytes[at] = static_cast<char>(*bytes[at] ^ 1 << at % 8);
  }
  EXPECT_GT(reported, elements.size() / kStep) << "the control: most bytes matter";
  EXPECT_TRUE(ProblemsOf(*table).empty());
}

TEST_F(TlsmTableTest, OpenRefusesAHeaderOrAnEndThatIsDamaged) {
  Random random(304);
  const TablePtr table = BuildOne(RandomElements(&random, Shape::kMixed, 50, 30));
  const auto open = [&] {
    TablePtr opened;
    return TlsmTable::Open(pool_.get(), table->info(), table->place(), table->regions(), &opened);
  };
  EXPECT_TRUE(open().ok());
  const std::vector<char*> bytes = IndexBytes(*table);
  for (const uint64_t at : {uint64_t{3}, uint64_t{30}, uint64_t{bytes.size() - 60}}) {
    *bytes[at] = static_cast<char>(*bytes[at] ^ 4);
    EXPECT_TRUE(open().IsCorruption()) << at;
    *bytes[at] = static_cast<char>(*bytes[at] ^ 4);
  }
}

class TlsmSalvage : public TlsmTest {
 protected:
  Elements SalvageOf(const LevelTable& table, uint64_t* lost) const {
    std::vector<MergedRecord> kept;
    std::vector<LostRun> runs;
    SalvageTlsmTable(*pool_, table.info(), table.place(), RegionsOf(table), &kept, &runs);
    *lost = 0;
    for (const LostRun& run : runs) *lost += run.records;
    Elements found;
    for (const MergedRecord& record : kept)
      found[{std::string(record.key.user_key), record.key.tag}] = record.place;
    return found;
  }
  struct Compacted {
    TablePtr table;
    Elements living;
  };
  /// A table of two thirds of the records that its buffer has.
  Compacted BuildWithDropped(uint64_t seed) {
    Random random(seed);
    const TablePtr flushed = BuildOne(RandomElements(&random, Shape::kMixed, 300, 100));
    Elements living = ElementsOf(*flushed);
    for (auto at = living.begin(); at != living.end();)
      at = random.OneIn(3) ? living.erase(at) : std::next(at);
    BuildPlan plan = PlanFor(living);
    plan.copy_all = false;
    plan.regions = RegionsOf(*flushed);
    const MadeTables made = Build(living, std::move(plan));
    EXPECT_EQ(made.size(), 1u);
    return {made.empty() ? nullptr : made.front(), std::move(living)};
  }
};

TEST_F(TlsmSalvage, OfAListWithOneChangedByteNothingIsLost) {
  Random random(305);
  const TablePtr table = BuildOne(RandomElements(&random, Shape::kMixed, 200, 100));
  const Elements elements = ElementsOf(*table);
  for (char* const byte : IndexBytes(*table)) {
    const auto bit = static_cast<char>(1 << random.Uniform(8));
    *byte = static_cast<char>(*byte ^ bit);
    uint64_t lost = 0;
    ASSERT_EQ(SalvageOf(*table, &lost), elements);
    ASSERT_EQ(lost, 0u);
    *byte = static_cast<char>(*byte ^ bit);
  }
}

// What a compaction dropped lies in the buffer still: it does not come back, whatever is lost.
TEST_F(TlsmSalvage, WhatWasDroppedStaysAway) {
  const Compacted compacted = BuildWithDropped(306);
  ASSERT_NE(compacted.table, nullptr);
  const LevelTable& table = *compacted.table;
  const Elements& living = compacted.living;
  EXPECT_EQ(ElementsOf(table), living) << "records stay where they are";
  const std::vector<char*> bytes = IndexBytes(table);
  for (uint64_t at = 0; at + kLineBytes <= bytes.size(); at += kLineBytes) {
    std::string line;
    for (uint64_t i = 0; i < kLineBytes; i++) line += *bytes[at + i];
    for (uint64_t i = 0; i < kLineBytes; i++) *bytes[at + i] = 0;
    uint64_t lost = 0;
    const Elements found = SalvageOf(table, &lost);
    ASSERT_EQ(found.size() + lost, living.size());
    for (const auto& [key, place] : found) ASSERT_TRUE(living.contains(key));
    for (uint64_t i = 0; i < kLineBytes; i++) *bytes[at + i] = line[i];
  }
}

// Nor does it where a record is damaged, and what was dropped beside it makes up the number.
TEST_F(TlsmSalvage, WhatWasDroppedTakesNoDamagedRecordsPlace) {
  const Compacted compacted = BuildWithDropped(311);
  ASSERT_NE(compacted.table, nullptr);
  const LevelTable& table = *compacted.table;
  const Elements& living = compacted.living;
  for (const auto& [key, place] : living) {
    auto* const byte = const_cast<char*>(At(place)->key_data());
    *byte = static_cast<char>(*byte ^ 1);
    std::vector<MergedRecord> kept;
    std::vector<LostRun> runs;
    SalvageTlsmTable(*pool_, table.info(), table.place(), RegionsOf(table), &kept, &runs);
    ASSERT_EQ(kept.size(), living.size() - 1) << key.user_key;
    for (const MergedRecord& record : kept)
      ASSERT_TRUE(living.contains({std::string(record.key.user_key), record.key.tag}));
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs.front().records, 1u);
    EXPECT_FALSE(runs.front().may_be_found());
    *byte = static_cast<char>(*byte ^ 1);
  }
}

TEST_F(TlsmSalvage, OfNoListAllIsFoundWhereNothingWasDropped) {
  Random random(307);
  const TablePtr table = BuildOne(RandomElements(&random, Shape::kMixed, 300, 100));
  const Elements elements = ElementsOf(*table);
  for (char* const byte : IndexBytes(*table)) *byte = 0;
  uint64_t lost = 0;
  EXPECT_EQ(SalvageOf(*table, &lost), elements);
  EXPECT_EQ(lost, 0u);
}

class TlsmBuilderTest : public TlsmTest {};

TEST_F(TlsmBuilderTest, TablesAreCutBetweenKeysAndKnowWhatTheyHave) {
  Random random(308);
  const Elements elements = RandomElements(&random, Shape::kMixed, 3000, 700);
  BuildPlan plan = PlanFor(elements);
  plan.table_bytes = 20000;
  const MadeTables made = Build(elements, std::move(plan));
  ASSERT_GT(made.size(), 3u);
  uint64_t records = 0;
  std::string last;
  std::map<uint64_t, uint64_t> shares;
  for (const TablePtr& table : made) {
    records += table->info().records;
    EXPECT_LT(last, table->info().smallest) << "all versions of a key are in one table";
    last = table->info().largest;
    EXPECT_TRUE(ProblemsOf(*table).empty());
    for (const RegionShare& share : table->place().regions) shares[share.region] += share.bytes;
  }
  EXPECT_EQ(records, elements.size());
  EXPECT_EQ(shares.size(), made.size() + 1) << "a list each, and one buffer";
  std::vector<uint64_t> unknown;
  EXPECT_EQ(FindTables(FindRegions(pool_.get()), &unknown).size(), made.size());
  EXPECT_TRUE(unknown.empty());
}

TEST_F(TlsmBuilderTest, OnlyWhatLiesInSparseBuffersIsCopied) {
  Random random(309);
  const TablePtr a = BuildOne(RandomElements(&random, Shape::kMixed, 200, 100));
  const TablePtr b = BuildOne(RandomElements(&random, Shape::kMixed, 200, 100, 1000));
  Elements all = ElementsOf(*a);
  const Elements stay = ElementsOf(*b);
  all.insert(stay.begin(), stay.end());
  BuildPlan plan = PlanFor(all);
  plan.copy_all = false;
  plan.regions = RegionsOf(*a);
  plan.regions.merge(RegionsOf(*b));
  plan.sparse = {a->place().regions[1].region};
  const MadeTables made = Build(all, std::move(plan));
  ASSERT_EQ(made.size(), 1u);
  const Elements found = ElementsOf(*made.front());
  ASSERT_EQ(found.size(), all.size());
  for (const auto& [key, place] : found)
    EXPECT_EQ(place == all.at(key), stay.contains(key)) << key.user_key;
  for (const RegionShare& share : made.front()->place().regions)
    EXPECT_NE(share.region, a->place().regions[1].region);
  EXPECT_TRUE(ProblemsOf(*made.front()).empty());
}

// A damaged record is not given a checksum that holds.
TEST_F(TlsmBuilderTest, ADamagedRecordIsNotCopied) {
  Random random(310);
  const Elements elements = RandomElements(&random, Shape::kMixed, 20, 20);
  char* const key = const_cast<char*>(At(elements.begin()->second)->key_data());
  *key = static_cast<char>(*key ^ 1);
  TlsmBuilder builder(pool_.get(), PlanFor(elements), [this] { return next_number_++; });
  EXPECT_TRUE(
      builder.Add(RecordOf(At(elements.begin()->second), elements.begin()->second)).IsCorruption());
}

TEST(Format, TlsmNodeIsAsDocumented) {
  EXPECT_EQ(testing::FormatDifference(
                "TlsmNode", sizeof(TlsmNode),
                {LAMELLA_FORMAT_FIELD(TlsmNode, head), LAMELLA_FORMAT_FIELD(TlsmNode, tag),
                 LAMELLA_FORMAT_FIELD(TlsmNode, place), LAMELLA_FORMAT_FIELD(TlsmNode, record_size),
                 LAMELLA_FORMAT_FIELD(TlsmNode, checksum)}),
            "");
}

}  // namespace
}  // namespace lamella
