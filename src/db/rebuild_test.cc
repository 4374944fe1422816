// Rebuilding after power cuts on page media, of records that lie there more than once: gc that was
// cut before it freed what it copied, and a rebuilding of a plain log that was itself cut, leave
// copies beside the originals.

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "log/pm_log.h"
#include "log/record_appender.h"
#include "testing/conformance.h"
#include "testing/expect_clean.h"
#include "testing/superblock_marks.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

struct RebuildCase {
  EngineLayout layout;
  std::string name;
  bool synced = false;
  bool killed = false;  // no power cut when the copies came to be
};

class Rebuilding : public ::testing::TestWithParam<RebuildCase> {
 protected:
  Rebuilding() {
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 8 << 20;
    options_.log_shards = 1;
    options_.medium = MediumKind::kPage;
    GetParam().layout.ApplyTo(&options_);
    arena_ = TraitsOf(GetParam().layout.engine).gc_arena;
  }

  std::unique_ptr<DbImpl> Open() {
    auto db = std::make_unique<DbImpl>(options_, dir_.Sub("store"), DbSeams{nullptr, true});
    const Status s = db->Init();
    EXPECT_TRUE(s.ok()) << s.ToString();
    return db;
  }

  // Each living record once more, in an arena chunk of its own session.
  void CopyRecords() {
    std::unique_ptr<Pool> pool;
    ASSERT_TRUE(Pool::Open({.part_paths = {path_},
                            .pool_bytes_max = options_.pool_bytes_max,
                            .medium = options_.medium},
                           &pool)
                    .ok());
    ASSERT_TRUE(pool->Mend().ok());
    std::vector<const Record*> records;
    uint64_t ordinal = 1;
    pool->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind == arena_->kind) ordinal = std::max(ordinal, chunk.ordinal + 1);
      if (chunk.kind != ChunkKind::kLog && chunk.kind != arena_->kind) return;
      ForEachRecord(
          *pool, chunk, 0,
          [&](const Record* record, PmPtr) {
            const auto same = [&](const Record* other) { return other->tag() == record->tag(); };
            if (std::ranges::none_of(records, same)) records.push_back(record);
          },
          nullptr);
    });
    ASSERT_EQ(records.size(), 2u);
    RecordAppender arena(pool.get(), 0, arena_->kind, arena_->owner, ordinal, WriteCause::kGc);
    for (const Record* record : records) {
      constexpr uint32_t kHeight = 2;
      ASSERT_TRUE(arena
                      .Prepare(RecordBytes(kHeight, record->key().size(), record->value().size()),
                               Claimant::kReclaim)
                      .ok());
      arena.Append({.tag = record->tag(),
                    .key = record->key(),
                    .value = record->value(),
                    .height = kHeight});
      arena.Commit();
    }
    arena.CloseChunk();
  }

  // With every page written back.
  void CutPower() {
    MarkAnotherBoot(path_);
    EditSuperblocksOf(path_, [](Superblock* copy, int) { copy->clean = 0; });
  }

  std::optional<GcArena> arena_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store") + "/pool.0";
  Options options_;
};

// The copy that was not linked had no mark, and came back once the delete of its key was gone.
TEST_P(Rebuilding, ACopyThatIsNotLinkedDoesNotComeBack) {
  if (!arena_) GTEST_SKIP() << "nothing is copied to an arena of gc's";
  const std::string large(
      40 << 10,
      'l');  // so that gc leaves its chunks alone: they are neither sparse nor known to be dead
  auto db = Open();
  ASSERT_TRUE(db->Put({}, "large", large).ok());
  ASSERT_TRUE(db->Put({}, "small", "value").ok());
  if (GetParam().synced) {
    ASSERT_TRUE(db->Close().ok());
  } else {
    db->Abandon();
  }
  db.reset();
  for (int copies = 0; copies < 2; copies++) ASSERT_NO_FATAL_FAILURE(CopyRecords());
  if (!GetParam().killed) {
    ASSERT_NO_FATAL_FAILURE(CutPower());
  }

  db = Open();
  std::string value;
  ASSERT_TRUE(db->Get({}, "small", &value).ok());
  EXPECT_EQ(value, "value");
  ASSERT_TRUE(db->Delete({}, "small").ok());
  ASSERT_TRUE(db->CompactRange({}, {}).ok());
  ASSERT_TRUE(db->Close().ok());
  db = Open();
  ASSERT_TRUE(db->CompactRange({}, {}).ok());  // drops the delete
  ASSERT_TRUE(db->Close().ok());
  db.reset();
  ASSERT_NO_FATAL_FAILURE(CutPower());

  db = Open();
  EXPECT_TRUE(db->Get({}, "small", &value).IsNotFound());
  ASSERT_TRUE(db->Get({}, "large", &value).ok());
  EXPECT_EQ(value, large);
  ASSERT_NO_FATAL_FAILURE(ExpectClean(db.get()));
}

// The rest of its batch was deleted, dropped, and its chunks freed: it was taken for the torn part
// of one. (Of a plain log; of a unified one StoreCrash's histories that give space back come to
// it.)
TEST_P(Rebuilding, ARecordIsKeptWithoutTheRestOfItsBatch) {
  const std::string large(40 << 10, 'l');  // in a chunk of its own
  auto db = Open();
  WriteBatch batch;
  for (const char* key : {"a", "b", "c", "d"}) batch.Put(key, large);
  ASSERT_TRUE(db->Write({}, batch).ok());
  ASSERT_TRUE(db->CompactRange({}, {}).ok());
  for (const char* key : {"b", "c", "d"}) ASSERT_TRUE(db->Delete({}, key).ok());
  for (int session = 0; session < 3; session++) {  // what one is filling is the next one's to empty
    ASSERT_TRUE(db->CompactRange({}, {}).ok());
    ASSERT_TRUE(db->CompactRange({}, {}).ok());
    ASSERT_TRUE(db->Close().ok());
    db.reset();
    if (session < 2) db = Open();
  }
  RepairReport report;
  const Status repaired = RepairDB(dir_.Sub("store"), options_, &report);
  ASSERT_TRUE(repaired.ok()) << repaired.ToString();
  EXPECT_EQ(report.records_lost, 0u);
  db = Open();
  std::string value;
  EXPECT_TRUE(db->Get({}, "a", &value).ok());
  EXPECT_TRUE(db->Get({}, "d", &value).IsNotFound());
  ASSERT_TRUE(db->Close().ok());
}

std::vector<RebuildCase> Cases() {
  std::vector<RebuildCase> cases;
  for (const EngineLayout& layout : EngineLayouts()) {
    cases.push_back({layout, layout.name + "_synced", true, false});
    cases.push_back({layout, layout.name + "_unsynced", false, false});
    cases.push_back({layout, layout.name + "_killed", false, true});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, Rebuilding, ::testing::ValuesIn(Cases()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
