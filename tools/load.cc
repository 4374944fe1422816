// lamella load: writes the records of a text file into a store, in batches.
//
// I1: lines are acknowledged in order: when the number n stands in the --ack-file, every good line
//     up to n is in the store, whatever happens to this process.
// I2: a malformed line ends the load (without --skip-bad) once the good lines before it are
//     written; nothing after it is.
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/record_reader.h"
#include "tools/stats_report.h"
#include "tools/units.h"

namespace lamella::tools {
namespace {

constexpr uint64_t kBadLinesShownMax = 10;
constexpr size_t kBatchBytesMax = size_t{1} << 20;

struct LoadArgs {
  std::string input = "-";
  std::optional<std::string> format;
  std::string ack_file;
  uint64_t batch_records = 100;
  bool skip_bad = false;
  bool stats = false;
};

/// Appends the numbers of acknowledged lines to a file.
class AckFile {
 public:
  ~AckFile() {
    if (fd_ >= 0) close(fd_);
  }

  Status Open(const std::string& path) {
    path_ = path;
    fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd_ < 0) return Error();
    return IsCutShort() && !Append("\n") ? Error() : Status::OK();
  }

  Status Acknowledge(uint64_t line) {
    if (fd_ < 0) return Status::OK();
    return Append(fmt::format("{}\n", line)) ? Status::OK() : Error();
  }

 private:
  /// The last number is the beginning of one, since there was no room: with the next one after it
  /// on its line it would be that of a line that was never acknowledged (I1).
  bool IsCutShort() const {
    struct stat info{};
    if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return false;
    const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);  // where it may be read
    if (fd < 0) return false;
    char last = '\n';
    const bool is_read = pread(fd, &last, 1, info.st_size - 1) == 1;
    close(fd);
    return is_read && last != '\n';
  }
  bool Append(std::string_view text) {
    errno = 0;
    const ssize_t written = write(fd_, text.data(), text.size());
    if (written >= 0 && errno == 0) errno = ENOSPC;  // of what was written in part
    return written == static_cast<ssize_t>(text.size());
  }
  Status Error() const {
    return Status::IOError(
        fmt::format("cannot append to the ack file {}: {}", path_, std::strerror(errno)));
  }

  std::string path_;
  int fd_ = -1;
};

class Loader {
 public:
  Loader(const Program& program, const LoadArgs& args, RecordReader* reader, AckFile* acks, DB* db)
      : program_(program),
        args_(args),
        reader_(*reader),
        acks_(*acks),
        db_(*db),
        progress_(!program.globals.json, reader->input_bytes()) {}

  Status Run() {
    std::string key, value;
    Status parsed;
    Status s;
    while (s.ok() && reader_.Next(&key, &value, &parsed)) {
      s = parsed.ok() ? Add(key, value) : TakeBadLine(parsed);
    }
    if (s.ok()) s = Commit();  // the lines before a read error are good
    progress_.Finish();
    if (s.ok()) s = reader_.status();
    if (s.ok() && reader_.lines().last_line_unended() && records_ > 0) {
      Warn(program_,
           fmt::format(
               "line {} of {} has no end of line: loaded as it is; the input may have been cut",
               reader_.lines().line_number(), reader_.name()));
    }
    return s;
  }

