#include "sst/sst_salvage.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sst/sst_test_base.h"

namespace lamella {
namespace {

using testing::TestSeed;

class Salvage : public SstTestBase {
 protected:
  // What is left of table 7, and what of it the table never held.
  RecordMap Left(const RecordMap& records, uint64_t* wrong) {
    RecordMap left;
    const Status s = SalvageSst(
        files_, dir_.path(), IdentityOf(7),
        [&](const InternalKey& key, std::string_view value) {
          const OwnedKey owned{std::string(key.user_key), key.tag};
          const auto at = records.find(owned);
          if (at == records.end() || at->second != value) ++*wrong;
          left[owned] = value;
          return Status::OK();
        },
        &salvage_);
    EXPECT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(salvage_.records, left.size());
    return left;
  }

  SstSalvage salvage_;
};

// V1.
TEST_F(Salvage, EveryWholeBlockIsFoundAndNothingElse) {
  Random random(TestSeed());
  for (int round = 0; round < 60; round++) {
    const RecordMap records = RandomRecords(
        &random,
        {.count = 400, .value_max = random.OneIn(5) ? 30000u : 300u, .compressible = true});
    options_.block_bytes = 500;
    options_.codec = static_cast<BlockCodec>(random.Uniform(3));
    std::vector<SstLocation> locations;
    ASSERT_TRUE(Build(records, IdentityOf(7), &locations).ok());
    std::string bytes = ReadWhole(PathOf(7));
    uint64_t wrong = 0;
    ASSERT_TRUE(Left(records, &wrong) == records);
    EXPECT_EQ(salvage_.lost_bytes, 0u);
    std::vector<uint64_t> damaged;
    for (uint64_t i = random.Uniform(6); i > 0; i--) {
      damaged.push_back(random.Uniform(bytes.size()));
      bytes[damaged.back()] ^= static_cast<char>(1 << random.Uniform(8));
    }
    if (random.OneIn(2)) bytes.resize(random.Uniform(bytes.size()));
    WriteWhole(PathOf(7), bytes);
    const RecordMap left = Left(records, &wrong);
    EXPECT_EQ(wrong, 0u);
    size_t i = 0;
    for (const auto& [key, value] : records) {
      BlockHeader header;
      const uint64_t offset = locations[i++].ToRead().offset;
      if (offset + sizeof(header) > bytes.size()) continue;
      std::memcpy(&header, bytes.data() + offset, sizeof(header));
      const uint64_t end = offset + sizeof(header) + header.stored_bytes;
      bool whole = end <= bytes.size();
      for (const uint64_t byte : damaged) whole = whole && (byte < offset || byte >= end);
      // A byte that was damaged twice may be as it was.
      if (whole) {
        ASSERT_TRUE(left.contains(key)) << "round " << round;
      }
    }
  }
}

TEST_F(Salvage, AnotherTablesBlocksAreNone) {
  Random random(TestSeed());
  const RecordMap records = RandomRecords(&random, {.count = 100});
  ASSERT_TRUE(Build(records, IdentityOf(8)).ok());
  WriteWhole(PathOf(7), ReadWhole(PathOf(8)));
  uint64_t wrong = 0;
  EXPECT_TRUE(Left(records, &wrong).empty());
  // Nor those of a table that is a value of this one.
  RecordMap outer;
  outer[{"table", MakeTag(1, RecordKind::kPut)}] = ReadWhole(PathOf(8));
  ASSERT_TRUE(Build(outer, IdentityOf(7)).ok());
  std::string bytes = ReadWhole(PathOf(7));
  bytes[40] ^= 1;
  WriteWhole(PathOf(7), bytes);
  EXPECT_TRUE(Left(outer, &wrong).empty());
  SstSalvage none;
  const auto visit = [](const InternalKey&, std::string_view) { return Status::OK(); };
  EXPECT_TRUE(SalvageSst(files_, dir_.path(), IdentityOf(9), visit, &none).IsNotFound());
}

// V2: headers without end, each of which claims all that follows.
TEST_F(Salvage, HeadersThatLieCostLittle) {
  BlockHeader header{};
  header.stored_bytes = header.raw_bytes = 1 << 20;
  header.records = 1;
  header.kind = static_cast<uint8_t>(BlockKind::kData);
  std::string bytes;
  while (bytes.size() < 4u << 20)
    bytes.append(reinterpret_cast<const char*>(&header), sizeof(header));
  WriteWhole(PathOf(7), bytes);
  const auto start = std::chrono::steady_clock::now();
  uint64_t wrong = 0;
  EXPECT_TRUE(Left({}, &wrong).empty());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20);  // 130,000 times a MiB would take far longer
}

}  // namespace
}  // namespace lamella
