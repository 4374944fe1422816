#include "bench/crash.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "bench/clock.h"
#include "bench/generator.h"
#include "bench/machine.h"

namespace lamella::bench {
namespace {

// What a child says: "ok" and numbers, or "error" and a message.
std::string SayError(const Status& s) { return "error " + s.ToString(); }

Status ReadAll(int fd, std::string* text) {
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n == 0) return Status::OK();
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::IOError(std::string("pipe: ") + std::strerror(errno));
    text->append(buffer, static_cast<size_t>(n));
    if (text->ends_with('\n')) return Status::OK();
  }
}

[[noreturn]] void BeChild(int fd, bool kill_it, pid_t parent,
                          const std::function<std::string()>& body) {
  // It goes with its parent: one that waits to be killed would wait for ever.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
  const std::string said = body() + "\n";
  size_t written = 0;
  while (written < said.size()) {
    const ssize_t n = write(fd, said.data() + written, said.size() - written);
    if (n > 0) written += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) break;
  }
  if (kill_it) {
    for (;;) pause();  // the parent's SIGKILL ends it
  }
  _exit(0);
}

// What the child that is to be killed does.
std::string WriteUntilKilled(const StoreSpec& spec, const StoreSettings& settings,
                             const Dataset& dataset, const std::string& dir) {
  static std::unique_ptr<Store> store;  // static: never closed, whatever ends this process
  Status s = Store::Open(spec, settings, dir, &store);
  if (!s.ok()) return SayError(s);
  static std::unique_ptr<Session> session;
  session = store->NewSession();
  const auto records = static_cast<uint32_t>(dataset.count.load());
  const std::vector<uint32_t> order = Permutation(records, 7);
  std::string key;
  const double began = NowSeconds();
  for (uint32_t id : order) {
    s = session->Put(dataset.keys.Make(id, &key), dataset.values.Make(id));
    if (!s.ok()) return SayError(s);
  }
  return "ok " + std::to_string(NowSeconds() - began);
}

// What the child that comes after it does.
std::string ReopenAndRead(const StoreSpec& spec, const StoreSettings& settings,
                          const Dataset& dataset, const std::string& dir) {
  std::unique_ptr<Store> store;
  std::string key, value;
  const uint64_t records = dataset.count.load();
  const double began = NowSeconds();
  Status s = Store::Open(spec, settings, dir, &store);
  if (!s.ok()) return SayError(s);
  std::unique_ptr<Session> session = store->NewSession();
  s = session->Get(dataset.keys.Make(records / 2, &key), &value);
  const double seconds = NowSeconds() - began;
  for (uint64_t id = 0; s.ok() && id < records; id += 1000) {
    s = session->Get(dataset.keys.Make(id, &key), &value);
    if (s.ok() && !dataset.values.Matches(id, value))
      s = Status::Corruption("wrong value of key " + key);
  }
  if (!s.ok())
    return SayError(s.IsNotFound() ? Status::Corruption("acknowledged key " + key + " is missing")
                                   : s);
  const StoreStats stats = store->GetStats();
  session.reset();
  s = store->Close();
  if (!s.ok()) return SayError(s);
  return "ok " + std::to_string(seconds) + " " +
         std::to_string(stats.recovered_records.value_or(0)) + " " +
         std::to_string(stats.recovery_log_seconds.value_or(0)) + " " +
         std::to_string(stats.recovery_index_seconds.value_or(0));
}

Status ParseOk(const std::string& said, std::istringstream* numbers) {
  numbers->str(said);
  std::string word;
  *numbers >> word;
  if (word == "ok") return Status::OK();
  return Status::IOError(said.starts_with("error ") ? said.substr(6)
                                                    : "a child said \"" + said + "\"");
}

}  // namespace

Status RunInChild(bool kill_it, const std::function<std::string()>& body, std::string* said) {
  int fds[2];
  if (pipe(fds) != 0) return Status::IOError(std::string("pipe: ") + std::strerror(errno));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    close(fds[0]);
    close(fds[1]);
    return Status::IOError(std::string("fork: ") + std::strerror(errno));
  }
  if (child == 0) {
    close(fds[0]);
    BeChild(fds[1], kill_it, parent, body);
  }
  close(fds[1]);
  said->clear();
  Status s = ReadAll(fds[0], said);
  close(fds[0]);
  if (kill_it) kill(child, SIGKILL);
  int wait_status = 0;
  while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (!s.ok()) return s;
  if (!said->ends_with('\n')) {
    return Status::IOError("a child of the benchmark ended without an answer, wait status " +
                           std::to_string(wait_status));
  }
  said->pop_back();
  return Status::OK();
}

Status MeasureCrash(const StoreSpec& spec, const StoreSettings& settings, const DataShape& shape,
                    uint64_t unflushed_bytes, const std::string& parent_dir, CrashResult* result) {
  const std::string dir = parent_dir + "/crash";
  std::error_code error;
  (void)RemoveWithLinked(dir).ok();
  std::filesystem::create_directories(dir, error);
  if (error) return Status::IOError(dir + ": cannot be made: " + error.message());
  Status s = WarmMemory(dir, std::min(unflushed_bytes * 4, FreeBytes(dir) / 2));
  if (!s.ok()) return s;
  result->records = std::max<uint64_t>(1, unflushed_bytes / (shape.key_bytes + shape.value_bytes));
  const Dataset dataset(shape.key_bytes, shape.hashed_keys, shape.value_bytes,
                        static_cast<uint32_t>(result->records), shape.seed, shape.shared_bytes);
  StoreSettings crash_settings = settings;
  crash_settings.unflushed_bytes = unflushed_bytes;
  crash_settings.data_bytes_max = std::max(settings.data_bytes_max, unflushed_bytes);
  std::string said;
  std::istringstream numbers;
  s = RunInChild(true, [&] { return WriteUntilKilled(spec, crash_settings, dataset, dir); }, &said);
  if (s.ok()) s = ParseOk(said, &numbers);
  if (s.ok()) numbers >> result->write_seconds;
  crash_settings.create = false;
  if (s.ok())
    s = RunInChild(false, [&] { return ReopenAndRead(spec, crash_settings, dataset, dir); }, &said);
  numbers.clear();
  if (s.ok()) s = ParseOk(said, &numbers);
  if (s.ok()) {
    numbers >> result->reopen_seconds >> result->recovered_records >> result->log_seconds >>
        result->index_seconds;
  }
  (void)RemoveWithLinked(dir).ok();
  if (!s.ok())
    return Status::IOError(spec.label + ", killed and reopened: " + std::string(s.message()));
  return s;
}

}  // namespace lamella::bench
