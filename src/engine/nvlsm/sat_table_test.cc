#include "engine/nvlsm/sat_table.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "engine/nvlsm/sat_builder.h"
#include "index/index_test_base.h"

namespace lamella {
namespace {

constexpr testing::KeyShape kShape = testing::KeyShape::kMixed;

class SatTableTest : public IndexTest {
 protected:
  using TablePtr = std::shared_ptr<const LevelTable>;
  using SatPtr = std::shared_ptr<const SatTable>;

  SatTableTest() { CreateParts(1); }

  std::unique_ptr<SatBuilder> NewBuilder(BuildPlan plan) {
    return std::make_unique<SatBuilder>(pool_.get(), FloorRules(), std::move(plan),
                                        [this] { return next_number_++; });
  }
  void AddAll(const Elements& elements, TableBuilder* builder) {
    uint64_t newer = 0;
    for (auto at = elements.begin(); at != elements.end(); ++at) {
      const Record* const record = At(at->second);
      Status s = builder->Add({record->internal_key(), record->value(), at->second, newer});
      const auto next = std::next(at);
      const bool ends = next == elements.end() || next->first.user_key != at->first.user_key;
      newer = ends ? 0 : TagSequence(at->first.tag);
      if (s.ok() && ends) s = builder->EndKey();
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
  }
  MadeTables Build(const Elements& elements, BuildPlan plan) {
    const auto builder = NewBuilder(std::move(plan));
    AddAll(elements, builder.get());
    MadeTables made;
    const Status s = builder->Finish(&made);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return made;
  }
  SatPtr BuildRun(const Elements& elements) {
    const MadeTables made = Build(elements, BuildPlan());
    EXPECT_EQ(made.size(), 1u);
    return std::static_pointer_cast<const SatTable>(made.front());
  }
  SatPtr AddFloor(const SatPtr& base, const Elements& elements) {
    const auto builder = NewBuilder(BuildPlan{.level = 1});
    builder->BeginPiece(base, UINT64_MAX);
    AddAll(elements, builder.get());
    MadeTables made;
    EXPECT_TRUE(builder->Finish(&made).ok() && made.empty() && builder->made_any());
    builder->Replaces(*base);
    EXPECT_TRUE(builder->FinishGroup(&made).ok());
    EXPECT_EQ(made.size(), 1u);
    return std::static_pointer_cast<const SatTable>(made.front());
  }
  static std::vector<std::string> ProblemsOf(const LevelTable& table) {
    CheckReport report;
    table.Check(&report);
    return report.problems;
  }
  static TableRegions RegionsOf(const std::vector<TablePtr>& tables) {
    TableRegions regions;
    for (const auto& table : tables) {
      for (const auto& region : table->regions()) regions[region->number()] = region;
    }
    return regions;
  }
  static std::vector<uint64_t> NumbersOf(const std::vector<TableInfo>& infos) {
    std::vector<uint64_t> numbers;
    for (const TableInfo& info : infos) numbers.push_back(info.number);
    return numbers;
  }
  // What the table holds, as OpenTable finds it.
  SatPtr Reopened(const SatTable& table) {
    TablePtr opened;
    const Status s =
        SatTable::Open(pool_.get(), table.info(), table.place(), table.regions(), true, &opened);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return std::static_pointer_cast<const SatTable>(opened);
  }
  void ExpectHolds(const SatTable& table, const Elements& elements, Random* random) {
    EXPECT_EQ(ProblemsOf(table), std::vector<std::string>());
    EXPECT_EQ(table.info().records, elements.size());
    const auto it = table.NewIterator(true);
    it->SeekToFirst();
    for (const auto& [key, place] : elements) {
      ASSERT_TRUE(it->Valid() && it->key().user_key == key.user_key && it->key().tag == key.tag);
      it->Next();
    }
    EXPECT_FALSE(it->Valid());
    for (int i = 0; i < 300; i++) {
      const OwnedKey target = RandomTarget(random, kShape, 100, elements);
      const Lookup found = table.Find(target.view(), Hash64(target.user_key), true);
      const auto expected = elements.lower_bound(target);
      if (expected == elements.end() || expected->first.user_key != target.user_key) {
        ASSERT_EQ(found.state, LookupState::kAbsent);
      } else {
        const bool deleted = TagKind(expected->first.tag) == RecordKind::kDelete;
        ASSERT_EQ(found.state, deleted ? LookupState::kDeleted : LookupState::kFound);
        ASSERT_EQ(At(found.place)->tag(), expected->first.tag);
      }
    }
  }

  uint64_t next_number_ = 100;
};

TEST_F(SatTableTest, HoldsWhatItsFloorsDo) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 10; round++) {
    Elements all;
    SatPtr table;
    for (uint64_t floor = 0; floor < 6; floor++) {
      const Elements elements =
          RandomElements(&random, kShape, 1 + random.Uniform(200), 100, 1 + floor * 1000);
      table = table == nullptr ? BuildRun(elements) : AddFloor(table, elements);
      all.insert(elements.begin(), elements.end());
      EXPECT_EQ(table->floor_count(), floor + 1);
      EXPECT_EQ(table->run_count(), floor + 1);
      EXPECT_EQ(table->info().smallest, all.begin()->first.user_key);
      EXPECT_EQ(table->info().largest, all.rbegin()->first.user_key);
      EXPECT_EQ(table->info().last_sequence, [&all] {
        uint64_t last = 0;
        for (const auto& [key, place] : all) last = std::max(last, TagSequence(key.tag));
        return last;
      }());
      ASSERT_NO_FATAL_FAILURE(ExpectHolds(*Reopened(*table), all, &random));
    }
    uint64_t count = 0;
    const std::string from = testing::MakeKey(kShape, 20);
    const std::string to = testing::MakeKey(kShape, 71);
    ASSERT_TRUE(table->CountBetween(std::min(from, to), std::max(from, to), &count).ok());
    EXPECT_EQ(count, std::distance(all.lower_bound({std::min(from, to), kTagFirst}),
                                   all.lower_bound({std::max(from, to), kTagFirst})));
  }
}

TEST_F(SatTableTest, ATableOfOneFloorIsCutBetweenKeys) {
  Random random(testing::TestSeed());
  const Elements elements = RandomElements(&random, kShape, 500, 100);
  const MadeTables made = Build(elements, BuildPlan{.level = 1, .table_bytes = 2048});
  EXPECT_GT(made.size(), 5u);
  uint64_t records = 0;
  for (size_t i = 0; i < made.size(); i++) {
    records += made[i]->info().records;
    if (i > 0) {
      EXPECT_GT(made[i]->info().smallest, made[i - 1]->info().largest);
    }
  }
  EXPECT_EQ(records, elements.size());
}

TEST_F(SatTableTest, AFlippedByteOfAnIndexIsTold) {
  Random random(testing::TestSeed());
  const SatPtr table = AddFloor(BuildRun(RandomElements(&random, kShape, 30, 20)),
                                RandomElements(&random, kShape, 30, 20, 1000));
  for (size_t r = 0; r < table->regions().size(); r += 2) {
    const RegionShare& share = table->place().regions[r];
    const uint64_t floor = table->sat_place().floors[r / 2].offset;
    for (uint64_t at = floor; at < share.bytes - kLineBytes; at++) {
      char* const byte = const_cast<char*>(table->regions()[r]->At(at));
      *byte = static_cast<char>(*byte ^ 0x10);
      const SatPtr opened = Reopened(*table);
      ASSERT_FALSE(ProblemsOf(*opened).empty()) << at;
      const Lookup found = opened->Find({"s", kTagFirst}, Hash64("s"), true);
      ASSERT_EQ(found.state, LookupState::kDamaged) << at;
      ASSERT_TRUE(found.damage.IsCorruption());
      *byte = static_cast<char>(*byte ^ 0x10);
    }
  }
  EXPECT_TRUE(ProblemsOf(*Reopened(*table)).empty());
}

// Without a look at checksums, too: else who copies the value reads what is not the pool's.
TEST_F(SatTableTest, AValueThatLeadsOutOfThePoolIsDamage) {
  Random random(testing::TestSeed());
  const SatPtr table = BuildRun(RandomElements(&random, kShape, 50, 50));
  const auto it = table->NewIterator(false);
  uint64_t puts = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    if (TagKind(it->key().tag) != RecordKind::kPut) continue;
    puts++;
    auto* const header = pool_->At<RecordHeader>(PmPtr(it->place_word()));
    header->value_size ^= 1u << 31;
    const Lookup found = table->Find(it->key(), Hash64(it->key().user_key), false);
    EXPECT_EQ(found.state, LookupState::kDamaged);
    EXPECT_TRUE(found.damage.IsCorruption()) << found.damage.ToString();
    header->value_size ^= 1u << 31;
  }
  EXPECT_GT(puts, 10u);
}

