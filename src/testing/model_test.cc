#include "testing/model.h"

#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "testing/random_data.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

TEST(ModelDb, AnswersAsOfAnySequence) {
  ModelDb model;
  model.Put(1, "a", "a1");
  model.Put(3, "a", "a3");
  model.Delete(5, "a");
  EXPECT_EQ(model.Get("a", 0), std::nullopt);
  EXPECT_EQ(model.Get("a", 1), "a1");
  EXPECT_EQ(model.Get("a", 2), "a1");
  EXPECT_EQ(model.Get("a", 3), "a3");
  EXPECT_EQ(model.Get("a", 5), std::nullopt);
  EXPECT_EQ(model.Get("a"), std::nullopt);
  EXPECT_EQ(model.Get("b"), std::nullopt);
  EXPECT_EQ(model.sequence(), 5u);
}

TEST(ModelDb, LastOperationOfABatchWins) {
  ModelDb model;
  model.Put(7, "a", "old");
  model.Put(8, "a", "1");
  model.Delete(8, "a");
  model.Put(8, "a", "2");
  EXPECT_EQ(model.Get("a"), "2");
  EXPECT_EQ(model.Get("a", 7), "old");
}

TEST(ModelDb, ScansWithinBoundsLowerInclusiveUpperExclusive) {
  ModelDb model;
  for (const char* key : {"a", "b", "c", "d"}) model.Put(1, key, key);
  model.Delete(2, "b");
  using Entries = std::vector<ModelDb::Entry>;
  EXPECT_EQ(model.Scan(), (Entries{{"a", "a"}, {"c", "c"}, {"d", "d"}}));
  EXPECT_EQ(model.Scan(1, "b", "d"), (Entries{{"b", "b"}, {"c", "c"}}));
  EXPECT_EQ(model.Scan(2, "b", "d"), (Entries{{"c", "c"}}));
  EXPECT_TRUE(model.Scan(ModelDb::kNow, "d", "b").empty());
}

TEST(ModelDb, IteratorSeeksBothWays) {
  ModelDb model;
  model.Put(1, "b", "1");
  model.Put(1, "d", "2");
  auto it = model.NewIterator();
  it->Seek("c");
  EXPECT_EQ(it->key(), "d");
  it->Prev();
  EXPECT_EQ(it->key(), "b");
  it->Prev();
  EXPECT_FALSE(it->Valid());
  it->SeekForPrev("c");
  EXPECT_EQ(it->key(), "b");
  it->SeekForPrev("d");
  EXPECT_EQ(it->key(), "d");
  it->SeekForPrev("a");
  EXPECT_FALSE(it->Valid());
  it->Seek("e");
  EXPECT_FALSE(it->Valid());
  it->SeekToLast();
  EXPECT_EQ(it->key(), "d");
  it->Next();
  EXPECT_FALSE(it->Valid());
  auto none = ModelDb().NewIterator();
  none->SeekToLast();
  EXPECT_FALSE(none->Valid());
  none->SeekToFirst();
  EXPECT_FALSE(none->Valid());
}

TEST(ModelDb, ForgetKeepsWhatLaterReadsSee) {
  ModelDb model;
  model.Put(1, "a", "1");
  model.Put(1, "gone", "1");
  model.Delete(2, "gone");
  model.Put(3, "a", "3");
  model.Put(5, "a", "5");
  model.Forget(4);
  EXPECT_EQ(model.Get("a", 4), "3");
  EXPECT_EQ(model.Get("a"), "5");
  EXPECT_EQ(model.Get("a", 2), std::nullopt);  // the price of forgetting
  EXPECT_EQ(model.Get("gone", 4), std::nullopt);
}

TEST(RandomData, EqualNumbersGiveEqualKeysAndDifferentOnesDifferent) {
  for (KeyShape shape :
       {KeyShape::kShort, KeyShape::kCommonPrefix, KeyShape::kBinary, KeyShape::kMixed}) {
    std::set<std::string> keys;
    for (uint64_t i = 0; i < 2000; i++) {
      const std::string key = MakeKey(shape, i);
      EXPECT_FALSE(key.empty());
      EXPECT_EQ(key, MakeKey(shape, i));
      keys.insert(key);
    }
    EXPECT_EQ(keys.size(), 2000u);
  }
}

TEST(RandomData, NearKeysAreNeverEmpty) {
  Random random(1);
  for (int i = 0; i < 1000; i++) EXPECT_FALSE(MakeNearKey(KeyShape::kMixed, &random, 50).empty());
}

TEST(RandomData, ValuesDependOnTheirIdAlone) {
  EXPECT_EQ(MakeValue(1, 100), MakeValue(1, 100));
  EXPECT_NE(MakeValue(1, 100), MakeValue(2, 100));
  EXPECT_EQ(MakeValue(1, 100).substr(0, 13), MakeValue(1, 13));
  EXPECT_EQ(MakeValue(1, 0), "");
}

TEST(RandomData, ValueSizesReachFromEmptyToLarge) {
  Random random(2);
  size_t largest = 0;
  bool empty = false;
  for (int i = 0; i < 1000; i++) {
    const size_t size = ValueSize(&random, 5000);
    EXPECT_LE(size, 5000u);
    largest = std::max(largest, size);
    empty |= size == 0;
  }
  EXPECT_TRUE(empty);
  EXPECT_GT(largest, 4000u);
}

TEST(TempDir, IsRemovedWithItsContent) {
  std::string path;
  {
    TempDir dir;
    path = dir.path();
    std::filesystem::create_directories(dir.Sub("a/b"));
    std::ofstream(dir.Sub("a/b/c")) << "x";
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TempDir, FollowsTmpdir) {
  TempDir outer;
  ScopedEnv env("TMPDIR", outer.path());
  TempDir inner;
  EXPECT_EQ(inner.path().rfind(outer.path(), 0), 0u);
}

TEST(ScopedEnv, PutsTheOldValueBack) {
  const char* name = "LAMELLA_SCOPED_ENV_TEST";
  {
    ScopedEnv outer(name, "1");
    {
      ScopedEnv inner(name, std::nullopt);
      EXPECT_EQ(std::getenv(name), nullptr);
    }
    EXPECT_STREQ(std::getenv(name), "1");
  }
  EXPECT_EQ(std::getenv(name), nullptr);
}

}  // namespace
}  // namespace lamella::testing
