// The toy engine (testing/toy) joins the conformance suite by being registered here: no line of
// src/db knows of it. Its own tests are of what the suite does not see: its tables' files, and its
// levels.
#include "testing/toy/toy_engine.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "db/db_impl.h"
#include "file/table_file_name.h"
#include "registry/registry.h"
#include "testing/conformance.h"
#include "testing/fault_file_system.h"
#include "testing/random_data.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

static_assert(kToyKind >= kTestEngineFirst);

[[maybe_unused]] const bool kRegistered = [] {
  RegisterEngine(&kToyType);
  return true;
}();

class ToyEngineTest : public ::testing::Test {
 protected:
  ToyEngineTest() {
    options_.engine = kToyKind;
    options_.medium = MediumKind::kCacheLine;
    options_.background_threads = 2;
  }
  Status Open(const DbSeams& seams = {}) {
    db_.reset();
    db_ = std::make_unique<DbImpl>(options_, path_, seams);
    return db_->Init();
  }
  void Fill(int from, int to) {
    for (int i = from; i < to; i++)
      ASSERT_TRUE(db_->Put({}, Concat("key", 1000 + i), Concat("value", i)).ok());
  }
  std::string Get(int i) {
    std::string value;
    const Status s = db_->Get({}, Concat("key", 1000 + i), &value);
    return s.ok() ? value : Concat("[", s.ToString(), "]");
  }
  std::vector<std::string> Tables() const { return TableFilesOf(path_); }
  /// By level, as the engine tells.
  std::vector<uint64_t> TablesOfLevels() const {
    std::vector<uint64_t> tables;
    for (const Stats::Level& level : db_->GetStats().levels) {
      if (level.name.starts_with("L")) tables.push_back(level.tables);
    }
    return tables;
  }
  uint64_t TablesNamed() const {
    const std::vector<uint64_t> tables = TablesOfLevels();
    return std::accumulate(tables.begin(), tables.end(), uint64_t{0});
  }

  Options options_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  std::unique_ptr<DbImpl> db_;
};

TEST_F(ToyEngineTest, ReadsComeFromTheIndexAndFromTheFile) {
  ASSERT_TRUE(Open().ok());
  Fill(0, 300);
  PinnedValue in_pool;
  ASSERT_TRUE(db_->Get({}, "key1000", &in_pool).ok());
  EXPECT_TRUE(Tables().empty());
  in_pool.Reset();
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_EQ(Tables().size(), 1u);
  Fill(300, 400);
  PinnedValue in_file;
  ASSERT_TRUE(db_->Get({}, "key1000", &in_file).ok());
  EXPECT_EQ(db_->pool()->readers()->pinned(), 0u);
  EXPECT_EQ(db_->pool()->holders()->pinned(), 0u) << "it holds its own block";
  ASSERT_TRUE(db_->Delete({}, "key1000").ok());
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  EXPECT_EQ(in_file.view(), "value0");
  EXPECT_EQ(Tables().size(), 1u) << "the old ones are gone";
  const Stats stats = db_->GetStats();
  ASSERT_EQ(stats.sources.size(), 2u);
  EXPECT_EQ(stats.sources[1].gets, 1u);
  EXPECT_EQ(stats.file_bytes, std::filesystem::file_size(Tables()[0]));
}

TEST_F(ToyEngineTest, NobodyIsPinnedAsAReaderWhileAFileIsRead) {
  TableCalls hook;
  const std::unique_ptr<FileSystem> files = FileSystem::PosixOver(&hook);
  ASSERT_TRUE(Open({.inline_jobs = true, .files = files.get()}).ok());
  hook.pool = db_->pool();
  Fill(0, 300);
  ASSERT_TRUE(db_->Flush().ok());
  Fill(150, 400);
  ASSERT_TRUE(db_->Flush().ok());
  hook.reads = 0;
  for (int i = 0; i < 400; i += 10) ASSERT_EQ(Get(i), Concat("value", i));
  std::vector<std::string> values;
  const std::vector<std::string_view> keys = {"key1001", "key1399"};
  for (const Status& s : db_->MultiGet({}, keys, &values)) EXPECT_TRUE(s.ok()) << s.ToString();
  {
    const auto it = db_->NewIterator({});
    int count = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) count++;
    EXPECT_EQ(count, 400);
  }
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  EXPECT_GT(hook.reads, 50u);
  EXPECT_EQ(hook.pinned, 0u);
  {
    const EpochPin pin(db_->pool()->readers());  // negative control
    EXPECT_EQ(Get(7), "value7");
  }
  EXPECT_GT(hook.pinned, 0u);
  hook.pool = nullptr;
  db_.reset();  // before the files that it reads by
}

