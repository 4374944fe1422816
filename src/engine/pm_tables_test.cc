#include "engine/pm_tables.h"

#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "index/index_test_base.h"

namespace lamella {
namespace {

/// Three tables, the newest first; each is searched through its tree, or, with the parameter,
/// through its list.
class PmTablesTest : public IndexTest, public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr uint64_t kRecords = 300;

  PmTablesTest() {
    CreateParts(1);
    lookup_cache_.emplace(1 << 16, pool_->readers(), HashesOfRecords(pool_.get()));
    Random random(testing::TestSeed());
    for (uint64_t id = 1; id <= 3; id++) {
      const Elements elements = RandomElements(&random, testing::KeyShape::kMixed, kRecords, 200,
                                               1 + (id - 1) * kRecords);
      model_.insert(elements.begin(), elements.end());
      memtables_.push_back(std::make_unique<MemTable>(pool_.get(), id));
      MemTable& memtable = *memtables_.back();
      for (const auto& [key, place] : elements) memtable.Add(key.user_key, key.tag, place, nullptr);
      memtable.Seal(id * kRecords, {{id, 0}});
      const auto table = NewPmTable(pool_.get(), id, false, memtable);
      LinkRecords(pool_.get(), memtable.tree(), &*persister_, &*lookup_cache_, table.get(),
                  &sample_);
      table->bytes = id * 1000;
      table->live_share = 0.5;
      if (!GetParam())
        table->tree = std::shared_ptr<const HeadTree>(&memtable.tree(), [](const HeadTree*) {});
      tables_.insert(tables_.begin(), table);
    }
  }
  ~PmTablesTest() override {
    tables_.clear();
    memtables_.clear();
    lookup_cache_.reset();
  }

