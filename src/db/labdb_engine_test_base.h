// What LAB-DB's own tests of whole stores share. Segments, trees and tables are so small that a few
// hundred records fill all of them.
#ifndef LAMELLA_DB_LABDB_ENGINE_TEST_BASE_H_
#define LAMELLA_DB_LABDB_ENGINE_TEST_BASE_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "testing/lost_catalog.h"
#include "testing/random_data.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {

class LabDbTest : public ::testing::Test {
 protected:
  LabDbTest() {
    options_.engine = EngineKind::kLabDb;
    options_.labdb = {.tree_bytes = 64 << 10,
                      .segment_bytes = 64 << 10,
                      .level1_bytes = 64 << 10,
                      .table_bytes = 16 << 10,
                      .hot_updates = 0};
    options_.medium = MediumKind::kCacheLine;
    options_.background_threads = 2;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 64 << 20;
  }
  Status Open(const DbSeams& seams = {}) {
    db_.reset();
    db_ = std::make_unique<DbImpl>(options_, path_, seams);
    return db_->Init();
  }
  void Put(const std::string& key, const std::string& value) {
    const Status s = db_->Put({}, key, value);
    ASSERT_TRUE(s.ok()) << s.ToString();
    model_[key] = value;
  }
  static std::string KeyOf(uint64_t i) { return Concat("key", 10000 + i); }
  /// Values of up to some hundred bytes, some of them of no more than an address has.
  void PutRandom(Random* random, uint64_t count, uint64_t keys) {
    for (uint64_t i = 0; i < count; i++) {
      const std::string key = KeyOf(random->Uniform(keys));
      if (random->OneIn(8)) {
        ASSERT_TRUE(db_->Delete({}, key).ok());
        model_.erase(key);
      } else {
        ASSERT_NO_FATAL_FAILURE(Put(key, MakeValue(random->Next(), random->Uniform(400))));
      }
    }
  }
  /// What a repair after a kill leaves is all of it.
  void RepairKilled(bool has_catalog = true) {
    const std::vector<uint64_t> catalogs = CatalogsOf(*db_->pool());
    db_->Abandon();
    db_.reset();
    if (!has_catalog) {
      std::string pool = ReadWhole(path_ + "/pool.0");
      LoseCatalogs(catalogs, &pool);
      WriteWhole(path_ + "/pool.0", pool);
      EXPECT_TRUE(Open().IsCorruption());
      db_.reset();
    }
    RepairReport report;
    ASSERT_TRUE(RepairDB(path_, options_, &report).ok());
    EXPECT_EQ(report.records_lost, 0u);
    ASSERT_TRUE(Open().ok());
    ASSERT_NO_FATAL_FAILURE(Compare());
  }
  void Compare(const ReadOptions& read = {}) {
    for (const auto& [key, value] : model_) {
      std::string found;
      const Status s = db_->Get(read, key, &found);
      ASSERT_TRUE(s.ok()) << key << ": " << s.ToString();
      ASSERT_EQ(found, value) << key;
    }
    auto it = db_->NewIterator(read);
    auto at = model_.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++at) {
      ASSERT_NE(at, model_.end());
      ASSERT_EQ(it->key(), at->first);
      ASSERT_EQ(it->value(), at->second);
    }
    ASSERT_TRUE(it->status().ok()) << it->status().ToString();
    ASSERT_EQ(at, model_.end());
    auto back = model_.rbegin();
    for (it->SeekToLast(); it->Valid(); it->Prev(), ++back) {
      ASSERT_NE(back, model_.rend());
      ASSERT_EQ(it->value(), back->second);
    }
    ASSERT_EQ(back, model_.rend());
  }
  std::vector<std::string> ValueFiles() const { return ValueFilesOf(path_); }
  uint64_t FileBytes() { return db_->GetStats().file_bytes; }
  /// The chunks of the first part that are free, and those that it may grow by, but for what that
  /// one leaves to others.
  std::vector<ChunkRef> TakeChunks(Claimant claimant) {
    constexpr auto kKind = static_cast<ChunkKind>(60);
    Pool* const pool = db_->pool();
    Persister persister(pool->gate(), WriteCause::kGc);
    std::vector<ChunkRef> taken;
    for (ChunkRef chunk;
         pool->Claim(0, kKind, 0, taken.size(), 1, claimant, &persister, &chunk).ok();)
      taken.push_back(chunk);
    return taken;
  }
  /// Of these such that no two that are left lie side by side.
  std::vector<ChunkRef> TakeEverySecondChunk() {
    std::vector<ChunkRef> taken = TakeChunks(Claimant::kIndex);
    const auto odd =
        std::ranges::partition(taken, [](const ChunkRef& chunk) { return chunk.index % 2 == 0; });
    EXPECT_GT(odd.size(), 10u);
    Free({odd.begin(), odd.end()});
    taken.erase(odd.begin(), odd.end());
    return taken;
  }
  void Free(const std::vector<ChunkRef>& taken) {
    Persister persister(db_->pool()->gate(), WriteCause::kGc);
    for (const ChunkRef& chunk : taken) db_->pool()->Free(chunk, &persister);
  }

  Options options_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  std::unique_ptr<DbImpl> db_;
  std::map<std::string, std::string> model_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_DB_LABDB_ENGINE_TEST_BASE_H_
