// What upper tables hide of one that stays below them.
#include "engine/unhidden_iterator.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "iterator/test_iterators.h"

namespace lamella {
namespace {

OwnedKey Put(const std::string& key, uint64_t sequence) {
  return {key, MakeTag(sequence, RecordKind::kPut)};
}
OwnedKey Delete(const std::string& key, uint64_t sequence) {
  return {key, MakeTag(sequence, RecordKind::kDelete)};
}

std::vector<OwnedKey> Left(const RecordMap& table, const RecordMap& upper,
                           std::vector<uint64_t> snapshots) {
  const LiveTable lower_table{.records = table, .merged_from = {}};
  const LiveTable upper_table{.records = upper, .merged_from = {}};
  LiveIterator own(&lower_table);
  LiveIterator above(&upper_table);
  const SnapshotList::Sample sample(std::move(snapshots));
  UnhiddenIterator at(&own, &above, &sample);
  std::vector<OwnedKey> left;
  for (int pass = 0; pass < 2; pass++) {  // it may be walked again
    left.clear();
    for (at.SeekToFirst(); at.Valid(); at.Next())
      left.push_back({std::string(at.key().user_key), at.key().tag});
  }
  return left;
}

TEST(UnhiddenIterator, WhatUpperTablesHaveIsLeftOut) {
  const RecordMap table = {
      {Put("a", 1), ""}, {Put("b", 2), ""}, {Delete("c", 3), ""}, {Put("d", 4), ""}};
  const RecordMap upper = {
      {Put("0", 9), ""}, {Delete("b", 8), ""}, {Put("c", 7), ""}, {Put("e", 6), ""}};
  EXPECT_EQ(Left(table, upper, {}), (std::vector<OwnedKey>{Put("a", 1), Put("d", 4)}));
  EXPECT_EQ(Left(table, {}, {}).size(), 4u);
  EXPECT_TRUE(Left({}, upper, {}).empty());
}

// What hides is the oldest of the newer versions.
TEST(UnhiddenIterator, WhatASnapshotSeesStays) {
  const RecordMap table = {{Put("a", 3), ""}, {Put("a", 1), ""}};
  const RecordMap upper = {{Put("a", 9), ""}, {Delete("a", 6), ""}};
  EXPECT_TRUE(Left(table, upper, {}).empty());
  EXPECT_EQ(Left(table, upper, {5}), (std::vector<OwnedKey>{Put("a", 3)}));
  EXPECT_EQ(Left(table, upper, {2}), (std::vector<OwnedKey>{Put("a", 1)}));
  EXPECT_TRUE(Left(table, upper, {6}).empty());
  EXPECT_TRUE(Left(table, upper, {8}).empty());
}

// Every snapshot, and who has none, reads of both together what they did before.
TEST(UnhiddenIterator, NoReadChanges) {
  Random random(5);
  for (int round = 0; round < 2000; round++) {
    RecordMap table;
    RecordMap upper;
    uint64_t sequence = 1;
    for (RecordMap* of : {&table, &upper}) {
      for (uint64_t i = random.Uniform(12); i > 0; i--, sequence++) {
        const std::string key(1, static_cast<char>('a' + random.Uniform(4)));
        (*of)[random.OneIn(3) ? Delete(key, sequence) : Put(key, sequence)] = "";
      }
    }
    std::vector<uint64_t> snapshots;
    for (uint64_t at = 1; at < sequence; at++) {
      if (random.OneIn(5)) snapshots.push_back(at);
    }
    RecordMap before = table;
    before.insert(upper.begin(), upper.end());
    RecordMap after = upper;
    const std::vector<OwnedKey> left = Left(table, upper, snapshots);
    for (const OwnedKey& key : left) after[key] = "";
    const auto read = [](const RecordMap& records, const std::string& key, uint64_t at) {
      const auto found = records.lower_bound({key, SeekTag(at)});
      return found != records.end() && found->first.user_key == key ? found->first : OwnedKey{};
    };
    std::vector<uint64_t> readers = snapshots;
    readers.push_back(sequence);
    for (const uint64_t at : readers) {
      for (const std::string key : {"a", "b", "c", "d"})
        ASSERT_EQ(read(before, key, at), read(after, key, at)) << round;
    }
  }
}

}  // namespace
}  // namespace lamella
