// A repair of a store without a catalog, or the first work after it, is cut by a kill, or by the
// power: whoever goes on, an open or another repair, knows no more than the first one did, and
// loses nothing either; nor does it bring back what was deleted, where the report does not say that
// it may. Of what was not synced a power cut leaves all, or of the pool's sectors (512 bytes) some,
// and of files what CutFiles says.

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "testing/affinity.h"
#include "testing/conformance.h"
#include "testing/cut_files.h"
#include "testing/lost_catalog.h"
#include "testing/random_data.h"
#include "testing/superblock_marks.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

enum class CutBy : uint8_t { kKill, kPowerAllWritten, kPowerSomeWritten };
constexpr const char* kCutNames[] = {"a kill", "a power cut that left all",
                                     "a power cut that left some"};

/// What a cut may leave.
struct CutImage {
  std::string name;
  CutBy cut = CutBy::kKill;
  std::string pool;
  std::unique_ptr<CutFiles> files;
};

/// Some of what cuts may leave at each sync of a pool's file, and before each change of the files
/// beside it.
class KeepsImages final : public PersistHook {
 public:
  KeepsImages(const std::string& directory, CutFiles* files, size_t images_max, Random* random)
      : directory_(directory),
        path_(directory + "/pool.0"),
        files_(files),
        images_max_(images_max),
        random_(random),
        durable_(ReadWhole(path_)) {
    files_->BeforeChange([this] { Keep("a change of files"); });
  }
  ~KeepsImages() override { files_->BeforeChange(nullptr); }

  void OnStore(const void*, size_t, const Site&) override {}
  void OnFlush(const Persister*, const void*, size_t, const Site&) override {}
  void OnFence(const Persister*, const Site&) override {}
  void OnSync(const void*, size_t, const Site&) override {
    Keep("a sync");
    if (!forgets_) durable_ = ReadWhole(path_);
  }
  /// A control: no sync brings anything to the medium.
  void ForgetSyncs() { forgets_ = true; }

  std::vector<CutImage> images;

 private:
  // Of all moments each is as likely to be among those that are kept.
  void Keep(const char* what) {
    moments_++;
    const uint64_t at = images.size() < images_max_ ? images.size() : random_->Uniform(moments_);
    if (at >= images_max_) return;
    CutImage image;
    image.cut = static_cast<CutBy>(random_->Uniform(3));
    image.name =
        Concat("moment ", moments_, ", ", what, ", ", kCutNames[static_cast<size_t>(image.cut)]);
    image.pool = ReadWhole(path_);
    if (image.cut == CutBy::kPowerSomeWritten) TakeBackSome(&image.pool);
    image.files = std::make_unique<CutFiles>(directory_);
    files_->Crash(image.cut == CutBy::kKill, random_, image.files.get());
    if (at == images.size()) images.emplace_back();
    images[at] = std::move(image);
  }
  void TakeBackSome(std::string* pool) {
    constexpr size_t kSectorBytes = 512;
    std::string durable = durable_;
    durable.resize(pool->size(), '\0');
    for (size_t at = 0; at < pool->size(); at += kSectorBytes) {
      if (pool->compare(at, kSectorBytes, durable, at, kSectorBytes) != 0 && random_->OneIn(2))
        pool->replace(at, kSectorBytes, durable, at, kSectorBytes);
    }
  }

  const std::string directory_;
  const std::string path_;
  CutFiles* const files_;
  const size_t images_max_;
  Random* const random_;
  std::string durable_;
  uint64_t moments_ = 0;
  bool forgets_ = false;
};

class CutRepair : public ::testing::TestWithParam<EngineLayout> {
 protected:
  static constexpr uint64_t kKeys = 200;

