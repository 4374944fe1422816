// Options of every command, help, and messages that name what is known when something is not.
#include "tools/command_line.h"

#include <charconv>
#include <csignal>
#include <exception>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/command_words.h"
#include "base/standard_streams.h"
#include "tools/bench.h"
#include "tools/command.h"
#include "tools/formats.h"
#include "tools/output.h"

namespace lamella::tools {
namespace {

constexpr const char* kDescription =
    "lamella: an embedded, ordered, crash-safe key-value store, from the command line.\n"
    "The store is a directory, always named by --db (or the variable LAMELLA_DB).";

constexpr const char* kFooter = R"(
Exit codes: 0 ok; 1 no such key; 2 the command line, the input or an option cannot be meant as it
is, or there is no such store; 3 corruption, or check found a problem; 4 input or output failed, no
space, the store is read-only; 5 the store is open in another process; 6 not supported by this
build. `bench` has its own: 0 done; 1 a store failed or answered wrongly; 2 usage; 3 with --strict
a goal or claim was missed; 4 a scenario was skipped.

Options of every command may stand before or after its name; `lamella COMMAND --help` lists a
command's own. Words that begin with - and are no options come after --.

Records as text. TSV: key<TAB>value, a line each, with the escapes \t \n \\ \r \0 \xHH.
JSON lines: {"key": ..., "value": ...}, or "key_base64" and "value_base64" for what is not UTF-8.
Both give any bytes back exactly.

Examples:
  lamella --db /dev/shm/store put colour green
  lamella --db /dev/shm/store get colour
  lamella --db /dev/shm/store load records.tsv
  lamella --db /dev/shm/store scan --prefix col --limit 10)";

// CLI11 takes a word in brackets for a list where an option takes several words: "[a,b]" would be
// two keys to delete, and neither the one that is meant. Such words get a mark before they are
// parsed, and lose it where they are taken.
constexpr char kMark = '\x1f';

bool IsInBrackets(std::string_view word) {
  return !word.empty() && (word.front() == '[' || word.front() == kMark) && word.back() == ']';
}
std::string Marked(const std::string& word) { return IsInBrackets(word) ? kMark + word : word; }
std::string Unmarked(std::string word) {
  return IsInBrackets(word) && word.front() == kMark ? word.substr(1) : word;
}
CLI::Option* Plain(CLI::Option* option) { return option->transform(&Unmarked); }

// CLI11 takes an empty word for an optional value that is not there.
CLI::Option* AddOptional(CLI::App* app, const char* name, std::optional<std::string>* value,
                         const char* help) {
  return app->add_option_function<std::string>(
      name, [value](const std::string& word) { *value = word; }, help);
}

void AddGlobals(CLI::App* app, Globals* globals) {
  Plain(app->add_option("-d,--db", globals->db, "The store's directory"))->envname("LAMELLA_DB");
  Plain(AddOptional(app, "--engine", &globals->engine,
                    "The design to create a store with, such as listdb"));
  Plain(
      AddOptional(app, "--medium", &globals->medium,
                  "auto, byte, cacheline, page or volatile: when a store into the pool is durable "
                  "(default auto)"));
  Plain(AddOptional(app, "--memory-budget", &globals->memory_budget,
                    "DRAM for memtables and caches, such as 256M or 1G (default 256M)"));
  Plain(AddOptional(app, "--pool-max", &globals->pool_max,
                    "The pool never grows beyond this, such as 8G (default: no limit)"));
  Plain(app->add_option(
            "--pmem", globals->pmem,
            "Directories of the pool's parts, separated by commas (default: the store's)"))
      ->allow_extra_args(false);  // the words after it are the command's
  app->add_flag("--json", globals->json, "Results as JSON");
  app->add_flag("--sync", globals->sync,
                "Writes survive a power cut on ordinary files too (slower)");
}

void AddOptionNames(const CLI::App& app, std::string* names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (name != "help") *names += fmt::format("{}--{}", names->empty() ? "" : ", ", name);
    }
  }
}

/// What to say of a word that nothing takes.
std::string UnknownWord(const CLI::App& app, const std::string& word) {
  const auto chosen = app.get_subcommands();
  if (word.starts_with('-')) {
    std::string known;
    if (!chosen.empty()) AddOptionNames(*chosen.front(), &known);
    AddOptionNames(app, &known);
    return fmt::format("unknown option {}; known here: {}", Excerpt(word), known);
  }
  if (!chosen.empty()) {
    return fmt::format("expected nothing more, found {}; see lamella {} --help", Excerpt(word),
                       chosen.front()->get_name());
  }
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", command->get_name());
  }
  return fmt::format("unknown command {}; known: {}", Excerpt(word), known);
}