TEST_F(ToyEngineTest, ADamagedTableIsCorruptionAndNoWrongValue) {
  ASSERT_TRUE(Open().ok());
  Fill(0, 300);
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->Close().ok());
  db_.reset();
  ASSERT_EQ(Tables().size(), 1u);
  const auto flip = [this](int64_t at) {
    std::fstream file(Tables()[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(at);
    file.put(byte);
  };
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(Tables()[0]));
  uint64_t found = 0;
  for (int64_t at = 0; at < bytes; at += 97) {
    flip(at);
    const Status opened = Open();
    EXPECT_TRUE(opened.ok() || opened.IsCorruption()) << opened.ToString();
    for (int i = 0; opened.ok() && i < 300; i += 7) {
      const std::string value = Get(i);
      EXPECT_TRUE(value == Concat("value", i) || value.starts_with("[Corruption: ")) << value;
      found += value[0] == '[' ? 1 : 0;
    }
    found += opened.ok() ? 0 : 1;
    db_.reset();
    flip(at);
  }
  EXPECT_GT(found, 100u);
}

// Every call of a spill and of what comes before it fails once: what was acknowledged stays.
TEST_F(ToyEngineTest, FaultsOfTheTablesFileLoseNothing) {
  uint64_t faults = 0;
  for (uint64_t nth = 1; nth < 200; nth++) {
    FaultFileSystem files(dir_.path(), false);
    ASSERT_TRUE(Open({.inline_jobs = true, .files = &files}).ok());
    Fill(0, 40);
    ASSERT_TRUE(db_->Flush().ok());
    for (int i = 0; i < 3; i++) {  // so many that the next spill begins a compaction
      Fill(20 + i, 60 + i);
      if (i == 2) break;
      ASSERT_TRUE(db_->Flush().ok());
    }
    files.Arm({.nth = nth, .error = nth % 2 == 0 ? ENOSPC : EIO});
    const Status flushed = db_->Flush();
    const bool failed = files.faults() > 0;
    files.Disarm();
    faults += failed ? 1 : 0;
    if (!flushed.ok()) {
      EXPECT_TRUE(failed) << flushed.ToString();
      ASSERT_TRUE(db_->Resume().ok());
      ASSERT_TRUE(db_->Flush().ok());
    }
    for (int i = 0; i < 60; i++) ASSERT_EQ(Get(i), Concat("value", i)) << "call " << nth;
    db_->Abandon();
    ASSERT_TRUE(Open().ok());
    for (int i = 0; i < 60; i++) ASSERT_EQ(Get(i), Concat("value", i)) << "call " << nth;
    ASSERT_TRUE(db_->WaitForIdle().ok());
    EXPECT_EQ(Tables().size(), TablesNamed()) << "strays are gone";
    ASSERT_TRUE(db_->Close().ok());
    db_.reset();
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    if (!failed) break;
  }
  EXPECT_GT(faults, 10u);
}

// Tables go down as levels grow, a key's newest version is found wherever it lies, and what is
// deleted takes no room once it is merged with what it hid.
TEST_F(ToyEngineTest, TablesGoDownTheLevels) {
  constexpr int kKeys = 4000;
  options_.memtable_bytes = 32 << 10;
  options_.background_threads = 4;
  ASSERT_TRUE(Open().ok());
  std::map<int, std::string> model;
  Random random(TestSeed());
  for (int round = 0; round < 12; round++) {
    for (int n = 0; n < 1000; n++) {
      const auto i = static_cast<int>(random.Uniform(kKeys));
      const std::string key = Concat("key", 1000 + i);
      if (random.Uniform(5) == 0) {
        ASSERT_TRUE(db_->Delete({}, key).ok());
        model.erase(i);
      } else {
        model[i] = MakeValue(random.Next(), 500);
        ASSERT_TRUE(db_->Put({}, key, model[i]).ok());
      }
    }
  }
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForIdle().ok());
  const auto expect_model = [&] {
    for (int i = 0; i < kKeys; i++) {
      std::string value;
      const Status s = db_->Get({}, Concat("key", 1000 + i), &value);
      ASSERT_EQ(s.ok(), model.contains(i)) << s.ToString();
      ASSERT_TRUE(!s.ok() || value == model[i]);
    }
    const auto it = db_->NewIterator({});
    size_t count = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) count++;
    ASSERT_EQ(count, model.size());
  };
  const std::vector<uint64_t> tables = TablesOfLevels();
  ASSERT_EQ(tables.size(), 4u) << db_->GetStats().levels.size();
  EXPECT_LT(tables[0], 4u);
  EXPECT_GT(tables[2], 1u);
  EXPECT_EQ(Tables().size(), TablesNamed());
  ASSERT_NO_FATAL_FAILURE(expect_model());
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  EXPECT_EQ(db_->GetStats().levels.back().records, model.size()) << "no delete, no old version";
  EXPECT_EQ(TablesNamed(), db_->GetStats().levels.back().tables);
  ASSERT_NO_FATAL_FAILURE(expect_model());
  ASSERT_TRUE(db_->Close().ok());
  ASSERT_TRUE(Open().ok());
  ASSERT_NO_FATAL_FAILURE(expect_model());
  EXPECT_EQ(Tables().size(), TablesNamed());
}

}  // namespace
}  // namespace lamella::testing
