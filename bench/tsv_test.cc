#include "bench/tsv.h"

#include <gtest/gtest.h>

namespace lamella::bench {
namespace {

TEST(Tsv, EscapesStandForTheirBytes) {
  TsvRecord r;
  ASSERT_TRUE(ParseTsvLine(R"(a\tb	one\ntwo\\\r\x00\xfF\0)", &r).ok());
  EXPECT_EQ(r.key, "a\tb");
  EXPECT_EQ(r.value, std::string("one\ntwo\\\r\0\xff\0", 12));
}

TEST(Tsv, ValuesMayBeEmpty) {
  TsvRecord r;
  ASSERT_TRUE(ParseTsvLine("k\t", &r).ok());
  EXPECT_EQ(r.value, "");
}

TEST(Tsv, MalformedLinesSayWhatWasExpected) {
  TsvRecord r;
  for (const char* line :
       {"no tab", "\tno key", "k\ta\tb", "k\tv\\", "k\t\\q", "k\t\\x1", "k\t\\xg0", "k\t\\x-1"}) {
    const Status s = ParseTsvLine(line, &r);
    EXPECT_TRUE(s.IsInvalidArgument()) << line;
    EXPECT_NE(s.message().find("expected"), std::string_view::npos) << line;
  }
}

}  // namespace
}  // namespace lamella::bench
