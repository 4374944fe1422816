#include "bench/tsv.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "lamella/db.h"

namespace lamella::bench {
namespace {

// The byte that the escape at text[*at] (after the backslash) stands for; moves *at after it.
bool Unescape(std::string_view text, size_t* at, char* byte) {
  if (*at >= text.size()) return false;
  const char c = text[(*at)++];
  constexpr std::string_view kNames = "tnr\\0", kBytes("\t\n\r\\\0", 5);
  if (const size_t i = kNames.find(c); i != std::string_view::npos) {
    *byte = kBytes[i];
    return true;
  }
  if (c != 'x' || *at + 2 > text.size()) return false;
  unsigned value = 0;
  const char* const first = text.data() + *at;
  if (std::from_chars(first, first + 2, value, 16).ptr != first + 2) return false;
  *at += 2;
  *byte = static_cast<char>(value);
  return true;
}

Status Decode(std::string_view text, std::string* bytes) {
  bytes->clear();
  for (size_t at = 0; at < text.size();) {
    char c = text[at++];
    if (c == '\\') {
      const size_t start = at - 1;
      if (!Unescape(text, &at, &c)) {
        return Status::InvalidArgument("expected \\t, \\n, \\r, \\\\, \\0 or \\xHH, found \"" +
                                       std::string(text.substr(start, 4)) + "\"");
      }
    }
    bytes->push_back(c);
  }
  return Status::OK();
}

}  // namespace

Status ParseTsvLine(std::string_view line, TsvRecord* record) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos)
    return Status::InvalidArgument("expected a key, a tab and a value, found no tab");
  if (line.find('\t', tab + 1) != std::string_view::npos) {
    return Status::InvalidArgument("expected a key, a tab and a value, found a second tab");
  }
  Status s = Decode(line.substr(0, tab), &record->key);
  if (s.ok()) s = Decode(line.substr(tab + 1), &record->value);
  if (s.ok() && (record->key.empty() || record->key.size() > kKeyBytesMax)) {
    return Status::InvalidArgument("expected a key of 1 to 65535 bytes, found " +
                                   std::to_string(record->key.size()));
  }
  return s;
}

Status ReadTsvFile(const std::string& path, std::vector<TsvRecord>* records) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::IOError(path + ": cannot be opened: " + std::strerror(errno));
  std::string line;
  for (uint64_t number = 1; std::getline(file, line); number++) {
    if (line.empty()) continue;
    TsvRecord record;
    const Status s = ParseTsvLine(line, &record);
    if (!s.ok()) {
      return Status::InvalidArgument(path + ", line " + std::to_string(number) + ": " +
                                     std::string(s.message()));
    }
    records->push_back(std::move(record));
  }
  if (file.bad()) return Status::IOError(path + ": cannot be read: " + std::strerror(errno));
  if (records->empty()) return Status::InvalidArgument(path + ": expected records, found none");
  return Status::OK();
}

}  // namespace lamella::bench
