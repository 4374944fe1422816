// Files of tables that a store has beside its pool, for tests that put stores back or copy them.
// Threads: one at a time.
#ifndef LAMELLA_TESTING_TABLE_FILES_H_
#define LAMELLA_TESTING_TABLE_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "file/table_file_name.h"

namespace lamella::testing {

inline std::vector<std::string> TableFilesOf(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (TableFileNumber(entry.path().filename().string())) paths.push_back(entry.path());
  }
  return paths;
}

/// Puts those of `from` in place of those of `to`. They are the same files, which is no matter: a
/// table is written once.
inline void LinkTables(const std::string& from, const std::string& to) {
  for (const std::string& path : TableFilesOf(to)) std::filesystem::remove(path);
  for (const std::string& path : TableFilesOf(from))
    std::filesystem::create_hard_link(path, to / std::filesystem::path(path).filename());
}

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_TABLE_FILES_H_
