#include "bench/small.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "bench/clock.h"
#include "bench/machine.h"
#include "lamella/db.h"

namespace lamella::bench {
namespace {

constexpr double kKiB = 1024.0;
constexpr double kMiB = 1024.0 * kKiB;

/// Resident memory of this process, bytes, mapped files with it.
uint64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmRSS:") continue;
    uint64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes << 10;
  }
  return 0;
}

size_t ThreadCount() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                           std::filesystem::directory_iterator()));
}

class SmallRun {
 public:
  SmallRun(const Config& config, const std::string& scratch) : scratch_(scratch) {
    options_.memory_budget_bytes = config.settings.memory_budget_bytes;
  }

  Status Run(bool* goals_met) {
    std::printf("%-44s %14s %14s\n", "stores of one record", "measured", "goal");
    Status s = RunOne();
    if (s.ok()) s = RunMany(256, 1.0, 256 * kMiB);
    if (s.ok()) s = RunMany(1000, 0, 0);
    *goals_met = goals_met_;
    return s;
  }

 private:
  /// A goal of 0 is none.
  void Print(const std::string& what, double measured, double goal, const char* unit) {
    const bool met = goal == 0 || measured <= goal;
    goals_met_ = goals_met_ && met;
    std::printf("%-44s %10.2f %-3s", what.c_str(), measured, unit);
    if (goal != 0) std::printf(" %10.2f %-3s %s", goal, unit, met ? "met" : "MISSED");
    std::printf("\n");
    std::fflush(stdout);
  }
  std::string PathOf(size_t i) const { return scratch_ + "/small" + std::to_string(i); }
  Status Open(size_t i, std::unique_ptr<DB>* db) const { return DB::Open(options_, PathOf(i), db); }
  Status Make(size_t i) const {
    std::unique_ptr<DB> db;
    Status s = Open(i, &db);
    if (s.ok()) s = db->Put({}, "key", "value");
    if (s.ok()) s = db->Close();
    return s;
  }

  // With threads of its own: the median of several, after a first that pays what the process pays
  // once.
  Status RunOne() {
    constexpr size_t kTimes = 21;
    std::vector<double> created;
    std::vector<double> opened;
    uint64_t file_bytes = 0;
    uint64_t dram_bytes = 0;
    double anonymous = 0;
    for (size_t i = 0; i < kTimes; i++) {
      double begin = NowSeconds();
      std::unique_ptr<DB> db;
      Status s = Open(i, &db);
      created.push_back(NowSeconds() - begin);
      if (s.ok()) s = db->Put({}, "key", "value");
      if (s.ok()) s = db->Close();
      if (!s.ok()) return s;
      db.reset();
      TrimHeap();
      const uint64_t before = ResidentAnonymousBytes();
      begin = NowSeconds();
      s = Open(i, &db);
      opened.push_back(NowSeconds() - begin);
      std::string value;
      if (s.ok()) s = db->Get({}, "key", &value);
      if (s.ok()) s = db->WaitForIdle();
      if (!s.ok()) return s;
      anonymous = std::max(
          0.0, static_cast<double>(ResidentAnonymousBytes()) - static_cast<double>(before));
      dram_bytes = db->GetStats().dram_bytes;
      file_bytes = DirectoryBytes(PathOf(i));
      s = db->Close();
      if (!s.ok()) return s;
      db.reset();
      std::filesystem::remove_all(PathOf(i));
    }
    std::sort(created.begin(), created.end());
    std::sort(opened.begin(), opened.end());
    Print("one: file", static_cast<double>(file_bytes) / kMiB, 1, "MiB");
    Print("one: memory, by stats", static_cast<double>(dram_bytes) / kMiB, 2, "MiB");
    Print("one: memory, resident", anonymous / kMiB, 2, "MiB");
    Print("one: open, median", opened[kTimes / 2] * 1e3, 2, "ms");
    Print("one: create, median", created[kTimes / 2] * 1e3, 0, "ms");
    return Status::OK();
  }

  Status RunMany(size_t count, double seconds_max, double bytes_max) {
    const std::string name = std::to_string(count) + ": ";
    for (size_t i = 0; i < count; i++) {
      Status s = Make(i);
      if (!s.ok()) return s;
    }
    TrimHeap();
    const uint64_t resident = ResidentBytes();
    const uint64_t anonymous = ResidentAnonymousBytes();
    const size_t threads = ThreadCount();
    std::shared_ptr<Resources> resources;
    Status s = Resources::Create(options_.memory_budget_bytes, 0, &resources);
    if (!s.ok()) return s;
    options_.resources = resources;
    std::vector<std::unique_ptr<DB>> stores(count);
    double begin = NowSeconds();
    for (size_t i = 0; i < count && s.ok(); i++) s = Open(i, &stores[i]);
    const double seconds = NowSeconds() - begin;
    for (size_t i = 0; i < count && s.ok(); i++) {
      std::string value;
      s = stores[i]->Get({}, "key", &value);
      if (s.ok()) s = stores[i]->Put({}, "key2", "value");
    }
    for (size_t i = 0; i < count && s.ok(); i++) s = stores[i]->WaitForIdle();
    if (!s.ok()) return s;
    uint64_t file_bytes = 0;
    for (size_t i = 0; i < count; i++) file_bytes += DirectoryBytes(PathOf(i));
    Print(name + "open", seconds, seconds_max, "s");
    Print(name + "resident, mapped files with it",
          static_cast<double>(ResidentBytes() - resident) / kMiB, bytes_max / kMiB, "MiB");
    Print(name + "resident, memory only",
          static_cast<double>(ResidentAnonymousBytes() - anonymous) / kMiB, 0, "MiB");
    Print(name + "files", static_cast<double>(file_bytes) / kMiB, 0, "MiB");
    Print(name + "background threads", static_cast<double>(ThreadCount() - threads),
          static_cast<double>(resources->background_threads()), "");
    const double cpu = CpuSeconds();
    begin = NowSeconds();
    while (NowSeconds() - begin < 0.5) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Print(name + "processor time while idle", (CpuSeconds() - cpu) / (NowSeconds() - begin) * 100,
          0, "%");
    begin = NowSeconds();
    for (size_t i = 0; i < count && s.ok(); i++) s = stores[i]->Close();
    Print(name + "close", NowSeconds() - begin, 0, "s");
    stores.clear();
    options_.resources.reset();
    for (size_t i = 0; i < count; i++) std::filesystem::remove_all(PathOf(i));
    return s;
  }

  const std::string scratch_;
  Options options_;
  bool goals_met_ = true;
};

}  // namespace

Status RunSmall(const Config& config, const std::string& scratch, bool* goals_met) {
  std::printf("%s, %s\n", MachineName().c_str(), FileSystemName(scratch).c_str());
  return SmallRun(config, scratch).Run(goals_met);
}

}  // namespace lamella::bench
