// The names of files that hold tables or values, in a store's directory: so that whoever removes a
// store knows them, whatever engine wrote them. Threads: any.
#ifndef LAMELLA_FILE_TABLE_FILE_NAME_H_
#define LAMELLA_FILE_TABLE_FILE_NAME_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lamella {

inline constexpr std::string_view kTableFileSuffix = ".table";
/// No table has a greater number: engines number regions of the pool alike, and a chunk's ordinal
/// has so many bits for that (OrdinalOf).
inline constexpr uint64_t kTableNumberMax = (uint64_t{1} << 40) - 1;

/// "12.table".
inline std::string TableFileName(uint64_t number) {
  return std::to_string(number).append(kTableFileSuffix);
}
/// The number; nothing where it is another file's name. One that no table has is: who numbers new
/// tables after it would come to the end of numbers.
inline std::optional<uint64_t> TableFileNumber(std::string_view name) {
  if (!name.ends_with(kTableFileSuffix)) return std::nullopt;
  name.remove_suffix(kTableFileSuffix.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  if (name != std::to_string(number)) return std::nullopt;  // "012.table" is not "12.table"
  if (number > kTableNumberMax) return std::nullopt;
  return number;
}

inline constexpr std::string_view kValueFileSuffix = ".values";

/// What the name of a value file says (log/value_log.h).
struct ValueFileId {
  uint64_t number = 0;
  uint64_t first = 0;  // segment in it
  bool operator==(const ValueFileId&) const = default;
};

/// "12-340.values".
inline std::string ValueFileName(const ValueFileId& id) {
  return std::to_string(id.number)
      .append("-")
      .append(std::to_string(id.first))
      .append(kValueFileSuffix);
}
/// Nothing where it is another file's name.
inline std::optional<ValueFileId> ParseValueFileName(std::string_view name) {
  ValueFileId id;
  const char* const begin = name.data();
  const char* const end = begin + name.size();
  const auto number = std::from_chars(begin, end, id.number);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '-') return std::nullopt;
  const auto first = std::from_chars(number.ptr + 1, end, id.first);
  if (first.ec != std::errc() || name != ValueFileName(id)) return std::nullopt;
  return id;
}

/// True for the names of both: the store's data that is not in its pool.
inline bool IsDataFileName(std::string_view name) {
  return TableFileNumber(name).has_value() || ParseValueFileName(name).has_value();
}

}  // namespace lamella

#endif  // LAMELLA_FILE_TABLE_FILE_NAME_H_
