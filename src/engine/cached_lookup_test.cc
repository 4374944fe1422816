#include "engine/cached_lookup.h"

#include <optional>

#include <gtest/gtest.h>

#include "log/log_test_base.h"

namespace lamella {
namespace {

class CachedLookupTest : public RecordsTest {
 protected:
  CachedLookupTest() {
    CreateParts(1);
    cache_.emplace(1 << 16, pool_->readers(), HashesOfRecords(pool_.get()));
  }
  ~CachedLookupTest() override { cache_.reset(); }
  PmPtr NewestOf(std::string_view key, uint64_t sequence) {
    const EpochPin pin(pool_->readers());
    return lamella::NewestOf(*pool_, AskCache(*pool_, *cache_, key), {key, SeekTag(sequence)})
        .place;
  }

  std::optional<LookupCache> cache_;
};

TEST_F(CachedLookupTest, AnswersWithTheNewestWhereItIsNotTooNew) {
  const PmPtr place = Add("key", 7);
  cache_->Put(Hash64("key"), place);
  EXPECT_EQ(NewestOf("key", 7), place);
  EXPECT_EQ(NewestOf("key", 100), place);
  EXPECT_FALSE(NewestOf("key", 6)) << "an older one is to be searched for";
  EXPECT_FALSE(NewestOf("other", 100));
}

TEST_F(CachedLookupTest, WhatHashesAlikeIsToldApartByItsKey) {
  const PmPtr other = Add("other", 8);
  const PmPtr place = Add("key", 7);
  cache_->Put(Hash64("key"), other);
  EXPECT_FALSE(NewestOf("key", 100));
  cache_->Put(Hash64("key"), place);
  EXPECT_EQ(NewestOf("key", 100), place);
}

TEST_F(CachedLookupTest, TheGenerationIsThatOfBeforeTheSearch) {
  const EpochPin pin(pool_->readers());
  const Candidates before = AskCache(*pool_, *cache_, "key");
  EXPECT_EQ(before.count, 0u);
  cache_->AdvanceGeneration();
  EXPECT_NE(AskCache(*pool_, *cache_, "key").generation, before.generation);
}

}  // namespace
}  // namespace lamella
