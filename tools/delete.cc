// lamella delete: removes keys, all of them or none.
#include "lamella/write_batch.h"
#include "tools/command.h"
#include "tools/command_line.h"

namespace lamella::tools {
namespace {

struct DeleteArgs {
  std::vector<std::string> keys;
  bool escaped = false;
};

Status Delete(const Globals& globals, const DeleteArgs& args) {
  WriteBatch batch;
  for (const std::string& text : args.keys) {
    std::string key;
    if (Status s = Argument(text, args.escaped, &key); !s.ok()) return s;
    batch.Delete(key);
  }
  const WriteOptions options{.sync = globals.sync};
  return WithStore(globals, OpenMode::kExisting, [&](DB& db) { return db.Write(options, batch); });
}

}  // namespace

void AddDelete(CLI::App* app, Program* program) {
  CommandLine command(app, "delete",
                      "Removes keys in one batch; a key that is not there is no error");
  auto args = std::make_shared<DeleteArgs>();
  command.Required("KEY", &args->keys, "The keys");
  command.Flag("-e,--escaped", &args->escaped, "The keys use the escapes of TSV");
  command.Runs(program,
               [program, args] { return Finish(*program, Delete(program->globals, *args)); });
}

}  // namespace lamella::tools
