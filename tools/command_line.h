// CommandLine declares what one subcommand takes. It stands between the subcommands and CLI11,
// whose header costs each file that includes it many seconds of compilation: only command_line.cc
// does.
// Lifetime: what the pointers lead to must outlive the parse; a subcommand keeps it in a shared_ptr
// that its `run` holds.
#ifndef LAMELLA_TOOLS_COMMAND_LINE_H_
#define LAMELLA_TOOLS_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lamella::tools {

struct Program;

class CommandLine {
 public:
  /// A new subcommand of `app`.
  CommandLine(CLI::App* app, const char* name, const char* help);

  /// A word of its own, which must be there.
  void Required(const char* name, std::string* value, const char* help);
  /// One or more of them.
  void Required(const char* name, std::vector<std::string>* values, const char* help);
  /// A word of its own, which may be left out.
  void Optional(const char* name, std::optional<std::string>* value, const char* help);

  /// `name` is "--long", or "-s,--long". Where the line has an empty word, *value has one.
  void Option(const char* name, std::string* value, const char* help);
  void Option(const char* name, std::optional<std::string>* value, const char* help);
  /// A file's name, which is not empty: an empty one is of a script's variable that was not set.
  void File(const char* name, std::string* value, const char* help);
  void Number(const char* name, uint64_t* value, uint64_t min, uint64_t max, const char* help);
  void Flag(const char* name, bool* value, const char* help);
  /// `name` is refused without `other`.
  void Needs(const char* name, const char* other);
  /// `name` and `other` are refused together.
  void Excludes(const char* name, const char* other);

  /// What the program does when the line names this subcommand.
  void Runs(Program* program, std::function<int()> run);
  /// Takes every word, known or not: for a subcommand that refuses to run.
  void AllowAnything();

 private:
  CLI::App* const command_;
};

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_COMMAND_LINE_H_