  CutRepair() {
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.log_shards = 2;
    options_.pool_bytes_max = 32 << 20;  // for what repairs that are cut leave, too
    options_.medium = MediumKind::kPage;
    GetParam().ApplyTo(&options_);
  }
  std::unique_ptr<DbImpl> New(FileSystem* files, PersistHook* hook = nullptr) {
    return std::make_unique<DbImpl>(options_, store_, DbSeams{hook, true, files});
  }
  // To one of the log's shards, or another.
  void MayGoElsewhere() {
    if (random_.OneIn(50)) RunOn(static_cast<uint32_t>(random_.Uniform(2)));
  }
  static std::string Key(uint64_t i) { return Concat("key", 1000 + i); }
  void Put(DbImpl* db, uint64_t i, uint64_t id) {
    MayGoElsewhere();
    model_[Key(i)] = MakeValue(id, 100);
    once_had_[Key(i)].insert(model_[Key(i)]);
    ASSERT_TRUE(db->Put({}, Key(i), model_[Key(i)]).ok());
  }
  void Delete(DbImpl* db, uint64_t i) {
    MayGoElsewhere();
    model_.erase(Key(i));
    ASSERT_TRUE(db->Delete({}, Key(i)).ok());
  }
  /// Keys that were written again and again, so that numbers of the log are nowhere any more, and
  /// deleted above older values of tables.
  void WriteAll() {
    const std::unique_ptr<DbImpl> db = New(&files_);
    ASSERT_TRUE(db->Init().ok());
    for (uint64_t round = 0; round < 20; round++) {
      for (uint64_t i = 0; i < kKeys; i++) Put(db.get(), i, round * 1000 + i);
      for (uint64_t i = round % 10; i < kKeys; i += 10) Delete(db.get(), i);
      ASSERT_TRUE(round % 2 != 0 || db->Flush().ok());
    }
    ASSERT_TRUE(db->CompactRange({}, {}).ok());
    for (uint64_t i = 0; i < kKeys; i += 7) Put(db.get(), i, i);
    for (uint64_t i = 0; i < kKeys; i += 11) Delete(db.get(), i);
    ASSERT_TRUE(db->Flush().ok());
    for (uint64_t i = 0; i < kKeys; i += 13) Put(db.get(), i, i);
    for (uint64_t i = 0; i < kKeys; i += 17) Delete(db.get(), i);
    ASSERT_TRUE(db->Close().ok());
    RunAnywhere();
  }
  void LoseCatalog() {
    std::vector<uint64_t> catalogs;
    {
      std::unique_ptr<Pool> pool;
      ASSERT_TRUE(Pool::Open({.part_paths = {path_}, .medium = options_.medium}, &pool).ok());
      catalogs = CatalogsOf(*pool);
    }
    std::string bytes = ReadWhole(path_);
    LoseCatalogs(catalogs, &bytes);
    WriteWhole(path_, bytes);
  }
  std::string RepairWith(FileSystem* files, PersistHook* hook = nullptr) {
    RepairReport report;
    const Status s = New(files, hook)->Repair(&report);
    may_be_back_ |= std::ranges::any_of(report.notes, [](const std::string& note) {
      return note.find("may be back") != std::string::npos;
    });
    return s.ok() ? "" : "repair: " + s.ToString();
  }
  // Records move, and what the repair let go of is used again, by writes that change nothing.
  void WriteAllAgain(FileSystem* files, PersistHook* hook) {
    const std::unique_ptr<DbImpl> db = New(files, hook);
    ASSERT_TRUE(db->Init().ok());
    for (uint64_t round = 0; round < 2; round++) {
      for (uint64_t i = 0; i < kKeys; i++) {
        const auto at = model_.find(Key(i));
        const Status s =
            at == model_.end() ? db->Delete({}, Key(i)) : db->Put({}, Key(i), at->second);
        ASSERT_TRUE(s.ok()) << s.ToString();
      }
      ASSERT_TRUE(db->CompactRange({}, {}).ok());
      ASSERT_TRUE(db->Sync().ok());
    }
    db->Abandon();
  }
  // "" where whoever finds the image loses nothing, nor brings anything back; also of a repair that
  // is cut, `depth` times.
  std::string LookAt(const CutImage& image, int depth) {
    WriteWhole(path_, image.pool);
    if (image.cut == CutBy::kKill) {
      MarkSameFile(path_);
    } else {
      MarkAnotherBoot(path_);
    }
    CutFiles files(store_);
    files.TakeOver(*image.files);
    std::unique_ptr<DbImpl> db = New(&files);
    Status s = db->Init();
    if (s.IsCorruption()) {
      db.reset();
      KeepsImages hook(store_, &files, 1, &random_);
      if (std::string wrong = RepairWith(&files, &hook); !wrong.empty()) return wrong;
      if (depth > 0 && !hook.images.empty()) {
        const std::string repaired = ReadWhole(path_);
        const std::string wrong = LookAt(hook.images[0], depth - 1);
        if (!wrong.empty()) return Concat("a repair cut at ", hook.images[0].name, ": ", wrong);
        WriteWhole(path_, repaired);
      }
      files.BeforeChange(nullptr);
      db = New(&files);
      s = db->Init();
    }
    if (!s.ok()) return "open: " + s.ToString();
    std::string wrong = Compare(db.get());
    CheckReport report;
    if (wrong.empty() && !db->CheckQuietly(&report).ok()) wrong = "the check fails";
    if (wrong.empty() && !report.clean()) wrong = "check: " + report.problems[0];
    db->Abandon();
    return wrong;
  }
  std::string Compare(DbImpl* db) {
    std::map<std::string, std::string> shown;
    for (uint64_t i = 0; i < kKeys; i++) {
      std::string found;
      const Status s = db->Get({}, Key(i), &found);
      const auto at = model_.find(Key(i));
      const bool is_deleted = at == model_.end();
      const bool is_right = is_deleted ? s.IsNotFound() : s.ok() && found == at->second;
      const bool is_back =
          is_deleted && may_be_back_ && s.ok() && once_had_[Key(i)].contains(found);
      if (!is_right && !is_back)
        return Concat(is_deleted ? "deleted " : "", Key(i), ": ", s.ToString());
      if (s.ok()) shown.emplace(Key(i), found);
    }
    std::map<std::string, std::string> found;
    const auto it = db->NewIterator({});
    for (it->SeekToFirst(); it->Valid(); it->Next()) found.emplace(it->key(), it->value());
    if (!it->status().ok()) return "scan: " + it->status().ToString();
    return found == shown ? "" : "a scan shows something else than Gets do";
  }

