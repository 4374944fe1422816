// A store of a few hundred keys, for tests of what is to be refused: files, directories, options.
// Threads: one.
#ifndef LAMELLA_DB_BAD_INPUT_TEST_BASE_H_
#define LAMELLA_DB_BAD_INPUT_TEST_BASE_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "lamella/db.h"
#include "testing/conformance.h"
#include "testing/random_data.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {

inline void Patch(const std::string& path, uint64_t offset, std::string_view bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class BadInput : public ::testing::Test {
 protected:
  BadInput() : path_(dir_.Sub("store")) {
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.background_threads = 1;
    options_.log_shards = 1;
    options_.pool_bytes_max = 256 << 20;
  }

  std::string Pool() const { return path_ + "/pool.0"; }

  // A closed store of 300 keys, half of them in tables.
  void MakeStore() {
    std::unique_ptr<DB> db;
    Status s = DB::Open(options_, path_, &db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (uint64_t i = 0; i < 300; i++) {
      ASSERT_TRUE(db->Put({}, MakeKey(KeyShape::kCommonPrefix, i), MakeValue(i, 500)).ok());
      if (i == 150) {
        ASSERT_TRUE(db->Flush().ok());
      }
    }
    s = db->Close();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  void ExpectStoreWhole(const std::string& path) {
    std::unique_ptr<DB> db;
    const Status s = DB::Open(options_, path, &db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (uint64_t i = 0; i < 300; i++) {
      std::string value;
      ASSERT_TRUE(db->Get({}, MakeKey(KeyShape::kCommonPrefix, i), &value).ok()) << i;
      ASSERT_TRUE(value == MakeValue(i, 500)) << i;
    }
  }
  Status TryOpen(const Options& options) {
    std::unique_ptr<DB> db;
    Status s = DB::Open(options, path_, &db);
    EXPECT_EQ(s.ok(), db != nullptr);
    if (!s.ok()) {
      EXPECT_GE(s.message().size(), 10u)
          << "a message says what was expected and found: " << s.ToString();
    }
    return s;
  }
  // The message says which option it is, what was given, and what may be.
  void ExpectOptionsRefused(const Options& options, std::string_view option, std::string_view given,
                            std::string_view allowed) {
    const Status s = TryOpen(options);
    EXPECT_TRUE(s.IsInvalidArgument()) << option << ": " << s.ToString();
    for (const std::string_view part : {option, given, allowed}) {
      EXPECT_NE(s.message().find(part), std::string_view::npos)
          << "no '" << part << "' in " << s.ToString();
    }
    EXPECT_EQ(RepairDB(path_, options).ToString(), s.ToString());
  }
  // Open refuses with one of the two codes, twice, without changing a byte of the pool; CheckDB
  // does not call it clean.
  void ExpectRefused(Status::Code code, Status::Code or_code) {
    const std::string before = ReadWhole(Pool());
    for (int i = 0; i < 2; i++) {
      const Status s = TryOpen(options_);
      EXPECT_TRUE(s.code() == code || s.code() == or_code) << s.ToString();
    }
    CheckReport report;
    const Status checked = CheckDB(path_, options_, &report);
    EXPECT_TRUE(!checked.ok() || !report.clean());
    EXPECT_TRUE(ReadWhole(Pool()) == before) << "a refused open changed the pool";
  }

  TempDir dir_;
  const std::string path_;
  Options options_;
};

// The same, of each engine.
class BadInputOfEngines : public BadInput, public ::testing::WithParamInterface<EngineKind> {
 protected:
  BadInputOfEngines() { options_.engine = GetParam(); }
};

}  // namespace lamella::testing

#endif  // LAMELLA_DB_BAD_INPUT_TEST_BASE_H_