TEST_F(SatTableTest, WhatIsSalvagedOfADamagedTableIsAllButTheRecordThatWasHit) {
  Random random(testing::TestSeed());
  const Elements below = RandomElements(&random, kShape, 40, 20);
  const Elements above = RandomElements(&random, kShape, 40, 20, 1000);
  const SatPtr table = AddFloor(BuildRun(below), above);
  const auto salvaged = [&](uint64_t* lost) {
    std::vector<MergedRecord> kept;
    *lost = 0;
    SatTable::Salvage(pool_.get(), table->info(), table->place(), RegionsOf({table}), &kept, lost);
    return kept.size();
  };
  uint64_t lost = 0;
  char* const index = const_cast<char*>(
      table->regions()[0]->At(table->sat_place().floors.front().offset + sizeof(FloorHeader)));
  *index = static_cast<char>(*index ^ 1);
  EXPECT_EQ(salvaged(&lost), above.size() + below.size());
  EXPECT_EQ(lost, 0u);
  char* const record = const_cast<char*>(table->regions()[1]->At(sizeof(RecordHeader)));
  *record = static_cast<char>(*record ^ 1);
  EXPECT_EQ(salvaged(&lost), above.size() + below.size() - 1);
  EXPECT_EQ(lost, 1u);
}

// A tree with a floor more comes in place of the tree of before, although it refers to its regions.
TEST_F(SatTableTest, WithoutACatalogTheTreeOfMostFloorsIsFound) {
  Random random(testing::TestSeed());
  const SatPtr run = BuildRun(RandomElements(&random, kShape, 40, 20));
  const SatPtr two = AddFloor(run, RandomElements(&random, kShape, 40, 20, 1000));
  const SatPtr three = AddFloor(two, RandomElements(&random, kShape, 40, 20, 2000));
  const SatPtr other = BuildRun(RandomElements(&random, kShape, 40, 20, 3000));
  std::vector<uint64_t> unknown;
  EXPECT_EQ(NumbersOf(FindTables(RegionsOf({three, other}), &unknown)),
            (std::vector<uint64_t>{three->info().number, other->info().number}));
  EXPECT_EQ(NumbersOf(FindTables(RegionsOf({two}), &unknown)),
            (std::vector<uint64_t>{two->info().number}));
  EXPECT_TRUE(unknown.empty());
}

TEST_F(SatTableTest, APlaceThatDoesNotFitItsRegionsIsRefused) {
  Random random(testing::TestSeed());
  const SatPtr table = BuildRun(RandomElements(&random, kShape, 40, 20));
  SatPlace place = table->sat_place();
  SatPlace decoded;
  EXPECT_TRUE(SatPlace::Decode(place.Encode(), 2, &decoded));
  EXPECT_EQ(decoded, place);
  EXPECT_FALSE(SatPlace::Decode(place.Encode(), 4, &decoded));
  EXPECT_FALSE(SatPlace::Decode(place.Encode() + "x", 2, &decoded));
  EXPECT_FALSE(SatPlace::Decode(place.Encode().substr(1), 2, &decoded));
  EXPECT_FALSE(SatPlace::Decode(SatPlace().Encode(), 0, &decoded));
  place.floors.front().offset = uint64_t{1} << 40;
  LevelPlace level = table->place();
  level.design = place.Encode();
  TablePtr opened;
  const Status s =
      SatTable::Open(pool_.get(), table->info(), level, table->regions(), true, &opened);
  EXPECT_TRUE(s.IsCorruption() && Says(s, "lamella repair")) << s.ToString();
}

}  // namespace
}  // namespace lamella
