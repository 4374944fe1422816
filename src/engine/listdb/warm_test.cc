// What ListDB fills its caches with after an open.
#include <string>

#include <gtest/gtest.h>

#include "engine/listdb/listdb_test_base.h"

namespace lamella {
namespace {

class ListDbWarmTest : public ListDbTest {
 protected:
  static constexpr uint64_t kKeys = 50;

  /// All keys in L1, in a store that was just opened.
  void OpenMerged() {
    CreateStore();
    PutKeys(0, kKeys);
    Flush();
    Run(JobClass::kNormal);
    ASSERT_EQ(RecordsInL1(), kKeys);
    Crash();
  }
};

TEST_F(ListDbWarmTest, TheLookupCacheAnswersWhatL1Holds) {
  OpenMerged();
  ASSERT_TRUE(RunUntil("warm"));
  ExpectKeys(kKeys);
  EXPECT_EQ(AnsweredBy("lookup cache"), kKeys);
  EXPECT_FALSE(RunUntil("warm")) << "once";
}

TEST_F(ListDbWarmTest, WithoutItL1Answers) {
  OpenMerged();
  ExpectKeys(kKeys);
  EXPECT_EQ(AnsweredBy("lookup cache"), 0u);
  EXPECT_EQ(AnsweredBy("L1"), kKeys);
}

// Until all is merged an element of L1 may not be the newest of its key.
TEST_F(ListDbWarmTest, BesideATableOfL0TheLookupCacheStaysCold) {
  OpenMerged();
  ASSERT_TRUE(Put(5, '!').ok());
  Flush();
  ASSERT_TRUE(RunUntil("warm"));
  ASSERT_EQ(TablesInL0(), 1u);
  ExpectKey(5, '!');
  for (uint64_t i = 10; i < kKeys; i++) ExpectKey(i, static_cast<char>('a' + i % 26));
  EXPECT_EQ(AnsweredBy("L1"), kKeys - 10);
  Run(JobClass::kNormal);
  ExpectKey(5, '!');
}

TEST_F(ListDbWarmTest, TablesThatAnEarlierSessionLeftGetTheirTrees) {
  db_options_.listdb.zipper_compaction = false;
  db_options_.listdb.checkpoint_group_tables = 1;
  CreateStore();
  PutKeys(0, kKeys);
  Flush();
  Run(JobClass::kNormal);
  Crash();
  const auto has_tree = [this] {
    return engine_->Describe().find("order cached in DRAM") != std::string::npos;
  };
  ASSERT_GT(TablesInL0(), 0u);
  EXPECT_FALSE(has_tree());
  ExpectKeys(kKeys);
  ASSERT_TRUE(RunUntil("warm"));
  EXPECT_TRUE(has_tree());
  ExpectKeys(kKeys);
}

}  // namespace
}  // namespace lamella
