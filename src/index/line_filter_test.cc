#include "index/line_filter.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "testing/format_doc.h"

namespace lamella {
namespace {

bool MayHold(const std::string& filter, uint64_t hash) {
  const uint64_t lines = filter.size() / sizeof(FilterLine);
  FilterLine line;
  std::memcpy(&line, filter.data() + FilterLineOf(hash, lines) * sizeof(line), sizeof(line));
  return line.MayHold(hash);
}

TEST(LineFilter, HoldsWhatWasAddedAndFewOthers) {
  for (const size_t count : {size_t{1}, size_t{47}, size_t{48}, size_t{1000}, size_t{50000}}) {
    std::vector<uint64_t> hashes;
    for (size_t i = 0; i < count; i++) hashes.push_back(Hash64(std::to_string(i)));
    const std::string filter = MakeFilter(hashes.begin(), hashes.end(), 3);
    EXPECT_EQ(filter.size(), FilterLines(count) * sizeof(FilterLine));
    for (const uint64_t hash : hashes) ASSERT_TRUE(MayHold(filter, hash));
    uint64_t others = 0;
    constexpr uint64_t kAsked = 20000;
    for (uint64_t i = 0; i < kAsked; i++)
      others += MayHold(filter, Hash64("other" + std::to_string(i))) ? 1 : 0;
    EXPECT_LT(others, kAsked / 40) << count << " keys";
  }
}

TEST(LineFilter, ALineKnowsItsTableAndThatItIsWhole) {
  const std::vector<uint64_t> hashes = {1, 2, 3};
  std::string filter = MakeFilter(hashes.begin(), hashes.end(), 3);
  auto* const line = reinterpret_cast<FilterLine*>(filter.data());
  EXPECT_EQ(line->checksum, line->ChecksumOf(3));
  EXPECT_NE(line->checksum, line->ChecksumOf(4));
  line->bits[20] = static_cast<uint8_t>(line->bits[20] ^ 8);
  EXPECT_NE(line->checksum, line->ChecksumOf(3));
}

TEST(Format, FilterLineIsAsDocumented) {
  EXPECT_EQ(testing::FormatDifference("FilterLine", sizeof(FilterLine),
                                      {LAMELLA_FORMAT_FIELD(FilterLine, bits),
                                       LAMELLA_FORMAT_FIELD(FilterLine, checksum)}),
            "");
}

}  // namespace
}  // namespace lamella
