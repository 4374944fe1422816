#include "engine/pm_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "index/index_test_base.h"

namespace lamella {
namespace {

using testing::KeyShape;

/// Over one part, and braided over two.
class PmTableTest : public IndexTest, public ::testing::WithParamInterface<bool> {
 protected:
  PmTableTest() {
    CreateParts(braided() ? 2 : 1);
    lookup_cache_.emplace(1 << 16, pool_->readers(), HashesOfRecords(pool_.get()));
    Random random(5);
    elements_ = RandomElements(&random, KeyShape::kMixed, 1'000, 400);
    memtable_.emplace(pool_.get(), 1);
    for (const auto& [key, place] : elements_)
      memtable_->Add(key.user_key, key.tag, place, nullptr);
    memtable_->Seal(1'000, {{7, 128}});
    memtable_->SetLogBytes(12'345);
  }
  ~PmTableTest() override {
    table_.reset();
    memtable_.reset();
    lookup_cache_.reset();
  }
  static bool braided() { return GetParam(); }
  uint32_t lanes() const { return braided() ? 2 : 1; }

  /// As a flush does, without copies.
  void MakeTable() {
    table_ = NewPmTable(pool_.get(), 3, braided(), *memtable_);
    LinkRecords(pool_.get(), memtable_->tree(), &*persister_, &*lookup_cache_, table_.get(),
                &sample_);
  }

  Elements elements_;
  std::optional<LookupCache> lookup_cache_;
  std::optional<MemTable> memtable_;
  std::shared_ptr<PmTable> table_;
  std::vector<SampledRecord> sample_;
};
INSTANTIATE_TEST_SUITE_P(, PmTableTest, ::testing::Bool(), [](const auto& shape) {
  return shape.param ? std::string("Braided") : std::string("Plain");
});

TEST_P(PmTableTest, ItsRecordsAreLinkedInOrder) {
  MakeTable();
  EXPECT_EQ(ListProblem(*table_->list, elements_, true), "");
  EXPECT_EQ(table_->state.count, elements_.size());
  EXPECT_EQ(table_->state.last_sequence, 1'000u);
  EXPECT_EQ(table_->state.sealed, memtable_->sealed());
  EXPECT_EQ(table_->bytes, 12'345u);
  EXPECT_FALSE(table_->checkpointed);
}

TEST_P(PmTableTest, WhatACheckpointKeptOpensAsTheSameList) {
  MakeTable();
  ASSERT_TRUE(FlushLinks(*pool_, *table_, &*persister_).ok());
  PmTableState state = table_->state;
  state.heads = HeadWords(*table_);
  std::shared_ptr<PmTable> opened;
  ASSERT_TRUE(OpenPmTable(pool_.get(), state, lanes(), &opened).ok());
  EXPECT_EQ(ListProblem(*opened->list, elements_, true), "");
  EXPECT_TRUE(opened->checkpointed);
  EXPECT_TRUE(opened->settled->load());
  state.heads.pop_back();
  const Status s = OpenPmTable(pool_.get(), state, lanes(), &opened);
  EXPECT_TRUE(s.IsCorruption());
  EXPECT_TRUE(Says(s, "expected")) << s.ToString();
}

TEST_P(PmTableTest, ElementsComeFromTheTreeAndFromTheList) {
  MakeTable();
  std::vector<PmPtr> by_list;
  ASSERT_TRUE(ListElements(*pool_, *table_, &by_list).ok());
  EXPECT_EQ(by_list, PlacesOf(elements_));
  HeadTree tree(pool_.get());
  uint64_t bytes = 0;
  for (const auto& [key, place] : elements_) bytes += At(place)->bytes();
  EXPECT_EQ(BuildTree(*pool_, *table_, &tree), bytes);
  EXPECT_EQ(tree.count(), elements_.size());
  std::vector<PmPtr> by_tree;
  HeadTree::Iterator at(&tree);
  for (at.SeekToFirst(); at.Valid(); at.Next()) by_tree.push_back(at.entry().place());
  EXPECT_EQ(by_tree, by_list);
}

TEST_P(PmTableTest, DamageIsToldAndMakesNoTree) {
  MakeTable();
  const std::vector<PmPtr> places = PlacesOf(elements_);
  Flip(places[100], 8 * offsetof(RecordHeader, tag) + 9);
  HeadTree tree(pool_.get());
  EXPECT_EQ(BuildTree(*pool_, *table_, &tree), 0u);
  PmWord* const link = table_->list->Link(places[10], 0, 0);
  link->store(link->load() ^ 2);
  std::vector<PmPtr> elements;
  EXPECT_TRUE(ListElements(*pool_, *table_, &elements).IsCorruption());
  EXPECT_TRUE(FlushLinks(*pool_, *table_, &*persister_).IsCorruption());
}

TEST_P(PmTableTest, TheLookupCacheHasTheNewestVersions) {
  MakeTable();
  std::map<std::string, PmPtr> newest;
  for (const auto& [key, place] : elements_) newest.emplace(key.user_key, place);
  size_t found = 0;
  for (const auto& [key, place] : elements_) {
    std::array<PmPtr, LookupCache::kWays> cached;
    const auto end = cached.begin() + lookup_cache_->Find(Hash64(key.user_key), &cached);
    const bool is_newest = newest.at(key.user_key) == place;
    if (std::find(cached.begin(), end, place) == end) continue;
    EXPECT_TRUE(is_newest) << key.user_key;
    found++;
  }
  EXPECT_GT(found, newest.size() * 9 / 10);
}

TEST_P(PmTableTest, TheSampleSaysWhatWasReplaced) {
  MakeTable();
  EXPECT_GE(sample_.size(), 60u);
  EXPECT_LE(sample_.size(), 70u);
  for (const SampledRecord& sampled : sample_) {
    const InternalKey key = At(sampled.place)->internal_key();
    const PmPtr before = Before(elements_, key);
    EXPECT_EQ(sampled.replaced, before && At(before)->key() == key.user_key);
  }
}

}  // namespace
}  // namespace lamella
