#include "memtable/record_walk.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "log/log_test_base.h"

namespace lamella {
namespace {

using RecordWalkTest = RecordsTest;

// Fewer than it fetches ahead, as many, and more.
TEST_F(RecordWalkTest, GoesThroughEveryEntryInOrder) {
  for (const uint64_t count : {0, 1, 15, 16, 17, 500}) {
    SCOPED_TRACE(count);
    CreateParts(1);
    HeadTree tree(pool_.get());
    for (uint64_t i = 1; i <= count; i++) {
      const std::string key = "key" + std::to_string(i * 7919 % 1009);
      const PmPtr place = Add(key, i);
      tree.Insert(key, At(place)->tag(), place);
    }
    std::vector<uint64_t> expected;
    HeadTree::Iterator at(&tree);
    for (at.SeekToFirst(); at.Valid(); at.Next()) expected.push_back(at.entry().place().word);
    ASSERT_EQ(expected.size(), count);
    std::vector<uint64_t> walked;
    for (RecordWalk walk(pool_.get(), &tree); walk.Valid(); walk.Next())
      walked.push_back(walk.entry().place().word);
    EXPECT_EQ(walked, expected);
  }
}

}  // namespace
}  // namespace lamella
