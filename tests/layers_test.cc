// Holds the includes of src/ and include/ to the order of the layers:
//   I1: include/lamella includes nothing of src/.
//   I2: a folder includes only itself and what stands above it in kLayers.
//   I3: an engine's folder includes no other engine's folder, and the shared parts of engines
//       include none.
//   I4: nothing but tests and src/testing itself includes src/testing.
// Files that no library holds (tests, benchmarks, fuzzers, src/testing) may include every layer.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tree.h"

namespace lamella {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 13> kLayers = {
    "base",  "pmem", "pool",   "file",     "iterator", "log", "memtable",
    "index", "sst",  "engine", "registry", "db",       "capi"};
constexpr size_t kLinesMax = 700;

/// The place of `folder` in kLayers, or kLayers.size() where it has none.
size_t LayerIndex(std::string_view folder) {
  return static_cast<size_t>(std::find(kLayers.begin(), kLayers.end(), folder) - kLayers.begin());
}

bool InNoLibrary(const fs::path& file) {
  static const std::regex kBesideTheLibrary("_(test|bench|fuzz)(_base)?\\.(cc|h)$");
  return *file.begin() == "testing" || std::regex_search(file.string(), kBesideTheLibrary);
}

/// "engine/listdb/x.h" is of design "listdb"; "engine/x.h", or a file of another folder, of "".
std::string DesignOf(const fs::path& file) {
  auto part = file.begin();
  if (*part != "engine") return "";
  part++;
  return std::next(part) == file.end() ? "" : part->string();
}

/// What is wrong with `file` (relative to src/) including `target` in quotes; empty if nothing is.
std::string IncludeProblem(const fs::path& file, const fs::path& target) {
  const std::string to = target.begin()->string();
  if (to == "lamella" || InNoLibrary(file)) return "";
  if (std::next(target.begin()) == target.end())
    return "names no folder; includes are relative to src/";
  if (to == "testing") return "is test support, which the library never includes";
  const std::string from = file.begin()->string();
  if (LayerIndex(from) == kLayers.size())
    return "comes from the folder " + from + ", which is no layer";
  if (LayerIndex(to) == kLayers.size()) return "is in the folder " + to + ", which is no layer";
  if (LayerIndex(to) > LayerIndex(from))
    return "is in " + to + ", a layer that stands below " + from;
  const std::string design = DesignOf(target);
  if (from == "engine" && !design.empty() && design != DesignOf(file))
    return "is of another engine, " + design;
  return "";
}

/// Every break of I1 to I4 in a tree with src/ and include/lamella/, one line each.
std::vector<std::string> LayerProblems(const fs::path& root) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*["<]([^">]+)[">])");
  std::vector<std::string> problems;
  const auto each_include = [](const fs::path& file, const auto& visit) {
    const std::vector<std::string> lines = ReadLines(file);
    for (size_t i = 0; i < lines.size(); i++) {
      std::smatch match;
      if (!std::regex_search(lines[i], match, kInclude)) continue;
      visit(match[1].str(), lines[i].find('"') != std::string::npos, std::to_string(i + 1));
    }
  };
  for (const fs::path& file : SourcesUnder(root / "src")) {
    each_include(
        root / "src" / file, [&](const std::string& target, bool quoted, const std::string& line) {
          if (!quoted) return;
          const std::string problem = IncludeProblem(file, target);
          if (!problem.empty())
            problems.push_back("src/" + file.string() + ":" + line + ": " + target + " " + problem);
        });
  }
  for (const fs::path& file : SourcesUnder(root / "include")) {
    each_include(root / "include" / file,
                 [&](const std::string& target, bool quoted, const std::string& line) {
                   const bool ours = target.starts_with("lamella/");
                   const bool standard = !quoted && target.find('/') == std::string::npos;
                   if (ours || standard) return;
                   problems.push_back("include/" + file.string() + ":" + line + ": " + target +
                                      " is neither a public header nor the standard library's");
                 });
  }
  return problems;
}

std::vector<std::string> LongFiles(const fs::path& root) {
  std::vector<std::string> found;
  for (const fs::path& file : SourcesUnder(root / "src")) {
    const size_t lines = ReadLines(root / "src" / file).size();
    if (lines > kLinesMax)
      found.push_back("src/" + file.string() + ": " + std::to_string(lines) + " lines");
  }
  return found;
}

/// Headers whose guard is not LAMELLA_<PATH>_H_, or which do not open with a comment on what they
/// are.
std::vector<std::string> HeaderProblems(const fs::path& root) {
  std::vector<std::string> problems;
  for (const char* top : {"src", "include"}) {
    for (const fs::path& file : SourcesUnder(root / top)) {
      if (file.extension() != ".h") continue;
      std::string guard = file.string().starts_with("lamella/") ? "" : "lamella_";
      guard += file.string() + "_";
      std::transform(guard.begin(), guard.end(), guard.begin(), [](char c) {
        if (c >= 'a' && c <= 'z') return static_cast<char>(c - 'a' + 'A');
        return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
      });
      const std::vector<std::string> lines = ReadLines(root / top / file);
      const std::string where = std::string(top) + "/" + file.string();
      if (lines.empty() || !lines[0].starts_with("//"))
        problems.push_back(where + ": no module head");
      if (std::find(lines.begin(), lines.end(), "#ifndef " + guard) == lines.end()) {
        problems.push_back(where + ": the include guard is not " + guard);
      }
    }
  }
  return problems;
}

