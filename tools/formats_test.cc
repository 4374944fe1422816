#include "tools/formats.h"

#include <random>

#include <gtest/gtest.h>

#include "lamella/db.h"

namespace lamella::tools {
namespace {

std::string Escaped(std::string_view raw) {
  std::string text;
  AppendEscaped(raw, &text);
  return text;
}

std::string Line(Format format, std::string_view key, std::string_view value) {
  std::string line;
  AppendRecord(format, Fields::kKeyAndValue, key, value, &line);
  return line;
}

/// What ParseRecord says of a bad line; "" for a good one.
std::string Complaint(Format format, std::string_view line) {
  std::string key, value;
  return std::string(ParseRecord(format, line, &key, &value).message());
}

/// Random bytes of one of several tempers, so that text, binary and text that is nearly UTF-8 all
/// come up.
std::string RandomBytes(std::mt19937_64* random, size_t size_max) {
  static constexpr char kHardBytes[] =
      "\t\n\r\\\0\"{}xn0\x7f\x80\xc3\xa9\xed\xa0\xff\xf0\x9f\x98\x80";
  static constexpr std::string_view kHard(kHardBytes, sizeof(kHardBytes) - 1);
  const size_t size = (*random)() % (size_max + 1);
  const uint64_t temper = (*random)() % 3;
  std::string bytes;
  while (bytes.size() < size) {
    const uint64_t r = (*random)();
    if (temper == 0) {
      bytes += static_cast<char>(r & 0xff);
    } else if (temper == 1) {
      bytes += kHard[r % kHard.size()];
    } else {
      bytes += r % 5 == 0 ? "\xc3\xa9" : std::string(1, static_cast<char>(' ' + r % 95));
    }
  }
  return bytes;
}

TEST(Escapes, NamedControlBytesBackslashAndNul) {
  EXPECT_EQ(Escaped(std::string_view("a\tb\nc\rd\\e\0f", 11)), R"(a\tb\nc\rd\\e\x00f)");
  EXPECT_EQ(Escaped("\x01\x1f\x7f"), R"(\x01\x1f\x7f)");
}

TEST(Escapes, Utf8StaysReadableAndOtherHighBytesDoNot) {
  EXPECT_EQ(Escaped("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(Escaped("caf\xe9"), R"(caf\xe9)");
}

TEST(Escapes, HexDigitsOfEitherCaseAreRead) {
  std::string raw;
  ASSERT_TRUE(Unescape(R"(\xfF\x00\0)", &raw).ok());
  EXPECT_EQ(raw, std::string_view("\xff\0\0", 3));
}

TEST(Escapes, UnknownShortAndTrailingOnesAreRefusedWithTheirPlace) {
  std::string raw;
  for (const char* bad : {R"(ab\q)", R"(ab\x1)", R"(ab\xg0)", R"(ab\)"}) {
    const Status s = Unescape(bad, &raw);
    ASSERT_TRUE(s.IsInvalidArgument()) << bad;
    EXPECT_NE(s.message().find("at byte 2"), std::string_view::npos) << s.ToString();
  }
}

TEST(Base64, VectorsOfTheRfc) {
  const std::pair<std::string_view, std::string_view> kVectors[] = {{"", ""},
                                                                    {"f", "Zg=="},
                                                                    {"fo", "Zm8="},
                                                                    {"foo", "Zm9v"},
                                                                    {"foob", "Zm9vYg=="},
                                                                    {"fooba", "Zm9vYmE="},
                                                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [raw, text] : kVectors) {
    std::string encoded, decoded;
    AppendBase64(raw, &encoded);
    EXPECT_EQ(encoded, text);
    ASSERT_TRUE(DecodeBase64(text, &decoded).ok());
    EXPECT_EQ(decoded, raw);
  }
}

TEST(Base64, OtherSpellingsAreRefused) {
  std::string raw;
  for (const char* bad :
       {"Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm 9", "Zm-v", "Zh==", "Zm9=", "=Zg="}) {
    EXPECT_TRUE(DecodeBase64(bad, &raw).IsInvalidArgument()) << bad;
  }
}

TEST(Utf8, OverlongSurrogatesAndCutSequencesAreNone) {
  for (const char* good :
       {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3(", "\xff"}) {
    EXPECT_FALSE(IsUtf8(bad)) << bad;
  }
}

TEST(Tsv, RecordIsOneLine) {
  EXPECT_EQ(Line(Format::kTsv, "k\n", "v\t"), "k\\n\tv\\t\n");
  EXPECT_EQ(Line(Format::kTsv, "k", ""), "k\t\n");
}

TEST(Tsv, CarriageReturnBeforeTheEndBelongsToTheValue) {
  std::string key, value;
  ASSERT_TRUE(ParseRecord(Format::kTsv, "k\tv\r", &key, &value).ok());
  EXPECT_EQ(value, "v\r");
}

TEST(Tsv, MalformedLinesSayWhatWasExpectedAndFound) {
  EXPECT_EQ(Complaint(Format::kTsv, "no tab here"),
            "expected key<TAB>value, found no TAB in \"no tab here\"");
  EXPECT_NE(Complaint(Format::kTsv, "").find("found no TAB"), std::string::npos);
  EXPECT_NE(Complaint(Format::kTsv, "a\tb\tc").find("second TAB"), std::string::npos);
  EXPECT_NE(Complaint(Format::kTsv, "\tb").find("found an empty one"), std::string::npos);
  EXPECT_NE(Complaint(Format::kTsv, "a\\\tb").find("in the key: expected an escape"),
            std::string::npos);
  EXPECT_NE(Complaint(Format::kTsv, "a\tb\\y").find("in the value: expected an escape"),
            std::string::npos);
}

TEST(Tsv, KeyAboveTheLimitIsRefusedAndOneAtItIsNot) {
  EXPECT_EQ(Complaint(Format::kTsv, std::string(kKeyBytesMax, 'k') + "\tv"), "");
  EXPECT_NE(
      Complaint(Format::kTsv, std::string(kKeyBytesMax + 1, 'k') + "\tv").find("found 65536 bytes"),
      std::string::npos);
}

TEST(JsonLines, TextIsTextAndBinaryIsBase64) {
  EXPECT_EQ(Line(Format::kJsonLines, "k\"\\\n", "caf\xc3\xa9"),
            "{\"key\":\"k\\\"\\\\\\n\",\"value\":\"caf\xc3\xa9\"}\n");
  EXPECT_EQ(Line(Format::kJsonLines, "k", "\xff"), "{\"key\":\"k\",\"value_base64\":\"/w==\"}\n");
}

TEST(JsonLines, MembersMayComeInAnyOrderWithSpaces) {
  std::string key, value;
  ASSERT_TRUE(ParseRecord(Format::kJsonLines,
                          R"( { "value" : "\u0000\u00e9" , "key_base64" : "/w==" } )", &key, &value)
                  .ok());
  EXPECT_EQ(key, "\xff");
  EXPECT_EQ(value, std::string_view("\0\xc3\xa9", 3));
}

TEST(JsonLines, MalformedLinesSayWhatWasExpectedAndFound) {
  const std::pair<std::string_view, std::string_view> kBad[] = {
      {"", "no JSON"},
      {"{", "no JSON"},
      {R"({"key":"a","value":"b"} x)", "no JSON"},
      {R"({"key":"a","value":"b"}{"key":"a","value":"b"})", "no JSON"},
      {{"{\"key\":\"a\",\"value\":\"b\"}\0{\"key\":\"c\",\"value\":\"d\"}", 47}, "found a NUL"},
      {{"{\"key\":\"a\",\"value\":\"b\"}\0", 24}, "found a NUL"},
      {{"{\"key\":\"\0\",\"value\":\"b\"}", 23}, "found a NUL"},
      {"{\"key\":\"\xff\",\"value\":\"b\"}", "no JSON"},
      {R"({"key":"\ud800","value":"b"})", "no JSON"},
      {R"({"value":"b"})", "found no key"},
      {R"({"key":"a"})", "found no value"},
      {R"({})", "found no key"},
      {R"({"key":"a","value":"b","ttl":1})", "found the member \"ttl\""},
      {R"({"key":"a","key":"a","value":"b"})", "found two"},
      {R"({"key":"a","key_base64":"YQ==","value":"b"})", "found two"},
      {R"({"key":1,"value":"b"})", "found a number"},
      {R"({"key":"a","value":null})", "found null"},
      {R"({"key":"a","value":true})", "found a boolean"},
      {R"({"key":"a","value":["b"]})", "found an array"},
      {R"({"key":"a","value":{"b":"c"}})", "found an object"},
      {R"("a")", "found a string"},
      {R"([])", "found an array"},
      {R"({"key":"","value":"b"})", "found an empty one"},
      {R"({"key_base64":"a","value":"b"})", "base64"},
  };
  for (const auto& [line, found] : kBad) {
    EXPECT_NE(Complaint(Format::kJsonLines, line).find(found), std::string::npos)
        << line << ": " << Complaint(Format::kJsonLines, line);
  }
}

TEST(JsonLines, DeepNestingIsRefusedAtItsFirstLevel) {
  EXPECT_NE(Complaint(Format::kJsonLines, std::string(1000000, '[')).find("found an array"),
            std::string::npos);
}

TEST(Formats, AnyBytesComeBackExactly) {  // keeps I1
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; i++) {
    std::string key = RandomBytes(&random, 40);
    if (key.empty()) key = "k";
    const std::string value = RandomBytes(&random, 200);
    for (const Format format : {Format::kTsv, Format::kJsonLines}) {
      std::string line = Line(format, key, value);
      ASSERT_EQ(line.find('\n'), line.size() - 1) << line;
      line.pop_back();
      std::string key_back, value_back;
      const Status s = ParseRecord(format, line, &key_back, &value_back);
      ASSERT_TRUE(s.ok()) << s.ToString() << " in " << line;
      ASSERT_EQ(key_back, key);
      ASSERT_EQ(value_back, value);
    }
  }
}

TEST(Formats, NoLineCrashesTheParsers) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::string key, value;
  for (int i = 0; i < 20000; i++) {
    std::string line =
        Line(i % 2 == 0 ? Format::kTsv : Format::kJsonLines, "key", RandomBytes(&random, 60));
    for (uint64_t flips = random() % 4; flips > 0; flips--)
      line[random() % line.size()] = static_cast<char>(random());
    for (const Format format : {Format::kTsv, Format::kJsonLines}) {
      const Status s = ParseRecord(format, line, &key, &value);
      ASSERT_TRUE(s.ok() || (s.IsInvalidArgument() && !s.message().empty()));
    }
  }
}

TEST(Formats, FormatIsKnownByNameAndByExtension) {
  EXPECT_EQ(FormatFromName("tsv"), Format::kTsv);
  EXPECT_EQ(FormatFromName("jsonl"), Format::kJsonLines);
  EXPECT_EQ(FormatFromName("csv"), std::nullopt);
  EXPECT_EQ(FormatFromPath("a/b.tsv"), Format::kTsv);
  EXPECT_EQ(FormatFromPath("b.ndjson"), Format::kJsonLines);
  EXPECT_EQ(FormatFromPath("b.txt"), std::nullopt);
}

}  // namespace
}  // namespace lamella::tools
