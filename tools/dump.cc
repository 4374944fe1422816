// lamella dump: writes the records of a store, or of a range of it, as text that `lamella load`
// reads back.
// I1: what is dumped is one point in time (a snapshot), and a file appears under its name only once
//     it is whole.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/formats.h"
#include "tools/key_range.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/units.h"

namespace lamella::tools {
namespace {

struct DumpArgs {
  std::string output = "-";
  std::optional<std::string> format;
  RangeWords range;
};

struct DumpCounts {
  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t sequence = 0;
};

Status FormatOf(const DumpArgs& args, bool json, Format* format) {
  std::optional<Format> named;
  if (args.format) {
    named = FormatFromName(*args.format);
    if (!named) {
      return Status::InvalidArgument(
          fmt::format("expected --format tsv or jsonl, found {}", Excerpt(*args.format)));
    }
  }
  if (!named) named = FormatFromPath(args.output);
  if (!named && Output::IsStandardOutput(args.output))
    named = json ? Format::kJsonLines : Format::kTsv;
  if (!named) {
    return Status::InvalidArgument(
        fmt::format("{}: the name ends neither in .tsv nor in .jsonl, .ndjson or .json: say "
                    "--format tsv or jsonl",
                    args.output));
  }
  *format = *named;
  return Status::OK();
}

Status WriteRecords(DB& db, const Snapshot* snapshot, const KeyRange& range, Format format,
                    Output* output, DumpCounts* counts) {
  const std::unique_ptr<Iterator> it = db.NewIterator({.snapshot = snapshot,
                                                       .lower_bound = range.lower,
                                                       .upper_bound = range.upper,
                                                       .verify_checksums = true});
  if (it == nullptr) return OutOfMemory();
  Progress progress(true, 0);
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    AppendRecord(format, Fields::kKeyAndValue, it->key(), it->value(), output->buffer());
    if (!output->Drain()) break;
    counts->records++;
    counts->bytes += it->key().size() + it->value().size();
    progress.Update(counts->records, counts->bytes);
  }
  return it->status();
}

Status Dump(const Program& program, const DumpArgs& args) {
  Format format = Format::kTsv;
  KeyRange range;
  DumpCounts counts;
  Status s = FormatOf(args, program.globals.json, &format);
  if (s.ok()) s = KeyRange::Parse(args.range, &range);
  if (s.ok() && !Output::IsStandardOutput(args.output))
    s = CheckOutsideStore(program.globals, "FILE", args.output);
  if (!s.ok()) return s;
  s = WithStore(program.globals, OpenMode::kRead, [&](DB& db) {
    Output output;
    Status written = output.OpenFile(args.output);
    if (!written.ok()) return written;
    const Snapshot* snapshot = db.GetSnapshot();
    if (snapshot == nullptr) return OutOfMemory();
    counts.sequence = snapshot->sequence();
    if (!range.empty) written = WriteRecords(db, snapshot, range, format, &output, &counts);
    db.ReleaseSnapshot(snapshot);
    return written.ok() ? output.Close() : written;
  });
  // on standard output there are records and nothing else
  if (!s.ok() || Output::IsStandardOutput(args.output)) return s;
  Output summary;
  if (program.globals.json) {
    const nlohmann::ordered_json json = {
        {"records", counts.records}, {"user_bytes", counts.bytes}, {"sequence", counts.sequence}};
    summary.Write(json.dump() + "\n");
  } else {
    summary.Write(fmt::format("dumped {} records ({}) as of sequence {} to {}\n",
                              FormatCount(counts.records), FormatBytes(counts.bytes),
                              counts.sequence, args.output));
  }
  return summary.Close();
}

}  // namespace

void AddDump(CLI::App* app, Program* program) {
  CommandLine command(
      app, "dump",
      "Writes the records, as of one point in time, as TSV or JSON lines that load reads back");
  auto args = std::make_shared<DumpArgs>();
  command.File("FILE", &args->output, "The output; without it, or for -, standard output");
  command.Option("--format", &args->format,
                 "tsv or jsonl; else by the file's extension, and for standard output TSV, or with "
                 "--json JSON lines");
  AddRange(&command, &args->range);
  command.Runs(program, [program, args] { return Finish(*program, Dump(*program, *args)); });
}

}  // namespace lamella::tools
