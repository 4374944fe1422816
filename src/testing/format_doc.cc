#include "testing/format_doc.h"

#include <filesystem>
#include <fstream>
#include <ostream>
#include <regex>

namespace lamella::testing {

std::ostream& operator<<(std::ostream& out, const FormatField& field) {
  return out << field.name << " at " << field.offset << " of " << field.size << " bytes";
}

std::map<std::string, FormatTable> ParseFormatTables(std::istream& document) {
  static const std::regex heading(R"(### (\w+) \((\d+) bytes\))");
  static const std::regex row(R"(\| *(\d+) *\| *(\d+) *\| *(\w+) *\|.*)");
  std::map<std::string, FormatTable> tables;
  FormatTable* table = nullptr;
  std::string line;
  while (std::getline(document, line)) {
    std::smatch match;
    if (std::regex_match(line, match, heading)) {
      table = &tables[match[1]];
      table->bytes = std::stoul(match[2]);
    } else if (line.starts_with("#")) {
      table = nullptr;
    } else if (table != nullptr && std::regex_match(line, match, row)) {
      table->fields.push_back({std::stoul(match[1]), std::stoul(match[2]), match[3]});
    }
  }
  return tables;
}

std::map<std::string, FormatTable> ReadFormatDocument() {
  const std::filesystem::path source = __FILE__;  // <root>/src/testing/format_doc.cc
  std::ifstream document(source.parent_path().parent_path().parent_path() / "docs" / "FORMAT.md");
  return ParseFormatTables(document);
}

std::string FormatTableProblem(const FormatTable& table) {
  size_t end = 0;
  for (const FormatField& field : table.fields) {
    if (field.offset != end) return field.name + " does not start where the field before it ends";
    end += field.size;
  }
  return end == table.bytes ? "" : "the fields do not end where the type does";
}

}  // namespace lamella::testing
