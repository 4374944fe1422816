// lamella check: verifies every structure and checksum of a store and, with --against, that it
// holds what a file says.
//
// --against FILE [--lines N] [--exact] asks: is every record of lines 1..N there, with its value? A
// key that the file names again may hold any later value of it, from whichever line: what a load
// that was cut off may have left.
#include <map>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/formats.h"
#include "tools/output.h"
#include "tools/record_reader.h"
#include "tools/units.h"

namespace lamella::tools {
namespace {

constexpr size_t kProblemsShownMax = 100;

struct CheckArgs {
  std::string against;
  std::optional<std::string> format;
  uint64_t lines = UINT64_MAX;  // lines that must be there
  bool exact = false;
};

/// What a comparison with a file found.
struct Comparison {
  uint64_t required = 0;  // records of the lines that must be there
  uint64_t later = 0;     // records of later lines that are there all the same
  // required records without their key, or with a value the file does not give
  uint64_t missing = 0;
  uint64_t store_keys = 0;  // counted with --exact
  std::vector<std::string> problems;
};

class Comparer {
 public:
  Comparer(const CheckArgs& args, RecordReader* reader, DB* db)
      : args_(args), reader_(*reader), db_(*db) {}

  Status Run(Comparison* result) {
    std::string key, value;
    Status parsed;
    while (reader_.Next(&key, &value, &parsed)) {
      const uint64_t line = reader_.lines().line_number();
      if (!parsed.ok()) {
        return Status::InvalidArgument(
            fmt::format("line {} of {}: {}", line, reader_.name(), parsed.message()));
      }
      if (Status s = Compare(key, value, line, result); !s.ok()) return s;
    }
    if (!reader_.status().ok()) return reader_.status();
    ListUnmatched(result);
    return args_.exact ? FindStrangers(result) : Status::OK();
  }

 private:
  struct Unmatched {
    uint64_t line = 0;   // the last line of the key that the store does not agree with
    uint64_t lines = 0;  // with those before it, back to one that it agrees with
    bool found = false;
  };

  Status Compare(const std::string& key, const std::string& value, uint64_t line,
                 Comparison* result) {
    PinnedValue stored;
    Status s = db_.Get(ReadOptions{.verify_checksums = true}, key, &stored);
    if (!s.ok() && !s.IsNotFound()) return s;
    const bool required = line <= args_.lines;
    if (required) result->required++;
    if (args_.exact) keys_.insert(key);
    if (s.ok() && stored.view() == value) {
      unmatched_.erase(key);  // what an earlier line gave was overwritten, as it should be
      if (!required) result->later++;
    } else if (required) {
      Unmatched& lost = unmatched_[key];
      lost = {line, lost.lines + 1, s.ok()};
    }
    return Status::OK();
  }

  void ListUnmatched(Comparison* result) {
    std::map<uint64_t, std::string> by_line;
    for (const auto& [key, lost] : unmatched_) {
      result->missing += lost.lines;
      by_line[lost.line] = fmt::format(
          "line {}: {} {}", lost.line, Excerpt(key),
          lost.found ? "holds a value that the file does not give it" : "is not in the store");
    }
    for (auto& [line, problem] : by_line) result->problems.push_back(std::move(problem));
  }

  /// Keys of the store that no line of the file names.
  Status FindStrangers(Comparison* result) {
    const std::unique_ptr<Iterator> it = db_.NewIterator({.verify_checksums = true});
    if (it == nullptr) return OutOfMemory();
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      result->store_keys++;
      if (!keys_.contains(std::string(it->key()))) {
        result->problems.push_back(
            fmt::format("{} is in the store and on no line of the file", Excerpt(it->key())));
      }
    }
    return it->status();
  }

