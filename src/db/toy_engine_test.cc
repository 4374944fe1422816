// The toy engine (testing/toy) joins the conformance suite by being registered here: no line of
// src/db knows of it. Its own tests are of what the suite does not see: its table's file.
#include "testing/toy/toy_engine.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "file/table_file_name.h"
#include "registry/registry.h"
#include "testing/conformance.h"
#include "testing/fault_file_system.h"
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
  std::vector<std::string> Tables() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (TableFileNumber(entry.path().filename().string())) names.push_back(entry.path());
    }
    return names;
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
  EXPECT_EQ(in_file.view(), "value0");
  EXPECT_EQ(Tables().size(), 1u) << "the old one is gone";
  const Stats stats = db_->GetStats();
  ASSERT_EQ(stats.sources.size(), 2u);
  EXPECT_EQ(stats.sources[1].gets, 1u);
  EXPECT_EQ(stats.file_bytes, std::filesystem::file_size(Tables()[0]));
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
    Fill(20, 60);
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
    EXPECT_LE(Tables().size(), 1u) << "strays are gone";
    ASSERT_TRUE(db_->Close().ok());
    db_.reset();
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    if (!failed) break;
  }
  EXPECT_GT(faults, 5u);
}

}  // namespace
}  // namespace lamella::testing
