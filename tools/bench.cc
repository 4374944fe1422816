// lamella bench: runs the benchmark. It is a program of its own, lamella_bench, because it links
// the other stores (RocksDB, LevelDB, LMDB), which `lamella get` should not have to load, nor a
// machine to have.
#include "tools/bench.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include <fmt/format.h>

#include "tools/command.h"
#include "tools/command_line.h"

namespace lamella::tools {
namespace {

/// The directory of this program; empty when the system does not say.
std::string ProgramDirectory() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  const std::string program(path, n > 0 ? static_cast<size_t>(n) : 0);
  return program.substr(
      0, program.find_last_of('/') == std::string::npos ? 0 : program.find_last_of('/'));
}

}  // namespace

int RunBench(char** argv) {
  Program program;
  program.command = "bench";
  const std::string directory = ProgramDirectory();
  const std::string candidates[] = {directory + "/lamella_bench",
                                    directory + "/../bench/lamella_bench"};
  for (const std::string& candidate : candidates) {
    if (access(candidate.c_str(), X_OK) != 0) continue;
    execv(candidate.c_str(), argv);
    return Fail(program,
                Status::IOError(fmt::format("cannot run {}: {}", candidate, std::strerror(errno))));
  }
  return Fail(
      program,
      Status::NotSupported(fmt::format(
          "expected the benchmark at {} or {}, found none: build with -DLAMELLA_BUILD_BENCH=ON",
          candidates[0], candidates[1])));
}

void AddBench(CLI::App* app, Program* program) {
  CommandLine command(app, "bench",
                      "Runs the benchmark; what follows is its own: lamella bench --help");
  command.AllowAnything();
  command.Runs(program, [program] {
    return Fail(*program, Status::InvalidArgument(
                              "expected bench as the first word, for all that follows it is the "
                              "benchmark's; found options before it"));
  });
}

}  // namespace lamella::tools