  uint64_t records() const { return records_; }
  uint64_t bad_lines() const { return bad_lines_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Status Add(std::string_view key, std::string_view value) {
    batch_.Put(key, value);
    batch_user_bytes_ += key.size() + value.size();
    const bool full = batch_.Count() >= args_.batch_records || batch_.ByteSize() >= kBatchBytesMax;
    return full ? Commit() : Status::OK();
  }

  Status TakeBadLine(const Status& parsed) {
    const uint64_t line = reader_.lines().line_number();
    const std::string message =
        fmt::format("line {} of {}: {}", line, reader_.name(), parsed.message());
    progress_.Finish();
    if (args_.skip_bad) {
      if (++bad_lines_ <= kBadLinesShownMax) Warn(program_, message + "; skipped");
      return Status::OK();
    }
    at_bad_line_ = true;
    Status s = Commit();
    if (!s.ok()) return s;
    return Status::InvalidArgument(
        fmt::format("{}. The {} records before it are loaded and stay; nothing after it was "
                    "loaded. Mend the line, or "
                    "say --skip-bad",
                    message, FormatCount(records_)));
  }

  Status Commit() {
    if (batch_.Count() == 0) return Status::OK();
    Status s = db_.Write(WriteOptions{.sync = program_.globals.sync}, batch_);
    if (!s.ok()) return s;
    records_ += batch_.Count();
    bytes_ += batch_user_bytes_;
    batch_.Clear();
    batch_user_bytes_ = 0;
    progress_.Update(records_, reader_.lines().bytes_consumed());
    return acks_.Acknowledge(reader_.lines().line_number() - (at_bad_line_ ? 1 : 0));
  }

  const Program& program_;
  const LoadArgs& args_;
  RecordReader& reader_;
  AckFile& acks_;
  DB& db_;
  Progress progress_;
  WriteBatch batch_;
  uint64_t batch_user_bytes_ = 0;
  bool at_bad_line_ = false;  // the line just read is not part of what is committed
  uint64_t records_ = 0;
  uint64_t bad_lines_ = 0;
  uint64_t bytes_ = 0;
};

Status PrintSummary(const Program& program, const LoadArgs& args, const Loader& loader,
                    const RecordReader& reader, double seconds, DB& db) {
  Output output;
  const auto rate =
      static_cast<uint64_t>(static_cast<double>(loader.records()) / std::max(seconds, 1e-9));
  if (program.globals.json) {
    nlohmann::ordered_json json = {{"records", loader.records()},
                                   {"bad_lines", loader.bad_lines()},
                                   {"lines", reader.lines().line_number()},
                                   {"user_bytes", loader.bytes()},
                                   {"seconds", seconds}};
    if (args.stats) json["stats"] = StatsJson(db.GetStats(), StoreNames::Of(db));
    output.Write(json.dump() + "\n");
  } else {
    const std::string skipped =
        loader.bad_lines() == 0
            ? ""
            : fmt::format(", skipped {} malformed lines", FormatCount(loader.bad_lines()));
    output.Write(fmt::format("loaded {} records ({}) from {} in {:.2f} s, {} a second{}\n",
                             FormatCount(loader.records()), FormatBytes(loader.bytes()),
                             reader.name(), seconds, FormatCount(rate), skipped));
    if (args.stats) output.Write("\n" + StatsText(db.GetStats(), StoreNames::Of(db)));
  }
  return output.Close();
}

// Numbers would be appended to what is read.
Status CheckAckFile(const LoadArgs& args) {
  const std::string input = args.input == "-" ? "/dev/stdin" : args.input;
  std::error_code not_there;
  if (!std::filesystem::is_regular_file(args.ack_file, not_there) ||
      !std::filesystem::equivalent(args.ack_file, input, not_there)) {
    return Status::OK();
  }
  return Status::InvalidArgument(
      fmt::format("--ack-file: expected another file than the input, found {}", args.ack_file));
}

Status Load(const Program& program, const LoadArgs& args) {
  std::unique_ptr<RecordReader> reader;
  AckFile acks;
  Status s = RecordReader::Open(args.input, args.format, &reader);
  if (s.ok()) s = CheckAckFile(args);
  if (s.ok() && !args.ack_file.empty()) {
    s = CheckOutsideStore(program.globals, "--ack-file", args.ack_file);
    if (s.ok()) s = acks.Open(args.ack_file);
  }
  if (!s.ok()) return s;
  return WithStore(program.globals, OpenMode::kCreate, [&](DB& db) {
    const auto start = std::chrono::steady_clock::now();
    Loader loader(program, args, reader.get(), &acks, &db);
    const Status loaded = loader.Run();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const Status printed = PrintSummary(program, args, loader, *reader, seconds, db);
    return loaded.ok() ? printed : loaded;
  });
}

}  // namespace

void AddLoad(CLI::App* app, Program* program) {
  CommandLine command(
      app, "load",
      "Writes the records of a TSV or JSON lines file; creates the store where there is none");
  auto args = std::make_shared<LoadArgs>();
  command.File("FILE", &args->input, "The input; without it, or for -, standard input");
  command.Option("--format", &args->format,
                 "tsv or jsonl; else by the file's extension, and TSV for standard input");
  command.Number("--batch", &args->batch_records, 1, 1000000,
                 "Records a batch, each batch all or nothing (default 100)");
  command.Flag("--skip-bad", &args->skip_bad, "Pass over malformed lines and count them");
  command.File(
      "--ack-file", &args->ack_file,
      "Append the number of the last line that is safely stored to this file, after each batch");
  command.Flag("--stats", &args->stats, "Print the store's counters at the end");
  command.Runs(program, [program, args] { return Finish(*program, Load(*program, *args)); });
}

}  // namespace lamella::tools
