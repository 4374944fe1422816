// The pool of a store is gone, and what it has in files beside it is left: what open and check say
// of it, that a repair saves all that tables in files hold and says of no loss that it is smaller
// than it is, and that nothing is given up that the pool, found again, would need.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "db/db_impl.h"
#include "log/record.h"
#include "sst/sst.h"
#include "sst/sst_salvage.h"
#include "testing/conformance.h"
#include "testing/random_data.h"
#include "testing/says.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

namespace fs = std::filesystem;

class LostPool : public ::testing::TestWithParam<EngineLayout> {
 protected:
  using Content = std::map<std::string, std::string>;

  LostPool() {
    GetParam().ApplyTo(&options_);
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 16 << 20;
    options_.log_shards = 1;
    options_.medium = MediumKind::kCacheLine;
    options_.verify_checksums = true;
    options_.background_threads = 0;
  }
  Status Open() {
    db_.reset();
    db_ = std::make_unique<DbImpl>(options_, path_, DbSeams{nullptr, true});
    return db_->Init();
  }
  static std::string Key(uint64_t i) { return MakeKey(KeyShape::kCommonPrefix, i); }
  void Put(uint64_t i, uint64_t value) {
    const Status s = db_->Put({}, Key(i), MakeValue(value, 200));
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  /// Most in tables, and in the pool alone, beside others, newer versions of some and a delete.
  void Build() {
    ASSERT_TRUE(Open().ok());
    for (uint64_t i = 0; i < 2000; i++) ASSERT_NO_FATAL_FAILURE(Put(i, i));
    ASSERT_TRUE(db_->Delete({}, Key(1000)).ok());
    ASSERT_TRUE(db_->CompactRange({}, {}).ok());
    for (uint64_t i = 1990; i < 2050; i++) ASSERT_NO_FATAL_FAILURE(Put(i, i + 10'000));
    ASSERT_TRUE(db_->Delete({}, Key(7)).ok());
    Leave();
    ASSERT_FALSE(TableFilesOf(path_).empty());
  }
  // As a kill does: a close of some designs leaves nothing in the pool.
  void Leave() {
    db_->Abandon();
    db_.reset();
  }
  Content Scan() {
    Content found;
    const auto it = db_->NewIterator({});
    for (it->SeekToFirst(); it->Valid(); it->Next()) found.emplace(it->key(), it->value());
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
    return found;
  }
  /// Of every key that tables in files have, what the newest of them says.
  Content InTables() const {
    std::map<std::string, std::pair<uint64_t, std::string>> newest;
    for (const std::string& path : TableFilesOf(path_)) {
      SstIdentity identity;
      std::shared_ptr<const Sst> sst;
      Status s = ReadSstIdentity(FileSystem::Posix(), path, &identity);
      if (s.ok()) s = Sst::Open(FileSystem::Posix(), path_, identity, {}, &sst);
      EXPECT_TRUE(s.ok()) << s.ToString();
      if (!s.ok()) continue;
      const auto it = Sst::NewIterator(sst, {});
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        auto& [tag, value] = newest[std::string(it->key().user_key)];
        if (TagSequence(it->key().tag) < TagSequence(tag)) continue;
        tag = it->key().tag;
        value = it->value();
      }
      EXPECT_TRUE(it->status().ok()) << it->status().ToString();
    }
    Content content;
    for (const auto& [key, version] : newest) {
      if (TagKind(version.first) != RecordKind::kDelete) content.emplace(key, version.second);
    }
    return content;
  }
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const std::string& path : DataFilesOf(path_)) files.emplace(path, ReadWhole(path));
    return files;
  }
  void ExpectRefused(const std::vector<std::string>& texts) {
    const Status s = Open();
    db_.reset();
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    for (const std::string& text : texts)
      EXPECT_TRUE(Says(s, text)) << text << ": " << s.ToString();
    CheckReport report;
    ASSERT_TRUE(CheckDB(path_, options_, &report).ok());
    ASSERT_EQ(report.problems.size(), 1u);
    EXPECT_NE(report.problems[0].find(texts[0]), std::string::npos) << report.problems[0];
  }

  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  const std::string pool_ = path_ + "/pool.0";
  Options options_;
  std::unique_ptr<DbImpl> db_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LostPool);
INSTANTIATE_TEST_SUITE_P(All, LostPool, ::testing::ValuesIn(EngineLayoutsWithFiles()),
                         [](const auto& param) { return param.param.name; });

