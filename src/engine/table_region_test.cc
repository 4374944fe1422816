#include "engine/table_region.h"

#include <string>

#include <gtest/gtest.h>

#include "engine/level_table.h"
#include "engine/record_region.h"
#include "engine/table_header.h"
#include "index/index_test_base.h"
#include "testing/format_doc.h"

namespace lamella {
namespace {

class TableRegionTest : public IndexTest {
 protected:
  TableRegionTest() { CreateParts(1); }

  uint64_t ChunksOf(uint64_t number) const {
    uint64_t chunks = 0;
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (IsRegion(chunk.kind) && RegionOf(chunk.ordinal) == number) chunks += chunk.run_chunks;
    });
    return chunks;
  }
  std::shared_ptr<const TableRegion> Write(uint64_t number, std::string_view bytes) {
    Persister persister(pool_->gate(), WriteCause::kCompaction);
    RegionWriter writer(pool_.get(), kIndexRegion, number, &persister);
    EXPECT_TRUE(writer.Claim(bytes.size()).ok());
    for (size_t at = 0; at < bytes.size(); at += 777) writer.Write(bytes.substr(at, 777));
    writer.Flush();
    auto region = writer.Finish();
    persister.Fence();
    return region;
  }
  static std::string BytesOf(const TableRegion& region, uint64_t n) {
    std::string bytes;
    for (uint64_t at = 0; at < n; at++) bytes += *region.At(at);
    return bytes;
  }
};

TEST_F(TableRegionTest, HoldsWhatWasWrittenAndIsFoundByItsNumber) {
  const std::string bytes = testing::MakeValue(3, 5 * pool_->chunk_bytes() + 123);
  const auto region = Write(9, bytes);
  EXPECT_EQ(BytesOf(*region, bytes.size()), bytes);
  EXPECT_EQ(ChunksOf(9), 6u);
  const TableRegions found = FindRegions(pool_.get());
  ASSERT_TRUE(found.contains(9));
  EXPECT_EQ(found.at(9)->bytes(), region->bytes());
  EXPECT_EQ(BytesOf(*found.at(9), bytes.size()), bytes);
  EXPECT_EQ(pool_->Address(found.at(9)->PlaceAt(70000)), region->At(70000));
}

TEST_F(TableRegionTest, TellsOfEachClaimAndOfWhatItGivesBack) {
  Persister persister(pool_->gate(), WriteCause::kCompaction);
  uint64_t told = 0;
  const auto tell = [&](int64_t bytes) { told += static_cast<uint64_t>(bytes); };
  std::shared_ptr<const TableRegion> finished;
  {
    RegionWriter at_once(pool_.get(), kIndexRegion, 9, &persister, tell);
    ASSERT_TRUE(at_once.Claim(5 * pool_->chunk_bytes() + 123).ok());
    EXPECT_EQ(told, at_once.claimed_bytes());
    EXPECT_EQ(told, 6 * pool_->chunk_bytes());
    RegionWriter by_and_by(pool_.get(), kRecordRegion, 10, &persister, tell);
    const std::string bytes(1000, 'x');
    for (int i = 0; i < 500; i++) {
      ASSERT_TRUE(by_and_by.Prepare(bytes.size()).ok());
      by_and_by.Write(bytes);
      ASSERT_EQ(told, at_once.claimed_bytes() + by_and_by.claimed_bytes());
    }
    by_and_by.Flush();
    finished = by_and_by.Finish();
  }
  EXPECT_EQ(told, finished->bytes());
}

TEST_F(TableRegionTest, IsFreedOnceItIsDroppedAndNobodyHasIt) {
  auto region = Write(9, std::string(100, 'x'));
  region->Keep();
  auto other = region;
  region.reset();
  EXPECT_EQ(ChunksOf(9), 1u);
  other->Drop();
  EXPECT_EQ(ChunksOf(9), 1u) << "somebody has it";
  {
    const EpochPin pin(pool_->readers());
    other.reset();
    pool_->CollectDeferred();
    EXPECT_EQ(ChunksOf(9), 1u) << "somebody may read it";
  }
  pool_->CollectDeferred();
  EXPECT_EQ(ChunksOf(9), 0u);
}

