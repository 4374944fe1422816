// Tables of TLSM made of random records, for tests.
#ifndef LAMELLA_ENGINE_TLSM_TLSM_TEST_BASE_H_
#define LAMELLA_ENGINE_TLSM_TLSM_TEST_BASE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "engine/tlsm/tlsm_builder.h"
#include "engine/tlsm/tlsm_table.h"
#include "index/index_test_base.h"

namespace lamella {

class TlsmTest : public IndexTest {
 protected:
  using Shape = testing::KeyShape;
  using TablePtr = std::shared_ptr<const LevelTable>;

  TlsmTest() { CreateParts(1); }

  static MergedRecord RecordOf(const Record* record, PmPtr place) {
    return {record->internal_key(), record->value(), place, 0};
  }
  BuildPlan PlanFor(const Elements& elements) const {
    BuildPlan plan;
    plan.copy_all = true;
    plan.smallest = elements.begin()->first.user_key;
    plan.largest = elements.rbegin()->first.user_key;
    plan.records_max = elements.size();
    return plan;
  }
  /// Tables of the elements, as the plan says.
  MadeTables Build(const Elements& elements, BuildPlan plan) {
    TlsmBuilder builder(pool_.get(), std::move(plan), [this] { return next_number_++; });
    Status s;
    uint64_t newer = 0;
    for (auto at = elements.begin(); at != elements.end(); ++at) {
      MergedRecord record = RecordOf(At(at->second), at->second);
      record.newer = newer;
      if (s.ok()) s = builder.Add(record);
      const auto next = std::next(at);
      const bool ends = next == elements.end() || next->first.user_key != at->first.user_key;
      newer = ends ? 0 : TagSequence(at->first.tag);
      if (s.ok() && ends) s = builder.EndKey();
    }
    MadeTables made;
    if (s.ok()) s = builder.Finish(&made);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return made;
  }
  TablePtr BuildOne(const Elements& elements) {
    const MadeTables made = Build(elements, PlanFor(elements));
    EXPECT_EQ(made.size(), 1u);
    return made.empty() ? nullptr : made.front();
  }
  /// The table's records in its order, as elements.
  Elements ElementsOf(const LevelTable& table) const {
    Elements found;
    const auto it = table.NewIterator(true);
    for (it->SeekToFirst(); it->Valid(); it->Next())
      found[{std::string(it->key().user_key), it->key().tag}] = PmPtr(it->place_word());
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
    return found;
  }
  static TableRegions RegionsOf(const LevelTable& table) {
    TableRegions regions;
    for (const auto& region : table.regions()) regions[region->number()] = region;
    return regions;
  }
  static Lookup FindIn(const LevelTable& table, const InternalKey& target, bool verify) {
    return table.Find(target, Hash64(target.user_key), verify);
  }
  static std::vector<std::string> ProblemsOf(const LevelTable& table) {
    CheckReport report;
    table.Check(&report);
    return report.problems;
  }
  /// The bytes of the table's index, but for the header: where one may be changed.
  static std::vector<char*> IndexBytes(const LevelTable& table) {
    std::vector<char*> bytes;
    const RegionShare& share = table.place().regions.front();
    const auto& index = table.regions().front();
    for (uint64_t at = 0; at < share.bytes; at++) bytes.push_back(const_cast<char*>(index->At(at)));
    return bytes;
  }

  uint64_t next_number_ = 7;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TLSM_TLSM_TEST_BASE_H_
