// What the subcommands of `lamella` share: the options every command takes, exit codes, and how a
// store is opened.
//
// A subcommand is one file with one function AddX, which declares its options on a CLI::App and
// leaves in Program::run what to do once the line has been parsed.
// Rules: data goes to standard output, everything else to standard error; with --json standard
// output is JSON alone. The store is always named by --db (or LAMELLA_DB), never by position, so
// that positions are the command's own.
#ifndef LAMELLA_TOOLS_COMMAND_H_
#define LAMELLA_TOOLS_COMMAND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lamella/db.h"

namespace CLI {
class App;
}

namespace lamella::tools {

/// For scripts; `lamella --help` lists them.
enum ExitCode : int {
  kExitOk = 0,
  kExitNotFound = 1,  // no such key
  // the command line, the input or an option cannot be meant as it is; no such store
  kExitUsage = 2,
  kExitCorruption = 3,  // damaged bytes, or a store that does not hold what it should
  // input or output failed, no space, the store is read-only after a media error
  kExitIo = 4,
  kExitBusy = 5,          // another process has the store open
  kExitNotSupported = 6,  // a format, engine or feature that this build does not have
};

int ExitCodeOf(const Status& status);

/// The options of every command, as given: an empty word is one, and refused (it is what a script's
/// variable that was not set leaves).
struct Globals {
  std::string db;
  std::optional<std::string> engine;
  std::optional<std::string> medium;
  std::optional<std::string> memory_budget;
  std::optional<std::string> pool_max;
  std::vector<std::string> pmem;  // each with commas between its directories
  bool json = false;
  bool sync = false;
};

/// One run of the program.
struct Program {
  Globals globals;
  std::string command;       // the subcommand's name, for messages
  std::function<int()> run;  // set by the subcommand that was chosen
};

/// Prints "lamella COMMAND: message" on standard error and gives the exit code. REQUIRES:
/// !status.ok().
int Fail(const Program& program, const Status& status);
/// As Fail, or kExitOk.
int Finish(const Program& program, const Status& status);
/// Writes to standard error, as far as that takes it: who closed it wants to hear nothing.
void Say(std::string_view text);
/// A line on standard error that ends nothing.
void Warn(const Program& program, std::string_view message);

/// InvalidArgument: an unknown engine or medium (the message lists those known), a size that is
/// none, a directory without a name.
Status MakeOptions(const Globals& globals, Options* options);

/// kRead: where there is no room to close the store in order, what was read stands: the next open
/// recovers it, as after a crash.
enum class OpenMode { kExisting, kCreate, kRead };

/// Opens the store of --db, runs `use` and closes it. The Status is the first that is not OK. A
/// store that is not there is InvalidArgument: NotFound is left to mean a key.
Status WithStore(const Globals& globals, OpenMode mode, const std::function<Status(DB&)>& use);

/// --db as given, or InvalidArgument when nothing names a store.
Status StorePath(const Globals& globals, std::string* path);

/// InvalidArgument: a file to write that is in one of the store's directories.
Status CheckOutsideStore(const Globals& globals, std::string_view what, const std::string& file);

/// What a null iterator or snapshot means.
Status OutOfMemory();

/// Reads all of standard input.
Status ReadStandardInput(std::string* bytes);
/// `text` itself, or, when `escaped`, what it stands for in TSV.
Status Argument(std::string_view text, bool escaped, std::string* bytes);

void AddPut(CLI::App* app, Program* program);
void AddGet(CLI::App* app, Program* program);
void AddDelete(CLI::App* app, Program* program);
void AddScan(CLI::App* app, Program* program);
void AddLoad(CLI::App* app, Program* program);
void AddDump(CLI::App* app, Program* program);
void AddStats(CLI::App* app, Program* program);
void AddCheck(CLI::App* app, Program* program);
void AddRepair(CLI::App* app, Program* program);
void AddBench(CLI::App* app, Program* program);

/// Parses and runs. `bench` and all after it go to the benchmark as they are.
int Main(int argc, char** argv);

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_COMMAND_H_
