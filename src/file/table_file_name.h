// The names of files that hold tables, in a store's directory: so that whoever removes a store
// knows them, whatever engine wrote them. Threads: any.
#ifndef LAMELLA_FILE_TABLE_FILE_NAME_H_
#define LAMELLA_FILE_TABLE_FILE_NAME_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lamella {

inline constexpr std::string_view kTableFileSuffix = ".table";

/// "12.table".
inline std::string TableFileName(uint64_t number) {
  return std::to_string(number).append(kTableFileSuffix);
}
/// The number; nothing where it is another file's name.
inline std::optional<uint64_t> TableFileNumber(std::string_view name) {
  if (!name.ends_with(kTableFileSuffix)) return std::nullopt;
  name.remove_suffix(kTableFileSuffix.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

}  // namespace lamella

#endif  // LAMELLA_FILE_TABLE_FILE_NAME_H_
