#include "testing/held_reads.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "lamella/db.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

// What is held of a store that changes stays as it was; and where it is something else, as of a
// state that the store never had here, each of the three says so.
TEST(HeldReads, NoticeAnotherState) {
  const TempDir dir;
  Options options;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, dir.Sub("store"), &db).ok());
  ASSERT_TRUE(db->Put({}, "key", "value").ok());
  HeldReads held;
  std::string noticed;
  for (uint64_t seed = 0; seed < 50; seed++) {
    Random random(seed);
    ASSERT_TRUE(db->Put({}, "key", "value").ok());
    held.Take(db.get(), {{"key", "value"}}, &random);
    ASSERT_TRUE(db->Delete({}, "key").ok());
    ASSERT_TRUE(db->Put({}, "other", "value").ok());
    for (int i = 0; i < 4; i++) ASSERT_EQ(held.Look(&random), "");
    ASSERT_TRUE(db->Delete({}, "other").ok());
    ASSERT_TRUE(db->Put({}, "key", "value").ok());
    held.Take(db.get(), {{"key", "another"}}, &random);
    noticed += held.Look(&random);
  }
  for (const char* what : {"a snapshot", "an iterator", "a pinned value"})
    EXPECT_NE(noticed.find(what), std::string::npos) << what;
  held.LetGo();
  EXPECT_TRUE(db->Close().ok());
}

}  // namespace
}  // namespace lamella::testing
