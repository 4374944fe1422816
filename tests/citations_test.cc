// Holds what comments and documents cite to what is there: a test by its name, a document by its
// file.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tree.h"

namespace lamella {
namespace {

namespace fs = std::filesystem;

/// "Suite.Name" of every test under `root`.
std::set<std::string> TestsOf(const fs::path& root) {
  static const std::regex kTest(R"(\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\))");
  std::set<std::string> tests;
  for (const char* top : kSourceTops) {
    if (!fs::exists(root / top)) continue;
    for (const fs::path& file : SourcesUnder(root / top)) {
      const std::string text = Joined(ReadLines(root / top / file));
      for (std::sregex_iterator it(text.begin(), text.end(), kTest), end; it != end; ++it) {
        tests.insert((*it)[1].str() + "." + (*it)[2].str());
      }
    }
  }
  return tests;
}

/// Each citation in `text` of a test that is not in `tests`, or of a document that is not under
/// `root`.
std::vector<std::string> Dangling(const std::string& text, const fs::path& root,
                                  const std::set<std::string>& tests) {
  // A name of several words: what has one word may be anything.
  static const std::regex kTest(R"(\b[A-Z]\w+\.[A-Z]\w*[a-z][A-Z]\w*\b)");
  static const std::regex kDocument(R"((?:\.\./)?[\w/]*\b[A-Za-z_]+\.md\b)");
  std::vector<std::string> dangling;
  const auto each = [&](const std::regex& citation, const auto& exists) {
    for (std::sregex_iterator it(text.begin(), text.end(), citation), end; it != end; ++it) {
      if (!exists(it->str())) dangling.push_back(it->str());
    }
  };
  each(kTest, [&](const std::string& cited) { return tests.contains(cited); });
  each(kDocument, [&](const std::string& cited) {
    return fs::exists(root / cited) || fs::exists(root / "docs" / cited);
  });
  return dangling;
}

/// Of every comment of the sources and every line of the documents, one line each.
std::vector<std::string> CitationProblems(const fs::path& root) {
  const std::set<std::string> tests = TestsOf(root);
  std::vector<std::string> problems;
  const auto look = [&](const fs::path& file, bool only_comments) {
    const std::vector<std::string> lines = ReadLines(root / file);
    for (size_t i = 0; i < lines.size(); i++) {
      const size_t from = only_comments ? lines[i].find("//") : 0;
      if (from == std::string::npos) continue;
      for (const std::string& cited : Dangling(lines[i].substr(from), root, tests)) {
        problems.push_back(file.string() + ":" + std::to_string(i + 1) + ": " + cited +
                           " is not there");
      }
    }
  };
  for (const char* top : kSourceTops) {
    if (!fs::exists(root / top)) continue;
    for (const fs::path& file : SourcesUnder(root / top)) look(top / file, true);
  }
  for (const char* page : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) {
    if (fs::exists(root / page)) look(page, false);
  }
  if (fs::exists(root / "docs")) {
    for (const fs::directory_entry& entry : fs::directory_iterator(root / "docs")) {
      if (entry.path().extension() == ".md") look(fs::relative(entry.path(), root), false);
    }
  }
  return problems;
}

TEST(Citations, WhatIsCitedIsThere) {
  ASSERT_FALSE(TestsOf(LAMELLA_SOURCE_DIR).empty());
  const std::vector<std::string> problems = CitationProblems(LAMELLA_SOURCE_DIR);
  EXPECT_TRUE(problems.empty()) << Joined(problems);
}

// Negative control. Its comments are put together here, or they would be this file's.
TEST(Citations, WhatIsNotThereIsFound) {
  const ScratchTree tree;
  const std::string comment(2, '/');
  tree.Write("src/pool/a_test.cc", "TEST_F(Pools,\n       GrowAndShrink) {}\n");
  tree.Write("docs/FORMAT.md", "");
  tree.Write(
      "src/pool/sound.cc",
      comment + " docs/FORMAT.md; FORMAT.md; Pools.GrowAndShrink\nauto code = A.GetBoth();\n");
  EXPECT_EQ(CitationProblems(tree.path()), std::vector<std::string>{});
  tree.Write("src/pool/broken.cc",
             comment + " Pools.GrowAndStay\nint a;  " + comment + " docs/LOST.md\n");
  tree.Write("docs/BROKEN.md", "`Pools.NeverWas`\n");
  EXPECT_EQ(CitationProblems(tree.path()).size(), 3u) << Joined(CitationProblems(tree.path()));
}

}  // namespace
}  // namespace lamella