  Elements model_;
  std::optional<LookupCache> lookup_cache_;
  std::vector<std::unique_ptr<MemTable>> memtables_;
  std::vector<SampledRecord> sample_;
  PmTables tables_;
};
INSTANTIATE_TEST_SUITE_P(, PmTablesTest, ::testing::Bool(), [](const auto& bare) {
  return bare.param ? std::string("ByList") : std::string("ByTree");
});

TEST_P(PmTablesTest, FindsTheNewestVersionThatTheTargetAllows) {
  Random random(5);
  const EpochPin pin(pool_->readers());
  uint64_t found = 0;
  for (int i = 0; i < 3000; i++) {
    const OwnedKey target = RandomTarget(&random, testing::KeyShape::kMixed, 200, model_);
    const auto at = model_.lower_bound(target);
    const bool has = at != model_.end() && at->first.user_key == target.user_key;
    const PlacedVersion version = FindVersion(*pool_, tables_, target.view(), false);
    ASSERT_EQ(version.place, has ? at->second : PmPtr()) << target.user_key;
    ASSERT_TRUE(!has || version.kind == TagKind(at->first.tag));
    found += has ? 1 : 0;
  }
  EXPECT_GT(found, 500u);
}

TEST_P(PmTablesTest, IteratorsShowAllOfEach) {
  std::vector<std::unique_ptr<InternalIterator>> iterators;
  AddIterators(pool_.get(), tables_, false, &iterators);
  ASSERT_EQ(iterators.size(), 3u);
  Elements shown;
  for (const auto& it : iterators) {
    for (it->SeekToFirst(); it->Valid(); it->Next())
      shown[{std::string(it->key().user_key), it->key().tag}] = PmPtr();
  }
  EXPECT_EQ(shown.size(), model_.size());
}

TEST_P(PmTablesTest, WhatIsNotCheckpointedIsMadeDurableOldestFirst) {
  ChangeTable(&tables_, 1, [](PmTable* table) { table->checkpointed = true; });
  const PmTables group = NotCheckpointed(tables_);
  ASSERT_EQ(group.size(), 2u);
  EXPECT_EQ(group[0]->state.id, 2u);
  EXPECT_EQ(group[1]->state.id, 3u);
  std::vector<PmTableState> durable;
  ASSERT_TRUE(PersistLinks(*pool_, group, &*persister_, &durable).ok());
  ASSERT_EQ(durable.size(), 2u);
  PmTables opened;
  ASSERT_TRUE(OpenPmTables(pool_.get(), durable, 1, &opened).ok());
  ASSERT_EQ(opened.size(), 2u);
  EXPECT_EQ(opened[0]->state.id, 3u) << "newest first";
  for (const auto& table : opened) {
    std::vector<PmPtr> elements;
    ASSERT_TRUE(ListElements(*pool_, *table, &elements).ok());
    EXPECT_EQ(elements.size(), table->state.count);
  }
  durable[0].heads.clear();
  EXPECT_TRUE(OpenPmTables(pool_.get(), durable, 1, &opened).IsCorruption());
}

TEST_P(PmTablesTest, AChangedTableIsACopyInItsPlace) {
  const PmTables before = tables_;
  ChangeTable(&tables_, 2, [](PmTable* table) { table->bytes = 7; });
  ChangeTable(&tables_, 99, [](PmTable*) { FAIL() << "there is none"; });
  EXPECT_EQ(before[1]->bytes, 2000u);
  EXPECT_EQ(tables_[1]->bytes, 7u);
  EXPECT_EQ(tables_[0], before[0]);
  EXPECT_EQ(PoolBytes(tables_), 3000u + 7 + 1000);
  EXPECT_EQ(LiveBytes(tables_), 1500u + 3 + 500);
  EXPECT_EQ(TreeBytes(tables_) == 0, GetParam());
  EXPECT_GT(TreeBytesOfAll(tables_), 3 * kRecords);
  EXPECT_EQ(LevelOf(tables_, "L0").records, model_.size());
  EXPECT_NE(Describe(tables_).find("table 2: "), std::string::npos);
}

// Half of what a table has was there before, in records as large: half of it will live.
TEST_P(PmTablesTest, WhatReplacesLivesInThePlaceOfWhatItReplaced) {
  const auto none = [](const InternalKey&) { return PmPtr(); };
  std::vector<SampledRecord> sample;
  std::map<std::string, PmPtr> before;
  for (int i = 0; i < 10; i++) {
    const PmPtr place = Add(Concat("key", i), 10'000 + static_cast<uint64_t>(i));
    sample.push_back({place, false});
    if (i % 2 == 0) before[std::string(At(place)->key())] = place;
  }
  EXPECT_EQ(LiveShareOf(*pool_, {}, none), 1);
  EXPECT_EQ(LiveShareOf(*pool_, sample, none), 1);
  EXPECT_NEAR(LiveShareOf(*pool_, sample,
                          [&](const InternalKey& key) {
                            const auto at = before.find(std::string(key.user_key));
                            return at == before.end() ? PmPtr() : at->second;
                          }),
              0.5, 1e-9);
  for (SampledRecord& record : sample) record.replaced = true;
  EXPECT_EQ(LiveShareOf(*pool_, sample, none), 0);
}

TEST_P(PmTablesTest, DamageInAListIsToldOfItsTable) {
  EXPECT_FALSE(LeadInto(tables_, {}));
  CheckReport report;
  CheckTables(*pool_, tables_, "L0", model_.size(), &report);
  EXPECT_EQ(report.tables, 3u);
  EXPECT_TRUE(report.problems.empty());
  const PmPtr place = tables_[1]->list->First();
  const DamagedPlace at{place, PmPtr(place.part(), place.offset() + At(place)->bytes())};
  EXPECT_TRUE(LeadInto(tables_, {at}));
  PmWord* const link = tables_[1]->list->Link(place, 0, 0);
  link->store(link->load() ^ 2);
  CheckTables(*pool_, tables_, "L0", model_.size(), &report);
  ASSERT_FALSE(report.problems.empty());
  EXPECT_NE(report.problems[0].find("L0 table 2"), std::string::npos) << report.problems[0];
}

}  // namespace
}  // namespace lamella
