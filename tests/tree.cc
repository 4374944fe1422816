#include "tests/tree.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

namespace lamella {

namespace fs = std::filesystem;

std::vector<std::string> ReadLines(const fs::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in.good()) << "cannot read " << file;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<fs::path> SourcesUnder(const fs::path& root) {
  std::vector<fs::path> found;
  if (!fs::exists(root)) return found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    const fs::path extension = entry.path().extension();
    if (entry.is_regular_file() &&
        (extension == ".h" || extension == ".cc" || extension == ".java")) {
      found.push_back(fs::relative(entry.path(), root));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

CommandOutcome RunCommand(const std::string& command) {
  CommandOutcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char* line = nullptr;
  size_t capacity = 0;
  for (ssize_t size; (size = getline(&line, &capacity, pipe)) > 0;) {
    if (line[size - 1] == '\n') size--;
    outcome.output_lines.emplace_back(line, static_cast<size_t>(size));
  }
  free(line);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_status = WEXITSTATUS(status);
  return outcome;
}

ScratchTree::ScratchTree() {
  std::string name = (fs::temp_directory_path() / "lamella_tree_XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr) << name;
  path_ = name;
}

ScratchTree::~ScratchTree() {
  std::error_code ignored;  // a scratch folder left behind fails no test
  fs::remove_all(path_, ignored);
}

void ScratchTree::Write(const fs::path& file, const std::string& content) const {
  fs::create_directories((path_ / file).parent_path());
  std::ofstream(path_ / file) << content;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

}  // namespace lamella
