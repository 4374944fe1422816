// Pictures of levels, for the tests of who looks at them: of each level its tables, of each table
// its number, keys and bytes, as in "9:a-f/10 8:c-k/10 | 3:a-c/40 5:d-z/60".
#ifndef LAMELLA_ENGINE_TABLE_LEVELS_TEST_BASE_H_
#define LAMELLA_ENGINE_TABLE_LEVELS_TEST_BASE_H_

#include <memory>
#include <ranges>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "engine/table_levels.h"

namespace lamella {

inline TableInfo TableOf(const std::string& word) {
  const size_t colon = word.find(':');
  const size_t dash = word.find('-', colon);
  const size_t slash = word.find('/', dash);
  return {.number = std::stoull(word.substr(0, colon)),
          .smallest = word.substr(colon + 1, dash - colon - 1),
          .largest = word.substr(dash + 1, slash - dash - 1),
          .bytes = std::stoull(word.substr(slash + 1)),
          .records = 1,
          .last_sequence = 7,
          .place = "here"};
}

inline TableLevelsState LevelsOf(const std::string& picture) {
  TableEdit<TableInfo> edit;
  std::istringstream words(picture);
  std::vector<std::vector<TableInfo>> levels(1);
  for (std::string word; words >> word;) {
    if (word == "|") {
      levels.emplace_back();
    } else {
      levels.back().push_back(TableOf(word));
    }
  }
  for (uint32_t i = 0; i < levels.size(); i++) {
    for (const TableInfo& table : std::views::reverse(levels[i]))
      edit.added.push_back({i, std::make_shared<TableInfo>(table)});
  }
  TableLevelsState made;
  EXPECT_TRUE(made.Apply(edit)) << picture;
  return made;
}

inline std::string PictureOf(const TableLevelsState& levels) {
  std::string picture;
  for (size_t i = 0; i < levels.level_count(); i++) {
    if (i > 0) picture += " | ";
    for (size_t k = 0; k < levels.level(i).size(); k++) {
      const TableInfo& t = *levels.level(i)[k];
      picture += Concat(k > 0 ? " " : "", t.number, ":", t.smallest, "-", t.largest, "/", t.bytes);
    }
  }
  return picture;
}

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TABLE_LEVELS_TEST_BASE_H_
