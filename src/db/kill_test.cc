// A process that writes is killed at a random moment, again and again over the same store, with
// reused keys. After each kill everything that was acknowledged is there (P1), what is there beyond
// it is a prefix of what was under way (P3), batches are whole (P2), and the store is clean (P6:
// kills hit recovery too).
// A kill shows what survives a process; what survives a power cut is the simulator's matter.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "testing/conformance.h"
#include "testing/proof.h"

namespace lamella::testing {
namespace {

constexpr uint32_t kWriters = 2;
constexpr int kExitOpenFailed = 3;
constexpr int kExitWriteFailed = 4;

// What the child tells its parent: shared memory, so that it outlives the kill and costs the child
// one store.
struct Progress {
  std::atomic<uint64_t> opened{0};
  std::atomic<uint64_t> acknowledged[kWriters] = {};  // operations that returned OK
  char error[256] = {};
};

using State = std::map<std::string, std::string>;

// Operation number `number` of a writer in a round: the child writes it, the parent applies it to
// what it expects. Writers have keys of their own.
class Operation {
 public:
  Operation(uint64_t seed, uint32_t writer, uint64_t number) {
    Random random(seed * 1000003 + writer * 7919 + number * 104729);
    const auto key = [&] {
      return Concat("writer", writer, "-", MakeKey(KeyShape::kMixed, random.Uniform(150)));
    };
    const uint64_t kind = random.Uniform(10);
    const uint64_t count = kind < 8 ? 1 : random.Uniform(30) + 2;
    is_batch_ = kind >= 8;
    for (uint64_t i = 0; i < count; i++) {
      if (random.OneIn(4)) {
        batch_.Delete(key());
      } else {
        const size_t size = random.OneIn(200) ? 150000 : ValueSize(&random, 1500);
        batch_.Put(key(), MakeValue(random.Next(), size));
      }
    }
  }

  Status WriteTo(DB* db) const {
    if (is_batch_) return db->Write({}, batch_);
    struct Single {
      void Put(std::string_view key, std::string_view value) { status = db->Put({}, key, value); }
      void Delete(std::string_view key) { status = db->Delete({}, key); }
      DB* db;
      Status status;
    } single{db, {}};
    batch_.Iterate(single);
    return single.status;
  }
  void ApplyTo(State* state) const {
    struct Apply {
      void Put(std::string_view key, std::string_view value) { (*state)[std::string(key)] = value; }
      void Delete(std::string_view key) { state->erase(std::string(key)); }
      State* state;
    };
    batch_.Iterate(Apply{state});
  }

 private:
  WriteBatch batch_;
  bool is_batch_ = false;
};

[[noreturn]] void Child(const Options& options, const std::string& path, uint64_t seed,
                        Progress* progress) {
  const auto fail = [progress](int code, const Status& s) {
    std::snprintf(progress->error, sizeof(progress->error), "%s", s.ToString().c_str());
    ::_exit(code);
  };
  std::unique_ptr<DB> db;
  Status s = DB::Open(options, path, &db);
  if (!s.ok()) fail(kExitOpenFailed, s);
  progress->opened.store(1);
  std::vector<std::thread> threads;
  for (uint32_t writer = 0; writer < kWriters; writer++) {
    threads.emplace_back([&, writer] {
      for (uint64_t number = 0;; number++) {
        const Status written = Operation(seed, writer, number).WriteTo(db.get());
        if (!written.ok()) fail(kExitWriteFailed, written);
        progress->acknowledged[writer].store(number + 1, std::memory_order_release);
      }
    });
  }
  threads.emplace_back([&] {  // compaction and gc are under way when the kill comes
    for (;;) {
      (void)db->CompactRange({}, {}).ok();
      ::usleep(5000);
    }
  });
  for (std::thread& thread : threads) thread.join();
  ::_exit(0);
}

struct KillConfig {
  EngineLayout layout;
  MediumKind medium{};
  bool small = false;  // trees and tables, so that all of them turn over between two kills
};

class KillTest : public ::testing::TestWithParam<KillConfig> {
 protected:
  KillTest() {
    void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    progress_ = new (shared) Progress;
    options_.engine = GetParam().layout.engine;
    if (GetParam().small) GetParam().layout.ApplyTo(&options_);
    options_.medium = GetParam().medium;
    options_.memory_budget_bytes = 4 << 20;
    options_.memtable_bytes = 128 << 10;
    options_.chunk_bytes = 256 << 10;
    options_.background_threads = 2;
    options_.log_shards = 2;
    options_.pool_bytes_max = 1ull << 30;
  }
  ~KillTest() override { ::munmap(static_cast<void*>(progress_), sizeof(Progress)); }

  // Runs the child and kills it after `microseconds`, counted from its open store or, where
  // `in_open`, from its start.
  void RunAndKill(uint64_t seed, uint64_t microseconds, bool in_open);
  // Reads the store and finds, for each writer, which of its operations are there.
  ::testing::AssertionResult VerifyRound(uint64_t seed);