TEST_P(LostPool, WhatTablesHoldIsSavedAndTheLossIsNotSaidToBeKnown) {
  for (const bool was_cut : {false, true}) {
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    ASSERT_NO_FATAL_FAILURE(Build());
    ASSERT_TRUE(Open().ok());
    const Content before = Scan();
    Leave();
    fs::remove(pool_);
    const auto files = Files();
    ExpectRefused({pool_, TableFilesOf(path_)[0], "put the pool back", "lamella repair"});
    EXPECT_EQ(Files(), files);
    if (was_cut) {  // a repair that was cut short has made a pool, and nothing else
      ASSERT_TRUE(DbImpl(options_, path_, {}).CreateLostPool().ok());
      ExpectRefused({"lamella repair"});
      EXPECT_EQ(Files(), files);
    }
    const Content left = InTables();
    ASSERT_GT(left.size(), 1000u);
    ASSERT_NE(left, before) << "some was in the pool alone";
    RepairReport report;
    const Status s = RepairDB(path_, options_, &report);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_TRUE(report.loss_unknown);
    EXPECT_EQ(report.records_kept, left.size());
    std::string notes;
    for (const std::string& note : report.notes) notes += note + "\n";
    EXPECT_NE(notes.find("the pool is gone"), std::string::npos) << notes;
    EXPECT_EQ(notes.find("damaged"), std::string::npos) << "nothing is that is there: " << notes;
    const bool had_values = std::ranges::any_of(files, [](const auto& file) {
      return file.first.ends_with(kValueFileSuffix) && !file.second.empty();
    });
    EXPECT_EQ(notes.find("bytes of values in") != std::string::npos, had_values) << notes;
    ASSERT_TRUE(Open().ok());
    EXPECT_EQ(Scan(), left);
    for (uint64_t i = 1500; i < 2500; i++) ASSERT_NO_FATAL_FAILURE(Put(i, i + 20'000));
    ASSERT_TRUE(db_->CompactRange({}, {}).ok());
    ASSERT_TRUE(db_->Close().ok());
    CheckReport checked;
    ASSERT_TRUE(CheckDB(path_, options_, &checked).ok());
    EXPECT_TRUE(checked.clean()) << checked.problems[0];
    ASSERT_TRUE(Open().ok());
    Content expected = left;
    for (uint64_t i = 1500; i < 2500; i++) expected[Key(i)] = MakeValue(i + 20'000, 200);
    EXPECT_EQ(Scan(), expected);
    ASSERT_TRUE(db_->Close().ok());
    report = {};
    ASSERT_TRUE(RepairDB(path_, options_, &report).ok());
    EXPECT_FALSE(report.loss_unknown) << "of a store that has its pool";
    EXPECT_EQ(report.records_lost, 0u);
    EXPECT_EQ(report.records_kept, expected.size());
  }
}

TEST_P(LostPool, TablesThatDoNotSayOfWhichStoreTheyAreAreLeftAlone) {
  ASSERT_NO_FATAL_FAILURE(Build());
  const auto whole = Files();
  const std::string away = dir_.Sub("away");
  fs::rename(pool_, away);
  for (const std::string& path : TableFilesOf(path_))
    WriteWhole(path, whole.at(path).substr(0, whole.at(path).size() / 2));
  const auto files = Files();
  const Status s = RepairDB(path_, options_);
  EXPECT_TRUE(s.IsCorruption() && Says(s, TableFilesOf(path_)[0]) && Says(s, "put the pool back"))
      << s.ToString();
  EXPECT_EQ(Files(), files);
  EXPECT_FALSE(fs::exists(pool_));
  for (const auto& [path, content] : whole) WriteWhole(path, content);
  fs::rename(away, pool_);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Scan().size(), 2048u);
}

// Of a design that keeps values in files of their own, before it has written its first table.
class LostPoolOfValues : public LostPool {};

std::vector<EngineLayout> LayoutsWithValueFiles() {
  std::vector<EngineLayout> layouts = EngineLayouts();
  std::erase_if(layouts,
                [](const auto& layout) { return !TraitsOf(layout.engine).values_in_files; });
  return layouts;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LostPoolOfValues);
INSTANTIATE_TEST_SUITE_P(All, LostPoolOfValues, ::testing::ValuesIn(LayoutsWithValueFiles()),
                         [](const auto& param) { return param.param.name; });

TEST_P(LostPoolOfValues, ValuesWithoutKeysAreNoTablesAndAreLeftToThePoolThatIsFoundAgain) {
  options_.labdb.tree_bytes = 1 << 20;
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 1000; i++) ASSERT_NO_FATAL_FAILURE(Put(i, i));
  ASSERT_TRUE(db_->Close().ok());
  db_.reset();
  const auto files = Files();
  ASSERT_TRUE(TableFilesOf(path_).empty());
  ASSERT_FALSE(files.empty());
  const std::string away = dir_.Sub("away");
  fs::rename(pool_, away);
  ExpectRefused({pool_, files.begin()->first, "files of values", "put the pool back", "destroy"});
  Status s = Open();
  db_.reset();
  EXPECT_FALSE(Says(s, "repair")) << "it would save nothing: " << s.ToString();
  EXPECT_FALSE(Says(s, "table")) << s.ToString();
  for (const bool named : {true, false}) {
    Options options = options_;
    if (!named) options.engine.reset();
    s = RepairDB(path_, options);
    EXPECT_TRUE(s.IsCorruption() && Says(s, files.begin()->first) && Says(s, "files of values"))
        << s.ToString();
    EXPECT_TRUE(Says(s, "put the pool back") && Says(s, "destroy the store")) << s.ToString();
  }
  EXPECT_FALSE(fs::exists(pool_));
  EXPECT_EQ(Files(), files);
  fs::rename(away, pool_);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Scan().size(), 1000u);
  ASSERT_TRUE(db_->Close().ok());
  fs::remove(pool_);
  ASSERT_TRUE(DestroyDB(path_, options_).ok());
  ASSERT_TRUE(Open().ok()) << "what was said to be done helps";
  EXPECT_TRUE(Scan().empty());
}

}  // namespace
}  // namespace lamella::testing
