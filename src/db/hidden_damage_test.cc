// What damage took stays reported until a repair that says so has ended: by each open, also after a
// repair that was cut, and after a power cut; and what is in the log alone is not taken for
// something that tables have.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "log/pm_log.h"
#include "pool/chunk_table.h"
#include "testing/conformance.h"
#include "testing/lost_catalog.h"
#include "testing/random_data.h"
#include "testing/superblock_marks.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

/// Calls at each fence, and at the first store of each edit of a catalog.
class Watches final : public PersistHook {
 public:
  void OnStore(const void*, size_t, const Site& site) override {
    const bool in_edit = std::string_view(site.file_name()).find("catalog") != std::string::npos;
    if (in_edit && !in_edit_ && on_edit) on_edit();
    in_edit_ = in_edit;
  }
  void OnFlush(const Persister*, const void*, size_t, const Site&) override {}
  void OnFence(const Persister*, const Site&) override {
    if (on_fence) on_fence();
  }
  void OnSync(const void*, size_t, const Site&) override {}

  std::function<void()> on_edit;
  std::function<void()> on_fence;

 private:
  bool in_edit_ = false;
};

class HiddenDamage : public ::testing::TestWithParam<EngineLayout> {
 protected:
  using Image = std::map<std::string, std::string>;  // all files of the store
  static constexpr uint32_t kChunkShift = 16;

  HiddenDamage() {
    options_.chunk_bytes = uint64_t{1} << kChunkShift;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 64 << 20;
    options_.log_shards = 1;
    options_.medium = MediumKind::kCacheLine;
    options_.verify_checksums = true;
    options_.background_threads = 0;
    GetParam().ApplyTo(&options_);
  }
  std::unique_ptr<DbImpl> New(PersistHook* hook = nullptr) {
    return std::make_unique<DbImpl>(options_, path_, DbSeams{hook, true});
  }
  Status Open(std::unique_ptr<DbImpl>* db, PersistHook* hook = nullptr) {
    *db = New(hook);
    return (*db)->Init();
  }
  static std::string KeyOf(uint64_t i) { return Concat("key", 1000 + i); }
  void Put(DbImpl* db, uint64_t i, uint64_t value) {
    model_[KeyOf(i)] = MakeValue(value, 100);
    ASSERT_TRUE(db->Put({}, KeyOf(i), model_[KeyOf(i)]).ok());
  }
  void PutAll(DbImpl* db, uint64_t from, uint64_t to, uint64_t value) {
    for (uint64_t i = from; i < to; i++) ASSERT_NO_FATAL_FAILURE(Put(db, i, value + i));
  }

  /// A store of so many keys, as a kill leaves it.
  void Build(uint64_t puts) {
    std::unique_ptr<DbImpl> db;
    ASSERT_TRUE(Open(&db).ok());
    ASSERT_NO_FATAL_FAILURE(PutAll(db.get(), 0, puts, 0));
    db->Abandon();
  }