  // Where the program runs, so that the store is a file on a disk: elsewhere tests use memory.
  const ScopedEnv on_disk_{"TMPDIR", std::filesystem::current_path().string()};
  TempDir dir_;
  Options options_;
  Progress* progress_;
  State states_[kWriters];  // what the store must hold of each writer
};

std::vector<KillConfig> KillConfigs() {
  std::vector<KillConfig> configs;
  for (const EngineLayout& layout : EngineLayouts()) {
    configs.push_back({layout, MediumKind::kCacheLine, true});
    if (layout.set != nullptr) continue;
    for (const MediumKind medium : {MediumKind::kPage, MediumKind::kByte}) {
      if (LAMELLA_THREAD_SANITIZER == 0) configs.push_back({layout, medium});
    }
  }
  return configs;
}
std::string NameOfKills(const ::testing::TestParamInfo<KillConfig>& info) {
  const MediumKind medium = info.param.medium;
  return info.param.layout.name + (medium == MediumKind::kPage   ? "Page"
                                   : medium == MediumKind::kByte ? "Byte"
                                                                 : "CacheLineSmall");
}
INSTANTIATE_TEST_SUITE_P(Media, KillTest, ::testing::ValuesIn(KillConfigs()), NameOfKills);

void KillTest::RunAndKill(uint64_t seed, uint64_t microseconds, bool in_open) {
  new (progress_) Progress;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0) << std::strerror(errno);
  if (child == 0) Child(options_, dir_.Sub("store"), seed, progress_);
  int status = 0;
  if (!in_open) {
    for (int waited = 0; progress_->opened.load() == 0 && waited < 30000; waited++) {
      if (::waitpid(child, &status, WNOHANG) == child) {
        FAIL() << "the child ended by itself, status " << status << ": " << progress_->error;
      }
      ::usleep(1000);
    }
  }
  ::usleep(static_cast<useconds_t>(microseconds));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
      << "the child ended by itself, status " << status << ": " << progress_->error;
  ProofAddOf(TestNameOf(GetParam().layout.engine), "kills", 1);
}

::testing::AssertionResult KillTest::VerifyRound(uint64_t seed) {
  const auto wrong = [] { return ::testing::AssertionFailure(); };
  std::unique_ptr<DB> db;
  const Status s = DB::Open(options_, dir_.Sub("store"), &db);
  if (!s.ok()) return wrong() << s.ToString();
  for (uint32_t writer = 0; writer < kWriters; writer++) {
    const std::string lower = Concat("writer", writer, "-");
    const std::string upper = Concat("writer", writer, ".");
    ReadOptions read;
    read.lower_bound = lower;
    read.upper_bound = upper;
    read.verify_checksums = true;
    State found;
    auto it = db->NewIterator(read);
    for (it->SeekToFirst(); it->Valid(); it->Next()) found.emplace(it->key(), it->value());
    if (!it->status().ok()) return wrong() << it->status().ToString();

    const uint64_t acknowledged = progress_->acknowledged[writer].load();
    const std::string who = Concat("writer ", writer, " after ", acknowledged, " acknowledged: ");
    State& expected = states_[writer];
    for (uint64_t number = 0; number < acknowledged; number++)
      Operation(seed, writer, number).ApplyTo(&expected);
    if (found != expected) {  // the operation under way may be there, whole
      Operation(seed, writer, acknowledged).ApplyTo(&expected);
    }
    for (const auto& [key, value] : expected) {
      const auto at = found.find(key);
      if (at == found.end()) {
        std::string got;
        return wrong() << who << "a scan lost " << Brief(key)
                       << "; Get: " << db->Get({}, key, &got).ToString();
      }
      if (at->second != value)
        return wrong() << who << "a scan shows another value of " << Brief(key);
      std::string got;
      const Status read_one = db->Get({}, key, &got);
      if (!read_one.ok())
        return wrong() << who << "Get of " << Brief(key) << ": " << read_one.ToString();
      if (got != value) return wrong() << who << "Get shows another value of " << Brief(key);
    }
    if (found.size() != expected.size()) return wrong() << who << "deleted keys are back";
  }
  return ::testing::AssertionSuccess();
}

TEST_P(KillTest, EveryAcknowledgedWriteSurvivesEveryKill) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  uint64_t total = 0;
  const uint64_t kills = std::getenv("LAMELLA_PROOF_SCALE") != nullptr ? 200 : 10;
  // A disk may be so slow that ctest would end the test first.
  constexpr double kRunSecondsMax = 240;
  const Stopwatch watch;
  uint64_t round = 0;
  // Until enough was written, however slow the machine is.
  constexpr uint64_t kWritesMin = 100;
  for (; (round < kills || total <= kWritesMin) && watch.Seconds() < kRunSecondsMax; round++) {
    SCOPED_TRACE(Concat("round ", round));
    // Some kills come during creation or recovery, most while writes, flushes and compaction go on.
    const bool in_open = random.OneIn(4);
    RunAndKill(seed + round, in_open ? random.Uniform(5000) : random.Uniform(60000), in_open);
    if (HasFatalFailure()) return;
    const bool again = random.OneIn(3);
    ASSERT_TRUE(VerifyRound(seed + round));
    for (const auto& count : progress_->acknowledged) total += count.load();
    CheckReport report;
    const Status s = CheckDB(dir_.Sub("store"), options_, &report);
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (size_t i = 0; i < report.problems.size() && i < 10; i++)
      ADD_FAILURE() << "check: " << report.problems[i];
    if (again) {  // a second look at the same state gives the same
      for (auto& count : progress_->acknowledged) count.store(0);
      std::unique_ptr<DB> db;
      ASSERT_TRUE(DB::Open(options_, dir_.Sub("store"), &db).ok());
      State all;
      auto it = db->NewIterator({});
      for (it->SeekToFirst(); it->Valid(); it->Next()) all.emplace(it->key(), it->value());
      State expected = states_[0];
      expected.insert(states_[1].begin(), states_[1].end());
      ASSERT_TRUE(all == expected);
    }
  }
  std::printf("%llu acknowledged operations over %llu kills\n",
              static_cast<unsigned long long>(total), static_cast<unsigned long long>(round));
  EXPECT_GT(total, kWritesMin) << "too few writes to show anything";
}