TEST(Layers, IncludesFollowTheOrder) {
  ASSERT_FALSE(SourcesUnder(fs::path(LAMELLA_SOURCE_DIR) / "src").empty());
  const std::vector<std::string> problems = LayerProblems(LAMELLA_SOURCE_DIR);
  EXPECT_TRUE(problems.empty()) << Joined(problems);
}

TEST(Layers, EveryFolderIsALayer) {
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(LAMELLA_SOURCE_DIR) / "src")) {
    if (!entry.is_directory()) continue;
    const std::string folder = entry.path().filename().string();
    EXPECT_TRUE(folder == "testing" || LayerIndex(folder) < kLayers.size())
        << "src/" << folder
        << " is no layer: add it to kLayers, src/CMakeLists.txt and docs/ARCHITECTURE.md";
  }
}

TEST(Layers, FilesAreShortEnoughToRead) {
  const std::vector<std::string> found = LongFiles(LAMELLA_SOURCE_DIR);
  EXPECT_TRUE(found.empty()) << "over " << kLinesMax << " lines:\n" << Joined(found);
}

TEST(Layers, HeadersSayWhatTheyAre) {
  const std::vector<std::string> problems = HeaderProblems(LAMELLA_SOURCE_DIR);
  EXPECT_TRUE(problems.empty()) << Joined(problems);
}

// Negative control: each rule is broken once in a made tree, and each break must be found, no more.
TEST(Layers, EveryKindOfBreakIsFound) {
  const ScratchTree tree;
  const std::map<std::string, std::string> broken = {
      {"include/lamella/a.h", "#include \"base/status.h\"\n"},       // I1
      {"include/lamella/b.h", "#include <numa/a.h>\n"},              // I1: no dependency shows
      {"src/base/a.h", "#include \"pmem/gate.h\"\n"},                // I2
      {"src/file/a.cc", "#  include \"log/record.h\"\n"},            // I2, spelled otherwise
      {"src/engine/listdb/a.cc", "#include \"engine/tlsm/b.h\"\n"},  // I3
      {"src/engine/a.cc", "#include \"engine/listdb/a.h\"\n"},       // I3
      {"src/db/a.cc", "#include \"testing/model.h\"\n"},             // I4
      {"src/pool/a.cc", "#include \"pool.h\"\n"},                    // not relative to src/
      {"src/elsewhere/a.cc", "#include \"base/a.h\"\n"},             // no layer
  };
  const std::map<std::string, std::string> sound = {
      {"include/lamella/c.h", "#include <vector>\n#include \"lamella/a.h\"\n"},
      {"src/db/b.cc",
       "#include \"engine/listdb/a.h\"\n#include \"base/a.h\"\n#include <sys/mman.h>\n"},
      {"src/engine/listdb/b.cc", "#include \"engine/listdb/a.h\"\n#include \"engine/engine.h\"\n"},
      {"src/base/a_test.cc", "#include \"testing/model.h\"\n#include \"db/a.h\"\n"},
      {"src/testing/model.h", "#include \"db/a.h\"\n"},
  };
  for (const auto& [file, content] : broken) tree.Write(file, content);
  for (const auto& [file, content] : sound) tree.Write(file, content);

  const std::vector<std::string> problems = LayerProblems(tree.path());
  EXPECT_EQ(problems.size(), broken.size()) << Joined(problems);
  for (const auto& [file, content] : broken) {
    const bool found = std::any_of(
        problems.begin(), problems.end(),
        [&name = file](const std::string& problem) { return problem.starts_with(name); });
    EXPECT_TRUE(found) << file << " breaks a rule, unnoticed";
  }
}

TEST(Layers, LongFilesAndBareHeadersAreFound) {
  const ScratchTree tree;
  std::string content;
  for (size_t i = 0; i <= kLinesMax; i++) content += "\n";
  tree.Write("src/base/long.cc", content);
  tree.Write("src/base/bare.h", "#pragma once\n");
  tree.Write("src/base/sound.h", "// Sound.\n#ifndef LAMELLA_BASE_SOUND_H_\n");
  tree.Write("include/lamella/sound.h", "// Sound.\n#ifndef LAMELLA_SOUND_H_\n");
  EXPECT_EQ(LongFiles(tree.path()).size(), 1u);
  EXPECT_EQ(HeaderProblems(tree.path()).size(), 2u) << "no head, and no guard";
}

}  // namespace
}  // namespace lamella
