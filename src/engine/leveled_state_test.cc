#include "engine/leveled_state.h"

#include <gtest/gtest.h>

#include "engine/level_table.h"
#include "testing/says.h"

namespace lamella {
namespace {

std::string PlaceOf(uint64_t region) {
  LevelPlace place;
  place.live_bytes = 17;
  place.deletes = 2;
  place.kept_versions = 1;
  place.kept_bytes = 99;
  place.kept_until = 5;
  place.regions = {{region, 640}, {region + 1, 4096}};
  place.design = "as it likes";
  return place.Encode();
}

std::shared_ptr<const TableInfo> Table(uint64_t number, std::string smallest, std::string largest) {
  return std::make_shared<TableInfo>(TableInfo{.number = number,
                                               .smallest = std::move(smallest),
                                               .largest = std::move(largest),
                                               .bytes = 1000 + number,
                                               .records = 10,
                                               .last_sequence = 77,
                                               .place = PlaceOf(number)});
}

LeveledState Some() {
  LeveledState state;
  state.next_number = 12;
  state.flushed_sequence = 88;
  state.boundary = {{1, 2}, {3, 4}};
  state.gaps = {{90, 95}};
  EXPECT_TRUE(state.levels.Apply(
      {.removed = {},
       .added = {{0, Table(1, "a", "m")}, {0, Table(2, "c", "z")}, {1, Table(3, "a", "c")}}}));
  return state;
}

TEST(LevelPlace, SaysWhatItWasWrittenWith) {
  LevelPlace place;
  ASSERT_TRUE(LevelPlace::Decode(PlaceOf(5), &place));
  EXPECT_EQ(place.Encode(), PlaceOf(5));
  EXPECT_EQ(place.regions[1], (RegionShare{6, 4096}));
  for (size_t n = 0; n < PlaceOf(5).size(); n++)
    EXPECT_FALSE(LevelPlace::Decode(PlaceOf(5).substr(0, n), &place)) << n;
}

TEST(LeveledState, ASnapshotSaysAll) {
  const LeveledState state = Some();
  LeveledState read;
  ASSERT_TRUE(LeveledState::Decode(state.Encode(), &read).ok());
  EXPECT_EQ(read.Encode(), state.Encode());
  EXPECT_EQ(read.boundary, state.boundary);
  EXPECT_EQ(read.gaps, state.gaps);
  EXPECT_EQ(read.levels.level(0).front()->number, 2u) << "newest first";
}

TEST(LeveledState, AnEditSaysWhatChanged) {
  const LeveledState before = Some();
  LeveledState after = before;
  ASSERT_TRUE(after.levels.Apply({.removed = {1, 2, 3}, .added = {{1, Table(9, "a", "z")}}}));
  after.boundary[1].offset = 50;
  after.gaps.clear();
  after.next_number = 40;
  LeveledState read = before;
  ASSERT_TRUE(read.Apply(after.EncodeChange(before)).ok());
  EXPECT_EQ(read.Encode(), after.Encode());
  EXPECT_LT(before.EncodeChange(before).size(), 32u) << "its size goes by what changed";
}

TEST(LeveledState, BytesThatAreNoneAreCorruption) {
  const LeveledState state = Some();
  const std::string snapshot = state.Encode();
  LeveledState read;
  for (size_t n = 0; n < snapshot.size(); n++) {
    const Status s = LeveledState::Decode(snapshot.substr(0, n), &read);
    ASSERT_TRUE(s.IsCorruption()) << n;
    EXPECT_TRUE(testing::Says(s, "lamella repair"));
  }
  EXPECT_TRUE(LeveledState::Decode(snapshot + "x", &read).IsCorruption());
  LeveledState empty;
  const std::string edit = empty.EncodeChange(state);
  EXPECT_TRUE(empty.Apply(edit).IsCorruption()) << "it removes what is not there";
}

TEST(LeveledState, ATableThatDoesNotSayWhereItLiesIsCorruption) {
  LeveledState state = Some();
  auto lost = std::make_shared<TableInfo>(*Table(20, "n", "o"));
  lost->place = "somewhere";
  ASSERT_TRUE(state.levels.Apply({.removed = {}, .added = {{1, lost}}}));
  LeveledState read;
  EXPECT_TRUE(LeveledState::Decode(state.Encode(), &read).IsCorruption());
}

}  // namespace
}  // namespace lamella
