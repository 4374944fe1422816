#include "index/floor.h"

#include "index/skip_array_test_base.h"
#include "testing/format_doc.h"

namespace lamella {
namespace {

using testing::KeyShape;

class FloorTest : public SkipArrayTest {};

TEST_F(FloorTest, HeaderIsAsDocumented) {
  EXPECT_EQ(testing::FormatDifference("FloorHeader", sizeof(FloorHeader),
                                      {LAMELLA_FORMAT_FIELD(FloorHeader, magic),
                                       LAMELLA_FORMAT_FIELD(FloorHeader, header_checksum),
                                       LAMELLA_FORMAT_FIELD(FloorHeader, body_checksum),
                                       LAMELLA_FORMAT_FIELD(FloorHeader, entry_count),
                                       LAMELLA_FORMAT_FIELD(FloorHeader, floors_below),
                                       LAMELLA_FORMAT_FIELD(FloorHeader, prefix_bytes),
                                       LAMELLA_FORMAT_FIELD(FloorHeader, filter_lines),
                                       LAMELLA_FORMAT_FIELD(FloorHeader, index_bytes),
                                       LAMELLA_FORMAT_FIELD(FloorHeader, reserved)}),
            "");
}

TEST_F(FloorTest, EveryFlippedBitOfAFloorIsCorruption) {
  WriteRecords(KeyShape::kMixed, 8, 2);
  const auto tree = Build(TreeModel{records_[0], records_[1]});
  ASSERT_TRUE(Reopened(*tree)->Ready().ok());
  for (const auto& floor : tree->floors()) {
    for (uint64_t bit = 0; bit < floor->header().index_bytes * 8; bit++) {
      Flip(floor->place(), bit);
      const Status s = Reopened(*tree)->Ready();
      ASSERT_TRUE(s.IsCorruption()) << bit << ": " << s.ToString();
      ASSERT_TRUE(Says(s, "part 0 chunk") && Says(s, "lamella repair")) << s.ToString();
      Flip(floor->place(), bit);
    }
  }
  EXPECT_TRUE(Reopened(*tree)->Ready().ok());
}

TEST_F(FloorTest, AFloorOfAnEarlierLifeOfItsChunkDoesNotValidate) {
  WriteRecords(KeyShape::kShort, 8, 1);
  FloorBuilder builder(pool_.get(), nullptr, 10);
  for (const auto& [key, place] : records_[0]) builder.Add(place);
  for (const bool earlier : {true, false}) {
    slots_.epoch -= earlier ? 1 : 0;
    const SkipArrayTree tree(pool_.get(), {Write(builder, pool_->ChunkStart(slots_))}, true);
    EXPECT_EQ(tree.Ready().IsCorruption(), earlier);
    slots_.epoch += earlier ? 1 : 0;
  }
}

TEST_F(FloorTest, AFloorThatWasMovedDoesNotValidate) {
  WriteRecords(KeyShape::kShort, 8, 2);
  const auto tree = Build(TreeModel{records_[0]});
  const PmPtr elsewhere(0, tree->floor(0)->place().offset() + kSlotBytes);
  std::memcpy(pool_->Address(elsewhere), pool_->Address(tree->floor(0)->place()), 4096);
  const SkipArrayTree moved(pool_.get(), {std::make_shared<Floor>(pool_.get(), elsewhere)}, true);
  EXPECT_TRUE(moved.Ready().IsCorruption());
}

// Sums that agree are not enough to follow what is written.
TEST_F(FloorTest, WhatLeadsOutsideIsCorruptionThoughTheSumsAgree) {
  WriteRecords(KeyShape::kShort, 8, 2);
  const auto plant = [&](const std::function<void(const Floor&)>& change) {
    const auto tree = Build(TreeModel{records_[0], records_[1]});
    change(*tree->floor(1));
    Resum(*tree->floor(1));
    return Reopened(*tree)->Ready();
  };
  EXPECT_TRUE(plant([](const Floor&) {}).ok());
  const auto header = [&](const Floor& f) { return pool_->At<FloorHeader>(f.place()); };
  EXPECT_TRUE(plant([&](const Floor& f) {
                *reinterpret_cast<uint64_t*>(ColumnOf(f, &FloorLayout::places)) = uint64_t{1} << 45;
              }).IsCorruption());
  EXPECT_TRUE(plant([&](const Floor& f) {
                *reinterpret_cast<uint64_t*>(ColumnOf(f, &FloorLayout::places)) += 4;
              }).IsCorruption());
  EXPECT_TRUE(
      plant([&](const Floor& f) { ColumnOf(f, &FloorLayout::links)[0] = 1; }).IsCorruption());
  EXPECT_TRUE(
      plant([&](const Floor& f) { ColumnOf(f, &FloorLayout::links)[2] = 1; }).IsCorruption());
  EXPECT_TRUE(plant([&](const Floor& f) {
                *reinterpret_cast<uint64_t*>(ColumnOf(f, &FloorLayout::heads)) = ~uint64_t{0};
              }).IsCorruption());
  EXPECT_TRUE(plant([&](const Floor& f) { header(f)->floors_below = 0; }).IsCorruption());
}

TEST_F(FloorTest, HoldsAsManyEntriesAsALinkReaches) {
  CreateParts(1);
  FloorModel model;
  for (uint32_t i = 0; i < kFloorEntriesMax; i++) {
    const std::string name = testing::MakeKey(KeyShape::kCommonPrefix, i);
    const RecordInput input{
        .tag = MakeTag(1 + i, RecordKind::kPut), .key = name, .value = {}, .height = 0};
    model.push_back({{name, input.tag}, Append(appenders_[0].get(), input)});
  }
  appenders_[0]->Commit();
  FloorBuilder builder(pool_.get(), nullptr, 10);
  for (const auto& [key, place] : model) builder.Add(place);
  const uint64_t bytes = builder.IndexBytes();
  slots_ = MustClaim(static_cast<uint32_t>((bytes + kSlotBytes - 1) / kSlotBytes));
  const auto floor = Write(builder, pool_->ChunkStart(slots_));
  const SkipArrayTree tree(pool_.get(), {floor}, true);
  ASSERT_TRUE(tree.Ready().ok());
  EXPECT_TRUE(CheckOf(*Reopened(tree)).empty());
  Random random(testing::TestSeed());
  uint32_t held = 0;
  for (int i = 0; i < 2000; i++) {
    const auto& [key, place] = model[random.Uniform(model.size())];
    ASSERT_EQ(tree.Find(key.view(), Hash64(key.user_key), true).place, place);
    held += floor->MayHold(random.Next()) ? 1 : 0;
  }
  EXPECT_LT(held, 60u);  // of others 1 in 100
}

}  // namespace
}  // namespace lamella
