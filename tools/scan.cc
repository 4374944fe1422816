// lamella scan: prints the records of a range, in key order or against it.
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/formats.h"
#include "tools/key_range.h"
#include "tools/output.h"

namespace lamella::tools {
namespace {

struct ScanArgs {
  RangeWords range;
  uint64_t limit = 0;  // 0: none
  bool reverse = false;
  bool keys_only = false;
};

Status Print(DB& db, const Globals& globals, const ScanArgs& args, const KeyRange& range) {
  const std::unique_ptr<Iterator> it = db.NewIterator(
      {.lower_bound = range.lower, .upper_bound = range.upper, .verify_checksums = true});
  if (it == nullptr) return OutOfMemory();
  const Format format = globals.json ? Format::kJsonLines : Format::kTsv;
  const Fields fields = args.keys_only ? Fields::kKeyOnly : Fields::kKeyAndValue;
  Output output;
  uint64_t count = 0;
  if (args.reverse) {
    it->SeekToLast();
  } else {
    it->SeekToFirst();
  }
  while (it->Valid() && (args.limit == 0 || count < args.limit)) {
    AppendRecord(format, fields, it->key(), args.keys_only ? std::string_view() : it->value(),
                 output.buffer());
    if (!output.Drain()) break;
    count++;
    if (args.reverse) {
      it->Prev();
    } else {
      it->Next();
    }
  }
  const Status written = output.Close();
  return it->status().ok() ? written : it->status();
}

Status Scan(const Globals& globals, const ScanArgs& args) {
  KeyRange range;
  if (Status s = KeyRange::Parse(args.range, &range); !s.ok()) return s;
  return WithStore(globals, OpenMode::kRead, [&](DB& db) {
    return range.empty ? Status::OK() : Print(db, globals, args, range);
  });
}

}  // namespace

void AddScan(CLI::App* app, Program* program) {
  CommandLine command(app, "scan",
                      "Prints the records of a range as TSV, or as JSON lines with --json");
  auto args = std::make_shared<ScanArgs>();
  AddRange(&command, &args->range);
  command.Number("--limit", &args->limit, 0, UINT64_MAX, "At most so many records; 0 is no limit");
  command.Flag("--reverse", &args->reverse, "From the last key to the first");
  command.Flag("--keys-only", &args->keys_only, "Keys without values");
  command.Runs(program,
               [program, args] { return Finish(*program, Scan(program->globals, *args)); });
}

}  // namespace lamella::tools