  Random random_{MixBits(TestSeed())};
  std::map<std::string, std::string> model_;
  std::map<std::string, std::set<std::string>> once_had_;
  bool may_be_back_ = false;  // what was deleted
  TempDir dir_;
  const std::string store_ = dir_.Sub("store");
  const std::string path_ = store_ + "/pool.0";
  CutFiles files_{store_};
  Options options_;
};

TEST_P(CutRepair, OfALostCatalogLosesNothing) {
  constexpr size_t kImages = 12;
  ASSERT_NO_FATAL_FAILURE(WriteAll());
  ASSERT_NO_FATAL_FAILURE(LoseCatalog());
  KeepsImages hook(store_, &files_, kImages, &random_);
  ASSERT_EQ(RepairWith(&files_, &hook), "");
  ASSERT_GT(hook.images.size(), 2u);
  ASSERT_NO_FATAL_FAILURE(WriteAllAgain(&files_, &hook));
  for (const CutImage& image : hook.images) EXPECT_EQ(LookAt(image, 1), "") << "at " << image.name;
}

std::vector<EngineLayout> Layouts() {
  std::vector<EngineLayout> layouts = EngineLayouts();
  std::erase_if(layouts, [](const EngineLayout& layout) {
    Options options;
    layout.ApplyTo(&options);
    return !options.pmem_paths.empty();  // an image is of one part
  });
  return layouts;
}
INSTANTIATE_TEST_SUITE_P(All, CutRepair, ::testing::ValuesIn(Layouts()),
                         [](const auto& param) { return param.param.name; });

// The control.
class CutRepairControl : public CutRepair {};

TEST_P(CutRepairControl, AMediumThatForgetsSyncsIsNoticed) {
  ASSERT_NO_FATAL_FAILURE(WriteAll());
  ASSERT_NO_FATAL_FAILURE(LoseCatalog());
  KeepsImages hook(store_, &files_, 30, &random_);
  hook.ForgetSyncs();
  ASSERT_EQ(RepairWith(&files_, &hook), "");
  ASSERT_NO_FATAL_FAILURE(WriteAllAgain(&files_, &hook));
  EXPECT_TRUE(std::ranges::any_of(
      hook.images, [this](const CutImage& image) { return !LookAt(image, 0).empty(); }));
}

INSTANTIATE_TEST_SUITE_P(One, CutRepairControl, ::testing::Values(EngineLayouts()[0]),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
