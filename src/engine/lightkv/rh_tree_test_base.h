// What tests of RhTree share: a pool with records for trees to refer to, and a model.
#ifndef LAMELLA_ENGINE_LIGHTKV_RH_TREE_TEST_BASE_H_
#define LAMELLA_ENGINE_LIGHTKV_RH_TREE_TEST_BASE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "engine/lightkv/rh_tree.h"
#include "log/record_appender.h"
#include "testing/temp_dir.h"

namespace lamella {

class RhTreeTestBase : public ::testing::Test {
 protected:
  void SetUp() override {
    PoolOptions options;
    options.part_paths = {dir_.path() + "/pool"};
    options.medium = MediumKind::kVolatile;
    ASSERT_TRUE(Pool::Create(options, &pool_).ok());
    appender_ = NewAppender(0);
  }
  void TearDown() override {
    pool_->readers()->Collect();
    appender_.reset();
  }

  /// Of a shard; one for each thread.
  std::unique_ptr<RecordAppender> NewAppender(uint32_t shard) {
    return std::make_unique<RecordAppender>(pool_.get(), 0, ChunkKind::kLog, shard, 1,
                                            WriteCause::kLog);
  }
  static PmPtr AddRecord(RecordAppender* appender, std::string_view key, uint64_t tag) {
    EXPECT_TRUE(appender->Prepare(RecordBytes(0, key.size(), 0), Claimant::kReclaim).ok());
    const PmPtr place = appender->Append({.tag = tag, .key = key, .value = {}, .height = 0});
    appender->Commit();
    return place;
  }
  static uint64_t PutTag(uint64_t sequence) { return MakeTag(sequence, RecordKind::kPut); }

  struct Less {
    bool operator()(const std::pair<std::string, uint64_t>& a,
                    const std::pair<std::string, uint64_t>& b) const {
      return CompareInternal({a.first, a.second}, {b.first, b.second}) < 0;
    }
  };
  using Model = std::map<std::pair<std::string, uint64_t>, PmPtr, Less>;

  void Add(RhTree* tree, Model* model, const std::string& key, uint64_t sequence) {
    const uint64_t tag = PutTag(sequence);
    const PmPtr place = AddRecord(appender_.get(), key, tag);
    tree->Insert(key, tag, place);
    (*model)[{key, tag}] = place;
  }

  testing::TempDir dir_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<RecordAppender> appender_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIGHTKV_RH_TREE_TEST_BASE_H_