  const CheckArgs& args_;
  RecordReader& reader_;
  DB& db_;
  std::unordered_map<std::string, Unmatched> unmatched_;
  std::unordered_set<std::string> keys_;  // of the file; kept for --exact only
};

std::string Text(const CheckReport& report, const Comparison* comparison, const CheckArgs& args) {
  std::string text;
  size_t shown = 0;
  const auto list = [&](const std::vector<std::string>& problems) {
    for (const std::string& problem : problems) {
      if (++shown <= kProblemsShownMax) text += "problem: " + problem + "\n";
    }
  };
  list(report.problems);
  if (comparison != nullptr) list(comparison->problems);
  if (shown > kProblemsShownMax)
    text += fmt::format("and {} problems more\n", FormatCount(shown - kProblemsShownMax));
  text += fmt::format(
      "checked {} records, {} tables, {} chunks: {}\n", FormatCount(report.records),
      FormatCount(report.tables), FormatCount(report.chunks),
      report.clean() ? "no problem" : fmt::format("{} problems", report.problems.size()));
  if (comparison == nullptr) return text;
  text += fmt::format("compared with {}: {} records must be there, {} of them are, {} are not",
                      args.against, FormatCount(comparison->required),
                      FormatCount(comparison->required - comparison->missing),
                      FormatCount(comparison->missing));
  text += fmt::format("; {} later ones are there too\n", FormatCount(comparison->later));
  if (args.exact)
    text += fmt::format("the store has {} keys\n", FormatCount(comparison->store_keys));
  return text;
}

std::string Json(const CheckReport& report, const Comparison* comparison) {
  nlohmann::ordered_json json = {{"records", report.records},
                                 {"tables", report.tables},
                                 {"chunks", report.chunks},
                                 {"problems", report.problems}};
  if (comparison != nullptr) {
    json["against"] = {{"required", comparison->required},
                       {"missing", comparison->missing},
                       {"later", comparison->later},
                       {"store_keys", comparison->store_keys},
                       {"problems", comparison->problems}};
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int Check(const Program& program, const CheckArgs& args) {
  std::unique_ptr<RecordReader> reader;
  Options options;
  options.create_if_missing = false;
  std::string path;
  Status s = StorePath(program.globals, &path);
  if (s.ok()) s = MakeOptions(program.globals, &options);
  if (s.ok() && !args.against.empty()) s = RecordReader::Open(args.against, args.format, &reader);
  CheckReport report;
  if (s.ok()) {
    s = CheckDB(path, options, &report);
    if (s.IsNotFound()) {
      s = Status::InvalidArgument(
          fmt::format("expected a store in {}, found none ({})", path, s.message()));
    }
  }
  Comparison comparison;
  // a damaged store is not opened: its problems are the answer
  if (!report.clean()) reader.reset();
  if (s.ok() && reader != nullptr) {
    s = WithStore(program.globals, OpenMode::kRead,
                  [&](DB& db) { return Comparer(args, reader.get(), &db).Run(&comparison); });
  }
  if (!s.ok()) return Fail(program, s);
  const Comparison* compared = reader == nullptr ? nullptr : &comparison;
  Output output;
  output.Write(program.globals.json ? Json(report, compared) : Text(report, compared, args));
  if (s = output.Close(); !s.ok()) return Fail(program, s);
  return report.clean() && comparison.problems.empty() ? kExitOk : kExitCorruption;
}

}  // namespace

void AddCheck(CLI::App* app, Program* program) {
  CommandLine command(app, "check",
                      "Verifies every structure and checksum; exit code 3 if there are problems");
  auto args = std::make_shared<CheckArgs>();
  command.File("--against", &args->against,
               "Also compare with this TSV or JSON lines file (- is standard input)");
  command.Option("--format", &args->format, "Of that file: tsv or jsonl");
  command.Number("--lines", &args->lines, 0, UINT64_MAX,
                 "Only its first N lines must be there, as after a load that was cut off");
  command.Flag("--exact", &args->exact,
               "And no key that the file does not name (keeps its keys in memory)");
  for (const char* name : {"--format", "--lines", "--exact"}) command.Needs(name, "--against");
  command.Runs(program, [program, args] { return Check(*program, *args); });
}

}  // namespace lamella::tools