int ReportParseError(CLI::App* app, Program* program, const CLI::ParseError& error) {
  const auto chosen = app->get_subcommands();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {  // --help
    std::ostringstream text;
    (void)app->exit(error, text, text);
    Output output;
    output.Write(text.str());
    return Finish(*program, output.Close());
  }
  if (!chosen.empty()) program->command = chosen.front()->get_name();
  const std::vector<std::string> rest = app->remaining(true);
  if (!rest.empty()) {
    Warn(*program, UnknownWord(*app, Unmarked(rest.front())));
  } else {
    Warn(*program, fmt::format("{}; see lamella{}{} --help", error.what(),
                               program->command.empty() ? "" : " ", program->command));
  }
  return kExitUsage;
}

}  // namespace

CommandLine::CommandLine(CLI::App* app, const char* name, const char* help)
    : command_(app->add_subcommand(name, help)) {}

void CommandLine::Required(const char* name, std::string* value, const char* help) {
  Plain(command_->add_option(name, *value, help))->required();
}

void CommandLine::Required(const char* name, std::vector<std::string>* values, const char* help) {
  Plain(command_->add_option(name, *values, help))->required();
}

void CommandLine::Optional(const char* name, std::optional<std::string>* value, const char* help) {
  Plain(AddOptional(command_, name, value, help));
}

void CommandLine::Option(const char* name, std::string* value, const char* help) {
  Plain(command_->add_option(name, *value, help));
}

void CommandLine::Option(const char* name, std::optional<std::string>* value, const char* help) {
  Plain(AddOptional(command_, name, value, help));
}

void CommandLine::File(const char* name, std::string* value, const char* help) {
  Plain(command_->add_option(name, *value, help))->check([](const std::string& word) {
    return word.empty() ? "expected the name of a file, found an empty word" : std::string();
  });
}

void CommandLine::Number(const char* name, uint64_t* value, uint64_t min, uint64_t max,
                         const char* help) {
  const auto read = [](const std::string& word, uint64_t* number) {  // to CLI11 "010" is eight
    const char* const end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data(), end, *number);
    return error == std::errc() && at == end;
  };
  Plain(command_->add_option_function<std::string>(
            name, [value, read](const std::string& word) { (void)read(word, value); }, help))
      ->check([read, min, max](const std::string& word) {
        uint64_t number = 0;
        const bool good = read(word, &number) && number >= min && number <= max;
        return good ? std::string()
                    : fmt::format("expected a number from {} to {}, found {}", min, max,
                                  Excerpt(word));
      })
      ->type_name("UINT");
}

void CommandLine::Flag(const char* name, bool* value, const char* help) {
  command_->add_flag(name, *value, help);
}

void CommandLine::Needs(const char* name, const char* other) {
  command_->get_option(name)->needs(command_->get_option(other));
}

void CommandLine::Excludes(const char* name, const char* other) {
  command_->get_option(name)->excludes(command_->get_option(other));
}

void CommandLine::Runs(Program* program, std::function<int()> run) {
  command_->callback([program, run = std::move(run)] { program->run = run; });
}

void CommandLine::AllowAnything() { command_->allow_extras(); }

int Main(int argc, char** argv) {
  // A reader that left, and a file size limit, come back as errors of write(2) and are reported;
  // neither ends the program.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  HoldStandardStreams();
  if (argc > 1 && std::string_view(argv[1]) == "bench") return RunBench(argv + 1);

  Program program;
  CLI::App app(kDescription, "lamella");
  // for the commands, which inherit it
  app.footer("Options of every command, exit codes and formats: lamella --help");
  app.set_version_flag("--version", LAMELLA_PROGRAM_VERSION);
  AddGlobals(&app, &program.globals);
  app.require_subcommand(1);
  app.fallthrough();
  for (auto* add : {AddPut, AddGet, AddDelete, AddScan, AddLoad, AddDump, AddStats, AddCheck,
                    AddRepair, AddBench}) {
    add(&app, &program);
  }
  app.footer(kFooter);
  const std::span<const char* const> given(argv, static_cast<size_t>(argc));
  if (const std::string_view option = OptionWithoutValue(given); !option.empty()) {
    Warn(program, fmt::format("expected a word after {}, found none", Excerpt(option)));
    return kExitUsage;
  }
  std::vector<std::string> words;  // the last first
  for (int i = argc - 1; i > 0; i--) words.push_back(Marked(argv[i]));
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return ReportParseError(&app, &program, error);
  }
  program.command = app.get_subcommands().front()->get_name();
  try {
    return program.run();
  } catch (const std::bad_alloc&) {
    return Fail(program, OutOfMemory());
  } catch (const std::exception& error) {  // of the libraries that print and parse
    return Fail(program, Status::IOError(error.what()));
  }
}

}  // namespace lamella::tools
