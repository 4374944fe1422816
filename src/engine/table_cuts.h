// TableCuts tells a compaction where its tables had best end: where tables of the next level do.
// The one that goes down later then overlaps those alone whose keys are its own, and none by a part
// of its keys that has to be merged, and written, all the same.
// Threads: one.
#ifndef LAMELLA_ENGINE_TABLE_CUTS_H_
#define LAMELLA_ENGINE_TABLE_CUTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/table_levels.h"

namespace lamella {

class TableCuts {
 public:
  /// The greatest key of each of the tables of level `next` that may hold keys of the range.
  template <class Table>
  static std::vector<std::string> EndsIn(const TableLevels<Table>& levels, size_t next,
                                         const KeyRange& keys) {
    std::vector<std::string> ends;
    for (const auto& table : levels.Overlapping(next, keys)) ends.push_back(table->info().largest);
    return ends;
  }

  /// `ends` ascend.
  explicit TableCuts(std::vector<std::string> ends) : ends_(std::move(ends)) {}

  /// Whether a table that has so many bytes is to end before the key, where it may have
  /// `bytes_max`: it is half full, and one of the ends lies between this key and the last one that
  /// was asked for. Keys ascend.
  bool EndsBefore(std::string_view key, uint64_t bytes, uint64_t bytes_max) {
    const size_t before = at_;
    while (at_ < ends_.size() && ends_[at_] < key) at_++;
    return at_ != before && bytes >= bytes_max / 2;
  }

 private:
  const std::vector<std::string> ends_;
  size_t at_ = 0;  // the first that no key has passed
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TABLE_CUTS_H_
