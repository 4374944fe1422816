// lamella put: sets one key.
#include "tools/command.h"
#include "tools/command_line.h"

namespace lamella::tools {
namespace {

struct PutArgs {
  std::string key;
  std::optional<std::string> value;
  bool escaped = false;
};

Status Put(const Globals& globals, const PutArgs& args) {
  std::string key, value;
  Status s = Argument(args.key, args.escaped, &key);
  if (s.ok())
    s = args.value ? Argument(*args.value, args.escaped, &value) : ReadStandardInput(&value);
  if (!s.ok()) return s;
  const WriteOptions options{.sync = globals.sync};
  return WithStore(globals, OpenMode::kCreate, [&](DB& db) { return db.Put(options, key, value); });
}

}  // namespace

void AddPut(CLI::App* app, Program* program) {
  CommandLine command(app, "put", "Sets a key; creates the store where there is none");
  auto args = std::make_shared<PutArgs>();
  command.Required("KEY", &args->key, "The key, 1 to 65,535 bytes");
  command.Optional("VALUE", &args->value, "The value; without it, all of standard input");
  command.Flag("-e,--escaped", &args->escaped,
               "KEY and VALUE use the escapes \\t \\n \\\\ \\r \\0 \\xHH");
  command.Runs(program, [program, args] { return Finish(*program, Put(program->globals, *args)); });
}

}  // namespace lamella::tools
