// What the tests of the whole tree share: reading sources, running commands, and a scratch folder
// for negative controls. The paths LAMELLA_SOURCE_DIR and the like are given by
// tests/CMakeLists.txt.
// Threads: none of this is shared.
#ifndef LAMELLA_TESTS_TREE_H_
#define LAMELLA_TESTS_TREE_H_

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace lamella {

/// The lines of a file, without their ends. Fails the running test if it cannot be read.
std::vector<std::string> ReadLines(const std::filesystem::path& file);

/// The folders that hold C++ sources.
inline constexpr const char* kSourceTops[] = {"bench", "examples", "fuzz", "include",
                                              "src",   "tests",    "tools"};

/// Every *.h, *.cc and *.java under `root`, sorted, as paths relative to it.
std::vector<std::filesystem::path> SourcesUnder(const std::filesystem::path& root);

struct CommandOutcome {
  int exit_status = -1;
  std::vector<std::string> output_lines;  // stdout
};

/// Runs `command` in a shell.
CommandOutcome RunCommand(const std::string& command);

/// A folder of its own, removed with all it holds.
class ScratchTree {
 public:
  ScratchTree();
  ~ScratchTree();
  ScratchTree(const ScratchTree&) = delete;
  ScratchTree& operator=(const ScratchTree&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Makes `file` and the folders on the way to it.
  void Write(const std::filesystem::path& file, const std::string& content) const;

 private:
  std::filesystem::path path_;  // constant after construction
};

/// One line per item, for a test's message.
std::string Joined(const std::vector<std::string>& lines);

}  // namespace lamella

#endif  // LAMELLA_TESTS_TREE_H_
