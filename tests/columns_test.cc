// Holds every source to 100 columns, comments too: clang-format holds C++ to them, and leaves
// comments alone; nothing else does Java.
#include <filesystem>
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

std::vector<std::string> LongLines(const fs::path& root) {
  std::vector<std::string> problems;
  const auto look_under = [&](const fs::path& top) {
    for (const fs::path& file : SourcesUnder(root / top)) {
      const std::vector<std::string> lines = ReadLines(root / top / file);
      for (size_t i = 0; i < lines.size(); i++) {
        if (ColumnsOf(lines[i]) <= kColumns) continue;
        problems.push_back((top / file).string() + ":" + std::to_string(i + 1) + ": " +
                           std::to_string(ColumnsOf(lines[i])) + " columns");
      }
    }
  };
  for (const char* top : kSourceTops) look_under(top);
  look_under("hadoop");
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
  EXPECT_EQ(LongLines(tree.path()).size(), 2u);
}

}  // namespace
}  // namespace lamella
