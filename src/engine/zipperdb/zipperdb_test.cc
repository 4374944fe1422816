// What ZipperDB does with its lists, seen from outside.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/catalog_state.h"
#include "engine/engine_test_base.h"
#include "engine/zipperdb/run_writer.h"
#include "engine/zipperdb/type.h"

namespace lamella {
namespace {

class ZipperDbTest : public EngineTest {
 protected:
  ZipperDbTest() : EngineTest(kZipperDbType) {
    db_options_.zipperdb.level0_bytes = 256 << 10;
    db_options_.zipperdb.level_factor = 2;
  }

  // Enough for several levels, in an order of its own, each MemTable flushed at once.
  void Fill(uint64_t keys, char byte = 0) {
    for (uint64_t i = 0; i < keys; i++) {
      const uint64_t key = i * 7919 % keys;
      const Status s = byte == 0 ? Put(key) : Put(key, byte);
      ASSERT_TRUE(s.ok()) << s.ToString();
      Run(JobClass::kUrgent);
      if (HasFatalFailure()) return;
    }
  }
  std::vector<std::string> Levels() const {
    Stats stats;
    engine_->AddStats(&stats);
    std::vector<std::string> names;
    for (const Stats::Level& level : stats.levels) names.push_back(level.name);
    return names;
  }
  uint64_t CountChunks(const std::function<bool(const ChunkRef&)>& counts) const {
    uint64_t chunks = 0;
    pool_->ForEachChunk([&](const ChunkRef& chunk) { chunks += counts(chunk) ? 1 : 0; });
    return chunks;
  }
  /// A store of so many keys that was written with the options, and bytes stored for it.
  uint64_t StoredBytes(uint32_t levels_per_group, uint64_t keys, std::string* described) {
    db_options_.zipperdb.levels_per_group = levels_per_group;
    engine_.reset();
    Close();
    EXPECT_TRUE(Pool::Remove(options_.part_paths).ok());
    CreateStore();
    for (uint64_t i = 0; i < keys && !HasFatalFailure(); i++) {
      EXPECT_TRUE(Put(i * 7919 % keys).ok());
      Run(JobClass::kUrgent);
      Run(JobClass::kNormal);
    }
    ExpectKeys(keys);
    *described = engine_->Describe();
    return pool_->gate()->Counters(WriteCause::kCompaction).bytes_stored;
  }
};

TEST_F(ZipperDbTest, ASmallStoreIsOneList) {
  CreateStore();
  Fill(50);
  Run(JobClass::kNormal);
  EXPECT_EQ(Levels(), (std::vector<std::string>{"L0"}));
  ExpectKeys(50);
}

TEST_F(ZipperDbTest, AFullLevelIsFrozenAndGoesDown) {
  CreateStore();
  Fill(400);  // 1.6 MB; a level 0 of 256 KiB
  const auto levels = Levels();
  EXPECT_NE(std::ranges::find(levels, "L0 frozen"), levels.end());
  EXPECT_EQ(std::ranges::count(levels, "L0"), 1) << "and another one takes its place";
  ExpectKeys(400);
  Run(JobClass::kNormal);
  for (const std::string& level : Levels())
    EXPECT_EQ(level.find("frozen"), std::string::npos) << level;
  ExpectKeys(400);
  PutKeys(0, 40);  // less than level 0 may have
  Run(JobClass::kUrgent);
  Run(JobClass::kNormal);
  EXPECT_EQ(Levels().front(), "L0") << "it stays";
  EXPECT_EQ(Levels().size(), 2u);
  ExpectKeys(400);
}

// Figure 15: the more levels are in a group, the less is copied.
TEST_F(ZipperDbTest, MoreLevelsPerGroupStoreLess) {
  constexpr uint64_t kKeys = 1500;
  std::string one;
  std::string two;
  std::string all;
  const uint64_t by_one = StoredBytes(1, kKeys, &one);
  const uint64_t by_two = StoredBytes(2, kKeys, &two);
  const uint64_t by_all = StoredBytes(kZipperDbLevelsMax, kKeys, &all);
  EXPECT_NE(one.find("merges: 0 in place"), std::string::npos) << one;
  EXPECT_NE(all.find(" 0 by copies"), std::string::npos) << all;
  EXPECT_LT(by_all * 4, by_two);
  EXPECT_LT(by_two, by_one);
}

TEST_F(ZipperDbTest, WhatWasCopiedLeavesNothing) {
  db_options_.zipperdb.levels_per_group = 1;
  CreateStore();
  Fill(400);
  Run(JobClass::kNormal);
  pool_->CollectDeferred();
  const uint64_t records = CountChunks([](const ChunkRef& c) { return c.kind == kZipperDbArena; });
  EXPECT_LE(records * pool_->chunk_bytes(), 400 * kValueBytes * 3 / 2);
  EXPECT_EQ(CountChunks([](const ChunkRef& c) { return c.kind == kZipperDbHeads; }),
            Levels().size());
  EXPECT_LE(CountChunks([](const ChunkRef& c) { return c.kind == ChunkKind::kLog; }), 4u)
      << "nor does the log keep what was flushed";
  ExpectKeys(400);
}

// S2: copies that nothing names, as a crash in the midst of a flush leaves them.
TEST_F(ZipperDbTest, CopiesThatNothingNamesAreFree) {
  CreateStore();
  Fill(100);
  const auto has_stray = [this] {
    return CountChunks(
        [](const ChunkRef& c) { return c.owner == kFlushRuns && c.ordinal >= 1000; });
  };
  {
    RunWriter writer(pool_.get(), kFlushRuns, 1000, WriteCause::kFlush);
    writer.Begin(1, 1);
    EpochPin pin(pool_->readers());
    const Lookup found = engine_->Get(Key(7), engine_->PublishedSequence(), false, &pin);
    ASSERT_EQ(found.state, LookupState::kFound);
    ASSERT_TRUE(writer.Copy(*pool_->At<Record>(found.place)).ok());
    EXPECT_FALSE(writer.End().runs.empty());
  }
  EXPECT_EQ(has_stray(), 1u);
  Crash();
  EXPECT_EQ(has_stray(), 0u);
  ExpectKeys(100);
}

// A new list's heads take the last chunk, and the catalog has none for the edit that names them.
TEST_F(ZipperDbTest, HeadsThatNoEditNamesAreFree) {
  options_.pool_bytes_max = db_options_.pool_bytes_max = 16 << 20;
  CreateStore();
  Fill(400);
  const auto heads = [this] {
    return CountChunks([](const ChunkRef& c) { return c.kind == kZipperDbHeads; });
  };
  // It is one edit of several that a round makes, and one of hundreds that fills a catalog's chunk.
  constexpr int kRoundsMax = 10'000;
  int refused = 0;
  for (int round = 0; round < kRoundsMax && refused == 0; round++) {
    WithFlushes([this] { return engine_->CompactRange({}, {}); });
    pool_->CollectDeferred();
    ASSERT_EQ(Levels().size(), 1u);
    ASSERT_NE(Levels().front(), "L0");
    ASSERT_EQ(heads(), 1u);
    std::optional<Job> flush;
    for (uint64_t i = 0; !flush; i++) {
      ASSERT_TRUE(Put(i % 400).ok());
      flush = PickJob(JobClass::kUrgent);
    }
    ASSERT_EQ(std::string(flush->name), "flush");
    std::vector<ChunkRef> taken(1);
    while (Claim(&taken.back(), 1, Claimant::kIndex).ok()) taken.emplace_back();
    taken.pop_back();
    pool_->Free(taken.back(), &*persister_);
    taken.pop_back();
    EXPECT_TRUE(flush->run().IsNoSpace());
    refused += Levels().size() == 1 ? 1 : 0;
    EXPECT_EQ(heads(), Levels().size()) << round;
    for (const ChunkRef& chunk : taken) pool_->Free(chunk, &*persister_);
    Run(JobClass::kUrgent);
  }
  EXPECT_EQ(refused, 1);
  ExpectKeys(400);
}

// What a rebuilding finds is the bottom list's, however far apart gc has left it: a run for each
// chunk would be in every edit from then on, and asked of every chunk.
TEST_F(ZipperDbTest, ARebuildingKnowsItsChunksByFewRuns) {
  db_options_.zipperdb.levels_per_group = kZipperDbLevelsMax;  // nothing is copied but by gc
  CreateStore();
  Random random(4);
  const auto some_are_gone = [this] {
    std::set<uint64_t> ordinals;
    pool_->ForEachChunk([&](const ChunkRef& c) {
      if (c.kind == kZipperDbArena && c.owner == kFlushRuns) ordinals.insert(c.ordinal);
    });
    return !ordinals.empty() && *ordinals.rbegin() - *ordinals.begin() >= ordinals.size();
  };
  constexpr int kRounds = 8;
  constexpr int kRoundsMax = 200;
  for (int round = 0; round < kRounds || (round < kRoundsMax && !some_are_gone()); round++) {
    Fill(400);
    for (int i = 0; i < 100; i++) ASSERT_TRUE(Put(random.Uniform(400), 'z').ok());
    Fill(400);
    Run(JobClass::kNormal);
  }
  engine_.reset();
  Open();
  ASSERT_TRUE(some_are_gone()) << "the control: gc took some from between";
  LoadEngine();
  RepairReport report;
  Status s = engine_->Rebuild(&report);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(report.records_lost, 0u);
  engine_.reset();
  Open();
  {
    CatalogState<ZipperDbState> catalog(pool_.get());
    ASSERT_TRUE(catalog.Open().ok());
    EXPECT_EQ(catalog.Get().bottom()->runs.size(), 1u);
  }
  LoadEngine();
  Mend();
  ExpectKeys(400);
  Fill(400, 'y');
  Run(JobClass::kNormal);
  Crash();
  for (uint64_t i = 0; i < 400; i++) ExpectKey(i, 'y');
}

TEST_F(ZipperDbTest, LoadingChangesNothingAndReadsAll) {
  CreateStore();
  Fill(400);
  engine_.reset();
  Open();
  const std::string before = ReadWhole(path());
  LoadEngine();
  ExpectKeys(400);
  EXPECT_TRUE(ReadWhole(path()) == before) << "loading changed the pool";
  Mend();
  ExpectKeys(400);
  Run(JobClass::kNormal);
  ExpectKeys(400);
}

// Z3: an iterator of before goes on, whatever moves under it, and shows each version that it sees.
TEST_F(ZipperDbTest, AnIteratorShowsItsMomentWhileListsGoDown) {
  for (const uint32_t levels_per_group : {1u, 2u, kZipperDbLevelsMax}) {
    SCOPED_TRACE(levels_per_group);
    db_options_.zipperdb.levels_per_group = levels_per_group;
    engine_.reset();
    if (pool_ != nullptr) {
      Close();
      ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
    }
    CreateStore();
    constexpr uint64_t kKeys = 300;
    Fill(kKeys, 'x');
    const uint64_t moment = snapshots_.Take([this] { return engine_->PublishedSequence(); });
    {
      const EpochPin pin(pool_->holders());
      const auto all = engine_->NewIterator(true);
      all->SeekToFirst();
      std::set<std::string> seen;
      for (uint64_t step = 0; all->Valid(); all->Next(), step++) {
        ASSERT_TRUE(all->status().ok()) << all->status().ToString();
        if (TagSequence(all->key().tag) <= moment && all->value() == std::string(kValueBytes, 'x'))
          seen.insert(std::string(all->key().user_key));
        if (step % 40 != 0) continue;
        Fill(kKeys, static_cast<char>('a' + step / 40 % 26));
        Run(JobClass::kNormal);
        if (HasFatalFailure()) return;
      }
      ASSERT_TRUE(all->status().ok()) << all->status().ToString();
      EXPECT_EQ(seen.size(), kKeys);
    }
    snapshots_.Release(moment);
  }
}

TEST_F(ZipperDbTest, WritersAreHeldBackBeforeLevel0IsTwiceItsSize) {
  CreateStore();
  Fill(300);  // from here on level 0 is above others
  uint32_t last = 0;
  bool rose = false;
  for (uint64_t i = 0; i < 300; i++) {  // and nothing goes down
    ASSERT_TRUE(Put(i).ok());
    Run(JobClass::kUrgent);
    rose = rose || (last > 0 && engine_->WriteDelayNs() > last);
    last = engine_->WriteDelayNs();
    ASSERT_LE(last, 1'000'000u) << "the paper's pause is the most";
  }
  EXPECT_TRUE(rose) << "smoothly";
  EXPECT_EQ(last, 1'000'000u);
  // It filled up while another was on its way down, and goes down itself though nobody writes.
  ASSERT_TRUE(RunUntil("merge"));
  EXPECT_EQ(engine_->WriteDelayNs(), 1'000'000u);
  ASSERT_TRUE(RunUntil("freeze"));
  EXPECT_EQ(engine_->WriteDelayNs(), 0u);
  Run(JobClass::kNormal);
  for (uint64_t i = 0; i < 300; i++) ExpectKey(i, static_cast<char>('a' + i % 26));
}

}  // namespace
}  // namespace lamella
