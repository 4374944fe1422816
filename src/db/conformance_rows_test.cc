// Conformance: a pool in which no two chunks that are free lie side by side.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "lamella/db.h"
#include "pool/pool.h"
#include "testing/conformance.h"

namespace lamella::testing {
namespace {

class RowsConformance : public ConformanceTest {
 protected:
  // Of each two chunks that are free and lie side by side one is taken; so are those that the pool
  // may grow by, but for what its parts leave to others.
  void OpenWithoutRows() {
    CloseStore();
    ASSERT_TRUE(DestroyDB(path(), options_).ok());
    options_.pool_bytes_max = 400 * options_.chunk_bytes * GetParam().parts;
    options_.memtable_bytes = 4 << 20;
    Open();
    constexpr auto kKind = static_cast<ChunkKind>(60);
    Persister persister(pool()->gate(), WriteCause::kGc);
    for (uint32_t part = 0; part < pool()->part_count(); part++) {
      for (ChunkRef chunk;
           pool()
               ->Claim(part, kKind, 0, taken_.size(), 1, Claimant::kIndex, &persister, &chunk)
               .ok();)
        taken_.push_back(chunk);
    }
    const auto odd =
        std::ranges::partition(taken_, [](const ChunkRef& chunk) { return chunk.index % 2 == 0; });
    for (const ChunkRef& chunk : odd) pool()->Free(chunk, &persister);
    taken_.erase(odd.begin(), odd.end());
    ASSERT_GT(taken_.size(), 100u);
  }
  void GiveBack() {
    Persister persister(pool()->gate(), WriteCause::kGc);
    for (const ChunkRef& chunk : taken_) pool()->Free(chunk, &persister);
    taken_.clear();
  }

 private:
  Pool* pool() const { return static_cast<DbImpl*>(db())->pool(); }

  std::vector<ChunkRef> taken_;
};
LAMELLA_CONFORMANCE_SUITE(RowsConformance, Shows::kRoom);

// There is room, and writes go on as long as there is. (NVLSM wanted the whole index of what it
// flushed in one row, became read-only, and stayed so.)
TEST_P(RowsConformance, ASmallRecordNeedsNoRow) {
  if (*options_.engine == EngineKind::kLabDb) GTEST_SKIP() << "a segment of values is a row";
  // Halved down to indexes that would fit into a chunk of 64 KiB, but for a key of a quarter of it.
  const uint64_t keys = 11'600;
  OpenWithoutRows();
  std::map<std::string, uint64_t> model;
  Random random(3);
  for (uint64_t round = 0; round < 3; round++) {
    for (uint64_t i = 0; i < keys; i++) {
      const uint64_t id = round * keys + i;
      std::string key = Concat("key", random.Uniform(4 * keys));
      if (i == 0) key.insert(0, kKeyBytesMax / 4, 'a');  // an index that begins with it is longer
      const Status s = db()->Put({}, key, MakeValue(id, 20));
      ASSERT_TRUE(s.ok()) << id << ": " << s.ToString();
      model[key] = id;
    }
    const Status s = db()->Flush();
    ASSERT_TRUE(s.ok()) << round << ": " << s.ToString();
  }
  for (const auto& [key, id] : model) ASSERT_TRUE(Get(key) == MakeValue(id, 20)) << key;
  EXPECT_EQ(ScanForward().size(), model.size());
  Settle();
  GiveBack();
  Settle();
  Reopen();
  EXPECT_EQ(ScanBackward().size(), model.size());
}

// What needs a row is refused, before it is let in. (NVLSM's indexes begin with two keys, and with
// what all of their keys begin with.)
TEST_P(RowsConformance, WhatNeedsARowIsRefusedAndHoldsUpNobody) {
  OpenWithoutRows();
  std::map<std::string, uint64_t> model;
  const auto put = [&](const std::string& key, uint64_t id) {
    const Status s = db()->Put({}, key, MakeValue(id, 20));
    ASSERT_TRUE(s.ok() || s.IsNoSpace()) << id << ": " << s.ToString();
    if (s.ok()) model[key] = id;
  };
  for (uint64_t i = 0; i < 60; i++) {
    const uint64_t bytes = options_.chunk_bytes / (i % 4 + 1);
    put(Concat(std::string(std::min(bytes, kKeyBytesMax) - 100, 'k'), i), i);
    put(Concat("key", i), i);
    if (i % 20 != 19) continue;
    const Status s = db()->Flush();
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
  }
  if (*options_.engine != EngineKind::kLabDb) {
    EXPECT_GE(model.size(), 75u) << "a key no longer than a quarter of a chunk needs no row";
  }
  for (const auto& [key, id] : model) ASSERT_TRUE(Get(key) == MakeValue(id, 20)) << id;
  GiveBack();
  Settle();
  Reopen();
  EXPECT_EQ(ScanForward().size(), model.size());
}

}  // namespace
}  // namespace lamella::testing