TEST_F(TableRegionTest, WhatACatalogMayNameStaysAndNothingElse) {
  auto kept = Write(9, std::string(100, 'x'));
  kept->Keep();
  kept.reset();
  Write(10, std::string(100, 'x')).reset();
  pool_->CollectDeferred();
  EXPECT_EQ(ChunksOf(9), 1u);
  EXPECT_EQ(ChunksOf(10), 0u);
}

TEST_F(TableRegionTest, AWriterThatIsNotFinishedLeavesNothing) {
  Persister persister(pool_->gate(), WriteCause::kCompaction);
  {
    RegionWriter writer(pool_.get(), kIndexRegion, 9, &persister);
    ASSERT_TRUE(writer.Claim(3 * pool_->chunk_bytes()).ok());
    EXPECT_GE(ChunksOf(9), 3u);
  }
  EXPECT_EQ(ChunksOf(9), 0u);
}

TEST_F(TableRegionTest, RecordsLieInOneRunEach) {
  Random random(5);
  Elements elements;
  for (uint64_t i = 0; i < 40; i++) {
    const std::string value = testing::MakeValue(i, random.Uniform(90'000));
    const std::string key = testing::MakeKey(testing::KeyShape::kMixed, i);
    const PmPtr place =
        Add({.tag = MakeTag(i + 1, RecordKind::kPut), .key = key, .value = value}, 0);
    elements[{key, MakeTag(i + 1, RecordKind::kPut)}] = place;
  }
  Persister persister(pool_->gate(), WriteCause::kFlush);
  RecordRegion records(pool_.get(), 11, &persister);
  std::map<OwnedKey, PmPtr, OwnedKeyLess> copies;
  for (const auto& [key, place] : elements) {
    const Status s = records.Copy(place, &copies[key]);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  const auto region = records.Finish();
  persister.Fence();
  for (const auto& [key, place] : copies) {
    EXPECT_TRUE(VerifyRecord(*pool_, place).ok());
    EXPECT_EQ(At(place)->value(), At(elements.at(key))->value());
    ChunkRef chunk;
    ASSERT_TRUE(OwningChunk(*pool_, place, &chunk));
    EXPECT_EQ(RegionOf(chunk.ordinal), 11u);
  }
}

TableHeader HeaderOf(uint64_t number, std::vector<uint64_t> replaced, uint64_t group,
                     uint32_t place) {
  LevelPlace where;
  where.regions = {{number, 0}};
  TableHeader header;
  header.info = {.number = number,
                 .smallest = "a",
                 .largest = "z",
                 .bytes = 1000,
                 .records = 10,
                 .last_sequence = number,
                 .place = {}};
  header.group = group;
  header.place = place;
  header.replaced = std::move(replaced);
  // its end mark comes right after it
  header.info.place = where.Encode();
  where.regions[0].bytes = header.Encode(number).size() + kLineBytes;
  header.info.place = where.Encode();
  return header;
}

class TableHeaderTest : public TableRegionTest {
 protected:
  void WriteTable(uint64_t number, std::vector<uint64_t> replaced, uint64_t group, uint32_t place,
                  uint32_t tables) {
    const std::string header = HeaderOf(number, std::move(replaced), group, place).Encode(number);
    kept_.push_back(Write(number, header + EncodeTableEnd(number, header.size(), tables)));
  }
  std::vector<uint64_t> Found() {
    std::vector<uint64_t> unknown;
    std::vector<uint64_t> numbers;
    for (const TableInfo& info : FindTables(FindRegions(pool_.get()), &unknown))
      numbers.push_back(info.number);
    std::ranges::sort(numbers);
    return numbers;
  }
  std::vector<std::shared_ptr<const TableRegion>> kept_;
};

TEST_F(TableHeaderTest, SaysWhatItWasWrittenWith) {
  const TableHeader written = HeaderOf(5, {1, 2}, 5, 0);
  const std::string bytes = written.Encode(5);
  const auto region = Write(5, bytes + EncodeTableEnd(5, bytes.size(), 1));
  TableHeader read;
  uint64_t size = 0;
  uint32_t tables = 0;
  ASSERT_TRUE(ReadTableHeader(*region, &read, &size));
  EXPECT_EQ(size, bytes.size());
  EXPECT_EQ(read.info, written.info);
  EXPECT_EQ(read.replaced, written.replaced);
  EXPECT_TRUE(ReadTableEnd(*region, size, &tables));
  EXPECT_EQ(tables, 1u);
  EXPECT_FALSE(ReadTableEnd(*region, size + kLineBytes, &tables));
  const auto another = Write(6, bytes);
  EXPECT_FALSE(ReadTableHeader(*another, &read, &size)) << "it is another region's";
}

TEST_F(TableHeaderTest, AWholeGroupSupersedesWhatItReplaces) {
  WriteTable(1, {}, 1, 0, 1);
  WriteTable(2, {}, 2, 0, 1);
  WriteTable(3, {1, 2}, 3, 0, 0);
  EXPECT_EQ(Found(), (std::vector<uint64_t>{1, 2})) << "the group is not whole: its end is missing";
  WriteTable(4, {1, 2}, 3, 1, 2);
  EXPECT_EQ(Found(), (std::vector<uint64_t>{3, 4}));
}

// Another compaction took the rest of the group's place: what is left of it counts, and what it
// replaced does not.
TEST_F(TableHeaderTest, APartOfAGroupCountsOnceWhatItReplacesIsGoing) {
  WriteTable(1, {}, 1, 0, 1);
  WriteTable(3, {1, 2}, 3, 0, 0);
  EXPECT_EQ(Found(), (std::vector<uint64_t>{3}));
}

// What is there and no table is not gone: it tells nothing of whether the group was committed.
TEST_F(TableHeaderTest, APartOfAGroupDoesNotCountForWhatNeverWasATable) {
  WriteTable(1, {}, 1, 0, 1);
  kept_.push_back(Write(2, HeaderOf(2, {1}, 2, 0).Encode(2)));  // its end is missing
  WriteTable(3, {1, 2}, 3, 0, 0);
  EXPECT_EQ(Found(), (std::vector<uint64_t>{1}));
  WriteTable(4, {1, 2}, 3, 1, 2);
  EXPECT_EQ(Found(), (std::vector<uint64_t>{3, 4}));
}

TEST_F(TableHeaderTest, OfEveryFlippedBitOneIsNotFound) {
  const TableHeader written = HeaderOf(5, {1, 2}, 5, 0);
  const std::string bytes = written.Encode(5);
  const auto region = Write(5, bytes + EncodeTableEnd(5, bytes.size(), 1));
  TableHeaderPrefix prefix;
  std::memcpy(&prefix, bytes.data(), sizeof(prefix));
  for (uint64_t bit = 0; bit < 8 * (sizeof(prefix) + prefix.body_bytes); bit++) {
    char* const byte = const_cast<char*>(region->At(bit / 8));
    *byte = static_cast<char>(*byte ^ 1 << bit % 8);
    TableHeader read;
    uint64_t size = 0;
    EXPECT_FALSE(ReadTableHeader(*region, &read, &size)) << bit;
    *byte = static_cast<char>(*byte ^ 1 << bit % 8);
  }
}

TEST(Format, TableHeaderPrefixAndTableEndMarkAreAsDocumented) {
  EXPECT_EQ(testing::FormatDifference("TableHeaderPrefix", sizeof(TableHeaderPrefix),
                                      {LAMELLA_FORMAT_FIELD(TableHeaderPrefix, magic),
                                       LAMELLA_FORMAT_FIELD(TableHeaderPrefix, number),
                                       LAMELLA_FORMAT_FIELD(TableHeaderPrefix, body_bytes),
                                       LAMELLA_FORMAT_FIELD(TableHeaderPrefix, checksum)}),
            "");
  EXPECT_EQ(
      testing::FormatDifference(
          "TableEndMark", sizeof(TableEndMark),
          {LAMELLA_FORMAT_FIELD(TableEndMark, magic), LAMELLA_FORMAT_FIELD(TableEndMark, number),
           LAMELLA_FORMAT_FIELD(TableEndMark, at), LAMELLA_FORMAT_FIELD(TableEndMark, tables),
           LAMELLA_FORMAT_FIELD(TableEndMark, checksum)}),
      "");
}

}  // namespace
}  // namespace lamella