  Image Files() const {
    Image files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.is_regular_file()) files[entry.path()] = ReadWhole(entry.path());
    }
    return files;
  }
  /// The store as a process that was killed left it.
  void Restore(const Image& image) const {
    for (const auto& [path, bytes] : Files()) {
      if (!image.contains(path)) std::filesystem::remove(path);
    }
    for (const auto& [path, bytes] : image) WriteWhole(path, bytes);
    MarkSameFile(pool_path_);
  }
  void CutPower() const {
    MarkAnotherBoot(pool_path_);
    EditSuperblocksOf(pool_path_, [](Superblock* copy, int) { copy->clean = 0; });
  }

  /// Where in the pool's file the value of the log's record of this number begins; 0: nowhere.
  uint64_t ValueInLog(uint64_t sequence) const {
    std::unique_ptr<Pool> pool;
    const Status s = Pool::Open({.part_paths = {pool_path_}, .medium = options_.medium}, &pool);
    EXPECT_TRUE(s.ok()) << s.ToString();
    uint64_t place = 0;
    pool->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind != ChunkKind::kLog) return;
      ForEachRecord(
          *pool, chunk, 0,
          [&](const Record* record, PmPtr at) {
            if (record->sequence() != sequence) return;
            place = at.offset() + static_cast<uint64_t>(record->value().data() -
                                                        reinterpret_cast<const char*>(record));
          },
          nullptr);
    });
    return place;
  }
  uint64_t FreeChunks() const {
    std::unique_ptr<Pool> pool;
    const Status s = Pool::Open({.part_paths = {pool_path_}, .medium = options_.medium}, &pool);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return pool->free_chunks();
  }
  void DamageInLog(uint64_t sequence) const {
    const uint64_t at = ValueInLog(sequence);
    ASSERT_NE(at, 0u) << "the log has no record " << sequence;
    std::string bytes = ReadWhole(pool_path_);
    bytes[at] = static_cast<char>(~bytes[at]);
    WriteWhole(pool_path_, bytes);
    MarkSameFile(pool_path_);
  }
  /// The log's chunks that begin with one of the first numbers say no more how far they reach.
  void ForgetReach(uint64_t last) const {
    std::vector<uint64_t> places;
    {
      std::unique_ptr<Pool> pool;
      const Status s = Pool::Open({.part_paths = {pool_path_}, .medium = options_.medium}, &pool);
      ASSERT_TRUE(s.ok()) << s.ToString();
      pool->ForEachChunk([&](const ChunkRef& chunk) {
        if (chunk.kind != ChunkKind::kLog) return;
        uint64_t first = 0;
        ForEachRecord(
            *pool, chunk, 0,
            [&first](const Record* record, PmPtr) {
              if (first == 0) first = record->sequence();
            },
            nullptr);
        if (first <= last) places.push_back(DescriptorOffset(kChunkShift, chunk.index));
      });
    }
    ASSERT_FALSE(places.empty());
    std::string bytes = ReadWhole(pool_path_);
    for (const uint64_t at : places)
      bytes.replace(at + offsetof(ChunkDescriptor, whole_bytes), 8, 8, '\0');
    WriteWhole(pool_path_, bytes);
    MarkSameFile(pool_path_);
  }
  void LoseCatalog() const {
    std::vector<uint64_t> catalogs;
    {
      std::unique_ptr<Pool> pool;
      const Status s = Pool::Open({.part_paths = {pool_path_}, .medium = options_.medium}, &pool);
      ASSERT_TRUE(s.ok()) << s.ToString();
      catalogs = CatalogsOf(*pool);
    }
    std::string bytes = ReadWhole(pool_path_);
    LoseCatalogs(catalogs, &bytes);
    WriteWhole(pool_path_, bytes);
    MarkSameFile(pool_path_);
  }

  /// A repair, and what the store has then: all but `lost` keys.
  void RepairAndCompare(uint64_t lost) {
    RepairReport report;
    Status s = New()->Repair(&report);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_GE(report.records_lost, lost);
    std::unique_ptr<DbImpl> db;
    s = Open(&db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    std::string first;
    EXPECT_EQ(CountMissing(db.get(), &first), lost)
        << first << "; lost as reported: " << report.records_lost;
    db->Abandon();
  }
  /// Of what was written.
  uint64_t CountMissing(DbImpl* db, std::string* first = nullptr) const {
    uint64_t missing = 0;
    for (const auto& [key, value] : model_) {
      std::string found;
      if (db->Get({}, key, &found).ok() && found == value) continue;
      if (missing++ == 0 && first != nullptr) *first = key;
    }
    return missing;
  }

  std::map<std::string, std::string> model_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  const std::string pool_path_ = path_ + "/pool.0";
  Options options_;
};

// No record follows the last one: that it was there the chunk's descriptor says alone.
TEST_P(HiddenDamage, OfTheLogsEndIsReportedAfterARepairThatWasCut) {
  constexpr uint64_t kPuts = 30;
  ASSERT_NO_FATAL_FAILURE(Build(kPuts));
  ASSERT_NO_FATAL_FAILURE(DamageInLog(kPuts));
  const Image damaged = Files();
  std::unique_ptr<DbImpl> db;
  ASSERT_TRUE(Open(&db).IsCorruption()) << "the control";
  db.reset();
  Restore(damaged);
  std::vector<Image> cuts;  // before each edit
  Watches hook;
  hook.on_edit = [&] { cuts.push_back(Files()); };
  {
    RepairReport report;
    const Status s = New(&hook)->Repair(&report);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(report.records_lost, 1u);
  }
  ASSERT_FALSE(cuts.empty());
  for (size_t i = 0; i < cuts.size(); i++) {
    SCOPED_TRACE(Concat("cut before edit ", i));
    Restore(cuts[i]);
    const Status s = Open(&db);
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    db->Abandon();
    db.reset();
    Restore(cuts[i]);
    ASSERT_NO_FATAL_FAILURE(RepairAndCompare(1));
  }
}

