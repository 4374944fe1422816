#include "tools/record_reader.h"

#include <unistd.h>

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lamella::tools {
namespace {

/// Lines of `text` as LineReader gives them from a pipe, in pieces of `piece_bytes`.
std::vector<std::string> LinesOf(const std::string& text, size_t piece_bytes,
                                 bool* unended = nullptr) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::thread writer([&] {
    for (size_t at = 0; at < text.size(); at += piece_bytes) {
      const size_t n = std::min(piece_bytes, text.size() - at);
      EXPECT_EQ(write(ends[1], text.data() + at, n), static_cast<ssize_t>(n));
    }
    close(ends[1]);
  });
  LineReader reader(ends[0], "pipe");
  std::vector<std::string> lines;
  std::string_view line;
  while (reader.Next(&line)) lines.emplace_back(line);
  EXPECT_TRUE(reader.status().ok());
  EXPECT_EQ(reader.line_number(), lines.size());
  EXPECT_EQ(reader.bytes_consumed(), text.size());
  if (unended != nullptr) *unended = reader.last_line_unended();
  writer.join();
  close(ends[0]);
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LineReader, GivesTheSameLinesHoweverTheyArrive) {
  for (const size_t piece : {1, 2, 3, 7, 1000}) {
    EXPECT_EQ(LinesOf("one\n\nthree\n", piece), (Lines{"one", "", "three"}));
  }
}

TEST(LineReader, LastLineWithoutAnEndIsGivenAndSaid) {
  bool unended = false;
  EXPECT_EQ(LinesOf("one\ntwo", 1, &unended), (Lines{"one", "two"}));
  EXPECT_TRUE(unended);
  EXPECT_EQ(LinesOf("one\ntwo\n", 1, &unended), (Lines{"one", "two"}));
  EXPECT_FALSE(unended);
  EXPECT_EQ(LinesOf("", 1, &unended), Lines{});
  EXPECT_FALSE(unended);
}

TEST(LineReader, LinesLongerThanItsBufferAreWhole) {
  const std::string longer(3'000'000, 'x');
  EXPECT_EQ(LinesOf("a\n" + longer + "\nb\n", 60'000), (Lines{"a", longer, "b"}));
}

TEST(LineReader, ReadErrorIsReported) {
  LineReader reader(-1, "nothing");
  std::string_view line;
  EXPECT_FALSE(reader.Next(&line));
  EXPECT_TRUE(reader.status().IsIOError());
  EXPECT_FALSE(reader.Next(&line));
}

TEST(RecordReader, UnknownFormatExtensionAndFileAreNamed) {
  std::unique_ptr<RecordReader> reader;
  Status s = RecordReader::Open("x.tsv", "csv", &reader);
  EXPECT_TRUE(s.IsInvalidArgument());
  EXPECT_NE(s.message().find("expected --format tsv or jsonl, found \"csv\""),
            std::string_view::npos);
  s = RecordReader::Open("x.tsv", "", &reader);
  EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
  s = RecordReader::Open("x.txt", std::nullopt, &reader);
  EXPECT_TRUE(s.IsInvalidArgument());
  EXPECT_NE(s.message().find("say --format"), std::string_view::npos);
  s = RecordReader::Open("there-is-no-such-file.tsv", std::nullopt, &reader);
  EXPECT_TRUE(s.IsIOError());
  EXPECT_NE(s.message().find("there-is-no-such-file.tsv"), std::string_view::npos);
}

}  // namespace
}  // namespace lamella::tools
