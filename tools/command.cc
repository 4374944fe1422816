#include "tools/command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/formats.h"
#include "tools/output.h"
#include "tools/units.h"

namespace lamella::tools {
namespace {

struct MediumName {
  std::string_view name;
  MediumKind kind;
};
constexpr MediumName kMediumNames[] = {
    {"auto", MediumKind::kAuto},           {"byte", MediumKind::kByte},
    {"cacheline", MediumKind::kCacheLine}, {"page", MediumKind::kPage},
    {"volatile", MediumKind::kVolatile},
};

Status ParseEngine(const std::string& name, Options* options) {
  options->engine = EngineFromName(name);
  if (options->engine) return Status::OK();
  return Status::InvalidArgument(fmt::format("--engine: expected one of {}; found \"{}\"",
                                             fmt::join(BuiltEngineNames(), ", "), name));
}

Status ParseMedium(const std::string& name, Options* options) {
  std::string known;
  for (const MediumName& medium : kMediumNames) {
    if (medium.name == name) {
      options->medium = medium.kind;
      return Status::OK();
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", medium.name);
  }
  return Status::InvalidArgument(
      fmt::format("--medium: expected one of {}; found \"{}\"", known, name));
}

Status ParseSizeOption(std::string_view option, const std::string& text, uint64_t* bytes) {
  const Status s = ParseByteSize(text, bytes);
  return s.ok() ? s : Status::InvalidArgument(fmt::format("{}: {}", option, s.message()));
}

// An empty one is of a script's variable that was not set: without it the pool would be another.
Status ParsePmem(const std::vector<std::string>& words, std::vector<std::string>* directories) {
  for (const std::string& word : words) {
    for (size_t at = 0, comma = 0; at <= word.size(); at = comma + 1) {
      comma = std::min(word.find(',', at), word.size());
      directories->push_back(word.substr(at, comma - at));
      if (!directories->back().empty()) continue;
      return Status::InvalidArgument(fmt::format(
          "--pmem: expected directories with commas between them, found an empty one in \"{}\"",
          word));
    }
  }
  return Status::OK();
}

}  // namespace

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case Status::Code::kOk:
      return kExitOk;
    case Status::Code::kNotFound:
      return kExitNotFound;
    case Status::Code::kCorruption:
      return kExitCorruption;
    case Status::Code::kInvalidArgument:
      return kExitUsage;
    case Status::Code::kIOError:
    case Status::Code::kNoSpace:
    case Status::Code::kReadOnly:
    case Status::Code::kAborted:
      return kExitIo;
    case Status::Code::kBusy:
      return kExitBusy;
    case Status::Code::kNotSupported:
      return kExitNotSupported;
  }
  return kExitIo;
}

int Fail(const Program& program, const Status& status) {
  // Aborted comes from Output alone: whoever read our output has left and asks for no more,
  // messages included.
  if (!status.IsAborted()) Warn(program, status.ToString());
  return ExitCodeOf(status);
}

int Finish(const Program& program, const Status& status) {
  return status.ok() ? kExitOk : Fail(program, status);
}

void Say(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

void Warn(const Program& program, std::string_view message) {
  Say(fmt::format("lamella{}{}: {}\n", program.command.empty() ? "" : " ", program.command,
                  message));
}

Status MakeOptions(const Globals& globals, Options* options) {
  Status s;
  if (globals.engine) s = ParseEngine(*globals.engine, options);
  if (s.ok() && globals.medium) s = ParseMedium(*globals.medium, options);
  if (s.ok() && globals.memory_budget) {
    s = ParseSizeOption("--memory-budget", *globals.memory_budget, &options->memory_budget_bytes);
  }
  if (s.ok() && globals.pool_max)
    s = ParseSizeOption("--pool-max", *globals.pool_max, &options->pool_bytes_max);
  return s.ok() ? ParsePmem(globals.pmem, &options->pmem_paths) : s;
}

Status StorePath(const Globals& globals, std::string* path) {
  if (globals.db.empty()) {
    return Status::InvalidArgument(
        "expected a store, found none named: say --db DIRECTORY or set LAMELLA_DB");
  }
  *path = globals.db;
  return Status::OK();
}

Status OutOfMemory() { return Status::IOError("out of memory"); }

Status CheckOutsideStore(const Globals& globals, std::string_view what, const std::string& file) {
  namespace fs = std::filesystem;
  std::string store;
  std::vector<std::string> directories;
  Status s = StorePath(globals, &store);
  if (s.ok()) s = ParsePmem(globals.pmem, &directories);
  if (!s.ok()) return s;
  directories.push_back(std::move(store));
  std::error_code not_there;
  const fs::path in =
      fs::weakly_canonical(fs::absolute(Followed(file), not_there), not_there).parent_path();
  for (const std::string& directory : directories) {
    if (!fs::equivalent(in, directory, not_there)) continue;
    return Status::InvalidArgument(
        fmt::format("{}: expected a file elsewhere than in {}, which is the store's own, found {}",
                    what, directory, file));
  }
  return Status::OK();
}

Status WithStore(const Globals& globals, OpenMode mode, const std::function<Status(DB&)>& use) {
  Options options;
  options.create_if_missing = mode == OpenMode::kCreate;
  std::string path;
  Status s = StorePath(globals, &path);
  if (s.ok()) s = MakeOptions(globals, &options);
  if (!s.ok()) return s;

  std::unique_ptr<DB> db;
  s = DB::Open(options, path, &db);
  if (s.IsNotFound() && mode == OpenMode::kCreate) {  // a directory above it, or that a link names
    return Status::IOError(fmt::format("cannot make a store in {}: {}", path, s.message()));
  }
  if (s.IsNotFound()) {
    return Status::InvalidArgument(fmt::format(
        "expected a store in {}, found none ({}): `lamella put` and `lamella load` create one",
        path, s.message()));
  }
  if (!s.ok()) return s;
  s = use(*db);
  const Status closed = db->Close();
  // Where jobs had given up before, the store says why it is read-only.
  const std::string no_space = StatusCodeName(Status::Code::kNoSpace);
  const bool is_unflushed =
      mode == OpenMode::kRead &&
      (closed.IsNoSpace() ||
       (closed.IsReadOnly() && closed.ToString().find(no_space) != std::string::npos));
  return s.ok() && !is_unflushed ? closed : s;
}

Status ReadStandardInput(std::string* bytes) {
  bytes->clear();
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(STDIN_FILENO, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return Status::IOError(fmt::format("cannot read standard input: {}", std::strerror(errno)));
    if (n == 0) return Status::OK();
    bytes->append(buffer, static_cast<size_t>(n));
    if (bytes->size() > kValueBytesMax) {
      return Status::InvalidArgument(fmt::format(
          "expected a value of at most {} bytes on standard input, found more", kValueBytesMax));
    }
  }
}

Status Argument(std::string_view text, bool escaped, std::string* bytes) {
  if (escaped) return Unescape(text, bytes);
  bytes->assign(text);
  return Status::OK();
}

}  // namespace lamella::tools
