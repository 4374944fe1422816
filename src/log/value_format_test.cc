#include "log/value_format.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "file/table_file_name.h"
#include "testing/format_doc.h"
#include "testing/random_data.h"
#include "testing/says.h"

namespace lamella {
namespace {

using testing::FormatDifference;
using testing::MakeValue;
using testing::Says;

TEST(ValueAddress, HoldsSegmentAndOffset) {
  for (const uint64_t segment : {uint64_t{1}, uint64_t{77}, kSegmentMax}) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{8}, kSegmentBytesMax - 8}) {
      const ValueAddress address = MakeValueAddress(segment, offset, 5);
      EXPECT_EQ(address.segment(), segment);
      EXPECT_EQ(address.offset(), offset);
      EXPECT_NE(address.word, 0u);
    }
  }
}

TEST(ValueFileNames, AreReadBackAndNoOthers) {
  const ValueFileId id{12, 340};
  EXPECT_EQ(ValueFileName(id), "12-340.values");
  EXPECT_EQ(ParseValueFileName("12-340.values"), id);
  for (const char* name : {"12.values", "12-.values", "-3.values", "12-340.table", "12-340.values~",
                           "12-340.value", "12-3x.values", "a12-3.values", "012-3.values",
                           "12-03.values", ".values", "", "99999999999999999999-1.values"}) {
    EXPECT_FALSE(ParseValueFileName(name)) << name;
  }
  EXPECT_TRUE(IsDataFileName("12-340.values") && IsDataFileName("7.table"));
  EXPECT_FALSE(IsDataFileName("07.table")) << "the file that number 7 names is another";
  EXPECT_FALSE(IsDataFileName("LOCK") || IsDataFileName("pool.0"));
}

TEST(ValueFormat, TheDocumentSaysWhatTheCodeDoes) {
  EXPECT_EQ(FormatDifference("ValueHeader", sizeof(ValueHeader),
                             {LAMELLA_FORMAT_FIELD(ValueHeader, size),
                              LAMELLA_FORMAT_FIELD(ValueHeader, checksum)}),
            "");
  EXPECT_EQ(FormatDifference("SegmentTrailer", sizeof(SegmentTrailer),
                             {LAMELLA_FORMAT_FIELD(SegmentTrailer, magic),
                              LAMELLA_FORMAT_FIELD(SegmentTrailer, content_bytes),
                              LAMELLA_FORMAT_FIELD(SegmentTrailer, checksum)}),
            "");
}

TEST(ValueFormat, AValueValidatesAtItsAddressAlone) {
  const std::array<uint8_t, 16> store{1, 2, 3};
  const std::array<uint8_t, 16> other{1, 2, 4};
  const uint64_t seed = ValueSeed(store);
  for (const size_t size : {0, 1, 8, 100, 5000}) {
    const std::string value = MakeValue(size, size);
    const ValueAddress address = MakeValueAddress(7, 64, static_cast<uint32_t>(size));
    const ValueHeader header = MakeValueHeader(seed, address, value);
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
    bytes += value + std::string(64, '\0');
    EXPECT_TRUE(ValueIsSound(seed, address, bytes.data()));
    EXPECT_FALSE(ValueIsSound(ValueSeed(other), address, bytes.data())) << "another store's";
    for (const ValueAddress& wrong :
         {MakeValueAddress(8, 64, address.size), MakeValueAddress(7, 72, address.size),
          MakeValueAddress(7, 64, address.size + 1)})
      EXPECT_FALSE(ValueIsSound(seed, wrong, bytes.data()));
    bytes[4] ^= 1;
    EXPECT_FALSE(ValueIsSound(seed, address, bytes.data()));
    const Status s = DamagedValue(seed, address, bytes.data(), "here");
    EXPECT_TRUE(s.IsCorruption() && Says(s, "here: the value of ")) << s.ToString();
    bytes[0] ^= 1;
    EXPECT_TRUE(Says(DamagedValue(seed, address, bytes.data(), "here"), "found one of "));
  }
}

TEST(ValueFormat, ASegmentIsWholeOrIsNone) {
  constexpr uint64_t kBytes = 4096;
  const uint64_t seed = ValueSeed({9});
  for (const uint64_t content : {uint64_t{0}, uint64_t{8}, kBytes - sizeof(SegmentTrailer)}) {
    std::string image = MakeValue(content, kBytes);
    const std::string before = image.substr(0, content);
    EndSegment(seed, 5, content, image.data(), kBytes);
    ASSERT_EQ(ContentOf(seed, 5, image), before);
    EXPECT_FALSE(ContentOf(seed, 6, image));
    EXPECT_FALSE(ContentOf(seed + 1, 5, image));
    EXPECT_FALSE(ContentOf(seed, 5, std::string_view(image).substr(0, kBytes - 1)));
    EXPECT_FALSE(ContentOf(seed, 5, ""));
    for (size_t bit = 0; bit < 8 * kBytes; bit += 7) {
      image[bit / 8] ^= static_cast<char>(1 << bit % 8);
      EXPECT_FALSE(ContentOf(seed, 5, image)) << bit;
      image[bit / 8] ^= static_cast<char>(1 << bit % 8);
    }
  }
}

}  // namespace
}  // namespace lamella
