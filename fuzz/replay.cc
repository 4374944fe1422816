// Runs a fuzzer's function over files, without libFuzzer:
//   NAME_replay DIRECTORY              every file in it; a crash is a failure
//   NAME_replay --control DIRECTORY    the same with the planted fault: fails unless noticed
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FilesIn(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void Run(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  // A copy of exactly its size, so that a sanitizer sees what reads beyond it.
  const std::vector<uint8_t> input(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

// True if the input notices the planted fault: it aborts, which is neither an end nor another
// signal.
bool Notices(const fs::path& file) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);
    lamella::fuzz::planted = true;
    Run(file);
    ::_exit(0);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGABRT;
}

}  // namespace

int main(int argc, char** argv) {
  const bool control = argc == 3 && std::string_view(argv[1]) == "--control";
  if (argc != 2 && !control) {
    std::fprintf(stderr, "usage: %s [--control] DIRECTORY\n", argv[0]);
    return 2;
  }
  std::FILE* out = ::fdopen(::dup(STDOUT_FILENO), "w");  // a fuzzer may silence stdout
  const std::vector<fs::path> files = FilesIn(argv[argc - 1]);
  size_t noticed = 0;
  for (const fs::path& file : files) {
    if (!control) Run(file);
    if (control && Notices(file)) noticed++;
  }
  std::fprintf(out, control ? "%zu inputs, the planted fault is noticed by %zu\n" : "%zu inputs\n",
               files.size(), noticed);
  std::fclose(out);
  return files.empty() || (control && noticed == 0) ? 1 : 0;
}
