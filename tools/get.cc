// lamella get: prints the value of one key.
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/formats.h"
#include "tools/output.h"

namespace lamella::tools {
namespace {

struct GetArgs {
  std::string key;
  bool escaped = false;
  bool raw = false;
};

Status Print(const Globals& globals, const GetArgs& args, std::string_view key,
             std::string_view value) {
  Output output;
  if (globals.json) {
    AppendRecord(Format::kJsonLines, Fields::kKeyAndValue, key, value, output.buffer());
  } else if (args.escaped) {
    AppendEscaped(value, output.buffer());
    *output.buffer() += '\n';
  } else {
    output.Write(value);
    if (!args.raw) output.Write("\n");
  }
  return output.Close();
}

Status Get(const Globals& globals, const GetArgs& args) {
  std::string key;
  Status s = Argument(args.key, args.escaped, &key);
  if (!s.ok()) return s;
  return WithStore(globals, OpenMode::kRead, [&](DB& db) {
    PinnedValue value;
    const Status found = db.Get(ReadOptions{.verify_checksums = true}, key, &value);
    if (found.IsNotFound()) return Status::NotFound("no such key: " + Excerpt(key));
    return found.ok() ? Print(globals, args, key, value) : found;
  });
}

}  // namespace

void AddGet(CLI::App* app, Program* program) {
  CommandLine command(app, "get", "Prints the value of a key; exit code 1 where there is none");
  auto args = std::make_shared<GetArgs>();
  command.Required("KEY", &args->key, "The key");
  command.Flag("-e,--escaped", &args->escaped,
               "KEY uses, and the value is printed with, the escapes of TSV");
  command.Flag("--raw", &args->raw, "The value's bytes alone, with no end of line after them");
  command.Excludes("--raw", "--escaped");
  command.Runs(program, [program, args] { return Finish(*program, Get(program->globals, *args)); });
}

}  // namespace lamella::tools
