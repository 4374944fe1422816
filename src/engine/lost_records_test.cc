#include "engine/lost_records.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "engine/record_region.h"
#include "log/log_test_base.h"

namespace lamella {
namespace {

class LostRecordsTest : public RecordsTest {
 protected:
  LostRecordsTest() { CreateParts(1); }

  /// A region of copies of these records.
  void AddRegion(uint64_t number, const std::map<std::string, uint64_t>& sequences) {
    Persister persister(pool_->gate(), WriteCause::kFlush);
    RecordRegion region(pool_.get(), number, &persister);
    for (const auto& [key, sequence] : sequences) {
      PmPtr copy;
      ASSERT_TRUE(region.Copy(Add(key, sequence), &copy).ok());
    }
    regions_[number] = region.Finish();
    persister.Fence();
  }
  static LostRun Run(const char* first, const char* last) { return {{first, last}, 1}; }
  static InternalKey KeyOf(const char* key, uint64_t sequence) {
    return {key, MakeTag(sequence, RecordKind::kPut)};
  }
  static std::string Shown(const std::vector<MergedRecord>& records) {
    std::string shown;
    for (const MergedRecord& record : records) {
      shown += std::string(record.key.user_key) + std::to_string(TagSequence(record.key.tag)) + " ";
    }
    return shown;
  }

  TableRegions regions_;
};

TEST_F(LostRecordsTest, WhatNoListNamesIsFoundAmongItsKeys) {
  AddRegion(1, {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}});
  LostRecords lost(*pool_, regions_);
  lost.LookIn(1, {Run("b", "b"), Run("d", "z")});
  lost.Name(KeyOf("d", 4));
  const auto found = lost.Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(Shown(found[0]), "b2 e5 ");
}

TEST_F(LostRecordsTest, OlderVersionsStayHidden) {
  AddRegion(1, {{"a", 1}, {"b", 2}, {"c", 3}});
  AddRegion(2, {{"b", 7}});  // whichever list has it
  LostRecords lost(*pool_, regions_);
  lost.LookIn(1, {LostRun{}});
  lost.Name(KeyOf("c", 9));  // in a region that is lost
  EXPECT_EQ(Shown(lost.Find()[0]), "a1 ");
}

TEST_F(LostRecordsTest, ADamagedRecordIsNotLookedFor) {  // I3
  AddRegion(1, {{"a", 1}, {"b", 2}, {"c", 3}});
  LostRecords lost(*pool_, regions_);
  LostRun gone = Run("a", "b");
  gone.damaged = gone.records;
  lost.LookIn(1, {gone, Run("b", "b")});
  EXPECT_EQ(Shown(lost.Find()[0]), "b2 ");
}

TEST_F(LostRecordsTest, ARecordIsFoundOnce) {
  AddRegion(1, {{"a", 1}, {"b", 2}});
  AddRegion(2, {{"a", 1}});  // a copy
  LostRecords lost(*pool_, regions_);
  lost.LookIn(1, {Run("a", "a")});
  lost.LookIn(2, {LostRun{}});
  lost.LookIn(1, {LostRun{}});
  lost.LookIn(3, {LostRun{}});
  const auto found = lost.Find();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(Shown(found[0]), "a1 ");
  EXPECT_EQ(Shown(found[1]), "");
  EXPECT_EQ(Shown(found[2]), "b2 ");
  EXPECT_EQ(Shown(found[3]), "");
}

}  // namespace
}  // namespace lamella
