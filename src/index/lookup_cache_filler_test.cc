#include "index/lookup_cache_filler.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/index_test_base.h"

namespace lamella {
namespace {

using LookupCacheFillerTest = RecordsTest;

TEST_F(LookupCacheFillerTest, PutsEachOnceInOrderAndNoneIsLeft) {
  CreateParts(1);
  const LookupCache cache(1 << 20, pool_->readers(), {}, nullptr);
  for (const uint64_t count : {0, 1, 7, 8, 9, 100}) {
    SCOPED_TRACE(count);
    using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;
    Pairs added;
    Pairs put;
    {
      LookupCacheFiller filler(
          &cache, [&](uint64_t hash, PmPtr place) { put.emplace_back(hash, place.word); });
      for (uint64_t i = 0; i < count; i++) {
        const PmPtr place(0, 64 * (i + 1));
        filler.Add(i * 31, place);
        added.emplace_back(i * 31, place.word);
      }
      EXPECT_LE(put.size(), count);
    }
    EXPECT_EQ(put, added);
  }
}

}  // namespace
}  // namespace lamella
