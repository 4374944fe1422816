#include "sst/sst_format.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/format_doc.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

using testing::Between;
using testing::FormatField;
using testing::KeyShape;
using testing::MakeKey;
using testing::TestSeed;

void ExpectDocumented(const std::string& type, size_t bytes,
                      const std::vector<FormatField>& fields) {
  EXPECT_EQ(testing::FormatDifference(type, bytes, fields), "");
}

TEST(SstFormat, TypesAreAsDocumented) {
  ExpectDocumented(
      "BlockHeader", sizeof(BlockHeader),
      {LAMELLA_FORMAT_FIELD(BlockHeader, checksum), LAMELLA_FORMAT_FIELD(BlockHeader, stored_bytes),
       LAMELLA_FORMAT_FIELD(BlockHeader, raw_bytes), LAMELLA_FORMAT_FIELD(BlockHeader, records),
       LAMELLA_FORMAT_FIELD(BlockHeader, kind), LAMELLA_FORMAT_FIELD(BlockHeader, codec),
       LAMELLA_FORMAT_FIELD(BlockHeader, reserved)});
  ExpectDocumented(
      "SstFooter", sizeof(SstFooter),
      {LAMELLA_FORMAT_FIELD(SstFooter, store), LAMELLA_FORMAT_FIELD(SstFooter, number),
       LAMELLA_FORMAT_FIELD(SstFooter, file_bytes), LAMELLA_FORMAT_FIELD(SstFooter, root_offset),
       LAMELLA_FORMAT_FIELD(SstFooter, root_bytes),
       LAMELLA_FORMAT_FIELD(SstFooter, properties_bytes),
       LAMELLA_FORMAT_FIELD(SstFooter, reserved0), LAMELLA_FORMAT_FIELD(SstFooter, checksum),
       LAMELLA_FORMAT_FIELD(SstFooter, format), LAMELLA_FORMAT_FIELD(SstFooter, reserved1),
       LAMELLA_FORMAT_FIELD(SstFooter, magic)});
  ExpectDocumented(
      "SstProperties", sizeof(SstProperties),
      {LAMELLA_FORMAT_FIELD(SstProperties, records), LAMELLA_FORMAT_FIELD(SstProperties, deletes),
       LAMELLA_FORMAT_FIELD(SstProperties, key_bytes),
       LAMELLA_FORMAT_FIELD(SstProperties, value_bytes),
       LAMELLA_FORMAT_FIELD(SstProperties, raw_data_bytes),
       LAMELLA_FORMAT_FIELD(SstProperties, data_blocks),
       LAMELLA_FORMAT_FIELD(SstProperties, sections),
       LAMELLA_FORMAT_FIELD(SstProperties, first_sequence),
       LAMELLA_FORMAT_FIELD(SstProperties, last_sequence),
       LAMELLA_FORMAT_FIELD(SstProperties, block_bytes), LAMELLA_FORMAT_FIELD(SstProperties, codec),
       LAMELLA_FORMAT_FIELD(SstProperties, reserved0), LAMELLA_FORMAT_FIELD(SstProperties, level)});
}

TEST(SstFormat, ALocationKeepsItsPlaceAndReadsLittleMore) {
  Random random(TestSeed());
  const auto check = [](const BlockHandle& block, uint32_t index) {
    const SstLocation location = SstLocation::FromBits(SstLocation(block, index).bits());
    const BlockHandle read = location.ToRead();
    ASSERT_EQ(location.index(), index);
    ASSERT_EQ(read.offset, block.offset);
    ASSERT_GE(read.bytes, block.bytes);
    ASSERT_LE(read.bytes, std::max<uint64_t>(128, block.bytes + block.bytes / 128 + 1));
  };
  for (uint64_t bytes = sizeof(BlockHeader); bytes < 70000; bytes++) check({bytes, bytes}, 5);
  for (int i = 0; i < 10000; i++) {
    const uint64_t bytes = Between(&random, 24, uint64_t{1} << Between(&random, 5, 31));
    const auto index = static_cast<uint32_t>(random.Uniform(kBlockRecordsMax));
    check({random.Uniform(kSstBytesMax - bytes), bytes}, index);
  }
  check({kSstBytesMax - (uint64_t{1} << 31), uint64_t{1} << 31}, kBlockRecordsMax - 1);
}

