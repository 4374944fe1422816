// Holds every source to 100 columns, comments too: clang-format holds C++ to them, and leaves
// comments alone; nothing else does Java. Of scripts and build files their comments: a command or a
// message of theirs may be longer.
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tree.h"

namespace lamella {
namespace {

namespace fs = std::filesystem;

constexpr size_t kColumns = 100;
/// UTF-8: bytes that continue a character take no column.
size_t ColumnsOf(const std::string& line) {
  size_t columns = 0;
  for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return columns;
}

/// Of the folders of sources, of scripts/ and cmake/, and those at the root.
std::vector<fs::path> ScriptsOf(const fs::path& root) {
  std::vector<fs::path> scripts;
  const auto take = [&](const fs::path& file) {
    if (file.extension() == ".sh" || file.extension() == ".cmake" ||
        file.filename() == "CMakeLists.txt" || file.filename() == "Makefile")
      scripts.push_back(fs::relative(file, root));
  };
  std::vector<fs::path> tops = {"scripts", "cmake"};
  tops.insert(tops.end(), std::begin(kSourceTops), std::end(kSourceTops));
  for (const fs::path& top : tops) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) take(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(root)) take(entry.path());
  return scripts;
}

std::vector<std::string> LongLines(const fs::path& root) {
  std::vector<std::string> problems;
  const auto look = [&](const fs::path& file, bool only_comments) {
    const std::vector<std::string> lines = ReadLines(root / file);
    for (size_t i = 0; i < lines.size(); i++) {
      const bool comment = lines[i].find_first_not_of(' ') == lines[i].find('#');
      if (ColumnsOf(lines[i]) <= kColumns || (only_comments && !comment)) continue;
      problems.push_back(file.string() + ":" + std::to_string(i + 1) + ": " +
                         std::to_string(ColumnsOf(lines[i])) + " columns");
    }
  };
  const auto look_under = [&](const fs::path& top) {
    for (const fs::path& file : SourcesUnder(root / top)) look(top / file, false);
  };
  for (const char* top : kSourceTops) look_under(top);
  look_under("hadoop");
  for (const fs::path& file : ScriptsOf(root)) look(file, true);
  return problems;
}

TEST(Columns, NoLineIsLonger) {
  const std::vector<std::string> problems = LongLines(LAMELLA_SOURCE_DIR);
  EXPECT_TRUE(problems.empty()) << Joined(problems);
}

// Negative control.
TEST(Columns, ALongerLineIsFound) {
  const ScratchTree tree;
  tree.Write("src/pool/fits.cc", std::string(kColumns, '/') + "\n");
  EXPECT_EQ(LongLines(tree.path()), std::vector<std::string>{});
  tree.Write("src/pool/long.cc", std::string(kColumns + 1, '/') + "\n");
  tree.Write("hadoop/Long.java", std::string(kColumns + 1, '/') + "\n");
  tree.Write("scripts/long.sh", "  # " + std::string(kColumns, 'x') + "\n");
  tree.Write("CMakeLists.txt", std::string(kColumns + 1, 'x') + "\n");  // no comment
  EXPECT_EQ(LongLines(tree.path()).size(), 3u);
}

}  // namespace
}  // namespace lamella