TEST_P(KillTest, KillsWithinRecoveryLoseNothing) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  for (uint64_t round = 0; round < 8; round++) {
    SCOPED_TRACE(Concat("round ", round));
    RunAndKill(seed + round, 20000, false);
    if (HasFatalFailure()) return;
    for (int kill = 0; kill < 5; kill++) {  // a child that only recovers, killed at it
      std::fflush(nullptr);
      const pid_t child = ::fork();
      ASSERT_GE(child, 0) << std::strerror(errno);
      if (child == 0) {
        std::unique_ptr<DB> db;
        (void)DB::Open(options_, dir_.Sub("store"), &db).ok();
        ::_exit(0);
      }
      ::usleep(static_cast<useconds_t>(random.Uniform(3000)));
      ::kill(child, SIGKILL);
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      if (WIFSIGNALED(status)) ProofAddOf(TestNameOf(GetParam().layout.engine), "kills", 1);
    }
    ASSERT_TRUE(VerifyRound(seed + round));
  }
}

// What a killed process left unfinished is nothing that was lost.
TEST_P(KillTest, ARepairAfterAKillKeepsAllAndSaysSo) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  for (uint64_t round = 0; round < 8; round++) {
    SCOPED_TRACE(Concat("round ", round));
    RunAndKill(seed + round, random.Uniform(40000), false);
    if (HasFatalFailure()) return;
    RepairReport report;
    const Status s = RepairDB(dir_.Sub("store"), options_, &report);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(report.records_lost, 0u);
    for (const std::string& note : report.notes) ADD_FAILURE() << note;
    ASSERT_TRUE(VerifyRound(seed + round));
  }
}

// The negative control: a store that lacks one acknowledged write, or has one too many, does not
// pass.
TEST_P(KillTest, ALostOrInventedWriteIsNoticed) {
  constexpr uint64_t kSeed = 1;
  constexpr uint64_t kAcknowledged = 60;
  const auto write_all_but = [&](uint64_t missing, bool extra) {
    EXPECT_TRUE(DestroyDB(dir_.Sub("store"), options_).ok());
    for (State& state : states_) state.clear();
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options_, dir_.Sub("store"), &db).ok());
    for (uint32_t writer = 0; writer < kWriters; writer++) {
      for (uint64_t number = 0; number < kAcknowledged; number++) {
        if (writer == 0 && number == missing) continue;
        ASSERT_TRUE(Operation(kSeed, writer, number).WriteTo(db.get()).ok());
      }
      progress_->acknowledged[writer].store(kAcknowledged);
    }
    if (extra) {
      ASSERT_TRUE(db->Put({}, "writer1-invented", "").ok());
    }
  };
  write_all_but(kAcknowledged, false);
  EXPECT_TRUE(VerifyRound(kSeed));
  write_all_but(kAcknowledged, true);
  EXPECT_FALSE(VerifyRound(kSeed));
  int noticed = 0;
  for (uint64_t missing = kAcknowledged - 10; missing < kAcknowledged; missing++) {
    write_all_but(missing, false);
    if (!VerifyRound(kSeed)) noticed++;
  }
  EXPECT_GE(noticed, 5)
      << "a lost delete of no key, or a write that was overwritten, cannot be noticed";
}

}  // namespace
}  // namespace lamella::testing
