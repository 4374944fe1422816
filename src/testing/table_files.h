// What tests ask of tables and values that lie in files: which there are, that nobody is held up by
// their reading, and what becomes of a store where there is no room for them. Header only.
#ifndef LAMELLA_TESTING_TABLE_FILES_H_
#define LAMELLA_TESTING_TABLE_FILES_H_

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/os_hook.h"
#include "file/table_file_name.h"
#include "pool/pool.h"

namespace lamella::testing {

/// The paths of files in a directory whose names are such, sorted.
template <class IsOne>
std::vector<std::string> FilesOf(const std::string& directory, const IsOne& is_one) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (is_one(entry.path().filename().string())) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}
inline std::vector<std::string> TableFilesOf(const std::string& directory) {
  return FilesOf(directory,
                 [](const std::string& name) { return TableFileNumber(name).has_value(); });
}
inline std::vector<std::string> ValueFilesOf(const std::string& directory) {
  return FilesOf(directory,
                 [](const std::string& name) { return ParseValueFileName(name).has_value(); });
}
/// Those of all the data of a store that is not in its pool.
inline std::vector<std::string> DataFilesOf(const std::string& directory) {
  return FilesOf(directory, IsDataFileName);
}

/// A file system with no room, while it is `full`, for files whose names end so.
class FullFiles final : public OsHook {
 public:
  explicit FullFiles(std::vector<std::string_view> suffixes) : suffixes_(std::move(suffixes)) {}
  int Before(OsCall call, const std::string& path) override {
    const bool is_one = std::ranges::any_of(
        suffixes_, [&](std::string_view suffix) { return path.ends_with(suffix); });
    return call == OsCall::kWrite && is_one && full.load() ? ENOSPC : 0;
  }
  size_t Allowed(OsCall, size_t n) override { return n; }
  std::atomic<bool> full{false};

 private:
  const std::vector<std::string_view> suffixes_;
};

/// Does something once, before the next table is begun.
class TableBegins final : public OsHook {
 public:
  int Before(OsCall call, const std::string& path) override {
    if (call == OsCall::kCreate && path.ends_with(kTableFileSuffix) && next)
      std::exchange(next, nullptr)();
    return 0;
  }
  size_t Allowed(OsCall, size_t n) override { return n; }

  std::function<void()> next;
};

/// A file system with no room for tables of which so many bytes are written at a time.
class SmallTables final : public OsHook {
 public:
  explicit SmallTables(size_t bytes) : bytes_(bytes) {}
  int Before(OsCall call, const std::string& path) override {
    const bool refuses =
        call == OsCall::kWrite && path.ends_with(kTableFileSuffix) && written_ >= bytes_;
    refused += refuses ? 1 : 0;
    return refuses ? ENOSPC : 0;
  }
  size_t Allowed(OsCall call, size_t n) override {
    if (call == OsCall::kWrite) written_ = n;
    return n;
  }

  uint64_t refused = 0;

 private:
  const size_t bytes_;
  size_t written_ = 0;
};

/// Looks at each read of a table's file whether somebody is pinned as a reader, and counts what is
/// written to them.
class TableCalls final : public OsHook {
 public:
  int Before(OsCall call, const std::string& path) override {
    in_table_ = path.ends_with(kTableFileSuffix);
    if (call == OsCall::kRead && pool != nullptr && in_table_) {
      reads++;
      pinned += pool->readers()->pinned();
    }
    return 0;
  }
  size_t Allowed(OsCall call, size_t n) override {
    if (call == OsCall::kWrite && in_table_) written += n;
    return n;
  }

  Pool* pool = nullptr;
  uint64_t reads = 0;
  uint64_t pinned = 0;
  uint64_t written = 0;

 private:
  bool in_table_ = false;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_TABLE_FILES_H_