// Of chunks of before a power cut nothing may say how far they reach: what follows damage in them
// is no write that was cut.
TEST_P(HiddenDamage, InALogOfBeforeAPowerCutTakesNoOtherRecord) {
  constexpr uint64_t kPuts = 30;
  ASSERT_NO_FATAL_FAILURE(Build(kPuts));
  ASSERT_NO_FATAL_FAILURE(ForgetReach(kPuts));
  CutPower();
  std::unique_ptr<DbImpl> db;
  ASSERT_TRUE(Open(&db).ok());
  model_["large"] = MakeValue(kPuts, 5000);  // to another shard
  ASSERT_TRUE(db->Put({}, "large", model_["large"]).ok());
  db->Abandon();
  db.reset();
  if (ValueInLog(10) == 0) GTEST_SKIP() << "what an open finds in the log it flushes";
  const Image sound = Files();
  // As the next session left it, which notes it at leisure, and before it did.
  for (const bool is_known : {true, false}) {
    for (const uint64_t damaged : {uint64_t{10}, kPuts - 1}) {  // one is the shard's last but one
      SCOPED_TRACE(Concat(is_known ? "as it was left, " : "", damaged));
      Restore(sound);
      if (!is_known) {
        ASSERT_NO_FATAL_FAILURE(ForgetReach(kPuts));
      }
      ASSERT_NO_FATAL_FAILURE(DamageInLog(damaged));
      ASSERT_NO_FATAL_FAILURE(RepairAndCompare(1));
    }
  }
}

// A flush that is cut leaves some of its tables. What they do not have is in the log alone, with
// lesser numbers, too.
TEST_P(HiddenDamage, OfTheLogBesideACutFlushAndALostCatalogTakesNoOtherRecord) {
  constexpr uint64_t kPuts = 80;
  std::vector<Image> cuts;
  Watches hook;
  uint64_t fences = 0;
  uint64_t wanted = 1;
  {
    std::unique_ptr<DbImpl> db;
    ASSERT_TRUE(Open(&db, &hook).ok());
    ASSERT_NO_FATAL_FAILURE(PutAll(db.get(), 0, kPuts, 7000));
    ASSERT_TRUE(db->Flush().ok());
    ASSERT_NO_FATAL_FAILURE(PutAll(db.get(), 0, kPuts, 0));
    hook.on_fence = [&] {
      if (++fences != wanted) return;
      wanted += wanted / 2 + 1;
      cuts.push_back(Files());
    };
    hook.on_edit = [&] { cuts.push_back(Files()); };
    ASSERT_TRUE(db->Flush().ok());
    hook.on_fence = nullptr;
    hook.on_edit = nullptr;
    db->Abandon();
  }
  for (size_t i = 0; i < cuts.size(); i++) {
    for (const uint64_t damaged : {uint64_t{0}, 2 * kPuts - 50}) {
      SCOPED_TRACE(Concat("cut ", i, " of ", cuts.size(), damaged == 0 ? "" : ", and damage"));
      Restore(cuts[i]);
      if (damaged != 0 && ValueInLog(damaged) == 0) continue;
      if (damaged != 0) {
        ASSERT_NO_FATAL_FAILURE(DamageInLog(damaged));
      }
      ASSERT_NO_FATAL_FAILURE(LoseCatalog());
      RepairReport report;
      Status s = New()->Repair(&report);
      ASSERT_TRUE(s.ok()) << s.ToString();
      std::unique_ptr<DbImpl> db;
      s = Open(&db);
      ASSERT_TRUE(s.ok()) << s.ToString();
      EXPECT_LE(CountMissing(db.get()), damaged == 0 ? 0u : 1u)
          << "as reported: " << report.records_lost;
      db->Abandon();
    }
  }
}

