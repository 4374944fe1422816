// The import formats: a text through LineReader and ParseRecord, as `lamella load` reads it, and
// through the benchmark's reader.
//
// An input: the format u8 (even: TSV; odd: JSON lines), then the text.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/concat.h"
#include "bench/tsv.h"
#include "fuzz/fuzz.h"
#include "lamella/db.h"
#include "tools/formats.h"
#include "tools/record_reader.h"

namespace lamella::fuzz {
namespace {

using tools::Fields;
using tools::Format;

// A file of its own, in memory.
class TextFile {
 public:
  TextFile() : fd_(::memfd_create("import", MFD_CLOEXEC)) { FUZZ_CHECK(fd_ >= 0, "memfd_create"); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() { ::close(fd_); }
  int Fill(std::string_view text) const {
    const bool filled = ::ftruncate(fd_, 0) == 0 &&
                        ::pwrite(fd_, text.data(), text.size(), 0) >= 0 &&
                        ::lseek(fd_, 0, SEEK_SET) == 0;
    FUZZ_CHECK(filled, "write the text");
    return fd_;
  }

 private:
  const int fd_;
};

std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

// What was read, written in either format and read again, is the same record (formats.h, I1).
void CheckRoundTrip(std::string_view key, std::string_view value) {
  for (const Format format : {Format::kTsv, Format::kJsonLines}) {
    std::string line;
    tools::AppendRecord(format, Fields::kKeyAndValue, key, value, &line);
    FUZZ_CHECK(line.find('\n') == line.size() - 1, "one line a record: " + line);
    line.pop_back();
    std::string key_again, value_again;
    const Status s = tools::ParseRecord(format, line, &key_again, &value_again);
    FUZZ_CHECK(s.ok(), s.ToString());
    if (planted) key_again += "x";
    FUZZ_CHECK(key_again == key && value_again == value, "another record came back: " + line);
  }
}

void CheckLine(Format format, std::string_view line) {
  std::string key, value;
  const Status s = tools::ParseRecord(format, line, &key, &value);
  FUZZ_CHECK(s.ok() || (s.IsInvalidArgument() && !s.message().empty()), s.ToString());
  if (format == Format::kTsv) {
    // The benchmark reads the same lines as the same records.
    bench::TsvRecord record;
    const Status other = bench::ParseTsvLine(line, &record);
    FUZZ_CHECK(other.ok() == s.ok(),
               Concat("load: ", s.ToString(), "; the benchmark: ", other.ToString()));
    FUZZ_CHECK(!s.ok() || (record.key == key && record.value == value),
               "the benchmark reads another record");
  }
  if (!s.ok()) return;
  FUZZ_CHECK(!key.empty() && key.size() <= kKeyBytesMax && value.size() <= kValueBytesMax,
             "limits");
  CheckRoundTrip(key, value);
}

void CheckBase64(std::string_view text) {
  std::string raw;
  if (!tools::DecodeBase64(text, &raw).ok()) return;
  std::string again;
  tools::AppendBase64(raw, &again);
  FUZZ_CHECK(again == text, "base64 has one spelling: " + again);
}

}  // namespace

void OneInput(const uint8_t* data, size_t size) {
  static const TextFile file;
  Input input(data, size);
  const Format format = (input.Take<uint8_t>() & 1) != 0 ? Format::kJsonLines : Format::kTsv;
  const std::vector<std::string> expected = LinesOf(input.Rest());
  tools::LineReader reader(file.Fill(input.Rest()), "input");
  std::string_view line;
  size_t count = 0;
  while (reader.Next(&line)) {
    FUZZ_CHECK(count < expected.size() && line == expected[count], Concat("line ", count + 1));
    FUZZ_CHECK(reader.line_number() == ++count, "lines are counted from 1");
    CheckLine(format, line);
    CheckBase64(line);
  }
  FUZZ_CHECK(reader.status().ok() && count == expected.size(),
             Concat(count, " lines of ", expected.size()));
  FUZZ_CHECK(reader.bytes_consumed() == input.Rest().size(),
             Concat(reader.bytes_consumed(), " bytes consumed"));
  FUZZ_CHECK(reader.last_line_unended() == (!input.Rest().empty() && input.Rest().back() != '\n'),
             "the last line's end");
}

}  // namespace lamella::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lamella::fuzz::OneInput(data, size);
  return 0;
}