TEST(SstFormat, AHandleOutsideOfTheFileIsNone) {
  const auto decodes = [](const BlockHandle& handle, uint64_t end) {
    std::string bytes;
    AppendHandle(&bytes, handle);
    BlockHandle decoded;
    return DecodeHandle(bytes, end, &decoded) && decoded == handle;
  };
  EXPECT_TRUE(decodes({0, 24}, 24));
  EXPECT_TRUE(decodes({1000, 100}, 1100));
  EXPECT_FALSE(decodes({1000, 100}, 1099));
  EXPECT_FALSE(decodes({1000, 23}, 5000));  // smaller than a header
  EXPECT_FALSE(decodes({UINT64_MAX, 100}, 1000));
  EXPECT_FALSE(decodes({100, UINT64_MAX}, 1000));
  BlockHandle handle;
  EXPECT_FALSE(DecodeHandle("", 1000, &handle));
  EXPECT_FALSE(DecodeHandle(std::string(30, '\xff'), UINT64_MAX, &handle));
}

// It divides all records as the two do between which it lies, and is short.
TEST(SstFormat, AShortLowerBoundLiesBetween) {
  Random random(TestSeed());
  for (const KeyShape shape : {KeyShape::kShort, KeyShape::kCommonPrefix, KeyShape::kBinary}) {
    for (int i = 0; i < 5000; i++) {
      const std::string key_a = MakeKey(shape, random.Uniform(300));
      const std::string key_b = MakeKey(shape, random.Uniform(300));
      InternalKey a{key_a, MakeTag(Between(&random, 1, 50), RecordKind::kPut)};
      InternalKey b{key_b, MakeTag(Between(&random, 1, 50), RecordKind::kDelete)};
      if (CompareInternal(a, b) > 0) std::swap(a, b);
      if (CompareInternal(a, b) == 0) continue;
      const InternalKey bound = ShortLowerBound(a, b);
      ASSERT_LT(CompareInternal(a, bound), 0);
      ASSERT_LE(CompareInternal(bound, b), 0);
      ASSERT_LE(bound.user_key.size(), b.user_key.size());
      // A search for any version of b's key leads to where b is, if a has another key.
      if (a.user_key != b.user_key) {
        ASSERT_LE(CompareInternal(bound, {b.user_key, SeekTag(kSequenceMax)}), 0);
      }
    }
  }
  EXPECT_EQ(ShortLowerBound({"abcdef", 5}, {"abcxyz", 7}).user_key, "abcx");
}

TEST(SstFormat, AChecksumIsOfOneTableAndPlace) {
  const SstIdentity one{.store = {1, 2, 3}, .number = 4};
  SstIdentity other_store = one;
  other_store.store[15] = 1;
  const SstIdentity other_number{.store = one.store, .number = 5};
  const BlockHeader header{.checksum = 0,
                           .stored_bytes = 7,
                           .raw_bytes = 7,
                           .records = 1,
                           .kind = 1,
                           .codec = 0,
                           .reserved = 0};
  const uint64_t checksum = BlockChecksum(SstSeed(one), 4096, header, "content");
  EXPECT_NE(checksum, BlockChecksum(SstSeed(other_store), 4096, header, "content"));
  EXPECT_NE(checksum, BlockChecksum(SstSeed(other_number), 4096, header, "content"));
  EXPECT_NE(checksum, BlockChecksum(SstSeed(one), 4097, header, "content"));
  EXPECT_NE(checksum, BlockChecksum(SstSeed(one), 4096, header, "contend"));
  BlockHeader other = header;
  other.records = 2;
  EXPECT_NE(checksum, BlockChecksum(SstSeed(one), 4096, other, "content"));
  other = header;
  other.checksum = 77;
  EXPECT_EQ(checksum, BlockChecksum(SstSeed(one), 4096, other, "content"));
}

}  // namespace
}  // namespace lamella
