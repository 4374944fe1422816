// The tables of docs/FORMAT.md, for the tests that compare them with the code.
#ifndef LAMELLA_TESTING_FORMAT_DOC_H_
#define LAMELLA_TESTING_FORMAT_DOC_H_

#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace lamella::testing {

struct FormatField {
  size_t offset = 0;
  size_t size = 0;
  std::string name;

  bool operator==(const FormatField&) const = default;
};
std::ostream& operator<<(std::ostream& out, const FormatField& field);

struct FormatTable {
  size_t bytes = 0;  // as the heading says
  std::vector<FormatField> fields;
};

/// The tables of a document by type: "### Type (N bytes)", then rows
/// "| offset | size | field | meaning |".
std::map<std::string, FormatTable> ParseFormatTables(std::istream& document);
/// Those of docs/FORMAT.md.
std::map<std::string, FormatTable> ReadFormatDocument();

/// What is wrong with a table by itself: fields that overlap, leave a gap, or do not end where the
/// type does. Empty: nothing.
std::string FormatTableProblem(const FormatTable& table);
/// How docs/FORMAT.md differs from the code on a type, its table's own problems included. Empty: it
/// does not.
std::string FormatDifference(const std::string& type, size_t bytes,
                             const std::vector<FormatField>& fields);

}  // namespace lamella::testing

/// A field as the code has it.
#define LAMELLA_FORMAT_FIELD(type, field) \
  ::lamella::testing::FormatField { offsetof(type, field), sizeof(type::field), #field }

#endif  // LAMELLA_TESTING_FORMAT_DOC_H_
