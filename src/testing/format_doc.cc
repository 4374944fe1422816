#include "testing/format_doc.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <regex>
#include <sstream>

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
  std::ifstream document(std::filesystem::path(LAMELLA_SOURCE_DIR) / "docs" / "FORMAT.md");
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

std::string FormatDifference(const std::string& type, size_t bytes,
                             const std::vector<FormatField>& fields) {
  const auto tables = ReadFormatDocument();
  const auto found = tables.find(type);
  if (found == tables.end()) return type + " has no table in docs/FORMAT.md";
  const FormatTable& table = found->second;
  std::ostringstream difference;
  if (table.bytes != bytes)
    difference << "has " << bytes << " bytes, documented as " << table.bytes << "; ";
  for (size_t i = 0; i < std::max(fields.size(), table.fields.size()); i++) {
    if (i < fields.size() && i < table.fields.size() && fields[i] == table.fields[i]) continue;
    if (i < fields.size()) difference << "the code has " << fields[i] << "; ";
    if (i < table.fields.size()) difference << "the document has " << table.fields[i] << "; ";
  }
  difference << FormatTableProblem(table);
  return difference.str().empty() ? "" : type + ": " + difference.str();
}

}  // namespace lamella::testing
