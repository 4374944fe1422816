// What the tests of a level share: a level in a small pool, and records to merge into it.
#ifndef LAMELLA_ENGINE_PM_LEVEL_TEST_BASE_H_
#define LAMELLA_ENGINE_PM_LEVEL_TEST_BASE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/pm_level.h"
#include "index/index_test_base.h"

namespace lamella {

class PmLevelTestBase : public IndexTest {
 protected:
  explicit PmLevelTestBase(uint64_t second_chance_bytes = 1 << 20)
      : second_chance_bytes_(second_chance_bytes) {
    StartLevel();
  }
  /// An empty level in a fresh pool.
  void StartLevel() {
    EndLevel();
    CreateParts(1);
    ChunkRef heads;
    EXPECT_TRUE(
        pool_->Claim(0, ChunkKind::kEngineFirst, 0, 1, 1, Claimant::kIndex, &*persister_, &heads)
            .ok());
    heads_ = reinterpret_cast<SkipListHeads*>(pool_->ChunkAddress(heads));
    ClearHeads(heads_, &*persister_);
    sequence_ = 0;
    OpenLevel();
    if (second_chance_bytes_ != 0) level_->BeginEmpty();
  }
  /// The level as it lies in the pool, by who knows nothing of it.
  void OpenLevel() {
    EndLevel();
    dead_.emplace(pool_.get());
    lookup_cache_.emplace(1 << 16, pool_->readers(), HashesOfRecords(pool_.get()));
    level_.emplace(PmLevel::Surroundings{.pool = pool_.get(),
                                         .snapshots = &snapshots_,
                                         .dead = &*dead_,
                                         .lookup_cache = &*lookup_cache_,
                                         .second_chance_bytes_max = second_chance_bytes_});
    level_->Open({.heads = heads_});
  }
  void EndLevel() {
    level_.reset();
    lookup_cache_.reset();
    dead_.reset();
    table_.clear();
  }
  ~PmLevelTestBase() override { EndLevel(); }

  /// A record that is to be merged next.
  PmPtr Write(const std::string& key, RecordKind kind = RecordKind::kPut,
              const std::string& value = "value") {
    const uint64_t tag = MakeTag(++sequence_, kind);
    const PmPtr place =
        Add({.tag = tag,
             .key = key,
             .value = kind == RecordKind::kPut ? std::string_view(value) : std::string_view(),
             .height = RandomHeight(&random_)});
    table_[{key, tag}] = place;
    return place;
  }
  /// Merges what was written since, as one table, which readers see apart from the level until
  /// Settle.
  void Merge() {
    for (auto& appender : appenders_) appender->Seal();
    const auto zipper = level_->NewMerge(&*persister_, false, nullptr);
    ASSERT_TRUE(zipper->Merge(PlacesOf(table_)).ok());
    level_->NoteMerged();
    table_.clear();
  }
  /// Nobody is left who could see a merged table apart.
  void Settle() {
    pool_->readers()->Retire(level_->Settling(sequence_));
    for (int i = 0; i < 8; i++) pool_->CollectDeferred();
  }
  /// The value that a search finds, "(deleted)" or "(absent)".
  std::string Find(const std::string& key, uint64_t sequence = kSequenceMax) {
    const EpochPin pin(pool_->readers());
    const PlacedVersion found =
        level_->Find({key, MakeTag(sequence, RecordKind::kPut)}, false, nullptr);
    EXPECT_FALSE(found.place.damaged());
    if (!found.place) return "(absent)";
    if (found.kind == RecordKind::kDelete) return "(deleted)";
    return std::string(At(found.place)->value());
  }
  void Sweep() {
    std::string rest;
    ASSERT_TRUE(level_->Sweep({}, {}, UINT64_MAX, &rest).ok());
    EXPECT_EQ(rest, "");
    for (int i = 0; i < 8; i++) pool_->CollectDeferred();
  }

  static constexpr uint64_t kSequenceMax = uint64_t{1} << 50;
  const uint64_t second_chance_bytes_;
  SkipListHeads* heads_ = nullptr;
  Random random_{7};
  uint64_t sequence_ = 0;
  Elements table_;
  SnapshotList snapshots_;
  std::optional<DeadBytes> dead_;
  std::optional<LookupCache> lookup_cache_;
  std::optional<PmLevel> level_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_PM_LEVEL_TEST_BASE_H_
