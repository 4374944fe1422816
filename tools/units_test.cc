#include "tools/units.h"

#include <gtest/gtest.h>

#include "tools/progress.h"

namespace lamella::tools {
namespace {

uint64_t Parsed(std::string_view text) {
  uint64_t bytes = 0;
  const Status s = ParseByteSize(text, &bytes);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return bytes;
}

TEST(ByteSize, UnitsArePowersOf1024) {
  EXPECT_EQ(Parsed("0"), 0u);
  EXPECT_EQ(Parsed("4096"), 4096u);
  EXPECT_EQ(Parsed("4096B"), 4096u);
  EXPECT_EQ(Parsed("64k"), 64u << 10);
  EXPECT_EQ(Parsed("256M"), 256u << 20);
  EXPECT_EQ(Parsed("256MB"), 256u << 20);
  EXPECT_EQ(Parsed("256MiB"), 256u << 20);
  EXPECT_EQ(Parsed("1.5G"), 3ull << 29);
  EXPECT_EQ(Parsed("2T"), 2ull << 40);
  EXPECT_EQ(Parsed("9007199254740993"), 9007199254740993u);  // 2^53 + 1: no double in between
}

TEST(ByteSize, WhatIsNoSizeIsRefused) {
  for (const char* bad :
       {"", "M", "-1", "-0", "1.5", "12X", "12 M", "1MiBs", "0x10", "1e3", "inf", "nan", " 1",
        "1M ", "8388608T", "9223372036854775808", "99999999999999999999999"}) {
    uint64_t bytes = 7;
    const Status s = ParseByteSize(bad, &bytes);
    EXPECT_TRUE(s.IsInvalidArgument()) << bad;
    EXPECT_EQ(bytes, 7u) << bad;
    EXPECT_NE(s.message().find("found \"" + std::string(bad) + "\""), std::string_view::npos)
        << s.ToString();
  }
}

TEST(Units, AreReadable) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{1} << 30), "1.0 GiB");
  EXPECT_EQ(FormatBytes((uint64_t{1} << 20) - 1), "1.0 MiB");  // never "1024.0 KiB"
  EXPECT_EQ(FormatNanoseconds(830), "830 ns");
  EXPECT_EQ(FormatNanoseconds(1250000), "1.25 ms");
  EXPECT_EQ(FormatNanoseconds(999499), "999 us");
  EXPECT_EQ(FormatNanoseconds(999999), "1 ms");  // never "1e+03 us"
  EXPECT_EQ(FormatNanoseconds(999999999), "1.0 s");
  EXPECT_EQ(FormatNanoseconds(3400000000), "3.4 s");
}

TEST(ProgressLine, BarFillsWithTheBytesRead) {
  EXPECT_EQ(ProgressLine(1000, 512, 1024, 0.5),
            "[###############...............]  50%  1,000 records  512 B  2,000/s");
  EXPECT_EQ(ProgressLine(0, 0, 1024, 0),
            "[..............................]   0%  0 records  0 B  0/s");
  EXPECT_EQ(ProgressLine(9, 4096, 1024, 1).substr(0, 38),
            "[##############################] 100% ");  // a file that grew
}

TEST(ProgressLine, NoBarWhereTheSizeIsUnknown) {
  EXPECT_EQ(ProgressLine(10, 2048, 0, 1), "10 records  2.0 KiB  10/s");
}

}  // namespace
}  // namespace lamella::tools
