// What the tests of a level's space share: a level with what is dead in it, and whose it is.
#ifndef LAMELLA_ENGINE_LEVEL_SPACE_TEST_BASE_H_
#define LAMELLA_ENGINE_LEVEL_SPACE_TEST_BASE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/level_space.h"
#include "engine/pm_level_test_base.h"
#include "engine/skiplist_check.h"

namespace lamella {

inline constexpr ChunkKind kCopies =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 1);

class LevelSpaceTestBase : public PmLevelTestBase, public LevelSpaceOwner {
 protected:
  LevelSpaceTestBase() { StartSpace(); }
  void StartSpace() {
    frees_.emplace(pool_.get());
    space_.emplace(pool_.get(), &*level_, &snapshots_, &*dead_, &*frees_, this, 2.0);
    space_->gc()->Start(kCopies, 0, 1);
  }
  void EndSpace() {
    space_.reset();
    frees_.reset();
  }
  ~LevelSpaceTestBase() override { EndSpace(); }

  std::function<Standing(const Filled&)> Standings() const override {
    return [this](const Filled& filled) {
      return HasRecords(filled.chunk) ? Standing::kMerged : Standing::kUnmerged;
    };
  }
  std::vector<SequenceGap> VoidSequences() const override { return {}; }
  bool IsLinkedInto(const std::vector<DamagedPlace>& places) const override {
    return !places.empty() && LeadsInto(*level_->list(), places);
  }
  std::unique_ptr<CopyRoom> NewCopyRoom() override {
    struct Room final : CopyRoom {
      explicit Room(LevelSpaceTestBase* of) : test(of) {}
      ~Room() override { test->reserved_ = 0; }
      bool Reserve(uint64_t bytes) override {
        test->reserved_ += bytes;
        return test->has_room_;
      }
      LevelSpaceTestBase* const test;
    };
    return std::make_unique<Room>(this);
  }
  Status SyncAll() override { return sync_; }

  bool HasRecords(const ChunkRef& chunk) const override {
    return chunk.kind == ChunkKind::kLog || chunk.kind == kCopies;
  }
  Recount::IsDead WhatIsDead() const override {
    return [](const ChunkRef&, const Record* record, PmPtr) { return record->obsolete(); };
  }
  Status NoteCounted() override {
    notes_++;
    return Status::OK();
  }
  uint64_t RecordChunks() const {
    uint64_t chunks = 0;
    pool_->ForEachChunk([&](const ChunkRef& chunk) { chunks += HasRecords(chunk) ? 1 : 0; });
    return chunks;
  }
  /// Tables of overwrites: about half of what is written is dead.
  void Fill() {
    for (int table = 0; table < 4; table++) {
      for (int i = 0; i < 500; i++) {
        const std::string key = Concat("key", random_.Uniform(600));
        model_[key] = Concat(table, ".", i, std::string(200, 'v'));
        Write(key, RecordKind::kPut, model_[key]);
      }
      Merge();
    }
    appenders_[0]->CloseChunk();
    Settle();
  }
  void ExpectAll() {
    for (const auto& [key, value] : model_) ASSERT_EQ(Find(key), value) << key;
    CheckReport report;
    CheckSkipList(*pool_, *level_->list(),
                  {.name = "level", .elements_max = 4'000, .obsolete_is_damage = true}, &report);
    EXPECT_TRUE(report.clean()) << report.problems.front();
    EXPECT_EQ(report.records, model_.size());
  }
  std::map<std::string, std::string> model_;
  std::optional<PendingFrees> frees_;
  std::optional<LevelSpace> space_;
  int notes_ = 0;
  bool has_room_ = true;
  uint64_t reserved_ = 0;
  Status sync_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LEVEL_SPACE_TEST_BASE_H_