// The pool notes what was synced, which a cut does not take. What was not synced may go.
TEST_P(HiddenDamage, OfWhatWasSyncedIsReportedAfterAPowerCut) {
  options_.medium = MediumKind::kPage;
  constexpr uint64_t kSynced = 30;
  constexpr uint64_t kPuts = 35;
  {
    std::unique_ptr<DbImpl> db;
    ASSERT_TRUE(Open(&db).ok());
    ASSERT_NO_FATAL_FAILURE(PutAll(db.get(), 0, kSynced, 0));
    ASSERT_TRUE(db->Sync().ok());
    ASSERT_NO_FATAL_FAILURE(PutAll(db.get(), kSynced, kPuts, 0));
    db->Abandon();
  }
  CutPower();
  const Image sound = Files();
  const auto open = [&](uint64_t damaged) {
    WriteWhole(pool_path_, sound.at(pool_path_));
    if (damaged != 0) DamageInLog(damaged);
    CutPower();
    std::unique_ptr<DbImpl> db;
    const Status s = Open(&db);
    db->Abandon();
    return s;
  };
  for (const uint64_t damaged : {uint64_t{0}, kSynced + 3, kPuts}) {
    const Status s = open(damaged);
    EXPECT_TRUE(s.ok()) << damaged << ": " << s.ToString();
  }
  for (const uint64_t damaged : {uint64_t{1}, kSynced / 2, kSynced}) {
    SCOPED_TRACE(damaged);
    uint64_t free = 0;
    for (int again = 0; again < 4; again++) {
      const Status s = again == 0 ? open(damaged) : New()->Init();
      EXPECT_TRUE(s.IsCorruption()) << again << ": " << s.ToString();
      if (again == 0) free = FreeChunks();
    }
    EXPECT_EQ(FreeChunks(), free) << "an open that is refused takes nothing";
    ASSERT_NO_FATAL_FAILURE(RepairAndCompare(1));
  }
}

class HiddenDamageOfFiles : public HiddenDamage {
 protected:
  HiddenDamageOfFiles() { Apply(TraitsOf(GetParam().engine).files_soon, &options_); }
};

// The file of a copy that went on by itself: sound, of this store and number, and another.
TEST_P(HiddenDamageOfFiles, ATableOfACopyOfTheStoreIsNotTakenForItsOwn) {
  std::unique_ptr<DbImpl> db;
  ASSERT_TRUE(Open(&db).ok());
  ASSERT_NO_FATAL_FAILURE(PutAll(db.get(), 0, 800, 0));
  ASSERT_TRUE(db->CompactRange({}, {}).ok());
  ASSERT_TRUE(db->Close().ok());
  db.reset();
  const Image before = Files();
  const auto go_on = [&](uint64_t from, uint64_t to) {
    ASSERT_TRUE(Open(&db).ok());
    ASSERT_NO_FATAL_FAILURE(PutAll(db.get(), from, to, 500));
    ASSERT_TRUE(db->CompactRange({}, {}).ok());
    ASSERT_TRUE(db->Close().ok());
    db.reset();
  };
  const auto was = model_;
  ASSERT_NO_FATAL_FAILURE(go_on(0, 700));
  const Image copy = Files();
  Restore(before);
  model_ = was;
  ASSERT_NO_FATAL_FAILURE(go_on(200, 800));
  ASSERT_TRUE(Open(&db).ok());
  ASSERT_NO_FATAL_FAILURE(PutAll(db.get(), 900, 905, 0));  // with numbers that the copy drew, too
  db->Abandon();
  db.reset();
  uint64_t others = 0;
  for (const std::string& path : TableFilesOf(path_)) {
    const auto other = copy.find(path);
    if (other == copy.end() || other->second == ReadWhole(path)) continue;
    WriteWhole(path, other->second);
    others++;
  }
  ASSERT_GT(others, 0u);
  ASSERT_TRUE(Open(&db).IsCorruption()) << "the control";
  db.reset();
  RepairReport report;
  ASSERT_TRUE(New()->Repair(&report).ok());
  ASSERT_TRUE(Open(&db).ok()) << "once and for all";
  EXPECT_LE(CountMissing(db.get()), report.records_lost);
  for (uint64_t i = 900; i < 905; i++) {
    std::string found;
    EXPECT_TRUE(db->Get({}, KeyOf(i), &found).ok() && found == model_[KeyOf(i)]) << i;
  }
  db->Abandon();
}

std::vector<EngineLayout> OneOfEach() {
  std::vector<EngineLayout> layouts = EngineLayouts();
  const auto same = [](const EngineLayout& a, const EngineLayout& b) {
    return a.engine == b.engine;
  };
  layouts.erase(std::unique(layouts.begin(), layouts.end(), same), layouts.end());
  return layouts;
}
INSTANTIATE_TEST_SUITE_P(All, HiddenDamage, ::testing::ValuesIn(OneOfEach()),
                         [](const auto& param) { return param.param.name; });

INSTANTIATE_TEST_SUITE_P(All, HiddenDamageOfFiles, ::testing::ValuesIn(EngineLayoutsWithFiles()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
