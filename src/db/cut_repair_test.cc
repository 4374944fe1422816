// A repair of a store without a catalog that is cut, by a kill and the power after it: whoever goes
// on, an open or another repair, knows no more than the first one did, and loses nothing either.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
#include "testing/lost_catalog.h"
#include "testing/random_data.h"
#include "testing/superblock_marks.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

/// What a file has at each sync.
class KeepsImages final : public PersistHook {
 public:
  explicit KeepsImages(const std::string& path) : path_(path) {}
  void OnStore(const void*, size_t, const Site&) override {}
  void OnFlush(const Persister*, const void*, size_t, const Site&) override {}
  void OnFence(const Persister*, const Site&) override {}
  void OnSync(const void*, size_t, const Site&) override {
    std::string image = ReadWhole(path_);
    if (images.empty() || images.back() != image) images.push_back(std::move(image));
  }

  std::vector<std::string> images;

 private:
  const std::string path_;
};

class CutRepair : public ::testing::TestWithParam<EngineLayout> {
 protected:
  CutRepair() {
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 32 << 20;  // for what repairs that are cut leave, too
    options_.medium = MediumKind::kPage;
    GetParam().ApplyTo(&options_);
  }
  std::unique_ptr<DbImpl> New(PersistHook* hook = nullptr) {
    return std::make_unique<DbImpl>(options_, dir_.Sub("store"), DbSeams{hook, true});
  }
  /// Keys that were written again and again, so that numbers of the log are nowhere any more.
  void WriteAll() {
    const std::unique_ptr<DbImpl> db = New();
    ASSERT_TRUE(db->Init().ok());
    for (uint64_t round = 0; round < 20; round++) {
      for (uint64_t i = 0; i < 200; i++) {
        const std::string key = Concat("key", 1000 + i);
        model_[key] = MakeValue(round * 1000 + i, 100);
        ASSERT_TRUE(db->Put({}, key, model_[key]).ok());
      }
      ASSERT_TRUE(round % 2 != 0 || db->Flush().ok());
    }
    ASSERT_TRUE(db->CompactRange({}, {}).ok());
    for (uint64_t i = 0; i < 200; i += 7) {
      const std::string key = Concat("key", 1000 + i);
      model_[key] = MakeValue(i, 50);
      ASSERT_TRUE(db->Put({}, key, model_[key]).ok());
    }
    ASSERT_TRUE(db->Close().ok());
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

  std::map<std::string, std::string> model_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store") + "/pool.0";
  Options options_;
};

TEST_P(CutRepair, OfALostCatalogLosesNothing) {
  ASSERT_NO_FATAL_FAILURE(WriteAll());
  ASSERT_NO_FATAL_FAILURE(LoseCatalog());
  KeepsImages hook(path_);
  {
    RepairReport report;
    const Status s = New(&hook)->Repair(&report);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  ASSERT_GT(hook.images.size(), 2u);
  for (size_t i = 0; i < hook.images.size(); i++) {
    SCOPED_TRACE(Concat("at sync ", i));
    WriteWhole(path_, hook.images[i]);
    MarkAnotherBoot(path_);
    EditSuperblocksOf(path_, [](Superblock* copy, int) { copy->clean = 0; });
    std::unique_ptr<DbImpl> db = New();
    Status s = db->Init();
    if (s.IsCorruption()) {
      RepairReport report;
      db = New();
      s = db->Repair(&report);
      ASSERT_TRUE(s.ok()) << s.ToString();
      db = New();
      s = db->Init();
    }
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (const auto& [key, value] : model_) {
      std::string found;
      s = db->Get({}, key, &found);
      ASSERT_TRUE(s.ok() && found == value) << key << ": " << s.ToString();
    }
  }
}

// What lies in files is not in an image.
std::vector<EngineLayout> Layouts() {
  std::vector<EngineLayout> layouts;
  for (const EngineLayout& layout : EngineLayouts()) {
    Options options;
    layout.ApplyTo(&options);
    const bool has_files = options.engine == EngineKind::kLightKv ||
                           options.engine == EngineKind::kLabDb ||
                           options.tlsm.tiering != TlsmTiering::kNone;
    if (!has_files && options.pmem_paths.empty()) layouts.push_back(layout);
  }
  return layouts;
}
INSTANTIATE_TEST_SUITE_P(All, CutRepair, ::testing::ValuesIn(Layouts()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
